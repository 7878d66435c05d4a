//! Attributes come as strings; stored they are JSON.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use producer_core::json;
use serde_json::value::RawValue;

/// The text of the JSON object that a map of attributes is stored as.
pub(crate) fn object(attributes: &HashMap<String, String>) -> String {
    let size: usize = attributes.iter().map(|(key, value)| key.len() + value.len() + 6).sum();
    let mut out = String::with_capacity(size + 2);
    out.push('{');
    for (index, (key, value)) in attributes.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        json::quote(key, &mut out);
        out.push(':');
        match structured(value) {
            Some(value) => out.push_str(value),
            None => json::quote(value, &mut out),
        }
    }
    out.push('}');
    out
}

/// The JSON number, boolean, null, object or array that `text` is; none for anything else, a quoted JSON string included.
fn structured(text: &str) -> Option<&str> {
    let first = text.trim_start_matches([' ', '\t', '\n', '\r']).bytes().next()?;
    if !matches!(first, b'-' | b'0'..=b'9' | b't' | b'f' | b'n' | b'{' | b'[') {
        return None;
    }
    // Half a surrogate pair is a text that JSON's grammar passes and no store takes. What nests deeper than a whole REST
    // body may is not parsed at all.
    let found = json::scan(text.as_bytes());
    if found.lone_surrogate || found.depth > json::BODY_DEPTH {
        return None;
    }
    Some(serde_json::from_str::<&RawValue>(text).ok()?.get())
}
