//! How the types that have more than one form are written in files.

use super::*;

/// A number or a text, as text.
struct Scalar;

impl de::Visitor<'_> for Scalar {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or a truth value")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }
}

/// The same as a type that implements `Deserialize`.
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Scalar).map(Text)
    }
}

/// A source as a mapping; exactly one of its kinds.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SourceFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    int: Option<(i64, i64)>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "texts")]
    list: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    csv: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counter: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    captured: Option<String>,
    #[serde(rename = "else", skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    or: Option<String>,
    #[serde(skip_serializing_if = "is_random")]
    order: Pick,
}

fn is_random(pick: &Pick) -> bool {
    *pick == Pick::Random
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    Ok(Some(Vec::<Text>::deserialize(deserializer)?.into_iter().map(|text| text.0).collect()))
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Text::deserialize(deserializer).map(|text| Some(text.0))
}

impl SourceFile {
    fn source(self) -> Result<Source, String> {
        let pick = self.order;
        let kinds = usize::from(self.int.is_some())
            + usize::from(self.list.is_some())
            + usize::from(self.csv.is_some())
            + usize::from(self.counter.is_some())
            + usize::from(self.captured.is_some());
        if kinds != 1 {
            return Err("a param needs exactly one of int, list, csv, counter and captured".to_owned());
        }
        if self.column.is_some() != self.csv.is_some() {
            return Err("csv and column go together: {csv: users.csv, column: name}".to_owned());
        }
        if self.or.is_some() && self.captured.is_none() {
            return Err("else belongs to captured: {captured: token, else: none}".to_owned());
        }
        Ok(match (self.int, self.list, self.csv, self.counter, self.captured) {
            (Some((from, to)), ..) if from > to => return Err(format!("int: [{from}, {to}] is an empty range")),
            (Some((from, to)), ..) => Source::Int { from, to, pick },
            (_, Some(values), ..) if values.is_empty() => return Err("list: [] has no value".to_owned()),
            (_, Some(values), ..) => Source::List { values, pick },
            (_, _, Some(file), ..) => Source::Csv { file, column: self.column.unwrap_or_default(), pick },
            (_, _, _, Some(first), _) => Source::Counter(first),
            (.., captured) => Source::Captured { name: captured.unwrap_or_default(), or: self.or },
        })
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Source;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, or {int: [1, 9]}, {list: [..]}, {csv: FILE, column: NAME}, {counter: 1} or {captured: NAME}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Source, E> {
                Scalar.visit_str(text).map(Source::Fixed)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Source, E> {
                Scalar.visit_i64(number).map(Source::Fixed)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Source, E> {
                Scalar.visit_u64(number).map(Source::Fixed)
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Source, E> {
                Scalar.visit_f64(number).map(Source::Fixed)
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Source, E> {
                Scalar.visit_bool(value).map(Source::Fixed)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Source, A::Error> {
                SourceFile::deserialize(MapAccessDeserializer::new(map))?.source().map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut file = SourceFile::default();
        match self.clone() {
            Source::Fixed(value) => return serializer.serialize_str(&value),
            Source::Int { from, to, pick } => (file.int, file.order) = (Some((from, to)), pick),
            Source::List { values, pick } => (file.list, file.order) = (Some(values), pick),
            Source::Csv { file: path, column, pick } => {
                (file.csv, file.column, file.order) = (Some(path), Some(column), pick);
            }
            Source::Counter(first) => file.counter = Some(first),
            Source::Captured { name, or } => (file.captured, file.or) = (Some(name), or),
        }
        file.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer)?.0.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Statuses::One(status) => serializer.serialize_u16(*status),
            Statuses::Class(class) => serializer.serialize_str(&format!("{class}xx")),
        }
    }
}

struct Rate(f64);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        units::rate(&Text::deserialize(deserializer)?.0).map(Rate).map_err(de::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RampFile {
    from: Rate,
    to: Rate,
}

impl<'de> Deserialize<'de> for Rates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Rates;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate such as 500/s, or {from: 10/s, to: 500/s}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Rates, E> {
                units::rate(text).map(Rates::Constant).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Rates, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Rates, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Rates, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rates, A::Error> {
                let ramp = RampFile::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Rates::Ramp { from: ramp.from.0, to: ramp.to.0 })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Rates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let text = |rate: f64| format!("{rate}/s");
        match *self {
            Rates::Constant(rate) => serializer.serialize_str(&text(rate)),
            Rates::Ramp { from, to } => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("from", &text(from))?;
                map.serialize_entry("to", &text(to))?;
                map.end()
            }
        }
    }
}
