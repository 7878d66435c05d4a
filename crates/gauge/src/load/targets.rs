//! Targets files of vegeta: what to request, one target after the other.
//!
//! Its `http` format: a line `METHOD URL`, then header lines and at most one line `@FILE` with the body, then an empty line; lines that begin
//! with `#` are comments. Its `json` format: an object a line with `method`, `url`, `header` (lists of values) and `body` (base64).

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::Deserialize;

use super::prepare::Url;
use super::workload::{Body, Operation};

/// More targets than this are reported as one operation: a table of thousands of rows says nothing.
const MOST_NAMES: usize = 50;

/// Reads a targets file; files of bodies are looked for in `folder`.
///
/// # Errors
/// What is wrong, with its line.
pub fn parse(text: &str, folder: &Path) -> Result<Vec<Operation>, String> {
    let json = text.trim_start().starts_with('{');
    let mut operations = if json { parse_json(text)? } else { parse_http(text, folder)? };
    if operations.is_empty() {
        return Err("it holds no target; write `GET http://host:port/path`".to_owned());
    }
    let names: HashSet<&str> = operations.iter().map(|operation| operation.id.as_str()).collect();
    if names.len() > MOST_NAMES {
        for operation in &mut operations {
            operation.id = "targets".to_owned();
        }
    }
    Ok(operations)
}

fn parse_http(text: &str, folder: &Path) -> Result<Vec<Operation>, String> {
    let mut operations: Vec<Operation> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let fail = |problem: &str| format!("line {}: {problem}", number + 1);
        if line.starts_with('#') {
            continue;
        }
        if line.is_empty() {
            inside = false;
            continue;
        }
        let begins = line.split_once(' ').filter(|(method, _)| method.bytes().all(|byte| byte.is_ascii_uppercase()));
        match (begins, operations.last_mut().filter(|_| inside)) {
            (Some((method, url)), _) => {
                operations.push(operation(method, url.trim()).map_err(|error| fail(&error))?);
                inside = true;
            }
            (None, None) => return Err(fail("a target begins with its method and URL: GET http://host:port/path")),
            (None, Some(current)) => match line.strip_prefix('@') {
                Some(_) if current.body.is_some() => return Err(fail("the target has a body already")),
                Some(file) => current.body = Some(Body::File(folder.join(file))),
                None => {
                    let (name, value) = line.split_once(':').ok_or_else(|| {
                        fail("this is neither a header (Name: value), nor a body (@file), nor a target")
                    })?;
                    add_header(current, name.trim(), value.trim());
                }
            },
        }
    }
    Ok(operations)
}

#[derive(Deserialize)]
struct Target {
    method: String,
    url: String,
    #[serde(default)]
    header: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default)]
    body: Option<String>,
}

fn parse_json(text: &str) -> Result<Vec<Operation>, String> {
    let mut operations = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fail = |problem: String| format!("line {}: {problem}", number + 1);
        let target: Target = serde_json::from_str(line).map_err(|error| fail(error.to_string()))?;
        let mut operation = operation(&target.method, &target.url).map_err(fail)?;
        operation.body = target.body.filter(|body| !body.is_empty()).map(Body::Base64);
        for (name, values) in target.header.unwrap_or_default() {
            for value in values {
                add_header(&mut operation, &name, &value);
            }
        }
        operations.push(operation);
    }
    Ok(operations)
}

/// A field that is there already becomes a list (RFC 9110 section 5.3).
fn add_header(operation: &mut Operation, name: &str, value: &str) {
    match operation.headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((_, known)) => {
            known.push_str(", ");
            known.push_str(value);
        }
        None => {
            operation.headers.insert(name.to_owned(), value.to_owned());
        }
    }
}

fn operation(method: &str, url: &str) -> Result<Operation, String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    let mut operation = Operation::get(&format!("{method} {}", url.path), &url.path);
    operation.method = method.to_owned();
    operation.base = Some(url.origin());
    Ok(operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_read() {
        let text = "# first\nGET http://a:1/x?y=1\nX-A: 1\nX-A: 2\n\nPOST https://b:2/z\nContent-Type: application/json\n@body.json\nHEAD http://a:1/\n";
        let operations = parse(text, Path::new("/files")).expect("targets");
        assert_eq!(operations.len(), 3);
        assert_eq!(operations[0].id, "GET /x?y=1");
        assert_eq!(operations[0].headers["X-A"], "1, 2");
        assert_eq!(operations[1].base.as_deref(), Some("https://b:2"));
        assert_eq!(operations[1].body, Some(Body::File("/files/body.json".into())));
        assert_eq!(operations[2].method, "HEAD");

        let text = "{\"method\":\"PUT\",\"url\":\"http://a:1/x\",\"header\":{\"X-A\":[\"1\",\"2\"]},\"body\":\"aGVsbG8=\"}\n\n{\"method\":\"GET\",\"url\":\"http://a:1/\"}\n";
        let operations = parse(text, Path::new("")).expect("targets");
        assert_eq!(operations.len(), 2);
        assert_eq!(operations[0].headers["X-A"], "1, 2");
        assert_eq!(operations[0].body, Some(Body::Base64("aGVsbG8=".to_owned())));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, expected) in [
            ("", "no target"),
            ("X-A: 1\n", "line 1: a target begins"),
            ("GET http://a/\nnonsense\n", "line 2: this is neither"),
            ("GET http://a/\n\n@file\n", "line 3: a target begins"),
            ("POST http://a/\n@x\n@y\n", "line 3: the target has a body"),
            ("GET ftp://a/\n", "only http:// and https://"),
            ("{\"method\":1}\n", "line 1: "),
        ] {
            let error = parse(text, Path::new("")).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn many_targets_are_one_operation() {
        let text: String = (0..60).map(|number| format!("GET http://a/{number}\n")).collect();
        let operations = parse(&text, Path::new("")).expect("targets");
        assert_eq!(operations.len(), 60);
        assert!(operations.iter().all(|operation| operation.id == "targets"));
    }
}
