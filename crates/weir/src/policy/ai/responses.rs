//! Which provider has the state of a response of the Responses API, and whose it is: ids of the last 100,000 responses, for all workers.
//!
//! An entry has a fixed size, about 250 bytes with the tables around it, whatever the id: 25 MB at most. Only calls of the Responses API come here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// Ids that are kept; then the one that was used least recently is forgotten.
const KEPT: usize = 100_000;

/// The first half of a SHA-256: tenants must not be able to make two of them equal.
type Hash = [u8; 16];

fn hash(parts: &[&[u8]]) -> Hash {
    let mut hash = Sha256::new();
    for part in parts {
        // With its length, so that no two lists of parts look alike.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let whole: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|at| whole[at])
}

/// Whose a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenant(Hash);

impl Tenant {
    /// The tenant with these names.
    pub fn of(names: &[&[u8]]) -> Self {
        Tenant(hash(names))
    }
}

/// What distinguishes a key of a provider in a later configuration; not the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyMark(Hash);

impl KeyMark {
    /// Of this key.
    pub fn of(secret: &str) -> Self {
        KeyMark(hash(&[secret.as_bytes()]))
    }
}

/// Where a response was made, by names of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Model.
    pub model: Arc<str>,
    /// Provider.
    pub provider: Arc<str>,
    /// Name of the model there.
    pub served_model: Arc<str>,
    /// The key, whose account has the state.
    pub key: Option<KeyMark>,
}

/// What is known of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it is of another gateway, of another time, or of nobody.
    Nothing,
    /// It is another tenant's.
    Foreign,
    /// Where the tenant's response was made.
    Own(Origin),
}

/// Ids of responses.
#[derive(Debug)]
pub struct ResponseIds(Mutex<Ids>);

#[derive(Debug)]
struct Ids {
    most: usize,
    by_id: HashMap<Hash, Entry>,
    /// By when they were used.
    by_use: BTreeMap<u64, Hash>,
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    used: u64,
    tenant: Tenant,
    origin: Origin,
}

impl Default for ResponseIds {
    fn default() -> Self {
        ResponseIds::with_room(KEPT)
    }
}

impl ResponseIds {
    fn with_room(most: usize) -> Self {
        let ids = Ids { most, by_id: HashMap::new(), by_use: BTreeMap::new(), uses: 0 };
        ResponseIds(Mutex::new(ids))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Ids) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes where a response was made. An id stays with the tenant that had it first.
    pub fn put(&self, id: &str, tenant: Tenant, origin: &Origin) {
        let id = hash(&[id.as_bytes()]);
        self.with(|ids| {
            if ids.by_id.get(&id).is_some_and(|entry| entry.tenant != tenant) {
                return;
            }
            if !ids.by_id.contains_key(&id)
                && ids.by_id.len() >= ids.most
                && let Some((_, oldest)) = ids.by_use.pop_first()
            {
                ids.by_id.remove(&oldest);
            }
            let used = ids.next_use(id);
            if let Some(before) = ids.by_id.insert(id, Entry { used, tenant, origin: origin.clone() }) {
                ids.by_use.remove(&before.used);
            }
        });
    }

    /// What is known of an id to this tenant.
    pub fn find(&self, id: &str, tenant: Tenant) -> Known {
        let id = hash(&[id.as_bytes()]);
        self.with(|ids| {
            match ids.by_id.get(&id) {
                None => return Known::Nothing,
                Some(entry) if entry.tenant != tenant => return Known::Foreign,
                Some(_) => {}
            }
            let used = ids.next_use(id);
            let Some(entry) = ids.by_id.get_mut(&id) else { return Known::Nothing };
            let before = std::mem::replace(&mut entry.used, used);
            ids.by_use.remove(&before);
            Known::Own(entry.origin.clone())
        })
    }
}

impl Ids {
    fn next_use(&mut self, id: Hash) -> u64 {
        self.uses += 1;
        self.by_use.insert(self.uses, id);
        self.uses
    }
}

#[cfg(test)]
mod tests;
