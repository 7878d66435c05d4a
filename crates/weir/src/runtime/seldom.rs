//! Log lines that could come with every request.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::clock;

/// Time between two lines.
const INTERVAL_NS: u64 = 10_000_000_000;
const MINUTE_NS: u64 = 60_000_000_000;

/// Lets one line pass every 10 s and counts the others.
#[derive(Debug, Default)]
pub struct Seldom {
    next_ns: Cell<u64>,
    suppressed: Cell<u64>,
}

impl Seldom {
    /// Whether to write a line now: then with how many were suppressed since the last one.
    pub fn pass(&self) -> Option<u64> {
        let now = clock::loop_ns();
        if now < self.next_ns.get() {
            self.suppressed.set(self.suppressed.get() + 1);
            return None;
        }
        self.next_ns.set(now.saturating_add(INTERVAL_NS));
        Some(self.suppressed.take())
    }
}

/// Lets one line of all workers pass every minute.
#[derive(Debug, Default)]
pub struct OnceAMinute {
    /// When the next one is due.
    next_ns: AtomicU64,
}

impl OnceAMinute {
    /// Whether to write a line now.
    pub fn pass(&self) -> bool {
        let (now, next) = (clock::now_ns(), self.next_ns.load(Relaxed));
        now >= next && self.next_ns.compare_exchange(next, now.saturating_add(MINUTE_NS), Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_and_the_others_are_counted() {
        let line = Seldom::default();
        assert_eq!(line.pass(), Some(0));
        assert_eq!((line.pass(), line.pass()), (None, None));
        line.next_ns.set(0);
        assert_eq!(line.pass(), Some(2));
    }

    #[test]
    fn of_several_threads_one_line_passes() {
        let line = OnceAMinute::default();
        let passed = || {
            std::thread::scope(|scope| {
                let all: Vec<_> = (0..8).map(|_| scope.spawn(|| (0..100).filter(|_| line.pass()).count())).collect();
                all.into_iter().map(|one| one.join().unwrap()).sum::<usize>()
            })
        };
        assert_eq!((passed(), passed()), (1, 0));
        line.next_ns.store(0, Relaxed);
        assert_eq!(passed(), 1);
    }
}
