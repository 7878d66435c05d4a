//! Statistics over rounds. Campaigns have few rounds (ten), noise with heavy tails, and machines that drift; so everything here is by ranks and by drawing
//! again, nothing assumes a shape, and all ratios are of two systems in the same round.
//!
//! - A figure is the median over rounds, its interval the 2.5th to the 97.5th percentile of the medians of 2,000 draws of the rounds with
//!   replacement (the percentile bootstrap; Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).
//! - A difference is declared by [`compare`], which is built so that it is wrong in no more than 5 % of the cases also for few rounds.
//! - Random numbers come from a fixed seed and a generator of our own: the same rounds give the same figures for ever.

mod draw;
mod paired;
mod signed_rank;

use serde::{Deserialize, Serialize};

pub use draw::{Draws, Random};
pub use paired::{MIN_ROUNDS, SIGNIFICANCE, compare, declared_in_smaller, guard};
pub use signed_rank::signed_rank_p;

/// Draws behind an interval: its ends then move by less than a tenth of its width from seed to seed.
pub const DRAWS: usize = 2_000;

/// Seed of everything drawn.
pub const SEED: u64 = 0x5eed_0f61_7567_6531;

/// A figure over rounds: the median, with an interval that holds 95 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median over the rounds.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Rounds. With one, both ends are the median: nothing is known of its spread.
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

impl Estimate {
    /// Of one value for each round; null for none, or for values that are no numbers.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let middle = median(values)?;
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let mut random = Random::new(SEED);
        let mut times = vec![0; sorted.len()];
        let draw = |_| {
            times.fill(0);
            for _ in 0..sorted.len() {
                times[random.below(sorted.len())] += 1;
            }
            median_of_counted(sorted.iter().copied().zip(times.iter().copied()))
        };
        let mut medians: Vec<f64> = (0..DRAWS).filter_map(draw).collect();
        let (low, high) = interval(&mut medians)?;
        Some(Estimate { median: middle, low, high, rounds: u32::try_from(values.len()).unwrap_or(u32::MAX) })
    }

    /// The same on another scale, which may fall: the ends then change places.
    #[must_use]
    pub fn map(self, scale: impl Fn(f64) -> f64) -> Self {
        let (median, low, high) = (scale(self.median), scale(self.low), scale(self.high));
        Estimate { median, low: low.min(high), high: low.max(high), rounds: self.rounds }
    }
}

/// The middle value, or the mean of the two in the middle; null for none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_counted(sorted.into_iter().map(|value| (value, 1)))
}

/// [`median`] of values in ascending order, each with how often it is there. Draws are taken so: to count is quicker than to sort.
pub fn median_of_counted(counted: impl Iterator<Item = (f64, u32)> + Clone) -> Option<f64> {
    let total: u32 = counted.clone().map(|(_, times)| times).sum();
    let mut passed = 0;
    let mut lower = None;
    for (value, times) in counted {
        passed += times;
        if lower.is_none() && passed * 2 >= total && passed > 0 {
            lower = Some(value);
        }
        if passed * 2 > total {
            return lower.map(|lower| (lower + value) / 2.0);
        }
    }
    None
}

/// The 2.5th and the 97.5th percentile of drawn statistics.
pub fn interval(drawn: &mut [f64]) -> Option<(f64, f64)> {
    if drawn.is_empty() {
        return None;
    }
    drawn.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| drawn[((share * drawn.len() as f64).ceil() as usize).clamp(1, drawn.len()) - 1];
    Some((at(0.025), at(0.975)))
}

#[cfg(test)]
mod tests;
