//! Drawing rounds again.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). Ours, since a library's may change its sequence, and
/// figures that were published must come out again.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // The high half of a 128-bit product; for limits as small as ours no value is favoured measurably.
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }
}

/// Rounds drawn with replacement, as indices. The same numbers give the same draws, so that systems with as many rounds are drawn alike.
#[derive(Debug)]
pub struct Draws {
    random: Random,
    rounds: usize,
    left: usize,
}

impl Draws {
    /// `count` draws of as many rounds as there are.
    pub fn new(rounds: usize, count: usize, seed: u64) -> Self {
        Draws { random: Random::new(seed), rounds, left: if rounds == 0 { 0 } else { count } }
    }
}

impl Iterator for Draws {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        self.left = self.left.checked_sub(1)?;
        Some((0..self.rounds).map(|_| self.random.below(self.rounds)).collect())
    }
}
