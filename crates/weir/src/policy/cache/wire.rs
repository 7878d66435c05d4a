//! Responses as bytes, for a store outside of this process.
//!
//! ```text
//! 02            version; anything else is not there for this program
//! 41 | 56       A: a response, V: what the responses of the key differ by
//! u64, u64      when the origin was called, and the date of the response (ms): of two, the newer one stays (`store.lua`)
//! 32 bytes      keyed digest of the key, which itself holds credentials that partitions are made of
//! A: class, terms (packed), u64 generation, u64 length + 1 (0: not known), u64 born (0: does not vary), u32 + names, u32 + fields, u64 + body
//! V: u64 born, u32 + names
//! ```
//!
//! Numbers are big-endian. What does not fit, to the last byte, is treated as a miss: the origin is called then.

use std::sync::Arc;

use bytes::Bytes;

use super::entry::{Entry, Head};
use super::flights::Began;
use super::key::Key;
use super::lookup::Varies;
use super::rules::key::sized;
use super::rules::{Class, Freshness, head};
use crate::config::Edits;

const VERSION: u8 = 2;

/// What a value holds.
#[derive(Debug)]
pub enum Stored {
    /// A response.
    Response(Entry),
    /// What the responses of the key differ by.
    Varies(Arc<Varies>),
}

/// A response as a value.
pub fn response(digest: &[u8; 32], entry: &Entry) -> Vec<u8> {
    let head = &entry.head;
    let mut out = Vec::with_capacity(head.fields().0.len() + entry.body().len() + 200);
    begin(&mut out, b'A', digest, entry);
    out.push(head.class.byte());
    out.extend_from_slice(&entry.freshness().pack());
    out.extend_from_slice(&head.generation.to_be_bytes());
    out.extend_from_slice(&head.length.map_or(0, |length| length.saturating_add(1)).to_be_bytes());
    let (born, names) = head.varies.as_ref().map_or((0, &[][..]), |varies| (varies.born, &varies.names));
    out.extend_from_slice(&born.to_be_bytes());
    sized(&mut out, names);
    sized(&mut out, head.fields().0);
    out.extend_from_slice(&(entry.body().len() as u64).to_be_bytes());
    out.extend_from_slice(entry.body());
    out
}

fn begin(out: &mut Vec<u8>, kind: u8, digest: &[u8; 32], entry: &Entry) {
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&entry.head.requested_ms.to_be_bytes());
    out.extend_from_slice(&entry.head.freshness.date_ms.to_be_bytes());
    out.extend_from_slice(digest);
}

/// What the responses of a key differ by, as a value; `entry` is the one that says so.
pub fn varies(digest: &[u8; 32], varies: &Varies, entry: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(varies.names.len() + 64);
    begin(&mut out, b'V', digest, entry);
    out.extend_from_slice(&varies.born.to_be_bytes());
    sized(&mut out, &varies.names);
    out
}

/// Reads the value of a key with this digest; `None` for anything that this program did not write for this key.
pub fn read(value: Vec<u8>, key: &[u8], digest: &[u8; 32], edits: &Edits, tag_fields: &[Arc<str>]) -> Option<Stored> {
    let mut rest = &value[..];
    let [version, kind] = *rest.split_off(..2)? else { return None };
    if version != VERSION {
        return None;
    }
    let at_ms = take_u64(&mut rest)?;
    take_u64(&mut rest)?;
    if rest.split_off(..digest.len())? != digest {
        return None;
    }
    if kind == b'V' {
        let born = take_u64(&mut rest)?;
        let names = take_sized(&mut rest)?;
        return rest.is_empty().then(|| Stored::Varies(Arc::new(Varies { names: names.into(), born })));
    }
    if kind != b'A' {
        return None;
    }
    let class = Class::of_byte(*rest.split_off_first()?)?;
    let freshness = Freshness::unpack(rest.split_off(..Freshness::PACKED)?)?;
    let generation = take_u64(&mut rest)?;
    let length = take_u64(&mut rest)?.checked_sub(1);
    let born = take_u64(&mut rest)?;
    let names = take_sized(&mut rest)?;
    let varies = (born != 0).then(|| Arc::new(Varies { names: names.into(), born }));
    let fields = take_sized(&mut rest)?;
    if take_u64(&mut rest)? != rest.len() as u64 {
        return None;
    }
    // What is written out as it is must be a response, whoever wrote to the store.
    if !(200..600).contains(&freshness.status) || !head::is_sound(fields) {
        return None;
    }
    let at = value.len() - rest.len();
    let began = Began { at_ms, generation, ..Began::default() };
    let head = Head::new((freshness, class), (fields, &[]), length, (Key::from(key), varies), began, edits, tag_fields);
    // The body stays where it is.
    Some(Stored::Response(Entry::new(Arc::new(head), Bytes::from(value).slice(at..))))
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
