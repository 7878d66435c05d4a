//! Which fetches are under way, so that one key is asked for once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

use super::fill::{Budget, Fill, Reader};
use crate::server::shared::lock;

const SHARDS: usize = 32;

type Map = HashMap<Arc<[u8]>, Arc<Fill>, RandomState>;

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

    /// Joins the fetch of a key, or begins it.
    pub fn join(&self, key: &[u8], limit: u64, budget: &Arc<Budget>) -> Joined {
        let mut map = lock(self.shard(key));
        // One that began to forget is for those who came in time.
        if let Some(reader) = map.get(key).and_then(|fill| fill.read()) {
            return Joined::Follow(reader);
        }
        let fill = Fill::new(limit, budget.clone());
        let key: Arc<[u8]> = key.into();
        map.insert(key.clone(), fill.clone());
        Joined::Lead(fill, key)
    }

    /// Makes a fetch known under another key too, unless somebody fetches that already.
    pub fn add(&self, key: &Arc<[u8]>, fill: &Arc<Fill>) -> bool {
        let mut map = lock(self.shard(key));
        let is_free = !map.contains_key(key);
        if is_free {
            map.insert(key.clone(), fill.clone());
        }
        is_free
    }

    /// The fetch of a key, if it is under way.
    pub fn is_under_way(&self, key: &[u8]) -> bool {
        lock(self.shard(key)).contains_key(key)
    }

    /// Nobody may join this fetch any more.
    pub fn leave(&self, key: &[u8], fill: &Arc<Fill>) {
        let mut map = lock(self.shard(key));
        if map.get(key).is_some_and(|there| Arc::ptr_eq(there, fill)) {
            map.remove(key);
        }
    }
}
