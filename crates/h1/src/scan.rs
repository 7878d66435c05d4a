//! Where a head ends.

use crate::{Limits, ParseError};

/// Finds the end of a head in a buffer that grows. Each byte is looked at once, so a head that arrives byte by byte
/// costs no more than one that arrives whole.
#[derive(Debug, Clone, Default)]
pub struct HeadScanner {
    /// Bytes already scanned.
    scanned: usize,
    /// Where the current line began.
    line_start: usize,
    /// Bytes of a tolerated empty line before the request line (RFC 9112 section 2.2): 0 or 2.
    skipped: usize,
}

impl HeadScanner {
    /// A scanner at the start of a message.
    pub fn new() -> Self {
        HeadScanner::default()
    }

    /// Bytes of an empty line in front of the head; the head starts behind them.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Forgets all, for the next message.
    pub fn reset(&mut self) {
        *self = HeadScanner::default();
    }

    /// Looks at what is new in `buf`, which must hold everything since the start of the message.
    ///
    /// Returns the index one past the head's final empty line, or `None` while there is none.
    ///
    /// # Errors
    /// A line feed without carriage return, more than one leading empty line, or a head beyond `limits`.
    pub fn scan(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ParseError> {
        for offset in memchr::memchr_iter(b'\n', &buf[self.scanned..]) {
            let lf = self.scanned + offset;
            if lf == self.line_start || buf[lf - 1] != b'\r' {
                return Err(ParseError::BareLf);
            }
            let empty = lf - self.line_start == 1;
            let first = self.line_start == self.skipped;
            if first && lf + 1 - self.skipped > limits.start_line {
                return Err(ParseError::StartLineTooLong);
            }
            self.line_start = lf + 1;
            if !empty {
                continue;
            }
            if !first {
                let end = lf + 1;
                return if end - self.skipped > limits.head { Err(ParseError::HeadTooLarge) } else { Ok(Some(end)) };
            }
            // An empty line before anything else: old clients send one after a POST body.
            if self.skipped > 0 {
                return Err(ParseError::EmptyLines);
            }
            self.skipped = 2;
        }
        self.scanned = buf.len();
        if self.line_start == self.skipped && buf.len() - self.line_start > limits.start_line {
            return Err(ParseError::StartLineTooLong);
        }
        if buf.len().saturating_sub(self.skipped) > limits.head {
            return Err(ParseError::HeadTooLarge);
        }
        Ok(None)
    }
}
