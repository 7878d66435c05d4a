//! Counts in memory, shared by all workers.
//!
//! A key is one 128-bit word: 56 bits that tell it apart from the others of its shard, and 72 bits of state. So looking a key up,
//! checking it and charging it is one load and one compare-and-swap, no lock is taken, and a word that is given to another key in
//! between makes the swap fail. Two of a million keys that are in use at the same time share a count by accident with odds of one in nine million
//! (2^62 values against 2^39 pairs); the hash is keyed per process, so nobody can cause it on purpose.
//!
//! A new key takes a word under its shard's lock. A word whose state is dead (see [`Algorithm::is_live`]) is free to take. When a shard is
//! full it is rebuilt, larger or without the dead: every word of the old array is swapped for a mark, which takes its last
//! state along; whoever meets the mark waits at the lock and looks again.

mod shard;
mod sync;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Decision, Key};
use limiter::{Algorithm, Charge, Now, STATE_BITS, State};
use shard::{Shard, TagLookup};
use sync::{AtomicU64, AtomicU128, AtomicUsize};

const STATE_MASK: u128 = (1 << STATE_BITS) - 1;
const TAG_MASK: u128 = (1 << (128 - STATE_BITS)) - 1;
/// A shard for so many keys, up to the most shards.
const KEYS_PER_SHARD: usize = 1024;
const MOST_SHARDS: usize = 64;

/// The counts of one limit. Limits that count the same with different quotas may share them; a clone does.
#[derive(Clone)]
pub struct Memory {
    algorithm: Algorithm,
    table: Arc<Table>,
}

struct Table {
    shards: Box<[Shard]>,
    /// Words in use.
    held: AtomicUsize,
    /// Never more than this.
    max_keys: AtomicUsize,
    /// What new keys share when no word is left.
    overflow: AtomicU128,
    overflowed: AtomicU64,
}

/// What is needed to take a charge back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receipt {
    charge: Charge,
    in_overflow: bool,
}

impl Receipt {
    /// A charge that was made now, and left this state.
    fn of(state: State, now: Now) -> Self {
        Receipt { charge: Charge { state, at_ns: now.ns }, in_overflow: false }
    }

    /// The same charge as if it were made at another moment.
    pub(super) fn made_at(self, now: Now) -> Self {
        Receipt { charge: Charge { at_ns: now.ns, ..self.charge }, ..self }
    }
}

/// Tag of the word that new keys share.
const OVERFLOW: u128 = 1;

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("algorithm", &self.algorithm).field("keys", &self.keys()).finish_non_exhaustive()
    }
}

impl Memory {
    /// No counts yet.
    pub fn new(algorithm: Algorithm, max_keys: usize) -> Self {
        let shards = (max_keys / KEYS_PER_SHARD).next_power_of_two().clamp(1, MOST_SHARDS);
        let table = Table {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            held: AtomicUsize::new(0),
            max_keys: AtomicUsize::new(max_keys),
            overflow: AtomicU128::new(OVERFLOW << STATE_BITS),
            overflowed: AtomicU64::new(0),
        };
        Memory { algorithm, table: Arc::new(table) }
    }

    /// The same counts for another quota. What `algorithm` makes of a state must be what the first one made of it: windows of the same kind
    /// and length.
    pub(super) fn with(&self, algorithm: Algorithm) -> Self {
        Memory { algorithm, table: self.table.clone() }
    }

    /// Whether these are the same counts.
    pub(super) fn shares(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
    }

    /// The numbers that it counts with.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// Keys that it holds; some may be idle since the last [`sweep`](Self::sweep).
    pub fn keys(&self) -> usize {
        self.table.held.load(Relaxed)
    }

    /// Keys that it may hold.
    pub fn max_keys(&self) -> usize {
        self.table.max_keys.load(Relaxed)
    }

    /// Changes how many keys it may hold; those that are there stay.
    pub fn set_max_keys(&self, max_keys: usize) {
        self.table.max_keys.store(max_keys, Relaxed);
    }

    /// Requests that were counted in the shared word because there was none for their key.
    pub fn overflowed(&self) -> u64 {
        self.table.overflowed.load(Relaxed)
    }

    /// Checks and charges at once.
    #[inline]
    pub fn charge(&self, key: Key, cost: u64, now: Now) -> (Decision, Receipt) {
        let (shard, tag) = self.place(key);
        let slots = shard.slots.load();
        if let TagLookup::Spanned(slot, value) = slots.find(tag)
            && let Some(done) = self.charge_slot(slot, value, cost, now)
        {
            return done;
        }
        drop(slots);
        self.charge_new(shard, tag, cost, now)
    }

    /// What a charge would lead to. Writes nothing.
    pub fn peek(&self, key: Key, cost: u64, now: Now) -> Decision {
        self.algorithm.charge(self.state(key), cost, now).1
    }

    /// Whether the key has a count that still says something.
    pub fn is_live(&self, key: Key, now: Now) -> bool {
        self.algorithm.is_live(self.state(key), now)
    }

    /// Whether a bucket still had something of this charge in it if nobody else had come.
    pub(super) fn holds(&self, receipt: Receipt, now: Now) -> bool {
        self.algorithm.is_live(receipt.charge.state, now)
    }

    /// Takes a charge back. `now` must be read from the clock: the time cached per event-loop iteration is too old.
    pub fn refund(&self, key: Key, cost: u64, receipt: Receipt, now: Now) {
        let give_back = |slot: &AtomicU128, mut value: u128| {
            let tag = value >> STATE_BITS;
            while value >> STATE_BITS == tag {
                let state = self.algorithm.refund(value & STATE_MASK, cost, receipt.charge, now);
                match slot.compare_exchange_weak(value, word(tag, state), Relaxed, Relaxed) {
                    Ok(_) => return true,
                    Err(actual) => value = actual,
                }
            }
            false
        };
        if receipt.in_overflow {
            give_back(&self.table.overflow, self.table.overflow.load(Relaxed));
            return;
        }
        let (shard, tag) = self.place(key);
        let slots = shard.slots.load();
        match slots.find(tag) {
            TagLookup::Spanned(slot, value) if give_back(slot, value) => return,
            TagLookup::Nothing => return,
            TagLookup::Spanned(..) | TagLookup::Moved => {}
        }
        drop(slots);
        // The shard is being rebuilt: after that, the word stays where it is.
        let _writer = shard.lock();
        let slots = shard.slots.load();
        if let TagLookup::Spanned(slot, value) = slots.find(tag) {
            give_back(slot, value);
        }
    }

    /// Forgets what was charged to the key; false when there was nothing.
    pub fn reset(&self, key: Key, now: Now) -> bool {
        let (shard, tag) = self.place(key);
        let _writer = shard.lock();
        let slots = shard.slots.load();
        let TagLookup::Spanned(slot, mut value) = slots.find(tag) else { return false };
        loop {
            match slot.compare_exchange_weak(value, word(tag, 0), Relaxed, Relaxed) {
                Ok(_) => return self.algorithm.is_live(value & STATE_MASK, now),
                Err(actual) => value = actual,
            }
        }
    }

    /// Gives back the memory of keys that say nothing any more. Takes each shard's lock for a fraction of a millisecond; done by the control
    /// thread every few seconds.
    pub fn sweep(&self, now: Now) {
        for shard in &self.table.shards {
            let mut writer = shard.lock();
            self.table.held.fetch_sub(shard.sweep(&mut writer, |state| self.algorithm.is_live(state, now)), Relaxed);
        }
        shard::clear_dead(&self.table.overflow, |state| self.algorithm.is_live(state, now));
    }

    #[inline]
    fn place(&self, Key(key): Key) -> (&Shard, u128) {
        // Neither 0, which is an empty word, nor all ones, which is the mark of a moved one.
        let tag = (key & TAG_MASK).clamp(2, TAG_MASK - 1);
        let index = (key >> 64) as usize & (self.table.shards.len() - 1);
        (&self.table.shards[index], tag)
    }

    /// State of a key; that of the shared word when a new key would be counted there.
    fn state(&self, key: Key) -> State {
        let (shard, tag) = self.place(key);
        let mut found = match shard.slots.load().find(tag) {
            TagLookup::Spanned(_, value) => Some(value),
            TagLookup::Nothing => None,
            TagLookup::Moved => {
                let _writer = shard.lock();
                match shard.slots.load().find(tag) {
                    TagLookup::Spanned(_, value) => Some(value),
                    TagLookup::Nothing | TagLookup::Moved => None,
                }
            }
        };
        if found.is_none() && self.keys() >= self.max_keys() {
            found = Some(self.table.overflow.load(Relaxed));
        }
        found.unwrap_or(0) & STATE_MASK
    }

    /// Charges the key that `slot` had; `None` when it has another by now.
    #[inline]
    fn charge_slot(&self, slot: &AtomicU128, mut value: u128, cost: u64, now: Now) -> Option<(Decision, Receipt)> {
        let tag = value >> STATE_BITS;
        loop {
            let (next, decision) = self.algorithm.charge(value & STATE_MASK, cost, now);
            let Some(state) = next else { return Some((decision, Receipt::default())) };
            match slot.compare_exchange_weak(value, word(tag, state), Relaxed, Relaxed) {
                Ok(_) => return Some((decision, Receipt::of(state, now))),
                Err(actual) if actual >> STATE_BITS == tag => value = actual,
                Err(_) => return None,
            }
        }
    }

    /// Finds a word for a key that has none.
    #[cold]
    fn charge_new(&self, shard: &Shard, tag: u128, cost: u64, now: Now) -> (Decision, Receipt) {
        let (next, decision) = self.algorithm.charge(0, cost, now);
        let mut writer = shard.lock();
        loop {
            let slots = shard.slots.load();
            // It may have come in before the lock was taken.
            if let TagLookup::Spanned(slot, value) = slots.find(tag) {
                if let Some(done) = self.charge_slot(slot, value, cost, now) {
                    return done;
                }
                continue;
            }
            // Requesting too much leaves no trace.
            let Some(state) = next else { return (decision, Receipt::default()) };
            let charged = (decision, Receipt::of(state, now));
            let is_live = |state| self.algorithm.is_live(state, now);
            if slots.take_dead(tag, word(tag, state), is_live) {
                return charged;
            }
            if !slots.has_room(&writer) {
                self.table.held.fetch_sub(shard.rebuild(&mut writer, is_live), Relaxed);
            } else if self.reserve() {
                slots.take_empty(&mut writer, tag, word(tag, state));
                return charged;
            } else if writer.may_purge(&slots, now.ns) {
                self.table.held.fetch_sub(shard.rebuild(&mut writer, is_live), Relaxed);
            } else {
                break;
            }
        }
        drop(writer);
        self.table.overflowed.fetch_add(1, Relaxed);
        // The shared word keeps its tag, so this always ends with a decision.
        let shared = self.charge_slot(&self.table.overflow, self.table.overflow.load(Relaxed), cost, now);
        let (decision, receipt) = shared.unwrap_or((decision, Receipt::default()));
        (decision, Receipt { in_overflow: true, ..receipt })
    }

    /// Counts one more word, if there may be one.
    fn reserve(&self) -> bool {
        let most = self.max_keys();
        self.table.held.fetch_update(Relaxed, Relaxed, |held| (held < most).then_some(held + 1)).is_ok()
    }
}

#[inline]
fn word(tag: u128, state: State) -> u128 {
    tag << STATE_BITS | state
}

#[cfg(test)]
mod tests;
