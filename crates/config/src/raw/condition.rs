//! What routes want of a header field or a query parameter: a value, or more than that.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::{FieldValue, text_type};
use super::word::{WordOr, word_or};
use crate::Pattern;

/// A value, `{regex: PATTERN}`, or `{present: true}`.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// Exactly this.
    Is(FieldValue),
    /// The whole value matches.
    Matches(PatternText),
    /// There is a value, or there is none.
    Present(bool),
}

/// A regular expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternText(pub Pattern);

text_type!(
    PatternText,
    "Pattern",
    {"type": "string", "pattern": "^.+$"},
    "a regular expression that the whole value has to match"
);

impl FromStr for PatternText {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Pattern::new(text).map(PatternText)
    }
}

impl fmt::Display for PatternText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.text())
    }
}

/// More than one value: `regex` or `present`.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a value, or a mapping of `regex` or `present`")]
struct Wanted {
    /// The whole value matches this regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    regex: Option<PatternText>,
    /// `true`: there is a value, whatever it is; `false`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    present: Option<bool>,
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Condition::Is(value) => value.serialize(serializer),
            Condition::Matches(pattern) => Wanted { regex: Some(pattern.clone()), present: None }.serialize(serializer),
            Condition::Present(present) => Wanted { regex: None, present: Some(*present) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match word_or::<_, FieldValue, Wanted>(d, "a value, or a mapping of `regex` or `present`")? {
            WordOr::Word(value) => Ok(Condition::Is(value)),
            WordOr::More(Wanted { regex: Some(pattern), present: None }) => Ok(Condition::Matches(pattern)),
            WordOr::More(Wanted { regex: None, present: Some(present) }) => Ok(Condition::Present(present)),
            WordOr::More(_) => Err(D::Error::custom("expected one of `regex` and `present`")),
        }
    }
}

impl JsonSchema for Condition {
    fn schema_name() -> Cow<'static, str> {
        "Condition".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let word = generator.subschema_for::<FieldValue>();
        let more = generator.subschema_for::<Wanted>();
        json_schema!({"description": "A value, `{regex: PATTERN}` or `{present: true}`.", "anyOf": [word, more]})
    }
}
