//! Answers as bytes, for a store outside of this process.
//!
//! ```text
//! 01            version; anything else is not there for this program
//! 41 | 56       A: an answer, V: what the answers of the key differ by
//! u32 + bytes   the whole key: two keys with one digest must not be taken for each other
//! A: class, terms (packed), u64 asked at (ms), u64 length + 1 (0: not known), u64 born (0: does not vary), u32 + names, u32 + fields, body
//! V: u64 born, names
//! ```
//!
//! Numbers are big-endian. What does not fit is taken for nothing: the origin is asked then.

use std::sync::Arc;

use bytes::Bytes;

use super::entry::{Entry, Head};
use super::key::Key;
use super::lookup::Varies;
use super::rules::key::sized;
use super::rules::{Class, Terms, head};
use crate::config::Edits;

const VERSION: u8 = 1;

/// What a value holds.
#[derive(Debug)]
pub enum Stored {
    /// An answer.
    Answer(Entry),
    /// What the answers of the key differ by.
    Varies(Arc<Varies>),
}

/// An answer as a value.
pub fn answer(entry: &Entry) -> Vec<u8> {
    let head = &entry.head;
    let mut out = Vec::with_capacity(head.fields().0.len() + head.key.len() + entry.body().len() + 160);
    out.extend_from_slice(&[VERSION, b'A']);
    sized(&mut out, &head.key);
    out.push(head.class.byte());
    out.extend_from_slice(&entry.terms().pack());
    out.extend_from_slice(&head.asked_ms.to_be_bytes());
    out.extend_from_slice(&head.length.map_or(0, |length| length.saturating_add(1)).to_be_bytes());
    let (born, names) = head.varies.as_ref().map_or((0, &[][..]), |varies| (varies.born, &varies.names));
    out.extend_from_slice(&born.to_be_bytes());
    sized(&mut out, names);
    sized(&mut out, head.fields().0);
    out.extend_from_slice(entry.body());
    out
}

/// What the answers of a key differ by, as a value.
pub fn varies(key: &[u8], varies: &Varies) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + varies.names.len() + 16);
    out.extend_from_slice(&[VERSION, b'V']);
    sized(&mut out, key);
    out.extend_from_slice(&varies.born.to_be_bytes());
    out.extend_from_slice(&varies.names);
    out
}

/// Reads the value of a key; `None` for anything that this program did not write for this key.
pub fn read(value: Vec<u8>, key: &[u8], edits: &Edits, tag_fields: &[Arc<str>]) -> Option<Stored> {
    let mut rest = &value[..];
    let [version, kind] = *rest.split_off(..2)? else { return None };
    if version != VERSION || take_sized(&mut rest)? != key {
        return None;
    }
    if kind == b'V' {
        let born = take_u64(&mut rest)?;
        return Some(Stored::Varies(Arc::new(Varies { names: rest.into(), born })));
    }
    if kind != b'A' {
        return None;
    }
    let class = Class::of_byte(*rest.split_off_first()?)?;
    let terms = Terms::unpack(rest.split_off(..Terms::PACKED)?)?;
    let asked_ms = take_u64(&mut rest)?;
    let length = take_u64(&mut rest)?.checked_sub(1);
    let born = take_u64(&mut rest)?;
    let names = take_sized(&mut rest)?;
    let varies = (born != 0).then(|| Arc::new(Varies { names: names.into(), born }));
    let fields = take_sized(&mut rest)?;
    // What is written out as it is must be an answer, whoever wrote to the store.
    if !(200..600).contains(&terms.status) || !head::is_sound(fields) {
        return None;
    }
    let at = value.len() - rest.len();
    let head = Head::new((terms, class), (fields, &[]), length, (Key::from(key), varies), asked_ms, edits, tag_fields);
    // The body stays where it is.
    Some(Stored::Answer(Entry::new(Arc::new(head), Bytes::from(value).slice(at..))))
}

fn take_sized<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = rest.split_off(..4)?.try_into().map(u32::from_be_bytes).ok()?;
    rest.split_off(..usize::try_from(length).ok()?)
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    rest.split_off(..8)?.try_into().map(u64::from_be_bytes).ok()
}

#[cfg(test)]
mod tests;
