//! Quoting and escaping that several configuration languages share.

use std::fmt::Write as _;

/// A literal as it is in a request in normal form (RFC 3986, sections 3.3 and 6.2.2): what a path segment cannot hold is
/// percent-encoded, what it can is not, in upper case.
pub(super) fn encoded(segment: &str) -> String {
    let bytes = segment.as_bytes();
    let mut out = String::with_capacity(segment.len());
    let mut i = 0;
    while i < bytes.len() {
        let escape = if bytes[i] == b'%' { escape(segment, i) } else { None };
        i += if escape.is_some() { 3 } else { 1 };
        let byte = escape.unwrap_or(bytes[i - 1]);
        // `%2B` and `+` are not the same to everyone: of these an escape stays one.
        let plain = escape.is_none() && b"!$&'()*+,;=:@".contains(&byte);
        if unreserved(byte) || plain {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Undoes percent-encoding. What is then no UTF-8 stays encoded.
pub(super) fn decoded(segment: &str) -> String {
    String::from_utf8(bytes(segment)).unwrap_or_else(|_| segment.to_owned())
}

/// Undoes percent-encoding.
fn bytes(segment: &str) -> Vec<u8> {
    let bytes = segment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        match if bytes[i] == b'%' { escape(segment, i) } else { None } {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    out
}

/// What a URI never has to encode (RFC 3986, section 2.3).
fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// A regular expression for every form that a literal can have in a request. If `plain`, the gateway has decoded unreserved characters before.
pub(super) fn every_form(literal: &str, plain: bool) -> String {
    let mut out = String::new();
    for byte in bytes(literal) {
        let character = char::from(byte);
        if plain && unreserved(byte) {
            out.push_str(&regex(&character.to_string()));
            continue;
        }
        let digit = |digit: char| match digit.is_ascii_alphabetic() {
            true => format!("[{digit}{}]", digit.to_ascii_lowercase()),
            false => digit.to_string(),
        };
        let escape: String = std::iter::once("%".to_owned()).chain(format!("{byte:02X}").chars().map(digit)).collect();
        if byte == b'%' {
            // Many servers take one without digits behind it for itself.
            out.push_str("%(25)?");
        } else if byte.is_ascii_graphic() && byte != b'?' {
            let _ = write!(out, "({}|{escape})", regex(&character.to_string()));
        } else {
            out.push_str(&escape);
        }
    }
    out
}

/// [`every_form`] for gateways that decode a path as [`decoded_but_reserved`].
pub(super) fn reserved_in_every_form(literal: &str) -> String {
    let mut out = String::new();
    for c in decoded(literal).chars() {
        match c {
            '!' | '#' | '$' | '&' | '\'' | '(' | ')' | '*' | '+' | ',' | '/' | ':' | ';' | '=' | '?' | '@' | '['
            | ']' | '%' => {
                out.push_str(&every_form(&format!("%{:02X}", c as u32), true));
            }
            other => out.push_str(&regex(&other.to_string())),
        }
    }
    out
}

/// The forms of a literal in requests to a gateway that writes every escape in upper case and decodes those of unreserved characters: `@` and `%40` are two.
/// `None` if there are more than `most`, or if one has a brace, which a template cannot have.
pub(super) fn normal_forms(literal: &str, most: usize) -> Option<Vec<String>> {
    let mut out = vec![String::new()];
    for byte in bytes(literal) {
        let (plain, escape) = (char::from(byte), format!("%{byte:02X}"));
        if b"{}".contains(&byte) {
            return None;
        }
        let both = byte.is_ascii_graphic() && !unreserved(byte) && !b"%?#".contains(&byte);
        let copies = if both { out.clone() } else { Vec::new() };
        for form in &mut out {
            if both || unreserved(byte) { form.push(plain) } else { form.push_str(&escape) }
        }
        out.extend(copies.into_iter().map(|form| form + &escape));
        if out.len() > most {
            return None;
        }
    }
    Some(out)
}

/// A literal as gateways compare it that decode a path but for what is reserved (RFC 3986, section 2.2) and the percent sign.
pub(super) fn decoded_but_reserved(literal: &str) -> String {
    let mut out = String::new();
    for (i, piece) in literal.split('%').enumerate() {
        // `encoded` leaves no percent sign without its two digits.
        let kept = i > 0
            && piece
                .get(..2)
                .and_then(|hex| u8::from_str_radix(hex, 16).ok())
                .is_some_and(|byte| b"!#$&'()*+,/:;=?@[]%".contains(&byte));
        if i > 0 {
            out.push_str(if kept { "\u{0}" } else { "%" });
        }
        out.push_str(piece);
    }
    decoded(&out).replace('\u{0}', "%")
}

/// A double-quoted string: JSON's form is also YAML's.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Escapes what means something in a regular expression (PCRE, RE2 and Java agree on these), also `/` for none of them.
pub(super) fn regex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// JSON on many lines, with a newline at its end.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    // A value of maps with text for keys can always be written.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// The byte that two hexadecimal digits behind a `%` at `i` stand for.
fn escape(segment: &str, i: usize) -> Option<u8> {
    let hex = segment[i..].strip_prefix('%')?.get(..2)?;
    hex.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(hex, 16).ok())?
}
