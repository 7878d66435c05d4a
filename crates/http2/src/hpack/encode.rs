//! Encoding of fields (RFC 7541 section 6).

use std::sync::Arc;

use message::Known;

use super::huffman;
use super::sensitive::SensitiveNames;
use super::static_table::{self, ENTRIES};
use super::table::{Kind, Table};

/// Largest table that is used, whatever the peer allows.
const TABLE_SIZE: usize = 4096;
/// Places of the index from hashes to entries.
const SLOTS: usize = 256;

/// Encoder of one connection.
#[derive(Debug, Clone)]
pub struct Encoder {
    table: Table,
    /// By hash of name and value, and of the name alone: the low bits of the number of the entry's insertion, counted from 1. A place that was
    /// overwritten, or whose entry is long gone, costs a repeated entry, never a wrong field: what is found is compared. As small as they can be,
    /// because each idle connection has them: the table holds no more than 128 entries.
    pairs: Vec<u16>,
    names: Vec<u16>,
    /// Smallest and last size that the peer set since the last block.
    resize: Option<(usize, usize)>,
    /// A line in lower case.
    line: Vec<u8>,
    sensitive: Arc<SensitiveNames>,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder {
            table: Table::new(TABLE_SIZE),
            pairs: Vec::new(),
            names: Vec::new(),
            resize: None,
            line: Vec::new(),
            sensitive: SensitiveNames::common(),
        }
    }
}

impl Encoder {
    /// Fields that are never indexed from now on.
    pub fn set_sensitive(&mut self, names: Arc<SensitiveNames>) {
        self.sensitive = names;
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE; announced at the start of the next block (section 4.2).
    pub fn set_max_size(&mut self, size: usize) {
        let size = size.min(TABLE_SIZE);
        let (smallest, last) = self.resize.unwrap_or((self.table.max_size(), self.table.max_size()));
        if size != last || self.resize.is_some() {
            self.resize = Some((smallest.min(size), size));
        }
    }

    /// Starts a block: writes the size updates that are due.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((smallest, last)) = self.resize.take() {
            for size in [Some(smallest), (last != smallest).then_some(last)].into_iter().flatten() {
                self.table.set_max_size(size);
                integer(out, 0x20, 5, size);
            }
        }
    }

    /// Writes `:status`.
    pub fn status(&mut self, out: &mut Vec<u8>, status: u16) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                let digit = |place: u16| b'0' + (status / place % 10) as u8;
                return self.pseudo(out, b":status", 8, &[digit(100), digit(10), digit(1)], true);
            }
        };
        out.push(0x80 | index);
    }

    /// Writes a pseudo-field whose name is that of the static entry `index`.
    pub fn pseudo(&mut self, out: &mut Vec<u8>, name: &[u8], index: usize, value: &[u8], is_indexed: bool) {
        for (number, entry) in ENTRIES.iter().enumerate().skip(index - 1).take(3) {
            let line = entry.line.as_bytes();
            if line.get(..entry.name_len) == Some(name) && line.get(entry.name_len + 2..line.len() - 2) == Some(value) {
                out.push(0x80 | (number + 1) as u8);
                return;
            }
        }
        self.write(out, Known::Other, name, index, value, if is_indexed { Policy::Index } else { Policy::Literal });
    }

    /// Writes a field; the name in lower case, whatever its case was.
    pub fn field(&mut self, out: &mut Vec<u8>, known: Known, name: &[u8], value: &[u8]) {
        let is_sensitive = self.sensitive.contains(known, name);
        let policy = if is_sensitive { Policy::Never } else { Policy::of(known) };
        if known != Known::Other {
            let index = static_table::name_index(known, b"");
            return self.write(out, known, known.name().as_bytes(), index, value, policy);
        }
        if !name.iter().any(u8::is_ascii_uppercase) {
            return self.write(out, known, name, static_table::name_index(known, name), value, policy);
        }
        let lower = name.to_ascii_lowercase();
        self.write(out, known, &lower, static_table::name_index(known, &lower), value, policy);
    }

    fn write(&mut self, out: &mut Vec<u8>, known: Known, name: &[u8], index: usize, value: &[u8], policy: Policy) {
        if policy != Policy::Index || name.len() + value.len() + 32 > self.table.max_size() * 3 / 4 {
            let first = if policy == Policy::Never { 0x10 } else { 0 };
            integer(out, first, 4, index);
            if index == 0 {
                string(out, name);
            }
            return string(out, value);
        }
        if self.pairs.is_empty() {
            self.pairs = vec![0; SLOTS];
            self.names = vec![0; SLOTS];
        }
        let name_hash = hash(name, 0);
        let pair_hash = hash(value, name_hash);
        let (name_slot, pair_slot) = (name_hash as usize % SLOTS, pair_hash as usize % SLOTS);
        if let Some((index, line)) = self.find(self.pairs[pair_slot]) {
            let is_same = line.len() == name.len() + value.len() + 4
                && line.starts_with(name)
                && line.get(name.len()..name.len() + 2) == Some(b": ")
                && line.get(name.len() + 2..line.len() - 2) == Some(value);
            if is_same {
                return integer(out, 0x80, 7, index);
            }
        }
        let mut name_index = index;
        if name_index == 0
            && let Some((index, line)) = self.find(self.names[name_slot])
            && line.strip_prefix(name).is_some_and(|rest| rest.starts_with(b": "))
        {
            name_index = index;
        }
        integer(out, 0x40, 6, name_index);
        if name_index == 0 {
            string(out, name);
        }
        string(out, value);
        self.line.clear();
        for part in [name, b": ", value, b"\r\n"] {
            self.line.extend_from_slice(part);
        }
        self.table.insert(&self.line, name.len(), known, Kind::Field, Kind::Field);
        self.pairs[pair_slot] = self.table.inserted() as u16;
        self.names[name_slot] = self.table.inserted() as u16;
    }

    /// Index and line of the entry with this number, if it is still in the table.
    fn find(&self, number: u16) -> Option<(usize, &[u8])> {
        if number == 0 {
            return None;
        }
        let behind = usize::from((self.table.inserted() as u16).wrapping_sub(number));
        let (_, line) = self.table.get(behind)?;
        Some((static_table::LEN + 1 + behind, line))
    }
}

/// Whether a field enters the dynamic table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Index,
    /// Its value rarely comes again.
    Literal,
    /// A secret: nobody on the way may put it into a table either (section 7.1.3).
    Never,
}

impl Policy {
    /// Of a field that is not secret.
    fn of(known: Known) -> Policy {
        match known {
            Known::ContentLength
            | Known::ContentRange
            | Known::Etag
            | Known::Age
            | Known::Location
            | Known::IfNoneMatch
            | Known::IfModifiedSince
            | Known::XRequestId
            | Known::GrpcTimeout
            | Known::Range => Policy::Literal,
            _ => Policy::Index,
        }
    }
}

fn hash(bytes: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = seed ^ bytes.len() as u64;
    let mut rest = bytes;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_left(29);
        rest = behind;
    }
    let tail = rest.iter().fold(0, |tail, &byte| tail << 8 | u64::from(byte));
    let hash = (hash ^ tail).wrapping_mul(FACTOR);
    hash ^ hash >> 32
}

/// An integer with a prefix of `bits`; `first` holds what stands before it.
#[inline]
fn integer(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let mask = (1 << bits) - 1;
    if value < mask {
        out.push(first | value as u8);
        return;
    }
    out.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | rest as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A string, Huffman-coded where that is shorter.
#[inline]
fn string(out: &mut Vec<u8>, text: &[u8]) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer(out, 0x80, 7, coded);
        huffman::encode(text, out);
    } else {
        integer(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}
