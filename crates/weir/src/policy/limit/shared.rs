//! Limits as the process has them: one for all workers, carried over from one configuration to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::{Algorithm, Key, KeyBytes, KeySecret, Memory, Now};
use crate::config::{self, Config, LimitAlgorithm, LimitStore};
use crate::server::clock;

/// One limit.
#[derive(Debug)]
pub struct Limit {
    /// What the configuration says.
    pub spec: config::Limit,
    /// What is allowed altogether: by this process, or by all replicas together with a shared store.
    pub algorithm: Algorithm,
    /// Stands for name and definition in a shared store: the same in every replica, another one when what is counted changes.
    pub identity: u128,
    /// Counts of this process. For a limit with a shared store this is what stands in for it, with the numbers divided by `replicas`.
    pub memory: Arc<Memory>,
}

/// The limits of a configuration.
#[derive(Debug)]
pub struct Limits {
    /// By [`LimitId`](crate::config::LimitId); `None` for those that are switched off.
    list: Vec<Option<Arc<Limit>>>,
    secret: KeySecret,
    /// See [`Now::started_unix_ns`].
    started_unix_ns: AtomicU64,
}

impl Limits {
    /// The limits of `config`. What is counted the same way as in `before` goes on counting where it was; how refusals look and how many
    /// keys are held may change without that.
    pub fn new(config: &Config, before: Option<&Limits>) -> Self {
        let secret = before.map_or_else(KeySecret::random, |before| before.secret);
        let limit = |spec: &config::Limit| {
            // The configuration was checked: a limit that does not fit is none that was loaded.
            let algorithm = Algorithm::new(spec.algorithm).ok().flatten()?;
            let identity = identity(spec);
            let same = before.and_then(|before| {
                before
                    .list
                    .iter()
                    .flatten()
                    .find(|limit| limit.identity == identity && limit.spec.replicas == spec.replicas)
            });
            let memory = match same {
                Some(same) => {
                    same.memory.set_max_keys(spec.max_keys);
                    same.memory.clone()
                }
                None => {
                    let own = match spec.store {
                        LimitStore::Memory => algorithm,
                        LimitStore::Redis => Algorithm::new(divided(spec)).ok().flatten()?,
                    };
                    Arc::new(Memory::new(own, spec.max_keys))
                }
            };
            Some(Arc::new(Limit { spec: spec.clone(), algorithm, identity, memory }))
        };
        let limits =
            Limits { list: config.limits.iter().map(limit).collect(), secret, started_unix_ns: AtomicU64::new(0) };
        limits.follow_clock();
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
            LimitStore::Redis => Key::shared(bytes),
        }
    }

    /// What the control thread does every few seconds: follows the system clock, and gives back what idle keys hold.
    pub fn sweep(&self) {
        self.follow_clock();
        let now = self.now();
        self.iter().for_each(|(_, limit)| limit.memory.sweep(now));
    }

    fn follow_clock(&self) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
        self.started_unix_ns.store(unix_ns.saturating_sub(clock::now_ns()), Relaxed);
    }
}

/// A digest of all that decides what is counted.
fn identity(spec: &config::Limit) -> u128 {
    // Debug output of these is plain data; it changes only when they do.
    let text = format!("{}\n{:?}\n{:?}\n{:?}", spec.name, spec.algorithm, spec.key, spec.store);
    let digest = Sha256::digest(text);
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(half)
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
