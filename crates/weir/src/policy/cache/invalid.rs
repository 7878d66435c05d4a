//! Which URLs were changed by unsafe methods, and when (RFC 9111 section 4.4).
//!
//! A table of times, indexed by a hash of the URL: an answer that was asked for before its URL's time must be validated. It covers all
//! answers of a URL, of every tenant and variant, at the cost of one load for a hit. Two URLs may share a place; then one is
//! validated once more than it had to be.

use std::sync::atomic::{AtomicU64, Ordering};

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

const PLACES: usize = 4096;

/// The table.
#[derive(Debug)]
pub struct Invalidated {
    /// Milliseconds since the Unix epoch.
    times: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for Invalidated {
    fn default() -> Self {
        Invalidated {
            times: std::iter::repeat_with(AtomicU64::default).take(PLACES).collect(),
            hasher: RandomState::default(),
        }
    }
}

impl Invalidated {
    fn place(&self, url: &[u8]) -> &AtomicU64 {
        &self.times[self.hasher.hash_one(url) as usize % PLACES]
    }

    /// Whatever was asked for until now must be validated.
    pub fn note(&self, url: &[u8], now_ms: u64) {
        self.place(url).fetch_max(now_ms, Ordering::Relaxed);
    }

    /// Whether an answer that was asked for then must be validated.
    #[inline]
    pub fn covers(&self, url: &[u8], asked_ms: u64) -> bool {
        asked_ms <= self.place(url).load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_before_a_change_is_covered_and_what_comes_after_is_not() {
        let table = Invalidated::default();
        assert!(!table.covers(b"http://a/", 5));
        table.note(b"http://a/", 10);
        assert!(table.covers(b"http://a/", 10));
        assert!(!table.covers(b"http://a/", 11));
        table.note(b"http://a/", 7);
        assert!(table.covers(b"http://a/", 10), "a time never goes back");
    }
}
