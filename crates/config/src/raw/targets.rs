//! The targets of an upstream: a list, or a file with one.

use std::fmt;
use std::num::NonZeroU32;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::At;
use super::target::TargetUrl;
use super::word::{WordOr, word_or};

/// Where targets are named.
#[derive(Debug, Clone, PartialEq)]
pub enum Targets {
    /// Here.
    List(Vec<At<Target>>),
    /// In a file, which is followed.
    File(TargetFile),
}

/// A file that lists targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `file`")]
pub struct TargetFile {
    /// YAML or JSON file with a list of targets, relative to the configuration file. Changes take effect without a reload.
    pub file: At<String>,
}

impl Targets {
    /// Those that are named here.
    pub fn listed(&self) -> &[At<Target>] {
        match self {
            Targets::List(list) => list,
            Targets::File(_) => &[],
        }
    }

    /// The file that names them.
    pub fn file(&self) -> Option<&At<String>> {
        match self {
            Targets::List(_) => None,
            Targets::File(file) => Some(&file.file),
        }
    }
}

impl Default for Targets {
    fn default() -> Self {
        Targets::List(Vec::new())
    }
}

impl Serialize for Targets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Targets::List(list) => list.serialize(serializer),
            Targets::File(file) => file.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = Targets;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of targets, or `{file: PATH}`")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Targets, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Targets::List)
            }
            fn visit_map<A: MapAccess<'de>>(self, mapping: A) -> Result<Targets, A::Error> {
                TargetFile::deserialize(MapAccessDeserializer::new(mapping)).map(Targets::File)
            }
        }
        d.deserialize_any(Forms)
    }
}

impl JsonSchema for Targets {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Targets".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let target = generator.subschema_for::<Target>();
        let file = generator.subschema_for::<TargetFile>();
        json_schema!({"description": "Where targets are named.", "anyOf": [{"type": "array", "items": target}, file]})
    }
}

/// One target.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Where to connect.
    pub url: TargetUrl,
    /// Share of requests relative to the other targets.
    pub weight: NonZeroU32,
}

impl From<TargetUrl> for Target {
    fn from(url: TargetUrl) -> Self {
        Target { url, weight: NonZeroU32::MIN }
    }
}

/// A target with its weight.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping of `url` and `weight`")]
struct WeightedTarget {
    /// Where to connect.
    url: TargetUrl,
    /// Share of requests relative to the other targets.
    #[serde(default = "one")]
    weight: NonZeroU32,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.weight == one() {
            return self.url.serialize(serializer);
        }
        WeightedTarget { url: self.url.clone(), weight: self.weight }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(match word_or::<_, TargetUrl, WeightedTarget>(d, "a URL or a mapping with `url`")? {
            WordOr::Word(url) => url.into(),
            WordOr::More(WeightedTarget { url, weight }) => Target { url, weight },
        })
    }
}

impl JsonSchema for Target {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Target".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let url = generator.subschema_for::<TargetUrl>();
        let weighted = generator.subschema_for::<WeightedTarget>();
        json_schema!({"description": "One target.", "anyOf": [url, weighted]})
    }
}
