//! Personal data in prompts: found in the strings of a request, and replaced there before a provider sees it.
//!
//! A string is changed only where something is found in it: it is written again with its escapes, and every other byte of the body stays. Patterns
//! run in linear time. What they find is a help, not a promise: a name, or a number that is written in words, passes.

mod numbers;
mod pattern;

use std::borrow::Cow;
use std::fmt;

use crate::json::{Lexer, TokenKind, push_escaped, unescape};
use crate::request::{Member, RequestScan, StringsOf};

pub use pattern::Pattern;

/// Members in whose strings people write.
const WRITTEN: [Member; 7] = [
    Member::Messages,
    Member::System,
    Member::Input,
    Member::Instructions,
    Member::Prompt,
    Member::Contents,
    Member::SystemInstruction,
];

/// A string that cannot be searched, because its escapes have no one meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable {
    /// Index of its first byte in the body.
    pub at: usize,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the string at byte {} has an escape without a meaning, so it cannot be searched for personal data",
            self.at
        )
    }
}

impl std::error::Error for Unreadable {}

/// A body without what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The body, to be scanned again.
    pub body: Vec<u8>,
    /// How often each pattern was found, in their order.
    pub found: Vec<u64>,
}

/// Replaces what `patterns` find in the strings of a prompt; `None` if they find nothing.
///
/// # Errors
/// A string that cannot be searched.
pub fn redact(body: &[u8], scan: &RequestScan, patterns: &[Pattern]) -> Result<Option<Redacted>, Unreadable> {
    let mut spans: Vec<_> = WRITTEN.iter().filter_map(|member| scan.value(*member)).map(|span| span.range()).collect();
    spans.sort_by_key(|span| span.start);
    let mut out = Vec::new();
    let mut copied = 0;
    let mut found = vec![0; patterns.len()];
    for span in spans {
        let value = &body[span.clone()];
        let mut lexer = Lexer::new();
        let mut at = 0;
        let mut strings = StringsOf::default();
        // The scanner has read it: there are no errors, and no string ends behind the value.
        while let Ok(Some(token)) = lexer.next(value, &mut at) {
            let raw = &value[token.start..token.end];
            if !strings.is_text(token.kind, raw) {
                continue;
            }
            let start = span.start + token.start;
            let text = unescape(raw).map_err(|_| Unreadable { at: start })?;
            let in_json = if strings.is_json { replaced_in_json(&text, patterns, &mut found) } else { None };
            if let Some(text) = in_json.unwrap_or_else(|| replaced(&text, patterns, &mut found)) {
                out.extend_from_slice(&body[copied..start - 1]);
                push_escaped(&text, &mut out);
                copied = span.start + token.end + 1;
            }
        }
    }
    if copied == 0 {
        return Ok(None);
    }
    out.extend_from_slice(&body[copied..]);
    Ok(Some(Redacted { body: out, found }))
}

/// The same of a text that is JSON by itself, whose strings are searched one by one, so that it stays JSON; `None` if it is none.
fn replaced_in_json(text: &str, patterns: &[Pattern], found: &mut [u64]) -> Option<Option<String>> {
    let json = text.as_bytes();
    let mut now = found.to_vec();
    let mut out = Vec::new();
    let mut copied = 0;
    let mut lexer = Lexer::new();
    let mut at = 0;
    while let Some(token) = lexer.next(json, &mut at).ok()? {
        if !matches!(token.kind, TokenKind::String(_)) {
            continue;
        }
        let string = unescape(&json[token.start..token.end]).ok()?;
        if let Some(string) = replaced(&string, patterns, &mut now) {
            out.extend_from_slice(&json[copied..token.start - 1]);
            push_escaped(&string, &mut out);
            copied = token.end + 1;
        }
    }
    lexer.finish().ok()?;
    found.copy_from_slice(&now);
    out.extend_from_slice(&json[copied..]);
    Some(if copied == 0 { None } else { String::from_utf8(out).ok() })
}

/// The text without what the patterns find; `None` if that is nothing.
fn replaced(text: &str, patterns: &[Pattern], found: &mut [u64]) -> Option<String> {
    let mut now = Cow::Borrowed(text);
    for (pattern, found) in patterns.iter().zip(found) {
        let ranges = pattern.find(&now);
        if ranges.is_empty() {
            continue;
        }
        *found += ranges.len() as u64;
        let mut next = String::with_capacity(now.len());
        let mut from = 0;
        for range in ranges {
            next.push_str(&now[from..range.start]);
            next.push_str(pattern.replacement());
            from = range.end;
        }
        next.push_str(&now[from..]);
        now = Cow::Owned(next);
    }
    match now {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

#[cfg(test)]
mod tests;
