//! What a block of bytes holds, as one bit for each byte, the first byte's lowest.

use wide::u8x16;

#[inline(always)]
fn equal(bytes: u8x16, byte: u8) -> u8x16 {
    bytes.simd_eq(u8x16::splat(byte))
}

/// Bytes between `low` and `high`, both inclusive.
#[inline(always)]
fn between(bytes: u8x16, low: u8, high: u8) -> u8x16 {
    let inside = bytes.max(u8x16::splat(low)).min(u8x16::splat(high));
    bytes.simd_eq(inside)
}

/// Bytes that are no text: controls but HTAB.
#[inline(always)]
pub(super) fn controls(block: &[u8; 16]) -> u32 {
    let bytes = u8x16::new(*block);
    (between(bytes, 0, 0x1f) & !equal(bytes, b'\t') | equal(bytes, 0x7f)).to_bitmask()
}

/// `?`, and bytes that do not belong in a request target.
#[inline(always)]
pub(super) fn target_stops(block: &[u8; 16]) -> u32 {
    let bytes = u8x16::new(*block);
    let goes_on = between(bytes, 0x21, 0x7e) & !(equal(bytes, b'?') | equal(bytes, b'#'));
    (!goes_on).to_bitmask()
}

/// Bytes other than letters, digits and hyphens.
#[inline(always)]
pub(super) fn not_plain(block: &[u8; 16]) -> u32 {
    let bytes = u8x16::new(*block);
    let letters = between(bytes | u8x16::splat(0x20), b'a', b'z');
    let plain = letters | between(bytes, b'0', b'9') | equal(bytes, b'-');
    (!plain).to_bitmask()
}

/// Dots; and bytes that do not belong in the name of a host.
#[inline(always)]
pub(super) fn host_bytes(block: &[u8; 16]) -> (u32, u32) {
    let bytes = u8x16::new(*block);
    let letters = between(bytes | u8x16::splat(0x20), b'a', b'z');
    let digits = between(bytes, b'0', b'9');
    let dots = equal(bytes, b'.');
    let others = equal(bytes, b'-') | equal(bytes, b'_') | equal(bytes, b'~');
    (dots.to_bitmask(), (!(letters | digits | dots | others)).to_bitmask())
}

/// Whether `block` with every letter in lower case, and zeros outside of `mask`, is `word`.
#[inline(always)]
pub(super) fn same_word(block: &[u8; 16], mask: &[u8; 16], word: &[u8; 16]) -> bool {
    let lower = (u8x16::new(*block) | u8x16::splat(0x20)) & u8x16::new(*mask);
    lower.simd_eq(u8x16::new(*word)).to_bitmask() == 0xffff
}

/// Line feeds; and carriage returns.
#[inline(always)]
pub(super) fn line_ends(block: &[u8; 64]) -> (u64, u64) {
    let (mut feeds, mut returns) = (0, 0);
    for (index, part) in block.as_chunks().0.iter().enumerate() {
        let bytes = u8x16::new(*part);
        feeds |= u64::from(equal(bytes, b'\n').to_bitmask()) << (index * 16);
        returns |= u64::from(equal(bytes, b'\r').to_bitmask()) << (index * 16);
    }
    (feeds, returns)
}
