//! Members of schemas stay in the order of the client: models fill members in the order in which they are described.
//!
//! A [`Value`] knows no order. It is read from the client's text once more, for the members that hold schemas only, and found again by what an
//! object holds: translation moves schemas and changes nothing in them.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Members of requests with schemas in them, in all APIs.
const WITH_SCHEMAS: [&str; 5] = ["tools", "response_format", "output_config", "generationConfig", "generation_config"];

/// A translated request as text; `source` is the client's.
pub fn to_text(body: &Value, source: &[u8]) -> Vec<u8> {
    let Value::Object(members) = body else { return body.to_string().into_bytes() };
    let has_schema = |name: &&str| match members.get(*name) {
        // It is there for other reasons too.
        Some(config) if *name == "generationConfig" => !config["responseJsonSchema"].is_null(),
        member => member.is_some(),
    };
    let orders = if WITH_SCHEMAS.iter().any(has_schema) { Orders::of(source) } else { None };
    let Some(orders) = orders.filter(|orders| !orders.by_content.is_empty()) else {
        return body.to_string().into_bytes();
    };
    let mut out = String::from("{");
    for (name, value) in members {
        separate(&mut out);
        push_name(name, &mut out);
        if WITH_SCHEMAS.contains(&name.as_str()) {
            let mut contents = HashMap::new();
            orders.content(value, &mut contents);
            orders.write(value, &contents, &mut out);
        } else {
            out.push_str(&value.to_string());
        }
    }
    out.push('}');
    out.into_bytes()
}

/// Names in the order of the client, by a hash of what the object holds; only where that is not the alphabet's.
#[derive(Default)]
struct Orders {
    hasher: RandomState,
    by_content: HashMap<u64, Vec<String>>,
}

impl Orders {
    fn of(source: &[u8]) -> Option<Self> {
        let members: HashMap<String, &RawValue> = serde_json::from_slice(source).ok()?;
        let mut orders = Orders::default();
        for text in WITH_SCHEMAS.iter().filter_map(|name| members.get(*name)) {
            let mut json = serde_json::Deserializer::from_str(text.get());
            Seed(&mut orders).deserialize(&mut json).ok()?;
        }
        Some(orders)
    }

    fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    /// The same whatever the order of the members.
    fn object(&self, mut members: Vec<(&str, u64)>) -> u64 {
        members.sort_unstable();
        self.hash(("object", members))
    }

    fn number(&self, number: &serde_json::Number) -> u64 {
        match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => self.hash(number),
            (None, Some(number)) => self.hash(number),
            (None, None) => self.hash(("float", number.as_f64().unwrap_or_default().to_bits())),
        }
    }

    /// The hash of a value; those of objects are noted by where they are.
    fn content(&self, value: &Value, contents: &mut HashMap<*const Map<String, Value>, u64>) -> u64 {
        match value {
            Value::Null => self.hash("null"),
            Value::Bool(value) => self.hash(("bool", value)),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.hash(("text", text.as_str())),
            Value::Array(items) => {
                let mut hasher = self.hasher.build_hasher();
                items.iter().for_each(|item| self.content(item, contents).hash(&mut hasher));
                hasher.finish()
            }
            Value::Object(members) => {
                let hashes = members.iter().map(|(name, value)| (name.as_str(), self.content(value, contents)));
                let hash = self.object(hashes.collect());
                contents.insert(members, hash);
                hash
            }
        }
    }

    fn write(&self, value: &Value, contents: &HashMap<*const Map<String, Value>, u64>, out: &mut String) {
        match value {
            Value::Array(items) => {
                out.push('[');
                for item in items {
                    separate(out);
                    self.write(item, contents, out);
                }
                out.push(']');
            }
            Value::Object(members) => {
                let pointer: *const Map<String, Value> = members;
                let order = contents.get(&pointer).and_then(|content| self.by_content.get(content));
                let is_same = |order: &&Vec<String>| {
                    order.len() == members.len() && order.iter().all(|name| members.contains_key(name))
                };
                let names: Vec<&String> = match order.filter(is_same) {
                    Some(order) => order.iter().collect(),
                    None => members.keys().collect(),
                };
                out.push('{');
                for name in names {
                    separate(out);
                    push_name(name, out);
                    self.write(&members[name], contents, out);
                }
                out.push('}');
            }
            other => out.push_str(&other.to_string()),
        }
    }
}

/// A comma, unless it would stand at the start.
fn separate(out: &mut String) {
    if !out.ends_with(['{', '[']) {
        out.push(',');
    }
}

fn push_name(name: &str, out: &mut String) {
    out.push_str(&Value::from(name).to_string());
    out.push(':');
}

/// Reads a value for its hash.
struct Seed<'o>(&'o mut Orders);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = u64;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(self.0.hash("null"))
    }
    fn visit_bool<E>(self, value: bool) -> Result<u64, E> {
        Ok(self.0.hash(("bool", value)))
    }
    fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
        Ok(self.0.number(&number.into()))
    }
    fn visit_i64<E>(self, number: i64) -> Result<u64, E> {
        Ok(self.0.number(&number.into()))
    }
    fn visit_f64<E>(self, number: f64) -> Result<u64, E> {
        Ok(self.0.hash(("float", number.to_bits())))
    }
    fn visit_str<E>(self, text: &str) -> Result<u64, E> {
        Ok(self.0.hash(("text", text)))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u64, A::Error> {
        let mut hasher = self.0.hasher.build_hasher();
        while let Some(item) = items.next_element_seed(Seed(&mut *self.0))? {
            item.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<u64, A::Error> {
        let (mut names, mut found) = (Vec::new(), HashMap::new());
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Seed(&mut *self.0))?;
            names.push(name.clone());
            // Of members of one name the last one counts, as in a `Value`.
            found.insert(name, value);
        }
        let hash = self.0.object(found.iter().map(|(name, hash)| (name.as_str(), *hash)).collect());
        if names.len() == found.len() && !names.is_sorted() {
            self.0.by_content.insert(hash, names);
        }
        Ok(hash)
    }
}
