//! Figures that fail a run: `fail: {p99: ">50ms"}` of an evaluation.

use serde::{Deserialize, Serialize};

/// A condition that no gateway may meet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// Which figure.
    pub metric: Metric,
    /// Whether more than the limit fails, or less.
    pub operator: Operator,
    /// Milliseconds, a share, or requests per second.
    pub limit: f64,
    /// As the evaluation has it: `>50ms`.
    pub written: String,
}

/// Figures of a gateway under a workload, all rounds together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Latency: half of the responses come within it.
    P50,
    /// 90 % do.
    P90,
    /// 95 % do.
    P95,
    /// 99 % do.
    P99,
    /// Mean latency.
    Mean,
    /// Share of requests that went wrong.
    Errors,
    /// Responses per second, the mean over the rounds.
    Rate,
}

/// How a figure and its limit are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// More than the limit.
    #[serde(rename = ">")]
    Above,
    /// The limit, or more.
    #[serde(rename = ">=")]
    AtLeast,
    /// Less than the limit.
    #[serde(rename = "<")]
    Below,
    /// The limit, or less.
    #[serde(rename = "<=")]
    AtMost,
}

impl Metric {
    /// All of them, by the names that evaluations use.
    pub const ALL: [(&str, Metric); 7] = [
        ("p50", Metric::P50),
        ("p90", Metric::P90),
        ("p95", Metric::P95),
        ("p99", Metric::P99),
        ("mean", Metric::Mean),
        ("errors", Metric::Errors),
        ("rate", Metric::Rate),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Metric::ALL.iter().find(|(_, metric)| *metric == self).map_or("", |(name, _)| name)
    }
}

impl Operator {
    /// All of them as they are written, those that begin alike with the longer one first.
    pub const ALL: [(&str, Operator); 4] =
        [(">=", Operator::AtLeast), ("<=", Operator::AtMost), (">", Operator::Above), ("<", Operator::Below)];
}

impl Threshold {
    /// Whether a figure fails the run.
    pub fn is_met_by(&self, figure: f64) -> bool {
        match self.operator {
            Operator::Above => figure > self.limit,
            Operator::AtLeast => figure >= self.limit,
            Operator::Below => figure < self.limit,
            Operator::AtMost => figure <= self.limit,
        }
    }
}
