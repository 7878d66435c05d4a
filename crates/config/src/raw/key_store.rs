//! Where API keys are listed: in a file, an environment variable, or the shared Redis.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::{OrNone, Spanned};
use super::units::Time;
use super::word::{WordOr, word_or};

/// Where keys are listed: exactly one of these.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyStore(pub KeyStores);

/// The stores that a file names.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "`redis`, or a mapping with `file`, `env` or `redis`")]
pub struct KeyStores {
    /// File of keys, as `weir keys create` writes it; read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Spanned<String>>,
    /// Environment variable that holds what a file of keys would; read at start and at each reload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Spanned<String>>,
    /// The Redis of the section `redis`, which several gateways share; the word `redis` alone is the same with every default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisKeys>,
}

/// Keys in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `stale`")]
pub struct RedisKeys {
    /// How long a key that was looked up before may be used while Redis does not respond, counted from its last look-up;
    /// `none`: for the 30 s that a look-up holds anyway.
    pub stale: OrNone<Time>,
}

impl Default for RedisKeys {
    fn default() -> Self {
        RedisKeys { stale: OrNone::Some(Time(Duration::from_secs(300))) }
    }
}

struct Word;

impl FromStr for Word {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "redis" => Ok(Word),
            _ => Err(format!("expected `redis`, or a mapping with `file`, `env` or `redis`, found `{text}`")),
        }
    }
}

impl Serialize for KeyStore {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for KeyStore {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(KeyStore(match word_or(d, "`redis`, or a mapping with `file`, `env` or `redis`")? {
            WordOr::Word(Word) => KeyStores { redis: Some(RedisKeys::default()), ..KeyStores::default() },
            WordOr::More(stores) => stores,
        }))
    }
}

impl JsonSchema for KeyStore {
    fn schema_name() -> Cow<'static, str> {
        "KeyStore".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let stores = generator.subschema_for::<KeyStores>();
        json_schema!({"description": "Where keys are listed.", "anyOf": [{"const": "redis"}, stores]})
    }
}
