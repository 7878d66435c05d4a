//! Validators and the preconditions that a cache evaluates (RFC 9110 sections 8.8 and 13, RFC 9111 section 4.3.2).

use h1::Known;

use super::lines::Lines;
use super::list::trim;
use super::{Freshness, date};

/// An entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Whether equal tags mean equivalent rather than equal content.
    pub is_weak: bool,
    /// The opaque tag, quotes included.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Parses a whole field value.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        match Self::parse_first(value)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// Parses the tag at the beginning, and says what follows.
    fn parse_first(value: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (is_weak, opaque) = match value {
            [b'W', b'/', rest @ ..] => (true, rest),
            _ => (false, value),
        };
        let [b'"', rest @ ..] = opaque else { return None };
        // No escapes in it: a backslash stands for itself.
        let end = rest.iter().position(|&byte| byte == b'"' || byte <= b' ' || byte == 0x7f)?;
        if rest[end] != b'"' {
            return None;
        }
        let (opaque, after) = opaque.split_at(end + 2);
        Some((EntityTag { is_weak, opaque }, after))
    }

    /// Strong comparison: both strong and equal.
    pub fn matches_strongly(&self, other: &EntityTag<'_>) -> bool {
        !self.is_weak && !other.is_weak && self.opaque == other.opaque
    }

    /// Weak comparison: equal, weak or not.
    pub fn matches_weakly(&self, other: &EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// The entity tag of a response.
pub fn entity_tag<'a>(response: impl Lines<'a>) -> Option<EntityTag<'a>> {
    response.first(Known::Etag).and_then(EntityTag::parse)
}

/// Whether the client's copy is still good, by its `If-None-Match`, else by its `If-Modified-Since`: 304 in place of a stored 200.
pub fn is_not_modified<'a, 'b>(request: impl Lines<'a>, freshness: &Freshness, stored: impl Lines<'b>) -> bool {
    if request.first(Known::IfNoneMatch).is_some() {
        let tag = entity_tag(stored);
        return request.values(Known::IfNoneMatch).any(|value| names_tag(value, tag));
    }
    let mut values = request.values(Known::IfModifiedSince);
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Some(since_s) = date::parse(value, unix_s(freshness.received_ms)) else { return false };
    let modified_s = match stored.first(Known::LastModified) {
        Some(value) => match date::parse(value, unix_s(freshness.received_ms)) {
            Some(modified_s) => modified_s,
            None => return false,
        },
        // No `Last-Modified`: its `Date`, else when it was received, which is what the terms hold.
        None => unix_s(freshness.date_ms),
    };
    modified_s <= since_s
}

/// Whether an `If-None-Match` names this tag, or is `*`. A list with an error matches as far as it can be read.
fn names_tag(value: &[u8], tag: Option<EntityTag<'_>>) -> bool {
    if value == b"*" {
        return true;
    }
    let Some(tag) = tag else { return false };
    let mut rest = value;
    loop {
        while let [b' ' | b'\t' | b',', after @ ..] = rest {
            rest = after;
        }
        let Some((listed, after)) = EntityTag::parse_first(rest) else { return false };
        if listed.matches_weakly(&tag) {
            return true;
        }
        rest = after;
    }
}

/// Whether a range may be cut from this response, given `If-Range`: true without one (RFC 9110 section 13.1.5).
pub fn range_applies<'a, 'b>(request: impl Lines<'a>, freshness: &Freshness, stored: impl Lines<'b>) -> bool {
    let mut values = request.values(Known::IfRange);
    let Some(value) = values.next() else { return true };
    if values.next().is_some() {
        return false;
    }
    if let Some(tag) = EntityTag::parse(trim(value)) {
        return entity_tag(stored).is_some_and(|stored| stored.matches_strongly(&tag));
    }
    let now_s = unix_s(freshness.received_ms);
    let date = |value| date::parse(value, now_s);
    match (date(value), stored.first(Known::LastModified).and_then(date)) {
        // A date is a strong validator only if the response was made at least a second after it (section 8.8.2.2).
        (Some(wanted), Some(modified)) => wanted == modified && unix_s(freshness.date_ms) > modified,
        _ => false,
    }
}

/// Whether two responses have the same strong validator: the entity tag, else, if neither has one, the date of modification where it is strong.
pub fn same_strong_validator<'a, 'b>(stored: impl Lines<'a>, date_ms: u64, new: impl Lines<'b>) -> bool {
    match (entity_tag(stored), entity_tag(new)) {
        (Some(stored), Some(new)) => stored.matches_strongly(&new),
        (None, None) => match (last_modified(stored, date_ms), last_modified(new, date_ms)) {
            (Some(stored), Some(new)) => stored == new && unix_s(date_ms) > stored,
            _ => false,
        },
        _ => false,
    }
}

/// `Last-Modified` in seconds since the epoch; `now_ms` is a time near which the response was made.
pub fn last_modified<'a>(response: impl Lines<'a>, now_ms: u64) -> Option<i64> {
    response.first(Known::LastModified).and_then(|value| date::parse(value, unix_s(now_ms)))
}

fn unix_s(ms: u64) -> i64 {
    (ms / 1000) as i64
}
