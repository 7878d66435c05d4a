//! `results.csv`: one line for each run. What was not measured is empty.

use crate::campaign::Results;
use crate::campaign::results::RunState;
use crate::judgement::{Judgement, cpu_us};
use crate::load::report::Latency;
use crate::verdict::cpu_s;

const COLUMNS: [&str; 32] = [
    "id",
    "round",
    "place",
    "system",
    "workload",
    "state",
    "used",
    "cpu_used",
    "verdicts",
    "duration_s",
    "requested_rate",
    "achieved_rate",
    "answered",
    "errors",
    "dropped",
    "latency_count",
    "min_ms",
    "mean_ms",
    "stdev_ms",
    "max_ms",
    "p50_ms",
    "p90_ms",
    "p95_ms",
    "p99_ms",
    "p999_ms",
    "generator_lag_p99_ms",
    "cpu_user_s",
    "cpu_system_s",
    "cpu_us_per_request",
    "rss_peak_bytes",
    "upstream_cpu_s",
    "steal",
];

pub(super) fn table(results: &Results, judgement: &Judgement) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail, and all lines are equally long.
    let _ = writer.write_record(COLUMNS);
    for (run, judged) in results.runs.iter().zip(&judgement.runs) {
        let total = run.report.as_ref().map(|report| &report.total);
        let latency = total.and_then(|total| total.latency.as_ref());
        let ms = |figure: fn(&Latency) -> Option<f64>| text(latency.and_then(figure));
        let observed = run.observed.as_ref();
        let system = observed.and_then(|observed| observed.system.as_ref());
        let per_request = run.report.as_ref().and_then(|report| cpu_us(system, report));
        let verdicts: Vec<&str> = judged.verdicts.iter().map(|verdict| verdict.name.as_str()).collect();
        let _ = writer.write_record([
            run.id.clone(),
            run.round.to_string(),
            run.place.to_string(),
            run.system.clone(),
            run.workload.clone(),
            state(&run.state).to_owned(),
            judged.used.to_string(),
            judged.cpu_used.to_string(),
            verdicts.join(" "),
            text(total.and_then(|total| total.duration_s)),
            text(total.and_then(|total| total.rate.requested)),
            text(total.and_then(|total| total.rate.achieved)),
            text(total.and_then(|total| total.requests.answered)),
            text(total.and_then(|total| total.errors.total)),
            text(total.and_then(|total| total.requests.dropped)),
            text(latency.and_then(|latency| latency.count)),
            ms(|latency| latency.min_ms),
            ms(|latency| latency.mean_ms),
            ms(|latency| latency.stdev_ms),
            ms(|latency| latency.max_ms),
            ms(|latency| latency.p50_ms),
            ms(|latency| latency.p90_ms),
            ms(|latency| latency.p95_ms),
            ms(|latency| latency.p99_ms),
            ms(|latency| latency.p999_ms),
            text(total.and_then(|total| total.generator_lag.as_ref()?.p99_ms)),
            text(system.and_then(|usage| usage.user_s)),
            text(system.and_then(|usage| usage.system_s)),
            text(per_request),
            text(system.and_then(|usage| usage.rss_peak_bytes)),
            text(observed.and_then(|observed| cpu_s(observed.upstream.as_ref()?))),
            text(observed.and_then(|observed| observed.machine.steal)),
        ]);
    }
    writer.into_inner().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

pub(super) fn state(state: &RunState) -> &'static str {
    match state {
        RunState::Planned => "planned",
        RunState::Starting => "starting",
        RunState::Warming => "warming",
        RunState::Measuring => "measuring",
        RunState::Done => "done",
        RunState::Failed(_) => "failed",
        RunState::Aborted(_) => "aborted",
    }
}
