//! `results.csv`: one line for each trial, with a column for each criterion. What was not measured is empty.

use crate::criterion::{CRITERIA, Criterion, Measured};
use crate::judgement::used_in_phase;
use crate::results::report::Latency;
use crate::results::{Judgement, Results, Trial, TrialJudgement};
use crate::verdict::cpu_s;

/// What a line is made of.
struct Line<'l> {
    trial: &'l Trial,
    judged: &'l TrialJudgement,
}

impl Line<'_> {
    fn latency(&self, figure: fn(&Latency) -> Option<f64>) -> String {
        text(self.trial.report.as_ref().and_then(|report| figure(report.total.latency.as_ref()?)))
    }
}

type Column = (&'static str, fn(&Line<'_>) -> String);

const COLUMNS: &[Column] = &[
    ("id", |line| line.trial.id.clone()),
    ("round", |line| line.trial.round.to_string()),
    ("place", |line| line.trial.place.to_string()),
    ("system", |line| line.trial.system.clone()),
    ("workload", |line| line.trial.workload.clone()),
    ("state", |line| line.trial.state.name().to_owned()),
    ("used", |line| line.judged.used.to_string()),
    ("failed", |line| line.judged.failed.is_some().to_string()),
    ("repeats", |line| line.trial.repeated.len().to_string()),
    ("verdicts", |line| line.judged.verdicts.iter().map(|verdict| verdict.name.as_str()).collect::<Vec<_>>().join(" ")),
    ("duration_s", |line| text(line.trial.report.as_ref().and_then(|report| report.total.duration_s))),
    ("requested_rate", |line| text(line.trial.report.as_ref().and_then(|report| report.total.rate.requested))),
    ("achieved_rate", |line| text(line.trial.report.as_ref().and_then(|report| report.total.rate.achieved))),
    ("responses", |line| text(line.trial.report.as_ref().and_then(|report| report.total.requests.responses))),
    ("errors", |line| text(line.trial.report.as_ref().and_then(|report| report.total.errors.total))),
    ("dropped", |line| text(line.trial.report.as_ref().and_then(|report| report.total.requests.dropped))),
    ("upstream_requests", |line| {
        text(line.trial.observed.as_ref().and_then(|observed| Some(observed.reached?.requests)))
    }),
    ("latency_count", |line| text(line.trial.report.as_ref().and_then(|report| report.total.latency.as_ref()?.count))),
    ("min_ms", |line| line.latency(|latency| latency.min_ms)),
    ("mean_ms", |line| line.latency(|latency| latency.mean_ms)),
    ("stdev_ms", |line| line.latency(|latency| latency.stdev_ms)),
    ("max_ms", |line| line.latency(|latency| latency.max_ms)),
    ("p50_ms", |line| line.latency(|latency| latency.p50_ms)),
    ("p90_ms", |line| line.latency(|latency| latency.p90_ms)),
    ("p95_ms", |line| line.latency(|latency| latency.p95_ms)),
    ("p99_ms", |line| line.latency(|latency| latency.p99_ms)),
    ("p999_ms", |line| line.latency(|latency| latency.p999_ms)),
    ("generator_lag_p99_ms", |line| {
        text(line.trial.report.as_ref().and_then(|report| report.total.generator_lag.as_ref()?.p99_ms))
    }),
    ("cpu_user_s", |line| text(line.trial.observed.as_ref().and_then(|observed| observed.system.as_ref()?.user_s))),
    ("cpu_system_s", |line| text(line.trial.observed.as_ref().and_then(|observed| observed.system.as_ref()?.system_s))),
    ("upstream_cpu_s", |line| {
        text(line.trial.observed.as_ref().and_then(|observed| cpu_s(observed.upstream.as_ref()?)))
    }),
    ("steal", |line| text(line.trial.observed.as_ref().and_then(|observed| observed.machine.steal))),
];

pub(super) fn table(results: &Results, judgement: &Judgement) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let criteria: Vec<&Criterion> = CRITERIA.iter().filter(|criterion| !criterion.is_searched()).collect();
    let names = COLUMNS.iter().map(|(name, _)| (*name).to_owned());
    // Writing to memory cannot fail, and all lines are equally long.
    let _ = writer.write_record(names.chain(criteria.iter().map(|criterion| criterion.column())));
    for (trial, judged) in results.trials.iter().zip(&judgement.trials) {
        let own = |row: &&crate::results::Row| row.system == trial.system && row.workload == trial.workload;
        let percentile = judgement.rows.iter().find(own).and_then(|row| row.percentile);
        let workload = results.workloads.iter().find(|workload| workload.name == trial.workload);
        let value = |criterion: &&Criterion| {
            text(workload.and_then(|workload| {
                criterion.of_trial(workload, &Measured { trial, percentile, price: results.price })
            }))
        };
        let line = Line { trial, judged };
        let _ = writer.write_record(COLUMNS.iter().map(|(_, of)| of(&line)).chain(criteria.iter().map(value)));
    }
    writer.into_inner().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// `samples.csv`: what each part of a trial used, sample by sample.
pub(super) fn samples(results: &Results) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let head = ["trial", "part", "at_s", "cpu_percent", "pss_bytes", "rss_bytes", "context_switches", "throttled_s"];
    // Writing to memory cannot fail, and all lines are equally long.
    let _ = writer.write_record(head);
    for (trial, observed) in results.trials.iter().filter_map(|trial| Some((trial, trial.observed.as_ref()?))) {
        let parts =
            [("system", &observed.system), ("upstream", &observed.upstream), ("generator", &observed.generator)];
        for (part, usage) in parts.into_iter().filter_map(|(part, usage)| Some((part, usage.as_ref()?))) {
            for sample in &usage.samples {
                let _ = writer.write_record([
                    trial.id.clone(),
                    part.to_owned(),
                    format!("{:.3}", sample.at_s),
                    format!("{:.2}", sample.cpu * 100.0),
                    text(sample.pss_bytes),
                    sample.rss_bytes.to_string(),
                    text(sample.context_switches),
                    text(sample.throttled_s),
                ]);
            }
        }
    }
    writer.into_inner().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// One line for each phase of each trial, warm-ups too.
pub(super) fn phases(results: &Results) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let head = [
        "trial",
        "round",
        "system",
        "workload",
        "mode",
        "payload",
        "phase",
        "measured",
        "target_users",
        "planned_rate",
        "start_s",
        "duration_s",
        "requests",
        "errors",
        "rate",
        "min_ms",
        "mean_ms",
        "p50_ms",
        "p90_ms",
        "p95_ms",
        "p99_ms",
        "max_ms",
        "cpu_percent",
        "memory_bytes",
        "cpu_percent_per_request",
        "memory_mb_per_request",
    ];
    // Writing to memory cannot fail, and all lines are equally long.
    let _ = writer.write_record(head);
    for (trial, report) in results.trials.iter().filter_map(|trial| Some((trial, trial.report.as_ref()?))) {
        let system = trial.observed.as_ref().and_then(|observed| observed.system.as_ref());
        for phase in &report.phases {
            let total = &phase.total;
            let latency = total.latency.clone().unwrap_or_default();
            let used = used_in_phase(system.filter(|_| phase.measured), report, phase);
            let each = used.and_then(|used| used.per_request(total.ended()?));
            let _ = writer.write_record([
                trial.id.clone(),
                trial.round.to_string(),
                trial.system.clone(),
                trial.workload.clone(),
                text(trial.mode.as_ref()),
                text(trial.payload.as_ref()),
                phase.name.clone(),
                phase.measured.to_string(),
                text(total.concurrency),
                text(total.rate.requested),
                format!("{:.3}", phase.start_s),
                text(total.duration_s),
                text(total.ended()),
                text(total.errors.total),
                text(total.rate.achieved),
                text(latency.min_ms),
                text(latency.mean_ms),
                text(latency.p50_ms),
                text(latency.p90_ms),
                text(latency.p95_ms),
                text(latency.p99_ms),
                text(latency.max_ms),
                text(used.map(|used| used.cpu_percent())),
                text(used.map(|used| used.memory_bytes)),
                text(each.map(|(cpu, _)| cpu)),
                text(each.map(|(_, memory)| memory)),
            ]);
        }
    }
    writer.into_inner().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
