//! What a trusted peer says of the URL that the client requested, as part of a key: `X-Forwarded-Host`, `X-Forwarded-Proto` and `Forwarded` (RFC 7239).

use h1::Known;

use super::key::sized;
use super::lines::Lines;
use super::list::{self, trim};

/// Appends all values, each behind a 1: an origin may read any of several lines. The first `X-Forwarded-Proto` is the scheme, which the key has already.
pub fn write<'a>(request: impl Lines<'a>, out: &mut Vec<u8>) {
    for value in request.values(Known::XForwardedProto).skip(1) {
        out.push(1);
        sized(out, value);
    }
    out.push(0);
    for value in request.values(Known::XForwardedHost) {
        out.push(1);
        sized(out, value);
    }
    out.push(0);
    for value in request.values(Known::Forwarded) {
        out.push(1);
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        // What is not well-formed counts as it came: nobody knows what an origin makes of it.
        if write_without_nodes(value, out).is_none() {
            out.truncate(start + 4);
            out.extend_from_slice(value);
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    out.push(0);
}

/// What [`write`] appends for a request that has none of these fields.
pub const NOTHING: &[u8] = &[0; 3];

/// Appends a `Forwarded` without `for` and `by`: those tell clients and proxies apart, not what was requested, as `X-Forwarded-For` does, which is in no
/// key either. `None` for anything that breaks the grammar of RFC 7239 section 4.
fn write_without_nodes(value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = value;
    loop {
        let at = rest.iter().position(|byte| matches!(byte, b',' | b';' | b'"')).unwrap_or(rest.len());
        let end = match rest.get(at) {
            Some(b'"') if rest[..at].ends_with(b"=") => at + list::quoted_length(&rest[at..])?,
            Some(b'"') => return None,
            _ => at,
        };
        let (pair, after) = (trim(&rest[..end]), trim(&rest[end..]));
        if !pair.is_empty() {
            let name = &pair[..memchr::memchr(b'=', pair)?];
            if !list::is_token(name) {
                return None;
            }
            if !name.eq_ignore_ascii_case(b"for") && !name.eq_ignore_ascii_case(b"by") {
                out.extend_from_slice(pair);
            }
        }
        match after.split_first() {
            None => return Some(()),
            Some((separator @ (b',' | b';'), after)) => {
                out.push(*separator);
                rest = after;
            }
            Some(_) => return None,
        }
    }
}
