//! Purges, as far as this process knows of them: its own, and what it read of others in Redis.
//!
//! Redis numbers the purges of a cache; the highest number that was read is the *generation*. Each response carries the generation of the
//! moment when its fetch began, so that a purge concerns exactly the responses of lower generations. The gateways' clocks take no part.
//!
//! A purge of this process has a ticket until Redis has taken it; until then it concerns every response in Redis. Of two purges of one target, the number of the
//! first does not stand for the second.
//!
//! **Lost numbers.** If Redis lost data, numbers may be given again that responses already carry. So new numbers are at least Redis' time in milliseconds
//! (`purge.lua`); a gateway that knows a higher number than Redis gives each purge that it did not know a new number; and a response of a generation that Redis does
//! not have is not used.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::Cache;
use super::entry::Entry;
use super::purge::{Chosen, Target, Which};
use super::rules::key::url_of;
use super::store::Purged;
use super::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use super::sync::{Mutex, lock};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;

/// Purges that fetches in progress are compared with. Beyond that a fetch that began before all of them is not stored.
const RECENT: usize = 1_000;
/// What Redis holds is older than this nowhere, so that an older purge concerns nothing (it keeps responses for seven days).
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Purges that are read between two moments at which the worker serves requests.
const BATCH: usize = 256;

/// The purges of one cache.
#[derive(Debug, Default)]
pub struct Purges {
    list: Mutex<List>,
    /// How many purges were applied here.
    count: AtomicU64,
    /// Highest number of a purge in Redis that was applied here.
    generation: AtomicU64,
    /// One task of the process reads the purges in Redis at a time; the others find that they are current.
    pub reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct List {
    /// The last ones, the newest behind, for fetches in progress.
    recent: VecDeque<Arc<Chosen>>,
    /// What responses from Redis are compared with, by text of the target.
    shared: HashMap<Vec<u8>, Arc<Known>>,
    /// The same by what they concern.
    index: Index,
    /// Tickets of purges that Redis does not have, by text of the target.
    unwritten: HashMap<Vec<u8>, Ticket>,
    last_ticket: Ticket,
    /// What Redis calls the state that was read last; `None` where a purge was written since, which a loss could concern.
    version: Option<Vec<u8>>,
}

/// Stands for a purge until it has a number.
pub type Ticket = u64;

/// A target that was purged, once or several times. Changed under the lock of the list only.
#[derive(Debug)]
struct Known {
    chosen: Arc<Chosen>,
    is_soft: bool,
    /// Its number in Redis; 0: it has none.
    number: AtomicU64,
    /// Redis does not have its last purge, which concerns every response there.
    is_unwritten: AtomicBool,
    /// When it was last applied here, on the clock of cached responses.
    at_ms: AtomicU64,
    /// The same on the clock of this process.
    at_ns: AtomicU64,
}

impl Known {
    fn new(chosen: Arc<Chosen>, is_soft: bool, number: u64) -> Arc<Self> {
        let known = Known {
            chosen,
            is_soft,
            number: AtomicU64::new(number),
            is_unwritten: AtomicBool::new(false),
            at_ms: AtomicU64::new(0),
            at_ns: AtomicU64::new(0),
        };
        known.applied_now();
        Arc::new(known)
    }

    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    fn is_unwritten(&self) -> bool {
        self.is_unwritten.load(Ordering::Relaxed)
    }

    fn applied_now(&self) {
        self.at_ms.store(soft_from_ms(), Ordering::Relaxed);
        self.at_ns.store(clock::now_ns(), Ordering::Relaxed);
    }
}

/// From when on a soft purge of now calls responses stale. By the wall clock, as operators' purges come on another thread than requests, and a
/// second ago: the cached time that a worker judges responses by may be behind by some milliseconds, and what was purged must not be fresh then.
fn soft_from_ms() -> u64 {
    clock::wall_ms().saturating_sub(1_000)
}

/// Purges by what they concern, so that a response is compared with those of its URL, prefixes and tags only.
#[derive(Debug, Default)]
struct Index {
    urls: HashMap<Vec<u8>, Vec<Arc<Known>>>,
    tags: HashMap<Vec<u8>, Vec<Arc<Known>>>,
    /// By length.
    prefixes: BTreeMap<usize, HashMap<Vec<u8>, Vec<Arc<Known>>>>,
    all: Vec<Arc<Known>>,
}

impl Index {
    fn of<'k>(purges: impl IntoIterator<Item = &'k Arc<Known>>) -> Self {
        let mut index = Index::default();
        purges.into_iter().for_each(|known| index.add(known));
        index
    }

    fn add(&mut self, known: &Arc<Known>) {
        let list = match &*known.chosen {
            Chosen::Url(url) => self.urls.entry(url.clone()).or_default(),
            Chosen::Tag(tag) => self.tags.entry(tag.clone()).or_default(),
            Chosen::Prefix(prefix) => self.prefixes.entry(prefix.len()).or_default().entry(prefix.clone()).or_default(),
            Chosen::All => &mut self.all,
        };
        list.push(known.clone());
    }

    /// Those that concern a response.
    fn each<'i>(&'i self, key: &'i [u8], entry: &'i Entry) -> impl Iterator<Item = &'i Arc<Known>> {
        let url = self.urls.get(url_of(key));
        let tags = entry.head.tags.iter().filter_map(|tag| self.tags.get(&**tag));
        let prefixes = self.prefixes.range(..=key.len()).filter_map(|(length, list)| list.get(&key[..*length]));
        url.into_iter().chain(tags).chain(prefixes).flatten().chain(&self.all)
    }
}

/// A purge that Redis has to be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwritten {
    /// The text of its target.
    pub text: Vec<u8>,
    /// The number that it had in Redis, which lost it; otherwise it gets a new one.
    pub number: Option<u64>,
    /// Its ticket if it gets a new number.
    pub ticket: Ticket,
}

/// The purges in Redis.
#[derive(Debug, Default)]
pub struct ReadPurges {
    /// What Redis calls their state.
    pub version: Vec<u8>,
    /// The highest number.
    pub number: u64,
    /// Text of the target, and number.
    pub purges: Vec<(Vec<u8>, u64)>,
}

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
        lock(&self.list).version.as_deref() == Some(version)
    }

    /// Whether Redis lacks a purge of this process.
    pub fn has_unwritten(&self) -> bool {
        !lock(&self.list).unwritten.is_empty()
    }

    /// Lets a response from Redis pass unless it was purged, or is of a generation that Redis does not have; what was purged softly is stale.
    pub fn allows(&self, entry: Entry) -> Option<Entry> {
        let list = lock(&self.list);
        if entry.head.generation > self.generation() {
            return None;
        }
        for known in list.index.each(&entry.head.key, &entry) {
            if !known.is_unwritten() && entry.head.generation >= known.number() {
                continue;
            }
            if !known.is_soft {
                return None;
            }
            entry.call_stale(known.at_ms.load(Ordering::Relaxed));
        }
        Some(entry)
    }

    /// Notes a purge of this process, before Redis has it.
    pub fn note(&self, target: &Target, chosen: Arc<Chosen>) -> Ticket {
        let list = &mut *lock(&self.list);
        let text = target.to_text();
        let known = list.shared.entry(text.clone()).or_insert_with(|| {
            let known = Known::new(chosen, target.soft, 0);
            list.index.add(&known);
            known
        });
        known.applied_now();
        known.is_unwritten.store(true, Ordering::Relaxed);
        list.last_ticket += 1;
        list.unwritten.insert(text, list.last_ticket);
        list.last_ticket
    }

    /// Redis has the purge with this ticket now, by this number. A later purge of the same target goes on being unwritten.
    pub fn told(&self, text: &[u8], ticket: Ticket, number: u64) {
        let list = &mut *lock(&self.list);
        list.version = None;
        if let Some(known) = list.shared.get(text) {
            known.number.fetch_max(number, Ordering::Relaxed);
            if list.unwritten.get(text) == Some(&ticket) {
                list.unwritten.remove(text);
                known.is_unwritten.store(false, Ordering::Relaxed);
            }
        }
        // A fetch that begins from here on began after Redis had all purges up to this one.
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

    /// Notes what was read and is new; with `has_lost_numbers` each gets a ticket for a number that responses do not carry yet.
    fn add(&self, cache: &Cache, read: &[(Vec<u8>, u64)], has_lost_numbers: bool, new: &mut Vec<Arc<Known>>) {
        for (text, number) in read {
            let is_known = lock(&self.list).shared.get(text).is_some_and(|known| known.number() >= *number);
            let Some(target) = Target::from_text(text).filter(|_| !is_known) else { continue };
            let Ok(chosen) = cache.chosen(&target.which) else { continue };
            let chosen = Arc::new(chosen);
            let list = &mut *lock(&self.list);
            // First what responses from Redis are compared with: memory is filled from there.
            let known = list.shared.entry(text.clone()).or_insert_with(|| {
                let known = Known::new(chosen, target.soft, *number);
                list.index.add(&known);
                known
            });
            known.number.fetch_max(*number, Ordering::Relaxed);
            known.applied_now();
            if has_lost_numbers {
                known.is_unwritten.store(true, Ordering::Relaxed);
                list.last_ticket += 1;
                list.unwritten.insert(text.clone(), list.last_ticket);
            }
            new.push(known.clone());
        }
    }

    /// Forgets what concerns nothing any more; returns what Redis lacks of the rest. If that is nothing, `read` is what there is.
    fn settle(&self, read: &ReadPurges) -> Vec<Unwritten> {
        let all = Target { which: Which::All, soft: false }.to_text();
        let there: HashMap<&[u8], u64> = read.purges.iter().map(|(text, number)| (&text[..], *number)).collect();
        let list = &mut *lock(&self.list);
        let all_below = list.shared.get(&all).map_or(0, |known| known.number());
        let oldest_ns = clock::now_ns().saturating_sub(nanos(LONGEST));
        let before = list.shared.len();
        list.shared.retain(|text, known| {
            let is_recent = known.at_ns.load(Ordering::Relaxed) >= oldest_ns;
            known.is_unwritten() || (is_recent && (known.number() >= all_below || *text == all))
        });
        if list.shared.len() != before {
            list.index = Index::of(list.shared.values());
        }
        let mut unwritten = Vec::new();
        for (text, known) in &list.shared {
            let number = known.number();
            if let Some(ticket) = list.unwritten.get(text) {
                unwritten.push(Unwritten { text: text.clone(), number: None, ticket: *ticket });
            } else if there.get(&text[..]).is_none_or(|other| *other < number) {
                unwritten.push(Unwritten { text: text.clone(), number: Some(number), ticket: 0 });
            }
        }
        if unwritten.is_empty() && read.number >= self.generation() {
            list.version = Some(read.version.clone());
            self.generation.fetch_max(read.number, Ordering::AcqRel);
        }
        unwritten
    }
}

impl Cache {
    /// Takes out, or calls stale, what is in memory. What is being fetched and is chosen is not stored.
    pub fn take_out(&self, chosen: &Arc<Chosen>, soft: bool) -> u64 {
        self.state.purges.applied(chosen);
        let purged = if soft { Purged::Soft } else { Purged::Hard };
        self.state.memory.purge(soft_from_ms(), |key, entry| chosen.holds(key, entry).then_some(purged))
    }

    /// Applies what was read from Redis; each purge once. Returns what Redis has to be told: purges of this process that it never had, and what it lost.
    pub async fn merge_purges(self: &Arc<Self>, read: &ReadPurges) -> Vec<Unwritten> {
        let purges = &self.state.purges;
        let has_lost_numbers = read.number < purges.generation();
        let mut new = Vec::new();
        for batch in read.purges.chunks(BATCH) {
            purges.add(self, batch, has_lost_numbers, &mut new);
            tokio::task::yield_now().await;
        }
        if !new.is_empty() {
            let cache = self.clone();
            // Looking through a large store takes longer than requests may wait.
            let looked_through = tokio::task::spawn_blocking(move || cache.take_out_all(&new, has_lost_numbers));
            if looked_through.await.is_err() {
                return Vec::new();
            }
        }
        purges.settle(read)
    }

    /// Takes out of memory what the purges concern; of responses with a number, those below the purge's, if numbers can be compared.
    fn take_out_all(&self, new: &[Arc<Known>], has_lost_numbers: bool) {
        new.iter().for_each(|known| self.state.purges.applied(&known.chosen));
        let index = Index::of(new);
        self.state.memory.purge(soft_from_ms(), |key, entry| {
            let concerns = |known: &&Arc<Known>| has_lost_numbers || entry.head.generation < known.number();
            let purges = index.each(key, entry).filter(concerns);
            purges.map(|known| if known.is_soft { Purged::Soft } else { Purged::Hard }).max()
        });
    }
}

#[cfg(test)]
mod tests;
