//! Matchers of routes.

use crate::document::{Wanted, is_field_value, is_token};
use crate::expression;
use crate::pattern::{self, Path};
use crate::template::{self, Anchor};
use crate::traefik::rule::{Alternative, join};
use crate::tree::Node;

/// The sets of a `match`: one of them has to fit. In words, why one has no equivalent.
pub(super) fn read(node: Option<&Node>) -> Result<Vec<Alternative>, String> {
    let sets = node.map(Node::items).unwrap_or_default();
    if sets.is_empty() {
        return Ok(vec![Alternative::default()]);
    }
    sets.iter().map(|set| one(set)).collect()
}

fn one(set: &Node) -> Result<Alternative, String> {
    let mut out = Alternative::default();
    for (kind, _, value) in set.entries() {
        let part = match kind.as_str() {
            "host" => Alternative { hosts: hosts(&value.texts())?, ..Alternative::default() },
            "method" => Alternative {
                methods: value.texts().iter().map(|method| method.to_ascii_uppercase()).collect(),
                ..Alternative::default()
            },
            "path" => paths(&value.texts())?,
            "path_regexp" => {
                let pattern = value.get("pattern").and_then(Node::text).unwrap_or_default();
                let paths = template::paths(pattern, Anchor::None, true)
                    .map_err(|why| format!("path_regexp {pattern}: {why}"))?;
                let how = "compared with the path as it is forwarded, percent-encoded; Caddy compares the decoded one";
                let is_expression = paths.iter().any(|path| path.expression.is_some());
                let notes = is_expression.then(|| format!("path_regexp {pattern}: {how}")).into_iter().collect();
                Alternative { paths, notes, ..Alternative::default() }
            }
            "header" => {
                let mut headers = Vec::new();
                for (name, _, values) in value.entries() {
                    if !is_token(name) || name.eq_ignore_ascii_case("host") {
                        return Err(format!("header {name}: is not a field that Weir matches"));
                    }
                    let wanted = if values.is_null() { Ok(Wanted::Present(false)) } else { field(&values.texts()) };
                    headers.push((name.clone(), wanted.map_err(|why| format!("header {name}: {why}"))?));
                }
                Alternative { headers, ..Alternative::default() }
            }
            "header_regexp" => {
                let mut headers = Vec::new();
                for (name, _, inner) in value.entries() {
                    let pattern = inner.get("pattern").and_then(Node::text).unwrap_or_default();
                    let found = expression::searched(pattern, false);
                    let found = found.map_err(|why| format!("header_regexp {name}: {why}"))?;
                    headers.push((name.clone(), Wanted::Matches(found.text().to_owned())));
                }
                Alternative { headers, ..Alternative::default() }
            }
            "query" => {
                let mut query = Vec::new();
                for (name, _, values) in value.entries() {
                    let wanted = match values.texts().as_slice() {
                        [any] if any == "*" => Wanted::Present(true),
                        [value] if !value.contains(['{', '*']) => Wanted::Is(value.clone()),
                        values if values.len() > 1 && !values.iter().any(|value| value.contains(['{', '*'])) => {
                            let found = expression::any_of(values).map_err(|why| format!("query {name}: {why}"))?;
                            Wanted::Matches(found.text().to_owned())
                        }
                        _ => return Err(format!("query {name}: placeholders have no equivalent")),
                    };
                    if name.is_empty() || name.contains(['{', '*']) {
                        return Err("query: a parameter without a name has no equivalent".to_owned());
                    }
                    query.push((name.clone(), wanted));
                }
                Alternative { query, ..Alternative::default() }
            }
            other => return Err(format!("the matcher {other} has no equivalent")),
        };
        out = join(&out, &part)?.ok_or("a matcher that excludes itself matches nothing")?;
    }
    Ok(out)
}

/// One of these values; `*` at an end stands for anything.
fn field(values: &[String]) -> Result<Wanted, String> {
    match values {
        [] => return Ok(Wanted::Present(true)),
        [any] if any == "*" => return Ok(Wanted::Present(true)),
        [value] if !value.is_empty() && !value.contains(['*', '{']) && is_field_value(value) => {
            return Ok(Wanted::Is(value.clone()));
        }
        _ => {}
    }
    if values.iter().any(|value| value.contains('{')) {
        return Err("placeholders have no equivalent".to_owned());
    }
    let one = |value: &String| {
        let (start, rest) = value.strip_prefix('*').map_or(("", value.as_str()), |rest| (".*", rest));
        let (rest, end) = rest.strip_suffix('*').map_or((rest, ""), |rest| (rest, ".*"));
        format!("^{start}{}{end}$", expression::escaped(rest))
    };
    let alternatives: Vec<String> = values.iter().map(one).collect();
    let [only] = &alternatives[..] else {
        let found = expression::searched(&alternatives.join("|"), false)?;
        return Ok(Wanted::Matches(found.text().to_owned()));
    };
    Ok(Wanted::Matches(expression::searched(only, false)?.text().to_owned()))
}

fn hosts(written: &[String]) -> Result<Vec<String>, String> {
    let valid =
        |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    let check = |host: &String| {
        let inner = host.strip_prefix("*.").unwrap_or(host);
        if inner.split('.').all(valid) {
            Ok(host.to_ascii_lowercase())
        } else {
            Err(format!("host {host} is not one that Weir can match"))
        }
    };
    written.iter().map(check).collect()
}

/// `/a` exactly, `/a/*` all below `/a/`, `/a*` all that begins so.
fn paths(written: &[String]) -> Result<Alternative, String> {
    let mut out = Alternative::default();
    for path in written {
        let stars = path.matches('*').count();
        match path.strip_suffix('*') {
            Some("" | "/") => out.paths.push(Path::all()),
            Some(prefix) if stars == 1 && prefix.ends_with('/') => out.paths.push(Path::below(prefix)?),
            Some(prefix) if stars == 1 => {
                out.paths.extend(pattern::prefix(prefix)?);
                out.notes.push(format!("path {path}: Caddy takes it for the beginning of any name, `{prefix}x` too; Weir for `{prefix}` and all below `{prefix}/`"));
            }
            None if stars == 0 => out.paths.push(Path::exact(path)?),
            _ => return Err(format!("path {path}: a `*` elsewhere than at the end has no equivalent")),
        }
        if path.contains('{') {
            return Err(format!("path {path}: placeholders have no equivalent"));
        }
    }
    Ok(out)
}
