//! The choice of a replica.

use super::{EngineMetrics, PrefixMatch};

/// What is known of a replica when a request is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Its last scrape; `None` if there is none or it is too old to say anything.
    pub metrics: Option<EngineMetrics>,
    /// Own requests in flight, more or fewer than at that scrape.
    pub since_scrape: i32,
    /// Own requests in flight: all that counts where metrics are missing.
    pub in_flight: u32,
    /// Health, breaker and drain allow it.
    pub available: bool,
}

/// Settings of the rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// A prefix decides if at least this share of the prompt is in it.
    pub prefix: f64,
    /// Replicas with more waiting requests are avoided.
    pub waiting: f64,
    /// Replicas with more of their KV cache in use are avoided.
    pub kv: f64,
    /// Load is uneven if the largest exceeds the smallest by more than this ...
    pub uneven_by: f64,
    /// ... and by more than this factor. Defaults of the SGLang gateway, so that results compare.
    pub uneven_factor: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { prefix: 0.3, waiting: 5.0, kv: 0.95, uneven_by: 64.0, uneven_factor: 1.5 }
    }
}

/// Why a replica was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It has the longest prefix.
    Prefix,
    /// It has the lower load of two.
    Load,
}

/// The replica that gets the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Its index.
    pub replica: usize,
    /// Why.
    pub reason: Reason,
}

impl Load {
    fn is_busy(&self, settings: &Settings) -> bool {
        self.metrics
            .is_some_and(|metrics| metrics.waiting > settings.waiting || metrics.kv.is_some_and(|kv| kv > settings.kv))
    }

    /// Requests at the replica, as far as its engine told.
    fn requests(&self) -> Option<f64> {
        let metrics = &self.metrics?;
        Some((metrics.running + metrics.waiting + f64::from(self.since_scrape)).max(0.0))
    }

    /// `running + 3 x waiting + own since the scrape`, over what is left of the KV cache where that is less than a fifth.
    fn score(&self) -> Option<f64> {
        let metrics = &self.metrics?;
        let requests = (metrics.running + 3.0 * metrics.waiting + f64::from(self.since_scrape)).max(0.0);
        Some(match metrics.kv {
            // one more, or an empty queue would hide a full cache
            Some(kv) if kv > 0.8 => (requests + 1.0) / (1.0 - kv).max(0.01),
            _ => requests,
        })
    }

    /// Whether it is less loaded than the other. What an engine tells and what the gateway counts are no measure of each other, so own counts
    /// decide unless both engines told.
    fn is_below(&self, other: &Load) -> bool {
        match (self.score(), other.score()) {
            (Some(own), Some(other)) => own < other,
            _ => self.in_flight < other.in_flight,
        }
    }
}

/// Whether load is too uneven for prefixes to decide: by what the engines tell, or by own counts if one of them does not.
fn is_uneven(replicas: &[Load], eligible: u128, settings: &Settings) -> bool {
    let loads = || replicas.iter().take(128).enumerate().filter(|(i, _)| eligible >> i & 1 == 1).map(|(_, load)| load);
    let by_engine = loads().all(|load| load.metrics.is_some());
    let requests = |load: &Load| load.requests().filter(|_| by_engine).unwrap_or(f64::from(load.in_flight));
    let most = loads().map(requests).fold(0.0, f64::max);
    let least = loads().map(requests).fold(f64::INFINITY, f64::min);
    most - least > settings.uneven_by && most > settings.uneven_factor * least
}

/// The replicas that may get a request, one bit each: those that are available and not busy, or all available ones if all are busy.
pub fn eligible(replicas: &[Load], settings: &Settings) -> u128 {
    let bits = |test: &dyn Fn(&Load) -> bool| {
        replicas.iter().take(128).enumerate().fold(0_u128, |bits, (i, load)| bits | u128::from(test(load)) << i)
    };
    match bits(&|load| load.available && !load.is_busy(settings)) {
        0 => bits(&|load| load.available),
        some => some,
    }
}

/// Chooses a replica; `None` if none is available.
///
/// `longest` looks up the longest prefix among the eligible replicas, `prompt_blocks` is the length of the prompt in blocks, and `random` is
/// a random number.
pub fn choose(
    replicas: &[Load],
    settings: &Settings,
    prompt_blocks: f64,
    longest: impl FnOnce(u128) -> PrefixMatch,
    random: u64,
) -> Option<Choice> {
    let eligible = eligible(replicas, settings);
    let indices = || (0..replicas.len().min(128)).filter(|i| eligible >> i & 1 == 1);
    let count = eligible.count_ones() as u64;
    if count == 0 {
        return None;
    }
    let lower = |a: usize, b: usize| if replicas[b].is_below(&replicas[a]) { b } else { a };
    if !is_uneven(replicas, eligible, settings) {
        let found = longest(eligible);
        let is_long = found.blocks > 0 && found.blocks as f64 >= settings.prefix * prompt_blocks;
        if is_long && let Some(replica) = indices().filter(|i| found.replicas >> i & 1 == 1).reduce(lower) {
            return Some(Choice { replica, reason: Reason::Prefix });
        }
    }
    // two different ones, from the two halves of the random number
    let (first, step) = ((random >> 32) % count, (random & 0xFFFF_FFFF) % count.saturating_sub(1).max(1));
    let nth = |n: u64| indices().nth(n as usize);
    let (a, b) = (nth(first)?, nth((first + 1 + step) % count)?);
    Some(Choice { replica: lower(a, b), reason: Reason::Load })
}
