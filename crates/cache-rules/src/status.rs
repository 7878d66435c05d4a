//! What clients are told about the cache: `Age` (RFC 9111 section 5.1), `Cache-Status` (RFC 9211) and `X-Cache`. No `Warning`: it has been removed
//! (RFC 9111 section 5.5).

use h1::encode;

use super::Freshness;
use config::CacheHeaders;

/// Why a request went forward (RFC 9211 section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fwd {
    /// The cache was not to handle it.
    Bypass,
    /// Its method is one that must be forwarded.
    Method,
    /// Nothing stored for the URI.
    UriMiss,
    /// Something for the URI, but nothing that its fields select.
    VaryMiss,
    /// Nothing that could be used, for one of these reasons.
    Miss,
    /// Something fresh, but the client's directives did not allow it.
    Request,
    /// Something, but stale.
    Stale,
    /// Something, but not the part that was requested.
    Partial,
}

impl Fwd {
    /// The token.
    pub fn token(self) -> &'static str {
        match self {
            Fwd::Bypass => "bypass",
            Fwd::Method => "method",
            Fwd::UriMiss => "uri-miss",
            Fwd::VaryMiss => "vary-miss",
            Fwd::Miss => "miss",
            Fwd::Request => "request",
            Fwd::Stale => "stale",
            Fwd::Partial => "partial",
        }
    }
}

/// How a response came about. Not for responses that the gateway makes itself, such as the 504 to `only-if-cached` (RFC 9211 section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// From the store, without a request to the origin: fresh, or stale where that is allowed.
    Hit,
    /// Stale from the store, in place of an error of the upstream.
    StaleOnError {
        /// Status of the upstream, if there was one.
        status: Option<u16>,
    },
    /// The request went forward.
    Forwarded {
        /// Why.
        why: Fwd,
        /// Status of the upstream, if it is not the one that is sent (304 on validation).
        status: Option<u16>,
        /// Whether the response is being stored.
        stored: bool,
        /// Whether it waited for the fetch of another request: `Some(true)`, and got that response; `Some(false)`, and could not use it.
        collapsed: Option<bool>,
    },
}

/// Appends the fields that the configuration requests. `freshness` is that of the response that is sent, if it is stored or storable.
/// `name` is this cache's name, a token (RFC 9211 section 2). Existing `Cache-Status` lines stay before it.
#[inline]
pub fn write(
    headers: CacheHeaders,
    outcome: Outcome,
    freshness: Option<&Freshness>,
    now_ms: u64,
    name: &[u8],
    out: &mut Vec<u8>,
) {
    // RFC 9111 section 4: a response that was not made or validated for this request has an age. One that was has none, unless a cache between here
    // and the origin had it: then what that said goes on, grown (section 5.1).
    let is_aged = !matches!(outcome, Outcome::Forwarded { collapsed: None | Some(false), .. })
        || freshness.is_some_and(|freshness| freshness.has_age);
    if headers.age
        && is_aged
        && let Some(freshness) = freshness
    {
        encode::number(out, b"Age", (freshness.age_ms(now_ms) / 1000).min(1 << 31));
    }
    // Only of what the cache had a part in.
    if headers.x_cache {
        match outcome {
            Outcome::Hit | Outcome::StaleOnError { .. } => encode::plain(out, b"X-Cache", b"HIT"),
            Outcome::Forwarded { why: Fwd::Bypass | Fwd::Method, .. } => {}
            Outcome::Forwarded { .. } => encode::plain(out, b"X-Cache", b"MISS"),
        }
    }
    if headers.cache_status {
        write_cache_status(outcome, freshness, now_ms, name, out);
    }
}

fn write_cache_status(outcome: Outcome, freshness: Option<&Freshness>, now_ms: u64, name: &[u8], out: &mut Vec<u8>) {
    encode::begin_field(out, b"Cache-Status");
    out.extend_from_slice(name);
    match outcome {
        Outcome::Hit => out.extend_from_slice(b"; hit"),
        Outcome::StaleOnError { status } => {
            out.extend_from_slice(b"; fwd=stale");
            if let Some(status) = status {
                out.extend_from_slice(b"; fwd-status=");
                encode::decimal(out, u64::from(status));
            }
        }
        Outcome::Forwarded { why, status, stored, collapsed } => {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(why.token().as_bytes());
            if let Some(status) = status {
                out.extend_from_slice(b"; fwd-status=");
                encode::decimal(out, u64::from(status));
            }
            if stored {
                out.extend_from_slice(b"; stored");
            }
            match collapsed {
                Some(true) => out.extend_from_slice(b"; collapsed"),
                Some(false) => out.extend_from_slice(b"; collapsed=?0"),
                None => {}
            }
        }
    }
    if let Some(freshness) = freshness {
        out.extend_from_slice(b"; ttl=");
        // Whole seconds, rounded down: what has been stale for half a second is at -1.
        let ttl_s = freshness.ttl_ms(now_ms).div_euclid(1000);
        if ttl_s < 0 {
            out.push(b'-');
        }
        encode::decimal(out, ttl_s.unsigned_abs());
    }
    encode::end_field(out);
}
