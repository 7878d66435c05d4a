//! A small random number generator for picks and jitter, one per worker.

use crate::runtime::hash::mix;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): 1 ns a number, any seed is good.
/// Nothing secret may be made from it.
#[derive(Debug, Clone)]
pub(super) struct Rng(u64);

impl Rng {
    /// A generator whose numbers follow from `seed` alone.
    pub(super) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A generator whose numbers differ from start to start and from machine to machine (seeded as the standard library's hash maps are).
    pub(super) fn from_entropy() -> Rng {
        use std::hash::{BuildHasher, RandomState};
        Rng(RandomState::new().hash_one(0u8))
    }

    /// Next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which must not be 0. The bias is below `bound / 2^64`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
