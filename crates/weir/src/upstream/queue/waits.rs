//! How long those who were served have waited, by class.

use std::time::Duration;

use auth::Priority;

use crate::upstream::buckets::Buckets;

/// Upper bounds in seconds: from what nobody notices to what most clients do not wait for.
pub const BOUNDS: [f64; 14] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Counts of all classes.
#[derive(Debug, Default)]
pub(super) struct Waits([Buckets<{ BOUNDS.len() + 1 }>; Priority::ALL.len()]);

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
        self.0[priority as usize].observe(&BOUNDS, waited.as_secs_f64());
    }

    /// The classes in which anybody has waited.
    pub(super) fn snapshot(&self) -> Vec<ClassWaits> {
        let classes = Priority::ALL.into_iter().zip(&self.0).map(|(priority, class)| {
            let (counts, sum) = class.read();
            ClassWaits { priority, counts, sum }
        });
        classes.filter(|class| class.counts.iter().any(|count| *count > 0)).collect()
    }
}
