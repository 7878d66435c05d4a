//! Heads of stored responses: which fields of an upstream's response are stored, and which of those are sent.

use h1::written::without_end;
use h1::{Known, encode};

use super::delivery::Delivery;
use super::lines::{Line, Lines, StoredLines};
use super::targeted::Effective;
use super::{Policy, date, list, range};

/// Appends the field lines to store (RFC 9111 section 3.1): all that were received, except fields of one connection or one proxy, framing (made anew),
/// the request id (each response has its own), `Age` (computed anew), `X-Cache` where the gateway writes its own, `Set-Cookie` where the configuration says so, and what `no-cache` or `private` withholds. A response without a valid `Date`
/// gets the time it was received (RFC 9110 section 6.6.1).
pub fn store<'a>(
    policy: &Policy,
    response: impl Lines<'a>,
    effective: &Effective,
    received_ms: u64,
    out: &mut Vec<u8>,
) {
    let mut has_date = false;
    for line in response.all() {
        if is_kept(policy, &line) && !effective.withholds(response, line.name) {
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

/// Whether a field may be stored, whatever directives say.
pub(super) fn is_kept(policy: &Policy, line: &Line<'_>) -> bool {
    if line.is_hop_by_hop {
        return false;
    }
    match line.known {
        // Of the client's proxy, not of the resource (RFC 9111 section 3.1).
        Known::ProxyAuthenticate | Known::ProxyAuthorization => false,
        // The whole is stored, so that its length is that of the stored body.
        Known::ContentLength | Known::ContentRange | Known::Age => false,
        Known::SetCookie => !policy.strips_set_cookie,
        // Of the request that the response was fetched for.
        Known::XRequestId => !line.is(policy.request_id.as_bytes()),
        Known::Other if line.is(b"proxy-authentication-info") || line.is(policy.request_id.as_bytes()) => false,
        Known::Other => !policy.headers.x_cache || !line.is(b"x-cache"),
        known => !known.is_hop_by_hop(),
    }
}

/// Whether lines from a store that others can write to are what this program would have written: fields, each with its line end, and none that would
/// end the head or frame the message. They are sent as they are.
pub fn is_sound(stored: &[u8]) -> bool {
    stored.split_inclusive(|byte| *byte == b'\n').all(|line| {
        let Some(line) = without_end(line) else { return false };
        let Some(colon) = memchr::memchr(b':', line) else { return false };
        let (name, value) = line.split_at(colon);
        let known = Known::of(name);
        list::is_token(name)
            && value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control())
            && !known.is_hop_by_hop()
            && known != Known::ContentLength
    })
}

/// Appends the stored lines as they are sent, framing and the cache's own fields not among them.
#[inline]
pub fn write_fields(stored: &[u8], delivery: Delivery, body_length: u64, out: &mut Vec<u8>) {
    match delivery {
        Delivery::Whole => out.extend_from_slice(stored),
        Delivery::Part { first, last } => {
            out.extend_from_slice(stored);
            range::write_content_range(Some((first, last)), body_length, out);
        }
        Delivery::NotModified => write_not_modified(StoredLines(stored), out),
        // What describes the content does not describe the absence of it.
        Delivery::Unsatisfiable => {
            for line in StoredLines(stored).all().filter(|line| !describes_content(line)) {
                encode::field(out, line.name, line.value);
            }
            range::write_content_range(None, body_length, out);
        }
    }
}

/// RFC 9110 section 15.4.5: what guides the client's cache, not what describes content that it has already.
fn write_not_modified(stored: StoredLines<'_>, out: &mut Vec<u8>) {
    let has_tag = stored.first(Known::Etag).is_some();
    for line in stored.all() {
        if describes_content(&line) || (has_tag && line.known == Known::LastModified) {
            continue;
        }
        encode::field(out, line.name, line.value);
    }
}

/// Representation metadata (RFC 9110 section 8), except validators and `Content-Location`.
fn describes_content(line: &Line<'_>) -> bool {
    match line.known {
        Known::ContentType | Known::ContentEncoding | Known::ContentLength | Known::ContentRange => true,
        Known::Other => {
            line.is(b"content-language")
                || line.is(b"content-disposition")
                || line.is(b"content-md5")
                || line.is(b"content-digest")
                || line.is(b"repr-digest")
                || line.is(b"digest")
        }
        _ => false,
    }
}
