//! Counts of values by their size, over all threads: what a histogram of the metrics is made of.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of `N` buckets, the last of them above all bounds.
#[derive(Debug)]
pub(super) struct Buckets<const N: usize> {
    counts: [AtomicU64; N],
    /// In millionths.
    sum: AtomicU64,
}

impl<const N: usize> Default for Buckets<N> {
    fn default() -> Self {
        Buckets { counts: std::array::from_fn(|_| AtomicU64::default()), sum: AtomicU64::default() }
    }
}

impl<const N: usize> Buckets<N> {
    /// Counts a value that is not negative; `bounds` are the same on every call, one less than there are buckets.
    pub(super) fn observe(&self, bounds: &[f64], value: f64) {
        let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Relaxed);
    }

    /// Counts and sum of the values.
    pub(super) fn read(&self) -> ([u64; N], f64) {
        let counts = std::array::from_fn(|bucket| self.counts[bucket].load(Relaxed));
        (counts, self.sum.load(Relaxed) as f64 / 1e6)
    }
}
