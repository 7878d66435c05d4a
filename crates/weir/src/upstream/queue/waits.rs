//! How long those who were served have waited, by class.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use auth::Priority;

/// Upper bounds in seconds: from what nobody notices to what most clients do not wait for.
pub const BOUNDS: [f64; 14] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Counts of all classes.
#[derive(Debug, Default)]
pub(super) struct Waits([Class; Priority::ALL.len()]);

#[derive(Debug, Default)]
struct Class {
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

/// Counts of a class in which anybody has waited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassWaits {
    /// The class.
    pub priority: Priority,
    /// By [`BOUNDS`], the last one above all of them.
    pub counts: [u64; BOUNDS.len() + 1],
    /// Sum of all, in seconds.
    pub sum: f64,
}

impl Waits {
    /// Counts a request that was served.
    pub(super) fn observe(&self, priority: Priority, waited: Duration) {
        let class = &self.0[priority as usize];
        let seconds = waited.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        class.counts[bucket].fetch_add(1, Relaxed);
        class.sum_us.fetch_add(waited.as_micros() as u64, Relaxed);
    }

    /// The classes in which anybody has waited.
    pub(super) fn snapshot(&self) -> Vec<ClassWaits> {
        let classes = Priority::ALL.into_iter().zip(&self.0).map(|(priority, class)| ClassWaits {
            priority,
            counts: class.counts.each_ref().map(|count| count.load(Relaxed)),
            sum: class.sum_us.load(Relaxed) as f64 / 1e6,
        });
        classes.filter(|class| class.counts.iter().any(|count| *count > 0)).collect()
    }
}
