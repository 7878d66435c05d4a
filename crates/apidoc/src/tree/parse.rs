//! Text to [`Document`]: JSON by a reader of its own, everything else as YAML.
//!
//! JSON is nearly a part of YAML 1.2, but not quite: it may hold characters that YAML forbids, and its errors are clearer
//! when they are JSON's. Text that begins as JSON and is none is tried as YAML, which may begin so too.

use super::build::Builder;
use super::{Document, Size, Slot, Value, json, yaml};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Limits;
use std::borrow::Cow;

/// Parses `bytes` as the document `name`.
///
/// # Errors
/// Every duplicate key, or the one place where the syntax breaks or a limit is passed.
pub(crate) fn parse(name: &str, bytes: &[u8], limits: &Limits) -> Result<Document, Vec<Diagnostic>> {
    let text = text(name, bytes).map_err(|d| vec![d])?;
    if !text.trim_start().starts_with(['{', '[']) {
        return yaml::parse(text, Builder::new(name, limits));
    }
    match json::parse(text, Builder::new(name, limits)) {
        Err(errors) if errors.iter().any(|e| e.code == Code::Syntax && e.message.starts_with(json::NOT_JSON)) => {
            // of two complaints the one that came further knows better what the text is
            let place = |errors: &[Diagnostic]| errors.last().map(|e| (e.line, e.column));
            let tried = yaml::parse(text, Builder::new(name, limits));
            tried.map_err(|others| if place(&others) > place(&errors) { others } else { errors })
        }
        result => result,
    }
}

/// A document that is one text, such as an included example that is not YAML.
pub(crate) fn plain(name: &str, bytes: &[u8]) -> Result<Document, Vec<Diagnostic>> {
    let text = text(name, bytes).map_err(|d| vec![d])?;
    let slot = Slot { value: Value::String(text.into()), line: 1, column: 1, parent: 0, nth: 0 };
    Ok(Document {
        name: name.to_owned(),
        values: vec![slot],
        root: 0,
        size: Size { values: 1, height: 1 },
        remarks: Vec::new(),
    })
}

/// UTF-8 without its byte order mark.
pub(crate) fn text<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b str, Diagnostic> {
    if bytes.starts_with(&[0xFE, 0xFF]) || bytes.starts_with(&[0xFF, 0xFE]) {
        return Err(Diagnostic::whole(Code::Syntax, name, "the file is UTF-16; save it as UTF-8"));
    }
    match std::str::from_utf8(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)) {
        Ok(text) => Ok(text),
        Err(e) => {
            let line = 1 + bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count() as u32;
            Err(Diagnostic::at_line(Code::Syntax, name, line, None, "the file is not UTF-8 from here on"))
        }
    }
}

/// The number that a plain scalar of the core schema means, if it means one that JSON can say.
pub(crate) fn number(text: &str) -> Option<serde_json::Number> {
    if !looks_numeric(text) {
        return None;
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Into::into);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().map(Into::into);
    }
    if let Ok(n) = text.parse::<u64>() {
        return Some(n.into());
    }
    // -0 is an integer for JSON, and a float would print as -0.0
    if let Ok(n) = text.parse::<i64>() {
        return Some(n.into());
    }
    text.parse::<f64>().ok().and_then(serde_json::Number::from_f64)
}

/// Whether a plain scalar is a number by the core schema; infinities and NaN are not counted, JSON has none.
pub(super) fn looks_numeric(text: &str) -> bool {
    let all = |s: &str, f: fn(&u8) -> bool| !s.is_empty() && s.bytes().all(|b| f(&b));
    if let Some(digits) = text.strip_prefix("0x") {
        return all(digits, u8::is_ascii_hexdigit);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return all(digits, |b| matches!(b, b'0'..=b'7'));
    }
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((m, e)) => (m, Some(e.strip_prefix(['-', '+']).unwrap_or(e))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| all(e, u8::is_ascii_digit))
}

/// At most forty characters of a name for a message.
pub(crate) fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
