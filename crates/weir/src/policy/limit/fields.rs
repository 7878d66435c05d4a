//! What clients are told: `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers, structured fields of RFC 9651), the
//! older trio of `RateLimit-Limit`, `-Remaining` and `-Reset`, and `RateLimit-Scope`.

use h1::encode;

use super::refusal::{PROBLEM, begin_problem};
use super::worker::{RouteLimits, WorkerLimits};
use super::{Algorithm, Decision, Limit, LimitCheck};
use crate::config::LimitHeaders;

/// Parts of fields that are the same for every request.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// `"client";q=40;w=2`; empty when the limit does not show itself.
    policy: Vec<u8>,
    /// `"client";r=`.
    name: Vec<u8>,
    /// `RateLimit-Policy` of a refusal, which is only about this limit, and `RateLimit` up to what is left; empty when the limit does not show itself.
    refusal: Vec<u8>,
    /// Whether the older trio is written.
    legacy: bool,
    /// `RateLimit-Scope: client`, a whole line; empty when it is not written.
    scope: Vec<u8>,
    /// Status line and `Content-Type` of a refusal with a problem document.
    pub(super) problem_head: Vec<u8>,
    /// The problem document up to the request id.
    pub(super) problem: Vec<u8>,
}

impl Texts {
    pub(super) fn new(limit: &Limit) -> Self {
        // Of a limit that refuses nothing, clients learn nothing.
        let shown = if limit.spec.enforce { limit.spec.headers } else { LimitHeaders::default() };
        let mut texts = Texts { legacy: shown.legacy, ..Texts::default() };
        if shown.ietf {
            // Names are made of letters, digits, `-`, `_` and `.`: nothing to escape.
            let quoted = format!("\"{}\"", limit.spec.name);
            let mut policy = format!("{quoted};q={}", limit.algorithm.limit());
            if let Algorithm::Concurrency(_) = limit.algorithm {
                policy.push_str(";qu=\"concurrent-requests\"");
            }
            if let Some(window) = limit.algorithm.window_ns() {
                policy.push_str(&format!(";w={}", whole_seconds(window).max(1)));
            }
            texts.policy = policy.into_bytes();
            texts.name = format!("{quoted};r=").into_bytes();
            encode::field(&mut texts.refusal, b"RateLimit-Policy", &texts.policy);
            texts.refusal.extend_from_slice(b"RateLimit: ");
            texts.refusal.extend_from_slice(&texts.name);
        }
        if shown.scope {
            encode::field(&mut texts.scope, b"RateLimit-Scope", limit.spec.name.as_bytes());
        }
        let status = limit.spec.refusal_status;
        encode::status_line(&mut texts.problem_head, status, encode::reason(status).as_bytes());
        encode::field(&mut texts.problem_head, b"Content-Type", PROBLEM.as_bytes());
        begin_problem(&mut texts.problem, status, &limit.spec.name, true);
        texts
    }

    /// `RateLimit-Policy` of several limits.
    pub(super) fn policy_line<'a>(all: impl Iterator<Item = &'a Texts>) -> Vec<u8> {
        let shown: Vec<&[u8]> = all.map(|texts| &*texts.policy).filter(|policy| !policy.is_empty()).collect();
        let mut line = Vec::new();
        if !shown.is_empty() {
            encode::field(&mut line, b"RateLimit-Policy", &shown.join(&b", "[..]));
        }
        line
    }

    /// Appends the fields of a refusal by this limit: no other matters to the client now.
    pub(super) fn write_refusal(&self, out: &mut Vec<u8>, decision: &Decision) {
        if !self.refusal.is_empty() {
            out.extend_from_slice(&self.refusal);
            write_left(out, decision);
            encode::end_field(out);
        }
        if self.legacy {
            write_legacy(out, decision);
        }
        out.extend_from_slice(&self.scope);
    }

    fn write_item(&self, out: &mut Vec<u8>, decision: &Decision) {
        out.extend_from_slice(&self.name);
        write_left(out, decision);
    }
}

/// What is left, and when there is more.
pub(super) fn write_left(out: &mut Vec<u8>, decision: &Decision) {
    encode::decimal(out, decision.remaining);
    if let Some(seconds) = until_more(decision) {
        out.extend_from_slice(b";t=");
        encode::decimal(out, seconds);
    }
}

/// Appends the fields of a response to a request that every limit allowed.
#[inline]
pub(super) fn write_allowed(out: &mut Vec<u8>, limits: &WorkerLimits, route: &RouteLimits, checks: &[LimitCheck]) {
    let shown = || {
        let counted = checks.iter().filter(|check| check.decision.is_counted());
        counted.filter_map(|check| Some((&limits.get(check.limit)?.texts, &check.decision)))
    };
    if !route.policy.is_empty() {
        if route.has_tiers {
            write_policy(out, limits, checks);
        } else {
            out.extend_from_slice(&route.policy);
        }
        let mut first = true;
        for (texts, decision) in shown().filter(|(texts, _)| !texts.name.is_empty()) {
            out.extend_from_slice(if first { b"RateLimit: " } else { b", " });
            first = false;
            texts.write_item(out, decision);
        }
        if !first {
            encode::end_field(out);
        }
    }
    // The trio has room for one limit: the one that is nearest to its end.
    if let Some((_, decision)) =
        shown().filter(|(texts, _)| texts.legacy).min_by_key(|(_, decision)| decision.remaining)
    {
        write_legacy(out, decision);
    }
}

/// `RateLimit-Policy` of the limits that hold for this sender.
fn write_policy(out: &mut Vec<u8>, limits: &WorkerLimits, checks: &[LimitCheck]) {
    let policies = checks.iter().filter_map(|check| Some(&limits.get(check.limit)?.texts.policy));
    let mut begun = false;
    for policy in policies.filter(|policy| !policy.is_empty()) {
        out.extend_from_slice(if begun { b", " } else { b"RateLimit-Policy: " });
        begun = true;
        out.extend_from_slice(policy);
    }
    if begun {
        encode::end_field(out);
    }
}

pub(super) fn write_legacy(out: &mut Vec<u8>, decision: &Decision) {
    encode::number(out, b"RateLimit-Limit", decision.limit);
    encode::number(out, b"RateLimit-Remaining", decision.remaining);
    if let Some(seconds) = until_more(decision) {
        encode::number(out, b"RateLimit-Reset", seconds);
    }
}

/// Seconds until there is more, or until a refused request would pass: the draft wants `Retry-After` to be no earlier than that.
#[inline]
pub(super) fn until_more(decision: &Decision) -> Option<u64> {
    match decision {
        Decision { allowed: false, .. } => Some(decision.retry_after()),
        Decision { reset_ns: 0, .. } => None,
        Decision { reset_ns, .. } => Some(whole_seconds(*reset_ns)),
    }
}

/// Rounded up.
#[inline]
fn whole_seconds(ns: u64) -> u64 {
    ns.div_ceil(1_000_000_000)
}

#[cfg(test)]
mod tests;
