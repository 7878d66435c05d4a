//! What the gateway does about each fault.

use super::Fault;

/// Whether the same candidate gets the request again, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Not in this request.
    Never,
    /// Once, at once, on a new connection; free of the retry budget if the broken one was reused.
    NewConnection,
    /// Once, after the backoff.
    OnceAfterBackoff,
    /// After the time that the provider names, if the route waits that long.
    AfterHint,
}

/// What may take the attempt's place when it is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: what came is the response.
    Nothing,
    /// Another target of the provider, then the next candidate.
    Target,
    /// Another key of the provider, then the next candidate.
    Key,
    /// The next candidate.
    Candidate,
    /// Candidates with a larger context only.
    LargerContext,
    /// What `recover` says, as content has been sent.
    Recover,
}

/// What the fault is charged to: its health is what suffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// Nobody.
    Nobody,
    /// The provider's key.
    Key,
    /// The target.
    Target,
    /// The candidate.
    Candidate,
}

/// A row of the fault table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Whether the same candidate is tried again.
    pub repeat: Repeat,
    /// What may take its place.
    pub next: Next,
    /// What it is charged to.
    pub charge: Charge,
    /// The status when nothing helps; 0 passes what the provider said, or what has been sent.
    pub status: u16,
    /// The code of the error when nothing helps, or of the error event.
    pub code: &'static str,
    /// Whether the response may be stored in a cache.
    pub cacheable: bool,
}

const fn rule(repeat: Repeat, next: Next, charge: Charge, status: u16, code: &'static str) -> Rule {
    Rule { repeat, next, charge, status, code, cacheable: false }
}

const PASSES: Rule = rule(Repeat::Never, Next::Nothing, Charge::Nobody, 0, "");
const SERVER_ERROR: Rule = rule(Repeat::OnceAfterBackoff, Next::Candidate, Charge::Target, 502, "upstream_malformed");

impl Fault {
    /// The row of the table.
    pub fn rule(self) -> Rule {
        use {Charge as C, Next as N, Repeat as R};
        match self.0 {
            1 => rule(R::Never, N::Target, C::Target, 502, "upstream_unreachable"),
            2 => rule(R::AfterHint, N::Key, C::Key, 429, "rate_limit_exceeded"),
            3 => rule(R::OnceAfterBackoff, N::Key, C::Key, 429, "rate_limit_exceeded"),
            4 => rule(R::Never, N::Key, C::Key, 429, "insufficient_quota"),
            5 => rule(R::OnceAfterBackoff, N::Candidate, C::Target, 0, "upstream_error"),
            6 => rule(R::AfterHint, N::Candidate, C::Target, 503, "upstream_overloaded"),
            7 => rule(R::NewConnection, N::Target, C::Target, 502, "upstream_reset"),
            8 | 9 => rule(R::Never, N::Candidate, C::Candidate, 504, "upstream_timeout"),
            10 => rule(R::Never, N::Recover, C::Target, 0, "upstream_cut"),
            11 => rule(R::Never, N::Recover, C::Target, 0, "upstream_stalled"),
            12 => rule(R::Never, N::LargerContext, C::Nobody, 0, "context_length_exceeded"),
            14 => rule(R::Never, N::Key, C::Key, 502, "upstream_auth"),
            17..=21 => SERVER_ERROR,
            22 => rule(R::Never, N::Recover, C::Target, 0, "upstream_error"),
            23 => rule(R::Never, N::Recover, C::Target, 0, "upstream_cut"),
            24 | 25 => Rule { cacheable: true, ..PASSES },
            27 => Rule { cacheable: true, ..PASSES },
            28 => rule(R::Never, N::Recover, C::Target, 0, "upstream_malformed"),
            34 => rule(R::Never, N::Nothing, C::Target, 502, "upstream_malformed"),
            _ => PASSES,
        }
    }
}
