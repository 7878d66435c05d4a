//! How a refusal looks: the limit's own status and body, or a problem document (RFC 9457).

use h1::encode;

use super::worker::{WorkerLimit, WorkerLimits};
use super::{Ask, Verdict};
use crate::config::MissingKey;
use crate::exchange::reply::{self, Framing};

/// Problem type of draft-ietf-httpapi-ratelimit-headers.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// What a limit responses instead of the route.
pub struct Refusal<'a> {
    limit: &'a WorkerLimit,
    /// `None` when it is about a key that is not there.
    ask: Option<Ask>,
}

impl<'a> Refusal<'a> {
    /// The refusal that a verdict is; `None` when it allows.
    pub fn of(verdict: Verdict, limits: &'a WorkerLimits) -> Option<Self> {
        let (index, ask) = match verdict {
            Verdict::Allowed => return None,
            Verdict::Refused(ask) => (ask.limit, Some(ask)),
            Verdict::MissingKey(index) => (index, None),
        };
        Some(Refusal { limit: limits.get(index)?, ask })
    }

    /// Whether a quota is used up, not a key missing.
    pub fn is_exceeded(&self) -> bool {
        self.ask.is_some()
    }

    fn status_and_body(&self) -> (u16, Option<&str>) {
        let spec = &self.limit.limit.spec;
        match (&self.ask, &spec.missing_key) {
            (None, MissingKey::Refuse { status, body }) => (*status, body.as_deref()),
            (None, _) => (400, None),
            (Some(_), _) => (spec.refusal_status, spec.refusal_body.as_deref()),
        }
    }

    /// Seconds after which the same request would pass; `None` when it is about a key that is not there.
    pub fn retry_after(&self) -> Option<u64> {
        self.ask.map(|ask| ask.decision.retry_after())
    }

    /// Name of the limit.
    pub fn limit_name(&self) -> &str {
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
        if let Some(ask) = &self.ask {
            lines.extend_from_slice(b"Retry-After: ");
            encode::decimal(lines, ask.decision.retry_after());
            lines.extend_from_slice(b"\r\n");
            self.limit.texts.write_refusal(lines, &ask.decision);
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
        match own_body {
            Some(own) => reply::write(out, status, "text/plain; charset=utf-8", lines, own.as_bytes(), framing),
            None => {
                body.clear();
                self.write_problem(body, status, request_id);
                reply::write(out, status, "application/problem+json", lines, body, framing);
            }
        }
        status
    }

    fn write_problem(&self, body: &mut Vec<u8>, status: u16, request_id: &[u8]) {
        let (kind, title, error) = match self.ask {
            // Clients of the older gateway look for this `error`.
            Some(_) => (QUOTA_EXCEEDED, "Too many requests", "too_many_requests"),
            None => ("about:blank", "The request lacks the key that it is limited by", "missing_key"),
        };
        for text in ["{\"type\":\"", kind, "\",\"title\":\"", title, "\",\"status\":"] {
            body.extend_from_slice(text.as_bytes());
        }
        encode::decimal(body, u64::from(status));
        for text in [
            ",\"error\":\"",
            error,
            "\",\"violated-policies\":[\"",
            &self.limit.limit.spec.name,
            "\"],\"request_id\":\"",
        ] {
            body.extend_from_slice(text.as_bytes());
        }
        // Ids are checked when they come in.
        body.extend_from_slice(request_id);
        body.extend_from_slice(b"\"}\n");
    }
}
