//! The step of the pipeline that checks a request against the limits of its route.

use std::borrow::Cow;

use auth::Identity;
use h1::RequestHead;

use super::fields;
use super::key::{KeyBytes, query_parameter};
use super::memory::{Memory, Receipt};
use super::remote::Held;
use super::worker::{Charged, RouteLimits, WorkerLimit, WorkerLimits};
use super::{Decision, Key, LimitCheck, Now, StoreFailed};
use crate::config::ClientAddress;
use crate::config::{LimitCost, LimitKey, MissingKey};
use crate::error::{Error, Reason};
use crate::runtime::clock;

/// What limits look at.
pub struct LimitInput<'a> {
    /// The request's head.
    pub head: &'a RequestHead,
    /// What it was parsed from.
    pub buf: &'a [u8],
    /// Who sent it.
    pub client: ClientAddress,
    /// Whether the peer may say what a request costs.
    pub peer_is_trusted: bool,
    /// Name of the route.
    pub route: &'a str,
    /// Who sends it, once that is known.
    pub identity: Option<&'a Identity>,
    /// Name of the AI model that it calls, once that is known.
    pub model: Option<&'a str>,
}

/// Which limits of a route are checked. All of a request together are one decision: a later stage that refuses takes back what an earlier
/// one charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// All of them: the route has no authentication.
    All,
    /// Before authentication, which they protect: those in memory that do not count by identity.
    Early,
    /// After authentication: the rest, those in a shared store in one call.
    Late,
    /// Authentication failed: those in a shared store that do not count by identity, so that failed attempts count.
    Refused,
}

/// Working memory of the step, reused from request to request.
#[derive(Default)]
pub struct Work {
    key: KeyBytes,
    /// The checks of this request, in the order of the route's limits.
    pub(super) checks: Vec<LimitCheck>,
    /// How many of them are of limits in memory; they come first.
    local: usize,
    /// How each of those was charged.
    charged: Vec<Charged>,
    /// Places that the request takes up among those in flight, until it is over.
    held: Vec<Permit>,
    /// The first limit that is not enforced and would have refused the request.
    would_refuse: Option<usize>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every limit allows it and has charged it.
    Allowed,
    /// This limit refuses it; none has charged it.
    Refused(LimitCheck),
    /// This limit wants a key that the request does not have; none has charged it.
    MissingKey(usize),
}

/// A place among the requests in flight of one key; free again when this is dropped.
pub struct Permit {
    _place: CountedIn,
}

/// Where it is counted.
enum CountedIn {
    Memory { _it: InMemory },
    Redis { _it: Held },
}

struct InMemory {
    memory: Memory,
    key: Key,
    cost: u64,
    receipt: Receipt,
}

impl Permit {
    pub(super) fn new(memory: Memory, key: Key, cost: u64, receipt: Receipt) -> Self {
        Permit { _place: CountedIn::Memory { _it: InMemory { memory, key, cost, receipt } } }
    }

    /// Counted in Redis.
    pub(super) fn shared(held: Held) -> Self {
        Permit { _place: CountedIn::Redis { _it: held } }
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        self.memory.refund(self.key, self.cost, self.receipt, Now::default());
    }
}

impl Work {
    /// Appends what a client is told of the limits that allowed its request.
    #[inline]
    pub fn write_fields(&self, out: &mut Vec<u8>, limits: &WorkerLimits, route: &RouteLimits) {
        fields::write_allowed(out, limits, route, &self.checks);
    }

    /// The limit of requests that is nearest to its end, of those that show themselves.
    pub fn tightest(&self, limits: &WorkerLimits) -> Option<Decision> {
        let shown = self.checks.iter().filter(|check| {
            let headers =
                limits.get(check.limit).filter(|limit| limit.limit.spec.enforce).map(|limit| limit.limit.spec.headers);
            check.decision.is_counted() && headers.is_some_and(|shown| shown.ietf || shown.legacy)
        });
        shown.map(|check| check.decision).min_by_key(|decision| decision.remaining)
    }

    /// Index of the limit that is not enforced and would have refused the request.
    pub fn would_refuse(&self) -> Option<usize> {
        self.would_refuse
    }

    /// The exchange is over.
    #[inline]
    pub fn release(&mut self) {
        self.would_refuse = None;
        self.held.clear();
    }
}

/// Checks and charges the limits of a route, all of them or none.
///
/// # Errors
/// When a limit cannot be checked and says that the request must not pass then.
pub async fn check(
    work: &mut Work,
    limits: &WorkerLimits,
    route: &RouteLimits,
    stage: Stage,
    input: &LimitInput<'_>,
) -> Result<Verdict, Error> {
    let mut verdict = check_local(work, limits, route, stage, input);
    if stage == Stage::Early && verdict == Verdict::Allowed {
        return Ok(verdict);
    }
    if verdict == Verdict::Allowed && work.local < work.checks.len() {
        verdict = check_remote(work, limits).await?;
    }
    count(work, limits, verdict, input);
    Ok(verdict)
}

/// Checks the limits in a shared store, once those in memory allow.
async fn check_remote(work: &mut Work, limits: &WorkerLimits) -> Result<Verdict, Error> {
    let checks = &mut work.checks[work.local..];
    let result = match &limits.remote {
        Some(store) => store.check(limits, checks, &mut work.held).await,
        // The configuration was checked: there is a Redis where a limit names it.
        None => Err(StoreFailed),
    };
    let refused = checks.iter().find(|check| !check.decision.allowed && limits.enforces(check.limit)).copied();
    let verdict = match (result, refused) {
        (Ok(()), None) => return Ok(Verdict::Allowed),
        (Ok(()), Some(check)) => Ok(Verdict::Refused(check)),
        (Err(StoreFailed), _) => Err(Reason::LimitStore.into()),
    };
    undo(work, limits);
    verdict
}

/// Checks the limits in memory.
fn check_local(
    work: &mut Work,
    limits: &WorkerLimits,
    route: &RouteLimits,
    stage: Stage,
    input: &LimitInput<'_>,
) -> Verdict {
    // The time of the event loop: it has not come any further with this request.
    let now = limits.shared.at(clock::loop_ns());
    if matches!(stage, Stage::All | Stage::Early) {
        work.checks.clear();
        work.charged.clear();
        work.local = 0;
    }
    let places = route.of_stage(stage);
    for (place, &index) in (places.start..).zip(&route.order[places]) {
        let Some(limit) = limits.get(index) else { continue };
        let spec = &limit.limit.spec;
        if stage == Stage::Refused && spec.needs_identity() {
            continue;
        }
        if route.has_tiers && !spec.tiers.include(input.identity.and_then(|who| who.tier.as_deref())) {
            continue;
        }
        match write_key(&mut work.key, &spec.key, &spec.missing_key, input) {
            Keyed::Whole => {}
            Keyed::Skip => continue,
            Keyed::Refuse if !spec.enforce => {
                limit.metrics.would_refuse();
                work.would_refuse.get_or_insert(index);
                continue;
            }
            Keyed::Refuse => {
                undo(work, limits);
                return Verdict::MissingKey(index);
            }
        }
        let key = limits.shared.key(&limit.limit, &work.key);
        work.checks.push(LimitCheck { limit: index, key, cost: cost(limit, input), decision: Decision::default() });
        if place < route.local {
            work.local += 1;
        }
    }
    charge_all(work, limits, now)
}

/// Charges the limits in memory.
fn charge_all(work: &mut Work, limits: &WorkerLimits, now: Now) -> Verdict {
    // Most refusals are seen here, before anything is written.
    let done = work.charged.len();
    if work.checks.len() > 1 {
        for at in done..work.local {
            let check = &mut work.checks[at];
            let Some(limit) = limits.get(check.limit) else { continue };
            check.decision = limit.peek(check.key, check.cost, now);
            if !check.decision.allowed && limit.limit.spec.enforce {
                let refused = Verdict::Refused(*check);
                undo(work, limits);
                return refused;
            }
        }
    }
    for check in &mut work.checks[done..work.local] {
        let Some(limit) = limits.get(check.limit) else { continue };
        let (decision, how) = limit.charge(check.key, check.cost, now, &mut work.held);
        check.decision = decision;
        if !decision.allowed && limit.limit.spec.enforce {
            let refused = Verdict::Refused(*check);
            undo(work, limits);
            return refused;
        }
        work.charged.push(if decision.allowed { how } else { Charged::Nothing });
    }
    Verdict::Allowed
}

/// A later limit refused what earlier ones have charged: they get it back.
#[cold]
fn undo(work: &mut Work, limits: &WorkerLimits) {
    // Mostly the first one refuses, and there is nothing to give back.
    if work.charged.is_empty() {
        work.held.clear();
        return;
    }
    let now = limits.shared.now();
    for (check, how) in work.checks.iter().zip(work.charged.drain(..)) {
        if let Some(limit) = limits.get(check.limit) {
            limit.undo(check.key, check.cost, how, now);
        }
    }
    work.held.clear();
}

fn count(work: &mut Work, limits: &WorkerLimits, verdict: Verdict, input: &LimitInput<'_>) {
    match verdict {
        Verdict::Allowed => {
            for check in &work.checks {
                let Some(limit) = limits.get(check.limit) else { continue };
                if check.decision.allowed {
                    limit.metrics.allowed();
                } else {
                    limit.metrics.would_refuse();
                    work.would_refuse.get_or_insert(check.limit);
                }
            }
        }
        Verdict::Refused(LimitCheck { limit, key, .. }) => {
            if let Some(limit) = limits.get(limit) {
                limit.metrics.dropped();
                let spec = &limit.limit.spec;
                limits.note_refused(&spec.name, key, &spec.key, input);
            }
        }
        Verdict::MissingKey(limit) => {
            if let Some(limit) = limits.get(limit) {
                limit.metrics.dropped();
            }
        }
    }
}

/// What to do about a request's key.
pub(super) enum Keyed {
    Whole,
    Skip,
    Refuse,
}

/// Puts the parts of the key together.
#[inline]
pub(super) fn write_key(
    bytes: &mut KeyBytes,
    parts: &[LimitKey],
    missing_key: &MissingKey,
    input: &LimitInput<'_>,
) -> Keyed {
    bytes.clear();
    for part in parts {
        let is_there = match part {
            LimitKey::ClientIp => {
                bytes.address(input.client);
                true
            }
            LimitKey::Header(name) => match only_field(input, name.as_bytes()) {
                Some(value) => {
                    bytes.value(value);
                    true
                }
                None => false,
            },
            LimitKey::Query(name) => {
                let query = input.head.query.map_or(&b""[..], |query| query.of_buf(input.buf));
                match query_parameter(query, name.as_bytes()) {
                    Some(value) => {
                        bytes.query_value(value);
                        true
                    }
                    None => false,
                }
            }
            LimitKey::Consumer
            | LimitKey::VirtualKey
            | LimitKey::Team
            | LimitKey::Tier
            | LimitKey::Claim(_)
            | LimitKey::Meta(_) => input.identity.is_some_and(|who| write_identity(bytes, part, who)),
            LimitKey::Model => match input.model {
                Some(model) => {
                    bytes.value(model.as_bytes());
                    true
                }
                None => false,
            },
            LimitKey::Route => {
                bytes.value(input.route.as_bytes());
                true
            }
            LimitKey::Global => true,
        };
        if !is_there {
            match missing_key {
                MissingKey::Shared => bytes.missing(),
                MissingKey::Skip => return Keyed::Skip,
                MissingKey::Refuse { .. } => return Keyed::Refuse,
            }
        }
    }
    Keyed::Whole
}

/// A part of the identity; `false` when the sender has none.
fn write_identity(bytes: &mut KeyBytes, part: &LimitKey, who: &Identity) -> bool {
    let Some(value) = identity_value(part, who) else { return false };
    bytes.value(value.as_bytes());
    true
}

/// A part of the identity, if the sender has it.
pub fn identity_value<'w>(part: &LimitKey, who: &'w Identity) -> Option<Cow<'w, str>> {
    let value = match part {
        LimitKey::Consumer => who.consumer.as_deref().map(Cow::Borrowed),
        LimitKey::VirtualKey => who.key_id.as_deref().map(Cow::Borrowed),
        LimitKey::Team => who.meta.get("team").map(|value| Cow::Borrowed(&**value)),
        LimitKey::Tier => who.tier.as_deref().map(Cow::Borrowed),
        LimitKey::Meta(name) => who.meta.get(&**name).map(|value| Cow::Borrowed(&**value)),
        LimitKey::Claim(path) => who.claim_text(path).map(Cow::Owned),
        _ => None,
    };
    value.filter(|value| !value.is_empty())
}

/// The one value of a field that is not empty. A field that comes twice is as good as none: which of them the upstream reads is not
/// known, and whoever could choose would be counted anew with each request.
fn only_field<'a>(input: &LimitInput<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let mut values = input.head.fields.iter().filter(|field| field.name.of_buf(input.buf).eq_ignore_ascii_case(name));
    let value = values.next()?.value.of_buf(input.buf);
    (values.next().is_none() && !value.is_empty()).then_some(value)
}

/// What the request takes. Only a trusted peer may say; what it says wrong is 1.
#[inline]
fn cost(limit: &WorkerLimit, input: &LimitInput<'_>) -> u64 {
    match &limit.limit.spec.cost {
        LimitCost::Fixed(cost) => *cost,
        LimitCost::Header(_) if !input.peer_is_trusted => 1,
        LimitCost::Header(name) => {
            let text = only_field(input, name.as_bytes()).and_then(|value| std::str::from_utf8(value).ok());
            text.and_then(count_of).unwrap_or(1).max(1)
        }
    }
}

/// A number of digits and nothing else; one that is too large for any limit stays too large.
fn count_of(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
