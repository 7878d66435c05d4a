//! Is there a difference between two systems that ran in the same rounds?

use super::{Comparison, Estimate, Random, SEED, signed_rank_p};

/// Fewer rounds cannot declare a difference: with five, even five ratios on the same side are chance in 2 of 32 cases, which is above 5 %.
pub const MIN_ROUNDS: usize = 6;

/// A difference that chance alone brings about more often than this is not declared.
pub const SIGNIFICANCE: f64 = 0.05;

/// Compares two systems by pairs of a figure above 0 (a rate, a time, a size) from the same rounds; null for no pair. A difference is declared when all of these hold:
///
/// - there are [`MIN_ROUNDS`] pairs;
/// - the exact signed-rank test on the logarithms of the ratios gives a p of at most [`SIGNIFICANCE`]. Its error does not depend on
///   the shape of the noise nor on the number of rounds, where the bootstrap alone declares too often with ten rounds;
/// - the interval of the median ratio does not hold 1;
/// - the median ratio is farther from 1 than `guard` (see [`guard`]; 1 when there is no twin).
pub fn compare(pairs: &[(f64, f64)], guard: f64) -> Option<Comparison> {
    let logs = log_ratios(pairs);
    let estimate = Estimate::of(&logs)?;
    let p = signed_rank_p(&logs);
    let apart = estimate.low > 0.0 || estimate.high < 0.0;
    let declared =
        logs.len() >= MIN_ROUNDS && p <= SIGNIFICANCE && apart && estimate.median.abs() > guard.max(1.0).ln();
    Some(Comparison { ratio: estimate.map(f64::exp), p, guard, declared })
}

/// What [`compare`] declares without a guard; the interval, which takes most of the time, is drawn only when the rest holds.
pub(super) fn declares(pairs: &[(f64, f64)]) -> bool {
    signed_rank_p(&log_ratios(pairs)) <= SIGNIFICANCE
        && compare(pairs, 1.0).is_some_and(|comparison| comparison.declared)
}

fn log_ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    let good = |value: f64| value.is_finite() && value > 0.0;
    pairs.iter().filter(|(a, b)| good(*a) && good(*b)).map(|(a, b)| (a / b).ln()).collect()
}

/// What a twin says of how far apart equal systems can look: half the width of its interval, or its median ratio where that is farther from 1. What is the
/// same program cannot be better than itself, so no other difference of that size is believed either.
pub fn guard(twin: &Comparison) -> f64 {
    let half = (twin.ratio.high / twin.ratio.low).sqrt();
    let off = twin.ratio.median.max(1.0 / twin.ratio.median);
    half.max(off)
}

/// Share of so many smaller campaigns, made of the rounds of a system and its twin, in which [`compare`] declares a difference (without a guard, which
/// would hide what is to be seen here). A smaller campaign is [`MIN_ROUNDS`] of these rounds, none of them twice, and each as it was measured: it is what would
/// have been known had only those rounds been made. Null for no more rounds than that.
///
/// For equal systems its mean over many campaigns is the error of the rule: 2 of 64, since six ratios must lie on one side. It is larger when the rounds are
/// not what the rule takes them for: when the place in the round favours one entry, when one start in two differs, when rounds hang together. That is
/// why the entries are not exchanged by chance, as a permutation test would: their ratios would then be as the rule assumes them whatever was
/// measured. Of a single pair in few rounds it says little, since the smaller campaigns overlap: it is near 0 for most, and large for the few whose ratios lie on
/// one side by chance.
pub fn declared_in_smaller(pairs: &[(f64, f64)], campaigns: usize) -> Option<f64> {
    if log_ratios(pairs).len() <= MIN_ROUNDS || campaigns == 0 {
        return None;
    }
    let mut random = Random::new(SEED ^ 1);
    let mut order: Vec<(f64, f64)> = pairs.to_vec();
    let declared = (0..campaigns)
        .filter(|_| {
            // The first steps of a shuffle (Fisher and Yates): so many rounds, each as likely as any other.
            for index in 0..MIN_ROUNDS {
                let other = index + random.below(order.len() - index);
                order.swap(index, other);
            }
            declares(&order[..MIN_ROUNDS])
        })
        .count();
    Some(declared as f64 / campaigns as f64)
}
