//! Escapes of JSON strings.

use std::borrow::Cow;
use std::fmt;

/// Why the escapes of a string have no one meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringError {
    /// A surrogate without its partner: parsers refuse it, replace it or keep it.
    LoneSurrogate,
    /// Not an escape of RFC 8259, or not UTF-8.
    Invalid,
}

impl fmt::Display for StringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StringError::LoneSurrogate => "a surrogate escape without its partner",
            StringError::Invalid => "an invalid string",
        })
    }
}

impl std::error::Error for StringError {}

/// The text of a raw string (without its quotes).
pub fn unescape(raw: &[u8]) -> Result<Cow<'_, str>, StringError> {
    if !raw.contains(&b'\\') {
        return std::str::from_utf8(raw).map(Cow::Borrowed).map_err(|_| StringError::Invalid);
    }
    let mut text = Vec::with_capacity(raw.len());
    unescape_into(raw, &mut text)?;
    String::from_utf8(text).map(Cow::Owned).map_err(|_| StringError::Invalid)
}

/// Appends the bytes of a raw string (without its quotes) to `text`. UTF-8 of what is not escaped is not checked.
pub fn unescape_into(raw: &[u8], text: &mut Vec<u8>) -> Result<(), StringError> {
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        at += 1;
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        let kind = *raw.get(at).ok_or(StringError::Invalid)?;
        at += 1;
        text.push(match kind {
            b'"' | b'\\' | b'/' => kind,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let unit = hex4(raw, at)?;
                at += 4;
                let scalar = match unit {
                    0xD800..=0xDBFF => {
                        if raw.get(at..at + 2) != Some(b"\\u") {
                            return Err(StringError::LoneSurrogate);
                        }
                        let low = hex4(raw, at + 2)?;
                        at += 6;
                        if !(0xDC00..=0xDFFF).contains(&low) {
                            return Err(StringError::LoneSurrogate);
                        }
                        0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
                    }
                    _ => unit,
                };
                let scalar = char::from_u32(scalar).ok_or(StringError::LoneSurrogate)?;
                text.extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return Err(StringError::Invalid),
        });
    }
    Ok(())
}

fn hex4(raw: &[u8], at: usize) -> Result<u32, StringError> {
    let digits = raw.get(at..at + 4).ok_or(StringError::Invalid)?;
    digits.iter().try_fold(0, |value, &digit| {
        char::from(digit).to_digit(16).map(|digit| value << 4 | digit).ok_or(StringError::Invalid)
    })
}

/// Appends `text` as a JSON string with its quotes.
pub fn push_escaped(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
