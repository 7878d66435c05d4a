//! Which URLs were changed by unsafe methods, and when (RFC 9111 section 4.4).
//!
//! A response that was requested no later than its URL was changed must be validated, whatever tenant or variant it is for. Changes are
//! known by URL (a keyed hash of 64 bits) for the [`MOST_URLS`] that changed last. Beyond that the older half is forgotten, and every response of
//! that time or before must be validated: once more than needed, never once too few.
//!
//! A hit reads one number of a table that is indexed by hash; only if that says that some URL with this place changed since is the map looked up.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;

use crate::runtime::hash::Hashed;
use crate::runtime::lock::lock;

/// Numbers of the table: half a MiB per cache.
const PLACES: usize = 1 << 16;
/// URLs that are known one by one.
pub const MOST_URLS: usize = 1 << 16;

/// The changed URLs.
#[derive(Debug)]
pub struct Invalidated {
    /// Milliseconds since the Unix epoch at which any URL of a place was last changed.
    places: Box<[AtomicU64]>,
    urls: Mutex<HashMap<u64, u64, Hashed>>,
    /// What was requested until then must be validated, whatever its URL.
    floor: AtomicU64,
    hasher: RandomState,
}

impl Default for Invalidated {
    fn default() -> Self {
        Invalidated {
            places: std::iter::repeat_with(AtomicU64::default).take(PLACES).collect(),
            urls: Mutex::default(),
            floor: AtomicU64::new(0),
            hasher: RandomState::default(),
        }
    }
}

impl Invalidated {
    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.places[hash as usize % PLACES]
    }

    /// Responses of this URL that were requested until now must be validated.
    pub fn note(&self, url: &[u8], now_ms: u64) {
        let hash = self.hasher.hash_one(url);
        let mut urls = lock(&self.urls);
        let time = urls.entry(hash).or_default();
        *time = now_ms.max(*time);
        if urls.len() > MOST_URLS {
            let mut times: Vec<u64> = urls.values().copied().collect();
            let middle = times.len() / 2;
            let floor_ms = *times.select_nth_unstable(middle).1;
            urls.retain(|_, time_ms| *time_ms > floor_ms);
            self.note_all(floor_ms);
        }
        // Last: who sees it finds the map complete.
        self.place(hash).fetch_max(now_ms, Ordering::Release);
    }

    /// Responses of every URL that were requested until then must be validated.
    pub fn note_all(&self, until_ms: u64) {
        self.floor.fetch_max(until_ms, Ordering::Release);
    }

    /// Whether a response that was requested then must be validated.
    #[inline]
    pub fn covers(&self, url: &[u8], requested_ms: u64) -> bool {
        if requested_ms <= self.floor.load(Ordering::Acquire) {
            return true;
        }
        let hash = self.hasher.hash_one(url);
        requested_ms <= self.place(hash).load(Ordering::Acquire) && self.covers_exactly(hash, requested_ms)
    }

    #[cold]
    fn covers_exactly(&self, hash: u64, requested_ms: u64) -> bool {
        let urls = lock(&self.urls);
        // Again, now that nobody moves times there.
        urls.get(&hash).is_some_and(|time_ms| requested_ms <= *time_ms)
            || requested_ms <= self.floor.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_requested_before_a_change_is_covered_and_what_comes_after_is_not() {
        let table = Invalidated::default();
        assert!(!table.covers(b"http://a/", 5));
        table.note(b"http://a/", 10);
        assert!(table.covers(b"http://a/", 10));
        assert!(!table.covers(b"http://a/", 11));
        table.note(b"http://a/", 7);
        assert!(table.covers(b"http://a/", 10), "a time never goes back");
        assert!(!table.covers(b"http://b/", 5));
        table.note_all(6);
        assert!(table.covers(b"http://b/", 5) && !table.covers(b"http://b/", 7));
    }

    /// Writes to other URLs do not matter, as many as the bound allows; beyond it nothing that changed is forgotten.
    #[test]
    fn other_urls_do_not_matter_and_beyond_the_bound_nothing_is_forgotten() {
        let table = Invalidated::default();
        let url = |number: usize| format!("http://a/{number}").into_bytes();
        (0..MOST_URLS).for_each(|number| table.note(&url(number), 1_000 + number as u64));
        assert!((MOST_URLS..MOST_URLS + 10_000).all(|number| !table.covers(&url(number), 5)));
        (MOST_URLS..MOST_URLS * 2).for_each(|number| table.note(&url(number), 1_000 + number as u64));
        assert!((0..MOST_URLS * 2).all(|number| table.covers(&url(number), 1_000 + number as u64)));
        assert!((0..MOST_URLS * 2).all(|number| !table.covers(&url(number), 1_000 + MOST_URLS as u64 * 2)));
        assert!(lock(&table.urls).len() <= MOST_URLS);
    }
}
