//! How much of a stored response a request gets: preconditions, then ranges (RFC 9110 section 13.2.2).

use h1::Known;

use super::lines::Lines;
use super::range::{self, Ranged};
use super::request::{CacheRequest, Class};
use super::{Freshness, precondition};

/// What is sent of a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All, with the stored status.
    Whole,
    /// 304, no content.
    NotModified,
    /// 206 with these bytes of the content.
    Part {
        /// First byte.
        first: u64,
        /// Last byte, included.
        last: u64,
    },
    /// 416, no content.
    Unsatisfiable,
}

impl Delivery {
    /// Status that is sent.
    pub fn status(&self, freshness: &Freshness) -> u16 {
        match self {
            Delivery::Whole => freshness.status,
            Delivery::NotModified => 304,
            Delivery::Part { .. } => 206,
            Delivery::Unsatisfiable => 416,
        }
    }

    /// Bytes of content that `Content-Length` announces, of a stored body of `body_length`; `None` where there is no such field. To HEAD nothing of
    /// it is sent.
    pub fn content_length(&self, freshness: &Freshness, body_length: u64) -> Option<u64> {
        match self {
            // RFC 9110 section 8.6: never with 204; with 304 only what a 200 would have had, which may as well be left out.
            Delivery::Whole if freshness.status == 204 => None,
            Delivery::Whole => Some(body_length),
            Delivery::NotModified => None,
            Delivery::Part { first, last } => Some(last - first + 1),
            Delivery::Unsatisfiable => Some(0),
        }
    }
}

/// Chooses what a request gets of a stored response with a body of `body_length` bytes.
#[inline]
pub fn choose<'a, 'b>(
    wanted: &CacheRequest,
    request: impl Lines<'a>,
    freshness: &Freshness,
    stored: impl Lines<'b>,
    body_length: u64,
) -> Delivery {
    // RFC 9111 section 4.3.2: stored 200s only.
    if freshness.status != 200 || !wanted.may_get_less() {
        return Delivery::Whole;
    }
    if wanted.is_conditional && precondition::is_not_modified(request, freshness, stored) {
        return Delivery::NotModified;
    }
    if wanted.has_range && wanted.class == Class::Get && precondition::range_applies(request, freshness, stored) {
        let mut values = request.values(Known::Range);
        if let (Some(value), None) = (values.next(), values.next()) {
            return match range::parse(value, body_length) {
                Ranged::Whole => Delivery::Whole,
                Ranged::Part { first, last } => Delivery::Part { first, last },
                Ranged::Unsatisfiable => Delivery::Unsatisfiable,
            };
        }
    }
    Delivery::Whole
}
