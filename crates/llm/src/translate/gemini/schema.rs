//! Gemini's `Schema`, which follows OpenAPI 3.0, as JSON Schema.

use super::super::drop_hint;
use super::to_chat::camel;
use serde_json::{Map, Value, json};

/// Deeper schemas stay as they are; the scanner of requests permits less.
const DEPTH: u32 = 128;

/// A schema whose types are in capitals (`STRING`), with `nullable` and with numbers as texts.
pub(super) fn to_json_schema(schema: &Value, dropped: &mut Vec<String>) -> Value {
    convert(schema, DEPTH, dropped)
}

fn convert(schema: &Value, depth: u32, dropped: &mut Vec<String>) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let Some(depth) = depth.checked_sub(1) else { return schema.clone() };
    let mut out = Map::new();
    let mut is_nullable = false;
    for (name, value) in members {
        let name = camel(name);
        let value = match (name.as_str(), value) {
            ("nullable", value) => {
                is_nullable = value == true;
                continue;
            }
            // Members have no order in JSON Schema.
            ("propertyOrdering", _) => {
                drop_hint(dropped, &name);
                continue;
            }
            ("type", Value::String(kind)) => kind.to_ascii_lowercase().into(),
            ("properties", Value::Object(properties)) => {
                let each = properties.iter().map(|(name, value)| (name.clone(), convert(value, depth, dropped)));
                Value::Object(each.collect())
            }
            ("items", value) => convert(value, depth, dropped),
            ("anyOf", Value::Array(list)) => list.iter().map(|value| convert(value, depth, dropped)).collect(),
            // protocol-buffer JSON writes 64 bits as text
            (
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties",
                Value::String(number),
            ) => number.parse::<u64>().map_or_else(|_| value.clone(), Value::from),
            _ => value.clone(),
        };
        out.insert(name, value);
    }
    if is_nullable {
        if let Some(kind @ Value::String(_)) = out.get("type").cloned() {
            out.insert("type".into(), json!([kind, "null"]));
        } else if let Some(Value::Array(list)) = out.get_mut("anyOf") {
            list.push(json!({"type": "null"}));
        }
    }
    out.into()
}
