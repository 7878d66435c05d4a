//! Keys of a remote store that were looked up a moment ago.
//!
//! Known keys and unknown ones have tables of their own: keys that clients invent push out only each other.

use std::sync::Arc;

use super::record::Record;
use crate::clock_table::ClockTable;

/// How long the result of a look-up holds, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// A key of the store is used for so long without another look-up.
    pub known_ns: u64,
    /// A key that the store does not have is refused for so long without another look-up.
    pub unknown_ns: u64,
    /// A key of the store may be used for so long while look-ups fail; counted from the last one that did not.
    pub stale_ns: u64,
}

/// What is known of a key.
#[derive(Debug, Clone)]
pub enum Cached {
    /// It is in the store.
    Known(Arc<Record>),
    /// It is not in the store.
    Unknown,
    /// It was in the store; it has to be looked up, and may be used if that fails.
    Stale(Arc<Record>),
    /// Nothing.
    Absent,
}

/// A bounded cache of look-ups, by digests of keys. Times are nanoseconds of a clock that does not go back.
#[derive(Debug)]
pub struct KeyCache {
    lifetimes: Lifetimes,
    known: ClockTable<[u8; 32], (Arc<Record>, u64)>,
    unknown: ClockTable<[u8; 32], u64>,
    /// Look-ups that began earlier have to be repeated: changes may have been missed.
    valid_from_ns: u64,
}

impl KeyCache {
    /// An empty cache. A quarter of `capacity` is for unknown keys.
    #[must_use]
    pub fn new(capacity: usize, lifetimes: Lifetimes) -> Self {
        let unknown = capacity / 4;
        Self {
            lifetimes,
            known: ClockTable::new(capacity - unknown),
            unknown: ClockTable::new(unknown),
            valid_from_ns: 0,
        }
    }

    /// What is known of a key.
    pub fn get(&mut self, digest: &[u8; 32], now_ns: u64) -> Cached {
        let Lifetimes { known_ns, unknown_ns, stale_ns } = self.lifetimes;
        let valid_from_ns = self.valid_from_ns;
        let holds = |at_ns: u64, for_ns: u64| at_ns >= valid_from_ns && now_ns.saturating_sub(at_ns) < for_ns;
        if let Some((record, at_ns)) = self.known.get(digest) {
            if holds(*at_ns, known_ns) {
                return Cached::Known(record.clone());
            }
            if now_ns.saturating_sub(*at_ns) < stale_ns {
                return Cached::Stale(record.clone());
            }
            self.known.remove(digest);
            return Cached::Absent;
        }
        match self.unknown.get(digest) {
            Some(at_ns) if holds(*at_ns, unknown_ns) => Cached::Unknown,
            Some(_) => {
                self.unknown.remove(digest);
                Cached::Absent
            }
            None => Cached::Absent,
        }
    }

    /// Stores the result of a look-up that began at this time: a record, or that there is none.
    pub fn insert(&mut self, digest: [u8; 32], found: Option<Arc<Record>>, began_ns: u64) {
        match found {
            Some(record) => {
                self.unknown.remove(&digest);
                self.known.insert(digest, (record, began_ns));
            }
            None => {
                self.known.remove(&digest);
                self.unknown.insert(digest, began_ns);
            }
        }
    }

    /// Forgets a key: its entry has changed.
    pub fn remove(&mut self, digest: &[u8; 32]) {
        self.known.remove(digest);
        self.unknown.remove(digest);
    }

    /// Has every key looked up again. Until that succeeds, known keys hold as while look-ups fail.
    pub fn expire_all(&mut self, now_ns: u64) {
        self.valid_from_ns = now_ns;
    }

    /// Known and unknown keys that are held.
    #[must_use]
    pub fn len(&self) -> [usize; 2] {
        [self.known.len(), self.unknown.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_key::Entry;

    const S: u64 = 1_000_000_000;
    const LIFETIMES: Lifetimes = Lifetimes { known_ns: 30 * S, unknown_ns: 5 * S, stale_ns: 300 * S };

    fn record() -> Arc<Record> {
        let entry = Entry { id: "k".into(), consumer: "c".into(), ..Entry::default() };
        Arc::new(Record::of(entry).expect("a record"))
    }

    fn digest(number: u32) -> [u8; 32] {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_le_bytes());
        digest
    }

    fn state(cache: &mut KeyCache, number: u32, now_ns: u64) -> &'static str {
        match cache.get(&digest(number), now_ns) {
            Cached::Known(_) => "known",
            Cached::Unknown => "unknown",
            Cached::Stale(_) => "stale",
            Cached::Absent => "absent",
        }
    }

    #[test]
    fn a_known_key_holds_for_30_s_then_while_look_ups_fail_and_an_unknown_one_for_5_s() {
        let mut cache = KeyCache::new(100, LIFETIMES);
        cache.insert(digest(1), Some(record()), 10 * S);
        cache.insert(digest(2), None, 10 * S);
        for (at, known, unknown) in [
            (10, "known", "unknown"),
            (14, "known", "unknown"),
            (15, "known", "absent"),
            (39, "known", "absent"),
            (40, "stale", "absent"),
            (309, "stale", "absent"),
            (310, "absent", "absent"),
        ] {
            assert_eq!((state(&mut cache, 1, at * S), state(&mut cache, 2, at * S)), (known, unknown), "at {at} s");
        }
        assert_eq!(cache.len(), [0, 0], "what no longer holds is dropped");
    }

    #[test]
    fn a_key_that_changes_is_forgotten_and_missed_changes_expire_everything() {
        let mut cache = KeyCache::new(100, LIFETIMES);
        cache.insert(digest(1), Some(record()), 0);
        cache.remove(&digest(1));
        assert_eq!(state(&mut cache, 1, S), "absent");
        cache.insert(digest(1), Some(record()), S);
        cache.insert(digest(2), None, S);
        cache.expire_all(2 * S);
        assert_eq!((state(&mut cache, 1, 2 * S), state(&mut cache, 2, 2 * S)), ("stale", "absent"));
        // A look-up that began before may not have seen the change either.
        cache.insert(digest(1), Some(record()), S);
        assert_eq!(state(&mut cache, 1, 2 * S), "stale");
        cache.insert(digest(1), Some(record()), 2 * S);
        assert_eq!(state(&mut cache, 1, 2 * S), "known");
    }

    #[test]
    fn a_key_is_known_or_unknown_and_never_both() {
        let mut cache = KeyCache::new(100, LIFETIMES);
        for found in [Some(record()), None, Some(record())] {
            let expected = if found.is_some() { "known" } else { "unknown" };
            cache.insert(digest(1), found, S);
            assert_eq!(state(&mut cache, 1, S), expected);
            assert_eq!(cache.len().iter().sum::<usize>(), 1);
        }
    }

    #[test]
    fn invented_keys_push_out_no_known_key() {
        let mut cache = KeyCache::new(1_000, LIFETIMES);
        (0..750).for_each(|number| cache.insert(digest(number), Some(record()), S));
        (10_000..200_000).for_each(|number| cache.insert(digest(number), None, S));
        assert_eq!(cache.len(), [750, 250]);
        assert!((0..750).all(|number| state(&mut cache, number, S) == "known"));
        // Known keys beyond the bound push out known ones that are not used.
        for number in 750..5_000 {
            assert_eq!(state(&mut cache, 7, S), "known");
            cache.insert(digest(number), Some(record()), S);
        }
        assert_eq!(cache.len(), [750, 250]);
    }
}
