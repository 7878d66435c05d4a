//! Field lines, read alike from a head that has just come and from one that is stored.

use h1::{Field, Fields, Known};

/// One field line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Name as written.
    pub name: &'a [u8],
    /// Value without the white space around it.
    pub value: &'a [u8],
    /// The name, recognised.
    pub known: Known,
    /// Belongs to one connection only (RFC 9110 section 7.6.1).
    pub is_hop_by_hop: bool,
}

impl Line<'_> {
    /// Whether this is its name, in any case.
    pub fn is(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// The field lines of a head, in order.
pub trait Lines<'a>: Copy {
    /// All lines.
    fn all(self) -> impl Iterator<Item = Line<'a>>;

    /// Whether there may be a line with one of these [bits](Known::bit).
    #[inline]
    fn may_have(self, _known: u64) -> bool {
        true
    }

    /// Values of a known field.
    fn values(self, known: Known) -> impl Iterator<Item = &'a [u8]> {
        self.all().filter(move |line| line.known == known).map(|line| line.value)
    }

    /// First value of a known field.
    fn first(self, known: Known) -> Option<&'a [u8]> {
        self.values(known).next()
    }

    /// Values of a field by name, in any case.
    fn named(self, name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
        self.all().filter(move |line| line.is(name)).map(|line| line.value)
    }
}

/// Lines of a head in its connection's buffer.
#[derive(Debug, Clone, Copy)]
pub struct LiveLines<'a> {
    fields: &'a Fields,
    buf: &'a [u8],
}

impl<'a> LiveLines<'a> {
    /// `buf` is the buffer that the head was parsed from.
    pub fn new(fields: &'a Fields, buf: &'a [u8]) -> Self {
        LiveLines { fields, buf }
    }
}

impl<'a> Lines<'a> for LiveLines<'a> {
    #[inline]
    fn all(self) -> impl Iterator<Item = Line<'a>> {
        self.fields.iter().map(move |field: &Field| Line {
            name: field.name.of_buf(self.buf),
            value: field.value.of_buf(self.buf),
            known: field.known,
            is_hop_by_hop: field.is_hop_by_hop(),
        })
    }

    #[inline]
    fn may_have(self, known: u64) -> bool {
        self.fields.contains_any(known)
    }

    #[inline]
    fn values(self, known: Known) -> impl Iterator<Item = &'a [u8]> {
        self.fields.values(known, self.buf)
    }
}

/// Lines as [`head::store`](super::head::store) writes them, `Name: value` CRLF. Bytes of any other form are read as far as they
/// make sense: a store may hand back what another program wrote.
#[derive(Debug, Clone, Copy)]
pub struct StoredLines<'a>(pub &'a [u8]);

impl<'a> Lines<'a> for StoredLines<'a> {
    fn all(self) -> impl Iterator<Item = Line<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            loop {
                if rest.is_empty() {
                    return None;
                }
                let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1);
                let (line, after) = rest.split_at(end);
                rest = after;
                let Some(colon) = memchr::memchr(b':', line) else { continue };
                let name = &line[..colon];
                return Some(Line {
                    name,
                    value: line[colon + 1..].trim_ascii(),
                    known: Known::of(name),
                    is_hop_by_hop: false,
                });
            }
        })
    }
}
