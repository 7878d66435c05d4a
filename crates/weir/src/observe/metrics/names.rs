//! Cells by name and worker: how counts outlive the configuration that named them.
//!
//! A route of a new configuration that has the name of an old one goes on counting in the same cells. A name that no
//! worker refers to any more is reported for ten more minutes, long enough for every scraper to see its last counts,
//! and is then dropped for all workers at once: dropping it worker by worker would look like a counter that was reset.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a name that nothing refers to is still reported.
const KEPT: Duration = Duration::from_secs(600);

/// Cells of every name of one kind (routes, upstreams, ...).
#[derive(Debug)]
pub(super) struct Names<C>(Mutex<BTreeMap<Arc<str>, Entry<C>>>);

#[derive(Debug)]
struct Entry<C> {
    /// Indexed by worker; a worker that never used the name has none.
    cells: Vec<Option<Arc<C>>>,
    /// When it was first seen that no worker holds a handle.
    unused_since: Option<Instant>,
}

impl<C> Default for Names<C> {
    fn default() -> Self {
        Names(Mutex::default())
    }
}

impl<C: Default> Names<C> {
    /// Cells of a name for a worker, made when they are not there.
    pub(super) fn get(&self, name: &str, worker: usize) -> Arc<C> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !map.contains_key(name) {
            map.insert(name.into(), Entry { cells: Vec::new(), unused_since: None });
        }
        let entry = map.get_mut(name).expect("inserted above");
        entry.unused_since = None;
        if entry.cells.len() <= worker {
            entry.cells.resize_with(worker + 1, || None);
        }
        entry.cells[worker].get_or_insert_default().clone()
    }

    /// Every name with the cells of all workers; names that went out of use long before `now` are dropped.
    pub(super) fn snapshot(&self, now: Instant) -> Vec<(Arc<str>, Vec<Arc<C>>)> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|_, entry| {
            // A handle holds a count of its own; so does another snapshot that is being read, which only puts the end
            // off.
            if entry.cells.iter().flatten().any(|cells| Arc::strong_count(cells) > 1) {
                entry.unused_since = None;
                return true;
            }
            now.saturating_duration_since(*entry.unused_since.get_or_insert(now)) < KEPT
        });
        map.iter().map(|(name, entry)| (name.clone(), entry.cells.iter().flatten().cloned().collect())).collect()
    }
}
