//! A bounded map of recent entries: two generations, so that adding and dropping cost the same at any size.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Holds at least the last `capacity / 2` entries that were added or used, and never more than `capacity`.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
    half: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> Recent<K, V> {
    /// An empty map; memory is allocated as entries come.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), half: (capacity / 2).max(1) }
    }

    /// The value of a key; one of the older generation becomes young again.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.remove(key)?;
        self.insert(key.clone(), value.clone());
        Some(value)
    }

    /// Adds or replaces an entry.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    /// Drops one entry.
    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.young = HashMap::default();
        self.old = HashMap::default();
    }

    /// Entries held.
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let mut map = Recent::new(10);
        map.insert(0, "kept");
        for key in 1..1000 {
            map.insert(key, "new");
            assert!(map.len() <= 10);
            assert_eq!(map.get(&0), Some("kept"), "after {key}");
        }
        map.clear();
        assert_eq!((map.len(), map.get(&0)), (0, None));
    }

    #[test]
    fn an_entry_that_is_replaced_has_one_value() {
        let mut map = Recent::new(4);
        for round in 0..20 {
            map.insert("a", round);
            map.insert(["b", "c", "d"][round % 3], round);
            assert_eq!(map.get(&"a"), Some(round));
        }
        map.remove(&"a");
        assert_eq!(map.get(&"a"), None);
    }
}
