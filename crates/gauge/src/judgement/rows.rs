//! The rows of a judgement: a system under a workload, all rounds together.

use super::judge::Case;
use super::trials::{Judged, Trials};
use crate::criterion::CRITERIA;
use crate::results::Report;
use crate::results::report::{Latency, Measurement};
use crate::results::{Effect, FailedTrial, Figure, Name, OperationRow, Planned, Row, Search, Verdict};
use crate::stats::Estimate;
use crate::verdict;
use crate::verdict::words::number;

/// Where a trial lasts so long, and not so many requests, a slower system completes fewer, and a random pace makes now more, now fewer: the system that
/// all are measured against must have this many times the samples, so that the others have enough.
const ROOM: u64 = 2;

/// The percentile that a workload is compared by: the highest for which every valid trial of the system that all are measured against has the samples. It
/// does not depend on the other systems, so that adding one changes nothing.
pub(super) fn tail_percentile(trials: &[&Judged<'_>], planned: &Planned) -> Option<f64> {
    let fewest = trials.iter().filter_map(|judged| judged.report()?.total.latency.as_ref()?.count).min()?;
    let room = if planned.requests.is_some() { 1 } else { ROOM };
    [99.0, 95.0, 90.0, 50.0].into_iter().find(|percentile| fewest >= verdict::needed(*percentile) * room)
}

/// A row, from its trials and their costs.
pub(super) fn row(case: &Case<'_>, system: &str, workload: &str) -> Row {
    let judged = case.trials.row(system, workload);
    let plan = case.results.workloads.iter().find(|plan| plan.name == workload);
    let used: Vec<&Report> = judged.iter().filter_map(|judged| judged.report()).collect();
    let total = pool(used.iter().map(|report| &report.total));
    // What went wrong went wrong, whether its round counts or not.
    let all = pool(judged.iter().filter_map(|judged| judged.trial.report.as_ref()).map(|report| &report.total));
    let requested: Vec<f64> = used.iter().filter_map(|report| report.total.rate.requested).collect();
    let valid: Vec<&&Judged<'_>> = judged.iter().filter(|judged| judged.used).collect();
    let figures = CRITERIA.iter().filter_map(|criterion| {
        let costs: Vec<f64> = case.costs(workload, criterion, system)?.values().copied().collect();
        let estimate = Estimate::of(&costs)?.map(|cost| criterion.value(cost));
        Some(Figure { criterion: criterion.name.to_owned(), estimate })
    });
    let failed = |judged: &&&Judged<'_>| Some(FailedTrial { round: judged.trial.round, why: judged.failed.clone()? });
    Row {
        system: system.to_owned(),
        workload: workload.to_owned(),
        rounds: valid.iter().map(|judged| judged.trial.round).collect(),
        failed: valid.iter().filter_map(failed).collect(),
        verdicts: verdicts(&judged, &total),
        responses: all.responses,
        error_rate: all.error_rate(),
        figures: figures.collect(),
        percentile: case.percentiles.get(workload).copied(),
        added_ms: case.added(workload, system),
        requested_rate: crate::stats::median(&requested),
        latency: total.latency.as_ref().map(suffices),
        search_failed: counted_searches(&case.trials, system, workload).find_map(|search| search.failed.clone()),
        operations: operations(&used),
        phases: plan.map_or_else(Vec::new, |plan| super::phases::rows(plan, &judged)),
    }
}

/// The searches of a row in the rounds that count.
pub(super) fn counted_searches<'t>(
    trials: &'t Trials<'_>,
    system: &'t str,
    workload: &'t str,
) -> impl Iterator<Item = &'t Search> {
    searches(trials, system, workload).filter(|search| trials.counts(workload, search.round))
}

/// The searches of a row, whether their rounds count or not.
pub(super) fn searches<'t>(
    trials: &'t Trials<'_>,
    system: &'t str,
    workload: &'t str,
) -> impl Iterator<Item = &'t Search> {
    trials.results.searches.iter().filter(move |search| search.system == system && search.workload == workload)
}

/// Measurements of several rounds as one.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) responses: u64,
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
        pool.responses += measurement.requests.responses.unwrap_or(0);
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
pub(super) fn suffices(latency: &Latency) -> Latency {
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
                responses: total.responses,
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

/// The findings of a row: what its trials have in common, and its own number of samples.
fn verdicts(trials: &[&Judged<'_>], total: &Pool) -> Vec<Verdict> {
    let judged: Vec<_> = trials.iter().filter(|judged| judged.trial.report.is_some()).collect();
    let mut verdicts = Vec::new();
    for name in Name::ALL.iter().copied() {
        if name == Name::FewSamples {
            // All rounds together may have enough.
            verdicts.extend(few_samples(total).map(|evidence| Verdict { name, evidence }));
            continue;
        }
        let of = |judged: &&&&Judged<'_>| judged.verdicts.iter().any(|verdict| verdict.name == name);
        let rounds: Vec<String> = judged.iter().filter(of).map(|judged| judged.trial.round.to_string()).collect();
        let mut found = judged.iter().flat_map(|judged| &judged.verdicts).filter(|verdict| verdict.name == name);
        let Some(first) = found.next() else { continue };
        // That a limit was near in a few rounds is not what the row is about.
        let always = name.effect() != Effect::Remark || matches!(name, Name::Errors | Name::ErrorsUnmeasured);
        if !always && rounds.len() * 2 <= judged.len() {
            continue;
        }
        let evidence = if judged.len() == 1 {
            first.evidence.clone()
        } else {
            let (of, all) = (rounds.len(), judged.len());
            format!("in {of} of {all} rounds ({}), first: {}", rounds.join(", "), first.evidence)
        };
        verdicts.push(Verdict { name, evidence });
    }
    verdicts
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
