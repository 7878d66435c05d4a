//! Regular expressions that say no more than a template of Weir does.
//!
//! `^/bids/[^/]+$` is `/bids/{p1}`; a parameter is a whole segment. Everything else is not translated.

use crate::expression;
use crate::pattern::{Path, Segment, literal};

/// What an expression is anchored by, beside its own `^` and `$`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// Searched for anywhere.
    None,
    /// At the beginning.
    Start,
}

/// The path that an expression matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    /// The patterns that together match what the expression does.
    pub(crate) paths: Vec<Path>,
    /// Where the patterns match more than the expression, in words.
    pub(crate) wider: Option<String>,
}

/// The paths that an expression matches: templates where they say the same, otherwise the expression itself. In words, why not.
pub(crate) fn paths(expression: &str, anchor: Anchor, decoded: bool) -> Result<Vec<Path>, String> {
    let expression = &plain_slashes(expression);
    match read(expression, anchor, decoded) {
        Ok(Template { paths, wider: None }) => Ok(paths),
        _ => match anchor {
            Anchor::None => expression::searched(expression, false),
            Anchor::Start => expression::at_start(expression),
        }
        .and_then(Path::matching)
        .map(|path| vec![path]),
    }
}

/// `[^\/]+` as `[^/]+`: converters escape slashes, which mean the same without it.
fn plain_slashes(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len());
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('/') => out.push('/'),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

/// Reads an expression over decoded paths (`decoded`) or over paths as they come. In words, why it is not one.
pub(crate) fn read(expression: &str, anchor: Anchor, decoded: bool) -> Result<Template, String> {
    const MAX: usize = 2000;
    if expression.len() > MAX {
        return Err(format!("the expression is longer than {MAX} bytes"));
    }
    let mut rest = expression;
    rest = match (rest.strip_prefix('^').or_else(|| rest.strip_prefix("\\A")), anchor) {
        (Some(rest), _) => rest,
        (None, Anchor::Start) => rest,
        (None, Anchor::None) => {
            return Err("a regular expression that is searched for inside a path has no equivalent".to_owned());
        }
    };
    let (mut rest, end) = match ["\\z", "\\Z", "$"].iter().find_map(|end| rest.strip_suffix(end)) {
        // `\$` is a literal.
        Some(body) if trailing_backslashes(body).is_multiple_of(2) => (body, true),
        _ => (rest, false),
    };
    let mut segments: Vec<Segment> = Vec::new();
    let mut wider = None;
    let mut wildcard = false;
    let mut optional_slash = false;
    while !rest.is_empty() {
        // What ends a path: `/?`, `/.*`, `(/|$)`, `(/.*)?`.
        if end && rest == "/?" {
            optional_slash = true;
            rest = "";
            break;
        }
        if matches!(rest, "/.*" | "/(.*)") {
            wildcard = true;
            rest = "";
            break;
        }
        if matches!(rest, "(/.*)?" | "(?:/.*)?" | "(/|$)" | "(?:/|$)" | "(/|$)(.*)" | "(?:/|$)(.*)")
            && (end || rest.contains('|'))
        {
            let exact = path(&segments, false)?;
            let below = path(&segments, true)?;
            return Ok(Template { paths: vec![exact, below], wider });
        }
        rest = rest.strip_prefix('/').or_else(|| rest.strip_prefix("\\/")).ok_or_else(|| unsupported(rest))?;
        if let Some(after) = parameter(rest, &mut wider) {
            segments.push(Segment::Param(name(rest, segments.len())));
            rest = after;
            continue;
        }
        if matches!(rest, "[^/].*" | ".+" | "(.+)") || named_rest(rest) {
            // One segment or more, the first not empty.
            if rest != "[^/].*" || segments.is_empty() {
                wider = Some("the path with nothing behind its last slash is matched too".to_owned());
            }
            if rest == "[^/].*" || named_rest(rest) {
                let mut one = segments.clone();
                one.push(Segment::Param(format!("p{}", segments.len() + 1)));
                wider = None;
                return Ok(Template { paths: vec![path(&one, false)?, path(&one, true)?], wider });
            }
            wildcard = true;
            rest = "";
            break;
        }
        if let Some((after, shown)) = mixed(rest) {
            wider = Some(format!(
                "`{shown}` is a part of a segment, which a template cannot say: the parameter may be anything but empty"
            ));
            segments.push(Segment::Param(format!("p{}", segments.len() + 1)));
            rest = after;
            continue;
        }
        let (text, after) = literal_text(rest)?;
        let decoded_text = if decoded { text } else { crate::pattern::decode(&text).ok_or("it is not UTF-8")? };
        segments.push(literal(&decoded_text)?);
        rest = after;
    }
    debug_assert!(rest.is_empty());
    if wildcard {
        return Ok(Template { paths: vec![path(&segments, true)?], wider });
    }
    if segments.is_empty() {
        return Err("the expression names no path".to_owned());
    }
    let exact = path(&segments, false)?;
    if optional_slash {
        let mut slash = segments;
        slash.push(Segment::Literal(String::new()));
        return Ok(Template { paths: vec![exact, path(&slash, false)?], wider });
    }
    if end {
        return Ok(Template { paths: vec![exact], wider });
    }
    // Without an end the expression is a prefix, also of longer names.
    if segments.last() == Some(&Segment::Literal(String::new())) {
        segments.pop();
        return Ok(Template { paths: vec![path(&segments, true)?], wider });
    }
    Err("an expression without `$` matches longer names too, which has no equivalent".to_owned())
}

fn path(segments: &[Segment], wildcard: bool) -> Result<Path, String> {
    let last = segments.len().saturating_sub(usize::from(!wildcard));
    if segments.iter().take(last).any(|segment| *segment == Segment::Literal(String::new())) {
        return Err("an empty segment in the middle of a path".to_owned());
    }
    Ok(Path { segments: segments.to_vec(), wildcard, expression: None })
}

fn trailing_backslashes(text: &str) -> usize {
    text.bytes().rev().take_while(|&b| b == b'\\').count()
}

const ANYTHING: [&str; 4] = ["[^/]+", "[^/?]+", "[^#?/]+", "[^/#?]+"];
const NARROWER: [(&str, &str); 10] = [
    ("\\d+", "digits"),
    ("[0-9]+", "digits"),
    ("\\w+", "letters, digits and _"),
    ("[a-z]+", "lower-case letters"),
    ("[A-Za-z]+", "letters"),
    ("[a-zA-Z]+", "letters"),
    ("[a-z0-9-]+", "lower-case letters, digits and -"),
    ("[a-zA-Z0-9]+", "letters and digits"),
    ("[a-zA-Z0-9_-]+", "letters, digits, _ and -"),
    ("[A-Za-z0-9_-]+", "letters, digits, _ and -"),
];

/// If a parameter stands here, what comes after it.
fn parameter<'t>(rest: &'t str, wider: &mut Option<String>) -> Option<&'t str> {
    let (body, group) = open_group(rest);
    let candidates =
        ANYTHING.iter().map(|text| (*text, None)).chain(NARROWER.iter().map(|(text, what)| (*text, Some(*what))));
    for (text, what) in candidates {
        let Some(after) = body.strip_prefix(text) else { continue };
        let after = if group { after.strip_prefix(')')? } else { after };
        if !(after.is_empty() || after.starts_with('/') || after.starts_with("\\/") || after.starts_with('(')) {
            return None;
        }
        if let Some(what) = what {
            *wider = Some(format!("a parameter that the expression holds to {what} may be anything but empty"));
        }
        return Some(after);
    }
    None
}

/// A segment of literals and parameters, such as `[^/]+\.json`: what comes after it, and its text.
fn mixed(rest: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    let mut parameters = 0;
    while at < rest.len() && !rest[at..].starts_with('/') && !rest[at..].starts_with("\\/") {
        let here = &rest[at..];
        let (body, group) = open_group(here);
        if let Some(text) = ANYTHING.iter().find(|text| body.starts_with(**text)) {
            let after = &body[text.len()..];
            let after = if group { after.strip_prefix(')')? } else { after };
            parameters += 1;
            at = rest.len() - after.len();
            continue;
        }
        let c = here.chars().next()?;
        match c {
            '\\' => at += 1 + here[1..].chars().next().filter(|c| !c.is_ascii_alphanumeric())?.len_utf8(),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => return None,
            c => at += c.len_utf8(),
        }
    }
    // One parameter alone is a whole segment.
    (parameters > 0).then_some((&rest[at..], &rest[..at]))
}

/// `(`, `(?:`, `(?<name>` or `(?P<name>`.
fn open_group(rest: &str) -> (&str, bool) {
    if let Some(body) = rest.strip_prefix("(?<").or_else(|| rest.strip_prefix("(?P<")) {
        return body.split_once('>').map_or((rest, false), |(_, body)| (body, true));
    }
    match rest.strip_prefix("(?:").or_else(|| rest.strip_prefix('(')) {
        Some(body) => (body, true),
        None => (rest, false),
    }
}

/// `(?<name>[^/].*)`, as Gauge writes parameters with slashes.
fn named_rest(rest: &str) -> bool {
    let (body, group) = open_group(rest);
    group && matches!(body, "[^/].*)" | "[^#?/][^#?]*)")
}

fn name(rest: &str, index: usize) -> String {
    let named = rest.strip_prefix("(?<").or_else(|| rest.strip_prefix("(?P<")).and_then(|body| body.split_once('>'));
    let plain = named.map(|(name, _)| name).filter(|name| {
        !name.is_empty() && name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    });
    // Each name once: the index keeps those of one path apart.
    plain.map_or_else(|| format!("p{}", index + 1), |name| format!("{name}_{}", index + 1))
}

/// A literal to the next slash or to the end of the text.
fn literal_text(rest: &str) -> Result<(String, &str), String> {
    let mut out = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '/' => return Ok((out, &rest[at..])),
            '\\' => match chars.next() {
                Some((_, '/')) => return Ok((out, &rest[at..])),
                Some((_, 'x')) => {
                    let hex: String = chars.by_ref().take(2).map(|(_, c)| c).collect();
                    let value = u8::from_str_radix(&hex, 16).ok().filter(u8::is_ascii);
                    out.push(char::from(value.ok_or_else(|| unsupported(rest))?));
                }
                Some((_, c)) if !c.is_ascii_alphanumeric() => out.push(c),
                _ => return Err(unsupported(rest)),
            },
            // A dot fits any character: only an escaped one is a dot.
            '(' if !out.is_empty()
                && (rest[at..].starts_with("(/|$)")
                    || rest[at..].starts_with("(/.*)?")
                    || rest[at..].starts_with("(?:/")) =>
            {
                return Ok((out, &rest[at..]));
            }
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => {
                return Err(unsupported(&rest[at..]));
            }
            c => out.push(c),
        }
    }
    Ok((out, ""))
}

fn unsupported(rest: &str) -> String {
    let shown: String = rest.chars().take(40).collect();
    format!("`{shown}` in a regular expression has no equivalent")
}
