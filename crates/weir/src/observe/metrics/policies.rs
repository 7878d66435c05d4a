//! What policies and Redis count, each in the cells of its own worker.

use std::sync::Arc;
use std::time::Duration;

use super::cells::{AuthCells, CacheCells, ContractCells, FaultCells, LimitCells, MirrorCells, RedisCells};
use super::{OneThread, histogram};

/// Outcomes of authentication, as metrics name them.
pub(super) const OUTCOMES: [&str; 11] = [
    "ok",
    "missing",
    "malformed",
    "invalid",
    "expired",
    "revoked",
    "forbidden",
    "unavailable",
    "too_many_failures",
    "denied",
    FAILED_OPEN,
];

/// An authorizer gave no response, and requests pass then.
const FAILED_OPEN: &str = "failed_open";

/// Counts of one authenticator in one worker.
pub struct AuthMetrics {
    pub(super) cells: Arc<AuthCells>,
    pub(super) one_thread: OneThread,
}

impl AuthMetrics {
    /// A request was authenticated, or refused for this reason.
    pub fn counted(&self, refusal: Option<&auth::Refusal>) {
        self.outcome(refusal.map_or("ok", auth::Refusal::name));
    }

    /// The authorizer gave no response, and the request passes.
    pub fn failed_open(&self) {
        self.outcome(FAILED_OPEN);
    }

    /// An authorizer took so many nanoseconds.
    pub fn authorizer_took(&self, ns: u64) {
        self.cells.duration.observe(&histogram::OVERHEAD, ns);
    }

    /// Whether a verdict was stored.
    pub fn verified(&self, is_hit: bool) {
        if is_hit { self.cells.hits.add(1) } else { self.cells.misses.add(1) }
    }

    fn outcome(&self, outcome: &str) {
        if let Some(index) = OUTCOMES.iter().position(|one| *one == outcome) {
            self.cells.outcomes[index].add(1);
        }
    }
}

/// Between the name of an API and that of an operation, which hold no control characters.
pub(super) const BETWEEN: char = '\0';

/// Counts of one operation of a description in one worker.
pub struct ContractMetrics {
    pub(super) cells: Arc<ContractCells>,
    pub(super) one_thread: OneThread,
}

impl ContractMetrics {
    /// A request broke this rule.
    pub fn violated(&self, rule: &str) {
        if let Some(index) = openapi::RULES.iter().position(|one| *one == rule) {
            self.cells.violations[index].add(1);
        }
    }
}

/// Counts of the copies of a route's requests in one worker.
pub struct MirrorMetrics {
    pub(super) cells: Arc<MirrorCells>,
    pub(super) one_thread: OneThread,
}

impl MirrorMetrics {
    /// A copy was sent, and a response came.
    pub fn sent(&self) {
        self.cells.sent.add(1);
    }

    /// No complete response came.
    pub fn failed(&self) {
        self.cells.failed.add(1);
    }

    /// A request was not copied: too many were in flight, or its body was too large or not read to its end.
    pub fn skipped(&self) {
        self.cells.skipped.add(1);
    }
}

/// Counts of the faults that a route injects in one worker.
pub struct FaultMetrics {
    pub(super) cells: Arc<FaultCells>,
    pub(super) one_thread: OneThread,
}

impl FaultMetrics {
    /// A request was held back.
    pub fn delayed(&self) {
        self.cells.delayed.add(1);
    }

    /// A response was replaced.
    pub fn refused(&self) {
        self.cells.refused.add(1);
    }
}

/// Counts of one rate limit in one worker.
pub struct LimitMetrics {
    pub(super) cells: Arc<LimitCells>,
    pub(super) one_thread: OneThread,
}

impl LimitMetrics {
    /// A request was allowed.
    pub fn allowed(&self) {
        self.cells.allowed.add(1);
    }

    /// A request was refused.
    pub fn dropped(&self) {
        self.cells.dropped.add(1);
    }

    /// A request would have been refused if the limit were enforced.
    pub fn would_refuse(&self) {
        self.cells.would_refuse.add(1);
    }

    /// A request was refused without a call of the shared store, because its key was known to be over; it counts as
    /// [`dropped`](Self::dropped) too.
    pub fn refused_locally(&self) {
        self.cells.refused_locally.add(1);
    }

    /// The shared store responded after so many nanoseconds.
    pub fn store_responded(&self, ns: u64) {
        self.cells.store_duration.observe(&histogram::OVERHEAD, ns);
    }

    /// The shared store could not be reached, or did not respond before the deadline.
    pub fn store_failed(&self) {
        self.cells.store_failures.add(1);
    }
}

/// Counts of all caches together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheTotals {
    /// Requests served from a cache.
    pub hits: u64,
    /// Requests that a cache could have served and did not.
    pub misses: u64,
    /// Of the misses, those that got another request's fetch.
    pub coalesced: u64,
    /// Of the hits, those that got a response stale.
    pub stale: u64,
    /// Failed calls of an external store.
    pub store_errors: u64,
}

/// Counts of one cache in one worker.
pub struct CacheMetrics {
    pub(super) cells: Arc<CacheCells>,
    pub(super) one_thread: OneThread,
}

impl CacheMetrics {
    /// A request was served from the cache.
    pub fn hit(&self) {
        self.cells.hits.add(1);
    }

    /// A request that could have been served from the cache was not.
    pub fn miss(&self) {
        self.cells.misses.add(1);
    }

    /// A miss got the fetch of another request.
    pub fn coalesced(&self) {
        self.cells.coalesced.add(1);
    }

    /// A hit got a stale response.
    pub fn stale(&self) {
        self.cells.stale.add(1);
    }

    /// The origin confirmed a stored response.
    pub fn revalidated(&self) {
        self.cells.revalidated.add(1);
    }

    /// A request went around the cache.
    pub fn bypassed(&self) {
        self.cells.bypassed.add(1);
    }

    /// A response was stored.
    pub fn stored(&self) {
        self.cells.stored.add(1);
    }

    /// A response to a miss could not be stored.
    pub fn uncacheable(&self) {
        self.cells.uncacheable.add(1);
    }

    /// A response was not written to Redis because too many were being written.
    pub fn write_dropped(&self) {
        self.cells.writes_dropped.add(1);
    }

    /// A store outside of the process failed.
    pub fn store_error(&self) {
        self.cells.store_errors.add(1);
    }
}

/// Counts of one use of Redis in one worker.
pub struct RedisMetrics {
    pub(super) cells: Arc<RedisCells>,
    pub(super) one_thread: OneThread,
}

impl RedisMetrics {
    /// A call got a response, after this time.
    pub fn responded(&self, after: Duration) {
        self.cells.duration.observe(&histogram::OVERHEAD, u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
    }

    /// A call got no response, for the reason at this place in [`REDIS_FAILURES`].
    pub fn failed(&self, reason: usize) {
        self.cells.failures[reason].add(1);
    }

    /// A connection was made.
    pub fn connected(&self) {
        self.cells.connections.add(1);
    }

    /// A connection does not serve: calls fail at once.
    pub fn breaker_opened(&self) {
        self.cells.breakers_opened.add(1);
    }

    /// One that did not serve does so again, or no longer exists.
    pub fn breaker_closed(&self) {
        self.cells.breakers_closed.add(1);
    }
}
