//! Rate limits.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::budget::{Amount, LimitUnit, Timezone, Window};
use super::shape::{Map, OneOrMany, Spanned};
use super::target::LimitKeyText;
use super::text::FieldName;
use super::units::Rate;
use super::word::{WordOr, word_or};
use crate::LimitKey;

/// A rate limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a limit: a mapping")]
pub struct Limit {
    /// What is counted. Tokens and money are reserved before a call of an AI model and settled after it.
    pub unit: Spanned<LimitUnit>,
    /// How requests are counted; `token_bucket` if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Spanned<Algorithm>>,
    /// What has a count of its own; a list counts each combination.
    pub key: OneOrMany<LimitKeyText>,
    /// Token bucket: tokens that come back, `20/s` if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Spanned<Rate>>,
    /// Token bucket: tokens that a full bucket holds, 40 if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Spanned<NonZeroU64>>,
    /// Windows: requests in one window; concurrency: requests in flight. 0 switches the limit off, missing keys included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Spanned<Amount>>,
    /// Windows: length of one; for tokens and money also `day` or `month` of the calendar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Spanned<Window>>,
    /// Where days and months of the calendar begin, `UTC` if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<Spanned<Timezone>>,
    /// Fixed window: windows begin at multiples of their length since 1970 instead of with a key's first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aligned: Option<Spanned<bool>>,
    /// Several windows and rates in place of one: a request is charged to all of them or to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<Spanned<Vec<Spanned<LimitWindow>>>>,
    /// Windows of senders of these tiers, in place of `windows`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub tiers: Map<Vec<Spanned<LimitWindow>>>,
    /// `false`: what it would refuse is counted and logged, and passes.
    pub enforce: bool,
    /// Where counts live.
    pub store: Spanned<LimitStore>,
    /// What one request takes: a number, or a header field that holds it, which is believed from trusted peers only.
    pub cost: Cost,
    /// Memory store: keys held at once; further keys share one count.
    pub max_keys: NonZeroUsize,
    /// Redis store: what happens to requests while Redis cannot be reached.
    pub on_store_failure: OnStoreFailure,
    /// Gateways that share the limit: with `on_store_failure: local` each allows its part.
    pub replicas: NonZeroU32,
    /// Redis store: tokens taken at once and spent here, which saves round trips and may overshoot by that much in each worker.
    pub lease: NonZeroU32,
    /// What happens to requests without the key.
    pub missing_key: MissingKey,
    /// How a refusal looks.
    pub on_limit: OnLimit,
    /// Header fields that tell clients about the limit.
    pub headers: Vec<LimitHeader>,
}

impl Default for Limit {
    fn default() -> Self {
        Limit {
            unit: LimitUnit::Requests.into(),
            algorithm: None,
            key: OneOrMany(vec![LimitKeyText(LimitKey::ClientIp)]),
            rate: None,
            burst: None,
            quota: None,
            window: None,
            timezone: None,
            aligned: None,
            windows: None,
            tiers: Map::default(),
            enforce: true,
            store: LimitStore::Memory.into(),
            cost: Cost::Fixed(NonZeroU64::MIN),
            max_keys: NonZeroUsize::new(1_000_000).unwrap_or(NonZeroUsize::MIN),
            on_store_failure: OnStoreFailure::Local,
            replicas: NonZeroU32::MIN,
            lease: NonZeroU32::MIN,
            missing_key: MissingKey::Shared,
            on_limit: OnLimit::default(),
            headers: vec![LimitHeader::Ietf],
        }
    }
}

/// One window of a limit: `rate` and `burst`, or `quota` and `window`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a window: `{rate: 20/s, burst: 40}` or `{quota: 1000, window: 1h}`")]
pub struct LimitWindow {
    /// How requests are counted; if nothing is said, `token_bucket` where there is a `rate`, else `fixed_window`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Spanned<Algorithm>>,
    /// Token bucket: tokens that come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Spanned<Rate>>,
    /// Token bucket: tokens that a full bucket holds, 40 if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Spanned<NonZeroU64>>,
    /// Requests in one window, or in flight; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Spanned<Amount>>,
    /// Length of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Spanned<Window>>,
    /// Fixed window: it begins at multiples of its length since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aligned: Option<Spanned<bool>>,
}

/// How requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// `burst` at once, then `rate` (GCRA).
    TokenBucket,
    /// `quota` in each `window`; a window begins with a key's first request.
    FixedWindow,
    /// `quota` in any `window`, estimated from two counters.
    SlidingWindow,
    /// `quota` requests in flight.
    Concurrency,
}

/// Where counts live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitStore {
    /// This process.
    Memory,
    /// Redis, shared by all gateways.
    Redis,
}

/// What one request takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Cost {
    /// Always the same.
    Fixed(NonZeroU64),
    /// What this field of a trusted peer's request says.
    Header(FieldName),
}

/// Cost that a field of the request says.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `header`")]
struct CostHeader {
    /// Field that holds the number.
    header: FieldName,
}

struct FixedCost(NonZeroU64);

impl FromStr for FixedCost {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("expected a number from 1 or `{{header: NAME}}`, found `{text}`");
        text.parse().map(FixedCost).map_err(wrong)
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cost::Fixed(number) => number.serialize(serializer),
            Cost::Header(name) => CostHeader { header: name.clone() }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(match word_or::<_, FixedCost, CostHeader>(d, "a number or `{header: NAME}`")? {
            WordOr::Word(FixedCost(number)) => Cost::Fixed(number),
            WordOr::More(CostHeader { header }) => Cost::Header(header),
        })
    }
}

impl JsonSchema for Cost {
    fn schema_name() -> Cow<'static, str> {
        "Cost".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let header = generator.subschema_for::<CostHeader>();
        json_schema!({"description": "What one request takes.", "anyOf": [{"type": "integer", "minimum": 1}, header]})
    }
}

/// What happens to requests while the store cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnStoreFailure {
    /// The same limit is kept in memory, divided by `replicas`.
    Local,
    /// They pass.
    Open,
    /// They get 503.
    Closed,
}

/// What happens to requests without the key.
#[derive(Debug, Clone, PartialEq)]
pub enum MissingKey {
    /// All of them share one count.
    Shared,
    /// They are not limited.
    Skip,
    /// They are refused.
    Refuse(Spanned<MissingKeyRefusal>),
}

/// Refusal of requests without the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping of `status` and `body`")]
pub struct MissingKeyRefusal {
    /// Status of the response.
    #[serde(default = "bad_request")]
    pub status: Spanned<u16>,
    /// Body of the response, in place of problem+json.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

fn bad_request() -> Spanned<u16> {
    400.into()
}

enum MissingKeyWord {
    Shared,
    Skip,
}

impl FromStr for MissingKeyWord {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "shared" => Ok(MissingKeyWord::Shared),
            "skip" => Ok(MissingKeyWord::Skip),
            _ => Err(format!("expected `shared`, `skip` or `{{status: 400}}`, found `{text}`")),
        }
    }
}

impl Serialize for MissingKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            MissingKey::Shared => serializer.serialize_str("shared"),
            MissingKey::Skip => serializer.serialize_str("skip"),
            MissingKey::Refuse(refusal) => refusal.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MissingKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let wanted = "`shared`, `skip` or `{status: 400}`";
        Ok(match word_or::<_, MissingKeyWord, MissingKeyRefusal>(d, wanted)? {
            WordOr::Word(MissingKeyWord::Shared) => MissingKey::Shared,
            WordOr::Word(MissingKeyWord::Skip) => MissingKey::Skip,
            WordOr::More(refusal) => MissingKey::Refuse(refusal.into()),
        })
    }
}

impl JsonSchema for MissingKey {
    fn schema_name() -> Cow<'static, str> {
        "MissingKey".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let refusal = generator.subschema_for::<MissingKeyRefusal>();
        json_schema!({
            "description": "What happens to requests without the key.",
            "anyOf": [{"enum": ["shared", "skip"]}, refusal]
        })
    }
}

/// How a refusal looks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `status` and `body`")]
pub struct OnLimit {
    /// Status of the response.
    pub status: Spanned<u16>,
    /// Body of the response, in place of problem+json.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

impl Default for OnLimit {
    fn default() -> Self {
        OnLimit { status: 429.into(), body: None }
    }
}

/// Header fields that tell clients about a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitHeader {
    /// `RateLimit` and `RateLimit-Policy`.
    Ietf,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`.
    Legacy,
    /// `RateLimit-Scope`.
    Scope,
}
