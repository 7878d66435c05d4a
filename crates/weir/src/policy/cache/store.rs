//! The memory store: one for each cache, shared by all workers.
//!
//! Stored entries are bounded in bytes and in number, and both bounds hold at every moment. Eviction is Clock-PRO: what was requested
//! once leaves before what is requested again, so that a scan does not wash out what is in use. Keys are distributed to shards by hash; a hit
//! takes the shared lock of one shard for the time of a look-up, and never waits for another hit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache as Shards;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use super::entry::Entry;
use super::key::{Key, KeyRef};
use super::lookup::Varies;
use super::rules::key::url_of;
use super::sync::{Mutex, MutexGuard, lock};
use crate::runtime::hash::Hashed;

/// What is filed under a key.
#[derive(Debug, Clone)]
pub enum Slot {
    /// A response.
    Response(Entry),
    /// Responses that differ by request fields; each is filed under a key of its own.
    Varies(Arc<Varies>),
    /// The last response could not be kept: for a while requests do not wait for one another.
    HitForMiss(HitForMiss),
}

/// What a purge makes of a response; the greater prevails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purged {
    /// It is stale.
    Soft,
    /// It is removed.
    Hard,
}

/// Until when requests for a key do not wait for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitForMiss {
    /// Nanoseconds since process start.
    pub until_ns: u64,
    /// It holds for requests with credentials only: the response was not stored because its request had some.
    pub credentials_only: bool,
}

/// Bytes that an entry takes besides its key and content, roughly: its place in the map and the clock, reference counts.
const OVERHEAD: u64 = 160;
/// A shard must hold so many of the largest responses, or it would be a poor cache.
const LARGEST_PER_SHARD: u64 = 16;
const MOST_SHARDS: u64 = 64;
/// Locks of writers; readers take none.
const WRITERS: usize = 64;
/// The library takes nothing that is heavier than its part for what is in use, which is a little less than all.
const HEAVIEST: f64 = 0.9;

#[derive(Debug, Clone)]
struct Weigh {
    /// Each entry weighs at least this, so that the bound of bytes bounds entries too.
    least: u64,
}

impl Weighter<Key, Slot> for Weigh {
    fn weight(&self, key: &Key, slot: &Slot) -> u64 {
        let content = match slot {
            Slot::Response(entry) => entry.size(),
            Slot::Varies(varies) => size_of::<Varies>() + varies.names.len(),
            Slot::HitForMiss(_) => 0,
        };
        (key.len() as u64 + content as u64 + OVERHEAD).max(self.least)
    }
}

/// Counts what is evicted, and frees it after the lock is given back.
#[derive(Debug, Clone)]
struct Evictions(Arc<AtomicU64>);

/// What one call evicts: one entry, mostly.
#[derive(Default)]
struct Evicted {
    first: Option<(Key, Slot)>,
    more: Vec<(Key, Slot)>,
}

impl Lifecycle<Key, Slot> for Evictions {
    type RequestState = Evicted;

    fn before_evict(&self, _: &mut Self::RequestState, _: &Key, _: &mut Slot) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn on_evict(&self, state: &mut Self::RequestState, key: Key, slot: Slot) {
        match state.first {
            None => state.first = Some((key, slot)),
            Some(_) => state.more.push((key, slot)),
        }
    }
}

/// The memory store.
#[derive(Debug)]
pub struct Memory {
    /// Held by who changes what is filed under a key of its part.
    writers: [Mutex<()>; WRITERS],
    shards: Shards<Key, Slot, Weigh, Hashed, Evictions>,
    evicted: Arc<AtomicU64>,
}

impl Memory {
    /// A store of at most `max_bytes` in at most `max_entries` responses, the largest of `max_body_bytes`.
    pub fn new(max_bytes: u64, max_entries: usize, max_body_bytes: u64) -> Self {
        let shards = (max_bytes / (max_body_bytes + 1) / LARGEST_PER_SHARD).clamp(1, MOST_SHARDS);
        // A power of two that is not above it; the library rounds up.
        let shards = 1usize << shards.ilog2();
        let evicted = Arc::new(AtomicU64::new(0));
        let entries = max_entries as u64;
        let least = (max_bytes / entries.max(1)).min((max_bytes as f64 * HEAVIEST) as u64).max(1);
        let options = OptionsBuilder::new()
            .shards(shards)
            .estimated_items_capacity(max_entries)
            .weight_capacity(max_bytes)
            .build()
            .expect("both capacities are given");
        let shards = Shards::with_options(options, Weigh { least }, Hashed::default(), Evictions(evicted.clone()));
        Memory { writers: std::array::from_fn(|_| Mutex::default()), shards, evicted }
    }

    /// What is filed under a key. Takes a lock for the time of the look-up only, and allocates nothing.
    #[inline]
    pub fn get<'a>(&self, key: impl Into<KeyRef<'a>>) -> Option<Slot> {
        self.shards.get(&key.into())
    }

    /// Files something; what is too large for the store is forgotten.
    pub fn put(&self, key: Key, slot: Slot) {
        let _one = self.writer(&key);
        self.shards.insert(key, slot);
    }

    /// Looks up what is filed under a key and files what `decide` makes of it, if anything, with no other writer of the key between the two. Purges and
    /// evictions may come between. Returns whether something was filed.
    pub fn update(&self, key: &Key, decide: impl FnOnce(Option<Slot>) -> Option<Slot>) -> bool {
        let _one = self.writer(key);
        let slot = decide(self.get(key));
        let is_filed = slot.is_some();
        if let Some(slot) = slot {
            self.shards.insert(key.clone(), slot);
        }
        is_filed
    }

    fn writer(&self, key: &Key) -> MutexGuard<'_, ()> {
        lock(&self.writers[(key.hash_value() >> 40) as usize % WRITERS])
    }

    /// Forgets what is filed under a key.
    pub fn remove<'a>(&self, key: impl Into<KeyRef<'a>>) -> bool {
        self.shards.remove(&key.into()).is_some()
    }

    /// Forgets a response, unless another has taken its place.
    pub fn remove_response(&self, key: &Key, response: &Entry) -> bool {
        let is_same = |slot: &Slot| matches!(slot, Slot::Response(entry) if entry.is(response));
        self.shards.remove_if(&KeyRef::from(key), is_same).is_some()
    }

    /// Removes each response that is chosen, or makes it stale from `now_ms` on; returns how many. Each shard is locked once, one after the other.
    pub fn purge(&self, now_ms: u64, chosen: impl Fn(&[u8], &Entry) -> Option<Purged>) -> u64 {
        let count = AtomicU64::new(0);
        self.shards.retain(|key, slot| {
            let Slot::Response(entry) = slot else { return true };
            let Some(purged) = chosen(key, entry) else { return true };
            count.fetch_add(1, Ordering::Relaxed);
            if purged == Purged::Soft {
                entry.call_stale(now_ms);
            }
            purged == Purged::Soft
        });
        count.into_inner()
    }

    /// Responses of one URL, at most so many. Looks at every entry, a few shards at a time: not for a worker.
    pub fn entries_of(&self, url: &[u8], most: usize) -> Vec<Entry> {
        let of_url = self.shards.iter().filter_map(|(key, slot)| match slot {
            Slot::Response(entry) if url_of(&key) == url => Some(entry),
            _ => None,
        });
        of_url.take(most).collect()
    }

    /// What is kept, for those who look at all of it.
    pub fn entries(&self) -> u64 {
        self.shards.len() as u64
    }

    /// Bytes that count against the bound. Small entries count for more than they take, so that the bound of entries holds.
    pub fn bytes(&self) -> u64 {
        self.shards.weight()
    }

    /// Entries that had to leave since the process started.
    pub fn evictions(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
