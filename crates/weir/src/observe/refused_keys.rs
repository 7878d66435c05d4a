//! The keys that limits refuse most, in memory that does not grow: the space-saving sketch of Metwally, Agrawal and El Abbadi ("Efficient
//! Computation of Frequent and Top-k Elements in Data Streams", 2005), one for each worker.
//!
//! A sketch of [`KEYS`] keys has every key with more than one in [`KEYS`] of the refusals that it has seen. Its counts are never too low, and too high by
//! at most what is noted as their error. Two of them follow each other every [`SPAN_NS`], so that what is shown is of the last minutes.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use crate::runtime::lock::lock;

/// Keys of a sketch.
const KEYS: usize = 64;
/// A sketch counts for so many nanoseconds; what is shown is of this one and the one before.
const SPAN_NS: u64 = 300_000_000_000;
/// Bytes that are shown of a key.
const TEXT: usize = 96;

/// A key that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedKey {
    /// Name of the limit.
    pub limit: Arc<str>,
    /// Hash of the key in this process.
    pub hash: u128,
    /// What may be shown of it.
    pub text: String,
    /// Refusals, at most.
    pub count: u64,
    /// By how much that may be too high.
    pub error: u64,
}

/// What one worker's limits refused.
#[derive(Debug, Default)]
pub struct RefusedKeys(Mutex<Sketches>);

#[derive(Debug, Default)]
struct Sketches {
    /// When `current` began, in nanoseconds since process start.
    began_ns: u64,
    current: Sketch,
    before: Sketch,
}

/// Keys beside what belongs to them: most look-ups read the keys alone.
#[derive(Debug)]
struct Sketch {
    hashes: Vec<u128>,
    counts: Vec<u64>,
    known: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    limit: Arc<str>,
    error: u64,
    text: Text,
}

/// A text that is cut off rather than grow.
#[derive(Debug)]
pub struct Text {
    bytes: [u8; TEXT],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Text { bytes: [0; TEXT], length: 0 }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = text.floor_char_boundary(TEXT - self.length);
        self.bytes[self.length..self.length + room].copy_from_slice(&text.as_bytes()[..room]);
        self.length += room;
        Ok(())
    }
}

/// All memory is there from the start: a refused request allocates nothing.
impl Default for Sketch {
    fn default() -> Self {
        Sketch { hashes: Vec::with_capacity(KEYS), counts: Vec::with_capacity(KEYS), known: Vec::with_capacity(KEYS) }
    }
}

impl Sketch {
    fn clear(&mut self) {
        self.hashes.clear();
        self.counts.clear();
        self.known.clear();
    }

    fn note(&mut self, limit: &Arc<str>, hash: u128, text: impl FnOnce(&mut Text)) {
        let mut places = self.hashes.iter().enumerate().filter(|(_, known)| **known == hash);
        // A client has one hash in all limits that count it.
        if let Some((place, _)) = places.find(|(place, _)| self.known[*place].limit == *limit) {
            self.counts[place] += 1;
            return;
        }
        let mut known = Known { limit: limit.clone(), error: 0, text: Text::default() };
        text(&mut known.text);
        if self.hashes.len() < KEYS {
            self.hashes.push(hash);
            self.counts.push(1);
            self.known.push(known);
            return;
        }
        let Some((place, least)) = self.counts.iter().copied().enumerate().min_by_key(|(_, count)| *count) else {
            return;
        };
        self.hashes[place] = hash;
        self.counts[place] = least + 1;
        self.known[place] = Known { error: least, ..known };
    }

    fn add_to(&self, all: &mut Vec<RefusedKey>) {
        for ((hash, count), known) in self.hashes.iter().zip(&self.counts).zip(&self.known) {
            match all.iter_mut().find(|one| one.hash == *hash && one.limit == known.limit) {
                Some(one) => {
                    one.count += count;
                    one.error += known.error;
                }
                None => all.push(RefusedKey {
                    limit: known.limit.clone(),
                    hash: *hash,
                    text: String::from_utf8_lossy(&known.text.bytes[..known.text.length]).into_owned(),
                    count: *count,
                    error: known.error,
                }),
            }
        }
    }
}

impl RefusedKeys {
    /// A limit refused a key. `text` says what may be shown of it; it is called for keys that are new here.
    pub fn note(&self, limit: &Arc<str>, hash: u128, now_ns: u64, text: impl FnOnce(&mut Text)) {
        let mut sketches = lock(&self.0);
        sketches.follow(now_ns);
        sketches.current.note(limit, hash, text);
    }

    /// Adds what this worker has noted of the last minutes.
    pub(super) fn add_to(&self, all: &mut Vec<RefusedKey>, now_ns: u64) {
        let mut sketches = lock(&self.0);
        sketches.follow(now_ns);
        sketches.current.add_to(all);
        sketches.before.add_to(all);
    }
}

impl Sketches {
    fn follow(&mut self, now_ns: u64) {
        let spans = now_ns.saturating_sub(self.began_ns) / SPAN_NS;
        if spans == 0 {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.before);
        self.current.clear();
        if spans > 1 {
            self.before.clear();
        }
        self.began_ns += spans * SPAN_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(keys: &RefusedKeys, now_ns: u64) -> Vec<(String, u64, u64)> {
        let mut all = Vec::new();
        keys.add_to(&mut all, now_ns);
        all.sort_by_key(|key| std::cmp::Reverse(key.count));
        all.into_iter().map(|key| (key.text, key.count, key.error)).collect()
    }

    fn note(keys: &RefusedKeys, limit: &Arc<str>, key: u128, now_ns: u64) {
        keys.note(limit, key, now_ns, |text| write!(text, "key {key}").expect("text"));
    }

    #[test]
    fn who_is_refused_often_is_found_among_many_others() {
        let (keys, limit) = (RefusedKeys::default(), Arc::from("l"));
        for number in 0..100_000u128 {
            note(&keys, &limit, 1_000 + number, 0);
            if number % 20 == 0 {
                note(&keys, &limit, 7, 0);
            }
        }
        let found = top(&keys, 0);
        assert_eq!(found.len(), KEYS);
        let (text, count, error) = found.iter().find(|(text, ..)| text == "key 7").expect("more than one in 64");
        assert!(*count >= 5_000 && count - error <= 5_000, "{text} {count} {error}");
        let sum: u64 = found.iter().map(|(_, count, _)| count).sum();
        assert_eq!(sum, 105_000, "every refusal is counted once");
    }

    #[test]
    fn limits_have_counts_of_their_own_and_minutes_pass() {
        let keys = RefusedKeys::default();
        let (one, other): (Arc<str>, Arc<str>) = (Arc::from("one"), Arc::from("other"));
        note(&keys, &one, 1, 0);
        note(&keys, &other, 1, 0);
        note(&keys, &one, 1, SPAN_NS);
        let mut all = Vec::new();
        keys.add_to(&mut all, SPAN_NS);
        let mut counts: Vec<_> = all.iter().map(|key| (&*key.limit, key.count)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [("one", 2), ("other", 1)]);
        assert_eq!(top(&keys, 2 * SPAN_NS).len(), 1);
        assert!(top(&keys, 3 * SPAN_NS).is_empty());
        note(&keys, &one, 1, 90 * SPAN_NS);
        assert_eq!(top(&keys, 90 * SPAN_NS).len(), 1);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut text = Text::default();
        write!(text, "{}", "ä".repeat(100)).expect("text");
        write!(text, "end").expect("text");
        assert_eq!(std::str::from_utf8(&text.bytes[..text.length]), Ok(&*"ä".repeat(48)));
    }
}
