//! Rate limits.

use std::num::NonZeroU32;
use std::sync::Arc;

pub use limiter::LimitAlgorithm;

/// One rate limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Name of what is counted: that in the file or, of one window of several, that with the window behind it, as `plan-1h`.
    pub name: Arc<str>,
    /// Name in the file.
    pub group: Arc<str>,
    /// Whether it is one of `windows`: its counts then belong to the length of the window, whatever the quota.
    pub is_window: bool,
    /// Whom it is about.
    pub tiers: LimitTiers,
    /// Whether it refuses requests; else it only says that it would.
    pub enforce: bool,
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
    /// Response when the store fails.
    pub on_store_failure: OnStoreFailure,
    /// Divisor of the quota when `on_store_failure: local`.
    pub replicas: NonZeroU32,
    /// Tokens taken from Redis at once; 1 requests every request.
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

impl Limit {
    /// Whether it can be checked only once the sender is authenticated.
    pub fn needs_identity(&self) -> bool {
        self.tiers != LimitTiers::All || self.key.iter().any(LimitKey::needs_identity)
    }
}

/// Whom a limit is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitTiers {
    /// Everyone.
    All,
    /// Senders of this tier.
    Only(Arc<str>),
    /// Senders of no tier, or of none of these.
    Except(Arc<[Arc<str>]>),
}

impl LimitTiers {
    /// Whether a sender of this tier is meant.
    #[inline]
    pub fn include(&self, tier: Option<&str>) -> bool {
        match self {
            LimitTiers::All => true,
            LimitTiers::Only(only) => tier == Some(&**only),
            LimitTiers::Except(others) => tier.is_none_or(|tier| others.iter().all(|other| **other != *tier)),
        }
    }
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
    /// The consumer that was authenticated.
    Consumer,
    /// The id of the API key.
    VirtualKey,
    /// `team` of its key's `meta`.
    Team,
    /// Its tier.
    Tier,
    /// A claim of its token, by the claim's path.
    Claim(Arc<str>),
    /// A name of its key's `meta`.
    Meta(Arc<str>),
    /// The AI model, by its name in the file.
    Model,
    /// The route's name.
    Route,
    /// One bucket for all.
    Global,
}

impl LimitKey {
    /// Whether it is known only once the sender is authenticated.
    pub fn needs_identity(&self) -> bool {
        matches!(
            self,
            LimitKey::Consumer
                | LimitKey::VirtualKey
                | LimitKey::Team
                | LimitKey::Tier
                | LimitKey::Claim(_)
                | LimitKey::Meta(_)
        )
    }
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
