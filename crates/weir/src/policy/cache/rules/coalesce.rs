//! Which requests may wait for one another's fetch (RFC 9111 section 4: collapsed requests).
//!
//! The caller groups requests by primary key, so never across partitions. Before a fetch has an answer, [`may_lead`] and
//! [`may_wait`] decide; when its head is there, [`may_share`] decides for each who waits, and who may not goes on alone.

use super::request::Asked;
use super::reuse::{Reuse, assess};
use super::terms::Terms;

/// Whether others may wait for this request's fetch: the upstream is asked for the whole, and not for this client.
pub fn may_lead(asked: &Asked) -> bool {
    !asked.may_get_less() && !asked.is_authorized && !asked.is_guarded && !asked.must_not_forward()
}

/// Whether this request may wait for the fetch of another. Not one that wants to hear of a state after it asked; not a range, whose answer
/// has a length that is known when the whole is.
pub fn may_wait(asked: &Asked) -> bool {
    !asked.control.no_cache
        && asked.control.max_age != Some(0)
        && !asked.has_range
        && !asked.is_authorized
        && !asked.is_guarded
        && !asked.must_not_forward()
}

/// Whether one who waits may have the answer that came. `terms` as [`consider`](super::storable::consider) gave them (what is not stored is not
/// shared); `same_variant`: the secondary keys of both requests are equal ([`vary`](super::vary)).
pub fn may_share(terms: &Terms, asked: &Asked, same_variant: bool, now_ms: u64) -> bool {
    same_variant
        && matches!(assess(terms, asked, now_ms), Reuse::Fresh | Reuse::WhileRevalidating | Reuse::StaleAsAsked)
}
