//! Caches.

use std::sync::Arc;
use std::time::Duration;

use super::LimitKey;

/// One cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Name in the file.
    pub name: Arc<str>,
    /// Fixed time or RFC 9111.
    pub mode: CacheMode,
    /// Levels, nearest first.
    pub stores: Vec<CacheStore>,
    /// Bytes held by the memory store.
    pub max_bytes: u64,
    /// Entries held by the memory store.
    pub max_entries: usize,
    /// Largest body that is stored.
    pub max_body_bytes: u64,
    /// Which of the query counts.
    pub query: CacheQuery,
    /// Request fields that separate tenants.
    pub partition_by: Vec<Arc<str>>,
    /// Whether consumers are distinguished.
    pub by_consumer: bool,
    /// POST keyed by canonical JSON body.
    pub post_json: bool,
    /// Responses are stored and sent without `Set-Cookie`; else those with it are not stored.
    pub strips_set_cookie: bool,
    /// RFC 5861, where the origin does not say.
    pub stale_if_error: Option<Duration>,
    /// RFC 5861, where the origin does not say.
    pub stale_while_revalidate: Option<Duration>,
    /// Response fields that carry tags.
    pub tags: Vec<Arc<str>>,
    /// Header families that are written.
    pub headers: CacheHeaders,
}

/// How freshness is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheMode {
    /// Every 200 for the same time, whatever the origin says short of no-store, private or Set-Cookie.
    Ttl(Duration),
    /// RFC 9111; `default_ttl` for responses without freshness.
    Http {
        /// Freshness of responses that have none of their own.
        default_ttl: Option<Duration>,
    },
    /// Responses of AI models.
    Llm(CallCache),
}

/// What is special about a cache of calls of AI models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCache {
    /// For how long a response may be used.
    pub ttl: Duration,
    /// Requests whose responses differ from call to call are looked up too.
    pub any_temperature: bool,
    /// Stored streams are sent as their events came.
    pub is_paced: bool,
    /// Parts of the identity that separate tenants, beside the consumer.
    pub identities: Vec<LimitKey>,
}

impl Cache {
    /// What is special about it if it is for calls of AI models.
    pub fn calls(&self) -> Option<&CallCache> {
        match &self.mode {
            CacheMode::Llm(calls) => Some(calls),
            CacheMode::Ttl(_) | CacheMode::Http { .. } => None,
        }
    }

    /// Whether who was authenticated separates tenants.
    pub fn separates_identities(&self) -> bool {
        self.by_consumer || self.calls().is_some_and(|calls| !calls.identities.is_empty())
    }
}

/// A level of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStore {
    /// This process.
    Memory,
    /// Redis.
    Redis,
}

/// Which of the query is part of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheQuery {
    /// As it came.
    All,
    /// Parameters sorted.
    Sorted,
    /// Only these, sorted.
    Only(Vec<Arc<str>>),
}

/// Header families that a cache writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheHeaders {
    /// `Age`.
    pub age: bool,
    /// `X-Cache`.
    pub x_cache: bool,
    /// `Cache-Status` (RFC 9211).
    pub cache_status: bool,
}
