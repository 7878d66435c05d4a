//! `docs/configure.md` names every key with the type and the default that the code has. `WEIR_UPDATE=1` writes the types anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex_lite::Regex;
use serde_json::Value;
use weir::config::schema;

const DOCUMENT: &str = include_str!("../../../docs/configure.md");

/// Keys of mappings that stand within a value of another key; they are described with that.
const INLINE: [&str; 17] = [
    "access_log.format.template",
    // One listener without a list has the keys of `listen.*`.
    "listen.bind",
    "listen.http2",
    "upstreams.*.balance.hash",
    "upstreams.*.balance.cookie",
    "upstreams.*.balance.cookie.name",
    "upstreams.*.balance.cookie.secret",
    "upstreams.*.balance.inference",
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

/// What stands between the alternatives of a type. A bare `|` would end the cell.
const OR: &str = r" \| ";

/// Words for definitions of the schema. The section "Types" describes them.
const NAMED: [(&str, &str); 36] = [
    ("Address", "address"),
    ("Age", "duration"),
    ("Bind", "listen address"),
    ("CertificateName", "attribute"),
    ("CertificatePart", "attribute"),
    ("CookieName", "name"),
    ("CredentialPlace", "attribute"),
    ("FieldName", "field name"),
    ("FieldValue", "string"),
    ("FileMode", "file mode"),
    ("GrpcStatusRange", "gRPC status range"),
    ("HashKey", "attribute"),
    ("Host", "host"),
    ("IdentityPart", "attribute"),
    ("KubernetesService", "Service of Kubernetes"),
    ("LimitKey", "attribute"),
    ("Method", "method"),
    ("Name", "name"),
    ("Network", "network"),
    ("PartitionKey", "attribute"),
    ("Path", "path pattern"),
    ("Pattern", "regex"),
    ("Protocol", "protocol"),
    ("Rate", "rate"),
    ("Redaction", r"`email` \| `phone` \| `card` \| `iban` \| `/REGEX/`"),
    ("RetryCause", "word"),
    ("Share", "share"),
    ("Size", "size"),
    ("SplitKey", "attribute"),
    ("StatusRange", "status range"),
    ("TargetUrl", "target URL"),
    ("Time", "duration"),
    ("Timezone", "time zone"),
    ("TrustedProxy", r"network \| `unix:`"),
    ("VerdictKey", "attribute"),
    ("Window", r"duration \| `day` \| `month`"),
];

/// Words for texts and numbers whose form the schema leaves open, by the end of the key's path; the first that fits counts.
const OPEN: [(&str, &str); 38] = [
    (".access_log.path", r"`stdout` \| file path \| `syslog+unix:PATH`"),
    (".apis.*.base", r"`from_spec` \| URL path"),
    (".auth", "name"),
    (".base", "URL path"),
    (".ca", "file path"),
    (".cache", "name"),
    (".cert", "file path"),
    (".certificates.*.key", "file path"),
    (".client_cert.key", "file path"),
    (".crl", "file path"),
    (".endpoint", "URL"),
    (".fallback", "name"),
    (".file", "file path"),
    (".hosts", "host"),
    (".jwks.roots", "file path"),
    (".jwks.url", r"`discover` \| URL"),
    (".limits", "name"),
    (".listen.*.name", "name"),
    (".match.listener", "name"),
    (".origins", "origin"),
    (".path", "URL path"),
    (".prefix", "URL path"),
    (".prices", "file path"),
    (".provider", "name"),
    (".redirect.host", "host"),
    (".redirect.scheme", r"`http` \| `https`"),
    (".redirect.to", r"URL \| URL path"),
    (".rewrite.host", "host"),
    (".server_name", "host"),
    (".spec", "file path"),
    (".status", "status"),
    (".takeover", "file path"),
    (".targets.address", "URL"),
    (".tls.roots", r"`system` \| file path"),
    (".types", "media type"),
    (".upstream", "name"),
    (".upstream_base", "URL path"),
    (".url", "URL"),
];

/// What the document says of a key beside its effect.
struct Key {
    /// Its type, in the words of the section "Types".
    kind: String,
    /// Its default.
    default: String,
}

/// Every key of the schema as a path, as the document has to write it.
fn keys(root: &Value, schema: &Value, path: &str, found: &mut BTreeMap<String, Key>) {
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
        return keys(root, root.pointer(&pointer[1..]).unwrap(), path, found);
    }
    for choice in list(schema, "anyOf").chain(list(schema, "oneOf")) {
        keys(root, choice, path, found);
    }
    for many in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(many).filter(|inner| inner.is_object()) {
            keys(root, inner, &format!("{path}.*"), found);
        }
    }
    let required: Vec<&str> = list(schema, "required").filter_map(Value::as_str).collect();
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{key}");
        let default = match property.get("default") {
            _ if required.contains(&key.as_str()) => "required".to_owned(),
            None => "absent".to_owned(),
            Some(default) => written(default),
        };
        let kind = type_of(root, property, &path);
        found.insert(path.trim_start_matches('.').to_owned(), Key { kind, default });
        keys(root, property, &path, found);
    }
}

/// The items of a list that a schema may have.
fn list<'a>(schema: &'a Value, name: &'static str) -> impl Iterator<Item = &'a Value> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The type of the values of a schema: its alternatives, with `none` at the end.
fn type_of(root: &Value, schema: &Value, path: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in alternatives(root, schema, path) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    let none = parts.iter().any(|part| part == "`none`");
    parts.retain(|part| part != "`none`");
    format!("{}{}", parts.join(OR), if none { " or `none`" } else { "" })
}

/// The words for what a value may be; some may be there twice.
fn alternatives(root: &Value, schema: &Value, path: &str) -> Vec<String> {
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
        let name = pointer.trim_start_matches("#/$defs/");
        return match NAMED.iter().find(|(definition, _)| *definition == name) {
            // `${VAR}` may stand for every single value; the document says so once.
            _ if name == "Variable" => Vec::new(),
            Some((_, word)) => vec![(*word).to_owned()],
            None => alternatives(root, &root["$defs"][name], path),
        };
    }
    let choices = list(schema, "anyOf").chain(list(schema, "oneOf"));
    let mut found: Vec<String> = choices.flat_map(|choice| alternatives(root, choice, path)).collect();
    found.extend(list(schema, "enum").chain(schema.get("const")).map(|word| match word {
        Value::String(word) => format!("`{word}`"),
        word => format!("`{word}`"),
    }));
    if found.is_empty() {
        assert!(schema.get("pattern").is_none(), "`{path}`: NAMED has no word for its definition");
        let kinds = list(schema, "type").chain(schema.get("type")).filter_map(Value::as_str);
        found.extend(kinds.map(|kind| word_of(root, schema, path, kind)));
    }
    found
}

/// The word for one of the kinds of values that JSON knows.
fn word_of(root: &Value, schema: &Value, path: &str, kind: &str) -> String {
    let open = OPEN.iter().find(|(end, _)| path.ends_with(end));
    match (kind, open) {
        ("string" | "integer", Some((_, word))) => (*word).to_owned(),
        ("integer" | "number", _) => match (schema["minimum"].as_u64().unwrap_or(0), schema.get("maximum")) {
            (least, Some(most)) => format!("{kind} {least} to {most}"),
            (0, None) => kind.to_owned(),
            (least, None) => format!("{kind} >= {least}"),
        },
        ("array", _) => {
            let item = type_of(root, &schema["items"], path);
            let noun = item.chars().all(|letter| letter.is_ascii_alphabetic() || letter == ' ');
            if noun { format!("list of {item}s") } else { format!("list of ({item})") }
        }
        ("object", _) if schema["additionalProperties"].is_object() => {
            let value = type_of(root, &schema["additionalProperties"], path);
            if value.contains(OR) { format!("map of NAME to ({value})") } else { format!("map of NAME to {value}") }
        }
        ("object", _) => "mapping".to_owned(),
        _ => kind.to_owned(),
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

/// The keys that have rows of their own, from the schema.
fn known() -> BTreeMap<String, Key> {
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
    known
}

/// The lines of the document. Rows of tables below a heading that names a part of the file have the path of their key.
fn lines() -> Vec<(Option<String>, &'static str)> {
    let mut part = None;
    let mut lines = Vec::new();
    for line in DOCUMENT.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            let heading = heading.trim_start_matches('#').trim();
            part = match heading {
                "Top level" => Some(String::new()),
                _ => quoted(heading).map(|path| format!("{path}.")),
            };
        }
        let cells = cells(line);
        let key = quoted(cells[0]).filter(|_| cells.len() > 2);
        lines.push((part.as_ref().zip(key).map(|(part, key)| format!("{part}{key}")), line));
    }
    lines
}

fn cells(line: &str) -> Vec<&str> {
    line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect()
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.strip_suffix('`')
}

/// Every key that the document has a row for.
fn rows() -> BTreeMap<String, Key> {
    let mut rows = BTreeMap::new();
    for (key, line) in lines() {
        let Some(key) = key else { continue };
        let [_, kind, default, effect] = cells(line)[..] else {
            panic!("`{key}`: expected four columns: key, type, default, effect");
        };
        assert!(!effect.is_empty(), "`{key}` has no effect");
        let row = Key { kind: kind.to_owned(), default: default.to_owned() };
        assert!(rows.insert(key.clone(), row).is_none(), "`{key}` is there twice");
    }
    rows
}

#[test]
fn every_key_is_documented_with_its_default() {
    let (known, documented) = (known(), rows());
    for (path, Key { default, .. }) in &known {
        let row = documented.get(path).unwrap_or_else(|| panic!("`{path}` is not documented"));
        let row = row.default.as_str();
        // An empty list or mapping says as much as no default.
        let same = row == default || (row == "absent" && matches!(default.as_str(), "`[]`" | "`none`" | "below"));
        assert!(same, "`{path}`: the default is {default}, the document says {row}");
    }
    for path in documented.keys() {
        assert!(known.contains_key(path), "`{path}` is documented, but there is no such key");
    }
    assert!(known.len() > 110, "{} keys", known.len());
}

#[test]
fn every_key_is_documented_with_its_type() {
    let known = known();
    if std::env::var_os("WEIR_UPDATE").is_some() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configure.md");
        return fs::write(page, with_types(&known)).unwrap();
    }
    for (path, row) in rows() {
        let kind = &known[&path].kind;
        let row = row.kind;
        assert!(row == *kind, "`{path}`: the type is {kind}, the document says {row}; WEIR_UPDATE=1 writes it anew");
    }
}

/// The document with the types of `known`; a row that has no type yet gets one.
fn with_types(known: &BTreeMap<String, Key>) -> String {
    let mut text = String::new();
    for (key, line) in lines() {
        let mut cells: Vec<&str> = line.split(" | ").collect();
        if let Some(key) = key.and_then(|key| known.get(&key)) {
            if cells.len() == 3 {
                cells.insert(1, &key.kind);
            } else {
                cells[1] = &key.kind;
            }
        }
        text.push_str(&cells.join(" | "));
        text.push('\n');
    }
    text
}

#[test]
fn every_type_is_described_with_an_example_that_fits() {
    let root: Value = serde_json::from_str(&schema::json_schema()).unwrap();
    let (_, section) = DOCUMENT.split_once("\n## Types\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    // The first cell is the type, the last one has the examples.
    let types: BTreeMap<&str, &str> =
        section.lines().map(cells).map(|cells| (cells[0], cells[cells.len() - 1])).collect();
    for (name, kind) in NAMED.iter().chain(&OPEN) {
        let pattern = root["$defs"][*name]["anyOf"][0]["pattern"].as_str();
        let pattern = pattern.map(|pattern| Regex::new(pattern).unwrap());
        for word in kind.split(OR).filter(|word| quoted(word).is_none()) {
            let examples = types.get(word).unwrap_or_else(|| panic!("the type `{word}` is not described"));
            let mut examples = examples.split(", ").filter_map(quoted);
            let fits = examples.any(|example| pattern.as_ref().is_none_or(|pattern| pattern.is_match(example)));
            assert!(fits, "no example of the type `{word}` fits {name}");
        }
    }
}

#[test]
fn every_word_for_a_type_is_in_use() {
    let root: Value = serde_json::from_str(&schema::json_schema()).unwrap();
    let known = known();
    for (name, _) in NAMED {
        assert!(root["$defs"].get(name).is_some(), "the schema does not define {name}");
    }
    for (end, _) in OPEN {
        assert!(known.keys().any(|path| format!(".{path}").ends_with(end)), "no key ends with {end}");
    }
}
