//! The state of caches, which lives outside of the workers' cells.

use std::fmt;

use super::exposition::Exposition;

/// What one cache holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSnapshot {
    /// Its name.
    pub name: String,
    /// Bytes kept in this process.
    pub bytes: u64,
    /// Responses kept in this process.
    pub entries: u64,
    /// Responses that had to leave for others.
    pub evictions: u64,
    /// Requests that wait for, or read from, a fetch in flight.
    pub waiting: u64,
}

/// Writes what the snapshots say; to be called by a [`Source`](super::Source) that has them.
///
/// # Errors
/// Only those of `out`.
pub fn collect_caches(caches: &[CacheSnapshot], out: &mut Exposition<'_>) -> fmt::Result {
    let each = |value: fn(&CacheSnapshot) -> u64| {
        move |s: &mut super::Samples<'_>| caches.iter().try_for_each(|c| s.add(&[("cache", &c.name)], value(c)))
    };
    out.gauge("cache_bytes", "Bytes that a cache holds in this process", each(|c| c.bytes))?;
    out.gauge("cache_entries", "Responses that a cache holds in this process", each(|c| c.entries))?;
    out.counter("cache_evictions", "Responses evicted to make room", each(|c| c.evictions))?;
    out.gauge("cache_waiting", "Requests that wait for, or read from, a fetch in flight", each(|c| c.waiting))
}
