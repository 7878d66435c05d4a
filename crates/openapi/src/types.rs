//! Which types a schema allows: what a text in a query can stand for.

use std::collections::BTreeMap;

use serde_json::Value;

/// References and compositions that are followed.
const MOST_STEPS: usize = 16;

/// A set of the types of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const NONE: Types = Types(0);
    pub(crate) const STRING: Types = Types(1);
    pub(crate) const NUMBER: Types = Types(2);
    pub(crate) const BOOLEAN: Types = Types(4);
    pub(crate) const NULL: Types = Types(8);
    pub(crate) const ARRAY: Types = Types(16);
    pub(crate) const OBJECT: Types = Types(32);
    pub(crate) const ANY: Types = Types(63);

    /// Each type with its name.
    pub(crate) const NAMES: [(Types, &'static str); 6] = [
        (Types::STRING, "string"),
        (Types::NUMBER, "number"),
        (Types::BOOLEAN, "boolean"),
        (Types::NULL, "null"),
        (Types::ARRAY, "array"),
        (Types::OBJECT, "object"),
    ];

    pub(crate) fn has(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn has_scalars(self) -> bool {
        self.has(Types(15))
    }

    fn with(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    fn both(self, other: Types) -> Types {
        Types(self.0 & other.0)
    }

    fn named(name: &str) -> Types {
        match name {
            "string" => Types::STRING,
            "integer" | "number" => Types::NUMBER,
            "boolean" => Types::BOOLEAN,
            "null" => Types::NULL,
            "array" => Types::ARRAY,
            "object" => Types::OBJECT,
            _ => Types::ANY,
        }
    }

    fn of_value(value: &Value) -> Types {
        match value {
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOLEAN,
            Value::Number(_) => Types::NUMBER,
            Value::String(_) => Types::STRING,
            Value::Array(_) => Types::ARRAY,
            Value::Object(_) => Types::OBJECT,
        }
    }

    /// Types of a schema, and of its items; `resolve` gives what a reference means.
    pub(crate) fn of<'s>(schema: &'s Value, resolve: &dyn Fn(&str) -> Option<&'s Value>) -> (Types, Types) {
        let mut items = Types::NONE;
        let own = walk(schema, resolve, 0, &mut items);
        (own, if items == Types::NONE { Types::ANY } else { items })
    }
}

fn walk<'s>(schema: &'s Value, resolve: &dyn Fn(&str) -> Option<&'s Value>, depth: usize, items: &mut Types) -> Types {
    let Some(object) = schema.as_object().filter(|_| depth < MOST_STEPS) else { return Types::ANY };
    let mut types = match object.get("type") {
        Some(Value::String(name)) => Types::named(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).fold(Types::NONE, |all, name| all.with(Types::named(name)))
        }
        _ => Types::ANY,
    };
    if let Some(values) = object.get("enum").and_then(Value::as_array) {
        types = types.both(values.iter().fold(Types::NONE, |all, value| all.with(Types::of_value(value))));
    }
    if let Some(value) = object.get("const") {
        types = types.both(Types::of_value(value));
    }
    if let Some(inner) = object.get("items") {
        *items = items.with(walk(inner, resolve, depth + 1, &mut Types::NONE.clone()));
    }
    if let Some(target) = object.get("$ref").and_then(Value::as_str).and_then(resolve) {
        types = types.both(walk(target, resolve, depth + 1, items));
    }
    for all in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        types = types.both(walk(all, resolve, depth + 1, items));
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(branches) = object.get(keyword).and_then(Value::as_array) {
            let any = branches.iter().fold(Types::NONE, |any, one| any.with(walk(one, resolve, depth + 1, items)));
            types = types.both(any);
        }
    }
    types
}

/// Types of the properties that a schema names, and of their items.
pub(crate) fn properties<'s>(
    schema: &'s Value,
    resolve: &dyn Fn(&str) -> Option<&'s Value>,
    depth: usize,
    found: &mut BTreeMap<String, (Types, Types)>,
) {
    let Some(object) = schema.as_object().filter(|_| depth < MOST_STEPS) else { return };
    for (name, property) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
        found.entry(name.clone()).or_insert_with(|| Types::of(property, resolve));
    }
    let target = object.get("$ref").and_then(Value::as_str).and_then(resolve);
    let parts = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| object.get(keyword)?.as_array()).flatten();
    for part in target.into_iter().chain(parts) {
        properties(part, resolve, depth + 1, found);
    }
}
