//! AI traffic: providers, models and their candidates.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Proxy, UpstreamId};

/// Index of a model in [`Config::models`](super::Config::models).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelId(pub usize);

/// Index of a provider in [`Config::providers`](super::Config::providers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProviderId(pub usize);

/// What holds for AI traffic of the whole process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ai {
    /// Bytes of request bodies that are held at once.
    pub held_bytes: u64,
    /// Output tokens that are reserved where nothing limits them.
    pub reserve_output: u64,
}

/// A provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Name in the file.
    pub name: Arc<str>,
    /// API family that it speaks: OpenAI's or Anthropic's.
    pub family: llm::api::Family,
    /// Where it is.
    pub upstream: UpstreamId,
    /// Credentials; empty: none is sent.
    pub keys: Vec<ProviderKey>,
    /// Path before that of an operation, without a slash at its end.
    pub base: Arc<str>,
    /// Fields of every request.
    pub headers: Vec<(Arc<str>, Arc<str>)>,
}

/// A credential.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderKey {
    /// What is sent: never print it.
    pub secret: Arc<str>,
    /// What may be shown: its last four characters.
    pub shown: Arc<str>,
    /// Share of requests.
    pub weight: u32,
}

impl fmt::Debug for ProviderKey {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderKey").field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// A model as clients name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Name in the file.
    pub name: Arc<str>,
    /// Further names.
    pub aliases: Vec<Alias>,
    /// Who may serve it, by tier.
    pub candidates: Vec<Candidate>,
    /// Attempts for one request.
    pub attempts: u32,
    /// Longest wait that a provider may request.
    pub retry_after: Duration,
    /// How a stream is treated that breaks off after content.
    pub recover: Recover,
    /// From the request to the first content.
    pub first_token: Option<Duration>,
    /// Between two pieces of a stream.
    pub token_idle: Option<Duration>,
    /// Of the whole exchange.
    pub total: Option<Duration>,
}

/// How a stream is treated that breaks off after content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recover {
    /// It ends with an error event.
    None,
    /// Another attempt repeats it and goes on.
    Splice,
    /// Another attempt goes on with its text where it can, and repeats it otherwise.
    Continue,
}

/// A further name of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alias {
    /// Just this.
    Exact(Arc<str>),
    /// What stands before and behind the `*`.
    Pattern(Arc<str>, Arc<str>),
}

impl Alias {
    /// How well it fits: the length of the fixed part of a pattern that does.
    pub fn fits(&self, name: &str) -> Option<usize> {
        match self {
            Alias::Exact(own) => (**own == *name).then_some(usize::MAX),
            Alias::Pattern(before, behind) => {
                let fits = name.len() >= before.len() + behind.len()
                    && name.starts_with(&**before)
                    && name.ends_with(&**behind);
                fits.then_some(before.len() + behind.len())
            }
        }
    }
}

/// A provider with a model of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Provider.
    pub provider: ProviderId,
    /// Name of the model there.
    pub model: Arc<str>,
    /// Tried in this order.
    pub tier: u32,
    /// Share within the tier.
    pub weight: u32,
    /// Tokens that it takes.
    pub context: Option<u64>,
    /// Output tokens that it gives at most.
    pub max_output: Option<u64>,
    /// How it is told to go on with a message of the assistant.
    pub prefill: Option<llm::request::Prefill>,
    /// What it costs, where the file of prices says so.
    pub price: Option<llm::money::Price>,
}

/// What an AI route serves.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteAi {
    /// Its models.
    pub models: Vec<ModelId>,
    /// For names that no model has.
    pub default_model: Option<ModelId>,
    /// Upstreams of all candidates, each once.
    pub upstreams: Vec<UpstreamId>,
    /// How long a stream may have no content before a comment is sent.
    pub heartbeat: Option<Duration>,
    /// What is replaced in prompts.
    pub redact: Vec<llm::redact::Pattern>,
    /// Who may refuse prompts and responses.
    pub guard: Option<Guard>,
}

/// A service that reads prompts or responses and may refuse them.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    /// The way to it: an ordinary upstream, with the timeout as the total one.
    pub action: Proxy,
    /// Path, and query if there is one, that is requested.
    pub path: Arc<str>,
    /// It reads requests.
    pub before: bool,
    /// It reads responses, which are held until then.
    pub after: bool,
    /// Whether calls pass while it gives no verdict.
    pub fails_open: bool,
}
