//! The fields of a head, as spans.

use crate::bytes::{find_control, name_length};
use crate::{Known, Limits, ParseError, Span};

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
}

/// The fields of a head, in order. The vector is kept from message to message.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    pub(crate) list: Vec<Field>,
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

    /// Whether there is more than one field of this name.
    #[inline]
    pub(crate) fn repeats(&self, known: Known) -> bool {
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

    #[inline]
    pub(crate) fn first_span(&self, known: Known) -> Option<Span> {
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

    /// Reads the field section at `head[at..]`, up to the empty line with which `head` must end (RFC 9112 section 5).
    pub(crate) fn parse(&mut self, head: &[u8], mut at: usize, limits: &Limits) -> Result<(), ParseError> {
        self.list.clear();
        self.seen = 0;
        self.repeated = 0;
        let most = limits.fields.min(Limits::MAX_FIELDS);
        loop {
            let line = head.get(at..).unwrap_or_default();
            let length = name_length(line);
            if length == 0 {
                return match line {
                    b"\r\n" => Ok(()),
                    // The head would end before its end.
                    [b'\r', b'\n', ..] => Err(ParseError::Truncated),
                    [b' ' | b'\t', ..] if self.list.is_empty() => Err(ParseError::SpaceBeforeFirstField),
                    [b' ' | b'\t', ..] => Err(ParseError::ObsFold),
                    _ => Err(fault(line, ParseError::FieldName)),
                };
            }
            if self.list.len() == most {
                return Err(ParseError::TooManyFields);
            }
            let colon = at + length;
            if head.get(colon) != Some(&b':') {
                return Err(fault(&line[length..], ParseError::FieldName));
            }
            let end = find_control(head, colon + 1);
            let behind = head.get(end..).unwrap_or_default();
            if !behind.starts_with(b"\r\n") {
                return Err(fault(behind, ParseError::FieldValue));
            }
            let known = Known::at_start(line, length);
            self.repeated |= self.seen & known.bit();
            self.seen |= known.bit();
            self.list.push(Field {
                name: Span::new(at, colon),
                value: trimmed(head, colon + 1, end),
                line_end: (end + 2) as u32,
                known,
                named_by_connection: false,
            });
            at = end + 2;
        }
    }
}

/// The span of `buf[start..end]` without spaces and tabs around it.
#[inline]
pub(crate) fn trimmed(buf: &[u8], mut start: usize, mut end: usize) -> Span {
    while start < end && matches!(buf[start], b' ' | b'\t') {
        start += 1;
    }
    while start < end && matches!(buf[end - 1], b' ' | b'\t') {
        end -= 1;
    }
    Span::new(start, end)
}

/// What is wrong at the front of `rest`, where the head cannot go on; `other` if nothing about lines.
#[cold]
pub(crate) fn fault(rest: &[u8], other: ParseError) -> ParseError {
    match rest {
        [] => ParseError::Truncated,
        [b'\n', ..] => ParseError::BareLf,
        [b'\r', b'\n', ..] => other,
        [b'\r', ..] => ParseError::BareCr,
        _ => other,
    }
}

/// Elements of a comma-separated list, without the white space around them; empty ones are left out (RFC 9110 section 5.6.1).
pub(crate) fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(crate::bytes::trim).filter(|element| !element.is_empty())
}
