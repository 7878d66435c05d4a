//! The dynamic table (RFC 7541 section 2.3.2).

use std::collections::VecDeque;

use message::Known;
use message::validate::{is_text_byte, is_token_byte};

/// What a field name is, and whether name and value may be in a message (RFC 9113 section 8.2.1): found once, when the field is
/// first seen, and stored with the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Field,
    Method,
    Scheme,
    Authority,
    Path,
    Status,
    Protocol,
    /// A pseudo-field that is not defined.
    UnknownPseudo,
    BadName,
    BadValue,
}

impl Kind {
    /// Looks at a name in lower case and a value.
    pub(crate) fn of(name: &[u8], value: &[u8]) -> Kind {
        let kind = match name {
            [b':', rest @ ..] => match rest {
                b"method" => Kind::Method,
                b"scheme" => Kind::Scheme,
                b"authority" => Kind::Authority,
                b"path" => Kind::Path,
                b"status" => Kind::Status,
                b"protocol" => Kind::Protocol,
                _ => return Kind::UnknownPseudo,
            },
            [] => return Kind::BadName,
            _ if name.iter().all(|&byte| is_token_byte(byte) && !byte.is_ascii_uppercase()) => Kind::Field,
            _ => return Kind::BadName,
        };
        kind.with_value(value)
    }

    /// The kind of a field whose name is of this kind, with a value.
    pub(crate) fn with_value(self, value: &[u8]) -> Kind {
        if matches!(self, Kind::BadName | Kind::UnknownPseudo) {
            return self;
        }
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        let is_clean = message::validate::find_control(value, 0) == value.len();
        debug_assert_eq!(is_clean, value.iter().all(|&byte| is_text_byte(byte)));
        if is_clean && !is_blank(value.first()) && !is_blank(value.last()) { self } else { Kind::BadValue }
    }
}

/// One entry; its line is in the table's text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Where its line starts, counted since the table was made.
    at: u64,
    pub(crate) name_len: u32,
    /// Of the line `name: value CRLF`.
    line_len: u32,
    pub(crate) known: Known,
    /// Of name and value.
    pub(crate) kind: Kind,
    /// Of the name alone.
    pub(crate) name_kind: Kind,
}

impl Entry {
    /// Size as RFC 7541 section 4.1 counts: 32 bytes beside name and value.
    fn size(&self) -> usize {
        self.line_len as usize - 4 + 32
    }
}

/// Entries as field lines one behind the other, so that an indexed field is copied at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    entries: VecDeque<Entry>,
    text: Vec<u8>,
    /// Bytes of text that were dropped from its front.
    dropped: u64,
    size: usize,
    max_size: usize,
    /// Entries ever inserted.
    inserted: u64,
}

impl Table {
    pub(crate) fn new(max_size: usize) -> Self {
        Table { max_size, ..Table::default() }
    }

    pub(crate) fn max_size(&self) -> usize {
        self.max_size
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn inserted(&self) -> u64 {
        self.inserted
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry `index` places behind the newest, with its line.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<(&Entry, &[u8])> {
        let entry = self.entries.get(index)?;
        let start = (entry.at - self.dropped) as usize;
        Some((entry, self.text.get(start..start + entry.line_len as usize)?))
    }

    pub(crate) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict(0);
    }

    /// Inserts a line; one larger than the table empties it (section 4.4). Returns whether it is in the table.
    pub(crate) fn insert(&mut self, line: &[u8], name_len: usize, known: Known, kind: Kind, name_kind: Kind) -> bool {
        let at = self.dropped + self.text.len() as u64;
        let entry = Entry { at, name_len: name_len as u32, line_len: line.len() as u32, known, kind, name_kind };
        self.evict(entry.size());
        self.inserted += 1;
        if entry.size() > self.max_size {
            return false;
        }
        self.size += entry.size();
        self.text.extend_from_slice(line);
        self.entries.push_front(entry);
        // Dead text is dropped when it is as large as what lives: each byte moves once on average.
        let live = self.entries.back().map_or(self.text.len(), |oldest| (oldest.at - self.dropped) as usize);
        if live > self.max_size {
            self.text.drain(..live);
            self.dropped += live as u64;
        }
        true
    }

    fn evict(&mut self, room: usize) {
        while self.size + room > self.max_size {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.size -= oldest.size();
        }
        if self.entries.is_empty() {
            self.dropped += self.text.len() as u64;
            self.text.clear();
        }
    }
}
