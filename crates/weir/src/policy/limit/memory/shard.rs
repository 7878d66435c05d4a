//! A part of the table: words that are looked up without a lock, and the lock under which words are given to keys.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::sync::{ArcSwap, AtomicU128, Mutex, MutexGuard, PoisonError};
use super::{STATE_BITS, STATE_MASK};
use limiter::State;

/// What is in a word of an array that was left for another.
const MOVED: u128 = u128::MAX;
const FEWEST: usize = 8;
/// A full shard is looked through for dead keys only so often: a nanosecond of work or two for each microsecond.
const PURGE_NS_PER_WORD: u64 = 1_000;

/// A part of the table; a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Shard {
    pub(super) slots: ArcSwap<Slots>,
    writer: Mutex<Writer>,
}

/// What only the holder of a shard's lock knows.
#[derive(Default)]
pub(super) struct Writer {
    /// Words that are not empty, whether alive or dead.
    occupied: usize,
    purged_ns: u64,
}

/// The words. A power of two of them, or none. A key lies at the place that its tag names or behind it, before the first empty word.
#[derive(Default)]
pub(super) struct Slots(Box<[AtomicU128]>);

/// What came of looking for a tag.
pub(super) enum TagLookup<'a> {
    /// This word had it, with this value.
    Spanned(&'a AtomicU128, u128),
    /// No word has it.
    Nothing,
    /// The array is being left for another.
    Moved,
}

impl Shard {
    pub(super) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what is alive to an array that is half full at most. Returns how many keys were dropped.
    pub(super) fn rebuild(&self, writer: &mut Writer, is_live: impl Fn(State) -> bool) -> usize {
        let old = self.slots.load_full();
        let live = old.0.iter().filter(|slot| is_taken(slot, &is_live)).count();
        let new = Slots::new(((live + 1) * 2).next_power_of_two().max(FEWEST));
        self.replace(writer, &old, new, is_live)
    }

    /// Clears what is dead, and rebuilds the array when that is worth it; with nothing alive no array is left. It has to be called more often
    /// than window numbers come again (`sliding_window.rs`).
    pub(super) fn sweep(&self, writer: &mut Writer, is_live: impl Fn(State) -> bool) -> usize {
        if writer.occupied == 0 {
            return 0;
        }
        let old = self.slots.load_full();
        let live = old.0.iter().filter(|slot| !clear_dead(slot, &is_live)).count();
        let is_sparse = old.0.len() > FEWEST && live * 8 < old.0.len();
        if live == 0 {
            self.replace(writer, &old, Slots::default(), is_live)
        } else if is_sparse || (writer.occupied - live) * 4 > writer.occupied {
            drop(old);
            self.rebuild(writer, is_live)
        } else {
            0
        }
    }

    fn replace(&self, writer: &mut Writer, old: &Slots, mut new: Slots, is_live: impl Fn(State) -> bool) -> usize {
        let before = writer.occupied;
        writer.occupied = 0;
        let mut late = Vec::new();
        for slot in &old.0 {
            // From here on nobody charges this word any more.
            let value = slot.swap(MOVED, Relaxed);
            if value != 0 && is_live(value & STATE_MASK) {
                // A key may have come back to life after they were counted.
                if (writer.occupied + 1) * 4 <= new.0.len() * 3 {
                    new.put(value);
                    writer.occupied += 1;
                } else {
                    late.push(value);
                }
            }
        }
        if !late.is_empty() {
            let all = new.0.iter().map(|slot| slot.load(Relaxed)).filter(|value| *value != 0).chain(late);
            let all: Vec<u128> = all.collect();
            new = Slots::new(((all.len() + 1) * 2).next_power_of_two().max(FEWEST));
            writer.occupied = all.len();
            all.into_iter().for_each(|value| new.put(value));
        }
        self.slots.store(Arc::new(new));
        before - writer.occupied
    }
}

/// Whether a word is empty or dead. A dead state is replaced by that of a key that was never used: windows are numbered with few bits, and
/// a state that lay here until its number came again would be taken for a new one.
pub(super) fn clear_dead(slot: &AtomicU128, is_live: impl Fn(State) -> bool) -> bool {
    let mut value = slot.load(Relaxed);
    while value & STATE_MASK != 0 {
        if is_live(value & STATE_MASK) {
            return false;
        }
        match slot.compare_exchange_weak(value, value & !STATE_MASK, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(actual) => value = actual,
        }
    }
    true
}

/// Whether a word has a key that is alive.
fn is_taken(slot: &AtomicU128, is_live: impl Fn(State) -> bool) -> bool {
    let value = slot.load(Relaxed);
    value != 0 && is_live(value & STATE_MASK)
}

impl Writer {
    /// Whether a shard without room may be looked through for dead keys; stores that it was.
    pub(super) fn may_purge(&mut self, slots: &Slots, now_ns: u64) -> bool {
        let pause = slots.0.len() as u64 * PURGE_NS_PER_WORD;
        let may = self.purged_ns == 0 || now_ns >= self.purged_ns.saturating_add(pause);
        if may {
            self.purged_ns = now_ns.max(1);
        }
        may
    }
}

impl Slots {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(all(test, feature = "shuttle"))]
    pub(super) fn words(&self) -> &[AtomicU128] {
        &self.0
    }

    fn new(length: usize) -> Self {
        Slots((0..length).map(|_| AtomicU128::new(0)).collect())
    }

    /// Words from the one that the tag names on, each once.
    #[inline]
    fn path(&self, tag: u128) -> impl Iterator<Item = &AtomicU128> {
        let (before, from) = self.0.split_at(tag as usize & self.0.len().wrapping_sub(1));
        from.iter().chain(before)
    }

    #[inline]
    pub(super) fn find(&self, tag: u128) -> TagLookup<'_> {
        if self.0.is_empty() {
            return TagLookup::Nothing;
        }
        for slot in self.path(tag) {
            let value = slot.load(Relaxed);
            if value >> STATE_BITS == tag {
                return TagLookup::Spanned(slot, value);
            }
            match value {
                0 => return TagLookup::Nothing,
                MOVED => return TagLookup::Moved,
                _ => {}
            }
        }
        TagLookup::Nothing
    }

    /// Gives the first dead word on the tag's path to it. The key that had it may come back to life at the same time: then it keeps it.
    pub(super) fn take_dead(&self, tag: u128, word: u128, is_live: impl Fn(State) -> bool) -> bool {
        if self.0.is_empty() {
            return false;
        }
        for slot in self.path(tag) {
            let value = slot.load(Relaxed);
            if value == 0 {
                return false;
            }
            if !is_live(value & STATE_MASK) && slot.compare_exchange(value, word, Relaxed, Relaxed).is_ok() {
                return true;
            }
        }
        false
    }

    /// Whether one more key leaves paths short.
    pub(super) fn has_room(&self, writer: &Writer) -> bool {
        (writer.occupied + 1) * 4 <= self.0.len() * 3
    }

    /// Gives the first empty word on the tag's path to it. Only for the holder of the lock, when there is room.
    pub(super) fn take_empty(&self, writer: &mut Writer, tag: u128, word: u128) {
        for slot in self.path(tag) {
            if slot.compare_exchange(0, word, Relaxed, Relaxed).is_ok() {
                writer.occupied += 1;
                return;
            }
        }
    }

    /// Puts a word into an array that nobody else knows yet and that has room.
    fn put(&mut self, value: u128) {
        let mask = self.0.len() - 1;
        let mut index = (value >> STATE_BITS) as usize & mask;
        while *self.0[index].get_mut() != 0 {
            index = (index + 1) & mask;
        }
        *self.0[index].get_mut() = value;
    }
}
