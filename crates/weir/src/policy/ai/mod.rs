//! AI traffic: which operation a request is, which candidates may serve it, and what is known about keys and candidates.
//!
//! What the bytes say is read by the crate `llm`; the exchange with providers is in [`crate::exchange::ai`].

mod candidates;
mod health;
pub mod metrics;
mod operation;
pub mod responses;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auth::Identity;
use llm::tokens::Ratio;

pub use candidates::order;
pub use health::{CandidateHealth, KeyChoice, KeyHealth};
pub use operation::Operation;

use crate::config::{Config, Model, ModelId, ProviderId, RouteAi};
use crate::observe::metrics::Exposition;
use crate::runtime::clock;
use metrics::{Counters, NO_PROVIDER, Pair};
use responses::ResponseIds;

/// State of AI traffic that all workers share.
#[derive(Debug)]
pub struct AiState {
    held: Arc<AtomicU64>,
    most_held: u64,
    /// By [`ProviderId`].
    keys: Vec<Vec<KeyHealth>>,
    /// By [`ModelId`], in the order of its candidates.
    candidates: Vec<Vec<CandidateHealth>>,
    /// Bytes of a token, learned, by [`ModelId`].
    ratios: Vec<Arc<Mutex<Ratio>>>,
    names: Vec<Arc<str>>,
    /// What is counted of a model's candidates, by [`ModelId`] and in their order, and of calls that none served.
    pairs: Vec<(Vec<Arc<Pair>>, Arc<Pair>)>,
    /// What is counted; one for the process.
    pub counters: Arc<Counters>,
    /// Where responses were made; one for the process.
    pub responses: Arc<ResponseIds>,
}

/// Memory for a request body; free again when this is dropped.
#[derive(Debug)]
pub struct Held {
    all: Arc<AtomicU64>,
    most: u64,
    bytes: u64,
}

impl Held {
    /// Takes room for so many bytes in all; false if the process has no more.
    #[must_use]
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let taken = self.all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(more).filter(|held| *held <= self.most)
        });
        self.bytes += if taken.is_ok() { more } else { 0 };
        taken.is_ok()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl AiState {
    /// Fresh health for every key and candidate; what was learned about models of the same name, and counts, stay.
    pub fn new(config: &Config, before: Option<&AiState>) -> Self {
        let known = |name: &Arc<str>| {
            let before = before?;
            before.names.iter().position(|other| other == name).map(|index| before.ratios[index].clone())
        };
        let counters: Arc<Counters> = before.map_or_else(Arc::default, |before| before.counters.clone());
        let nobody: Arc<str> = NO_PROVIDER.into();
        let pairs = config.models.iter().map(|model| {
            let candidates = model.candidates.iter();
            let pair = |provider| counters.pair(&model.name, provider);
            let of_candidates = candidates.map(|candidate| pair(&config.providers[candidate.provider.0].name));
            (of_candidates.collect(), pair(&nobody))
        });
        AiState {
            pairs: pairs.collect(),
            held: before.map_or_else(Arc::default, |before| before.held.clone()),
            most_held: config.ai.held_bytes,
            keys: config.providers.iter().map(|provider| KeyHealth::of(&provider.keys)).collect(),
            candidates: config
                .models
                .iter()
                .map(|model| model.candidates.iter().map(|_| CandidateHealth::default()).collect())
                .collect(),
            ratios: config.models.iter().map(|model| known(&model.name).unwrap_or_default()).collect(),
            names: config.models.iter().map(|model| model.name.clone()).collect(),
            counters,
            responses: before.map_or_else(Arc::default, |before| before.responses.clone()),
        }
    }

    /// Room for a request body, none taken yet.
    pub fn hold(&self) -> Held {
        Held { all: self.held.clone(), most: self.most_held, bytes: 0 }
    }

    /// Bytes of request bodies that are held.
    pub fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Health of a provider's keys.
    pub fn keys(&self, provider: ProviderId) -> &[KeyHealth] {
        &self.keys[provider.0]
    }

    /// Writes how many keys of each provider there are, and how many of them rest.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn collect_keys(&self, config: &Config, out: &mut Exposition<'_>) -> fmt::Result {
        let now = clock::now_ns();
        out.gauge("weir_ai_keys", "Keys of a provider; those that it refused are not used for a while", |s| {
            let providers = config.providers.iter().zip(&self.keys).filter(|(_, keys)| !keys.is_empty());
            providers.into_iter().try_for_each(|(provider, keys)| {
                let cooling = keys.iter().filter(|key| key.is_out(now)).count();
                let name = ("provider", &*provider.name);
                s.add(&[name, ("state", "ready")], (keys.len() - cooling) as u64)?;
                s.add(&[name, ("state", "cooling_down")], cooling as u64)
            })
        })
    }

    /// Health of a model's candidates.
    pub fn candidates(&self, model: ModelId) -> &[CandidateHealth] {
        &self.candidates[model.0]
    }

    /// Counts of a model's candidate, or of calls that none served.
    pub fn pair(&self, model: ModelId, candidate: Option<usize>) -> &Pair {
        let (candidates, nobody) = &self.pairs[model.0];
        candidate.map_or(nobody, |index| &candidates[index])
    }

    /// What was learned of the length of a model's tokens.
    pub fn ratio(&self, model: ModelId) -> MutexGuard<'_, Ratio> {
        self.ratios[model.0].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The models of a route that a client may use.
pub fn models<'c>(
    config: &'c Config,
    route: &RouteAi,
    who: Option<&Identity>,
) -> impl Iterator<Item = (ModelId, &'c Model)> {
    let all = route.models.iter().map(|id| (*id, &config.models[id.0]));
    all.filter(move |(_, model)| who.is_none_or(|who| who.may_use_model(&model.name)))
}

/// The model that a client may use on a route under a name: the route's own, an alias, the pattern with the longest fixed part, or the default.
pub fn find_model<'c>(
    config: &'c Config,
    route: &RouteAi,
    who: Option<&Identity>,
    name: Option<&str>,
) -> Option<(ModelId, &'c Model)> {
    let models = || models(config, route, who);
    let by_name = |name: &str| {
        models().find(|(_, model)| *model.name == *name).or_else(|| {
            models()
                .filter_map(|(id, model)| {
                    let fit = model.aliases.iter().filter_map(|alias| alias.fits(name)).max()?;
                    Some((fit, id, model))
                })
                .max_by_key(|(fit, id, _)| (*fit, std::cmp::Reverse(id.0)))
                .map(|(_, id, model)| (id, model))
        })
    };
    name.and_then(by_name).or_else(|| models().find(|(id, _)| Some(*id) == route.default_model))
}
