//! Cuts a byte stream into events, by the line rules of the HTML standard, section 9.2.5.

use memchr::memchr2;

/// Events up to this length leave whole.
pub const MAX_WHOLE_EVENT: usize = 64 * 1024;

/// An event with its blank line, or a piece of one that is too large to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The bytes as they came.
    pub bytes: &'a [u8],
    /// The event starts here.
    pub first: bool,
    /// The event ends here.
    pub last: bool,
}

/// Position within lines; all that the search for the end of an event needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lines {
    /// The current line has no byte yet.
    at_start: bool,
    /// The byte before was CR, so that LF would belong to it.
    after_cr: bool,
}

impl Lines {
    /// The index behind the blank line that ends the event, if `bytes` holds it.
    fn event_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                at += 1;
                continue;
            }
            if !matches!(byte, b'\n' | b'\r') {
                self.at_start = false;
                at += memchr2(b'\n', b'\r', &bytes[at..]).unwrap_or(bytes.len() - at);
                continue;
            }
            at += 1;
            self.after_cr = byte == b'\r';
            if self.at_start {
                if self.after_cr && bytes.get(at) == Some(&b'\n') {
                    self.after_cr = false;
                    at += 1;
                }
                return Some(at);
            }
            self.at_start = true;
        }
        None
    }
}

/// Cuts bytes, fed in any split, into events. Holds at most [`MAX_WHOLE_EVENT`] bytes, and none while events arrive whole.
#[derive(Debug)]
pub struct EventSplitter {
    held: Vec<u8>,
    /// What is held has been returned; it is dropped at the next call.
    returned: bool,
    /// Pieces of the current event have been returned.
    in_large: bool,
    lines: Lines,
    event_bytes: u64,
    /// The event before is complete, the next one resets the count.
    ended: bool,
}

impl Default for EventSplitter {
    fn default() -> Self {
        Self::new()
    }
}

impl EventSplitter {
    /// At the start of a stream.
    pub fn new() -> Self {
        EventSplitter {
            held: Vec::new(),
            returned: false,
            in_large: false,
            lines: Lines { at_start: true, after_cr: false },
            event_bytes: 0,
            ended: false,
        }
    }

    /// Bytes of the event that is being read, or of the last one.
    pub fn event_bytes(&self) -> u64 {
        self.event_bytes
    }

    /// Bytes that are held, at most [`MAX_WHOLE_EVENT`].
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// The next event, or piece of one, from `input[*at..]`; `*at` moves behind what was read. `None` when `input` is used up.
    pub fn next<'a>(&'a mut self, input: &'a [u8], at: &mut usize) -> Option<Piece<'a>> {
        if std::mem::take(&mut self.returned) {
            self.held.clear();
        }
        let rest = input.get(*at..).filter(|rest| !rest.is_empty())?;
        let before = self.lines;
        let end = self.lines.event_end(rest);
        let part = &rest[..end.unwrap_or(rest.len())];
        if !self.in_large && !self.held.is_empty() && self.held.len() + part.len() > MAX_WHOLE_EVENT {
            // too large to be held: what is held leaves first, `part` with the next call
            self.lines = before;
            self.in_large = true;
            self.returned = true;
            return Some(Piece { bytes: &self.held, first: true, last: false });
        }
        *at += part.len();
        if std::mem::take(&mut self.ended) {
            self.event_bytes = 0;
        }
        self.event_bytes += part.len() as u64;
        self.ended = end.is_some();
        let first = !self.in_large;
        if end.is_none() && first && self.held.len() + part.len() <= MAX_WHOLE_EVENT {
            self.held.extend_from_slice(part);
            return None;
        }
        self.in_large = end.is_none();
        if self.held.is_empty() {
            return Some(Piece { bytes: part, first, last: end.is_some() });
        }
        self.held.extend_from_slice(part);
        self.returned = true;
        Some(Piece { bytes: &self.held, first, last: end.is_some() })
    }

    /// At the end of the body: the bytes of an event without its blank line, if there are any that have not left.
    pub fn finish(&mut self) -> Option<Piece<'_>> {
        if std::mem::take(&mut self.returned) {
            self.held.clear();
        }
        self.returned = true;
        (!self.held.is_empty()).then_some(Piece { bytes: &self.held, first: !self.in_large, last: false })
    }

    /// Whether a piece of an event has left and its end has not: nothing can be sent behind it.
    pub fn in_large_event(&self) -> bool {
        self.in_large
    }
}
