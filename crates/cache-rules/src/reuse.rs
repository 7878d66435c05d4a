//! Whether a stored response may be used for a request, now (RFC 9111 sections 4, 4.2.4 and 5.2.1; RFC 5861).

use super::request::CacheRequest;
use super::status::Fwd;
use super::stored_freshness::Freshness;

/// What a stored response, whose key and `Vary` match, is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Respond with it.
    Fresh,
    /// Respond with it, and fetch it again meanwhile (RFC 5861 section 3).
    WhileRevalidating,
    /// Respond with it: it is stale, but the client said that it takes that.
    StaleAllowed,
    /// Not without validation: forward with its validators, if it has any. In `Cache-Status` the reason.
    Validate(Fwd),
    /// Not for this client: forward as it came. The entry stays for others.
    NotForThisClient,
}

/// Assesses a stored response.
#[inline]
pub fn assess(freshness: &Freshness, wanted: &CacheRequest, now_ms: u64) -> Reuse {
    if !may_see(freshness, wanted) {
        return Reuse::NotForThisClient;
    }
    if freshness.always_validate {
        return Reuse::Validate(Fwd::Stale);
    }
    let control = &wanted.control;
    let is_young_enough = control.max_age.is_none_or(|age| freshness.age_ms(now_ms) <= u64::from(age) * 1000);
    if freshness.is_fresh(now_ms) {
        let is_fresh_enough = control.min_fresh.is_none_or(|fresh| freshness.ttl_ms(now_ms) >= i64::from(fresh) * 1000);
        return if control.no_cache || !is_young_enough || !is_fresh_enough {
            Reuse::Validate(Fwd::Request)
        } else {
            Reuse::Fresh
        };
    }
    if freshness.never_stale || control.no_cache || control.min_fresh.is_some() || !is_young_enough {
        return Reuse::Validate(Fwd::Stale);
    }
    let stale_ms = freshness.staleness_ms(now_ms);
    match control.max_stale {
        Some(u32::MAX) => Reuse::StaleAllowed,
        Some(seconds) if stale_ms <= u64::from(seconds) * 1000 => Reuse::StaleAllowed,
        // Who names an age wants nothing stale (section 5.2.1.1).
        _ if stale_ms < freshness.stale_while_revalidate_ms && control.max_age.is_none() => Reuse::WhileRevalidating,
        _ => Reuse::Validate(Fwd::Stale),
    }
}

/// Whether a stored response may replace an error: the upstream could not be reached, or its status [`is_error`] (RFC 5861 section 4). The
/// allowance holds "regardless of other freshness information", but not against who forbids it.
pub fn may_replace_error(freshness: &Freshness, wanted: &CacheRequest, now_ms: u64) -> bool {
    let requested_ms = u64::from(wanted.control.stale_if_error.unwrap_or(0)) * 1000;
    may_see(freshness, wanted)
        && !freshness.always_validate
        && !freshness.never_stale
        && !wanted.control.no_cache
        && freshness.staleness_ms(now_ms) < freshness.stale_if_error_ms.max(requested_ms)
}

/// Whether the status is an error in the sense of `stale-if-error` (RFC 5861 section 4).
pub fn is_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

/// Whether a response may be given to the client at all (RFC 9111 section 3.5, and the same for cookies and keys).
fn may_see(freshness: &Freshness, wanted: &CacheRequest) -> bool {
    (!wanted.is_authorized || freshness.for_authorized) && (!wanted.is_guarded || freshness.for_all)
}
