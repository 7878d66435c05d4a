//! Byte ranges cut from whole stored responses (RFC 9110 section 14).

use h1::{Known, encode};

use super::lines::Lines;
use super::list;

/// What a `Range` requests, of content with a known length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranged {
    /// All of it: the field makes no sense, names another unit or requests several ranges (which may always get the whole;
    /// multipart responses are how small requests are made to cost much).
    Whole,
    /// These bytes, both ends included.
    Part {
        /// First byte.
        first: u64,
        /// Last byte.
        last: u64,
    },
    /// Nothing that is there.
    Unsatisfiable,
}

/// Reads a `Range` for content of `length` bytes.
pub fn parse(value: &[u8], length: u64) -> Ranged {
    let Some((unit, set)) = split(value, b'=') else { return Ranged::Whole };
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return Ranged::Whole;
    }
    let mut specs = list::elements(set);
    let (Some(spec), None) = (specs.next(), specs.next()) else { return Ranged::Whole };
    let Some((first, last)) = split(spec, b'-') else { return Ranged::Whole };
    match (first, last) {
        // The last so many bytes.
        (b"", last) => match position(last) {
            None => Ranged::Whole,
            Some(0) => Ranged::Unsatisfiable,
            // Of nothing, the last bytes are nothing, which no Content-Range can say.
            Some(_) if length == 0 => Ranged::Whole,
            Some(count) => Ranged::Part { first: length.saturating_sub(count), last: length - 1 },
        },
        (first, last) => {
            let to = if last.is_empty() { Some(u64::MAX) } else { position(last) };
            match (position(first), to) {
                (Some(first), Some(to)) if to < first => Ranged::Whole,
                (Some(first), Some(_)) if first >= length => Ranged::Unsatisfiable,
                (Some(first), Some(to)) => Ranged::Part { first, last: to.min(length - 1) },
                _ => Ranged::Whole,
            }
        }
    }
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let mark = memchr::memchr(at, text)?;
    Some((&text[..mark], &text[mark + 1..]))
}

/// A position; one too large for any content is the largest there is.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

/// Appends `Content-Range` of a 206, or, without a part, of a 416.
pub fn write_content_range(part: Option<(u64, u64)>, length: u64, out: &mut Vec<u8>) {
    encode::begin_field(out, b"Content-Range");
    out.extend_from_slice(b"bytes ");
    match part {
        Some((first, last)) => {
            encode::decimal(out, first);
            out.push(b'-');
            encode::decimal(out, last);
        }
        None => out.push(b'*'),
    }
    out.push(b'/');
    encode::decimal(out, length);
    encode::end_field(out);
}

/// Whether a 206 holds everything: one part, from the first byte to the last of a known length (RFC 9110 section 14.4).
pub fn is_everything<'a>(response: impl Lines<'a>) -> bool {
    whole_length(response).is_some()
}

/// Length of the whole that a 206 says it holds; `None` for any other part.
pub fn whole_length<'a>(response: impl Lines<'a>) -> Option<u64> {
    let mut values = response.values(Known::ContentRange);
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (unit, rest) = split(value, b' ')?;
    let (range, length) = split(rest, b'/')?;
    let (first, last) = split(range, b'-')?;
    let length = position(length)?;
    let is_everything = unit.eq_ignore_ascii_case(b"bytes")
        && position(first) == Some(0)
        && position(last).and_then(|last| last.checked_add(1)) == Some(length);
    is_everything.then_some(length)
}
