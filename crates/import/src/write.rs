//! The text of a configuration.

use std::fmt::Write as _;

use crate::document::{Document, Entry, Map, Route, Value};
use crate::report::{Kind, SourceLocation};

/// Keys of a route, in the order in which they are written.
const ORDER: [&str; 21] = [
    "name", "match", "upstream", "split", "ai", "fallback", "rewrite", "redirect", "respond", "auth", "allow",
    "limits", "cache", "body", "timeouts", "upgrade", "headers", "cors", "retry", "compress", "mirror",
];

/// Widest flow mapping that stays on one line.
const WIDTH: usize = 130;

/// The file, with the source's file and line at each part.
pub(crate) fn yaml(program: &str, source: &str, document: &Document) -> String {
    let mut out = format!("# Made from {} ({program}) by `weir import`.\n", comment(source));
    let left_out = document.report.count(Kind::LeftOut);
    let differs = document.report.count(Kind::Differs);
    let _ = writeln!(
        out,
        "# {differs} parts differ, {left_out} were left out: see the report. Check this file with `weir check`."
    );
    out.push('\n');
    match document.listen.as_slice() {
        [one] => {
            let _ = writeln!(out, "# {}", one.place);
            entry(&mut out, 0, "listen", &one.value);
        }
        many => {
            out.push_str("listen:\n");
            for listen in many {
                let _ = writeln!(out, "  # {}\n  - {}", listen.place, flow(&listen.value));
            }
        }
    }
    for (key, value) in &document.top {
        out.push('\n');
        entry(&mut out, 0, key, value);
    }
    for (key, entries) in [
        ("upstreams", &document.upstreams),
        ("providers", &document.providers),
        ("models", &document.models),
        ("auth", &document.auth),
        ("limits", &document.limits),
        ("caches", &document.caches),
    ] {
        if !entries.is_empty() {
            let _ = write!(out, "\n{key}:\n");
            entries.iter().for_each(|entry| named(&mut out, entry));
        }
    }
    out.push_str("\nroutes:\n");
    document.routes.iter().for_each(|each| route(&mut out, each));
    out
}

fn remark(out: &mut String, indent: usize, place: &SourceLocation, note: &str) {
    let note = if note.is_empty() { String::new() } else { format!(": {}", comment(note)) };
    let _ = writeln!(out, "{:indent$}# {place}{note}", "");
}

fn named(out: &mut String, entry: &Entry) {
    remark(out, 2, &entry.place, &entry.note);
    let _ = writeln!(out, "  {}:", scalar(&entry.name, false));
    for (key, value) in &entry.value {
        self::entry(out, 4, key, value);
    }
}

fn route(out: &mut String, route: &Route) {
    remark(out, 2, &route.place, &route.note);
    let mut matcher = Map::new();
    if let Some(host) = &route.host {
        matcher.push(("host".to_owned(), Value::Text(host.clone())));
    }
    matcher.push(("path".to_owned(), Value::Text(route.path.to_string())));
    if !route.methods.is_empty() {
        let methods = route.methods.iter().cloned().map(Value::Text).collect();
        matcher.push(("methods".to_owned(), Value::List(methods)));
    }
    if !route.headers.is_empty() {
        let headers = route.headers.iter().map(|(name, wanted)| (name.clone(), wanted.value())).collect();
        matcher.push(("headers".to_owned(), Value::Map(headers)));
    }
    if !route.query.is_empty() {
        let query = route.query.iter().map(|(name, wanted)| (name.clone(), wanted.value())).collect();
        matcher.push(("query".to_owned(), Value::Map(query)));
    }
    let mut keys = Map::new();
    if let Some(name) = &route.name {
        keys.push(("name".to_owned(), Value::Text(name.clone())));
    }
    keys.push(("match".to_owned(), Value::Map(matcher)));
    keys.extend(route.keys.iter().cloned());
    keys.sort_by_key(|(key, _)| ORDER.iter().position(|known| known == key));
    for (i, (key, value)) in keys.iter().enumerate() {
        let start = out.len();
        entry(out, 4, key, value);
        if i == 0 {
            out.replace_range(start + 2..start + 3, "-");
        }
    }
}

/// `key: value`, in flow style while it is short.
fn entry(out: &mut String, indent: usize, key: &str, value: &Value) {
    let line = flow(value);
    let key = scalar(key, false);
    let block = indent + key.len() + line.len() + 2 > WIDTH;
    match value {
        Value::Map(entries) if block && !entries.is_empty() => {
            let _ = writeln!(out, "{:indent$}{key}:", "");
            for (key, value) in entries {
                entry(out, indent + 2, key, value);
            }
        }
        Value::List(items) if block && !items.is_empty() => {
            let _ = writeln!(out, "{:indent$}{key}:", "");
            for item in items {
                let _ = writeln!(out, "{:indent$}  - {}", "", flow(item));
            }
        }
        _ => {
            let _ = writeln!(out, "{:indent$}{key}: {line}", "");
        }
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::Word(word) => word.clone(),
        Value::Text(text) | Value::Template(text) => scalar(&text.replace("${", "$${"), true),
        Value::Variable(text) => scalar(text, true),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}: {}", scalar(key, true), flow(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// A text without quotes where nobody could read it as something else, otherwise in double quotes.
fn scalar(text: &str, value: bool) -> String {
    let first = text.chars().next();
    let starts = first.is_some_and(|c| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:*+@%".contains(c);
    let address =
        first.is_some_and(|c| c.is_ascii_digit()) && text.contains(['.', ':', '/']) && text.parse::<f64>().is_err();
    let word = value
        && matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "none" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if (starts || address) && text.chars().all(plain) && !text.ends_with(':') && !text.contains(": ") && !word {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control()
                || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
                || u32::from(c) > 0xffff =>
            {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text in a comment: one line.
fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}') { ' ' } else { c })
        .collect()
}
