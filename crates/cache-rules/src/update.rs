//! Validation: the request for it, and what a response to it does to what is stored (RFC 9111 sections 3.2 and 4.3).

use h1::{Known, encode};

use super::lines::{Lines, StoredLines};
use super::precondition::{entity_tag, last_modified, same_strong_validator};
use super::request::CacheRequest;
use super::storable::{self, NotStored};
use super::stored_freshness::{Freshness, Times};
use super::targeted::Effective;
use super::{Policy, date, freshness, head};

/// Appends the preconditions by which a stored response is validated (RFC 9111 section 4.3.1); nothing if it has no validator.
/// They take the place of the fields that [`is_replaced`] names.
pub fn write_conditions<'a>(stored: impl Lines<'a>, out: &mut Vec<u8>) {
    if let Some(value) = stored.first(Known::Etag)
        && entity_tag(stored).is_some()
    {
        encode::field(out, b"If-None-Match", value);
    }
    if let Some(value) = stored.first(Known::LastModified)
        && last_modified(stored, 0).is_some()
    {
        encode::field(out, b"If-Modified-Since", value);
    }
}

/// Fields of the client's request that are not passed on when the cache validates or fetches the whole for itself: the response must be about the
/// cache's copy, and whole.
pub fn is_replaced(known: Known) -> bool {
    matches!(known, Known::IfNoneMatch | Known::IfModifiedSince | Known::IfRange | Known::Range)
}

/// Whether a 304, received in reply to a request that had the preconditions of this stored response and no others, is about this response
/// (RFC 9111 section 4.3.4). If not, what is stored must not be used: fetch it whole.
pub fn confirms<'a, 'b>(freshness: &Freshness, stored: impl Lines<'a>, not_modified: impl Lines<'b>) -> bool {
    match entity_tag(not_modified) {
        // A weak validator need only correspond; a strong one must be the same, and the stored one strong too.
        Some(new) if new.is_weak => entity_tag(stored).is_some_and(|stored| stored.matches_weakly(&new)),
        Some(_) => same_strong_validator(stored, freshness.date_ms, not_modified),
        // Many servers send no tag, and many nothing at all. The condition that failed was made of this response's validators alone, so that
        // it is the one that was meant, unless a date says otherwise.
        None => match last_modified(not_modified, freshness.date_ms) {
            Some(new) => last_modified(stored, freshness.date_ms).is_none_or(|stored| stored == new),
            None => true,
        },
    }
}

/// What freshening made of a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshened {
    /// Stored on new terms.
    Stored(Freshness),
    /// It responds to the request that caused this, on these terms, and is stored no more.
    NotStored(Freshness, NotStored),
}

/// Updates a stored response from the head of a 304 that [`confirms`] it, or of a HEAD that [`head_effect`] found equal: appends the new
/// field lines to `out` and returns the new freshness values (RFC 9111 section 3.2). The new lines may name other fields in `Vary`: names and secondary
/// key are to be written again, from the request that was sent.
pub fn freshen<'a>(
    policy: &Policy,
    wanted: &CacheRequest,
    freshness: &Freshness,
    stored: &[u8],
    new: impl Lines<'a>,
    times: Times,
    out: &mut Vec<u8>,
) -> Freshened {
    let start = out.len();
    merge(policy, stored, new, times.received_ms, out);
    let merged = StoredLines(&out[start..]);
    let effective = Effective::read(merged);
    let considered = storable::consider(policy, wanted, freshness.status, merged, &effective, times);
    // Of the merged lines, `Age` is not one.
    let (initial_age_ms, has_age) = (freshness::initial_age_ms(new, times), freshness::has_age(new));
    match considered {
        Ok(freshness) => Freshened::Stored(Freshness { initial_age_ms, has_age, ..freshness }),
        Err(reason) => {
            let freshness = storable::freshness(policy, &effective, freshness.status, merged, times);
            Freshened::NotStored(Freshness { initial_age_ms, has_age, ..freshness }, reason)
        }
    }
}

/// Appends the stored lines with those of the same names replaced by the new ones, and new names added. Exceptions: what is never stored,
/// and what belongs to the stored body.
fn merge<'a>(policy: &Policy, stored: &[u8], new: impl Lines<'a>, received_ms: u64, out: &mut Vec<u8>) {
    let effective = Effective::read(new);
    let replaces = |name: &[u8], known: Known| {
        !belongs_to_body(known, name) && new.all().any(|line| line.is(name) && head::is_kept(policy, &line))
    };
    for line in StoredLines(stored).all() {
        let is_withheld = effective.withholds(new, line.name);
        if !replaces(line.name, line.known) && line.known != Known::Date && !is_withheld {
            encode::field(out, line.name, line.value);
        }
    }
    let mut has_date = false;
    for line in new.all() {
        if head::is_kept(policy, &line)
            && !belongs_to_body(line.known, line.name)
            && !effective.withholds(new, line.name)
        {
            if line.known == Known::Date {
                if has_date || date::parse(line.value, (received_ms / 1000) as i64).is_none() {
                    continue;
                }
                has_date = true;
            }
            encode::field(out, line.name, line.value);
        }
    }
    if !has_date {
        out.extend_from_slice(&encode::date_of_second(received_ms / 1000));
    }
}

/// Fields that describe the stored bytes, which an update leaves as they are: a server that names another coding in a 304 does not recode
/// what is here (RFC 9111 section 3.2).
fn belongs_to_body(known: Known, name: &[u8]) -> bool {
    matches!(known, Known::ContentEncoding | Known::ContentLength | Known::ContentRange | Known::ContentType)
        || name.eq_ignore_ascii_case(b"content-md5")
        || name.eq_ignore_ascii_case(b"content-digest")
        || name.eq_ignore_ascii_case(b"repr-digest")
}

/// What the response to a forwarded HEAD means for a stored response to GET that the request could have selected (RFC 9111 section 4.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadEffect {
    /// The same: [`freshen`] it.
    Freshen,
    /// Another: make it stale ([`Freshness::invalidate`]).
    Invalidate,
    /// Nothing follows.
    None,
}

/// Compares a stored 200, whose body has `body_length` bytes, with the response to a HEAD.
pub fn head_effect<'a, 'b>(
    freshness: &Freshness,
    stored: impl Lines<'a>,
    body_length: u64,
    status: u16,
    head: impl Lines<'b>,
) -> HeadEffect {
    if status != 200 || freshness.status != 200 {
        return HeadEffect::None;
    }
    let same = |known: Known| match head.first(known) {
        Some(value) => stored.first(known) == Some(value),
        None => true,
    };
    let mut length = Vec::new();
    encode::decimal(&mut length, body_length);
    let same_length = head.first(Known::ContentLength).is_none_or(|value| value == length);
    if same(Known::Etag) && same(Known::LastModified) && same_length {
        HeadEffect::Freshen
    } else {
        HeadEffect::Invalidate
    }
}
