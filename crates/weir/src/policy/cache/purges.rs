//! Purges, as far as this process knows of them: its own, and what it read of others in Redis.
//!
//! Redis numbers the purges of a cache; the highest number that was read is the *generation*. Each response carries the generation of the
//! moment when its fetch began, so that a purge concerns exactly the responses of lower generations. No clock takes part.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Cache;
use super::entry::Entry;
use super::purge::{Chosen, Target, Which};
use crate::server::clock;
use crate::server::deadline::nanos;
use crate::server::shared::lock;

/// Purges that fetches in progress are compared with. Beyond that a fetch that began before all of them is not stored.
const RECENT: usize = 1_000;
/// What Redis holds is older than this nowhere, so that an older purge concerns nothing (it keeps responses for seven days).
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// The purges of one cache.
#[derive(Debug, Default)]
pub struct Purges {
    list: Mutex<List>,
    /// How many purges were applied here.
    count: AtomicU64,
    /// Highest number of a purge in Redis that was applied here.
    generation: AtomicU64,
}

#[derive(Debug, Default)]
struct List {
    /// The last ones, the newest behind, for fetches in progress.
    recent: VecDeque<Arc<Chosen>>,
    /// What responses from Redis are compared with, by text of the target.
    shared: HashMap<Vec<u8>, Known>,
    /// What Redis calls the state that was read last.
    version: Vec<u8>,
}

#[derive(Debug)]
struct Known {
    /// Its number; `None` while Redis does not have it: then it concerns every response there.
    number: Option<u64>,
    chosen: Arc<Chosen>,
    is_soft: bool,
    /// When it was applied here, in milliseconds since the Unix epoch.
    at_ms: u64,
    /// The same on the clock of this process, which never steps.
    at_ns: u64,
}

/// A purge that Redis has to be told of: the text of its target, and its number if it had one.
pub type Untold = (Vec<u8>, Option<u64>);

impl Purges {
    /// How many purges were applied here.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// The generation of a fetch that begins.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether a response was purged since there were `count` purges.
    pub fn covers_since(&self, count: u64, entry: &Entry) -> bool {
        if self.count() == count {
            return false;
        }
        let list = lock(&self.list);
        let since = usize::try_from(self.count() - count).unwrap_or(usize::MAX);
        since > list.recent.len()
            || list.recent.iter().rev().take(since).any(|chosen| chosen.holds(&entry.head.key, entry))
    }

    /// Whether what was read last is still all that there is.
    pub fn is_current(&self, version: &[u8]) -> bool {
        lock(&self.list).version == version
    }

    /// Lets a response from Redis pass unless it was purged; what was purged softly is stale.
    pub fn allows(&self, entry: Entry) -> Option<Entry> {
        let list = lock(&self.list);
        let concerned = list.shared.values().filter(|known| {
            known.number.is_none_or(|number| entry.head.generation < number)
                && known.chosen.holds(&entry.head.key, &entry)
        });
        for known in concerned {
            if !known.is_soft {
                return None;
            }
            entry.call_stale(known.at_ms);
        }
        Some(entry)
    }

    /// Notes a purge of this process, before Redis has it.
    pub fn note(&self, target: &Target, chosen: Arc<Chosen>) {
        let known =
            Known { number: None, chosen, is_soft: target.soft, at_ms: clock::unix_ms(), at_ns: clock::now_ns() };
        lock(&self.list).shared.insert(target.to_text(), known);
    }

    /// Redis has the purge of this process now, by this number.
    pub fn told(&self, text: &[u8], number: u64) {
        if let Some(known) = lock(&self.list).shared.get_mut(text) {
            known.number = Some(number.max(known.number.unwrap_or(0)));
        }
        self.generation.fetch_max(number, Ordering::AcqRel);
    }

    fn applied(&self, chosen: &Arc<Chosen>) {
        let mut list = lock(&self.list);
        list.recent.push_back(chosen.clone());
        if list.recent.len() > RECENT {
            list.recent.pop_front();
        }
        // Before the store is looked through, so that what is stored after that knows.
        self.count.fetch_add(1, Ordering::AcqRel);
    }
}

impl Cache {
    /// Takes out, or calls stale, what is in memory; of responses with a number, those below it. What is being fetched and is chosen is not stored.
    pub fn take_out(&self, chosen: &Arc<Chosen>, soft: bool, below: Option<u64>) -> u64 {
        self.state.purges.applied(chosen);
        let is_chosen = |key: &[u8], entry: &Entry| {
            below.is_none_or(|number| entry.head.generation < number) && chosen.holds(key, entry)
        };
        self.state.memory.purge(soft.then(clock::unix_ms), is_chosen)
    }

    /// Applies what was read from Redis; each purge once. Returns what Redis has to be told: purges of this process that it never had, and what it lost.
    pub fn merge_purges(&self, version: &[u8], number: u64, read: &[(Vec<u8>, u64)]) -> Vec<Untold> {
        let purges = &self.state.purges;
        for (text, number) in read {
            let is_known = lock(&purges.list).shared.get(text).is_some_and(|known| known.number >= Some(*number));
            let Some(target) = Target::from_text(text).filter(|_| !is_known) else { continue };
            let Ok(chosen) = self.chosen(&target.which) else { continue };
            let chosen = Arc::new(chosen);
            // First what responses from Redis are compared with: memory is filled from there.
            let (at_ms, at_ns) = (clock::unix_ms(), clock::now_ns());
            let known = Known { number: Some(*number), chosen: chosen.clone(), is_soft: target.soft, at_ms, at_ns };
            lock(&purges.list).shared.insert(text.clone(), known);
            self.take_out(&chosen, target.soft, Some(*number));
        }
        let all = Target { which: Which::All, soft: false }.to_text();
        let mut list = lock(&purges.list);
        let all_below = list.shared.get(&all).and_then(|known| known.number).unwrap_or(0);
        let oldest_ns = clock::now_ns().saturating_sub(nanos(LONGEST));
        list.shared.retain(|text, known| {
            known.number.is_none_or(|number| (number >= all_below || *text == all) && known.at_ns >= oldest_ns)
        });
        let has = |text: &[u8], own: u64| read.iter().any(|(other, number)| other == text && *number >= own);
        let untold = list.shared.iter().filter(|(text, known)| known.number.is_none_or(|own| !has(text, own)));
        let untold: Vec<Untold> = untold.map(|(text, known)| (text.clone(), known.number)).collect();
        if untold.is_empty() {
            list.version = version.to_vec();
            purges.generation.fetch_max(number, Ordering::AcqRel);
        }
        untold
    }
}
