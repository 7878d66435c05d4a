//! Matchers of routes.

use crate::document::{is_field_value, is_token};
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
                let template = template::read(pattern, Anchor::None, true)
                    .map_err(|why| format!("path_regexp {pattern}: {why}"))?;
                let notes = template.wider.map(|wider| format!("path_regexp {pattern}: {wider}")).into_iter().collect();
                Alternative { paths: template.paths, notes, ..Alternative::default() }
            }
            "header" => {
                let mut headers = Vec::new();
                for (name, _, values) in value.entries() {
                    match values.texts().as_slice() {
                        [value]
                            if is_token(name)
                                && is_field_value(value)
                                && !value.contains(['*', '{'])
                                && !value.is_empty() =>
                        {
                            headers.push((name.clone(), value.clone()));
                        }
                        _ => return Err(format!("header {name}: Weir matches one value, exactly")),
                    }
                }
                Alternative { headers, ..Alternative::default() }
            }
            other => return Err(format!("the matcher {other} has no equivalent")),
        };
        out = join(&out, &part)?.ok_or("a matcher that excludes itself matches nothing")?;
    }
    Ok(out)
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
