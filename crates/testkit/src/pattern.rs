//! The body of large transfers: the byte at offset `n` is `n % 251`. A piece that is lost, doubled or moved by anything
//! but a multiple of 251 bytes is noticed, and neither side has to hold the body in memory.

use std::sync::OnceLock;

const PERIOD: usize = 251;
const BLOCK: usize = 64 * 1024;

/// `length` bytes of the pattern (at most 64 KiB) from `offset` on, without an allocation.
pub fn block(offset: u64, length: u64) -> &'static [u8] {
    static TWO_BLOCKS: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = TWO_BLOCKS.get_or_init(|| (0..2 * BLOCK).map(|n| (n % PERIOD) as u8).collect());
    let start = (offset % PERIOD as u64) as usize;
    &bytes[start..start + length.min(BLOCK as u64) as usize]
}

/// `length` bytes of the pattern from its beginning.
pub fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % PERIOD) as u8).collect()
}

/// Checks a body piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    /// Bytes seen so far.
    pub bytes: u64,
    /// Offset of the first piece that differs from the pattern.
    pub wrong_at: Option<u64>,
}

impl Checker {
    /// Takes the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while !rest.is_empty() {
            let want = block(self.bytes, rest.len() as u64);
            let (now, later) = rest.split_at(want.len());
            if now != want && self.wrong_at.is_none() {
                self.wrong_at = Some(self.bytes);
            }
            self.bytes += now.len() as u64;
            rest = later;
        }
    }
}
