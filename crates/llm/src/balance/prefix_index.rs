//! Which replica has seen which prefix: a table of fixed size that workers share without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Replicas that an index distinguishes.
pub const MAX_REPLICAS: usize = 128;
/// Entries: 32 bytes each, 2 MiB in all.
const ENTRIES: usize = 65_536;
/// Entries that a hash may take; the least recently used one of them makes room.
const WAYS: usize = 8;

/// Hash to replicas. Every word is an atomic of its own, so a reader may see half of a write: then a replica is preferred that has not the
/// prefix, which costs time and nothing else.
#[derive(Debug)]
pub struct PrefixIndex {
    entries: Box<[Entry]>,
    /// Counts uses, for the age of entries.
    clock: AtomicU64,
}

#[derive(Debug, Default)]
struct Entry {
    /// 0: empty.
    hash: AtomicU64,
    replicas: [AtomicU64; 2],
    used: AtomicU64,
}

/// The longest prefix that a replica has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrefixMatch {
    /// One bit a replica that has all `blocks`.
    pub replicas: u128,
    /// Blocks from the start.
    pub blocks: usize,
}

impl Default for PrefixIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl PrefixIndex {
    /// An empty index.
    pub fn new() -> Self {
        PrefixIndex { entries: (0..ENTRIES).map(|_| Entry::default()).collect(), clock: AtomicU64::new(1) }
    }

    fn ways(&self, hash: u64) -> &[Entry] {
        let set = (hash as usize % (ENTRIES / WAYS)) * WAYS;
        &self.entries[set..set + WAYS]
    }

    /// The longest prefix of `hashes` that one of the replicas in `eligible` has.
    pub fn longest(&self, hashes: &[u64], eligible: u128) -> PrefixMatch {
        let mut found = PrefixMatch::default();
        let mut having = eligible;
        for (i, hash) in hashes.iter().enumerate() {
            let Some(entry) = self.ways(*hash).iter().find(|entry| entry.hash.load(Relaxed) == *hash && *hash != 0)
            else {
                break;
            };
            having &= u128::from(entry.replicas[0].load(Relaxed)) | u128::from(entry.replicas[1].load(Relaxed)) << 64;
            if having == 0 {
                break;
            }
            found = PrefixMatch { replicas: having, blocks: i + 1 };
        }
        found
    }

    /// A request with this prefix was sent to the replica.
    pub fn insert(&self, hashes: &[u64], replica: usize) {
        if replica >= MAX_REPLICAS {
            return;
        }
        let now = self.clock.fetch_add(1, Relaxed);
        let (word, bit) = (replica / 64, 1 << (replica % 64));
        for hash in hashes.iter().filter(|hash| **hash != 0) {
            let ways = self.ways(*hash);
            if let Some(entry) = ways.iter().find(|entry| entry.hash.load(Relaxed) == *hash) {
                entry.replicas[word].fetch_or(bit, Relaxed);
                entry.used.store(now, Relaxed);
            } else if let Some(oldest) = ways.iter().min_by_key(|entry| entry.used.load(Relaxed)) {
                oldest.replicas[word].store(bit, Relaxed);
                oldest.replicas[1 - word].store(0, Relaxed);
                oldest.used.store(now, Relaxed);
                oldest.hash.store(*hash, Relaxed);
            }
        }
    }

    /// The request with this prefix did not reach the replica after all.
    pub fn remove(&self, hashes: &[u64], replica: usize) {
        if replica >= MAX_REPLICAS {
            return;
        }
        for hash in hashes.iter().filter(|hash| **hash != 0) {
            if let Some(entry) = self.ways(*hash).iter().find(|entry| entry.hash.load(Relaxed) == *hash) {
                entry.replicas[replica / 64].fetch_and(!(1 << (replica % 64)), Relaxed);
            }
        }
    }

    /// The replica has lost its cache (restarted, removed): nothing is expected of it.
    pub fn forget(&self, replica: usize) {
        if replica < MAX_REPLICAS {
            for entry in &self.entries {
                entry.replicas[replica / 64].fetch_and(!(1 << (replica % 64)), Relaxed);
            }
        }
    }
}
