//! AI traffic: providers, models, and what a route for them says.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use llm::redact::Pattern;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::authorizer::{AuthorizerTimeout, OnAuthorizerFailure};
use super::shape::{Map, OrNone, Spanned};
use super::text::{FieldValue, text_type};
use super::units::{Size, Time};
use super::word::{WordOr, word_or};

/// What holds for AI traffic of the whole process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `held` and `reserve_output`")]
pub struct Ai {
    /// Bytes of request bodies that are held at once, so that they can be sent again; beyond it 503.
    pub held: Size,
    /// Output tokens that limits of tokens and money reserve for each choice when neither the request nor the candidate has a limit.
    pub reserve_output: NonZeroU32,
}

impl Default for Ai {
    fn default() -> Self {
        Ai { held: Size(256 << 20), reserve_output: NonZeroU32::new(1024).unwrap_or(NonZeroU32::MIN) }
    }
}

/// A provider of models: an API, the upstream that serves it, and credentials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a provider: a mapping with `api` and `upstream`")]
pub struct Provider {
    /// API that it speaks.
    pub api: Spanned<ProviderApi>,
    /// Upstream with its targets.
    pub upstream: Spanned<String>,
    /// Credentials; they share requests by weight, and one that the provider refuses rests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Spanned<ProviderKey>>,
    /// Path before that of the API's own operations; `/v1`, of Gemini's API `/v1beta`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Spanned<String>>,
    /// Header fields of every request to it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub headers: Map<FieldValue>,
}

/// An API of providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderApi {
    /// OpenAI, and the many servers that speak its API.
    Openai,
    /// Anthropic.
    Anthropic,
    /// Google Gemini.
    Gemini,
}

/// A credential of a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderKey {
    /// The key itself.
    pub key: Option<String>,
    /// File that holds it.
    pub file: Option<String>,
    /// Share of requests relative to the other keys.
    pub weight: NonZeroU32,
}

impl fmt::Debug for ProviderKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderKey").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A key as a word.
struct KeyText(String);

impl FromStr for KeyText {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<FieldValue>().map(|value| KeyText(value.0))
    }
}

/// A credential: `key`, or `file` that holds it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a key, or a mapping of `key` or `file`, and `weight`")]
struct WeightedKey {
    /// The key itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<FieldValue>,
    /// File that holds it; read at start and at reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Share of requests relative to the other keys.
    #[serde(default = "one")]
    weight: NonZeroU32,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Serialize for ProviderKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let (Some(key), None, true) = (&self.key, &self.file, self.weight == one()) {
            return serializer.serialize_str(key);
        }
        let key = self.key.clone().map(FieldValue);
        WeightedKey { key, file: self.file.clone(), weight: self.weight }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ProviderKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(match word_or::<_, KeyText, WeightedKey>(d, "a key or a mapping with `key` or `file`")? {
            WordOr::Word(KeyText(key)) => ProviderKey { key: Some(key), file: None, weight: one() },
            WordOr::More(WeightedKey { key, file, weight }) => {
                ProviderKey { key: key.map(|value| value.0), file, weight }
            }
        })
    }
}

impl JsonSchema for ProviderKey {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ProviderKey".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let word = generator.subschema_for::<FieldValue>();
        let weighted = generator.subschema_for::<WeightedKey>();
        json_schema!({"description": "A credential of a provider.", "anyOf": [word, weighted]})
    }
}

/// A model as clients name it: the candidates that may serve it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a model: a mapping with `candidates`")]
pub struct Model {
    /// Further names; one `*` stands for any text. An exact name wins, then the pattern with the longest fixed part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Spanned<String>>,
    /// Who may serve it.
    pub candidates: Spanned<Vec<Spanned<Candidate>>>,
    /// Attempts for one request over all candidates; at most two at one of them.
    #[serde(default = "four")]
    pub attempts: NonZeroU32,
    /// Longest `Retry-After` of a provider that is waited for before the same candidate is tried again.
    #[serde(default = "three_seconds")]
    pub retry_after: Time,
    /// How a stream is treated that breaks off after content; `none`: it ends with an error event.
    #[serde(default)]
    pub recover: OrNone<Recover>,
    /// Deadlines.
    #[serde(default)]
    pub timeouts: ModelTimeouts,
}

/// How a stream goes on that breaks off after content.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recover {
    /// The request is sent again. What repeats the text that the client has, byte for byte, is withheld; what comes behind it goes on. An error event
    /// where the text differs.
    Splice,
    /// The model is told to go on with the text that the client has, where the candidate has `prefill` and the text is all that there is; otherwise as
    /// `splice`.
    Continue,
}

/// How the server of a candidate is told to go on with the last message, which is the assistant's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Prefill {
    /// By that message alone (llama.cpp).
    Assistant,
    /// By `prefix: true` in it (Mistral, DeepSeek).
    Prefix,
    /// By `continue_final_message: true` and `add_generation_prompt: false` in the request (vLLM, SGLang).
    ContinueFinalMessage,
}

impl Model {
    /// A model of these candidates, with all else as a file leaves it.
    pub fn of(candidates: Spanned<Vec<Spanned<Candidate>>>) -> Self {
        Model {
            aliases: Vec::new(),
            candidates,
            attempts: four(),
            retry_after: three_seconds(),
            recover: OrNone::None,
            timeouts: ModelTimeouts::default(),
        }
    }
}

fn four() -> NonZeroU32 {
    NonZeroU32::new(4).unwrap_or(NonZeroU32::MIN)
}

fn three_seconds() -> Time {
    Time(Duration::from_secs(3))
}

/// A provider with the name that it knows the model by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a candidate: a mapping of `provider` and `model`")]
pub struct Candidate {
    /// Provider.
    pub provider: Spanned<String>,
    /// Name of the model at that provider.
    pub model: Spanned<String>,
    /// Candidates of a higher tier are tried when those of the lower ones failed.
    #[serde(default = "one")]
    pub tier: NonZeroU32,
    /// Share of requests relative to the other candidates of the tier.
    #[serde(default = "one")]
    pub weight: NonZeroU32,
    /// Tokens that the model takes, input and output together. Candidates that are too small for a request are passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<NonZeroU32>,
    /// Output tokens that the model gives at most; needed to serve clients of other APIs from Anthropic's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<NonZeroU32>,
    /// Whether the model goes on with a last message of the assistant, and how its server is told to; for `recover: continue`.
    #[serde(default)]
    pub prefill: OrNone<Prefill>,
}

/// Deadlines of a model; that of connecting is the upstream's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of deadlines")]
pub struct ModelTimeouts {
    /// From the request to the first content of the response; the next candidate is tried then.
    pub first_token: OrNone<Time>,
    /// Between two pieces of a stream, once content was sent; the stream ends with an error event then.
    pub token_idle: OrNone<Time>,
    /// Of the whole exchange, all attempts included.
    pub total: OrNone<Time>,
}

impl Default for ModelTimeouts {
    fn default() -> Self {
        let seconds = |seconds| OrNone::Some(Time(Duration::from_secs(seconds)));
        ModelTimeouts { first_token: seconds(30), token_idle: seconds(20), total: seconds(600) }
    }
}

/// What an AI route serves.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a mapping of `models`, `default_model`, `heartbeat`, `redact` and `guard`"
)]
pub struct RouteAi {
    /// Models that the route serves; absent: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Spanned<String>>,
    /// Model for requests that name one which no model of the route has, or none.
    pub default_model: OrNone<Spanned<String>>,
    /// After so long without content a stream begins with a comment, and has further ones until there is content.
    pub heartbeat: OrNone<Time>,
    /// Personal data that is replaced in prompts before a provider sees them, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<Redaction>,
    /// Service that reads prompts or responses and may refuse them.
    pub guard: OrNone<Spanned<Guard>>,
}

/// A service that reads prompts or responses of models and may refuse them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `url`, or `upstream` and `path`")]
pub struct Guard {
    /// `http://` or `https://` URL of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Spanned<String>>,
    /// Upstream of the file that the service is, in place of `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Spanned<String>>,
    /// With `upstream`: path of the request to the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Spanned<String>>,
    /// What it reads: requests, responses, or both.
    pub when: GuardWhen,
    /// Streams are held whole until the service has read them; needed to let it read responses.
    pub hold_streams: bool,
    /// How long a call waits for it, connecting included.
    pub timeout: AuthorizerTimeout,
    /// What happens to calls while it gives no verdict.
    pub on_failure: OnAuthorizerFailure,
}

/// What a guard reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct GuardWhen(pub Vec<Spanned<GuardMoment>>);

impl Default for GuardWhen {
    fn default() -> Self {
        GuardWhen(vec![GuardMoment::Before.into()])
    }
}

/// When a guard is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuardMoment {
    /// With the request, before a cache or a provider sees it.
    Before,
    /// With the response, before the client gets any of it.
    After,
}

/// What is searched for in prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redaction(pub Pattern);

text_type!(
    Redaction,
    "Redaction",
    r"^(email|phone|card|iban|/.+/)$",
    "`email`, `phone`, `card`, `iban`, or a regular expression between slashes"
);

impl FromStr for Redaction {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Redaction)
    }
}

impl fmt::Display for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
