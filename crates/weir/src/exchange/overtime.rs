//! An exchange that reaches the end of its time while bytes keep coming.
//!
//! A deadline does not fire while bytes wait, because this worker may be the one that is late: what has come is read first. Bytes that
//! never stop must not put it off without limit. So they are read once more, and then it is over.

use crate::runtime::clock;

/// How far an exchange is beyond its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overtime {
    /// It is not.
    #[default]
    No,
    /// It is: what waits is read.
    LastBytes,
    /// What waited was read.
    Spent,
}

impl Overtime {
    /// Bytes moved.
    #[inline]
    pub fn moved(&mut self) {
        if *self == Overtime::LastBytes {
            *self = Overtime::Spent;
        }
    }

    /// Whether `due` has passed, and bytes have moved since this was first noticed. Costs nothing; to be called between two pieces.
    #[inline]
    pub fn is_spent(&mut self, due: u64) -> bool {
        self.is_spent_at(due, clock::loop_ns())
    }

    fn is_spent_at(&mut self, due: u64, now: u64) -> bool {
        // It was measured from a reading that may have been so old.
        if now < due.saturating_add(clock::STALL_NS) {
            *self = Overtime::No;
        } else if *self == Overtime::No {
            *self = Overtime::LastBytes;
        }
        *self == Overtime::Spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_read_once_more_and_no_more() {
        let due = 1_000_000_000;
        let late = due + clock::STALL_NS;
        let mut overtime = Overtime::default();
        for now in [0, due, late - 1] {
            overtime.moved();
            assert!(!overtime.is_spent_at(due, now), "not over at {now}");
        }
        assert!(!overtime.is_spent_at(due, late), "bytes may wait");
        assert!(!overtime.is_spent_at(due, late), "none moved since");
        overtime.moved();
        assert!(overtime.is_spent_at(due, late));
        assert!(!overtime.is_spent_at(u64::MAX, late), "another deadline, which is not set");
        assert!(!overtime.is_spent_at(due, late));
    }
}
