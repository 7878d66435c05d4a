//! Caches.

use std::sync::Arc;

use super::{Resolver, time};
use crate::raw;
use crate::raw::shape::{OrNone, Spanned};
use crate::{Cache, CacheHeaders, CacheMode, CacheQuery, CacheStore, CallCache};

impl Resolver<'_> {
    pub(super) fn caches(&mut self) -> Vec<Cache> {
        let file = self.file;
        file.caches.iter().map(|(name, cache)| self.cache(name, cache)).collect()
    }

    fn cache(&mut self, name: &Spanned<String>, raw: &raw::Cache) -> Cache {
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
            raw::CacheMode::Llm => self.call_cache(name, raw),
        };
        if raw.mode != raw::CacheMode::Llm {
            self.without_calls(raw);
        }
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
                    raw::PartitionKey::Consumer | raw::PartitionKey::Identity(_) => None,
                })
                .collect(),
            by_consumer: raw.partition_by.iter().any(|key| key.value == raw::PartitionKey::Consumer),
            post_json: raw.post == OrNone::Some(raw::CachePost::Json),
            strips_set_cookie: raw.set_cookie == raw::CacheSetCookie::Strip,
            stale_if_error: time(&raw.stale_if_error),
            stale_while_revalidate: time(&raw.stale_while_revalidate),
            tags: match raw.mode {
                raw::CacheMode::Llm => vec![CALL_TAG.into()],
                raw::CacheMode::Ttl | raw::CacheMode::Http => raw.tags.iter().map(|name| lower(&name.0)).collect(),
            },
            headers: CacheHeaders {
                age: raw.headers.contains(&raw::CacheHeader::Age),
                x_cache: raw.headers.contains(&raw::CacheHeader::XCache),
                cache_status: raw.headers.contains(&raw::CacheHeader::CacheStatus),
            },
        }
    }
}

impl Resolver<'_> {
    /// What only `mode: llm` has.
    fn call_cache(&mut self, name: &Spanned<String>, raw: &raw::Cache) -> CacheMode {
        if let Some(default_ttl) = &raw.default_ttl {
            self.problem(default_ttl.origin, "`default_ttl` needs `mode: http`; use `ttl` here");
        }
        let default = raw::Cache::of_mode(raw.mode);
        let others = [
            ("query", raw.query != default.query),
            ("post", raw.post != default.post),
            ("set_cookie", raw.set_cookie != default.set_cookie),
            ("stale_if_error", raw.stale_if_error != default.stale_if_error),
            ("stale_while_revalidate", raw.stale_while_revalidate != default.stale_while_revalidate),
            ("tags", raw.tags != default.tags),
        ];
        for (key, _) in others.iter().filter(|(_, is_set)| *is_set) {
            let message = format!("the cache `{}` has `mode: llm`, which has no `{key}`; remove it", name.value);
            self.problem(name.origin, message);
        }
        if raw.partition_by.is_empty() && !raw.shared {
            let message = format!(
                "the cache `{}` would give responses to one client to all others; name in `partition_by` what separates them, such as `[team]` or `[virtual_key]`, or set `shared: true` if responses are the same for all",
                name.value
            );
            self.problem(name.origin, message);
        }
        let identities = raw.partition_by.iter().filter_map(|key| match &key.value {
            raw::PartitionKey::Identity(key) => Some(key.0.clone()),
            raw::PartitionKey::Header(_) | raw::PartitionKey::Consumer => None,
        });
        CacheMode::Llm(CallCache {
            ttl: raw.ttl.map_or(raw::Cache::DEFAULT_TTL, |ttl| ttl.0),
            any_temperature: raw.any_temperature.is_some_and(|any| any.value),
            is_paced: raw.replay.is_some_and(|replay| replay.value == raw::CacheReplay::Paced),
            identities: identities.collect(),
        })
    }

    /// Refuses in other modes what only `mode: llm` has.
    fn without_calls(&mut self, raw: &raw::Cache) {
        if let Some(any) = &raw.any_temperature {
            self.problem(any.origin, "`any_temperature` needs `mode: llm`");
        }
        if let Some(replay) = &raw.replay {
            self.problem(replay.origin, "`replay` needs `mode: llm`");
        }
        for key in &raw.partition_by {
            if let raw::PartitionKey::Identity(identity) = &key.value {
                let message = format!("`{identity}` needs `mode: llm`; partition by `consumer`, or by `header:NAME`");
                self.problem(key.origin, message);
            }
        }
    }
}

/// Field of stored calls that names their model, for purges; no client gets it.
const CALL_TAG: &str = "weir-cache-model";

/// Field names are compared in lower case.
pub(super) fn lower(name: &str) -> Arc<str> {
    name.to_ascii_lowercase().into()
}
