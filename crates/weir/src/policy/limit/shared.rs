//! Limits as the process has them: one for all workers, carried over from one configuration to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::budget::Budgets;
use super::check::{LimitInput, write_key};
use super::{Algorithm, Key, KeyBytes, KeySecret, Memory, Now, failures};
use crate::config::{self, Config, LimitAlgorithm, LimitKey, LimitStore, MissingKey};
use crate::redis::KeyedHash;
use crate::runtime::clock;

/// One limit.
#[derive(Debug)]
pub struct Limit {
    /// What the configuration says.
    pub spec: config::Limit,
    /// What is allowed altogether: by this process, or by all replicas together with a shared store.
    pub algorithm: Algorithm,
    /// Stands for name and definition in a shared store: the same in every replica, another one when what is counted changes.
    pub identity: u128,
    /// First part of the names of its counts in a shared store: namespace, `:limit:`, half of `identity`, `:`.
    pub store_prefix: Box<str>,
    /// Counts of this process. For a limit with a shared store this is what replaces it, with the numbers divided by `replicas`.
    pub memory: Memory,
}

/// The limits of a configuration.
#[derive(Debug)]
pub struct Limits {
    /// By [`LimitId`](crate::config::LimitId); `None` for those that are switched off.
    list: Vec<Option<Arc<Limit>>>,
    /// Those of tokens and money.
    budgets: Budgets,
    pub(super) secret: KeySecret,
    /// Failed logins, where they are limited.
    pub(super) failures: Option<Memory>,
    /// Points of the abuse budget that connections over HTTP/2 have lost, where they are limited.
    pub(super) abuse: Option<Memory>,
    /// What keys in a shared store are hashed with.
    pub(super) shared_hash: KeyedHash,
    /// See [`Now::started_unix_ns`].
    started_unix_ns: AtomicU64,
}

impl Limits {
    /// The limits of `config`. What is counted the same way as in `before` goes on counting where it was; how refusals look and how many
    /// keys are held may change without that.
    pub fn new(config: &Config, before: Option<&Limits>) -> Self {
        let secret = before.map_or_else(KeySecret::random, |before| before.secret);
        let namespace = config.redis.as_ref().map_or("", |redis| &redis.namespace);
        let shared_hash = KeyedHash::new(config.redis.as_ref().map_or(b"", config::Redis::hash_key));
        let limit = |spec: &config::Limit, list: &[Option<Arc<Limit>>]| {
            // The configuration was checked: a limit that does not fit is none that was loaded.
            let algorithm = Algorithm::new(spec.algorithm).ok().flatten()?;
            let identity = identity(spec);
            let old = before.into_iter().flat_map(|before| &before.list).flatten();
            // Windows of several tiers that have the same length have one count.
            let same = old
                .chain(list.iter().flatten())
                .find(|limit| limit.identity == identity && limit.spec.replicas == spec.replicas);
            let own = match spec.store {
                LimitStore::Memory => algorithm,
                LimitStore::Redis => Algorithm::new(divided(spec)).ok().flatten()?,
            };
            let memory = match same {
                Some(same) => {
                    same.memory.set_max_keys(spec.max_keys);
                    same.memory.with(own)
                }
                None => Memory::new(own, spec.max_keys),
            };
            let store_prefix = format!("{namespace}:limit:{:016x}:", (identity >> 64) as u64).into();
            Some(Arc::new(Limit { spec: spec.clone(), algorithm, identity, store_prefix, memory }))
        };
        let mut list: Vec<Option<Arc<Limit>>> = Vec::with_capacity(config.limits.len());
        for spec in &config.limits {
            let next = limit(spec, &list);
            list.push(next);
        }
        let limits = Limits {
            list,
            budgets: Budgets::new(config, before.map(|before| &before.budgets)),
            failures: failures::memory(config.server.auth_failures, before.and_then(|before| before.failures.as_ref())),
            abuse: failures::memory(
                config.server.http2.abuse_per_client,
                before.and_then(|before| before.abuse.as_ref()),
            ),
            secret,
            shared_hash,
            started_unix_ns: AtomicU64::new(0),
        };
        limits.follow_clock();
        limits.warn_without_secret(config);
        limits
    }

    /// The limit at an index; `None` when it is switched off.
    pub fn get(&self, index: usize) -> Option<&Arc<Limit>> {
        self.list.get(index)?.as_ref()
    }

    /// All that are switched on, with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Arc<Limit>)> {
        self.list.iter().enumerate().filter_map(|(index, limit)| Some((index, limit.as_ref()?)))
    }

    /// Limits of tokens and money.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Whether any limit counts in Redis.
    pub fn uses_redis(&self) -> bool {
        let stores = self.iter().map(|(_, limit)| limit.spec.store);
        stores.chain(self.budgets.iter().map(|budget| budget.spec.store)).any(|store| store == LimitStore::Redis)
    }

    /// The moment `ns` nanoseconds after the start of the process.
    #[inline]
    pub fn at(&self, ns: u64) -> Now {
        Now { ns, started_unix_ns: self.started_unix_ns.load(Relaxed) }
    }

    /// This very moment.
    pub fn now(&self) -> Now {
        self.at(clock::now_ns())
    }

    /// The key of `bytes` for `limit`.
    #[inline]
    pub fn key(&self, limit: &Limit, bytes: &KeyBytes) -> Key {
        match limit.spec.store {
            LimitStore::Memory => Key::local(bytes, &self.secret),
            LimitStore::Redis => Key::shared(limit.identity, bytes, &self.shared_hash),
        }
    }

    /// What tells requests of this key from those of others, in this process. Those without it are of one kind.
    pub fn tenant(&self, key: &[LimitKey], input: &LimitInput<'_>) -> u64 {
        let mut bytes = KeyBytes::default();
        write_key(&mut bytes, key, &MissingKey::Shared, input);
        Key::local(&bytes, &self.secret).0 as u64
    }

    /// What the control thread does every few seconds: follows the system clock, and gives back what idle keys hold.
    pub fn sweep(&self) {
        self.follow_clock();
        let now = self.now();
        self.each_memory().for_each(|limit| limit.memory.sweep(now));
        self.failures.iter().chain(&self.abuse).for_each(|memory| memory.sweep(now));
        self.budgets.sweep(now);
    }

    /// One limit for each table of counts.
    pub(super) fn each_memory(&self) -> impl Iterator<Item = &Limit> {
        let is_first = |index: &usize, limit: &Limit| {
            !self.iter().take_while(|(other, _)| other < index).any(|(_, other)| other.memory.shares(&limit.memory))
        };
        self.iter().filter(move |(index, limit)| is_first(index, limit)).map(|(_, limit)| &**limit)
    }

    fn warn_without_secret(&self, config: &Config) {
        let has_secret = config.redis.as_ref().is_none_or(|redis| redis.secret.is_some());
        let is_personal =
            |part: &LimitKey| matches!(part, LimitKey::ClientIp | LimitKey::Header(_) | LimitKey::Query(_));
        let names = |limit: &Limit| limit.spec.store == LimitStore::Redis && limit.spec.key.iter().any(is_personal);
        let budgets = self.budgets.iter().filter(|budget| budget.spec.store == LimitStore::Redis);
        let budget =
            budgets.filter(|budget| budget.spec.key.iter().any(is_personal)).map(|budget| &*budget.spec.name).next();
        let limit = self.iter().find(|(_, limit)| names(limit)).map(|(_, limit)| &*limit.spec.name);
        if let Some(limit) = limit.or(budget).filter(|_| !has_secret) {
            tracing::warn!(
                limit,
                "without `redis.secret`, whoever can read Redis can find client addresses and keys by trying: set it in all gateways"
            );
        }
    }

    fn follow_clock(&self) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
        self.started_unix_ns.store(unix_ns.saturating_sub(clock::now_ns()), Relaxed);
    }
}

/// A digest of all that decides what is counted: the first half of the SHA-256 of [`definition_text`].
fn identity(spec: &config::Limit) -> u128 {
    let digest = Sha256::digest(definition_text(spec));
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(half)
}

/// The definition of a limit in a form that every version writes alike, because replicas of two versions share counts by it: lines of
/// `name=value`, times in nanoseconds, the rate as the 16 hexadecimal digits of its IEEE 754 bits, texts with their length before them.
fn definition_text(spec: &config::Limit) -> String {
    let text = |text: &str| format!("{}:{text}", text.len());
    let algorithm = match spec.algorithm {
        // A sender whose tier changes keeps the count, and is held to another quota.
        LimitAlgorithm::FixedWindow { window, aligned, .. } if spec.is_window => {
            format!("windows fixed_window window={} aligned={}", window.as_nanos(), u8::from(aligned))
        }
        LimitAlgorithm::SlidingWindow { window, .. } if spec.is_window => {
            format!("windows sliding_window window={}", window.as_nanos())
        }
        LimitAlgorithm::Concurrency { .. } if spec.is_window => "windows concurrency".to_owned(),
        LimitAlgorithm::TokenBucket { rate_per_second, burst } => {
            format!("token_bucket rate={:016x} burst={burst}", rate_per_second.to_bits())
        }
        LimitAlgorithm::FixedWindow { quota, window, aligned } => {
            format!("fixed_window quota={quota} window={} aligned={}", window.as_nanos(), u8::from(aligned))
        }
        LimitAlgorithm::SlidingWindow { quota, window } => {
            format!("sliding_window quota={quota} window={}", window.as_nanos())
        }
        LimitAlgorithm::Concurrency { quota } => format!("concurrency quota={quota}"),
    };
    let store = match spec.store {
        LimitStore::Memory => "memory",
        LimitStore::Redis => "redis",
    };
    let mut lines = format!("weir-limit=1\nname={}\nalgorithm={algorithm}\nstore={store}\n", text(&spec.group));
    write_key_lines(&mut lines, &spec.key);
    lines
}

/// Appends a line for each part of a key.
pub(super) fn write_key_lines(lines: &mut String, key: &[LimitKey]) {
    let text = |text: &str| format!("{}:{text}", text.len());
    for part in key {
        let part = match part {
            LimitKey::ClientIp => "client_ip".to_owned(),
            LimitKey::Header(name) => format!("header {}", text(&name.to_ascii_lowercase())),
            LimitKey::Query(name) => format!("query {}", text(name)),
            LimitKey::Consumer => "consumer".to_owned(),
            LimitKey::VirtualKey => "virtual_key".to_owned(),
            LimitKey::Team => "team".to_owned(),
            LimitKey::Tier => "tier".to_owned(),
            LimitKey::Model => "model".to_owned(),
            LimitKey::Claim(path) => format!("claim {}", text(path)),
            LimitKey::Meta(name) => format!("meta {}", text(name)),
            LimitKey::Route => "route".to_owned(),
            LimitKey::Global => "global".to_owned(),
        };
        lines.push_str(&format!("key={part}\n"));
    }
}

/// The part of one replica.
fn divided(spec: &config::Limit) -> LimitAlgorithm {
    let replicas = u64::from(spec.replicas.get());
    let part = |quota: u64| (quota / replicas).max(quota.min(1));
    match spec.algorithm {
        LimitAlgorithm::TokenBucket { rate_per_second, burst } => {
            LimitAlgorithm::TokenBucket { rate_per_second: rate_per_second / replicas as f64, burst: part(burst) }
        }
        LimitAlgorithm::FixedWindow { quota, window, aligned } => {
            LimitAlgorithm::FixedWindow { quota: part(quota), window, aligned }
        }
        LimitAlgorithm::SlidingWindow { quota, window } => LimitAlgorithm::SlidingWindow { quota: part(quota), window },
        LimitAlgorithm::Concurrency { quota } => LimitAlgorithm::Concurrency { quota: part(quota) },
    }
}

#[cfg(test)]
mod tests;
