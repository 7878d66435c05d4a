//! Request body to events, in one pass over the JSON. A member of a type that the contract does not know is stored, not
//! an error: the rules decide in their own order. A name that is given twice means its last value.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt, marker::PhantomData};

use producer_core::{
    check::{Body, Field, Header, Submitted, Text, Update},
    json,
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// A body that is not a JSON text that can be used; responded with 400.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Not JSON, not UTF-8, or a string that is not a Unicode text.
    Json,
    /// More levels than [`json::BODY_DEPTH`].
    Depth,
}

/// A parsed body, and whether its attributes need the closer look that the body as a whole did not rule out.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    /// What the body says.
    pub(crate) value: T,
    /// See [`producer_core::check::check`].
    pub(crate) scan_attributes: bool,
}

/// Reads one event.
///
/// # Errors
/// See [`Malformed`].
pub(crate) fn event(body: &[u8]) -> Result<Parsed<Field<Submitted<'_>>>, Malformed> {
    parse::<Node<Submitted<'_>>, _>(body, |node| node.0)
}

/// Reads an array of events.
///
/// # Errors
/// See [`Malformed`].
pub(crate) fn events(body: &[u8]) -> Result<Parsed<Field<Vec<Field<Submitted<'_>>>>>, Malformed> {
    parse::<Node<Vec<Field<Submitted<'_>>>>, _>(body, |node| node.0)
}

fn parse<'a, T: Deserialize<'a>, U>(body: &'a [u8], open: impl Fn(T) -> U) -> Result<Parsed<U>, Malformed> {
    let text = std::str::from_utf8(body).map_err(|_| Malformed::Json)?;
    let found = json::scan(body);
    if found.depth > json::BODY_DEPTH {
        return Err(Malformed::Depth);
    }
    if found.lone_surrogate {
        return Err(Malformed::Json);
    }
    let value = open(serde_json::from_str(text).map_err(|_| Malformed::Json)?);
    Ok(Parsed { value, scan_attributes: found.nul || found.depth > json::ATTRIBUTE_DEPTH })
}

/// A [`Field`] that can be read from JSON.
struct Node<T>(Field<T>);

/// What a [`Node`] holds: an object (fed member by member) or an array (fed element by element).
trait Shape<'de>: Default {
    /// Reads the value of `key`.
    fn member<A: MapAccess<'de>>(&mut self, _key: &str, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }

    /// Reads one element; `false` at the end.
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        seq.next_element::<IgnoredAny>().map(|element| element.is_some())
    }

    /// Whether an array is the right type, rather than an object.
    const IS_ARRAY: bool = false;
}

impl<'de, T: Shape<'de>> Deserialize<'de> for Node<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Shape<'de>> Visitor<'de> for Reader<T> {
            type Value = Field<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Field::Absent)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Field::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Field::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Field::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Field::Other)
            }
            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Field::Other)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut value = T::default();
                while let Some(Key(key)) = map.next_key()? {
                    value.member(&key, &mut map)?;
                }
                Ok(if T::IS_ARRAY { Field::Other } else { Field::Is(value) })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut value = T::default();
                while value.element(&mut seq)? {}
                Ok(if T::IS_ARRAY { Field::Is(value) } else { Field::Other })
            }
        }

        deserializer.deserialize_any(Reader(PhantomData)).map(Node)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Shape<'de> for Submitted<'de> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "eventHeader" => self.header = map.next_value::<Node<Header<'de>>>()?.0,
            "eventBody" => self.body = map.next_value::<Node<Body<'de>>>()?.0,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'de> Shape<'de> for Header<'de> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "uuid" => self.uuid = text(map)?,
            "eventName" => self.event_name = text(map)?,
            "createdDate" => self.created_date = text(map)?,
            "savedDate" => self.saved_date = text(map)?,
            "eventType" => self.event_type = text(map)?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'de> Shape<'de> for Body<'de> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "entities" => self.entities = map.next_value::<Node<Vec<Field<Update<'de>>>>>()?.0,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'de> Shape<'de> for Update<'de> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "entityType" => self.entity_type = text(map)?,
            "entityId" => self.entity_id = text(map)?,
            "updatedAttributes" => {
                let raw = map.next_value::<&RawValue>()?.get();
                self.attributes = match raw.as_bytes().first() {
                    Some(b'{') => Field::Is(Cow::Borrowed(raw)),
                    Some(b'n') => Field::Absent,
                    _ => Field::Other,
                };
            }
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'de, T: Shape<'de>> Shape<'de> for Vec<Field<T>> {
    const IS_ARRAY: bool = true;

    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error> {
        let element = seq.next_element::<Node<T>>()?;
        let more = element.is_some();
        self.extend(element.map(|node| node.0));
        Ok(more)
    }
}

/// A scalar: numbers stay as they were written, so that one out of a float's range is no syntax error.
fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Text<'de>, A::Error> {
    let raw = map.next_value::<&RawValue>()?.get();
    Ok(match raw.as_bytes().first() {
        Some(b'"') => Text::Is(serde_json::from_str::<Key<'_>>(raw).map_err(serde::de::Error::custom)?.0),
        Some(b'-' | b'0'..=b'9') => Text::Number(raw),
        Some(b'n') => Text::Absent,
        _ => Text::Other,
    })
}
