//! Whether a campaign's figures pass the thresholds of its evaluation. Reports and the exit code of `gauge run` go by the same outcomes.

use std::cmp::Reverse;

use super::trials::Trials;
use crate::results::{
    Check, Judgement, Metric, Operator, Outcome, Reason, Results, Row, Subject, System, SystemOutcome, SystemState,
    Threshold,
};
use crate::verdict::words::{number, percent, time};

/// What services must keep where their evaluation has no limits of its own.
fn defaults() -> Vec<Threshold> {
    let above = |metric, limit, written: &str| Threshold {
        metric,
        operator: Operator::Above,
        limit,
        written: written.to_owned(),
    };
    vec![above(Metric::P95, 2_000.0, ">2s"), above(Metric::P99, 5_000.0, ">5s"), above(Metric::Errors, 0.05, ">5%")]
}

/// What the systems of a campaign come to, in the order of the evaluation; empty where nothing is required of them.
pub(super) fn outcomes(results: &Results, trials: &Trials<'_>, rows: &[Row]) -> Vec<SystemOutcome> {
    let is_default = results.fail.is_empty();
    let limits = match results.subject() {
        _ if !is_default => results.fail.clone(),
        Subject::Services => defaults(),
        Subject::Gateways | Subject::Systems => return Vec::new(),
    };
    let case = Limits { results, trials, rows, limits, is_default };
    let compared = results.systems.iter().filter(|system| system.role.is_compared());
    compared.map(|system| case.system(system)).collect()
}

/// What fails a run, a line each: a threshold that is crossed, and one of the evaluation's own that could not be checked. What was not measured has not passed.
pub fn failures(judgement: &Judgement) -> Vec<String> {
    let lines = |one: &SystemOutcome| {
        let failed = one.why.iter().filter(|why| why.outcome == Outcome::Fail);
        failed.map(|why| format!("{}{}", one.system, why.text)).collect::<Vec<_>>()
    };
    judgement.outcomes.iter().flat_map(lines).collect()
}

struct Limits<'c, 'r> {
    results: &'r Results,
    trials: &'c Trials<'r>,
    rows: &'c [Row],
    limits: Vec<Threshold>,
    is_default: bool,
}

impl Limits<'_, '_> {
    /// What is not measured fails a limit that somebody has set, and is a warning beside one that nobody has.
    fn unmeasured(&self) -> Outcome {
        if self.is_default { Outcome::Warn } else { Outcome::Fail }
    }

    fn system(&self, system: &System) -> SystemOutcome {
        let mut one = SystemOutcome { system: system.name.clone(), ..SystemOutcome::default() };
        let state = match &system.state {
            SystemState::Ready => None,
            SystemState::NotHere(_) => Some((self.unmeasured(), "its program is not here")),
            SystemState::NotSupported(_) => Some((self.unmeasured(), "it is not supported")),
            SystemState::Failed(_) => Some((Outcome::Fail, "it failed")),
            SystemState::NotConforming => Some((Outcome::Fail, self.results.subject().not_conforming())),
        };
        match state {
            Some((outcome, why)) => one.why.push(Reason { outcome, text: format!(": not checked: {why}") }),
            None => self.results.workloads.iter().for_each(|workload| self.workload(&mut one, &workload.name)),
        }
        one.why.sort_by_key(|why| Reverse(why.outcome));
        one.outcome = one.why.iter().map(|why| why.outcome).max().unwrap_or_default();
        one
    }

    fn workload(&self, one: &mut SystemOutcome, workload: &str) {
        let row = self.rows.iter().find(|row| row.system == one.system && row.workload == workload);
        let failed = row.map_or(0, |row| row.failed.len());
        if failed > 0 {
            let text = format!(" under {workload}: {failed} trials failed");
            one.why.push(Reason { outcome: Outcome::Fail, text });
        }
        for threshold in &self.limits {
            let name = threshold.metric.name();
            let figure = row.and_then(|row| self.figure(row, threshold.metric));
            let (outcome, why) = match figure {
                Some(figure) if threshold.is_met_by(figure) => {
                    let words = words(threshold.metric, figure);
                    (Outcome::Fail, format!("{name} is {words}, and {name}{} fails", threshold.written))
                }
                Some(_) => (Outcome::Pass, String::new()),
                None => {
                    let why = "no valid round measured it, or too few responses";
                    (self.unmeasured(), format!("{name} not checked: {why}"))
                }
            };
            if outcome > Outcome::Pass {
                one.why.push(Reason { outcome, text: format!(" under {workload}: {why}") });
            }
            let (workload, threshold) = (workload.to_owned(), threshold.clone());
            one.checks.push(Check { workload, threshold, figure, outcome });
        }
        let findings: Vec<&str> =
            row.iter().flat_map(|row| &row.verdicts).map(|verdict| verdict.name.as_str()).collect();
        if !findings.is_empty() {
            let text = format!(" under {workload}: validity findings: {}", findings.join(", "));
            one.why.push(Reason { outcome: Outcome::Warn, text });
        }
    }

    fn figure(&self, row: &Row, metric: Metric) -> Option<f64> {
        let latency = row.latency.as_ref();
        match metric {
            Metric::P50 => latency?.p50_ms,
            Metric::P90 => latency?.p90_ms,
            Metric::P95 => latency?.p95_ms,
            Metric::P99 => latency?.p99_ms,
            Metric::Mean => latency?.mean_ms,
            Metric::Errors => row.error_rate,
            Metric::Rate => {
                let own = self.trials.row(&row.system, &row.workload).into_iter().filter(|judged| judged.used);
                let rates: Vec<f64> =
                    own.filter_map(|judged| judged.trial.report.as_ref()?.total.rate.achieved).collect();
                (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
            }
        }
    }
}

/// A figure of a threshold as it is printed.
pub fn words(metric: Metric, figure: f64) -> String {
    match metric {
        Metric::Errors => percent(figure),
        Metric::Rate => format!("{}/s", number(figure)),
        _ => time(figure),
    }
}
