//! Hashes that are the same on every machine and in every release, and tables of what is hashed already.

use std::hash::{BuildHasherDefault, Hasher};

/// Key of a consistent hash from bytes (a header's value, a path, a client address): the same on every machine and in every release.
pub fn hash_key(bytes: &[u8]) -> u64 {
    // Eight bytes a step through a full mixer; the length keeps "a" and "a\0" apart.
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = mix((bytes.len() as u64).wrapping_add(0x9e37_79b9_7f4a_7c15));
    for word in words {
        hash = mix(hash.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ u64::from_le_bytes(last))
}

/// The finaliser of SplitMix64: every bit of the input changes each bit of the output with probability one half.
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// For tables of what is hashed already.
pub type Hashed = BuildHasherDefault<Computed>;

/// Hands on a hash that was computed before.
#[derive(Debug, Clone, Copy, Default)]
pub struct Computed(u64);

impl Hasher for Computed {
    fn write(&mut self, bytes: &[u8]) {
        // Keys write their hash, and nothing else.
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    #[inline]
    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
