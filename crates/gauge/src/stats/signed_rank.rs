//! Wilcoxon's signed-rank test, exact.

use super::SIGNIFICANCE;

/// Up to so many rounds all combinations of signs are counted; beyond, the normal approximation is good to three digits.
const EXACT: usize = 100;

/// Share of the combinations of signs whose positive ranks add up to each sum, from 0 on.
pub(super) fn distribution(ranks: &[usize]) -> Vec<f64> {
    let mut shares = vec![0.0_f64; ranks.iter().sum::<usize>() + 1];
    shares[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= *rank { shares[sum - rank] } else { 0.0 };
            shares[sum] = (shares[sum] + with) / 2.0;
        }
    }
    shares
}

/// The probability that signs alone would set the differences apart as far as they are, either way (two-sided p). Under no difference each sign is as
/// likely as the other; the distribution over all 2^n combinations of signs is counted, with ties among the sizes as they are (mid-ranks).
/// Differences of 0 favour nobody and are left out, as Wilcoxon did.
pub fn signed_rank_p(differences: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    sizes.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let count = sizes.len();
    // Ranks doubled, so that mid-ranks are whole numbers.
    let mut ranks = Vec::with_capacity(count);
    let mut start = 0;
    while start < count {
        let mut end = start + 1;
        while end < count && sizes[end].abs() == sizes[start].abs() {
            end += 1;
        }
        // The mean of the ranks start + 1 to end, twice.
        ranks.extend(std::iter::repeat_n(start + 1 + end, end - start));
        start = end;
    }
    let total: usize = ranks.iter().sum();
    let positive: usize = ranks.iter().zip(&sizes).filter(|(_, size)| **size > 0.0).map(|(rank, _)| rank).sum();
    let low = positive.min(total - positive);
    if count > EXACT {
        let variance: f64 = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum::<f64>() / 4.0;
        let z = (total as f64 / 2.0 - low as f64 - 1.0).max(0.0) / variance.sqrt();
        return (2.0 * normal_above(z)).min(1.0);
    }
    (2.0 * distribution(&ranks)[..=low].iter().sum::<f64>()).min(1.0)
}

/// How many of the sorted Walsh averages lie outside of the 95 % interval at each end; null where all of them would be too few (n below six).
pub fn critical(rounds: usize) -> Option<usize> {
    if rounds > EXACT {
        let n = rounds as f64;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return Some((n * (n + 1.0) / 4.0 - 0.5 - 1.959_964 * deviation) as usize);
    }
    let ranks: Vec<usize> = (1..=rounds).collect();
    let mut below = 0.0;
    let outside = distribution(&ranks).into_iter().take_while(|share| {
        below += share;
        2.0 * below <= SIGNIFICANCE
    });
    outside.count().checked_sub(1)
}

/// Share of the standard normal distribution above `z` >= 0 (Abramowitz and Stegun, 26.2.17; error below 1e-7).
fn normal_above(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let polynomial =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}
