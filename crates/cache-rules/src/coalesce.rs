//! Which requests may wait for one another's fetch (RFC 9111 section 4: collapsed requests).
//!
//! The caller groups requests by primary key, so never across partitions. Before a fetch has a response, [`may_lead`] and
//! [`may_wait`] decide; when its head is there, [`may_share`] decides for each who waits, and who may not goes on alone: so a response that is
//! not `public` never reaches a request with credentials, nor a response to credentials that is not `public` anyone else.

use super::request::{CacheRequest, Class};
use super::reuse::{Reuse, assess};
use super::stored_freshness::Freshness;

/// Whether others may wait for this request's fetch. The upstream is sent no condition of this client's own ([`super::update`]), so that it
/// responds with the whole; a range is sent as it came. Whether a response to credentials may be shared is known with its head.
pub fn may_lead(wanted: &CacheRequest) -> bool {
    !wanted.has_range && !wanted.must_not_forward()
}

/// Whether a stale response that this request was served may be fetched again with its head, in the background. The body of a POST stays with
/// its client.
pub fn may_refresh(wanted: &CacheRequest) -> bool {
    wanted.class == Class::Get && !wanted.must_not_forward()
}

/// Whether this request may wait for the fetch of another. Not one that needs a state newer than the request itself; not a range, whose response
/// has a length that is known when the whole is.
pub fn may_wait(wanted: &CacheRequest) -> bool {
    !wanted.control.no_cache && wanted.control.max_age != Some(0) && !wanted.has_range && !wanted.must_not_forward()
}

/// Whether one who waits may have the response that came. `freshness` as [`consider`](super::storable::consider) gave it (what is not stored is not
/// shared); `same_variant`: the secondary keys of both requests are equal ([`vary`](super::vary)).
pub fn may_share(freshness: &Freshness, wanted: &CacheRequest, same_variant: bool, now_ms: u64) -> bool {
    same_variant
        && matches!(assess(freshness, wanted, now_ms), Reuse::Fresh | Reuse::WhileRevalidating | Reuse::StaleAllowed)
}
