//! Caches.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::{OneOrMany, OrNone, Spanned};
use super::target::LimitKeyText;
use super::text::FieldName;
use super::units::{Size, Time};
use super::word::{WordOr, word_or};
use crate::LimitKey;

/// A cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a cache: a mapping with `mode`")]
pub struct Cache {
    /// How the freshness lifetime of a response is determined: a fixed time, or what the response's own fields say.
    pub mode: CacheMode,
    /// Modes `ttl` and `llm`: freshness lifetime of a response; default `300s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Spanned<Time>>,
    /// Mode `http`: freshness lifetime of a response that does not state one; `none` does not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<Spanned<OrNone<Time>>>,
    /// Where responses are stored: one store, or two levels, L1 first.
    #[serde(default = "memory")]
    pub store: Spanned<OneOrMany<CacheStore>>,
    /// Memory store: bytes held at once.
    #[serde(default = "default_max_bytes")]
    pub max_bytes: Size,
    /// Memory store: largest number of stored responses.
    #[serde(default = "default_max_entries")]
    pub max_entries: NonZeroUsize,
    /// Largest body that is stored.
    #[serde(default = "default_max_body")]
    pub max_body: Spanned<Size>,
    /// Which part of the query belongs to the cache key.
    #[serde(default)]
    pub query: CacheQuery,
    /// What else belongs to the cache key: request fields, the authenticated consumer; mode `llm`: also other parts of the identity.
    #[serde(default)]
    pub partition_by: Vec<Spanned<PartitionKey>>,
    /// On routes with `auth`: every client that may use the route gets the same responses.
    #[serde(default)]
    pub shared: bool,
    /// Mode `llm`: look up also requests with neither `temperature: 0` nor a `seed`, whose responses differ from call to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_temperature: Option<Spanned<bool>>,
    /// Mode `llm`: the speed at which a stored stream is sent; default `fast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Spanned<CacheReplay>>,
    /// `json` stores responses to POST as well; the canonical form of the JSON body belongs to the cache key.
    #[serde(default)]
    pub post: OrNone<CachePost>,
    /// What happens to a response with `Set-Cookie`: it is not stored, or it is stored and sent without the cookie.
    #[serde(default)]
    pub set_cookie: CacheSetCookie,
    /// How long a stale response may be served when the origin fails, unless the origin states a time.
    #[serde(default)]
    pub stale_if_error: OrNone<Time>,
    /// How long a stale response may be served while it is revalidated, unless the origin states a time.
    #[serde(default)]
    pub stale_while_revalidate: OrNone<Time>,
    /// Response fields that hold the tags by which responses are purged.
    #[serde(default = "default_tags")]
    pub tags: Vec<FieldName>,
    /// Header fields that tell clients about the cache.
    #[serde(default = "default_headers")]
    pub headers: Vec<CacheHeader>,
}

impl Cache {
    /// A cache with every default.
    pub fn of_mode(mode: CacheMode) -> Self {
        Cache {
            mode,
            ttl: None,
            default_ttl: None,
            store: memory(),
            max_bytes: default_max_bytes(),
            max_entries: default_max_entries(),
            max_body: default_max_body(),
            query: CacheQuery::All,
            partition_by: Vec::new(),
            shared: false,
            any_temperature: None,
            replay: None,
            post: OrNone::None,
            set_cookie: CacheSetCookie::Refuse,
            stale_if_error: OrNone::None,
            stale_while_revalidate: OrNone::None,
            tags: default_tags(),
            headers: default_headers(),
        }
    }

    /// Freshness in mode `ttl` where nothing is said.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(300);
}

fn memory() -> Spanned<OneOrMany<CacheStore>> {
    OneOrMany(vec![CacheStore::Memory]).into()
}

fn default_max_bytes() -> Size {
    Size(256 << 20)
}

fn default_max_entries() -> NonZeroUsize {
    NonZeroUsize::new(10_000).unwrap_or(NonZeroUsize::MIN)
}

fn default_max_body() -> Spanned<Size> {
    Size(1 << 20).into()
}

fn default_tags() -> Vec<FieldName> {
    ["Cache-Tag", "Surrogate-Key"].map(|name| FieldName(name.to_owned())).into()
}

fn default_headers() -> Vec<CacheHeader> {
    vec![CacheHeader::Age, CacheHeader::XCache, CacheHeader::CacheStatus]
}

/// How the freshness lifetime of a response is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheMode {
    /// For a fixed time.
    Ttl,
    /// As it says itself (RFC 9111).
    Http,
    /// Of routes with `ai`: responses of models, for a fixed time.
    Llm,
}

/// The speed at which a stored stream is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheReplay {
    /// All at once.
    Fast,
    /// As its events came, with pauses of up to 100 ms.
    Paced,
}

/// Where responses are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheStore {
    /// This process.
    Memory,
    /// Redis, shared by all gateways; survives a restart.
    Redis,
}

/// Which part of the query belongs to the cache key.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum CacheQuery {
    /// All of it, as it came.
    #[default]
    All,
    /// All of it, parameters sorted.
    Sorted,
    /// These parameters only.
    Only(Vec<String>),
}

impl FromStr for CacheQuery {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(CacheQuery::All),
            "sorted" => Ok(CacheQuery::Sorted),
            _ => Err(format!("expected `all`, `sorted` or a list of names, found `{text}`")),
        }
    }
}

impl Serialize for CacheQuery {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            CacheQuery::All => serializer.serialize_str("all"),
            CacheQuery::Sorted => serializer.serialize_str("sorted"),
            CacheQuery::Only(names) => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for CacheQuery {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let wanted = "`all`, `sorted` or a list of names";
        Ok(match word_or::<_, CacheQuery, Vec<String>>(d, wanted)? {
            WordOr::Word(query) => query,
            WordOr::More(names) => CacheQuery::Only(names),
        })
    }
}

impl JsonSchema for CacheQuery {
    fn schema_name() -> Cow<'static, str> {
        "CacheQuery".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Part of the query in the cache key: all of it, all of it sorted, or the named parameters.",
            "anyOf": [{"enum": ["all", "sorted"]}, {"type": "array", "items": {"type": "string"}}]
        })
    }
}

/// What else belongs to the cache key: a request field, `header:NAME`, or a part of the identity that was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionKey {
    /// The value of a field.
    Header(FieldName),
    /// The consumer.
    Consumer,
    /// Mode `llm`: `virtual_key`, `team`, `tier`, `claim:PATH` or `meta:NAME`, as limits count by it.
    Identity(LimitKeyText),
}

super::text::text_type!(
    PartitionKey,
    "PartitionKey",
    r"^(consumer|virtual_key|team|tier|(header|claim|meta):\S+)$",
    "what distinguishes responses: `header:NAME`, `consumer`; with `mode: llm` also `virtual_key`, `team`, `tier`, `claim:PATH` or `meta:NAME`"
);

impl FromStr for PartitionKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("header:") {
            return Ok(PartitionKey::Header(name.parse()?));
        }
        match text.parse::<LimitKeyText>() {
            Ok(LimitKeyText(LimitKey::Consumer)) => Ok(PartitionKey::Consumer),
            Ok(key) if key.0.needs_identity() => Ok(PartitionKey::Identity(key)),
            _ => Err(format!(
                "expected `header:NAME`, `consumer`, `virtual_key`, `team`, `tier`, `claim:PATH` or `meta:NAME`, found `{text}`"
            )),
        }
    }
}

impl std::fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PartitionKey::Header(name) => write!(f, "header:{name}"),
            PartitionKey::Consumer => f.write_str("consumer"),
            PartitionKey::Identity(key) => write!(f, "{key}"),
        }
    }
}

/// What happens to a response with `Set-Cookie`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
pub enum CacheSetCookie {
    /// It is not stored: a cookie is nearly always meant for one client.
    #[default]
    Refuse,
    /// It is stored without the field, which no client gets.
    Strip,
}

/// Caching of responses to POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CachePost {
    /// By the canonical form of the JSON body.
    Json,
}

/// Header fields that tell clients about a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CacheHeader {
    /// `Age`.
    #[serde(rename = "age")]
    Age,
    /// `X-Cache`.
    #[serde(rename = "x-cache")]
    XCache,
    /// `Cache-Status`.
    #[serde(rename = "cache-status")]
    CacheStatus,
}
