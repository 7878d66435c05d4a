//! Values that are one word in their simple form and a mapping or list in the other.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// One or the other form.
pub(super) enum WordOr<W, M> {
    Word(W),
    More(M),
}

/// Reads a scalar with `FromStr` and anything else with serde. `wanted` completes "expected ...".
pub(super) fn word_or<'de, D, W, M>(d: D, wanted: &'static str) -> Result<WordOr<W, M>, D::Error>
where
    D: Deserializer<'de>,
    W: FromStr<Err = String>,
    M: Deserialize<'de>,
{
    d.deserialize_any(WordVisitor { wanted, forms: PhantomData })
}

struct WordVisitor<W, M> {
    wanted: &'static str,
    forms: PhantomData<(W, M)>,
}

impl<'de, W: FromStr<Err = String>, M: Deserialize<'de>> Visitor<'de> for WordVisitor<W, M> {
    type Value = WordOr<W, M>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse().map(WordOr::Word).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        M::deserialize(MapAccessDeserializer::new(map)).map(WordOr::More)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        M::deserialize(SeqAccessDeserializer::new(seq)).map(WordOr::More)
    }
}
