//! Hashes that are the same on every machine and in every release.

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
