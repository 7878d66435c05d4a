//! Decoding of field blocks (RFC 7541 section 6) into an arena of field lines.

use message::Known;

use super::static_table::{self, ENTRIES};
use super::table::{Kind, Table};
use super::{FieldKind, HpackError, Sink, huffman};

/// Largest table that this side allows (SETTINGS_HEADER_TABLE_SIZE).
const TABLE_SIZE: usize = 4096;
/// Size updates at the start of one block: the smallest and the last (section 4.2).
const SIZE_UPDATES: usize = 2;

/// Decoder of one connection.
#[derive(Debug, Clone)]
pub struct Decoder {
    table: Table,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { table: Table::new(TABLE_SIZE) }
    }
}

/// A string: its bytes in the block, coded or not.
struct Text<'a> {
    bytes: &'a [u8],
    is_huffman: bool,
}

impl Text<'_> {
    #[inline]
    fn append(&self, out: &mut Vec<u8>) -> Result<(), HpackError> {
        if self.is_huffman {
            return huffman::decode(self.bytes, out);
        }
        out.extend_from_slice(self.bytes);
        Ok(())
    }
}

impl Decoder {
    /// Decodes a whole block. Every field is appended as a line to the sink's arena; the sink may cut it off again.
    ///
    /// # Errors
    /// The rule that the block breaks. The decoder must not be used any more.
    pub fn decode(&mut self, block: &[u8], sink: &mut impl Sink) -> Result<(), HpackError> {
        let mut rest = block;
        let mut updates = 0;
        let mut is_first = true;
        while let Some(&byte) = rest.first() {
            if byte & 0xe0 == 0x20 {
                let size = integer(&mut rest, 5)?;
                updates += 1;
                if !is_first || updates > SIZE_UPDATES || size > TABLE_SIZE {
                    return Err(HpackError::SizeUpdate);
                }
                self.table.set_max_size(size);
                continue;
            }
            is_first = false;
            if byte & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                self.indexed(index, sink)?;
            } else if byte & 0x40 != 0 {
                let index = integer(&mut rest, 6)?;
                self.literal(index, &mut rest, sink, true)?;
            } else {
                let index = integer(&mut rest, 4)?;
                self.literal(index, &mut rest, sink, false)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn indexed(&self, index: usize, sink: &mut impl Sink) -> Result<(), HpackError> {
        let text = sink.text();
        let start = text.len();
        if let Some(entry) = ENTRIES.get(index.wrapping_sub(1)) {
            text.extend_from_slice(entry.line.as_bytes());
            sink.line(start, entry.name_len, entry.known, FieldKind(entry.kind));
            return Ok(());
        }
        let (entry, line) = self.dynamic(index)?;
        text.extend_from_slice(line);
        sink.line(start, entry.name_len as usize, entry.known, FieldKind(entry.kind));
        Ok(())
    }

    fn dynamic(&self, index: usize) -> Result<(&super::table::Entry, &[u8]), HpackError> {
        index.checked_sub(static_table::LEN + 1).and_then(|index| self.table.get(index)).ok_or(HpackError::Index)
    }

    fn literal(
        &mut self,
        index: usize,
        rest: &mut &[u8],
        sink: &mut impl Sink,
        is_inserted: bool,
    ) -> Result<(), HpackError> {
        let text = sink.text();
        let start = text.len();
        // Known, kind of the name, and its length; a name of a table was looked at before.
        let (known, name_kind, name_len) = if index == 0 {
            string(rest)?.append(text)?;
            let name = text.get(start..).unwrap_or_default();
            (Known::of(name), Kind::of(name, b""), name.len())
        } else if let Some(entry) = ENTRIES.get(index - 1) {
            text.extend_from_slice(entry.line.as_bytes().get(..entry.name_len).unwrap_or_default());
            (entry.known, entry.kind, entry.name_len)
        } else {
            let (entry, line) = self.dynamic(index)?;
            text.extend_from_slice(line.get(..entry.name_len as usize).unwrap_or_default());
            (entry.known, entry.name_kind, entry.name_len as usize)
        };
        text.extend_from_slice(b": ");
        let value_start = text.len();
        string(rest)?.append(text)?;
        let kind = name_kind.with_value(text.get(value_start..).unwrap_or_default());
        text.extend_from_slice(b"\r\n");
        if is_inserted {
            self.table.insert(text.get(start..).unwrap_or_default(), name_len, known, kind, name_kind);
        }
        sink.line(start, name_len, known, FieldKind(kind));
        Ok(())
    }

    /// Bytes in the dynamic table, as RFC 7541 counts them.
    pub fn table_size(&self) -> usize {
        self.table.size()
    }

    /// Entries in the dynamic table.
    pub fn table_len(&self) -> usize {
        self.table.len()
    }
}

/// An integer with a prefix of `bits` (section 5.1); at most four bytes behind the prefix.
#[inline]
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let Some((&first, mut bytes)) = rest.split_first() else { return Err(HpackError::Truncated) };
    let mask = (1_usize << bits) - 1;
    let mut value = usize::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let Some((&byte, behind)) = bytes.split_first() else { return Err(HpackError::Truncated) };
            bytes = behind;
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 21 {
                return Err(HpackError::Integer);
            }
        }
    }
    *rest = bytes;
    Ok(value)
}

/// A string literal (section 5.2).
#[inline]
fn string<'a>(rest: &mut &'a [u8]) -> Result<Text<'a>, HpackError> {
    let is_huffman = rest.first().is_some_and(|byte| byte & 0x80 != 0);
    let length = integer(rest, 7)?;
    let (bytes, behind) = rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *rest = behind;
    Ok(Text { bytes, is_huffman })
}
