//! What is recorded of a call of a model, for log and metrics. Never prompts, responses or keys.

use std::sync::Arc;

use llm::Api;
use llm::money::Price;
use llm::response::Usage;

use crate::config::ModelId;
use crate::error::{Error, Reason};
use crate::observe::Call;
use crate::policy::ai::metrics::{End, Recovered, Request};

/// One call.
#[derive(Debug, Clone)]
pub struct Record {
    /// Ingress API.
    pub api: Api,
    /// Model of the configuration.
    pub model: Arc<str>,
    /// Its place there.
    pub model_id: ModelId,
    /// The candidate of the last attempt.
    pub candidate: Option<usize>,
    /// Provider of the last attempt.
    pub provider: Option<Arc<str>>,
    /// End of the key of the last attempt.
    pub key: Option<Arc<str>>,
    /// Name of the model at that provider.
    pub served_model: Arc<str>,
    /// Whether the client requested an event stream.
    pub streams: bool,
    /// From sending the request to the first content, in nanoseconds.
    pub first_token_ns: Option<u64>,
    /// Between two pieces of content of a stream, on average, in nanoseconds.
    pub inter_token_ns: Option<u64>,
    /// Tokens in, out and read from a cache of the provider.
    pub tokens: Option<[u64; 3]>,
    /// Whether the tokens are an estimate.
    pub estimated: bool,
    /// Attempts, in order: `provider/model:F5>other/model:ok`. One without a place in a queue is `provider/model:queue`.
    pub tried: String,
    /// The last attempt is one of them.
    pub is_noted: bool,
    /// Number of the last fault, 0 without any.
    pub fault: u8,
    /// Another candidate than the first one served it.
    pub fallback: bool,
    /// Input tokens, as estimated.
    pub estimate: u64,
    /// The input of the last attempt was the request and a text that the client had.
    pub is_prefilled: bool,
    /// Tokens of the input that were written to a cache of the provider.
    pub cache_write: u64,
    /// The request of the last attempt was sent, or part of it.
    pub was_sent: bool,
    /// What the model of the last attempt costs.
    pub price: Option<Price>,
    /// What the call has cost, in millionths.
    pub cost: Option<u64>,
    /// Tokens that were reserved, where limits count them.
    pub reserved: Option<u64>,
    /// What was replaced in the prompt.
    pub redacted: u64,
    /// What came of a stream that broke off, where another attempt was to go on.
    pub recovered: Option<Recovered>,
    /// The first limit of tokens or money that is not enforced and would have refused the call.
    pub would_refuse: Option<Arc<str>>,
}

impl Record {
    /// Of a call for which nothing was tried yet.
    pub fn new(api: Api, (model_id, model): (ModelId, Arc<str>), streams: bool) -> Self {
        Record {
            api,
            served_model: "-".into(),
            model,
            model_id,
            candidate: None,
            provider: None,
            key: None,
            streams,
            first_token_ns: None,
            inter_token_ns: None,
            tokens: None,
            estimated: false,
            tried: String::new(),
            is_noted: true,
            fault: 0,
            fallback: false,
            estimate: 0,
            is_prefilled: false,
            cache_write: 0,
            was_sent: false,
            price: None,
            cost: None,
            reserved: None,
            redacted: 0,
            recovered: None,
            would_refuse: None,
        }
    }

    /// Takes in what the provider counted, or what must be estimated: input as before the call, output as it was delivered. What was
    /// reported before a response broke off is less than what it cost.
    pub fn count(&mut self, usage: &Usage, api: Api, delivered: u64, is_complete: bool) {
        let is_whole = is_complete && usage.input.is_some() && usage.output.is_some();
        self.estimated = !is_whole;
        self.cache_write = usage.cache_write.unwrap_or(0);
        self.tokens = Some(if is_whole {
            [usage.total_input(api), usage.total_output(), usage.cached.unwrap_or(0)]
        } else {
            let input = if usage.input.is_some() { usage.total_input(api) } else { self.estimate };
            [input, usage.total_output().max(delivered), usage.cached.unwrap_or(0)]
        });
    }

    /// For the metrics.
    pub fn counted<'a>(&self, route: &'a Arc<str>, end: End) -> Request<'a> {
        Request {
            route,
            api: self.api,
            end,
            first_token_ns: self.first_token_ns,
            inter_token_ns: self.inter_token_ns,
            estimate: if self.is_prefilled { 0 } else { self.estimate },
            tokens: self.tokens,
            estimated: self.estimated,
            cost: self.cost,
        }
    }

    /// For the access log.
    pub fn logged(&self, end: End) -> Call<'_> {
        Call {
            api: self.api.name(),
            model: &self.model,
            provider: self.provider.as_deref(),
            served_model: &self.served_model,
            key: self.key.as_deref(),
            streams: self.streams,
            first_token_ns: self.first_token_ns,
            tokens: self.tokens,
            estimated: self.estimated,
            cost: self.cost,
            reserved: self.reserved,
            redacted: self.redacted,
            recovered: self.recovered.map(Recovered::name),
            tried: &self.tried,
            end: end.name(),
        }
    }

    /// What it says of the last attempt.
    pub fn served(&self) -> Served {
        Served {
            candidate: self.candidate,
            provider: self.provider.clone(),
            key: self.key.clone(),
            served_model: self.served_model.clone(),
            tokens: self.tokens,
            estimated: self.estimated,
            cache_write: self.cache_write,
            fallback: self.fallback,
            price: self.price,
        }
    }

    /// Says it again: later attempts sent nothing.
    pub fn restore(&mut self, served: Served) {
        let Served { candidate, provider, key, served_model, tokens, estimated, cache_write, fallback, price } = served;
        (self.candidate, self.provider, self.key, self.served_model) = (candidate, provider, key, served_model);
        (self.tokens, self.estimated, self.cache_write) = (tokens, estimated, cache_write);
        (self.fallback, self.price) = (fallback, price);
    }

    /// Notes how an attempt ended: `ok`, a row of the table of faults, `differs` where it said something else than the one that it was to go on with, or
    /// `queue` where no place for it came free.
    pub fn attempted(&mut self, provider: &str, model: &str, end: &str) {
        let separator = if self.tried.is_empty() { "" } else { ">" };
        self.is_noted = true;
        self.tried.reserve(provider.len() + model.len() + 8);
        for part in [separator, provider, "/", model, ":", end] {
            self.tried.push_str(part);
        }
    }
}

/// What a record says of the attempt that a client has content of.
#[derive(Debug, Clone)]
pub struct Served {
    candidate: Option<usize>,
    provider: Option<Arc<str>>,
    key: Option<Arc<str>>,
    served_model: Arc<str>,
    tokens: Option<[u64; 3]>,
    estimated: bool,
    cache_write: u64,
    fallback: bool,
    price: Option<Price>,
}

/// How a call ended.
pub fn end_of(error: Option<Error>) -> End {
    match error.map(|error| error.reason) {
        None => End::Complete,
        Some(Reason::ClientDisconnected) => End::ClientDisconnected,
        Some(_) => End::Error,
    }
}
