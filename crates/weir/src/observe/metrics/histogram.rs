//! Histograms with fixed bounds, written by one thread and read by any.
//!
//! Bounds are round decimal numbers (1, 1.5, 2, 3, 5, 7 of each decade), because operators put their objectives on
//! them. The bucket of a value is still found without a search: the position of its highest bit and the two bits below
//! name one of 256 cells, a table says where the cell begins among the bounds, and one comparison decides the rest.
//! That needs bounds that are further apart than a cell is wide (a quarter), which is checked when the table is built,
//! at compile time.

use super::cells::Counter;

/// Buckets of any histogram here: bounds, the one above them, and unused ones.
pub(super) const BUCKETS: usize = 40;

/// Whole exchanges and upstreams: 20 µs to 60 s.
pub(super) static EXCHANGE: Bounds = Bounds::new(&[
    20_000,
    30_000,
    50_000,
    70_000,
    100_000,
    150_000,
    200_000,
    300_000,
    500_000,
    700_000,
    1_000_000,
    1_500_000,
    2_000_000,
    3_000_000,
    5_000_000,
    7_000_000,
    10_000_000,
    15_000_000,
    20_000_000,
    30_000_000,
    50_000_000,
    70_000_000,
    100_000_000,
    150_000_000,
    200_000_000,
    300_000_000,
    500_000_000,
    700_000_000,
    1_000_000_000,
    1_500_000_000,
    2_000_000_000,
    3_000_000_000,
    5_000_000_000,
    7_000_000_000,
    10_000_000_000,
    15_000_000_000,
    20_000_000_000,
    30_000_000_000,
    60_000_000_000,
]);

/// The gateway's own part: 1 µs to 100 ms.
pub(super) static OVERHEAD: Bounds = Bounds::new(&[
    1_000,
    1_500,
    2_000,
    3_000,
    5_000,
    7_000,
    10_000,
    15_000,
    20_000,
    30_000,
    50_000,
    70_000,
    100_000,
    150_000,
    200_000,
    300_000,
    500_000,
    700_000,
    1_000_000,
    1_500_000,
    2_000_000,
    3_000_000,
    5_000_000,
    7_000_000,
    10_000_000,
    15_000_000,
    20_000_000,
    30_000_000,
    50_000_000,
    70_000_000,
    100_000_000,
]);

/// What OpenTelemetry's HTTP conventions advise: 5 ms to 10 s.
pub(super) static ADVISED: Bounds = Bounds::new(&[
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    75_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    750_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    7_500_000_000,
    10_000_000_000,
]);

/// Upper bounds of buckets in nanoseconds, inclusive, with the table that finds them.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Ascending; `u64::MAX` from `len` on.
    bounds: [u64; BUCKETS],
    /// How many of them are bounds; the bucket of this index takes what is above.
    len: usize,
    /// For each cell the first bucket that a value of it can fall into.
    first: [u8; 256],
}

/// Cell of a value: the octave, and the quarter of it.
const fn cell(ns: u64) -> usize {
    let ns = if ns < 4 { 4 } else { ns };
    let octave = 63 - ns.leading_zeros();
    (octave as usize) << 2 | ((ns >> (octave - 2)) & 3) as usize
}

/// Smallest value of a cell; the inverse of [`cell`] for values of 4 and more.
const fn start(cell: usize) -> u64 {
    (4 | (cell as u64 & 3)) << ((cell >> 2) - 2)
}

impl Bounds {
    const fn new(list: &[u64]) -> Bounds {
        assert!(list.len() < BUCKETS);
        let mut bounds = [u64::MAX; BUCKETS];
        let mut i = 0;
        while i < list.len() {
            assert!(list[i] >= 4 && (i == 0 || list[i] > list[i - 1]));
            assert!(i == 0 || cell(list[i]) > cell(list[i - 1]), "two bounds in one cell");
            bounds[i] = list[i];
            i += 1;
        }
        let mut first = [0; 256];
        let mut c = 8;
        while c < 256 {
            let mut bucket = 0;
            while bucket < list.len() && bounds[bucket] < start(c) {
                bucket += 1;
            }
            first[c] = bucket as u8;
            c += 1;
        }
        Bounds { bounds, len: list.len(), first }
    }

    /// Bucket of a value.
    pub(super) fn bucket(&self, ns: u64) -> usize {
        let first = self.first[cell(ns)] as usize;
        // `first` is at most `len`, whose bound is u64::MAX.
        first + usize::from(ns > self.bounds[first])
    }

    /// Upper bounds in seconds, the last one infinite.
    pub(super) fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        self.bounds[..self.len].iter().map(|&ns| ns as f64 / 1e9).chain([f64::INFINITY])
    }
}

/// Counts per bucket and the sum, of one worker.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: [Counter; BUCKETS],
    sum_ns: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: std::array::from_fn(|_| Counter::default()), sum_ns: Counter::default() }
    }
}

impl Histogram {
    /// Counts one value; `bounds` are the same on every call.
    pub(super) fn observe(&self, bounds: &Bounds, ns: u64) {
        self.buckets[bounds.bucket(ns)].add(1);
        self.sum_ns.add(ns);
    }
}

/// Sum of the histograms of several workers, as it is exposed.
#[derive(Debug)]
pub(super) struct Total {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Default for Total {
    fn default() -> Self {
        Total { counts: [0; BUCKETS], sum_ns: 0 }
    }
}

impl Total {
    pub(super) fn add(&mut self, histogram: &Histogram) {
        for (count, bucket) in self.counts.iter_mut().zip(&histogram.buckets) {
            *count += bucket.get();
        }
        self.sum_ns += histogram.sum_ns.get();
    }

    /// Values counted. Taken from the buckets, so that the count and the `+Inf` bucket never differ.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Upper bound in seconds and count of each bucket, not cumulated.
    pub(super) fn buckets(&self, bounds: &Bounds) -> Vec<(f64, u64)> {
        bounds.seconds().zip(self.counts).collect()
    }
}

#[cfg(test)]
mod tests;
