//! The fields of a head, as spans.

use crate::validate::{is_text_byte, is_token};
use crate::{Known, Span};

/// One field line of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name as it was written; also where the line starts.
    pub name: Span,
    /// Value without the white space around it.
    pub value: Span,
    /// One past the line's CRLF.
    pub line_end: u32,
    /// The name, recognised.
    pub known: Known,
    /// Named by a `Connection` option: belongs to this connection only.
    pub named_by_connection: bool,
}

impl Field {
    /// The whole line, CRLF included.
    #[inline]
    pub fn line(&self) -> Span {
        Span { start: self.name.start, end: self.line_end }
    }

    /// Whether it ends at this hop.
    #[inline]
    pub fn is_hop_by_hop(&self) -> bool {
        self.named_by_connection || self.known.is_hop_by_hop()
    }

    /// Whether it names the trailers behind the body (RFC 9110 section 6.6.2). It goes where they go: some recipients drop trailers that were not
    /// announced.
    #[inline]
    pub fn announces_trailers(&self) -> bool {
        self.known == Known::Trailer && !self.named_by_connection
    }
}

/// The fields of a head, in order. The vector is kept from message to message.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    list: Vec<Field>,
    /// Which known names there are: most questions are about a field that is not there.
    seen: u64,
    /// Which of them stand more than once.
    repeated: u64,
}

impl Fields {
    /// All, in order.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.list.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether there is a field of this name; for [`Known::Other`], whether there is one that is not known.
    #[inline]
    pub fn contains(&self, known: Known) -> bool {
        self.seen & known.bit() != 0
    }

    /// Whether there is a field with one of these [bits](Known::bit).
    #[inline]
    pub fn contains_any(&self, known: u64) -> bool {
        self.seen & known != 0
    }

    /// Whether there is more than one field of this name.
    #[inline]
    pub fn repeats(&self, known: Known) -> bool {
        self.repeated & known.bit() != 0
    }

    /// Values of a known field, in order.
    #[inline]
    pub fn values<'a>(&'a self, known: Known, buf: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let fields = if self.contains(known) { &self.list[..] } else { &[] };
        fields.iter().filter(move |field| field.known == known).map(move |field| field.value.of_buf(buf))
    }

    /// First value of a known field.
    #[inline]
    pub fn first<'a>(&self, known: Known, buf: &'a [u8]) -> Option<&'a [u8]> {
        self.first_span(known).map(|value| value.of_buf(buf))
    }

    /// Where the first value of a known field is.
    #[inline]
    pub fn first_span(&self, known: Known) -> Option<Span> {
        if !self.contains(known) {
            return None;
        }
        self.list.iter().find(|field| field.known == known).map(|field| field.value)
    }

    /// First value of a field by name, in any case.
    pub fn get<'a>(&self, name: &[u8], buf: &'a [u8]) -> Option<&'a [u8]> {
        self.list
            .iter()
            .find(|field| field.name.of_buf(buf).eq_ignore_ascii_case(name))
            .map(|field| field.value.of_buf(buf))
    }

    /// Empties the list; its memory stays.
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
        self.seen = 0;
        self.repeated = 0;
    }

    /// Appends a field. The caller has checked what [`Fields::verify`] checks: only parsers and decoders append.
    #[inline]
    pub fn push(&mut self, field: Field) {
        self.repeated |= self.seen & field.known.bit();
        self.seen |= field.known.bit();
        self.list.push(field);
    }

    /// Takes out the fields for which `keep` says so; the others stay in order.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(&Field) -> bool) {
        let before = self.list.len();
        self.list.retain(|field| keep(field));
        if self.list.len() < before {
            (self.seen, self.repeated) = (0, 0);
            for field in &self.list {
                self.repeated |= self.seen & field.known.bit();
                self.seen |= field.known.bit();
            }
        }
    }

    /// All fields, for marking those that end at this hop.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Field> {
        self.list.iter_mut()
    }

    /// Writes a line at the end of `text` and appends its field. A name that is not a token is refused; of the value, bytes that have no
    /// place in one are left out, and so is white space around it, so that a generated value can never split a message.
    pub fn append(&mut self, text: &mut Vec<u8>, name: &[u8], value: &[u8]) -> bool {
        if !is_token(name) || text.len() + name.len() + value.len() + 4 > Span::MAX {
            return false;
        }
        let start = text.len();
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
        let at = text.len();
        text.extend(value.iter().filter(|&&byte| is_text_byte(byte)));
        let value = trimmed(text, at, text.len());
        // Blanks around the value are harmless between the colon and the CRLF, but the shortest line is the one to send.
        text.truncate(value.end as usize);
        if value.start as usize > at {
            text.drain(at..value.start as usize);
        }
        let value = Span::new(at, text.len());
        text.extend_from_slice(b"\r\n");
        let known = Known::of(name);
        let name = Span::new(start, start + name.len());
        self.push(Field { name, value, line_end: text.len() as u32, known, named_by_connection: false });
        true
    }

    /// Joins all fields of a known name into one line, values separated by `separator`, written at the end of `text`; it takes the
    /// place of the first. For the crumbs of a cookie (RFC 9113 section 8.2.3). Nothing happens where there is at most one.
    pub fn join(&mut self, known: Known, separator: &[u8], text: &mut Vec<u8>) {
        if !self.repeats(known) || known == Known::Other {
            return;
        }
        let start = text.len();
        text.extend_from_slice(known.name().as_bytes());
        text.extend_from_slice(b": ");
        let at = text.len();
        for field in self.list.iter().filter(|field| field.known == known && !field.value.is_empty()) {
            if text.len() > at {
                text.extend_from_slice(separator);
            }
            text.extend_from_within(field.value.range());
        }
        let value = Span::new(at, text.len());
        text.extend_from_slice(b"\r\n");
        let name = Span::new(start, start + known.name().len());
        let joined = Field { name, value, line_end: text.len() as u32, known, named_by_connection: false };
        let mut is_first = true;
        self.list.retain_mut(|field| {
            if field.known != known {
                return true;
            }
            *field = joined;
            std::mem::take(&mut is_first)
        });
        self.repeated &= !known.bit();
    }

    /// Checks the invariants of a field section; for tests and fuzzers.
    ///
    /// # Errors
    /// The first invariant that a field breaks, with its index.
    pub fn verify(&self, text: &[u8]) -> Result<(), Violation> {
        for (index, field) in self.list.iter().enumerate() {
            let fail = |what| Err(Violation { index, what });
            let (Some(line), Some(name), Some(value)) =
                (text.get(field.line().range()), text.get(field.name.range()), text.get(field.value.range()))
            else {
                return fail("a span lies outside the arena");
            };
            if !is_token(name) {
                return fail("the name is not a token");
            }
            if value.iter().any(|&byte| !is_text_byte(byte)) {
                return fail("the value holds a control byte");
            }
            if crate::validate::trim(value).len() != value.len() {
                return fail("the value has a blank at one end");
            }
            let Some(rest) = line.get(name.len()..).and_then(|rest| rest.strip_prefix(b":")) else {
                return fail("no colon follows the name");
            };
            if rest.strip_suffix(b"\r\n").map(crate::validate::trim) != Some(value) {
                return fail("the line is not name, colon, value, CRLF");
            }
            if Known::of(name) != field.known {
                return fail("the name is not recognised as what it is");
            }
            if !self.contains(field.known) {
                return fail("the index of known names lacks it");
            }
        }
        for (known, _) in Known::ALL {
            let count = self.list.iter().filter(|field| field.known == *known).count();
            if self.contains(*known) != (count > 0) || self.repeats(*known) != (count > 1) {
                return Err(Violation { index: self.list.len(), what: "the index of known names is wrong" });
            }
        }
        Ok(())
    }
}

/// An invariant of [`Fields`] that a field breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// Index of the field.
    pub index: usize,
    /// The invariant.
    pub what: &'static str,
}

/// The span of `buf[start..end]` without spaces and tabs around it.
#[inline]
pub fn trimmed(buf: &[u8], mut start: usize, end: usize) -> Span {
    let mut text = &buf[start..end];
    // As nearly all values are written. Of the bytes of a value only blanks are not above the space.
    if let [b' ', first, .., last] = text
        && first.min(last) > &b' '
    {
        return Span::new(start + 1, end);
    }
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
        start += 1;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    Span::new(start, start + text.len())
}

/// Elements of a comma-separated list, without the white space around them; empty ones are left out (RFC 9110 section 5.6.1).
pub fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(crate::validate::trim).filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests;
