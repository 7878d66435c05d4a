//! Limits and caches.

use std::sync::Arc;

use super::{Resolver, time};
use crate::config::problem::Origin;
use crate::config::raw;
use crate::config::raw::shape::{At, OrNone};
use crate::config::raw::units::Rate;
use crate::config::{
    Cache, CacheHeaders, CacheMode, CacheQuery, CacheStore, Limit, LimitAlgorithm, LimitCost, LimitHeaders, LimitKey,
    LimitStore, MissingKey, OnStoreFailure,
};
use crate::policy::limit::{Algorithm, Unfit};

/// Token bucket where the file says nothing.
const DEFAULT_RATE: Rate = Rate { count: 20.0, seconds: 1 };
const DEFAULT_BURST: u64 = 40;

impl Resolver<'_> {
    pub(super) fn limits(&mut self) -> Vec<Limit> {
        let file = self.file;
        file.limits.iter().map(|(name, limit)| self.limit(name, limit)).collect()
    }

    fn limit(&mut self, name: &At<String>, raw: &raw::Limit) -> Limit {
        self.check_name(name);
        let key: Vec<LimitKey> = raw.key.iter().map(|key| key.0.clone()).collect();
        if key.is_empty() {
            self.problem(name.origin, format!("the limit `{}` needs a `key`", name.value));
        }
        if key.len() > 1 && key.contains(&LimitKey::Global) {
            let message = "`global` is one count for everything; it cannot be combined with other keys";
            self.problem(name.origin, message);
        }
        if let Some(twice) = (1..key.len()).find(|&index| key[..index].contains(&key[index])) {
            let message = format!("the key `{}` is named twice", raw.key[twice]);
            self.problem(name.origin, message);
        }
        let store = match *raw.store {
            raw::LimitStore::Memory => LimitStore::Memory,
            raw::LimitStore::Redis => {
                self.needs_redis(raw.store.origin);
                LimitStore::Redis
            }
        };
        if raw.algorithm == raw::Algorithm::Concurrency && store == LimitStore::Redis {
            let message = "`concurrency` counts requests in flight, which only this process knows; use `store: memory`";
            self.problem(raw.store.origin, message);
        }
        Limit {
            name: name.as_str().into(),
            algorithm: self.algorithm(name, raw),
            key,
            store,
            cost: match &raw.cost {
                raw::Cost::Fixed(number) => LimitCost::Fixed(number.get()),
                raw::Cost::Header(field) => LimitCost::Header(lower(&field.0)),
            },
            max_keys: raw.max_keys.get(),
            on_store_failure: match raw.on_store_failure {
                raw::OnStoreFailure::Local => OnStoreFailure::Local,
                raw::OnStoreFailure::Open => OnStoreFailure::Open,
                raw::OnStoreFailure::Closed => OnStoreFailure::Closed,
            },
            replicas: raw.replicas,
            lease: raw.lease,
            missing_key: match &raw.missing_key {
                raw::MissingKey::Shared => MissingKey::Shared,
                raw::MissingKey::Skip => MissingKey::Skip,
                raw::MissingKey::Refuse(refusal) => MissingKey::Refuse {
                    status: self.error_status(&refusal.status),
                    body: refusal.body.as_deref().map(Into::into),
                },
            },
            refusal_status: self.error_status(&raw.on_limit.status),
            refusal_body: raw.on_limit.body.as_deref().map(Into::into),
            headers: LimitHeaders {
                ietf: raw.headers.contains(&raw::LimitHeader::Ietf),
                legacy: raw.headers.contains(&raw::LimitHeader::Legacy),
                scope: raw.headers.contains(&raw::LimitHeader::Scope),
            },
        }
    }

    fn algorithm(&mut self, name: &At<String>, raw: &raw::Limit) -> LimitAlgorithm {
        let uses: &[&str] = match raw.algorithm {
            raw::Algorithm::TokenBucket => &["rate", "burst"],
            raw::Algorithm::FixedWindow => &["quota", "window", "aligned"],
            raw::Algorithm::SlidingWindow => &["quota", "window"],
            raw::Algorithm::Concurrency => &["quota"],
        };
        let given = [
            ("rate", raw.rate.map(|at| at.origin)),
            ("burst", raw.burst.map(|at| at.origin)),
            ("quota", raw.quota.map(|at| at.origin)),
            ("window", raw.window.map(|at| at.origin)),
            ("aligned", raw.aligned.map(|at| at.origin)),
        ];
        for (key, origin) in given {
            match origin {
                Some(origin) if !uses.contains(&key) => {
                    let message =
                        format!("`{key}` means nothing to this algorithm, which takes `{}`", uses.join("`, `"));
                    self.problem(origin, message);
                }
                None if uses.contains(&key) && matches!(key, "quota" | "window") => {
                    let message = format!("the limit `{}` needs `{key}`", name.value);
                    self.problem(name.origin, message);
                }
                _ => {}
            }
        }
        let quota = raw.quota.map_or(0, |quota| quota.value);
        let window = raw.window.map_or_else(Default::default, |window| window.0);
        let algorithm = match raw.algorithm {
            raw::Algorithm::TokenBucket => LimitAlgorithm::TokenBucket {
                rate_per_second: raw.rate.map_or(DEFAULT_RATE, |rate| rate.value).per_second(),
                burst: raw.burst.map_or(DEFAULT_BURST, |burst| burst.get()),
            },
            raw::Algorithm::FixedWindow => {
                LimitAlgorithm::FixedWindow { quota, window, aligned: raw.aligned.is_some_and(|aligned| aligned.value) }
            }
            raw::Algorithm::SlidingWindow => LimitAlgorithm::SlidingWindow { quota, window },
            raw::Algorithm::Concurrency => LimitAlgorithm::Concurrency { quota },
        };
        if let Err(unfit) = Algorithm::new(algorithm) {
            let culprit = match unfit {
                Unfit::Quota(_) => raw.quota.map(|at| at.origin),
                Unfit::Window(_) => raw.window.map(|at| at.origin),
                Unfit::Fill(_) => raw.rate.map(|at| at.origin).or(raw.burst.map(|at| at.origin)),
            };
            self.problem(culprit.unwrap_or(name.origin), unfit.to_string());
        }
        algorithm
    }

    /// A status that says no.
    fn error_status(&mut self, status: &At<u16>) -> u16 {
        if !(400..600).contains(&status.value) {
            self.problem(status.origin, "a refusal has a status from 400 to 599");
        }
        status.value
    }

    fn needs_redis(&mut self, origin: Origin) {
        if self.file.redis.is_none() {
            self.problem(origin, "`redis` is a store only where the file has a `redis` section");
        }
    }

    pub(super) fn caches(&mut self) -> Vec<Cache> {
        let file = self.file;
        file.caches.iter().map(|(name, cache)| self.cache(name, cache)).collect()
    }

    fn cache(&mut self, name: &At<String>, raw: &raw::Cache) -> Cache {
        self.check_name(name);
        let mode = match raw.mode {
            raw::CacheMode::Ttl => {
                if let Some(default_ttl) = &raw.default_ttl {
                    let message = "`default_ttl` belongs to `mode: http`; here `ttl` says it";
                    self.problem(default_ttl.origin, message);
                }
                CacheMode::Ttl(raw.ttl.map_or(raw::Cache::DEFAULT_TTL, |ttl| ttl.0))
            }
            raw::CacheMode::Http => {
                if let Some(ttl) = &raw.ttl {
                    let message = "`ttl` belongs to `mode: ttl`; here `default_ttl` is for answers that do not say it";
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
                format!("`max_body` is larger than `max_bytes` ({}): such a body could not be kept", raw.max_bytes);
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
            partition_by: raw.partition_by.iter().map(|key| lower(&key.0.0)).collect(),
            post_json: raw.post == OrNone::Some(raw::CachePost::Json),
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
fn lower(name: &str) -> Arc<str> {
    name.to_ascii_lowercase().into()
}
