//! The rows of a judgement: a system under a workload, all rounds together.

use std::collections::BTreeMap;

use super::rounds::{Judged, Runs, left_out};
use super::{OperationRow, Row, Tail};
use crate::campaign::results::{Planned, Search, Usage};
use crate::load::Report;
use crate::load::report::{Latency, Measurement};
use crate::stats::Estimate;
use crate::verdict::words::number;
use crate::verdict::{self, Name, Verdict};

/// A figure by round.
pub(super) type Series = BTreeMap<u32, f64>;

/// The figures of a row, round by round.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) rate: Series,
    pub(super) tail_ms: Series,
    pub(super) cpu_us: Series,
    pub(super) upstream_cpu_us: Series,
    pub(super) rss: Series,
    pub(super) upstream_rss: Series,
    pub(super) highest_rate: Series,
}

/// Where a run lasts so long, and not so many requests, a slower system answers fewer, and a random pace makes now more, now fewer: the lane that all are
/// measured against must have this many times the samples, so that the others have enough.
const ROOM: u64 = 2;

/// The percentile that a workload is compared by: the highest for which every run of the lane that all are measured against has the samples. It does
/// not depend on the gateways, so that adding one changes nothing.
pub(super) fn tail_percentile(runs: &[&Judged<'_>], planned: &Planned) -> Option<f64> {
    let fewest = runs.iter().filter_map(|judged| judged.used()?.total.latency.as_ref()?.count).min()?;
    let room = if planned.requests.is_some() { 1 } else { ROOM };
    [99.0, 95.0, 90.0, 50.0].into_iter().find(|percentile| fewest >= verdict::needed(*percentile) * room)
}

/// A percentile of a distribution, if it has the samples.
pub(crate) fn percentile(latency: &Latency, percentile: f64) -> Option<f64> {
    if latency.count? < verdict::needed(percentile) {
        return None;
    }
    match percentile {
        99.0 => latency.p99_ms,
        95.0 => latency.p95_ms,
        90.0 => latency.p90_ms,
        _ => latency.p50_ms,
    }
}

/// The rounds that count and have too few answers for the percentile, with how many they have.
pub(super) fn too_few(runs: &[&Judged<'_>], tail: Option<f64>) -> Vec<(u32, u64)> {
    let Some(tail) = tail else { return Vec::new() };
    let count = |report: &Report| report.total.latency.as_ref().and_then(|latency| latency.count).unwrap_or(0);
    let used = runs.iter().filter_map(|judged| Some((judged.run.round, count(judged.used()?))));
    used.filter(|(_, count)| *count < verdict::needed(tail)).collect()
}

/// CPU time over answers, microseconds.
pub(crate) fn cpu_us(usage: Option<&Usage>, report: &Report) -> Option<f64> {
    let cpu_s = verdict::cpu_s(usage?)?;
    let answered = report.total.requests.answered.filter(|answered| *answered > 0)?;
    Some(cpu_s * 1e6 / answered as f64).filter(|us| *us > 0.0)
}

/// The figures of a row, round by round.
pub(super) fn figures(runs: &[&Judged<'_>], searches: &[&Search], tail: Option<f64>) -> Figures {
    let mut figures = Figures::default();
    for judged in runs {
        let round = judged.run.round;
        let put = |series: &mut Series, value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) {
                series.insert(round, value);
            }
        };
        if let Some(report) = judged.used() {
            let latency = report.total.latency.as_ref();
            put(&mut figures.rate, report.total.rate.achieved);
            put(&mut figures.tail_ms, tail.and_then(|tail| percentile(latency?, tail)));
        }
        let Some(report) = judged.cpu_used() else { continue };
        let observed = judged.run.observed.as_ref();
        let system = observed.and_then(|observed| observed.system.as_ref());
        let upstream = observed.and_then(|observed| observed.upstream.as_ref());
        put(&mut figures.cpu_us, cpu_us(system, report));
        put(&mut figures.upstream_cpu_us, cpu_us(upstream, report));
        let rss = |usage: Option<&Usage>| usage.and_then(|usage| usage.rss_peak_bytes).map(|bytes| bytes as f64);
        put(&mut figures.rss, rss(system));
        put(&mut figures.upstream_rss, rss(upstream));
    }
    for search in searches {
        if let Some(highest) = search.highest.filter(|highest| *highest > 0.0) {
            figures.highest_rate.insert(search.round, highest);
        }
    }
    figures
}

fn estimate(series: &Series) -> Option<Estimate> {
    Estimate::of(&series.values().copied().collect::<Vec<_>>())
}

/// A row, from its runs and their figures; `direct` are those of the lane without a gateway, for what is added to it.
pub(super) fn row(
    runs: &Runs<'_>,
    system: &str,
    workload: &str,
    own: &Figures,
    direct: Option<&Figures>,
    tail: Option<f64>,
) -> Row {
    let judged = runs.row(system, workload);
    let used: Vec<&Report> = judged.iter().filter_map(|judged| judged.used()).collect();
    let total = pool(used.iter().map(|report| &report.total));
    // What went wrong went wrong, whether its round counts or not.
    let all = pool(judged.iter().filter_map(|judged| judged.run.report.as_ref()).map(|report| &report.total));
    let added = direct.and_then(|direct| {
        let pairs = own.tail_ms.iter().filter_map(|(round, ms)| Some(ms - direct.tail_ms.get(round)?));
        Estimate::of(&pairs.collect::<Vec<_>>())
    });
    let is_direct = runs.direct == Some(system);
    let requested: Vec<f64> = used.iter().filter_map(|report| report.total.rate.requested).collect();
    let searches = searches(runs, system, workload);
    Row {
        system: system.to_owned(),
        workload: workload.to_owned(),
        rounds: judged.iter().filter(|judged| judged.used().is_some()).map(|judged| judged.run.round).collect(),
        unreadable: judged.iter().filter(|judged| judged.kept()).map(|judged| judged.run.round).collect(),
        left_out: left_out(&judged),
        verdicts: verdicts(&judged, &total),
        answered: all.answered,
        error_rate: all.error_rate(),
        rate: estimate(&own.rate),
        requested_rate: crate::stats::median(&requested),
        latency: total.latency.as_ref().map(suffices),
        tail: estimate(&own.tail_ms).zip(tail).map(|(value_ms, percentile)| Tail {
            percentile,
            value_ms,
            added_ms: if is_direct { None } else { added },
        }),
        cpu_us_per_request: estimate(&own.cpu_us),
        upstream_cpu_us_per_request: estimate(&own.upstream_cpu_us),
        rss_peak_bytes: estimate(&own.rss),
        highest_rate: estimate(&own.highest_rate),
        search_failed: searches.iter().find_map(|search| search.failed.clone()),
        operations: operations(&used),
    }
}

/// The searches of a row.
pub(super) fn searches<'r>(runs: &Runs<'r>, system: &str, workload: &str) -> Vec<&'r Search> {
    runs.results.searches.iter().filter(|search| search.system == system && search.workload == workload).collect()
}

/// Measurements of several rounds as one.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) answered: u64,
    ended: u64,
    errors: Option<u64>,
    pub(super) rate: Option<f64>,
    pub(super) duration_s: f64,
    pub(super) latency: Option<Latency>,
}

impl Pool {
    pub(super) fn error_rate(&self) -> Option<f64> {
        self.errors.filter(|_| self.ended > 0).map(|errors| errors as f64 / self.ended as f64)
    }
}

/// Counts add up, distributions merge, the rate is the mean.
pub(super) fn pool<'m>(measurements: impl Iterator<Item = &'m Measurement>) -> Pool {
    let mut pool = Pool { errors: Some(0), ..Pool::default() };
    let (mut rates, mut count) = (0.0, 0_u32);
    let mut latencies = Vec::new();
    for measurement in measurements {
        pool.answered += measurement.requests.answered.unwrap_or(0);
        pool.ended += measurement.ended().unwrap_or(0);
        pool.errors = pool.errors.zip(measurement.errors.total).map(|(sum, errors)| sum + errors);
        pool.duration_s += measurement.duration_s.unwrap_or(0.0);
        if let Some(rate) = measurement.rate.achieved {
            rates += rate;
            count += 1;
        }
        latencies.extend(&measurement.latency);
    }
    pool.latency = together(&latencies);
    pool.rate = (count > 0).then(|| rates / f64::from(count));
    if pool.ended == 0 {
        pool.errors = None;
    }
    pool
}

/// Distributions as one. Percentiles of generators that keep no histogram cannot be merged: there it is the median over the rounds, figure by figure.
fn together(all: &[&Latency]) -> Option<Latency> {
    let (first, rest) = all.split_first()?;
    let merged = rest.iter().try_fold((*first).clone(), |sum, next| sum.merge(next));
    let median = |figure: fn(&Latency) -> Option<f64>| {
        let values: Vec<f64> = all.iter().filter_map(|latency| figure(latency)).collect();
        if values.len() == all.len() { crate::stats::median(&values) } else { None }
    };
    let fold = |figure: fn(&Latency) -> Option<f64>, best: fn(f64, f64) -> f64| {
        all.iter().map(|latency| figure(latency)).reduce(|a, b| Some(best(a?, b?))).flatten()
    };
    Some(merged.unwrap_or_else(|| Latency {
        count: all.iter().map(|latency| latency.count).sum(),
        min_ms: fold(|latency| latency.min_ms, f64::min),
        mean_ms: median(|latency| latency.mean_ms),
        stdev_ms: median(|latency| latency.stdev_ms),
        max_ms: fold(|latency| latency.max_ms, f64::max),
        p50_ms: median(|latency| latency.p50_ms),
        p75_ms: median(|latency| latency.p75_ms),
        p90_ms: median(|latency| latency.p90_ms),
        p95_ms: median(|latency| latency.p95_ms),
        p99_ms: median(|latency| latency.p99_ms),
        p999_ms: median(|latency| latency.p999_ms),
        histogram: None,
        samples_ns: None,
    }))
}

/// A distribution as it is shown: without its histogram, and with no percentile that it has too few samples for.
fn suffices(latency: &Latency) -> Latency {
    let count = latency.count.unwrap_or(0);
    let keep = |value: Option<f64>, percentile: f64| value.filter(|_| count >= verdict::needed(percentile));
    Latency {
        p50_ms: latency.p50_ms,
        p75_ms: keep(latency.p75_ms, 90.0),
        p90_ms: keep(latency.p90_ms, 90.0),
        p95_ms: keep(latency.p95_ms, 95.0),
        p99_ms: keep(latency.p99_ms, 99.0),
        p999_ms: keep(latency.p999_ms, 99.9),
        histogram: None,
        samples_ns: None,
        ..latency.clone()
    }
}

fn operations(reports: &[&Report]) -> Vec<OperationRow> {
    let mut names: Vec<&str> = Vec::new();
    for operation in reports.iter().flat_map(|report| &report.operations) {
        if !names.contains(&operation.name.as_str()) {
            names.push(&operation.name);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let total = pool(of_operation(reports, name));
            OperationRow {
                name: name.to_owned(),
                answered: total.answered,
                error_rate: total.error_rate(),
                rate: total.rate,
                latency: total.latency.as_ref().map(suffices),
            }
        })
        .collect()
}

/// What was measured of an operation in each report.
pub(super) fn of_operation<'r>(reports: &[&'r Report], name: &str) -> impl Iterator<Item = &'r Measurement> {
    reports
        .iter()
        .flat_map(|report| &report.operations)
        .filter(move |operation| operation.name == name)
        .map(|operation| &operation.total)
}

/// What is wrong with a row: what its runs have in common, and its own number of samples.
fn verdicts(runs: &[&Judged<'_>], total: &Pool) -> Vec<Verdict> {
    let judged: Vec<_> = runs.iter().filter(|judged| judged.run.report.is_some()).collect();
    let mut verdicts = Vec::new();
    for name in Name::ALL {
        if name == Name::FewSamples {
            // All rounds together may have enough.
            verdicts.extend(few_samples(total).map(|evidence| Verdict { name, evidence }));
            continue;
        }
        let with: Vec<(u32, &Verdict)> = judged
            .iter()
            .filter_map(|judged| Some((judged.run.round, judged.verdicts.iter().find(|verdict| verdict.name == name)?)))
            .collect();
        // What voids a run, and what went wrong, is told of however few; that a limit was near in a few rounds is not what the row is about.
        let always = name.voids_run() || name.voids_times() || matches!(name, Name::Errors | Name::ErrorsUnmeasured);
        let Some((_, example)) = with.first() else { continue };
        if !always && !fell_short(name, &judged) && with.len() * 2 <= judged.len() {
            continue;
        }
        let evidence = if judged.len() == 1 {
            example.evidence.clone()
        } else {
            let rounds: Vec<String> = with.iter().map(|(round, _)| number(f64::from(*round))).collect();
            format!("in {} of {} rounds ({}), first: {}", with.len(), judged.len(), rounds.join(", "), example.evidence)
        };
        verdicts.push(Verdict { name, evidence });
    }
    verdicts
}

/// Whether a rate was not kept in a round in which nothing was wrong with the machine: one is enough.
fn fell_short(name: Name, runs: &[&&Judged<'_>]) -> bool {
    name == Name::RateNotAchieved
        && runs
            .iter()
            .filter(|judged| judged.used().is_some() && !judged.kept())
            .any(|judged| judged.verdicts.iter().any(|verdict| verdict.name == name))
}

/// The percentiles that a row has too few samples for. They are not shown.
fn few_samples(total: &Pool) -> Option<String> {
    let count = total.latency.as_ref()?.count?;
    let missing: Vec<String> = [90.0, 95.0, 99.0]
        .into_iter()
        .filter(|percentile| count < verdict::needed(*percentile))
        .map(|percentile| format!("p{} ({})", number(percentile), number(verdict::needed(percentile) as f64)))
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "{} samples over all rounds are too few for {}, which {} not shown",
            number(count as f64),
            missing.join(", "),
            if missing.len() == 1 { "is" } else { "are" }
        )
    })
}
