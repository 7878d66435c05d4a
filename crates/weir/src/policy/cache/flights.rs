//! Which fetches are in flight, so that one key is fetched once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::fill::{Budget, Fill, Reader};
use super::invalid::Invalidated;
use super::key::{Key, KeyRef};
use super::rules::key::url_of;
use super::sync::{Mutex, lock};
use crate::runtime::hash::Hashed;

const SHARDS: usize = 32;

/// By hash of the key: where two keys in 2^64 have the same, who comes second fetches for himself.
type Map = HashMap<u64, Flight, Hashed>;

/// When a fetch began, as far as it matters to those who would join it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Began {
    /// How often the cache had been purged.
    pub purges: u64,
    /// The generation of purges in Redis that was known.
    pub generation: u64,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
}

#[derive(Debug)]
struct Flight {
    key: Key,
    fill: Arc<Fill>,
    began: Began,
}

impl Flight {
    /// Whether its response will do for a request that comes `now`: not after a purge or a change of the URL, which it knows nothing of.
    fn will_do(&self, now: Began, invalidated: &Invalidated) -> bool {
        self.began.purges >= now.purges && !invalidated.covers(url_of(&self.key), self.began.at_ms)
    }
}

/// Fetches by key. Touched by misses only.
#[derive(Debug)]
pub struct Flights {
    shards: [Mutex<Map>; SHARDS],
}

/// What a miss finds.
#[derive(Debug)]
pub enum Joined {
    /// Nobody fetches it: the caller does, and leaves the key when it is done if the fetch is known under it.
    Lead {
        /// The fetch.
        fill: Arc<Fill>,
        /// Its key.
        key: Key,
        /// Whether others find it.
        is_known: bool,
    },
    /// Somebody does.
    Follow(Reader),
}

impl Default for Flights {
    fn default() -> Self {
        Flights { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Flights {
    /// Other bits of the hash than those by which the map of a shard distributes its entries.
    fn shard(&self, hash: u64) -> &Mutex<Map> {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Joins the fetch of a key, or begins it. A fetch that would return what was purged or changed meanwhile is left to the requests that wait for it.
    pub fn join(
        &self,
        key: KeyRef<'_>,
        (limit, budget): (u64, &Arc<Budget>),
        now: Began,
        invalidated: &Invalidated,
    ) -> Joined {
        let hash = key.hash_value();
        let mut map = lock(self.shard(hash));
        let entry = map.entry(hash);
        let mut is_known = true;
        if let Entry::Occupied(entry) = &entry {
            let flight = entry.get();
            is_known = *flight.key == *key;
            // One that began to forget is for those who came before the deadline.
            if is_known
                && flight.will_do(now, invalidated)
                && let Some(reader) = flight.fill.read()
            {
                return Joined::Follow(reader);
            }
        }
        let (fill, key) = (Fill::new(limit, budget.clone()), key.to_key());
        if is_known {
            entry.insert_entry(Flight { key: key.clone(), fill: fill.clone(), began: now });
        }
        Joined::Lead { fill, key, is_known }
    }

    /// Makes a fetch known under another key too, unless somebody fetches that already, and no longer ago.
    pub fn add(&self, key: &Key, fill: &Arc<Fill>, began: Began, invalidated: &Invalidated) -> bool {
        let mut map = lock(self.shard(key.hash_value()));
        let there = map.get(&key.hash_value());
        let is_free = there.is_none_or(|flight| flight.key == *key && !flight.will_do(began, invalidated));
        if is_free {
            map.insert(key.hash_value(), Flight { key: key.clone(), fill: fill.clone(), began });
        }
        is_free
    }

    /// Nobody may join this fetch any more.
    pub fn close(&self, key: &Key, fill: &Arc<Fill>) {
        let mut map = lock(self.shard(key.hash_value()));
        if let Entry::Occupied(entry) = map.entry(key.hash_value())
            && Arc::ptr_eq(&entry.get().fill, fill)
        {
            let flight = entry.remove();
            // What it holds is given back without the lock.
            drop(map);
            drop(flight);
        }
    }
}
