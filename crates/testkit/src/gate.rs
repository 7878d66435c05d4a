//! A gate that a test opens by hand: what lies behind it happens when the test says so, not after a sleep.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Counts permits. Clones share one gate: the test keeps one and releases, a handler keeps another and waits.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    permits: Mutex<usize>,
    changed: Condvar,
}

/// The permits of a gate that was opened for good.
const OPEN: usize = usize::MAX;

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets one more waiter through.
    pub fn release(&self) {
        let mut permits = self.permits();
        *permits = permits.saturating_add(1);
        self.shared.changed.notify_all();
    }

    /// Lets everyone through from now on.
    pub fn open(&self) {
        *self.permits() = OPEN;
        self.shared.changed.notify_all();
    }

    /// Takes a permit; waits for one as long as `timeout`. False when none came.
    pub fn pass(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        let mut permits = self.permits();
        while *permits == 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            permits = self.shared.changed.wait_timeout(permits, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if *permits != OPEN {
            *permits -= 1;
        }
        true
    }

    fn permits(&self) -> MutexGuard<'_, usize> {
        self.shared.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
