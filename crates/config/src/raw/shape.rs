//! Shapes of values that a file may use in more than one place: a value with its position in the file, a mapping from names,
//! one or many, and `none`.
//!
//! Serde has no notion of these. Each announces itself to the deserializer of [`crate::yaml`] by a name of its own,
//! as the TOML and RON crates do; the deserializer of [`crate::yaml`] is the only one that knows the names.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::problem::Origin;

/// Announces [`Spanned`]: a sequence of line, column and value is expected.
pub(crate) const AT: &str = "$weir::At";
/// Announces [`OneOrMany`]: a sequence is expected, of one element where there is none.
pub(crate) const ONE_OR_MANY: &str = "$weir::OneOrMany";
/// Announces [`OrNone`]: an option is expected, empty for the word `none`.
pub(crate) const OR_NONE: &str = "$weir::OrNone";
/// Announces [`OrDefault`]: an option is expected, empty for a variant that stands alone.
pub(crate) const OR_DEFAULT: &str = "$weir::OrDefault";

/// A value with the place where it was written. Equality looks at the value only.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub origin: Origin,
}

impl<T> Spanned<T> {
    /// A value that was written at `origin`.
    pub fn new(value: T, origin: Origin) -> Self {
        Spanned { value, origin }
    }
}

impl<T> From<T> for Spanned<T> {
    /// A value that no file holds.
    fn from(value: T) -> Self {
        Spanned { value, origin: Origin::Nowhere }
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Serialize> Serialize for Spanned<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AtVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for AtVisitor<T> {
            type Value = Spanned<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Spanned<T>, A::Error> {
                let missing = || serde::de::Error::custom("read by another deserializer");
                let line = seq.next_element()?.ok_or_else(missing)?;
                let column = seq.next_element()?.ok_or_else(missing)?;
                let value = seq.next_element()?.ok_or_else(missing)?;
                Ok(Spanned { value, origin: Origin::File { line, column } })
            }
        }
        deserializer.deserialize_tuple_struct(AT, 3, AtVisitor(PhantomData))
    }
}

/// The schema of a wrapper is that of its value.
macro_rules! schema_of_value {
    ($wrapper:ident) => {
        impl<T: JsonSchema> JsonSchema for $wrapper<T> {
            fn inline_schema() -> bool {
                T::inline_schema()
            }
            fn schema_name() -> Cow<'static, str> {
                T::schema_name()
            }
            fn schema_id() -> Cow<'static, str> {
                T::schema_id()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                T::json_schema(generator)
            }
        }
    };
}

schema_of_value!(Spanned);
schema_of_value!(OrDefault);

/// A mapping from names that the user chooses, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Map<T>(pub Vec<(Spanned<String>, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Map(Vec::new())
    }
}

impl<T> Map<T> {
    /// Entries in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&Spanned<String>, &T)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Place of a name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(key, _)| key.value == name)
    }
}

impl<T> FromIterator<(String, T)> for Map<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(entries: I) -> Self {
        Map(entries.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<T: Serialize> Serialize for Map<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(&name.value, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for MapVisitor<T> {
            type Value = Map<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping from names")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Map(entries))
            }
        }
        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Map<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("MapOf{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": generator.subschema_for::<T>()})
    }
}

/// A list that may be written without brackets when it holds one value.
#[derive(Debug, Clone, PartialEq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        OneOrMany(Vec::new())
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = OneOrMany<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or a list of them")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(element) = seq.next_element()? {
                    list.push(element);
                }
                Ok(OneOrMany(list))
            }
        }
        deserializer.deserialize_tuple_struct(ONE_OR_MANY, 1, ListVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

/// A value, or the word `none`, which switches it off.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum OrNone<T> {
    /// `none`.
    #[default]
    None,
    /// A value.
    Some(T),
}

impl<T> OrNone<T> {
    /// Whether it is `none`.
    pub fn is_none(&self) -> bool {
        matches!(self, OrNone::None)
    }

    /// As an option.
    pub fn as_option(&self) -> Option<&T> {
        match self {
            OrNone::None => None,
            OrNone::Some(value) => Some(value),
        }
    }
}

impl<T> From<Option<T>> for OrNone<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(OrNone::None, OrNone::Some)
    }
}

impl<T: Serialize> Serialize for OrNone<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            OrNone::None => serializer.serialize_str("none"),
            OrNone::Some(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrNone<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrNoneVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OrNoneVisitor<T> {
            type Value = OrNone<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or `none`")
            }
            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(OrNone::None)
            }
            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
                T::deserialize(d).map(OrNone::Some)
            }
        }
        deserializer.deserialize_newtype_struct(OR_NONE, OrNoneVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OrNone<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("{}OrNone", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({"anyOf": [{"const": "none"}, value]})
    }
}

/// The value of a variant that may be left out: the word alone means the defaults. (The derived schema of the enum does not know that.)
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OrDefault<T>(pub T);

impl<T: Serialize> Serialize for OrDefault<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for OrDefault<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrDefaultVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for OrDefaultVisitor<T> {
            type Value = OrDefault<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or nothing")
            }
            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(OrDefault::default())
            }
            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
                T::deserialize(d).map(OrDefault)
            }
        }
        deserializer.deserialize_newtype_struct(OR_DEFAULT, OrDefaultVisitor(PhantomData))
    }
}
