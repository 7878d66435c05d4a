//! The body of a model's response as it is kept: in pieces, with the time between them, so that a stream can be sent again as it came.
//!
//! ```text
//! u32      milliseconds since the piece before
//! u32      length in bytes; bit 31: the piece ends where an event does; bit 30: it is the event that says that the response broke off
//! bytes
//! ```
//!
//! Numbers are big-endian.

/// Bytes before each piece.
const HEADER: usize = 8;
const BETWEEN: u32 = 1 << 31;
const FAILED: u32 = 1 << 30;
/// Longest piece.
pub const LONGEST: usize = (FAILED - 1) as usize;

/// What stands before a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Milliseconds since the piece before.
    pub gap_ms: u32,
    /// The piece ends where an event does.
    pub is_between: bool,
    /// It says that the response broke off.
    pub has_failed: bool,
}

/// Appends a piece, which is not empty and no longer than [`LONGEST`].
pub fn write(mark: Mark, piece: &[u8], out: &mut Vec<u8>) {
    debug_assert!(!piece.is_empty() && piece.len() <= LONGEST, "a piece that cannot be read again");
    let flags = if mark.is_between { BETWEEN } else { 0 } | if mark.has_failed { FAILED } else { 0 };
    let length = u32::try_from(piece.len()).unwrap_or(0) & (FAILED - 1);
    out.extend_from_slice(&mark.gap_ms.to_be_bytes());
    out.extend_from_slice(&(length | flags).to_be_bytes());
    out.extend_from_slice(piece);
}

/// Reads a recording, in any split.
#[derive(Debug, Default)]
pub struct Player {
    header: [u8; HEADER],
    has: usize,
    left: usize,
    flags: u32,
}

/// The next of a recording.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'b> {
    /// A piece begins, so many milliseconds after the one before.
    Pause(u32),
    /// Bytes of a piece.
    Bytes(&'b [u8]),
}

impl Player {
    /// Takes the next part from the front of `bytes`; `None` when all of them were read.
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<Part<'b>> {
        if bytes.is_empty() {
            return None;
        }
        if self.left > 0 {
            let (piece, rest) = bytes.split_at(self.left.min(bytes.len()));
            *bytes = rest;
            self.left -= piece.len();
            return Some(Part::Bytes(piece));
        }
        let (head, rest) = bytes.split_at((HEADER - self.has).min(bytes.len()));
        *bytes = rest;
        self.header[self.has..self.has + head.len()].copy_from_slice(head);
        self.has += head.len();
        if self.has < HEADER {
            return None;
        }
        self.has = 0;
        let number = |at: usize| self.header[at..at + 4].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let (gap_ms, length) = (number(0), number(4));
        self.flags = length & (BETWEEN | FAILED);
        self.left = (length & (FAILED - 1)) as usize;
        Some(Part::Pause(gap_ms))
    }

    /// Whether it stands behind a whole piece, or before the first.
    fn is_whole(&self) -> bool {
        self.left == 0 && self.has == 0
    }

    /// Whether the bytes so far end where an event does, so that another event may follow.
    pub fn is_between(&self) -> bool {
        self.is_whole() && self.flags & BETWEEN != 0
    }

    /// Whether the last piece says that the response broke off.
    pub fn has_failed(&self) -> bool {
        self.flags & FAILED != 0
    }
}

/// Bytes of all pieces of a whole recording; `None` for anything else, and for one that broke off.
pub fn length_of(mut recording: &[u8]) -> Option<u64> {
    let (mut player, mut length) = (Player::default(), 0);
    while let Some(part) = player.next(&mut recording) {
        match part {
            Part::Bytes(bytes) => length += bytes.len() as u64,
            Part::Pause(_) if player.left == 0 => return None,
            Part::Pause(_) => {}
        }
    }
    (player.is_whole() && !player.has_failed()).then_some(length)
}

#[cfg(test)]
mod tests;
