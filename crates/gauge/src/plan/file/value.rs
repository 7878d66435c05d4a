//! Values that are written in more than one way.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, MapAccess, SeqAccess, value::MapAccessDeserializer, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer};

use crate::load::units;
use crate::load::workload::Text;

/// `0.1%` or `0.001`.
pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    text(deserializer).and_then(|text| share_of(&text).map(Some).map_err(de::Error::custom))
}

/// The same of a text.
pub(crate) fn share_of(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no share; write 0.1% or 0.001");
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0,
        None => text.trim().parse().map_err(|_| wrong())?,
    };
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(wrong()) }
}

/// `500/s`.
pub(super) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    text(deserializer).and_then(|text| units::rate(&text).map(Some).map_err(de::Error::custom))
}

/// A number or a text, as text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Text::deserialize(deserializer).map(|text| text.0)
}

/// The same where it may be left out.
pub(crate) fn some_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    text(deserializer).map(Some)
}

/// A text that stands for something, or the thing itself as a mapping. (Serde's untagged enums would lose the place of a mistake.)
pub(super) fn text_or_map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    expected: &'static str,
    of_text: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Visitor<T, F>(&'static str, F, PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: Fn(&str) -> Result<T, String>> de::Visitor<'de> for Visitor<T, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            (self.1)(text).map_err(E::custom)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_any(Visitor(expected, of_text, PhantomData))
}

/// A thing, or a list of them.
#[derive(Debug)]
pub(crate) struct OneOrMore<T>(pub(crate) Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        OneOrMore(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one, or a list")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let one = de::value::StrDeserializer::new(text);
                T::deserialize(one).map(|one| OneOrMore(vec![one]))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|one| OneOrMore(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMore)
            }
        }

        deserializer.deserialize_any(Visitor(PhantomData))
    }
}
