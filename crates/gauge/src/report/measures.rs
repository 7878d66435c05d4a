//! What is shown of every system beside the criteria: rate, latencies, errors, and CPU and memory of a request, with intervals over the rounds.

use super::view::{number, percent, time};
use crate::results::{Judgement, Results, Row, Trial, TrialState};
use crate::stats::Estimate;
use crate::verdict::{cpu_s, needed};

/// Something that is measured in each trial.
pub(super) struct Measure {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    of: fn(&Trial) -> Option<f64>,
    pub(super) words: fn(f64) -> String,
}

pub(super) const RATE: Measure = Measure {
    title: "requests/s",
    about: "Responses per second.",
    of: |trial| trial.report.as_ref()?.total.rate.achieved,
    words: |rate| format!("{}/s", number(rate)),
};

const MEAN: Measure = Measure {
    title: "mean latency",
    about: "Mean latency of all responses.",
    of: |trial| trial.report.as_ref()?.total.latency.as_ref()?.mean_ms,
    words: time,
};

const P50: Measure = Measure {
    title: "p50",
    about: "Half of the responses come within it.",
    of: |trial| trial.report.as_ref()?.total.latency.as_ref()?.p50_ms,
    words: time,
};

const P95: Measure = Measure {
    title: "p95",
    about: "95 % of the responses come within it; left out where a trial has too few responses.",
    of: |trial| {
        let latency = trial.report.as_ref()?.total.latency.as_ref()?;
        latency.p95_ms.filter(|_| latency.count.is_some_and(|count| count >= needed(95.0)))
    },
    words: time,
};

pub(super) const P99: Measure = Measure {
    title: "p99",
    about: "99 % of the responses come within it; left out where a trial has too few responses.",
    of: |trial| {
        let latency = trial.report.as_ref()?.total.latency.as_ref()?;
        latency.p99_ms.filter(|_| latency.count.is_some_and(|count| count >= needed(99.0)))
    },
    words: time,
};

pub(super) const CPU: Measure = Measure {
    title: "CPU/request",
    about: "CPU time of all processes of the system over its responses.",
    of: |trial| {
        let seconds = cpu_s(trial.observed.as_ref()?.system.as_ref()?)?;
        Some(seconds * 1e3 / responses(trial)?)
    },
    words: time,
};

pub(super) const MEMORY: Measure = Measure {
    title: "memory/request",
    about: "Mean memory (PSS, else RSS) in megabytes, times the seconds, over the responses.",
    of: |trial| {
        let bytes = trial.observed.as_ref()?.system.as_ref()?.memory_mean()?;
        Some(bytes / 1e6 * trial.report.as_ref()?.total.duration_s? / responses(trial)?)
    },
    words: |value| format!("{value:.4} MB·s"),
};

/// Those that have a chart each; of errors see [`errors`].
pub(super) const CHARTS: [Measure; 7] = [RATE, MEAN, P50, P95, P99, CPU, MEMORY];

fn responses(trial: &Trial) -> Option<f64> {
    trial.report.as_ref()?.total.requests.responses.filter(|responses| *responses > 0).map(|responses| responses as f64)
}

impl Measure {
    /// Over the valid rounds in which no trial failed; none unless each of these measured it: slow rounds have the fewest responses.
    pub(super) fn estimate(
        &self,
        results: &Results,
        judgement: &Judgement,
        system: &str,
        workload: &str,
    ) -> Option<Estimate> {
        let own = results.trials.iter().zip(&judgement.trials).filter(|(trial, judged)| {
            judged.used
                && judged.failed.is_none()
                && trial.state == TrialState::Done
                && (trial.system.as_str(), trial.workload.as_str()) == (system, workload)
        });
        let values: Option<Vec<f64>> = own.map(|(trial, _)| (self.of)(trial).filter(|value| *value > 0.0)).collect();
        Estimate::of_positive(&values?)
    }
}

/// Errors of a row, all rounds together: a share of nothing has no ratio, and so no interval.
pub(super) fn errors(row: &Row) -> Option<Estimate> {
    let value = row.error_rate?;
    Some(Estimate { value, low: None, high: None, rounds: u32::try_from(row.rounds.len()).unwrap_or(u32::MAX) })
}

/// Errors in words.
pub(super) const ERRORS: (&str, &str, fn(f64) -> String) =
    ("errors", "Share of all requests that went wrong, all rounds together.", percent);
