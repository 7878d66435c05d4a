//! Caches.

use std::sync::Arc;

use super::{Resolver, time};
use crate::raw;
use crate::raw::shape::{At, OrNone};
use crate::{Cache, CacheHeaders, CacheMode, CacheQuery, CacheStore};

impl Resolver<'_> {
    pub(super) fn caches(&mut self) -> Vec<Cache> {
        let file = self.file;
        file.caches.iter().map(|(name, cache)| self.cache(name, cache)).collect()
    }

    fn cache(&mut self, name: &At<String>, raw: &raw::Cache) -> Cache {
        self.check_name(name);
        let mode = match raw.mode {
            raw::CacheMode::Ttl => {
                if let Some(default_ttl) = &raw.default_ttl {
                    let message = "`default_ttl` needs `mode: http`; use `ttl` here";
                    self.problem(default_ttl.origin, message);
                }
                CacheMode::Ttl(raw.ttl.map_or(raw::Cache::DEFAULT_TTL, |ttl| ttl.0))
            }
            raw::CacheMode::Http => {
                if let Some(ttl) = &raw.ttl {
                    let message =
                        "`ttl` needs `mode: ttl`; use `default_ttl` here, for responses without a freshness lifetime";
                    self.problem(ttl.origin, message);
                }
                CacheMode::Http { default_ttl: raw.default_ttl.and_then(|at| time(&at.value)) }
            }
        };
        let stores = match &**raw.store {
            [raw::CacheStore::Memory] => vec![CacheStore::Memory],
            [raw::CacheStore::Redis] => vec![CacheStore::Redis],
            [raw::CacheStore::Memory, raw::CacheStore::Redis] => {
                vec![CacheStore::Memory, CacheStore::Redis]
            }
            _ => {
                let message = "`store` is `memory`, `redis` or `[memory, redis]`";
                self.problem(raw.store.origin, message);
                Vec::new()
            }
        };
        if stores.contains(&CacheStore::Redis) {
            self.needs_redis(raw.store.origin);
        }
        if stores.contains(&CacheStore::Memory) && raw.max_body.value > raw.max_bytes {
            let message =
                format!("`max_body` is larger than `max_bytes` ({}): such a body could not be stored", raw.max_bytes);
            self.problem(raw.max_body.origin, message);
        }
        Cache {
            name: name.as_str().into(),
            mode,
            stores,
            max_bytes: raw.max_bytes.0,
            max_entries: raw.max_entries.get(),
            max_body_bytes: raw.max_body.0,
            query: match &raw.query {
                raw::CacheQuery::All => CacheQuery::All,
                raw::CacheQuery::Sorted => CacheQuery::Sorted,
                raw::CacheQuery::Only(names) => {
                    CacheQuery::Only(names.iter().map(|name| name.as_str().into()).collect())
                }
            },
            partition_by: raw
                .partition_by
                .iter()
                .filter_map(|key| match &key.value {
                    raw::PartitionKey::Header(name) => Some(lower(&name.0)),
                    raw::PartitionKey::Consumer => None,
                })
                .collect(),
            by_consumer: raw.partition_by.iter().any(|key| key.value == raw::PartitionKey::Consumer),
            post_json: raw.post == OrNone::Some(raw::CachePost::Json),
            strips_set_cookie: raw.set_cookie == raw::CacheSetCookie::Strip,
            stale_if_error: time(&raw.stale_if_error),
            stale_while_revalidate: time(&raw.stale_while_revalidate),
            tags: raw.tags.iter().map(|name| lower(&name.0)).collect(),
            headers: CacheHeaders {
                age: raw.headers.contains(&raw::CacheHeader::Age),
                x_cache: raw.headers.contains(&raw::CacheHeader::XCache),
                cache_status: raw.headers.contains(&raw::CacheHeader::CacheStatus),
            },
        }
    }
}

/// Field names are compared in lower case.
pub(super) fn lower(name: &str) -> Arc<str> {
    name.to_ascii_lowercase().into()
}
