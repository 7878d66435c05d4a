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
    /// Whether the last scanned byte is a carriage return: the lowest bit.
    return_before: u64,
    /// Whether the last two scanned bytes are line feeds: the last in the second bit, the one before it in the lowest.
    feeds_before: u64,
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

    /// Whether it has looked at nothing of the message.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.scanned == 0
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
    /// beyond `limits`. Of several faults, the earliest in the message is named.
    pub fn scan(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ParseError> {
        if self.scanned < 2 {
            self.skip_empty_line(buf)?;
        }
        while let Some(rest) = buf.get(self.scanned..).filter(|rest| !rest.is_empty()) {
            let length = rest.len().min(BLOCK);
            let ends = match (rest.first_chunk(), buf.last_chunk()) {
                (Some(block), _) => line_ends(block),
                // What is left is the end of the last block.
                (None, Some(block)) => {
                    let (feeds, returns) = line_ends(block);
                    (feeds >> (BLOCK - length), returns >> (BLOCK - length))
                }
                (None, None) => {
                    let mut block = [0; BLOCK];
                    block[..length].copy_from_slice(rest);
                    line_ends(&block)
                }
            };
            let found = self.scan_block(ends, length, limits)?;
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
            // It is not part of the head.
            (self.return_before, self.feeds_before) = (0, 0);
        }
        Ok(())
    }

    /// Looks at the next `length` bytes, which have line feeds and carriage returns at these places.
    #[inline]
    fn scan_block(
        &mut self,
        (feeds, returns): (u64, u64),
        length: usize,
        limits: &Limits,
    ) -> Result<Option<usize>, ParseError> {
        let start = self.scanned;
        // What the two bytes before the block were moves in from the left.
        let after_return = returns << 1 | self.return_before;
        let two_after_feed = feeds << 2 | self.feeds_before;
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
            self.return_before = returns >> (length - 1);
            self.feeds_before = if length > 1 { feeds >> (length - 2) } else { feeds << 1 | self.feeds_before >> 1 };
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
