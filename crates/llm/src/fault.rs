//! Faults F1 to F35: what went wrong with an attempt, and what the gateway does about it.
//!
//! A response is classified by its status, its headers and what its body says ([`of_response`]), a stream by how it ended ([`of_stream`]).
//! Texts that providers use are in `patterns.txt`, with an example each that is also its test. [`Fault::rule`] holds the table of actions.

mod pattern;
mod rule;

pub use rule::{Charge, Next, Repeat, Rule};

use crate::response::{EndReason, Facts, UpstreamError};
use crate::stream::{Failure, Outcome};
use std::time::Duration;

/// A row of the fault table. F29 to F35 are properties of the gateway, not of an attempt; they have no rule but a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fault(u8);

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl Fault {
            $($(#[$doc])* pub const $name: Fault = Fault($number);)*
        }
    };
}

faults! {
    /// Connecting failed: refused, DNS, TLS, timeout.
    UNREACHABLE = 1;
    /// 429 with a time.
    RATE_LIMITED_UNTIL = 2;
    /// 429 without a time.
    RATE_LIMITED = 3;
    /// The key's quota or money is used up.
    QUOTA = 4;
    /// 500, 502, 504.
    SERVER_ERROR = 5;
    /// 503, 529.
    OVERLOADED = 6;
    /// The connection was reset before the head.
    RESET = 7;
    /// No head within the timeout of the first token.
    SILENT = 8;
    /// A head, and no content within the timeout of the first token.
    NO_CONTENT_IN_TIME = 9;
    /// The stream was cut after content.
    CUT = 10;
    /// The stream stalled after content.
    STALLED = 11;
    /// The prompt is too long for the model.
    CONTEXT_LENGTH = 12;
    /// The provider refuses the content.
    CONTENT_FILTER = 13;
    /// The provider refuses the key, or does not know the model.
    UNAUTHORIZED = 14;
    /// An end reason that nobody knows.
    UNKNOWN_END_REASON = 15;
    /// Another error of the request: 400, 422.
    BAD_REQUEST = 16;
    /// 200 with a body that is not JSON.
    MALFORMED_BODY = 17;
    /// 200 without content and without an end reason.
    EMPTY = 18;
    /// A body shorter than its length.
    TRUNCATED = 19;
    /// A malformed event in a stream.
    MALFORMED_EVENT = 20;
    /// An error event before content, or an error in a 200.
    ERROR_BEFORE_CONTENT = 21;
    /// An error event after content.
    ERROR_AFTER_CONTENT = 22;
    /// A tool call was cut.
    TOOL_CALL_CUT = 23;
    /// Complete, without its last event.
    NO_LAST_EVENT = 24;
    /// Events behind the last one.
    EVENTS_AFTER_END = 25;
    /// The end reason is the length.
    LENGTH = 26;
    /// No usage was reported.
    NO_USAGE = 27;
    /// An event is too large.
    EVENT_TOO_LARGE = 28;
    /// The client has disconnected.
    CLIENT_DISCONNECTED = 30;
    /// A redirect, or a coding that was not requested.
    UNEXPECTED_FORM = 34;
}

impl Fault {
    /// All of the table.
    pub fn all() -> impl Iterator<Item = Fault> {
        (1..=35).map(Fault)
    }

    /// 1 to 35.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "F{}", self.0)
    }
}

/// What a response says before its body is read.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// HTTP status.
    pub status: u16,
    /// What `Retry-After` or `retry-after-ms` says, from [`retry_hint`].
    pub retry_after: Option<Duration>,
}

/// The fault of a whole response; `None` if there is none that a gateway acts on.
///
/// `truncated`: the body is shorter than its framing says.
pub fn of_response(head: Head, facts: &Facts, truncated: bool) -> Option<Fault> {
    match head.status {
        200..=299 if truncated => Some(Fault::TRUNCATED),
        200..=299 => match &facts.error {
            Some(error) => Some(of_error(error, None, head.retry_after)),
            None if facts.malformed || !facts.json => Some(Fault::MALFORMED_BODY),
            None if !facts.content && facts.end_reason.is_none() => Some(Fault::EMPTY),
            None => None,
        },
        300..=399 => Some(Fault::UNEXPECTED_FORM),
        status => {
            let none = UpstreamError::default();
            Some(of_error(facts.error.as_ref().unwrap_or(&none), Some(status), head.retry_after))
        }
    }
}

/// The fault that an error report stands for. `status`: of the response; `None` for one within a 200, whose own code decides.
pub fn of_error(error: &UpstreamError, status: Option<u16>, retry_after: Option<Duration>) -> Fault {
    let status = status.unwrap_or_else(|| status_of(error));
    if let Some(fault) = pattern::find(status, error) {
        return fault;
    }
    match status {
        402 => Fault::QUOTA,
        413 => Fault::CONTEXT_LENGTH,
        401 | 403 | 404 => Fault::UNAUTHORIZED,
        429 if retry_after.is_some() => Fault::RATE_LIMITED_UNTIL,
        429 => Fault::RATE_LIMITED,
        503 | 529 => Fault::OVERLOADED,
        400..=499 => Fault::BAD_REQUEST,
        _ => Fault::SERVER_ERROR,
    }
}

/// The status that an error within a 200 would have had.
pub fn status_of(error: &UpstreamError) -> u16 {
    if let Ok(status @ 400..=599) = error.code.parse() {
        return status;
    }
    [error.code.as_str(), error.kind.as_str()].into_iter().find_map(named_status).unwrap_or(500)
}

fn named_status(name: &str) -> Option<u16> {
    Some(match name {
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "RESOURCE_EXHAUSTED"
        | "insufficient_quota"
        | "tokens"
        | "requests" => 429,
        "overloaded_error" => 529,
        "UNAVAILABLE" | "overloaded" | "engine_overloaded" | "slow_down" => 503,
        "timeout_error" | "DEADLINE_EXCEEDED" => 504,
        "authentication_error" | "UNAUTHENTICATED" | "invalid_api_key" => 401,
        "billing_error" => 402,
        "permission_error" | "PERMISSION_DENIED" => 403,
        "not_found_error" | "NOT_FOUND" | "model_not_found" => 404,
        "request_too_large" => 413,
        "invalid_request_error"
        | "INVALID_ARGUMENT"
        | "BadRequestError"
        | "context_length_exceeded"
        | "content_filter"
        | "content_policy_violation"
        | "invalid_prompt" => 400,
        "api_error" | "server_error" | "INTERNAL" | "InternalServerError" => 500,
        _ => return None,
    })
}

/// The fault of a stream that ended; `None` if it is complete and nothing is missing.
pub fn of_stream(outcome: &Outcome, in_tool_call: bool, dropped_bytes: u64) -> Option<Fault> {
    match outcome {
        Outcome::Complete { missing } if !missing.is_empty() => Some(Fault::NO_LAST_EVENT),
        Outcome::Complete { .. } => (dropped_bytes > 0).then_some(Fault::EVENTS_AFTER_END),
        Outcome::Uncommitted(failure) => Some(match failure {
            Failure::Cut => Fault::EMPTY,
            Failure::Stalled => Fault::NO_CONTENT_IN_TIME,
            Failure::Malformed => Fault::MALFORMED_EVENT,
            Failure::Error(error) => of_error(error, None, None),
        }),
        Outcome::Failed(failure) => Some(match failure {
            Failure::Cut | Failure::Stalled if in_tool_call => Fault::TOOL_CALL_CUT,
            Failure::Cut => Fault::CUT,
            Failure::Stalled => Fault::STALLED,
            Failure::Malformed => Fault::MALFORMED_EVENT,
            Failure::Error(_) => Fault::ERROR_AFTER_CONTENT,
        }),
    }
}

/// What is counted about a complete response that passes: none of these is repeated.
pub fn notes(facts_end: Option<EndReason>, has_usage: bool) -> impl Iterator<Item = Fault> {
    let end = match facts_end {
        Some(EndReason::ContentFilter) => Some(Fault::CONTENT_FILTER),
        Some(EndReason::Length) => Some(Fault::LENGTH),
        Some(EndReason::Unknown) => Some(Fault::UNKNOWN_END_REASON),
        _ => None,
    };
    end.into_iter().chain((!has_usage).then_some(Fault::NO_USAGE))
}

/// The time of `retry-after-ms`, else of `Retry-After` in seconds. A date is for the caller, who has a clock.
pub fn retry_hint(retry_after_ms: Option<&[u8]>, retry_after: Option<&[u8]>) -> Option<Duration> {
    let number = |value: &[u8]| {
        let value: f64 = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
        (0.0..1e9).contains(&value).then_some(value)
    };
    let ms = retry_after_ms.and_then(number).map(|ms| ms / 1000.0);
    ms.or_else(|| retry_after.and_then(number)).map(Duration::from_secs_f64)
}

#[cfg(test)]
mod tests;
