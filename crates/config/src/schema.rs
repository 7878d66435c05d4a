//! The JSON Schema of a configuration file, for editors and other tools.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value, json};

use super::raw::File;

/// The schema, as text (JSON Schema draft 2020-12).
pub fn json_schema() -> String {
    let settings = SchemaSettings::draft2020_12().with_transform(RefuseNull).with_transform(AllowVariables);
    let mut schema = settings.into_generator().into_root_schema_for::<File>();
    schema.insert("title".to_owned(), "Configuration of Weir".into());
    // The keys of a minor version: a name, not an address.
    let minor = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
    schema.insert("$id".to_owned(), format!("urn:weir:configuration:{minor}").into());
    let variable = json!({
        "description": "A value in which `${VAR}` or `${VAR:-default}` is replaced by an environment variable.",
        "type": "string",
        "pattern": "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}"
    });
    if let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        definitions.insert("Variable".to_owned(), variable);
    }
    // Sorted, so that the text does not depend on a feature of the library that some other crate of the build may switch on.
    let mut text = format!("{:#}", sorted(schema.to_value()));
    text.push('\n');
    text
}

/// The same value with the members of every object in the order of their names.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut members: Vec<(String, Value)> = object.into_iter().collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            members.into_iter().map(|(name, value)| (name, sorted(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        value => value,
    }
}

/// A key without a value is refused: what is not wanted is left out.
#[derive(Clone)]
struct RefuseNull;

impl Transform for RefuseNull {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_mut_slice() {
                let only = only.take();
                object.insert("type".to_owned(), only);
            }
        }
        let null = json!({"type": "null"});
        if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
            choices.retain(|choice| *choice != null);
            if let [Value::Object(only)] = choices.as_mut_slice() {
                let only = std::mem::take(only);
                object.remove("anyOf");
                // The description of the key says more than that of its type.
                for (key, value) in only {
                    object.entry(key).or_insert(value);
                }
            }
        }
    }
}

/// A variable may stand wherever a single value stands. Where the value has a grammar, the schema has to say so.
#[derive(Clone)]
struct AllowVariables;

impl Transform for AllowVariables {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let single = match schema.get("type") {
            Some(Value::String(name)) => {
                matches!(name.as_str(), "integer" | "number" | "boolean") || schema.get("pattern").is_some()
            }
            Some(Value::Array(_)) => true,
            _ => schema.get("enum").is_some() || is_list_of_words(schema),
        };
        if !single {
            return;
        }
        let Some(object) = schema.as_object_mut() else { return };
        let (about, rule) = std::mem::take(object).into_iter().partition::<serde_json::Map<_, _>, _>(|(key, _)| {
            matches!(key.as_str(), "description" | "default" | "title")
        });
        *object = about;
        object.insert("anyOf".to_owned(), json!([rule, {"$ref": "#/$defs/Variable"}]));
    }
}

/// An enumeration in which each word has a description of its own.
fn is_list_of_words(schema: &Schema) -> bool {
    let words = schema.get("oneOf").and_then(Value::as_array);
    words.is_some_and(|words| words.iter().all(|word| word.get("const").is_some()))
}

#[cfg(test)]
mod tests;
