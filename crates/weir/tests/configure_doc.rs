//! `docs/configure.md` names every key with the default that the code has.

use std::collections::BTreeMap;

use serde_json::Value;
use weir::config::schema;

const DOCUMENT: &str = include_str!("../../../docs/configure.md");

/// Keys of mappings that stand within a value of another key; they are described with that.
const INLINE: [&str; 18] = [
    "access_log.format.template",
    // One listener without a list has the keys of `listen.*`.
    "listen.bind",
    "listen.http2",
    "upstreams.*.balance.hash",
    "upstreams.*.balance.cookie",
    "upstreams.*.balance.cookie.name",
    "upstreams.*.balance.cookie.secret",
    "upstreams.*.balance.inference",
    "upstreams.*.targets.file",
    "upstreams.*.targets.*.url",
    "upstreams.*.targets.*.weight",
    "limits.*.cost.header",
    "limits.*.missing_key.status",
    "limits.*.missing_key.body",
    "routes.*.match.headers.*.regex",
    "routes.*.match.headers.*.present",
    "routes.*.match.query.*.regex",
    "routes.*.match.query.*.present",
];

/// Every key of the schema as a path, with its default as the document writes it.
fn keys(root: &Value, schema: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
        return keys(root, root.pointer(&pointer[1..]).unwrap(), path, found);
    }
    for choices in ["anyOf", "oneOf"] {
        for choice in schema.get(choices).and_then(Value::as_array).into_iter().flatten() {
            keys(root, choice, path, found);
        }
    }
    for many in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(many).filter(|inner| inner.is_object()) {
            keys(root, inner, &format!("{path}.*"), found);
        }
    }
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{key}");
        let default = match property.get("default") {
            _ if required.contains(&key.as_str()) => "required".to_owned(),
            None => "absent".to_owned(),
            Some(default) => written(default),
        };
        found.insert(path.trim_start_matches('.').to_owned(), default);
        keys(root, property, &path, found);
    }
}

fn written(default: &Value) -> String {
    match default {
        Value::String(text) => format!("`{text}`"),
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(|item| item.as_str().unwrap().to_owned()).collect();
            format!("`[{}]`", list.join(", "))
        }
        Value::Object(_) => "below".to_owned(),
        other => format!("`{other}`"),
    }
}

/// Every row of the document's tables below a heading that names a part of the file.
fn rows() -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    let mut part = None;
    for line in DOCUMENT.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            let heading = heading.trim_start_matches('#').trim();
            part = match heading {
                "Top level" => Some(String::new()),
                _ => heading.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).map(|path| format!("{path}.")),
            };
        }
        let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
        if let (Some(part), [key, default, effect]) = (&part, cells.as_slice())
            && let Some(key) = key.strip_prefix('`').and_then(|key| key.strip_suffix('`'))
        {
            assert!(!effect.is_empty(), "{part}{key} has no effect");
            let before = rows.insert(format!("{part}{key}"), (*default).to_owned());
            assert_eq!(before, None, "{part}{key} is there twice");
        }
    }
    rows
}

#[test]
fn every_key_is_documented_with_its_default() {
    let root: Value = serde_json::from_str(&schema::json_schema()).unwrap();
    let mut known = BTreeMap::new();
    keys(&root, &root, "", &mut known);
    // Described once, where routes or `windows` have them.
    let again = [
        "defaults.compress.",
        "defaults.errors.",
        "routes.*.headers.response.",
        "limits.*.tiers.",
        "apis.*.headers.",
        "apis.*.timeouts.",
        "apis.*.cors.",
        "apis.*.split.",
    ];
    // One listener without brackets has the keys of one in a list.
    known.retain(|path, _| !path.starts_with("listen.") || path.starts_with("listen.*."));
    known.retain(|path, _| !INLINE.contains(&path.as_str()) && !again.iter().any(|part| path.starts_with(part)));
    // An empty list or mapping says as much as no default.
    let documented = rows();
    for (path, default) in &known {
        let row = documented.get(path).unwrap_or_else(|| panic!("`{path}` is not documented"));
        let same = row == default || (row == "absent" && matches!(default.as_str(), "`[]`" | "`none`" | "below"));
        assert!(same, "`{path}`: the default is {default}, the document says {row}");
    }
    for path in documented.keys() {
        assert!(known.contains_key(path), "`{path}` is documented, but there is no such key");
    }
    assert!(known.len() > 110, "{} keys", known.len());
}
