//! What is counted of AI traffic. Labels are names of the configuration, never what a client sends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use llm::Api;
use llm::redact::Pattern;

use crate::observe::metrics::Exposition;

/// The provider of calls that none served.
pub const NO_PROVIDER: &str = "-";

/// Counts of the process.
#[derive(Debug, Default)]
pub struct Counters {
    pairs: Mutex<BTreeMap<[Arc<str>; 2], Arc<Pair>>>,
    /// By kind of pattern.
    redacted: [AtomicU64; Pattern::KINDS.len()],
    /// By what was read, and by verdict.
    guarded: [[AtomicU64; Verdict::ALL.len()]; Moment::ALL.len()],
    /// By [`CacheResult`].
    cached: [AtomicU64; CacheResult::ALL.len()],
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
    const ALL: [CacheResult; 4] = [CacheResult::Hit, CacheResult::Miss, CacheResult::Coalesced, CacheResult::Bypass];

    /// Name in the log and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            CacheResult::Hit => "hit",
            CacheResult::Miss => "miss",
            CacheResult::Coalesced => "coalesced",
            CacheResult::Bypass => "bypass",
        }
    }
}

/// What a guard reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A request.
    Before,
    /// A response.
    After,
}

impl Moment {
    const ALL: [Moment; 2] = [Moment::Before, Moment::After];

    /// Name for the guard and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Moment::Before => "before",
            Moment::After => "after",
        }
    }
}

/// What a guard said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may pass.
    Allowed,
    /// It may not.
    Refused,
    /// Nothing; it passes without a verdict.
    FailedOpen,
    /// Nothing; it does not pass.
    Failed,
}

impl Verdict {
    const ALL: [Verdict; 4] = [Verdict::Allowed, Verdict::Refused, Verdict::FailedOpen, Verdict::Failed];

    /// Name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Allowed => "allowed",
            Verdict::Refused => "refused",
            Verdict::FailedOpen => "failed_open",
            Verdict::Failed => "failed",
        }
    }
}

/// What was replaced in a prompt, by kind of pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Redacted(pub [u64; Pattern::KINDS.len()]);

impl Redacted {
    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// What came of a stream that broke off after content, where another attempt was to go on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovered {
    /// The client has a complete response.
    Complete,
    /// The attempt said something else.
    Differs,
    /// No attempt came so far.
    Failed,
}

impl Recovered {
    const ALL: [Recovered; 3] = [Recovered::Complete, Recovered::Differs, Recovered::Failed];

    /// Name in the log and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Recovered::Complete => "complete",
            Recovered::Differs => "differs",
            Recovered::Failed => "failed",
        }
    }
}

/// Counts of one model at one provider. A call has them from the start, so counting costs one lock that is rarely waited for.
#[derive(Debug, Default)]
pub struct Pair(Mutex<Counts>);

/// Faults have the numbers 1 to 35; 0 is success.
const FAULTS: usize = 36;

#[derive(Debug, Clone)]
struct Counts {
    /// By route, ingress API and end. A model has few routes.
    requests: Vec<(Arc<str>, [[u64; End::ALL.len()]; Api::ALL.len()])>,
    attempts: [u64; FAULTS],
    recovered: [u64; Recovered::ALL.len()],
    /// By kind, as reported and as estimated.
    tokens: [[u64; 2]; KINDS.len()],
    /// Millionths.
    cost: u64,
    first_token: Distribution,
    inter_token: Distribution,
    estimate: Distribution,
}

impl Default for Counts {
    fn default() -> Self {
        Counts {
            requests: Vec::new(),
            attempts: [0; FAULTS],
            recovered: [0; Recovered::ALL.len()],
            tokens: [[0; 2]; KINDS.len()],
            cost: 0,
            first_token: Distribution::new(FIRST_TOKEN),
            inter_token: Distribution::new(INTER_TOKEN),
            estimate: Distribution::new(ESTIMATE),
        }
    }
}

/// Kinds of tokens.
const KINDS: [&str; 3] = ["input", "output", "cached_input"];

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client has a complete response.
    Complete,
    /// It has not.
    Error,
    /// It disconnected before.
    ClientDisconnected,
}

impl End {
    /// Every end.
    pub const ALL: [End; 3] = [End::Complete, End::Error, End::ClientDisconnected];

    /// The name in metrics and the log.
    pub fn name(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::Error => "error",
            End::ClientDisconnected => "client_disconnected",
        }
    }
}

/// Upper bounds of the time to the first token, in seconds: those of vLLM.
const FIRST_TOKEN: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];

/// Of the time between two pieces of content, in seconds: those of vLLM for a token of the output.
const INTER_TOKEN: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];

/// Of what was estimated over what was counted.
const ESTIMATE: &[f64] = &[0.25, 0.5, 0.75, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0];

/// A histogram.
#[derive(Debug, Clone)]
struct Distribution {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl Distribution {
    fn new(bounds: &'static [f64]) -> Self {
        Distribution { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn observe(&mut self, value: f64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.counts[bucket] += 1;
        self.sum += value;
    }

    fn is_empty(&self) -> bool {
        self.counts.iter().all(|n| *n == 0)
    }
}

/// A request that is over.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Route.
    pub route: &'a Arc<str>,
    /// Ingress API.
    pub api: Api,
    /// How it ended.
    pub end: End,
    /// Nanoseconds to the first content.
    pub first_token_ns: Option<u64>,
    /// Nanoseconds between two pieces of content, on average.
    pub inter_token_ns: Option<u64>,
    /// Estimated input tokens; 0 if the provider got another input.
    pub estimate: u64,
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

impl Pair {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an attempt; `fault` is 0 for one that succeeded.
    pub fn attempt(&self, fault: u8) {
        if let Some(count) = self.counts().attempts.get_mut(usize::from(fault)) {
            *count += 1;
        }
    }

    /// Counts a stream that broke off.
    pub fn recovered(&self, result: Recovered) {
        self.counts().recovered[result as usize] += 1;
    }

    /// Counts a request.
    pub fn request(&self, request: &Request<'_>) {
        let mut counts = self.counts();
        let place = counts.requests.iter().position(|(route, _)| route == request.route);
        let place = place.unwrap_or_else(|| {
            counts.requests.push((request.route.clone(), Default::default()));
            counts.requests.len() - 1
        });
        counts.requests[place].1[request.api as usize][request.end as usize] += 1;
        counts.used(request);
    }

    /// Counts what a call used, whose request was counted before: its client disconnected while others waited for its response.
    pub fn usage(&self, request: &Request<'_>) {
        self.counts().used(request);
    }
}

impl Counts {
    fn used(&mut self, request: &Request<'_>) {
        for (kind, count) in request.tokens.into_iter().flatten().enumerate() {
            add(&mut self.tokens[kind][usize::from(request.estimated)], count);
        }
        add(&mut self.cost, request.cost.unwrap_or(0));
        if let Some(ns) = request.first_token_ns {
            self.first_token.observe(ns as f64 / 1e9);
        }
        if let Some(ns) = request.inter_token_ns {
            self.inter_token.observe(ns as f64 / 1e9);
        }
        let is_known = |input: u64| input > 0 && request.estimate > 0 && !request.estimated;
        if let Some([input, ..]) = request.tokens.filter(|[input, ..]| is_known(*input)) {
            self.estimate.observe(request.estimate as f64 / input as f64);
        }
    }
}

impl Counters {
    fn pairs(&self) -> MutexGuard<'_, BTreeMap<[Arc<str>; 2], Arc<Pair>>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what a cache did for a call.
    pub fn cached(&self, result: CacheResult) {
        self.cached[result as usize].fetch_add(1, Relaxed);
    }

    /// Counts what was replaced in a prompt.
    pub fn redacted(&self, redacted: &Redacted) {
        for (sum, count) in self.redacted.iter().zip(redacted.0).filter(|(_, count)| *count > 0) {
            sum.fetch_add(count, Relaxed);
        }
    }

    /// Counts what a guard said.
    pub fn guarded(&self, moment: Moment, verdict: Verdict) {
        self.guarded[moment as usize][verdict as usize].fetch_add(1, Relaxed);
    }

    /// The counts of a model at a provider: those that there are, or new ones.
    pub fn pair(&self, model: &Arc<str>, provider: &Arc<str>) -> Arc<Pair> {
        self.pairs().entry([model.clone(), provider.clone()]).or_default().clone()
    }

    /// What all pairs counted so far, by model and provider.
    fn all(&self) -> Vec<(Arc<str>, Arc<str>, Counts)> {
        let pairs = self.pairs();
        pairs.iter().map(|([model, provider], pair)| (model.clone(), provider.clone(), pair.counts().clone())).collect()
    }

    /// Sums by model.
    pub fn by_model(&self) -> BTreeMap<Arc<str>, ModelCounts> {
        let mut sums: BTreeMap<Arc<str>, ModelCounts> = BTreeMap::new();
        for (model, _, counts) in self.all() {
            let ends = || counts.requests.iter().flat_map(|(_, by_api)| by_api);
            if ends().flatten().all(|n| *n == 0) {
                continue;
            }
            let sum = sums.entry(model).or_default();
            sum.requests += ends().flatten().sum::<u64>();
            sum.failed += ends().map(|ends| ends[End::Error as usize]).sum::<u64>();
            let [input, output, _] = counts.tokens;
            input.into_iter().for_each(|count| add(&mut sum.input_tokens, count));
            output.into_iter().for_each(|count| add(&mut sum.output_tokens, count));
        }
        sums
    }

    /// Writes the families. What never happened has no series.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn collect(&self, out: &mut Exposition<'_>, held: u64) -> fmt::Result {
        let all = self.all();
        out.counter("weir_ai_requests", "Requests of AI models, by how they ended", |s| {
            for (model, provider, counts) in &all {
                for (route, by_api) in &counts.requests {
                    for (api, end) in Api::ALL.into_iter().flat_map(|api| End::ALL.map(|end| (api, end))) {
                        let n = by_api[api as usize][end as usize];
                        if n > 0 {
                            let labels = [
                                ("route", &**route),
                                ("model", &**model),
                                ("provider", &**provider),
                                ("api", api.name()),
                                ("end", end.name()),
                            ];
                            s.add(&labels, n)?;
                        }
                    }
                }
            }
            Ok(())
        })?;
        out.counter("weir_ai_attempts", "Attempts at providers, by fault (docs/ai.md); none for success", |s| {
            for (model, provider, counts) in &all {
                for (fault, n) in counts.attempts.iter().enumerate().filter(|(_, n)| **n > 0) {
                    let fault = if fault == 0 { "none".to_owned() } else { format!("F{fault}") };
                    s.add(&[("provider", &**provider), ("model", &**model), ("fault", &fault)], *n)?;
                }
            }
            Ok(())
        })?;
        out.counter(
            "weir_ai_recovered",
            "Streams that broke off after content (`recover`), by what came of them",
            |s| {
                for (model, provider, counts) in &all {
                    for (result, n) in Recovered::ALL.into_iter().zip(counts.recovered).filter(|(_, n)| *n > 0) {
                        s.add(&[("provider", &**provider), ("model", &**model), ("result", result.name())], n)?;
                    }
                }
                Ok(())
            },
        )?;
        out.counter("weir_ai_tokens", "Tokens by kind; estimated where the provider reported none", |s| {
            for (model, provider, counts) in &all {
                for (kind, by_source) in KINDS.into_iter().zip(counts.tokens) {
                    for (estimated, n) in ["false", "true"].into_iter().zip(by_source).filter(|(_, n)| *n > 0) {
                        let labels =
                            [("model", &**model), ("provider", &**provider), ("kind", kind), ("estimated", estimated)];
                        s.add(&labels, n)?;
                    }
                }
            }
            Ok(())
        })?;
        out.counter(
            "weir_ai_cost_millionths",
            "What calls have cost by `prices`, in millionths of its currency unit",
            |s| {
                let paid = all.iter().filter(|(_, _, counts)| counts.cost > 0);
                paid.into_iter().try_for_each(|(model, provider, counts)| {
                    s.add(&[("model", &**model), ("provider", &**provider)], counts.cost)
                })
            },
        )?;
        let cached: Vec<u64> = self.cached.iter().map(|sum| sum.load(Relaxed)).collect();
        out.counter("weir_ai_cache", "Calls of routes with a cache, by what it did for them", |s| {
            let results = CacheResult::ALL.iter().zip(&cached).filter(|_| cached.iter().any(|n| *n > 0));
            results.into_iter().try_for_each(|(result, n)| s.add(&[("result", result.name())], *n))
        })?;
        out.counter("weir_ai_redacted", "What was replaced in prompts (`redact`), by kind of pattern", |s| {
            for (kind, sum) in Pattern::KINDS.into_iter().zip(&self.redacted) {
                let n = sum.load(Relaxed);
                if n > 0 {
                    s.add(&[("kind", kind)], n)?;
                }
            }
            Ok(())
        })?;
        out.counter("weir_ai_guard", "What guards said of requests (`before`) and responses (`after`)", |s| {
            for moment in Moment::ALL {
                for verdict in Verdict::ALL {
                    let n = self.guarded[moment as usize][verdict as usize].load(Relaxed);
                    if n > 0 {
                        s.add(&[("when", moment.name()), ("verdict", verdict.name())], n)?;
                    }
                }
            }
            Ok(())
        })?;
        out.gauge("weir_ai_held_bytes", "Bytes of request bodies that are held for further attempts", |s| {
            s.add(&[], held)
        })?;
        let mut histogram = |name, help, of: fn(&Counts) -> &Distribution| {
            out.histogram(name, help, |s| {
                all.iter().filter(|(_, _, counts)| !of(counts).is_empty()).try_for_each(|(model, provider, counts)| {
                    let (labels, seen) = ([("model", &**model), ("provider", &**provider)], of(counts));
                    s.add_buckets(&labels, seen.bounds, &seen.counts, seen.sum)
                })
            })
        };
        histogram("weir_ai_ttft_seconds", "From sending the request to the first content", |c| &c.first_token)?;
        histogram("weir_ai_inter_token_seconds", "Mean time between two pieces of content of a stream", |c| {
            &c.inter_token
        })?;
        histogram("weir_ai_estimate_ratio", "Estimated input tokens over those that the provider reported", |c| {
            &c.estimate
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
            counters.pair(&"m".into(), &"p".into()).request(&Request {
                route: &"r".into(),
                api: Api::Chat,
                end: End::Complete,
                first_token_ns: None,
                inter_token_ns: None,
                estimate: 1,
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
