//! An incremental lexer for one JSON value (RFC 8259): bytes in any split, tokens out, constant memory.

use std::fmt;

/// Containers that may be open at one time.
pub const MAX_DEPTH: u8 = 128;

/// Why bytes are not the one JSON value that is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonError {
    /// A byte that the grammar does not allow here.
    Syntax,
    /// More than [`MAX_DEPTH`] containers are open.
    TooDeep,
    /// Bytes other than white space follow the value.
    TrailingBytes,
    /// The value is not complete.
    Truncated,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JsonError::Syntax => "invalid JSON",
            JsonError::TooDeep => "JSON nested more than 128 levels deep",
            JsonError::TrailingBytes => "bytes after the end of the JSON value",
            JsonError::Truncated => "incomplete JSON",
        })
    }
}

impl std::error::Error for JsonError {}

/// What a token is. Strings and numbers come in fragments when the input is split inside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayStart,
    /// `]`
    ArrayEnd,
    /// A fragment of the name of a member, without quotes and with its escapes.
    Key(Fragment),
    /// A fragment of a string value, without quotes and with its escapes.
    String(Fragment),
    /// A fragment of a number.
    Number(Fragment),
    /// `true` or `false`
    Bool(bool),
    /// `null`
    Null,
}

/// Which part of a string or number a token holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// It starts with this fragment.
    pub first: bool,
    /// It ends with this fragment. A number ends with the byte behind it, so its last fragment may be empty.
    pub last: bool,
    /// A backslash was seen in this fragment or in one before it.
    pub escaped: bool,
}

/// A token and where it lies in the input of the call that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Index of its first byte. Strings: behind the quote.
    pub start: usize,
    /// Index behind its last byte. Strings: of the closing quote.
    pub end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    /// Behind `[`.
    FirstItem,
    /// Behind `{`.
    FirstKey,
    /// Behind a comma in an object.
    NextKey,
    Colon,
    AfterValue,
    Text {
        key: bool,
        escape: Escape,
    },
    Number(Number),
    Literal {
        word: Literal,
        matched: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    /// Behind a backslash.
    Started,
    /// So many hexadecimal digits are missing.
    Hex(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Literal {
    True,
    False,
    Null,
}

impl Literal {
    fn text(self) -> &'static [u8] {
        match self {
            Literal::True => b"true",
            Literal::False => b"false",
            Literal::Null => b"null",
        }
    }

    fn kind(self) -> TokenKind {
        match self {
            Literal::True => TokenKind::Bool(true),
            Literal::False => TokenKind::Bool(false),
            Literal::Null => TokenKind::Null,
        }
    }
}

impl Number {
    /// The state after `byte`; `None` if the byte does not belong to the number.
    fn after(self, byte: u8) -> Option<Number> {
        Some(match (self, byte) {
            (Number::Minus, b'0') => Number::Zero,
            (Number::Minus, b'1'..=b'9') | (Number::Integer, b'0'..=b'9') => Number::Integer,
            (Number::Zero | Number::Integer, b'.') => Number::Point,
            (Number::Point | Number::Fraction, b'0'..=b'9') => Number::Fraction,
            (Number::Zero | Number::Integer | Number::Fraction, b'e' | b'E') => Number::Exponent,
            (Number::Exponent, b'+' | b'-') => Number::ExponentSign,
            (Number::Exponent | Number::ExponentSign | Number::ExponentDigits, b'0'..=b'9') => Number::ExponentDigits,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        matches!(self, Number::Zero | Number::Integer | Number::Fraction | Number::ExponentDigits)
    }
}

/// Reads one JSON value, fed in any split. UTF-8 is not checked here.
#[derive(Debug, Clone)]
pub struct Lexer {
    state: State,
    depth: u8,
    /// One bit a level, the innermost lowest: 1 for an object.
    objects: u128,
    /// The next fragment is the first of its string.
    first: bool,
    escaped: bool,
}

impl Default for Lexer {
    fn default() -> Self {
        Self::new()
    }
}

impl Lexer {
    /// A lexer before its value.
    pub fn new() -> Self {
        Lexer { state: State::Value, depth: 0, objects: 0, first: false, escaped: false }
    }

    /// Containers that are open.
    pub fn depth(&self) -> u8 {
        self.depth
    }

    /// Whether the value is complete. A number at the top level is complete only with [`Lexer::finish`].
    pub fn is_complete(&self) -> bool {
        self.depth == 0 && self.state == State::AfterValue
    }

    /// The end of the input.
    pub fn finish(&self) -> Result<(), JsonError> {
        match self.state {
            State::AfterValue if self.depth == 0 => Ok(()),
            State::Number(number) if self.depth == 0 && number.may_end() => Ok(()),
            _ => Err(JsonError::Truncated),
        }
    }

    /// The next token of `input` from `*at`, which is moved behind what was read; `None` when the input is used up.
    pub fn next(&mut self, input: &[u8], at: &mut usize) -> Result<Option<Token>, JsonError> {
        match self.state {
            State::Text { key, escape } => {
                let start = *at;
                return self.text(input, at, start, key, escape);
            }
            State::Number(number) => return self.number(input, at, number),
            State::Literal { word, matched } => return self.literal(input, at, word, matched),
            _ => {}
        }
        let mut index = *at;
        while let Some(&byte) = input.get(index) {
            let start = index;
            index += 1;
            // Moved at once: errors name the byte.
            *at = index;
            let single = |kind| Ok(Some(Token { kind, start, end: start + 1 }));
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => {}
                b'"' => match self.state {
                    State::FirstKey | State::NextKey => return self.open_text(input, at, true),
                    State::Value | State::FirstItem => return self.open_text(input, at, false),
                    _ => return self.unexpected(),
                },
                b':' if self.state == State::Colon => self.state = State::Value,
                b',' if self.state == State::AfterValue && self.depth > 0 => {
                    self.state = if self.in_object() { State::NextKey } else { State::Value };
                }
                b'}' if self.in_object() && matches!(self.state, State::AfterValue | State::FirstKey) => {
                    self.close();
                    return single(TokenKind::ObjectEnd);
                }
                b']' if self.in_array() && matches!(self.state, State::AfterValue | State::FirstItem) => {
                    self.close();
                    return single(TokenKind::ArrayEnd);
                }
                _ if !matches!(self.state, State::Value | State::FirstItem) => return self.unexpected(),
                b'{' => {
                    self.open(true)?;
                    return single(TokenKind::ObjectStart);
                }
                b'[' => {
                    self.open(false)?;
                    return single(TokenKind::ArrayStart);
                }
                b'-' | b'0'..=b'9' => {
                    let number = match byte {
                        b'-' => Number::Minus,
                        b'0' => Number::Zero,
                        _ => Number::Integer,
                    };
                    self.first = true;
                    *at = start;
                    return self.number_from(input, at, index, number);
                }
                b't' => return self.literal(input, at, Literal::True, 1),
                b'f' => return self.literal(input, at, Literal::False, 1),
                b'n' => return self.literal(input, at, Literal::Null, 1),
                _ => return Err(JsonError::Syntax),
            }
        }
        *at = index;
        Ok(None)
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn in_array(&self) -> bool {
        self.depth > 0 && !self.in_object()
    }

    /// A byte that cannot be here.
    #[cold]
    fn unexpected(&self) -> Result<Option<Token>, JsonError> {
        let is_over = self.depth == 0 && self.state == State::AfterValue;
        Err(if is_over { JsonError::TrailingBytes } else { JsonError::Syntax })
    }

    fn open(&mut self, object: bool) -> Result<(), JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        self.state = if object { State::FirstKey } else { State::FirstItem };
        Ok(())
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
        self.state = State::AfterValue;
    }

    /// A string whose quote was read. Most are short, plain and whole.
    fn open_text(&mut self, input: &[u8], at: &mut usize, key: bool) -> Result<Option<Token>, JsonError> {
        let start = *at;
        let end = start + plain_prefix(&input[start..]);
        if input.get(end) == Some(&b'"') {
            *at = end + 1;
            self.state = if key { State::Colon } else { State::AfterValue };
            let part = Fragment { first: true, last: true, escaped: false };
            return Ok(Some(Token {
                kind: if key { TokenKind::Key(part) } else { TokenKind::String(part) },
                start,
                end,
            }));
        }
        self.first = true;
        self.escaped = false;
        self.text(input, at, end, key, Escape::None)
    }

    /// Goes on with a string at `end`; the fragment starts at `*at`.
    fn text(
        &mut self,
        input: &[u8],
        at: &mut usize,
        mut end: usize,
        key: bool,
        mut escape: Escape,
    ) -> Result<Option<Token>, JsonError> {
        let start = *at;
        let token = |lexer: &mut Self, end, last| {
            let part = Fragment { first: std::mem::take(&mut lexer.first), last, escaped: lexer.escaped };
            Token { kind: if key { TokenKind::Key(part) } else { TokenKind::String(part) }, start, end }
        };
        loop {
            if escape == Escape::None {
                end += plain_prefix(&input[end..]);
            }
            let Some(&byte) = input.get(end) else { break };
            escape = match (escape, byte) {
                (Escape::None, b'"') => {
                    *at = end + 1;
                    self.state = if key { State::Colon } else { State::AfterValue };
                    return Ok(Some(token(self, end, true)));
                }
                (Escape::None, b'\\') => {
                    self.escaped = true;
                    Escape::Started
                }
                (Escape::Started, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Escape::None,
                (Escape::Started, b'u') => Escape::Hex(4),
                (Escape::Hex(missing), digit) if digit.is_ascii_hexdigit() => {
                    if missing == 1 {
                        Escape::None
                    } else {
                        Escape::Hex(missing - 1)
                    }
                }
                _ => return Err(JsonError::Syntax),
            };
            end += 1;
        }
        *at = end;
        self.state = State::Text { key, escape };
        Ok((end > start).then(|| token(self, end, false)))
    }

    fn number(&mut self, input: &[u8], at: &mut usize, number: Number) -> Result<Option<Token>, JsonError> {
        if *at == input.len() {
            return Ok(None);
        }
        let from = *at;
        self.number_from(input, at, from, number)
    }

    /// Goes on with a number at `end`; the fragment starts at `*at`.
    fn number_from(
        &mut self,
        input: &[u8],
        at: &mut usize,
        mut end: usize,
        mut number: Number,
    ) -> Result<Option<Token>, JsonError> {
        let start = *at;
        while let Some(next) = input.get(end).and_then(|&byte| number.after(byte)) {
            number = next;
            end += 1;
        }
        let last = end < input.len();
        if last && !number.may_end() {
            return Err(JsonError::Syntax);
        }
        *at = end;
        self.state = if last { State::AfterValue } else { State::Number(number) };
        let part = Fragment { first: std::mem::take(&mut self.first), last, escaped: false };
        Ok(Some(Token { kind: TokenKind::Number(part), start, end }))
    }

    fn literal(
        &mut self,
        input: &[u8],
        at: &mut usize,
        word: Literal,
        mut matched: u8,
    ) -> Result<Option<Token>, JsonError> {
        let start = at.saturating_sub(usize::from(matched));
        while let Some(&expected) = word.text().get(usize::from(matched)) {
            match input.get(*at) {
                Some(&byte) if byte == expected => matched += 1,
                Some(_) => return Err(JsonError::Syntax),
                None => {
                    self.state = State::Literal { word, matched };
                    return Ok(None);
                }
            }
            *at += 1;
        }
        self.state = State::AfterValue;
        Ok(Some(Token { kind: word.kind(), start, end: *at }))
    }
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Bytes of a string that are looked at by words, before the vector instructions that long strings are worth.
const SHORT: usize = 32;

/// The length of what needs no look inside a string: no quote, no backslash, no control character. Prompts are mostly that.
fn plain_prefix(bytes: &[u8]) -> usize {
    let (short, long) = bytes.split_at(bytes.len().min(SHORT));
    let plain = plain_words(short);
    if plain < SHORT { plain } else { plain + plain_blocks(long) }
}

#[inline(never)]
fn plain_blocks(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<64>();
    // Without a branch for each byte, and as minima and differences of bytes, for which there are vector instructions everywhere: it is 0 where one
    // of the bytes ends what is plain.
    let least = |block: &[u8; 64]| {
        block
            .iter()
            .fold(u8::MAX, |least, &byte| least.min(byte.saturating_sub(0x1f)).min(byte ^ b'"').min(byte ^ b'\\'))
    };
    let plain = 64 * blocks.iter().take_while(|block| least(block) > 0).count();
    plain + plain_words(&bytes[plain..])
}

fn ends_plain(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The same, eight bytes at a time, to the byte.
fn plain_words(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    let equal = |word: u64, byte: u8| {
        let x = word ^ (LOW * u64::from(byte));
        x.wrapping_sub(LOW) & !x
    };
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(LOW * 0x20) & !word;
        // a borrow can only mark bytes above a true match, so the lowest mark is right
        let marks = (control | equal(word, b'"') | equal(word, b'\\')) & HIGH;
        if marks != 0 {
            return i * 8 + (marks.trailing_zeros() / 8) as usize;
        }
    }
    let stop = rest.iter().position(|&byte| ends_plain(byte));
    words.len() * 8 + stop.unwrap_or(rest.len())
}
