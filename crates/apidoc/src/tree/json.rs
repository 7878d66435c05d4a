//! JSON (RFC 8259) to a document. Duplicate keys are errors, which the RFC leaves open (section 4).

use super::build::{Builder, TextPosition};
use super::parse::number;
use super::{Document, Map, Value};
use crate::diagnostic::{Code, Diagnostic};

/// How messages begin that say that the text is not JSON.
pub(super) const NOT_JSON: &str = "not JSON: ";

/// Parses `text` with `builder`.
pub(super) fn parse(text: &str, builder: Builder<'_>) -> Result<Document, Vec<Diagnostic>> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, line: 1, counted: 0, column: 1, builder };
    match reader.document() {
        Ok(()) => reader.builder.finish(),
        Err(fatal) => reader.builder.fatal(fatal),
    }
}

struct Reader<'t, 'l> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    line: u32,
    /// Up to where columns are counted, and the column there.
    counted: usize,
    column: u32,
    builder: Builder<'l>,
}

/// What may come next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Value,
    /// A value, or the end of a list that has just begun.
    FirstItem,
    /// A key, or the end of a mapping that has just begun.
    FirstKey,
    Key,
    /// A comma, or an end.
    More,
}

impl Reader<'_, '_> {
    /// Without recursion, so that depth costs no stack.
    fn document(&mut self) -> Result<(), Diagnostic> {
        let mut next = Next::Value;
        let mut open: Vec<u8> = Vec::new();
        loop {
            self.space();
            let at = self.place();
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(self.wrong("the text ends in the middle"));
            };
            match (next, byte) {
                (Next::FirstItem | Next::More, b']') | (Next::FirstKey | Next::More, b'}')
                    if open.last() == Some(&byte) =>
                {
                    self.at += 1;
                    open.pop();
                    self.builder.end(at)?;
                    next = Next::More;
                }
                (Next::More, b',') if !open.is_empty() => {
                    self.at += 1;
                    next = if open.last() == Some(&b'}') { Next::Key } else { Next::Value };
                }
                (Next::FirstKey | Next::Key, b'"') => {
                    let key = self.string()?;
                    self.builder.key(&key, false, at);
                    self.space();
                    if self.bytes.get(self.at) != Some(&b':') {
                        return Err(self.wrong("':' is expected after a key"));
                    }
                    self.at += 1;
                    next = Next::Value;
                }
                (Next::FirstKey | Next::Key, _) => {
                    return Err(self.wrong("a key in quotes is expected"));
                }
                (Next::More, _) => return Err(self.wrong("',' or an end is expected")),
                (Next::Value | Next::FirstItem, b'{') => {
                    self.at += 1;
                    open.push(b'}');
                    self.builder.begin(Value::Map(Map::default()), 0, at)?;
                    next = Next::FirstKey;
                }
                (Next::Value | Next::FirstItem, b'[') => {
                    self.at += 1;
                    open.push(b']');
                    self.builder.begin(Value::List(Vec::new()), 0, at)?;
                    next = Next::FirstItem;
                }
                (Next::Value | Next::FirstItem, _) => {
                    let value = self.scalar(byte, at)?;
                    self.builder.scalar(value, 0, at)?;
                    next = Next::More;
                }
            }
            if open.is_empty() {
                self.space();
                return if self.at == self.bytes.len() {
                    Ok(())
                } else {
                    Err(self.wrong("there is more after the end"))
                };
            }
        }
    }

    /// The present place. Columns are counted on from the last place, as all of a document may stand on one line.
    fn place(&mut self) -> TextPosition {
        self.column += self.text[self.counted..self.at].chars().count() as u32;
        self.counted = self.at;
        TextPosition { line: self.line, column: self.column }
    }

    fn wrong(&mut self, what: &str) -> Diagnostic {
        let at = self.place();
        self.builder.fault(Code::Syntax, at, format!("{NOT_JSON}{what}"))
    }

    fn space(&mut self) {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' => {
                    self.line += 1;
                    (self.counted, self.column) = (self.at + 1, 1);
                }
                b' ' | b'\t' | b'\r' => {}
                _ => return,
            }
            self.at += 1;
        }
    }

    fn scalar(&mut self, byte: u8, at: TextPosition) -> Result<Value, Diagnostic> {
        if byte == b'"' {
            return Ok(Value::String(self.string()?.into()));
        }
        let rest = &self.text[self.at..];
        for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        let end = rest
            .bytes()
            .position(|b| !matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .unwrap_or(rest.len());
        let digits = &rest[..end];
        if !is_number(digits) {
            return Err(self.wrong("a value is expected"));
        }
        self.at += end;
        if number(digits).is_none() {
            let text =
                format!("the number {} is too large to be held; it is read as null", super::parse::short(digits));
            self.builder.remark(at, text);
        }
        Ok(Value::Number(digits.into()))
    }

    fn string(&mut self) -> Result<String, Diagnostic> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.bytes[self.at..];
            let Some(end) = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)) else {
                self.at = self.bytes.len();
                return Err(self.wrong("the text ends in a string"));
            };
            // the stop is an ASCII byte, so that both ends are at characters
            out.push_str(&self.text[self.at..self.at + end]);
            self.at += end;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => out.push(self.escape()?),
                _ => return Err(self.wrong("a control character in a string must be escaped")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Diagnostic> {
        let c = match self.bytes.get(self.at + 1) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.wrong("there is no such escape")),
        };
        self.at += 2;
        Ok(c)
    }

    /// `\u0041`, or two of them that make one character; half of a pair alone becomes U+FFFD, as in browsers.
    fn unicode(&mut self) -> Result<char, Diagnostic> {
        let first =
            self.hex(self.at + 2).ok_or_else(|| self.wrong("four hexadecimal digits are expected after \\u"))?;
        self.at += 6;
        if (0xD800..0xDC00).contains(&first)
            && self.bytes[self.at..].starts_with(b"\\u")
            && let Some(second) = self.hex(self.at + 2).filter(|c| (0xDC00..0xE000).contains(c))
        {
            self.at += 6;
            let c = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            return Ok(char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at + 4).filter(|d| d.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

/// The grammar of numbers (RFC 8259, section 6).
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((m, e)) => (m, Some(e.strip_prefix(['-', '+']).unwrap_or(e))),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((w, f)) => (w, Some(f)),
        None => (mantissa, None),
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}
