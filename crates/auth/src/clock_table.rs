//! A bounded map with clock eviction: an entry that was used since the hand passed it last stays for another round.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Never holds more than `capacity` entries. Memory is allocated as entries come.
#[derive(Debug)]
pub(crate) struct ClockTable<K, V> {
    index: HashMap<K, usize, RandomState>,
    slots: Vec<Slot<K, V>>,
    hand: usize,
    capacity: usize,
}

#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    is_used: bool,
}

impl<K: Hash + Eq + Clone, V> ClockTable<K, V> {
    /// An empty map of at least one entry.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { index: HashMap::default(), slots: Vec::new(), hand: 0, capacity: capacity.max(1) }
    }

    /// The value of a key, which counts as used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        let slot = &mut self.slots[*self.index.get(key)?];
        slot.is_used = true;
        Some(&slot.value)
    }

    /// Adds or replaces an entry. In a full map, the next entry that was not used takes its leave.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if let Some(&at) = self.index.get(&key) {
            self.slots[at].value = value;
            return;
        }
        let slot = Slot { key: key.clone(), value, is_used: false };
        if self.slots.len() < self.capacity {
            self.index.insert(key, self.slots.len());
            self.slots.push(slot);
            return;
        }
        let at = self.next_unused();
        self.index.remove(&self.slots[at].key);
        self.index.insert(key, at);
        self.slots[at] = slot;
    }

    /// Drops one entry.
    pub(crate) fn remove(&mut self, key: &K) {
        let Some(at) = self.index.remove(key) else { return };
        self.slots.swap_remove(at);
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(moved.key.clone(), at);
        }
    }

    /// Entries held.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Ends after one round at the latest, because the hand takes the marks away.
    fn next_unused(&mut self) -> usize {
        loop {
            let at = self.hand % self.slots.len();
            self.hand = at + 1;
            if !std::mem::take(&mut self.slots[at].is_used) {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ClockTable;

    #[test]
    fn what_is_used_stays_and_the_bound_holds() {
        let mut table = ClockTable::new(10);
        table.insert(0, "kept");
        for key in 1..1000 {
            assert_eq!(table.get(&0), Some(&"kept"), "before {key}");
            table.insert(key, "new");
            assert!(table.len() <= 10);
        }
    }

    proptest! {
        #[test]
        fn every_entry_is_found_where_the_index_says(operations in proptest::collection::vec((0u8..3, 0u8..20, any::<u16>()), 0..200)) {
            let mut table = ClockTable::new(7);
            let mut written = std::collections::HashMap::new();
            for (operation, key, value) in operations {
                match operation {
                    0 => drop(table.get(&key)),
                    1 => {
                        table.insert(key, value);
                        written.insert(key, value);
                        prop_assert_eq!(table.get(&key), Some(&value));
                    }
                    _ => {
                        table.remove(&key);
                        prop_assert_eq!(table.get(&key), None);
                    }
                }
                prop_assert!(table.len() <= 7);
                prop_assert_eq!(table.index.len(), table.slots.len());
                for (key, at) in &table.index {
                    prop_assert_eq!((&table.slots[*at].key, Some(&table.slots[*at].value)), (key, written.get(key)));
                }
            }
        }
    }
}
