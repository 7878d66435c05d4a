//! A tree with keys in the order in which they are put there, and its two renderings.

use super::Syntax;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value as Json;

/// A value to be written.
#[derive(Debug)]
pub(crate) enum Out {
    Json(Json),
    List(Vec<Out>),
    Map(Vec<(String, Out)>),
}

impl Serialize for Out {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Out::Json(json) => json.serialize(serializer),
            Out::List(items) => items.serialize(serializer),
            Out::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl From<&str> for Out {
    fn from(text: &str) -> Self {
        Out::Json(text.into())
    }
}
impl From<bool> for Out {
    fn from(b: bool) -> Self {
        Out::Json(b.into())
    }
}
impl From<u64> for Out {
    fn from(n: u64) -> Self {
        Out::Json(n.into())
    }
}

/// A mapping.
pub(crate) fn map<K: Into<String>>(entries: impl IntoIterator<Item = (K, Out)>) -> Out {
    Out::Map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// A list.
pub(crate) fn list(items: impl IntoIterator<Item = Out>) -> Out {
    Out::List(items.into_iter().collect())
}

/// Data as it is.
pub(crate) fn example(json: &Json) -> Out {
    Out::Json(json.clone())
}

/// The text of anything that serde can write.
pub(super) fn render(value: &impl Serialize, syntax: Syntax) -> String {
    // Maps with text as keys cannot fail to be written to memory.
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    match syntax {
        Syntax::Json => json + "\n",
        Syntax::Yaml => serde_saphyr::to_string(value).unwrap_or(json),
    }
}
