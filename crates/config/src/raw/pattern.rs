//! Hosts and paths that routes match.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::raw::text::text_type;
use crate::{HostPattern, PathPattern, Pattern, Segment};
use message::{host, path};

/// `api.example.com`, or `*.example.com` for every name below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host(pub HostPattern);

text_type!(
    Host,
    "Host",
    r"^(\*\.)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])$",
    "a host such as `api.example.com`, or `*.example.com` for every name below it"
);

impl FromStr for Host {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if matches!(text, "*" | "*.") {
            return Err("a route without `host` matches every host; leave it out".to_owned());
        }
        if !text.is_ascii() {
            return Err(format!(
                "`{text}`: names with other than ASCII letters arrive in their `xn--` form; write that"
            ));
        }
        let (suffix, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let address = name.strip_prefix('[');
        if address.map_or(name.contains(':'), |rest| !rest.ends_with(']')) {
            return Err(format!(
                "`{text}`: hosts are matched without their port, and IPv6 addresses are written in brackets"
            ));
        }
        let mut scratch = [0; host::MAX_BYTES];
        let normal = host::normalise(name.as_bytes(), &mut scratch)
            .filter(|normal| valid_labels(normal) && !(suffix && address.is_some()))
            .and_then(|normal| std::str::from_utf8(normal).ok())
            .ok_or_else(|| format!("`{text}` is not a host; write `api.example.com` or `*.example.com`"))?;
        let normal: Arc<str> = normal.into();
        Ok(Host(if suffix { HostPattern::Suffix(normal) } else { HostPattern::Exact(normal) }))
    }
}

/// No empty label, unless it is an address in brackets.
fn valid_labels(name: &[u8]) -> bool {
    name.starts_with(b"[") || name.split(|&b| b == b'.').all(|label| !label.is_empty())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `/a`, `/a/{id}`, `/a/*`, `/a/**`, `~REGEX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(pub PathPattern);

text_type!(
    Path,
    "Path",
    r"^(/[^?#\s]*|~.+)$",
    "a path: `/a` exactly, `/a/{id}` with one segment for `{id}`, `/a/*` for `/a/` and everything below it, `/a/**` for `/a` as well, `~REGEX` for a regular expression"
);

impl FromStr for Path {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(pattern) = text.strip_prefix('~') {
            let pattern = Pattern::new(pattern)?;
            if !pattern.may_begin_with(b'/') {
                return Err(format!(
                    "`{text}` could never match: the expression has to match the whole path, which begins with `/`; \
                     write `~/...`, or `~/.*...` for paths that hold it anywhere"
                ));
            }
            return Ok(Path(PathPattern::Matches(pattern)));
        }
        if !text.starts_with('/') {
            return Err(format!("a path begins with `/`; `{text}` does not"));
        }
        if text.contains('?') {
            return Err(format!("`{text}`: routes match the query with `query: {{NAME: VALUE}}`"));
        }
        let encoded = encode(text);
        if let Some(fixed) = encoded.strip_suffix("/**") {
            if fixed.contains(['*', '{']) {
                return Err(format!("`{text}`: before `/**` a path has no `*` and no parameter"));
            }
            let segments: Vec<Segment> = fixed.split('/').skip(1).map(|one| Segment::Literal(one.into())).collect();
            check_normal(&segments, segments.is_empty(), text)?;
            return Ok(Path(PathPattern::Below(fixed.into())));
        }
        let (fixed, wildcard) = match encoded.strip_suffix("/*") {
            Some(fixed) => (fixed, true),
            None => (encoded.as_str(), false),
        };
        if fixed.contains('*') {
            return Err(format!("`{text}`: `*` can only be the last segment, as in `/a/*`"));
        }
        // `/*` leaves nothing; every other path begins with the slash before its first segment.
        let mut segments = Vec::new();
        for segment in fixed.split('/').skip(1) {
            segments.push(parse_segment(segment, text, &segments)?);
        }
        check_normal(&segments, wildcard, text)?;
        let template = segments.iter().any(|segment| matches!(segment, Segment::Param(_)));
        Ok(Path(match (template, wildcard) {
            (true, _) => PathPattern::Template { segments, wildcard },
            (false, true) => PathPattern::Prefix(format!("{fixed}/").into()),
            (false, false) => PathPattern::Exact(fixed.into()),
        }))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes that are not ASCII, as they arrive.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    out
}

fn parse_segment(segment: &str, text: &str, before: &[Segment]) -> Result<Segment, String> {
    let Some(name) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        if segment.contains(['{', '}']) {
            return Err(format!("`{text}`: a parameter is a whole segment, as in `/a/{{id}}/b`"));
        }
        return Ok(Segment::Literal(segment.into()));
    };
    let valid = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if !valid {
        return Err(format!("`{text}`: `{{{name}}}` does not name a parameter"));
    }
    let parameter = Segment::Param(name.into());
    if before.contains(&parameter) {
        return Err(format!("`{text}`: the parameter `{{{name}}}` is given twice"));
    }
    Ok(parameter)
}

/// Requests are matched in their normal form; a pattern in any other would never match.
fn check_normal(segments: &[Segment], wildcard: bool, text: &str) -> Result<(), String> {
    let mut probe = String::new();
    for segment in segments {
        probe.push('/');
        // Any letter that is normal will do for a parameter.
        probe.push_str(match segment {
            Segment::Literal(literal) => literal,
            Segment::Param(_) => "x",
        });
    }
    if wildcard {
        probe.push('/');
    }
    let mut scratch = Vec::new();
    let normal = path::normalise(probe.as_bytes(), &mut scratch)
        .map_err(|refusal| format!("`{text}` could never match: {refusal}"))?;
    if normal.path == probe.as_bytes() {
        return Ok(());
    }
    let normal = String::from_utf8_lossy(normal.path);
    Err(format!("`{text}` could never match: paths are matched in the form `{normal}`"))
}

#[cfg(test)]
mod tests;
