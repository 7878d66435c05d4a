//! Dictionaries of structured fields (RFC 8941 section 4.2.2, the one that RFC 9213 names). Strict: a value with any error is no value.

use super::list::is_tchar;

/// A value, as far as cache directives need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Integer.
    Integer(i64),
    /// String, escapes as they came.
    String(&'a [u8]),
    /// Token.
    Token(&'a [u8]),
    /// Boolean.
    Boolean(bool),
    /// Decimal, byte sequence or inner list.
    Other,
}

/// The value is no dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotADictionary;

/// Parses a dictionary and hands out its members in order; parameters are checked and ignored. A key may come again: the last one counts, which
/// is the caller's to see to. What was handed out before an error is void.
///
/// # Errors
/// Any deviation from the grammar. An empty value is an empty dictionary.
pub fn dictionary<'a>(value: &'a [u8], mut member: impl FnMut(&'a [u8], Value<'a>)) -> Result<(), NotADictionary> {
    let mut parser = Parser { rest: value };
    parser.skip_spaces();
    while let [before @ .., b' '] = parser.rest {
        parser.rest = before;
    }
    if parser.rest.is_empty() {
        return Ok(());
    }
    loop {
        let key = parser.key()?;
        let value = match parser.take(b'=') {
            true if parser.take(b'(') => {
                parser.inner_list()?;
                Value::Other
            }
            true => parser.bare_item()?,
            false => Value::Boolean(true),
        };
        parser.parameters()?;
        member(key, value);
        parser.skip_white_space();
        if parser.rest.is_empty() {
            return Ok(());
        }
        if !parser.take(b',') {
            return Err(NotADictionary);
        }
        // A comma at the end is followed by no key, which is an error.
        parser.skip_white_space();
    }
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        if taken {
            self.rest = &self.rest[1..];
        }
        taken
    }

    fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.rest.iter().position(|&byte| !accept(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn skip_spaces(&mut self) {
        self.take_while(|byte| byte == b' ');
    }

    fn skip_white_space(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    fn key(&mut self) -> Result<&'a [u8], NotADictionary> {
        match self.peek() {
            Some(b'a'..=b'z' | b'*') => {
                Ok(self.take_while(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*')))
            }
            _ => Err(NotADictionary),
        }
    }

    fn parameters(&mut self) -> Result<(), NotADictionary> {
        while self.take(b';') {
            self.skip_spaces();
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Ok(())
    }

    /// The rest of an inner list, whose `(` is taken.
    fn inner_list(&mut self) -> Result<(), NotADictionary> {
        loop {
            self.skip_spaces();
            if self.take(b')') {
                return Ok(());
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.peek(), Some(b' ' | b')')) {
                return Err(NotADictionary);
            }
        }
    }

    fn bare_item(&mut self) -> Result<Value<'a>, NotADictionary> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'"') => self.string(),
            Some(b'*' | b'A'..=b'Z' | b'a'..=b'z') => {
                Ok(Value::Token(self.take_while(|byte| is_tchar(byte) || matches!(byte, b':' | b'/'))))
            }
            Some(b':') => self.byte_sequence(),
            Some(b'?') => {
                self.take(b'?');
                match (self.take(b'1'), self.take(b'0')) {
                    (true, false) => Ok(Value::Boolean(true)),
                    (false, true) => Ok(Value::Boolean(false)),
                    _ => Err(NotADictionary),
                }
            }
            _ => Err(NotADictionary),
        }
    }

    /// Up to 15 digits, or 12 before and 3 behind a point.
    fn number(&mut self) -> Result<Value<'a>, NotADictionary> {
        let is_negative = self.take(b'-');
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 15 {
            return Err(NotADictionary);
        }
        if self.take(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let valid = whole.len() <= 12 && (1..=3).contains(&fraction.len());
            return if valid { Ok(Value::Other) } else { Err(NotADictionary) };
        }
        let number = whole.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        Ok(Value::Integer(if is_negative { -number } else { number }))
    }

    fn string(&mut self) -> Result<Value<'a>, NotADictionary> {
        self.take(b'"');
        let start = self.rest;
        loop {
            self.take_while(|byte| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\'));
            let length = start.len() - self.rest.len();
            if self.take(b'"') {
                return Ok(Value::String(&start[..length]));
            }
            if !(self.take(b'\\') && (self.take(b'"') || self.take(b'\\'))) {
                return Err(NotADictionary);
            }
        }
    }

    fn byte_sequence(&mut self) -> Result<Value<'a>, NotADictionary> {
        self.take(b':');
        self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        if self.take(b':') { Ok(Value::Other) } else { Err(NotADictionary) }
    }
}
