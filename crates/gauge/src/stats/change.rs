//! Change points of a series: E-divisive (D. S. Matteson and N. A. James, "A nonparametric approach for multiple change point analysis of multivariate
//! data", 2014), on ranks. MongoDB finds regressions in its benchmarks in this way (D. Daly et al., "The use of change point detection to identify software
//! performance regressions in a continuous integration system", ICPE 2020).
//!
//! - A split at t, with the values behind it up to some end e, has the statistic m k / (m + k) times the squared difference of the mean ranks of both sides,
//!   of m = t and k = e - t values: that of the rank-sum test. The largest over all t and e is the candidate. Without the free end, a rise that was taken
//!   back later would be hidden.
//! - How probable so large a statistic is without any change is counted over permutations of the values, so no distribution is assumed, and ties and
//!   short series are as they are. Ranks, and not the values, since single wild values are common and are no change.
//! - Both sides of a change are searched in the same way, until nothing is found at 5 %.

use super::{Random, SIGNIFICANCE, median};

/// Permutations: p values down to 0.002.
const PERMUTATIONS: usize = 499;

/// Fewer values are no level.
const SIDE: usize = 4;

/// Fewer values cannot show a change. Of so many, the most extreme order is chance in 2 of 70 cases.
pub const LEAST: usize = 2 * SIDE;

/// A change of the level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The first value of the new level.
    pub at: usize,
    /// Median between the change before, or the begin, and this one.
    pub before: f64,
    /// Median from this one to the next, or the end.
    pub after: f64,
    /// How probable it is without a change, in the part of the series in which it was found.
    pub p: f64,
}

/// The changes in a series, in its order. The same series gives the same ones.
pub fn change_points(values: &[f64]) -> Vec<ChangePoint> {
    let mut found = Vec::new();
    search(values, 0, &mut found);
    found.sort_unstable_by_key(|(at, _)| *at);
    let ends: Vec<usize> = found.iter().map(|(at, _)| *at).chain([values.len()]).collect();
    let mut start = 0;
    let mut changes = Vec::new();
    for (index, (at, p)) in found.into_iter().enumerate() {
        if let (Some(before), Some(after)) = (median(&values[start..at]), median(&values[at..ends[index + 1]])) {
            changes.push(ChangePoint { at, before, after, p });
        }
        start = at;
    }
    changes
}

fn search(values: &[f64], offset: usize, found: &mut Vec<(usize, f64)>) {
    if values.len() < LEAST {
        return;
    }
    let mut ranks = ranks(values);
    let (at, statistic) = largest(&ranks);
    if at == 0 {
        return;
    }
    // Fixed, so that a series always has the same changes.
    let mut random = Random::new(values.len() as u64);
    let mut reached = 0;
    let share = |reached: usize| (reached + 1) as f64 / (PERMUTATIONS + 1) as f64;
    for _ in 0..PERMUTATIONS {
        for index in (1..ranks.len()).rev() {
            let other = (random.share() * (index + 1) as f64) as usize;
            ranks.swap(index, other.min(index));
        }
        // The same values in another order may differ in the last digit.
        reached += usize::from(largest(&ranks).1 >= statistic * (1.0 - 1e-9));
        // More permutations only make it more probable.
        if share(reached) > SIGNIFICANCE {
            return;
        }
    }
    let p = share(reached);
    found.push((offset + at, p));
    search(&values[..at], offset, found);
    search(&values[at..], offset + at, found);
}

/// Ranks, those of ties in the middle.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let below = |value: f64| sorted.partition_point(|other| *other < value);
    let up_to = |value: f64| sorted.partition_point(|other| *other <= value);
    values.iter().map(|value| (below(*value) + up_to(*value) + 1) as f64 / 2.0).collect()
}

/// How many values are before the most likely change, and the statistic there; 0 for equal values.
fn largest(ranks: &[f64]) -> (usize, f64) {
    let mut sums = vec![0.0];
    ranks.iter().for_each(|rank| sums.push(sums[sums.len() - 1] + rank));
    let mut best = (0, 0.0);
    for at in SIDE..=ranks.len() - SIDE {
        for end in at + SIDE..=ranks.len() {
            let (left, right) = (at as f64, (end - at) as f64);
            let difference = sums[at] / left - (sums[end] - sums[at]) / right;
            let statistic = left * right / (left + right) * difference * difference;
            if statistic > best.1 {
                best = (at, statistic);
            }
        }
    }
    best
}
