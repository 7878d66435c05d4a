//! Statistics over rounds.

use serde::{Deserialize, Serialize};

/// A figure over rounds: the median, with an interval that holds 95 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median over the rounds.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Rounds.
    pub rounds: u32,
}

/// Two systems, by the ratios of a figure in the same rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The first over the second: median, with its interval.
    pub ratio: Estimate,
    /// How probable such ratios are when there is no difference.
    pub p: f64,
    /// The ratio that the A/A twin reached without a difference; one below it is not declared. 1: no twin.
    pub guard: f64,
    /// Whether there is a difference.
    pub declared: bool,
}
