//! What is counted of AI traffic. Labels are names of the configuration, never what a client sends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::observe::metrics::Exposition;

/// Counts of the process. A call takes milliseconds at least, so one lock for all of them is not in its way.
#[derive(Debug, Default)]
pub struct Counters(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: BTreeMap<[Arc<str>; 5], u64>,
    attempts: BTreeMap<([Arc<str>; 2], u8), u64>,
    tokens: BTreeMap<([Arc<str>; 2], &'static str, bool), u64>,
    /// Millionths.
    cost: BTreeMap<[Arc<str>; 2], u64>,
    first_token: BTreeMap<[Arc<str>; 2], Buckets>,
    /// By [`CacheResult`]; written once a route has a cache.
    cache: Option<[u64; 4]>,
}

/// What a cache did for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheResult {
    /// It had the response.
    Hit,
    /// The provider was called.
    Miss,
    /// An equal call in flight had the response.
    Coalesced,
    /// The call is none that is looked up.
    Bypass,
}

impl CacheResult {
    /// Name in the log and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            CacheResult::Hit => "hit",
            CacheResult::Miss => "miss",
            CacheResult::Coalesced => "coalesced",
            CacheResult::Bypass => "bypass",
        }
    }

    const ALL: [CacheResult; 4] = [CacheResult::Hit, CacheResult::Miss, CacheResult::Coalesced, CacheResult::Bypass];
}

/// Upper bounds of the time to the first token, in seconds: those of vLLM.
const BOUNDS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];

#[derive(Debug, Default, Clone)]
struct Buckets {
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
}

/// A request that is over.
#[derive(Debug)]
pub struct Request {
    /// Route.
    pub route: Arc<str>,
    /// Model of the configuration.
    pub model: Arc<str>,
    /// Provider that served it, `-` if none did.
    pub provider: Arc<str>,
    /// Ingress API.
    pub api: &'static str,
    /// `complete`, `error` or `client_gone`.
    pub end: &'static str,
    /// Nanoseconds to the first content.
    pub first_token_ns: Option<u64>,
    /// Input, output and cached tokens.
    pub tokens: Option<[u64; 3]>,
    /// Whether the tokens are an estimate.
    pub estimated: bool,
    /// What it has cost, in millionths of the currency unit.
    pub cost: Option<u64>,
}

/// Counts of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelCounts {
    /// Requests that ended.
    pub requests: u64,
    /// Those that ended with an error.
    pub failed: u64,
    /// Tokens of requests.
    pub input_tokens: u64,
    /// Tokens of responses.
    pub output_tokens: u64,
}

/// Adds what a provider reports, which may be any number: a counter that would run over stays at its end.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

impl Counters {
    fn with<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts an attempt; `fault` is 0 for one that succeeded.
    pub fn attempt(&self, provider: &Arc<str>, model: &Arc<str>, fault: u8) {
        self.with(|counts| *counts.attempts.entry(([provider.clone(), model.clone()], fault)).or_default() += 1);
    }

    /// Counts what a cache did for a call.
    pub fn cached(&self, result: CacheResult) {
        self.with(|counts| counts.cache.get_or_insert_default()[result as usize] += 1);
    }

    /// Counts a request.
    pub fn request(&self, request: Request) {
        let key = [
            request.route.clone(),
            request.model.clone(),
            request.provider.clone(),
            request.api.into(),
            request.end.into(),
        ];
        self.with(|counts| *counts.requests.entry(key).or_default() += 1);
        self.usage(request);
    }

    /// Counts what a call used, whose request was counted before: its client disconnected while others waited for its response.
    pub fn usage(&self, request: Request) {
        let Request { route: _, model, provider, api: _, end: _, first_token_ns, tokens, estimated, cost } = request;
        self.with(|counts| {
            for (kind, count) in ["input", "output", "cached_input"].into_iter().zip(tokens.into_iter().flatten()) {
                if count > 0 {
                    let key = ([model.clone(), provider.clone()], kind, estimated);
                    add(counts.tokens.entry(key).or_default(), count);
                }
            }
            if let Some(cost) = cost.filter(|cost| *cost > 0) {
                add(counts.cost.entry([model.clone(), provider.clone()]).or_default(), cost);
            }
            if let Some(ns) = first_token_ns {
                let seconds = ns as f64 / 1e9;
                let buckets = counts.first_token.entry([model, provider]).or_default();
                let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
                buckets.counts[bucket] += 1;
                buckets.sum += seconds;
            }
        });
    }

    /// Sums by model.
    pub fn by_model(&self) -> BTreeMap<Arc<str>, ModelCounts> {
        self.with(|counts| {
            let mut sums: BTreeMap<Arc<str>, ModelCounts> = BTreeMap::new();
            for ([_, model, _, _, end], n) in &counts.requests {
                let sum = sums.entry(model.clone()).or_default();
                sum.requests += n;
                sum.failed += if **end == *"error" { *n } else { 0 };
            }
            for (([model, _], kind, _), n) in &counts.tokens {
                let sum = sums.entry(model.clone()).or_default();
                match *kind {
                    "input" => add(&mut sum.input_tokens, *n),
                    "output" => add(&mut sum.output_tokens, *n),
                    _ => {}
                }
            }
            sums
        })
    }

    /// Writes the families.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn collect(&self, out: &mut Exposition<'_>, held: u64) -> fmt::Result {
        self.with(|counts| {
            out.counter("weir_ai_requests", "Requests of AI models, by how they ended", |s| {
                counts.requests.iter().try_for_each(|([route, model, provider, api, end], n)| {
                    let labels = [
                        ("route", &**route),
                        ("model", &**model),
                        ("provider", &**provider),
                        ("api", &**api),
                        ("end", &**end),
                    ];
                    s.add(&labels, *n)
                })
            })?;
            out.counter("weir_ai_attempts", "Attempts at providers, by fault (docs/ai.md); none for success", |s| {
                counts.attempts.iter().try_for_each(|(([provider, model], fault), n)| {
                    let fault = if *fault == 0 { "none".to_owned() } else { format!("F{fault}") };
                    s.add(&[("provider", &**provider), ("model", &**model), ("fault", &fault)], *n)
                })
            })?;
            out.counter("weir_ai_tokens", "Tokens by kind; estimated where the provider reported none", |s| {
                counts.tokens.iter().try_for_each(|(([model, provider], kind, estimated), n)| {
                    let estimated = if *estimated { "true" } else { "false" };
                    let labels =
                        [("model", &**model), ("provider", &**provider), ("kind", *kind), ("estimated", estimated)];
                    s.add(&labels, *n)
                })
            })?;
            out.counter(
                "weir_ai_cost_millionths",
                "What calls have cost by `prices`, in millionths of its currency unit",
                |s| {
                    counts.cost.iter().try_for_each(|([model, provider], n)| {
                        s.add(&[("model", &**model), ("provider", &**provider)], *n)
                    })
                },
            )?;
            out.counter("weir_ai_cache", "Calls of routes with a cache, by what it did for them", |s| {
                let results = counts.cache.iter().flat_map(|cache| CacheResult::ALL.into_iter().zip(cache));
                results.into_iter().try_for_each(|(result, n)| s.add(&[("result", result.name())], *n))
            })?;
            out.gauge("weir_ai_held_bytes", "Bytes of request bodies that are held for further attempts", |s| {
                s.add(&[], held)
            })?;
            out.histogram("weir_ai_ttft_seconds", "From sending the request to the first content", |s| {
                counts.first_token.iter().try_for_each(|([model, provider], buckets)| {
                    let labels = [("model", &**model), ("provider", &**provider)];
                    s.add_buckets(&labels, &BOUNDS, &buckets.counts, buckets.sum)
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_never_runs_backwards_whatever_a_provider_reports() {
        let counters = Counters::default();
        let mut before = ModelCounts::default();
        for tokens in [7, u64::MAX, 5] {
            counters.request(Request {
                route: "r".into(),
                model: "m".into(),
                provider: "p".into(),
                api: "openai",
                end: "complete",
                first_token_ns: None,
                tokens: Some([tokens, tokens, 0]),
                estimated: false,
                cost: Some(tokens),
            });
            let sums = counters.by_model().remove("m").expect("counts");
            assert!(sums.input_tokens >= before.input_tokens && sums.output_tokens >= before.output_tokens);
            before = sums;
        }
        assert_eq!((before.input_tokens, before.output_tokens, before.requests), (u64::MAX, u64::MAX, 3));
    }
}
