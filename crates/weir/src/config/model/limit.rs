//! Rate limits.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// One rate limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Name in the file.
    pub name: Arc<str>,
    /// Algorithm with its numbers.
    pub algorithm: LimitAlgorithm,
    /// What is counted; several parts together make one key.
    pub key: Vec<LimitKey>,
    /// Where counts live.
    pub store: LimitStore,
    /// What one request takes.
    pub cost: LimitCost,
    /// Keys held by the memory store.
    pub max_keys: usize,
    /// Answer when the store fails.
    pub on_store_failure: OnStoreFailure,
    /// Divisor of the quota when `on_store_failure: local`.
    pub replicas: NonZeroU32,
    /// Tokens taken from Redis at once; 1 asks for every request.
    pub lease: NonZeroU32,
    /// What happens to a request without the key.
    pub missing_key: MissingKey,
    /// Status of a refusal.
    pub refusal_status: u16,
    /// Body of a refusal in place of problem+json.
    pub refusal_body: Option<Arc<str>>,
    /// Which header families are written.
    pub headers: LimitHeaders,
}

/// Algorithm of a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LimitAlgorithm {
    /// GCRA: `burst` at once, then `rate_per_second`.
    TokenBucket {
        /// Tokens that come back each second.
        rate_per_second: f64,
        /// Tokens that a full bucket holds.
        burst: u64,
    },
    /// `quota` per window; a window starts with the key's first request, or on multiples of `window` since the epoch when aligned.
    FixedWindow {
        /// Requests per window; 0 switches the limit off.
        quota: u64,
        /// Length.
        window: Duration,
        /// Clock-aligned.
        aligned: bool,
    },
    /// Two adjacent fixed windows, the older weighted by its overlap.
    SlidingWindow {
        /// Requests per window; 0 switches the limit off.
        quota: u64,
        /// Length.
        window: Duration,
    },
    /// Requests in flight.
    Concurrency {
        /// At most so many; 0 switches the limit off.
        quota: u64,
    },
}

/// Part of a limit's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitKey {
    /// Client address; IPv6 by /64.
    ClientIp,
    /// A request field.
    Header(Arc<str>),
    /// A query parameter.
    Query(Arc<str>),
    /// The route's name.
    Route,
    /// One bucket for all.
    Global,
}

/// Where a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitStore {
    /// This process.
    Memory,
    /// Redis, shared by replicas.
    Redis,
}

/// What a request costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitCost {
    /// A constant, at least 1.
    Fixed(u64),
    /// A field of a trusted peer's request, at least 1; anyone else pays 1.
    Header(Arc<str>),
}

/// What a failing limit store means for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// The same limit in memory, quota divided by `replicas`.
    Local,
    /// Let it pass.
    Open,
    /// 503.
    Closed,
}

/// What a request without the limit's key gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingKey {
    /// All of them share one bucket.
    Shared,
    /// They are not limited.
    Skip,
    /// They are refused.
    Refuse {
        /// Status.
        status: u16,
        /// Body, in place of problem+json.
        body: Option<Arc<str>>,
    },
}

/// Header families that a limit writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitHeaders {
    /// `RateLimit` and `RateLimit-Policy` (structured fields).
    pub ietf: bool,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset`.
    pub legacy: bool,
    /// `RateLimit-Scope`.
    pub scope: bool,
}
