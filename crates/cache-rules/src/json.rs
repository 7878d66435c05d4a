//! A canonical form of JSON, for keys: members sorted, white space gone, strings with the fewest escapes, as in RFC 8785.
//!
//! Two differences, both on the side of caution. Numbers stay as they are written: `1`, `1.0` and `1e0` are the same number to RFC 8785 and three
//! things to some origins, and its doubles cannot tell 2^53 from 2^53 + 1, which is a seed of its own to a model. A miss more is all it costs.
//! And members are sorted by their bytes in UTF-8 rather than UTF-16, which for a key is as good.

use std::collections::HashSet;
use std::ops::Range;

/// Deepest nesting.
const MAX_DEPTH: usize = 64;

/// The text has no canonical form here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCanonical {
    /// No JSON text (RFC 8259).
    Syntax,
    /// A name that comes twice in one object, also in other cases (`a`, `A`): parsers disagree about which counts, and many do not tell cases apart.
    DuplicateName,
    /// An escaped half of a surrogate pair: parsers disagree about what it is.
    LoneSurrogate,
    /// Nested more than 64 deep, or so that sorting it would cost many times its size.
    TooComplex,
}

/// Appends the canonical form.
///
/// # Errors
/// When there is none; what was appended is void.
pub fn write_canonical(text: &[u8], out: &mut Vec<u8>) -> Result<(), NotCanonical> {
    if std::str::from_utf8(text).is_err() {
        return Err(NotCanonical::Syntax);
    }
    let mut writer = Writer { rest: text, out, budget: text.len().saturating_mul(16) };
    writer.value(0)?;
    writer.skip_space();
    if writer.rest.is_empty() { Ok(()) } else { Err(NotCanonical::Syntax) }
}

struct Writer<'a, 'o> {
    rest: &'a [u8],
    out: &'o mut Vec<u8>,
    /// Bytes that sorting may still copy.
    budget: usize,
}

/// One member of an object in the output: its name with quotes, and all of it.
struct Member {
    name: Range<usize>,
    whole: Range<usize>,
}

impl Writer<'_, '_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', after @ ..] = self.rest {
            self.rest = after;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        if taken {
            self.rest = &self.rest[1..];
        }
        taken
    }

    fn value(&mut self, depth: usize) -> Result<(), NotCanonical> {
        if depth > MAX_DEPTH {
            return Err(NotCanonical::TooComplex);
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let word = [&b"true"[..], b"false", b"null"].into_iter().find(|word| self.rest.starts_with(word));
                let word = word.ok_or(NotCanonical::Syntax)?;
                self.rest = &self.rest[word.len()..];
                self.out.extend_from_slice(word);
                Ok(())
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), NotCanonical> {
        self.take(b'[');
        self.out.push(b'[');
        self.skip_space();
        if !self.take(b']') {
            loop {
                self.value(depth + 1)?;
                self.skip_space();
                if self.take(b']') {
                    break;
                }
                if !self.take(b',') {
                    return Err(NotCanonical::Syntax);
                }
                self.out.push(b',');
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), NotCanonical> {
        self.take(b'{');
        self.out.push(b'{');
        let mut members = Vec::new();
        self.skip_space();
        if !self.take(b'}') {
            loop {
                self.skip_space();
                let start = self.out.len();
                self.string()?;
                let name = start..self.out.len();
                self.skip_space();
                if !self.take(b':') {
                    return Err(NotCanonical::Syntax);
                }
                self.out.push(b':');
                self.value(depth + 1)?;
                members.push(Member { name, whole: start..self.out.len() });
                self.skip_space();
                if self.take(b'}') {
                    break;
                }
                if !self.take(b',') {
                    return Err(NotCanonical::Syntax);
                }
                self.out.push(b',');
            }
        }
        self.sort(&mut members)?;
        self.out.push(b'}');
        Ok(())
    }

    /// Sorts the members, which are the end of the output.
    fn sort(&mut self, members: &mut [Member]) -> Result<(), NotCanonical> {
        if self.has_names_that_differ_in_case_only(members) {
            return Err(NotCanonical::DuplicateName);
        }
        let out = &mut *self.out;
        let is_sorted = members.is_sorted_by(|a, b| out[a.name.clone()] < out[b.name.clone()]);
        if is_sorted {
            return Ok(());
        }
        let start = members[0].whole.start;
        self.budget = self.budget.checked_sub(out.len() - start).ok_or(NotCanonical::TooComplex)?;
        members.sort_by(|a, b| out[a.name.clone()].cmp(&out[b.name.clone()]));
        if members.windows(2).any(|pair| out[pair[0].name.clone()] == out[pair[1].name.clone()]) {
            return Err(NotCanonical::DuplicateName);
        }
        let unsorted = out.split_off(start);
        for (index, member) in members.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&unsorted[member.whole.start - start..member.whole.end - start]);
        }
        Ok(())
    }

    fn has_names_that_differ_in_case_only(&self, members: &[Member]) -> bool {
        let name = |member: &Member| &self.out[member.name.clone()];
        // As nearly all are.
        if members.iter().all(|member| !name(member).iter().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii())) {
            return false;
        }
        let mut seen = HashSet::new();
        // Both ways, because some letters have two small ones (`s`, U+017F) or two large ones (`K`, U+212A).
        let folded = |name: &[u8]| String::from_utf8_lossy(name).to_uppercase().to_lowercase();
        members.iter().any(|member| !seen.insert(folded(name(member))))
    }

    fn number(&mut self) -> Result<(), NotCanonical> {
        let start = self.rest;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        self.out.extend_from_slice(&start[..start.len() - self.rest.len()]);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotCanonical> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = &self.rest[count..];
        if count > 0 { Ok(()) } else { Err(NotCanonical::Syntax) }
    }

    fn string(&mut self) -> Result<(), NotCanonical> {
        if !self.take(b'"') {
            return Err(NotCanonical::Syntax);
        }
        self.out.push(b'"');
        loop {
            let length = self
                .rest
                .iter()
                .position(|&byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))
                .ok_or(NotCanonical::Syntax)?;
            let (plain, after) = self.rest.split_at(length);
            self.out.extend_from_slice(plain);
            self.rest = &after[1..];
            match after[0] {
                b'"' => break,
                b'\\' => self.escape()?,
                _ => return Err(NotCanonical::Syntax),
            }
        }
        self.out.push(b'"');
        Ok(())
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<(), NotCanonical> {
        let (&byte, after) = self.rest.split_first().ok_or(NotCanonical::Syntax)?;
        self.rest = after;
        let character = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => match self.four_digits()? {
                high @ 0xd800..=0xdbff => {
                    let low = if self.take(b'\\') && self.take(b'u') { self.four_digits()? } else { 0 };
                    if !(0xdc00..=0xdfff).contains(&low) {
                        return Err(NotCanonical::LoneSurrogate);
                    }
                    let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    char::from_u32(code).ok_or(NotCanonical::LoneSurrogate)?
                }
                code => char::from_u32(code).ok_or(NotCanonical::LoneSurrogate)?,
            },
            _ => return Err(NotCanonical::Syntax),
        };
        match character {
            '"' | '\\' => self.out.extend_from_slice(&[b'\\', character as u8]),
            '\u{8}' => self.out.extend_from_slice(b"\\b"),
            '\u{c}' => self.out.extend_from_slice(b"\\f"),
            '\n' => self.out.extend_from_slice(b"\\n"),
            '\r' => self.out.extend_from_slice(b"\\r"),
            '\t' => self.out.extend_from_slice(b"\\t"),
            '\0'..='\u{1f}' => {
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                let code = character as u8;
                self.out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(code >> 4), digit(code & 15)]);
            }
            _ => self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        Ok(())
    }

    fn four_digits(&mut self) -> Result<u32, NotCanonical> {
        let (digits, after) = self.rest.split_at_checked(4).ok_or(NotCanonical::Syntax)?;
        self.rest = after;
        digits.iter().try_fold(0, |code, &digit| {
            let value = char::from(digit).to_digit(16).ok_or(NotCanonical::Syntax)?;
            Ok(code << 4 | value)
        })
    }
}
