//! The little of the Protocol Buffers encoding that spans need. Fields are appended; a message is known by its length, so it is written
//! apart first, or its length is computed.

/// Bytes that `value` takes as a varint.
pub(crate) fn varint_len(value: u64) -> usize {
    // Seven bits a byte, and one byte for zero.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Fields 1 to 15 have tags of one byte, others of two.
fn tag(out: &mut Vec<u8>, field: u32, wire: u32) {
    varint(out, u64::from(field << 3 | wire));
}

pub(crate) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, 0);
    varint(out, value);
}

pub(crate) fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, 1);
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn fixed32(out: &mut Vec<u8>, field: u32, value: u32) {
    tag(out, field, 5);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Bytes, a string, or a message that is encoded already.
pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    open(out, field, value.len());
    out.extend_from_slice(value);
}

/// The begin of a field whose `length` bytes follow.
pub(crate) fn open(out: &mut Vec<u8>, field: u32, length: usize) {
    tag(out, field, 2);
    varint(out, length as u64);
}

/// Length of a field of bytes with a tag of one byte.
pub(crate) fn bytes_len(length: usize) -> usize {
    1 + varint_len(length as u64) + length
}

/// Reads the fields of a message one by one: number, and what is in it. `None` ends it, also where it is broken.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let field = u32::try_from(tag >> 3).ok()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Bytes(self.take(4)?),
            _ => return None,
        };
        Some((field, value))
    }
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_varints_are_what_is_written() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, u64::MAX >> bit]) {
            let mut out = Vec::new();
            varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            assert_eq!(Fields(&out).varint(), Some(value));
        }
    }
}
