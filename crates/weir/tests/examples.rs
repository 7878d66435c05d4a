//! Every example is a configuration that this build accepts, and one that the published schema accepts.

use std::path::{Path, PathBuf};

use serde_json::Value;
use weir::config::{Loaded, load_file, load_text, schema};

fn examples() -> Vec<(PathBuf, Loaded)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weir");
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let yaml = paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let load = |path: PathBuf| {
        let loaded = load_file(&path, &|_| None).unwrap_or_else(|error| panic!("{error}"));
        (path, loaded)
    };
    yaml.map(load).collect()
}

#[test]
fn every_example_is_accepted() {
    assert!(examples().len() >= 8);
}

#[test]
fn what_is_printed_of_an_example_means_the_same() {
    for (path, loaded) in examples() {
        let again = load_text(&path.display().to_string(), &loaded.file.to_yaml(), &|_| None)
            .unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(again.file, loaded.file, "{}", path.display());
        assert_eq!(again.config, loaded.config, "{}", path.display());
    }
}

#[test]
fn every_example_is_valid_by_the_published_schema() {
    let schema: Value = serde_json::from_str(&schema::json_schema()).unwrap();
    for (path, loaded) in examples() {
        let instance = serde_json::to_value(&loaded.file).unwrap();
        if let Err(problem) = validate(&schema, &schema, &instance) {
            panic!("{}: {problem}", path.display());
        }
    }
}

#[test]
fn the_published_schema_is_as_strict_as_the_gateway() {
    let schema: Value = serde_json::from_str(&schema::json_schema()).unwrap();
    let base = r#"{"listen": "127.0.0.1:0", "routes": [{"match": {"path": "/"}, "respond": {"body": "x"}}]}"#;
    let with = |pointer: &str, value: Value| {
        let mut instance: Value = serde_json::from_str(base).unwrap();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        instance.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(key.to_owned(), value);
        instance
    };
    assert_eq!(validate(&schema, &schema, &serde_json::from_str(base).unwrap()), Ok(()));
    for (pointer, good, bad) in [
        ("/listen", "[\"127.0.0.1:0\", \"[::1]:80\"]", "\":8080\""),
        ("/listen", "\"${LISTEN:-127.0.0.1:80}\"", "\"localhost:80\""),
        ("/workers", "4", "0"),
        ("/workers", "\"auto\"", "\"many\""),
        ("/admin", "\"none\"", "null"),
        ("/server", "{\"body\": \"1MiB\", \"fields\": 5}", "{\"body\": 5}"),
        ("/server", "{\"drain\": \"none\"}", "{\"drain\": \"5\"}"),
        ("/access_log", "{\"path\": \"stdout\", \"sample\": \"0.5%\"}", "{\"sample\": \"5%\"}"),
        ("/upstreams", "{\"a\": {\"targets\": [\"http://a\", {\"url\": \"http://b\", \"weight\": 2}]}}", "{\"a\": {}}"),
        (
            "/upstreams",
            "{\"a\": {\"targets\": [\"http://a\"], \"balance\": {\"hash\": \"path\"}}}",
            "{\"a\": {\"targets\": [\"a\"]}}",
        ),
        (
            "/upstreams",
            "{\"a\": {\"targets\": [\"http://a\"], \"retry\": {\"on\": [\"reset\", 502]}}}",
            "{\"a\": {\"targets\": [\"http://a\"], \"retry\": {\"on\": [500]}}}",
        ),
        ("/unknown", "", "1"),
    ] {
        if !good.is_empty() {
            let instance = with(pointer, serde_json::from_str(good).unwrap());
            assert_eq!(validate(&schema, &schema, &instance), Ok(()), "{pointer}: {good}");
        }
        let instance = with(pointer, serde_json::from_str(bad).unwrap());
        assert!(validate(&schema, &schema, &instance).is_err(), "{pointer}: {bad}");
    }
}

/// As much of JSON Schema as the published one uses; any other keyword is an error, so that none is overlooked.
fn validate(root: &Value, schema: &Value, instance: &Value) -> Result<(), String> {
    let fail = |why: &str| Err(format!("{why}: {instance}"));
    let rules = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Object(rules) => rules,
        _ => return fail("no key is allowed here"),
    };
    for (keyword, rule) in rules {
        match (keyword.as_str(), instance) {
            ("$schema" | "$id" | "$defs" | "title" | "description" | "default" | "format" | "required", _) => {}
            ("$ref", _) => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                validate(root, root.pointer(pointer).unwrap(), instance)?;
            }
            ("anyOf" | "oneOf", _) => {
                let choices = rule.as_array().unwrap();
                let errors: Vec<String> =
                    choices.iter().filter_map(|choice| validate(root, choice, instance).err()).collect();
                if errors.len() == choices.len() {
                    return Err(errors.join(" | "));
                }
                if keyword == "oneOf" && errors.len() + 1 != choices.len() {
                    return fail("more than one fits");
                }
            }
            ("const", _) if rule != instance => return fail("not the constant"),
            ("enum", _) if !rule.as_array().unwrap().contains(instance) => return fail("not one of the words"),
            ("const" | "enum", _) => {}
            ("type", _) => {
                let types = rule.as_array().map_or(vec![rule], |types| types.iter().collect());
                if !types.iter().any(|name| has_type(name.as_str().unwrap(), instance)) {
                    return fail(&format!("not of type {rule}"));
                }
            }
            ("pattern", Value::String(text)) => {
                if !regex_lite::Regex::new(rule.as_str().unwrap()).unwrap().is_match(text) {
                    return fail(&format!("does not match {rule}"));
                }
            }
            ("minimum", Value::Number(number)) if number.as_f64() < rule.as_f64() => return fail("too small"),
            ("maximum", Value::Number(number)) if number.as_f64() > rule.as_f64() => return fail("too large"),
            ("items", Value::Array(items)) => items.iter().try_for_each(|item| validate(root, rule, item))?,
            ("properties", Value::Object(_)) | ("additionalProperties", Value::Object(_)) => {}
            ("pattern" | "minimum" | "maximum" | "items" | "properties" | "additionalProperties", _) => {}
            (other, _) => return Err(format!("the test does not know the keyword `{other}`")),
        }
    }
    let Value::Object(object) = instance else { return Ok(()) };
    for key in rules.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !object.contains_key(key.as_str().unwrap()) {
            return fail(&format!("{key} is missing"));
        }
    }
    let known = rules.get("properties").and_then(Value::as_object);
    for (key, value) in object {
        let rule = known.and_then(|known| known.get(key)).or(rules.get("additionalProperties"));
        if let Some(rule) = rule {
            validate(root, rule, value).map_err(|problem| format!("{key}: {problem}"))?;
        }
    }
    Ok(())
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        _ => false,
    }
}
