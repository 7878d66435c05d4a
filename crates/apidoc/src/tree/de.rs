//! Serde over the tree: a type of the model is read with the line and pointer of whatever does not fit it.

use super::{Node, Value};
use crate::diagnostic::{Code, Diagnostic};
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use std::fmt;

/// Reads `node` as a `T`.
///
/// # Errors
/// The innermost value that does not fit.
pub(crate) fn decode<T: DeserializeOwned>(node: Node<'_>) -> Result<T, Diagnostic> {
    T::deserialize(node).map_err(|e| e.place(node).0)
}

/// An error that gets its place from the innermost value on its way out.
#[derive(Debug)]
pub(crate) struct Error(Diagnostic);

impl Error {
    fn place(mut self, node: Node<'_>) -> Self {
        if self.0.line.is_none() {
            self.0 = node.diagnostic(Code::Invalid, self.0.message);
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl std::error::Error for Error {}
impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Error(Diagnostic::whole(Code::Invalid, "", message.to_string()))
    }
}

impl<'de> de::Deserializer<'de> for Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let read = match self.value() {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Number(_) => match self.number() {
                Some(n) if n.is_u64() => visitor.visit_u64(n.as_u64().unwrap_or_default()),
                Some(n) if n.is_i64() => visitor.visit_i64(n.as_i64().unwrap_or_default()),
                Some(n) => visitor.visit_f64(n.as_f64().unwrap_or_default()),
                None => visitor.visit_unit(),
            },
            Value::String(s) | Value::Include(s) => visitor.visit_borrowed_str(s),
            Value::List(_) => visitor.visit_seq(Items(self.items())),
            Value::Map(_) => visitor.visit_map(Entries { map: self, rest: self.entries(), value: None }),
        };
        read.map_err(|e: Error| e.place(self))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self).map_err(|e| e.place(self)) }
    }

    /// A version that someone forgot to quote is still text.
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value() {
            Value::Number(text) => visitor.visit_borrowed_str(text).map_err(|e: Error| e.place(self)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self).map_err(|e| e.place(self))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = self.text().ok_or_else(|| de::Error::custom(format!("{} where text is expected", self.what())));
        let text: StrDeserializer<'de, Error> = text.map_err(|e: Error| e.place(self))?.into_deserializer();
        text.deserialize_enum(name, variants, visitor).map_err(|e| e.place(self))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<I>(I);

impl<'de, I: Iterator<Item = Node<'de>>> SeqAccess<'de> for Items<I> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|node| seed.deserialize(node).map_err(|e| e.place(node))).transpose()
    }
}

struct Entries<'a, I> {
    map: Node<'a>,
    rest: I,
    value: Option<Node<'a>>,
}

impl<'de, I: Iterator<Item = (&'de str, Node<'de>)>> MapAccess<'de> for Entries<'de, I> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let text: StrDeserializer<'de, Error> = key.into_deserializer();
        seed.deserialize(text).map(Some).map_err(|e| match e.0.line {
            None => Error(self.map.diagnostic_at_key(key, Code::Invalid, e.0.message)),
            Some(_) => e,
        })
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let node = self.value.take().ok_or_else(|| de::Error::custom("a value without a key"))?;
        seed.deserialize(node).map_err(|e| e.place(node))
    }
}
