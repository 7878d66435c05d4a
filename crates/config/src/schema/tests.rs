use std::path::Path;

use super::*;

#[test]
fn the_published_schema_is_the_one_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/weir.schema.json");
    if std::env::var_os("WEIR_UPDATE").is_some() {
        std::fs::write(&path, json_schema()).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == json_schema(),
        "docs/weir.schema.json is not what the code says; refresh it with: WEIR_UPDATE=1 cargo test -p weir schema"
    );
}

/// Every object of the schema with the place where it stands.
fn each(value: &Value, at: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(at, value);
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| each(value, &format!("{at}/{key}"), visit)),
        Value::Array(list) => list.iter().enumerate().for_each(|(n, value)| each(value, &format!("{at}/{n}"), visit)),
        _ => {}
    }
}

#[test]
fn nothing_may_be_null() {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    each(&schema, "", &mut |at, value| assert!(value != "null" && !value.is_null(), "{at}"));
}

#[test]
fn every_key_has_a_description() {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    let mut keys = 0;
    each(&schema, "", &mut |at, value| {
        if let Some(properties) = value.get("properties").and_then(Value::as_object) {
            for (key, property) in properties {
                keys += 1;
                // The one key of a variant is described with the variant.
                let described = property.get("description").or(value.get("description"));
                assert!(described.is_some(), "{at}/{key}: {property}");
            }
            assert_eq!(value.get("additionalProperties"), Some(&Value::Bool(false)), "{at} takes unknown keys");
        }
    });
    assert!(keys > 100, "{keys} keys");
}
