//! How a refusal looks: the limit's own status and body, or a problem document (RFC 9457).

use std::sync::Arc;

use h1::encode;

use super::worker::{WorkerLimit, WorkerLimits};
use super::{LimitCheck, Verdict};
use crate::config::MissingKey;
use crate::http::response::{self, Framing};

/// Problem type of draft-ietf-httpapi-ratelimit-headers.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// Media type of problem documents.
pub(super) const PROBLEM: &str = "application/problem+json";

/// What a limit responses instead of the route.
pub struct Refusal<'a> {
    limit: &'a WorkerLimit,
    /// `None` when it is about a key that is not there.
    check: Option<LimitCheck>,
}

impl<'a> Refusal<'a> {
    /// The refusal that a verdict is; `None` when it allows.
    pub fn of(verdict: Verdict, limits: &'a WorkerLimits) -> Option<Self> {
        let (index, check) = match verdict {
            Verdict::Allowed => return None,
            Verdict::Refused(check) => (check.limit, Some(check)),
            Verdict::MissingKey(index) => (index, None),
        };
        Some(Refusal { limit: limits.get(index)?, check })
    }

    /// Whether a quota is used up, not a key missing.
    pub fn is_exceeded(&self) -> bool {
        self.check.is_some()
    }

    fn status_and_body(&self) -> (u16, Option<&str>) {
        let spec = &self.limit.limit.spec;
        match (&self.check, &spec.missing_key) {
            (None, MissingKey::Refuse { status, body }) => (*status, body.as_deref()),
            (None, _) => (400, None),
            (Some(_), _) => (spec.refusal_status, spec.refusal_body.as_deref()),
        }
    }

    /// Seconds after which the same request would pass; `None` when it is about a key that is not there.
    pub fn retry_after(&self) -> Option<u64> {
        self.check.map(|check| check.decision.retry_after())
    }

    /// Name of the limit.
    pub fn limit_name(&self) -> &Arc<str> {
        &self.limit.limit.spec.name
    }

    /// Its status.
    pub fn status(&self) -> u16 {
        self.status_and_body().0
    }

    /// Whether the limit says what its body is.
    pub fn has_own_body(&self) -> bool {
        self.status_and_body().1.is_some()
    }

    /// Status of the refusal, for forms of their own. Its fields are appended to `lines`.
    pub fn begin(&self, lines: &mut Vec<u8>) -> u16 {
        if let Some(check) = &self.check {
            encode::number(lines, b"Retry-After", check.decision.retry_after());
            self.limit.texts.write_refusal(lines, &check.decision);
        }
        self.status_and_body().0
    }

    /// Appends the response and returns its status. `lines` are further fields, `body` is working memory.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        body: &mut Vec<u8>,
        lines: &mut Vec<u8>,
        request_id: &[u8],
        framing: Framing,
    ) -> u16 {
        let (status, own_body) = self.status_and_body();
        self.begin(lines);
        match (own_body, &self.check) {
            (Some(own), _) => response::write(out, status, "text/plain; charset=utf-8", lines, own.as_bytes(), framing),
            // What most refusals are: all but the id and the numbers is put together when the configuration is loaded.
            (None, Some(_)) => {
                let texts = &self.limit.texts;
                let body = [&texts.problem, request_id, END];
                response::write_behind(out, &texts.problem_head, lines, &body, framing);
            }
            (None, None) => {
                body.clear();
                begin_problem(body, status, &self.limit.limit.spec.name, false);
                body.extend_from_slice(request_id);
                body.extend_from_slice(END);
                response::write(out, status, PROBLEM, lines, body, framing);
            }
        }
        status
    }
}

/// Begins a problem document, up to the request id, about a limit that is exceeded, or lacks its key.
pub(super) fn begin_problem(body: &mut Vec<u8>, status: u16, limit: &str, is_exceeded: bool) {
    let (kind, title, error) = if is_exceeded {
        // Clients of the older gateway look for this `error`.
        (QUOTA_EXCEEDED, "Too many requests", "too_many_requests")
    } else {
        ("about:blank", "The request lacks the key that it is limited by", "missing_key")
    };
    for text in ["{\"type\":\"", kind, "\",\"title\":\"", title, "\",\"status\":"] {
        body.extend_from_slice(text.as_bytes());
    }
    encode::decimal(body, u64::from(status));
    for text in [",\"error\":\"", error, "\",\"violated-policies\":[\"", limit, "\"],\"request_id\":\""] {
        body.extend_from_slice(text.as_bytes());
    }
}

/// What follows the request id, which was checked when it came in.
const END: &[u8] = b"\"}\n";
