//! Compression of responses.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::Spanned;
use super::units::Size;

/// Compression of responses: a list of codings in the order of preference, or a mapping that says more.
#[derive(Debug, Clone, PartialEq)]
pub struct Compress(pub CompressMapping);

/// Compression of responses as a mapping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a list of codings, or a mapping of `codings`, `min`, `types`, `levels` and `also`"
)]
pub struct CompressMapping {
    /// Codings; of those that a client likes equally the first is used.
    pub codings: Spanned<Vec<Spanned<Coding>>>,
    /// Shortest body that is compressed, where its length is known beforehand.
    pub min: Size,
    /// Media types that are compressed: `text/html`, `text/*` or `application/*+json`.
    pub types: Spanned<Vec<Spanned<String>>>,
    /// How much work each coding does.
    pub levels: CompressLevels,
    /// Responses that are compressed although their length may then tell others what is in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Spanned<CompressAlso>>,
}

impl Default for CompressMapping {
    fn default() -> Self {
        CompressMapping {
            codings: vec![Coding::Zstd.into(), Coding::Br.into(), Coding::Gzip.into()].into(),
            min: Size(1024),
            types: ::compress::DEFAULT_TYPES.iter().map(|text| (*text).to_owned().into()).collect::<Vec<_>>().into(),
            levels: CompressLevels::default(),
            also: Vec::new(),
        }
    }
}

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Coding {
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Br,
    /// Gzip (RFC 1952).
    Gzip,
}

/// Levels of the codings: higher ones take more time and make less of a body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `zstd`, `br` and `gzip`")]
pub struct CompressLevels {
    /// Zstandard, 1 to 9.
    #[schemars(range(min = 1, max = 9))]
    pub zstd: Spanned<u8>,
    /// Brotli, 0 to 6.
    #[schemars(range(min = 0, max = 6))]
    pub br: Spanned<u8>,
    /// Gzip, 1 to 9.
    #[schemars(range(min = 1, max = 9))]
    pub gzip: Spanned<u8>,
}

impl Default for CompressLevels {
    fn default() -> Self {
        CompressLevels { zstd: 3.into(), br: 5.into(), gzip: 5.into() }
    }
}

/// Responses whose length may tell what is in them, once they are compressed (BREACH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompressAlso {
    /// Those of routes with `auth`.
    Auth,
    /// Those with `Set-Cookie`.
    SetCookie,
}

impl Serialize for Compress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of_list = CompressMapping { codings: self.0.codings.clone(), ..CompressMapping::default() };
        if of_list == self.0 { self.0.codings.serialize(serializer) } else { self.0.serialize(serializer) }
    }
}

impl<'de> Deserialize<'de> for Compress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = CompressMapping;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`none`, a list of codings such as `[zstd, br, gzip]`, or a mapping")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<CompressMapping, A::Error> {
                let codings = Vec::<Spanned<Coding>>::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(CompressMapping { codings: codings.into(), ..CompressMapping::default() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CompressMapping, A::Error> {
                CompressMapping::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(Forms).map(Compress)
    }
}

impl JsonSchema for Compress {
    fn schema_name() -> Cow<'static, str> {
        "Compress".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let list = generator.subschema_for::<Vec<Coding>>();
        let mapping = generator.subschema_for::<CompressMapping>();
        json_schema!({"description": "Compression of responses: a list of codings in the order of preference, or a mapping.", "anyOf": [list, mapping]})
    }
}
