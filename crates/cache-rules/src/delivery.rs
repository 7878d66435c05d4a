//! How much of a stored response a request gets: preconditions, then ranges (RFC 9110 section 13.2.2).

use h1::Known;

use super::lines::Lines;
use super::range::{self, Ranged};
use super::request::{Asked, Class};
use super::{Terms, precondition};

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
    pub fn status(&self, terms: &Terms) -> u16 {
        match self {
            Delivery::Whole => terms.status,
            Delivery::NotModified => 304,
            Delivery::Part { .. } => 206,
            Delivery::Unsatisfiable => 416,
        }
    }

    /// Bytes of content that `Content-Length` announces, of a stored body of `body_length`; `None` where there is no such field. To HEAD nothing of
    /// it is sent.
    pub fn content_length(&self, terms: &Terms, body_length: u64) -> Option<u64> {
        match self {
            // RFC 9110 section 8.6: never with 204; with 304 only what a 200 would have had, which may as well be left out.
            Delivery::Whole if terms.status == 204 => None,
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
    asked: &Asked,
    request: impl Lines<'a>,
    terms: &Terms,
    stored: impl Lines<'b>,
    body_length: u64,
) -> Delivery {
    // RFC 9111 section 4.3.2: stored 200s only.
    if terms.status != 200 || !asked.may_get_less() {
        return Delivery::Whole;
    }
    if asked.is_conditional && precondition::is_not_modified(request, terms, stored) {
        return Delivery::NotModified;
    }
    if asked.has_range && asked.class == Class::Get && precondition::range_applies(request, terms, stored) {
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
