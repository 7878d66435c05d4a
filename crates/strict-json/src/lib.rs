//! JSON as every reader understands it: a member name that occurs twice in an object is an error.
//!
//! Two parsers that disagree on which of two equal names counts can be played against each other: one checks a token's `aud` or a
//! request's body, the other uses it.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a document is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is not JSON (RFC 8259), or bytes follow it.
    Syntax,
    /// A name occurs twice in an object, in whatever spelling.
    Duplicate,
    /// It is nested more than 127 deep.
    Depth,
}

/// Reads a document.
///
/// # Errors
/// Why it is refused.
pub fn parse(bytes: &[u8]) -> Result<Value, Refused> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = Strict::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value.0));
    parsed.map_err(|error| refused(&error))
}

/// The library says which of its errors it was in words only.
fn refused(error: &serde_json::Error) -> Refused {
    let text = error.to_string();
    if text.starts_with(DUPLICATE) {
        Refused::Duplicate
    } else if text.starts_with("recursion limit exceeded") {
        Refused::Depth
    } else {
        Refused::Syntax
    }
}

/// Checks a document, and keeps nothing of it.
///
/// # Errors
/// Why it is refused.
pub fn check(bytes: &[u8]) -> Result<(), Refused> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    Checked::deserialize(&mut reader).and_then(|_| reader.end()).map_err(|error| refused(&error))
}

/// Reads an object; `None` for anything else.
pub fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match parse(bytes).ok()? {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

const DUPLICATE: &str = "a name occurs twice";

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number of JSON"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let Strict(value) = members.next_value()?;
            if map.insert(name, value).is_some() {
                return Err(de::Error::custom(DUPLICATE));
            }
        }
        Ok(Value::Object(map))
    }
}

/// A value that was read and is not kept.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CheckVisitor)
    }
}

struct CheckVisitor;

impl<'de> Visitor<'de> for CheckVisitor {
    type Value = Checked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_str<E>(self, _: &str) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Checked, A::Error> {
        while items.next_element::<Checked>()?.is_some() {}
        Ok(Checked)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Checked, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name) {
                return Err(de::Error::custom(DUPLICATE));
            }
            members.next_value::<Checked>()?;
        }
        Ok(Checked)
    }
}

#[cfg(test)]
mod tests {
    use super::{Refused, check, object, parse};

    #[test]
    fn what_has_two_readings_is_refused() {
        assert_eq!(parse(br#"{"a":1,"a":2}"#), Err(Refused::Duplicate));
        assert_eq!(check(br#"{"c":[{"a":1,"\u0061":2}]}"#), Err(Refused::Duplicate));
        // The same name in another spelling.
        assert_eq!(parse(br#"[{"b":{"a":1,"\u0061":2}}]"#), Err(Refused::Duplicate));
        for bad in [
            &b""[..],
            b"{",
            b"[1,]",
            b"{} {}",
            b"NaN",
            b"\xef\xbb\xbf{}",
            b"\"\xff\"",
            b"'a'",
            b"01",
            b"1e999",
            b"\"\\ud800\"",
        ] {
            assert_eq!(parse(bad), Err(Refused::Syntax), "{}", String::from_utf8_lossy(bad));
            assert_eq!(check(bad), Err(Refused::Syntax), "{}", String::from_utf8_lossy(bad));
        }
        let deep = [vec![b'['; 200], vec![b']'; 200]].concat();
        assert_eq!((parse(&deep), check(&deep)), (Err(Refused::Depth), Err(Refused::Depth)));
        assert_eq!(check(br#" {"a": [1, -2, 3.5, "x", null, true, {}], "b": {"a": 1}} "#), Ok(()));
        assert_eq!(parse(br#" {"a": [1, -2, 3.5, "x", null, true]} "#).unwrap()["a"][1], -2);
    }

    #[test]
    fn doubled_names_are_refused_at_any_depth() {
        assert!(object(br#"{"a":1,"b":{"a":2}}"#).is_some());
        assert!(object(br#"{"a":1,"a":1}"#).is_none());
        assert!(object(br#"{"a":[{"b":1,"\u0062":2}]}"#).is_none());
    }

    #[test]
    fn only_one_object_is_read() {
        for text in [&b"[]"[..], b"1", b"{} {}", b"{}x", b"", b"{\"a\":1e999}", b"\xff"] {
            assert!(object(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn nesting_without_end_is_refused_without_a_panic() {
        let deep = [br#"{"a":"#.as_slice(), &[b'['; 100_000]].concat();
        assert!(object(&deep).is_none());
    }
}
