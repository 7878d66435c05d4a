//! Caches.

use std::sync::Arc;
use std::time::Duration;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMode {
    /// Every 200 for the same time, whatever the origin says short of no-store, private or Set-Cookie.
    Ttl(Duration),
    /// RFC 9111; `default_ttl` for responses without freshness.
    Http {
        /// Freshness of responses that have none of their own.
        default_ttl: Option<Duration>,
    },
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
