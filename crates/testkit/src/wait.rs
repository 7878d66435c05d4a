//! Waiting for a condition without a fixed sleep.

use std::time::{Duration, Instant};

/// Evaluates `condition` repeatedly, at intervals of 1 ms that grow to 20 ms, until it holds. Panics with `what` when
/// `deadline` passes first.
#[track_caller]
pub fn until(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    some(deadline, what, || condition().then_some(()));
}

/// Like [`until`], for a value: returns the first `Some`.
#[track_caller]
pub fn some<T>(deadline: Duration, what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    try_some(deadline, attempt).unwrap_or_else(|| panic!("within {deadline:?} this did not come true: {what}"))
}

/// Like [`some`], but a deadline that passes gives `None`.
pub fn try_some<T>(deadline: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(value) = attempt() {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
