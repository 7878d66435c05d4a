//! Log lines that could come with every request.

use std::cell::Cell;

use super::clock;

/// Time between two lines.
const INTERVAL_NS: u64 = 10_000_000_000;

/// Lets one line pass every 10 s and counts the others.
#[derive(Debug, Default)]
pub struct Seldom {
    next_ns: Cell<u64>,
    suppressed: Cell<u64>,
}

impl Seldom {
    /// Whether to write a line now: then with how many were suppressed since the last one.
    pub fn pass(&self) -> Option<u64> {
        let now = clock::turn_ns();
        if now < self.next_ns.get() {
            self.suppressed.set(self.suppressed.get() + 1);
            return None;
        }
        self.next_ns.set(now.saturating_add(INTERVAL_NS));
        Some(self.suppressed.take())
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
}
