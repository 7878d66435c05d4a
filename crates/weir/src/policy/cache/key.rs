//! Keys with their hash. It is computed once, where the key is complete; the store, its evictions and the fetches in flight take it from there.

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;
use quick_cache::Equivalent;

/// A key.
#[derive(Debug, Clone)]
pub struct Key {
    hash: u64,
    bytes: Arc<[u8]>,
}

/// A key that somebody else holds.
#[derive(Debug, Clone, Copy)]
pub struct KeyRef<'a> {
    hash: u64,
    bytes: &'a [u8],
}

/// Hash of a key's bytes. Its seed is random, so that nobody outside can make keys collide.
pub fn hash_of(bytes: &[u8]) -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    SEED.hash_one(bytes)
}

impl Key {
    /// The hash.
    #[inline]
    pub fn hash_value(&self) -> u64 {
        self.hash
    }
}

impl<'a> KeyRef<'a> {
    /// The key of these bytes.
    pub fn of(bytes: &'a [u8]) -> Self {
        KeyRef { hash: hash_of(bytes), bytes }
    }

    /// The key of these bytes, whose [`hash_of`] is known.
    #[inline]
    pub fn hashed(bytes: &'a [u8], hash: u64) -> Self {
        debug_assert_eq!(hash, hash_of(bytes), "a hash of other bytes");
        KeyRef { hash, bytes }
    }

    /// The hash.
    #[inline]
    pub fn hash_value(self) -> u64 {
        self.hash
    }

    /// A key to keep.
    pub fn to_key(self) -> Key {
        Key { hash: self.hash, bytes: self.bytes.into() }
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        KeyRef::of(bytes).to_key()
    }
}

impl<'a> From<&'a Key> for KeyRef<'a> {
    #[inline]
    fn from(key: &'a Key) -> Self {
        KeyRef { hash: key.hash, bytes: &key.bytes }
    }
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Deref for KeyRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.bytes == other.bytes
    }
}

impl Eq for Key {}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for KeyRef<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    #[inline]
    fn equivalent(&self, key: &Key) -> bool {
        self.hash == key.hash && *self.bytes == *key.bytes
    }
}
