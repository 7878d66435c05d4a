//! Where a head ends.

use crate::bytes::line_ends;
use crate::{Limits, ParseError};

/// Bytes looked at together.
const BLOCK: usize = 64;

/// Finds the end of a head in a buffer that grows. Each byte is looked at once, so a head that arrives byte by byte
/// costs no more than one that arrives whole; and what is found does not depend on how it arrives.
#[derive(Debug, Clone, Default)]
pub struct HeadScanner {
    /// Bytes already scanned.
    scanned: usize,
    /// Bytes of a tolerated empty line before the request line (RFC 9112 section 2.2): 0 or 2.
    skipped: usize,
    /// Whether the start line is over.
    start_line_seen: bool,
    /// Whether the head is a response's.
    response: bool,
}

impl HeadScanner {
    /// A scanner at the start of a request. One empty line before it is passed over, as old clients send one after a body
    /// (RFC 9112 section 2.2).
    pub fn new() -> Self {
        HeadScanner::default()
    }

    /// A scanner at the start of a response, which nothing may precede: an upstream that sends more than its last response held
    /// is out of step.
    pub fn for_response() -> Self {
        HeadScanner { response: true, ..HeadScanner::default() }
    }

    /// Bytes of an empty line in front of the head; the head starts behind them.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Forgets all but the role, for the next message.
    pub fn reset(&mut self) {
        *self = HeadScanner { response: self.response, ..HeadScanner::default() };
    }

    /// Looks at what is new in `buf`, which must hold everything since the start of the message.
    ///
    /// Returns the index one past the head's final empty line, or `None` while there is none.
    ///
    /// # Errors
    /// A line feed without carriage return, a carriage return without line feed, an empty line too many before the start line, or a head
    /// beyond `limits`. Of several
    /// faults the first in the message is named.
    pub fn scan(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ParseError> {
        if self.scanned < 2 {
            self.skip_empty_line(buf)?;
        }
        while let Some(rest) = buf.get(self.scanned..).filter(|rest| !rest.is_empty()) {
            let found = match rest.first_chunk() {
                Some(block) => self.scan_block(buf, block, BLOCK, limits)?,
                None => {
                    let mut block = [0; BLOCK];
                    block[..rest.len()].copy_from_slice(rest);
                    self.scan_block(buf, &block, rest.len(), limits)?
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn skip_empty_line(&mut self, buf: &[u8]) -> Result<(), ParseError> {
        if buf.starts_with(b"\r\n") && self.skipped == 0 {
            if self.response {
                return Err(ParseError::StatusLine);
            }
            self.skipped = 2;
            self.scanned = 2;
        }
        Ok(())
    }

    /// Looks at the first `length` bytes of `block`, which are those of `buf` from `scanned` on.
    #[inline]
    fn scan_block(
        &mut self,
        buf: &[u8],
        block: &[u8; BLOCK],
        length: usize,
        limits: &Limits,
    ) -> Result<Option<usize>, ParseError> {
        let start = self.scanned;
        let (feeds, returns) = line_ends(block);
        // What the two bytes before the block were, as bits that move in from the left.
        let before = |distance: usize, byte: u8| {
            let is_it = start >= self.skipped + distance && buf.get(start - distance) == Some(&byte);
            u64::from(is_it)
        };
        let after_return = returns << 1 | before(1, b'\r');
        let two_after_feed = feeds << 2 | before(1, b'\n') << 1 | before(2, b'\n');
        let bare = feeds & !after_return;
        let empty = feeds & after_return & two_after_feed;
        // What lies behind `length` is not known yet.
        let known = u64::MAX >> (BLOCK - length);
        let no_feed = after_return & !feeds & known;

        let stop = (bare | empty | no_feed).trailing_zeros() as usize;
        let end = if stop < BLOCK { start + stop + 1 } else { start + length };
        if !self.start_line_seen {
            let line =
                if feeds == 0 { start + length } else { start + feeds.trailing_zeros() as usize + 1 } - self.skipped;
            // A fault before its end comes first.
            if line.min(end - self.skipped) > limits.start_line.min(limits.head) {
                return Err(if limits.start_line <= limits.head {
                    ParseError::StartLineTooLong
                } else {
                    ParseError::HeadTooLarge
                });
            }
            self.start_line_seen = feeds != 0;
            if feeds != 0 && line == 2 && bare & feeds.wrapping_neg() & feeds == 0 {
                return Err(ParseError::EmptyLines);
            }
        }
        if end - self.skipped > limits.head {
            return Err(ParseError::HeadTooLarge);
        }
        if stop == BLOCK {
            self.scanned = start + length;
            return Ok(None);
        }
        match (bare >> stop & 1, no_feed >> stop & 1) {
            (1, _) => Err(ParseError::BareLf),
            // A server waits in vain for the end of lines that end with a carriage return alone.
            (_, 1) => Err(ParseError::BareCr),
            _ => Ok(Some(end)),
        }
    }
}
