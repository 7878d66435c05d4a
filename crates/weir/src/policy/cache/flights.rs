//! Which fetches are under way, so that one key is asked for once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

use super::fill::{Budget, Fill, Reader};
use super::invalid::Invalidated;
use super::rules::key::url_of;
use crate::server::shared::lock;

const SHARDS: usize = 32;

type Map = HashMap<Arc<[u8]>, Flight, RandomState>;

/// When a fetch began, as far as it matters to those who would join it.
#[derive(Debug, Clone, Copy)]
pub struct Began {
    /// How often the cache had been purged.
    pub purges: u64,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
}

#[derive(Debug)]
struct Flight {
    fill: Arc<Fill>,
    began: Began,
}

impl Flight {
    /// Whether its answer will do for a request that comes `now`: not after a purge or a change of the URL, which it knows nothing of.
    fn will_do(&self, key: &[u8], now: Began, invalidated: &Invalidated) -> bool {
        self.began.purges >= now.purges && !invalidated.covers(url_of(key), self.began.at_ms)
    }
}

/// Fetches by key. Touched by misses only.
#[derive(Debug)]
pub struct Flights {
    shards: [Mutex<Map>; SHARDS],
    hasher: RandomState,
}

/// What a miss finds.
#[derive(Debug)]
pub enum Joined {
    /// Nobody fetches it: the caller does, and leaves the key when it is done.
    Lead(Arc<Fill>, Arc<[u8]>),
    /// Somebody does.
    Follow(Reader),
}

impl Default for Flights {
    fn default() -> Self {
        Flights { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::default() }
    }
}

impl Flights {
    fn shard(&self, key: &[u8]) -> &Mutex<Map> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Joins the fetch of a key, or begins it. One that would bring what was purged or changed meanwhile is left to those who wait for it.
    pub fn join(
        &self,
        key: &[u8],
        (limit, budget): (u64, &Arc<Budget>),
        now: Began,
        invalidated: &Invalidated,
    ) -> Joined {
        let mut map = lock(self.shard(key));
        let flight = map.get(key).filter(|flight| flight.will_do(key, now, invalidated));
        // One that began to forget is for those who came in time.
        if let Some(reader) = flight.and_then(|flight| flight.fill.read()) {
            return Joined::Follow(reader);
        }
        let fill = Fill::new(limit, budget.clone());
        let key: Arc<[u8]> = key.into();
        map.insert(key.clone(), Flight { fill: fill.clone(), began: now });
        Joined::Lead(fill, key)
    }

    /// Makes a fetch known under another key too, unless somebody fetches that already, and no longer ago.
    pub fn add(&self, key: &Arc<[u8]>, fill: &Arc<Fill>, began: Began, invalidated: &Invalidated) -> bool {
        let mut map = lock(self.shard(key));
        let is_free = !map.get(key).is_some_and(|flight| flight.will_do(key, began, invalidated));
        if is_free {
            map.insert(key.clone(), Flight { fill: fill.clone(), began });
        }
        is_free
    }

    /// Nobody may join this fetch any more.
    pub fn leave(&self, key: &[u8], fill: &Arc<Fill>) {
        let mut map = lock(self.shard(key));
        if map.get(key).is_some_and(|flight| Arc::ptr_eq(&flight.fill, fill)) {
            map.remove(key);
        }
    }
}
