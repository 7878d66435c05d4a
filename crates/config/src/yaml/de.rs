//! Reads serde types out of the tree.

use std::collections::HashSet;

use serde::de::value::{StrDeserializer, U32Deserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::Error;
use super::tree::{Content, Key, NodeId, Slot, Tree};
use crate::raw::shape::{AT, ONE_OR_MANY, OR_DEFAULT, OR_NONE};

/// A node, seen from where it is used.
#[derive(Clone, Copy)]
pub(super) struct Value<'t> {
    tree: &'t Tree<'t>,
    /// Entries that had a problem in an earlier pass and are left out.
    cut: &'t HashSet<Slot>,
    id: NodeId,
    /// Where it stands; nowhere for the root.
    slot: Option<Slot>,
}

impl<'t> Value<'t> {
    pub(super) fn root(tree: &'t Tree<'t>, cut: &'t HashSet<Slot>) -> Self {
        Value { tree, cut, id: tree.root(), slot: None }
    }

    fn place(self) -> (u32, u32) {
        self.tree.node(self.id).place
    }

    fn content(self) -> &'t Content<'t> {
        &self.tree.node(self.id).content
    }

    /// Gives an error that has no place yet the place of this value.
    fn placed<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        result.map_err(|error| error.or_at(self.place(), self.slot))
    }

    /// The text of a scalar.
    fn text(self) -> Result<&'t str, Error> {
        match self.content() {
            Content::Scalar { text, null: false } => Ok(text),
            Content::Scalar { null: true, .. } => {
                let name = self.slot.and_then(|slot| self.tree.key_of(slot));
                let what = name.map_or("this entry".to_owned(), |name| format!("`{name}`"));
                let message =
                    format!("{what} has no value; give it one, leave it out, or write \"\" for an empty text");
                self.placed(Err(Error::new(message)))
            }
            Content::List(_) => self.placed(Err(Error::invalid_type(Unexpected::Seq, &"a single value"))),
            Content::Mapping(_) => self.placed(Err(Error::invalid_type(Unexpected::Map, &"a single value"))),
        }
    }

    fn list<V: Visitor<'t>>(self, items: &'t [NodeId], visitor: V) -> Result<V::Value, Error> {
        let access = List { of: self, items, next: 0 };
        self.placed(visitor.visit_seq(access))
    }

    fn mapping<V: Visitor<'t>>(self, entries: &'t [(Key<'t>, NodeId)], visitor: V) -> Result<V::Value, Error> {
        let access = Mapping { of: self, entries, next: 0 };
        let result = visitor.visit_map(access).map_err(|mut error| {
            // What is missing may be what was cut off.
            if error.missing && error.place.is_none() {
                let cut = |index| self.cut.contains(&(self.id, index));
                error.follows_from_another = (0..entries.len()).any(cut);
            }
            error
        });
        self.placed(result)
    }

    fn whole_number<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.text()?;
        self.placed(match text.parse::<u64>() {
            // "+5" parses, but nobody means it.
            Ok(number) if text.starts_with(|c: char| c.is_ascii_digit()) => visitor.visit_u64(number),
            _ => Err(Error::invalid_value(Unexpected::Str(text), &visitor)),
        })
    }
}

macro_rules! whole_numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
            self.whole_number(visitor)
        })*
    };
}

impl<'t> Deserializer<'t> for Value<'t> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.content() {
            Content::Scalar { .. } => {
                let text = self.text()?;
                self.placed(visitor.visit_borrowed_str(text))
            }
            Content::List(items) => self.list(items, visitor),
            Content::Mapping(entries) => self.mapping(entries, visitor),
        }
    }

    fn deserialize_map<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.content() {
            Content::Mapping(entries) => self.mapping(entries, visitor),
            // Serde would read a struct from a list, field by field.
            Content::List(_) => self.placed(Err(Error::invalid_type(Unexpected::Seq, &visitor))),
            Content::Scalar { .. } => {
                let found = self.text()?;
                self.placed(Err(Error::invalid_type(Unexpected::Str(found), &visitor)))
            }
        }
    }

    fn deserialize_struct<V: Visitor<'t>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    whole_numbers! { deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 }

    fn deserialize_f64<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.text()?;
        self.placed(match text.parse::<f64>() {
            Ok(number) if number.is_finite() => visitor.visit_f64(number),
            _ => Err(Error::invalid_value(Unexpected::Str(text), &visitor)),
        })
    }

    fn deserialize_bool<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.text()?;
        self.placed(match text {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(Error::invalid_value(Unexpected::Str(text), &visitor)),
        })
    }

    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        self.placed(visitor.visit_some(self))
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        let result = match self.content() {
            Content::Scalar { text, .. } if name == OR_NONE && text == "none" => visitor.visit_none(),
            _ if name == OR_NONE || name == OR_DEFAULT => visitor.visit_some(self),
            _ => visitor.visit_newtype_struct(self),
        };
        self.placed(result)
    }

    fn deserialize_tuple_struct<V: Visitor<'t>>(
        self,
        name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match (name, self.content()) {
            (AT, _) => visitor.visit_seq(Located { place: self.place(), value: self, next: 0 }),
            (ONE_OR_MANY, Content::Scalar { .. } | Content::Mapping(_)) => visitor.visit_seq(Single(Some(self))),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'t>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.content() {
            Content::Mapping(entries) => match entries.as_slice() {
                [(key, id)] => {
                    // An error in it concerns the whole: cutting off the only entry would leave nothing to read.
                    let value = Value { id: *id, ..self };
                    self.placed(visitor.visit_enum(Variant { key, value }))
                }
                _ => {
                    let message = format!("expected one key here, of {}", known.join(", "));
                    self.placed(Err(Error::new(message)))
                }
            },
            Content::Scalar { .. } | Content::List(_) => {
                let text = self.text()?;
                self.placed(visitor.visit_enum(BareVariant(text)))
            }
        }
    }

    forward_to_deserialize_any! {
        <W: Visitor<'t>>
        i8 i16 i32 i64 i128 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple
        identifier ignored_any
    }
}

/// Elements of a list.
struct List<'t> {
    of: Value<'t>,
    items: &'t [NodeId],
    next: usize,
}

impl<'t> SeqAccess<'t> for List<'t> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        while let Some(&id) = self.items.get(self.next) {
            let slot = (self.of.id, self.next);
            self.next += 1;
            if !self.of.cut.contains(&slot) {
                return seed.deserialize(Value { id, slot: Some(slot), ..self.of }).map(Some);
            }
        }
        Ok(None)
    }
}

/// A single value where a list may stand.
struct Single<'t>(Option<Value<'t>>);

impl<'t> SeqAccess<'t> for Single<'t> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.0.take().map(|value| seed.deserialize(value)).transpose()
    }
}

/// Line, column and value, for `Spanned`.
struct Located<V> {
    place: (u32, u32),
    value: V,
    next: u8,
}

impl<'t, V: Deserializer<'t, Error = Error> + Copy> SeqAccess<'t> for Located<V> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.next += 1;
        match self.next {
            1 => seed.deserialize(U32Deserializer::new(self.place.0)).map(Some),
            2 => seed.deserialize(U32Deserializer::new(self.place.1)).map(Some),
            3 => seed.deserialize(self.value).map(Some),
            _ => Ok(None),
        }
    }
}

/// Entries of a mapping.
struct Mapping<'t> {
    of: Value<'t>,
    entries: &'t [(Key<'t>, NodeId)],
    /// The entry whose key comes next; its value is behind it.
    next: usize,
}

impl<'t> MapAccess<'t> for Mapping<'t> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        while let Some((key, _)) = self.entries.get(self.next) {
            let slot = (self.of.id, self.next);
            self.next += 1;
            if !self.of.cut.contains(&slot) {
                let result = seed.deserialize(KeyText(key));
                return result.map(Some).map_err(|error| error.or_at(key.place, Some(slot)));
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let index = self.next - 1;
        let value = Value { id: self.entries[index].1, slot: Some((self.of.id, index)), ..self.of };
        // A value whose type requests nothing of the tree (a bad default, say) still has a place.
        value.placed(seed.deserialize(value))
    }
}

/// The key of an entry.
#[derive(Clone, Copy)]
struct KeyText<'t>(&'t Key<'t>);

impl<'t> Deserializer<'t> for KeyText<'t> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(&self.0.text)
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple_struct<V: Visitor<'t>>(
        self,
        name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            AT => visitor.visit_seq(Located { place: self.0.place, value: self, next: 0 }),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        <W: Visitor<'t>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple map struct enum identifier ignored_any
    }
}

/// A word that names a variant.
struct BareVariant<'t>(&'t str);

impl<'t> EnumAccess<'t> for BareVariant<'t> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'t>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        let name: StrDeserializer<'_, Error> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl BareVariant<'_> {
    fn needs_value(self) -> Error {
        Error::new(format!("`{0}` needs a value: `{{{0}: ...}}`", self.0))
    }
}

impl<'t> VariantAccess<'t> for BareVariant<'t> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'t>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(LeftOut(self))
    }

    fn tuple_variant<V: Visitor<'t>>(self, _len: usize, _visitor: V) -> Result<V::Value, Error> {
        Err(self.needs_value())
    }

    fn struct_variant<V: Visitor<'t>>(self, _fields: &'static [&'static str], _visitor: V) -> Result<V::Value, Error> {
        Err(self.needs_value())
    }
}

/// The value of a variant that stands alone: nothing, for a type that takes it.
struct LeftOut<'t>(BareVariant<'t>);

impl<'t> Deserializer<'t> for LeftOut<'t> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'t>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(self.0.needs_value())
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name == OR_DEFAULT { visitor.visit_none() } else { Err(self.0.needs_value()) }
    }

    forward_to_deserialize_any! {
        <W: Visitor<'t>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A mapping with one key that names a variant.
struct Variant<'t> {
    key: &'t Key<'t>,
    value: Value<'t>,
}

impl<'t> EnumAccess<'t> for Variant<'t> {
    type Error = Error;
    type Variant = Value<'t>;

    fn variant_seed<S: DeserializeSeed<'t>>(self, seed: S) -> Result<(S::Value, Value<'t>), Error> {
        let name: StrDeserializer<'_, Error> = self.key.text.as_ref().into_deserializer();
        let variant = seed.deserialize(name).map_err(|error| error.or_at(self.key.place, self.value.slot))?;
        Ok((variant, self.value))
    }
}

impl<'t> VariantAccess<'t> for Value<'t> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.placed(Err(Error::new("this word takes no value")))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'t>>(self, seed: S) -> Result<S::Value, Error> {
        self.placed(seed.deserialize(self))
    }

    fn tuple_variant<V: Visitor<'t>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'t>>(self, _fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }
}
