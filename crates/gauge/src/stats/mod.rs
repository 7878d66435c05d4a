//! Statistics over rounds. There is one estimand and one method: the Hodges-Lehmann estimate over rounds, with the exact interval and the exact
//! p value of Wilcoxon's signed-rank test, and the Benjamini-Hochberg procedure over all that is tested together.
//!
//! - J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank tests", 1963: the median of the means of all pairs of values, each value
//!   paired with itself too (Walsh averages). It assumes symmetry about the centre, no other shape; a tenth of wild values moves it little.
//! - The interval is the range of the Walsh averages that the signed-rank test would not reject (M. Hollander and D. A. Wolfe, "Nonparametric
//!   statistical methods", 1999, section 3.4), so estimate, interval and test cannot contradict each other by method.
//! - Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", 1995.

mod change;
mod random;
mod signed_rank;

use serde::{Deserialize, Serialize};

pub use change::{ChangePoint, LEAST, change_points};
pub use random::Random;
pub use signed_rank::{critical, signed_rank_p};

/// Fewer rounds cannot declare a difference, and have no 95 % interval: with five, even five values on the same side of 0 are chance in 2 of 32 cases.
pub const MIN_ROUNDS: usize = 6;

/// Share of the declared differences that may be none (Benjamini-Hochberg), and the share that an interval may miss.
pub const SIGNIFICANCE: f64 = 0.05;

/// What the scores may take of [`SIGNIFICANCE`]: they are what a campaign decides, so they are tested by themselves, and criteria beside them, however many,
/// take no power from them.
pub const SCORES: f64 = 0.04;

/// What all single criteria together may take of it.
pub const CRITERIA: f64 = SIGNIFICANCE - SCORES;

/// A value worse than any measured one, on the logarithmic scale: a trial that failed. Two of them differ by 0.
pub const WORST: f64 = 1e9;

/// Beyond this, a logarithm stands for a failed trial and is not a figure.
const BOUND: f64 = 1e8;

/// An estimate over rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The Hodges-Lehmann estimate.
    pub value: f64,
    /// Lower end of the 95 % confidence interval (signed-rank); null with fewer rounds than [`MIN_ROUNDS`], and where it has no bound.
    pub low: Option<f64>,
    /// Upper end, likewise.
    pub high: Option<f64>,
    /// Rounds (n).
    pub rounds: u32,
}

/// Two systems, by the ratio of a criterion in the same rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Cost of the first over that of the second: below 1, the first is better.
    pub ratio: Estimate,
    /// How probable such ratios are when there is no difference: exact, two-sided; null where there are too few rounds to test.
    pub p: Option<f64>,
    /// Whether the difference is declared, among all that are tested together.
    pub declared: bool,
}

impl Estimate {
    /// Of one value for each round, on the scale on which they are symmetric; null for none, and where failed trials decide.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
        for (index, value) in values.iter().enumerate() {
            means.extend(values[index..].iter().map(|other| value.midpoint(*other)));
        }
        means.sort_unstable_by(f64::total_cmp);
        let bounded = |value: f64| Some(value).filter(|value| value.abs() < BOUND);
        let value = bounded(middle(&means))?;
        let (low, high) = match critical(values.len()) {
            Some(cut) => (bounded(means[cut]), bounded(means[means.len() - 1 - cut])),
            None => (None, None),
        };
        Some(Estimate { value, low, high, rounds: u32::try_from(values.len()).unwrap_or(u32::MAX) })
    }

    /// Of positive values, by their logarithms.
    pub fn of_positive(values: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        Estimate::of(&logs).map(|logs| logs.map(f64::exp))
    }

    /// The same on another scale, which may fall: the ends then change places.
    #[must_use]
    pub fn map(self, scale: impl Fn(f64) -> f64) -> Self {
        let (low, high) = (self.low.map(&scale), self.high.map(&scale));
        let falls = scale(1.0) < scale(0.0);
        let (low, high) = if falls { (high, low) } else { (low, high) };
        Estimate { value: scale(self.value), low, high, rounds: self.rounds }
    }
}

impl Comparison {
    /// Of the differences of logarithms of cost, one for each round, a failed trial as [`WORST`]; not yet declared: see [`declare`]. Null for no
    /// round, and where one of the two failed in so many that there is no ratio.
    pub fn of(differences: &[f64]) -> Option<Self> {
        let ratio = Estimate::of(differences)?.map(f64::exp);
        let p = (differences.len() >= MIN_ROUNDS).then(|| signed_rank_p(differences));
        Some(Comparison { ratio, p, declared: false })
    }
}

/// Rounds from which on a difference can be declared among so many comparisons: the smallest p value that n rounds can give, 2 / 2^n, is then at most what
/// the Benjamini-Hochberg procedure requires of a single one.
pub fn rounds_to_declare(comparisons: usize, share: f64) -> usize {
    let rounds = 1.0 + (comparisons.max(1) as f64 / share).log2();
    MIN_ROUNDS.max(rounds.ceil() as usize)
}

/// Rounds from which on a difference between the scores of so many systems can be declared.
pub fn rounds_to_declare_scores(systems: usize) -> usize {
    rounds_to_declare(systems * systems.saturating_sub(1) / 2, SCORES)
}

/// Declares differences among all that are tested together, so that at most `share` of the declared ones are expected to be none; the number of
/// comparisons that were tested.
pub fn declare<'c>(comparisons: impl IntoIterator<Item = &'c mut Comparison>, share: f64) -> u32 {
    let mut tested: Vec<(f64, &mut Comparison)> =
        comparisons.into_iter().filter_map(|comparison| Some((comparison.p?, comparison))).collect();
    tested.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let count = tested.len();
    let within = |(rank, (p, _)): &(usize, &(f64, &mut Comparison))| *p <= share * (*rank + 1) as f64 / count as f64;
    let declared = tested.iter().enumerate().rfind(within).map_or(0, |(rank, _)| rank + 1);
    tested.into_iter().take(declared).for_each(|(_, comparison)| comparison.declared = true);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The middle value, or the mean of the two in the middle; null for none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| middle(&sorted))
}

/// Of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    let (lower, upper) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    lower.midpoint(upper)
}

#[cfg(test)]
mod tests;
