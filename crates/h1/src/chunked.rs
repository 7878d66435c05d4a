//! The chunked transfer coding (RFC 9112 section 7.1), decoded strictly.

use message::validate::trim;

use crate::bytes::{is_text_byte, is_token_byte};
use crate::{BodyEvent, Known, Limits, ParseError};

/// Trailer fields of a body that are kept.
const TRAILER_FIELDS: u8 = 32;

/// Decodes a chunked body. Extensions are checked and dropped. So are trailers, unless [`keep_trailers`](Self::keep_trailers) was called:
/// they must never be merged into fields (7.1.2).
#[derive(Debug, Clone)]
pub struct ChunkedDecoder {
    state: State,
    /// Size being read, then bytes of data still to come.
    size: u64,
    /// Bytes of the current size line.
    line: usize,
    /// Bytes of all extensions so far.
    extensions: usize,
    /// Bytes of the trailer section so far.
    trailer: usize,
    /// Trailer fields so far, where they are kept.
    fields: Option<u8>,
    /// Their lines.
    kept: Vec<u8>,
}

/// Where in the coding the decoder stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between pieces of data.
    Line(Line),
    /// Within data.
    Data,
    /// Complete.
    Done,
    /// Broken; where a next message would begin cannot be known.
    Failed(ParseError),
}

/// Where between two pieces of data the decoder stands; each step takes one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Before the first digit of a size.
    SizeStart,
    /// Within the digits, so many of them.
    Size { digits: u8 },
    /// After the `;` of an extension.
    NameStart,
    /// Within its name.
    Name,
    /// After the `=`.
    ValueStart,
    /// Within a value that is a token.
    Token,
    /// Within one in quotes.
    Quoted,
    /// After a backslash there.
    Escaped,
    /// After the closing quote.
    QuotedEnd,
    /// After the carriage return of a size line.
    SizeLf,
    /// Before the carriage return behind the data.
    DataCr,
    /// Before the line feed behind the data.
    DataLf,
    /// At the start of a trailer line.
    TrailerStart,
    /// In a trailer's name.
    TrailerName,
    /// In a trailer's value.
    TrailerValue,
    /// After the carriage return of a trailer line.
    TrailerLf,
    /// After the final carriage return.
    EndLf,
}

/// Digits of the largest size. Zeros in front of a size count: parsers differ in how many they bear.
const SIZE_DIGITS: u8 = 16;

impl Default for ChunkedDecoder {
    fn default() -> Self {
        ChunkedDecoder::new()
    }
}

impl ChunkedDecoder {
    /// A decoder before the first chunk.
    pub fn new() -> Self {
        ChunkedDecoder {
            state: State::Line(Line::SizeStart),
            size: 0,
            line: 0,
            extensions: 0,
            trailer: 0,
            fields: None,
            kept: Vec::new(),
        }
    }

    /// From now on trailers are kept.
    pub fn keep_trailers(&mut self) {
        self.fields = Some(0);
    }

    /// The trailers that were kept: lines of a name, a colon, a value that may have white space around it, and CRLF. Of no use before
    /// the end of the body.
    pub fn trailers(&self) -> &[u8] {
        &self.kept
    }

    /// Whether the last chunk and the trailer section were seen.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// See [`BodyDecoder::decode`](crate::BodyDecoder::decode).
    ///
    /// # Errors
    /// The rule that the input breaks; the same again for whatever follows.
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, BodyEvent), ParseError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Line(line) => {
                    if let Some(length) = self.plain_line(line, &input[at..]) {
                        at += length;
                        continue;
                    }
                    let Some(&byte) = input.get(at) else { return Ok((at, BodyEvent::NeedMore)) };
                    self.state = self.step(line, byte).unwrap_or_else(State::Failed);
                    at += 1;
                }
                State::Data => {
                    let length = usize::try_from(self.size).unwrap_or(usize::MAX).min(input.len() - at);
                    if length == 0 {
                        return Ok((at, BodyEvent::NeedMore));
                    }
                    self.size -= length as u64;
                    if self.size == 0 {
                        self.state = State::Line(Line::DataCr);
                    }
                    return Ok((at + length, BodyEvent::Data(at..at + length)));
                }
                State::Done => return Ok((at, BodyEvent::End)),
                State::Failed(error) => return Err(error),
            }
        }
    }

    /// Takes a whole size line without extension, with the line end of the data before it, if `input` begins so and more data
    /// follows; else nothing. The steps would come to the same: this is what nearly all chunks look like, at a fraction of the cost.
    #[inline]
    fn plain_line(&mut self, line: Line, input: &[u8]) -> Option<usize> {
        let (before, input) = match line {
            Line::SizeStart => (0, input),
            Line::DataCr => (2, input.strip_prefix(b"\r\n")?),
            _ => return None,
        };
        let mut size = 0;
        let mut digits = 0;
        for digit in input.iter().take(usize::from(SIZE_DIGITS)).map_while(|&byte| hex(byte)) {
            size = size << 4 | digit;
            digits += 1;
        }
        // Without digits the size is 0 as well.
        if size == 0 || !input[digits..].starts_with(b"\r\n") {
            return None;
        }
        self.size = size;
        self.state = State::Data;
        Some(before + digits + 2)
    }

    /// Takes one byte that is not data.
    fn step(&mut self, line: Line, byte: u8) -> Result<State, ParseError> {
        let next = match line {
            Line::SizeStart => {
                self.size = hex(byte).ok_or(ParseError::ChunkSize)?;
                self.line = 1;
                Line::Size { digits: 1 }
            }
            Line::Size { digits } => match (byte, hex(byte)) {
                (_, Some(_)) if digits == SIZE_DIGITS => return Err(ParseError::ChunkSize),
                (_, Some(digit)) => {
                    self.line += 1;
                    self.size = self.size << 4 | digit;
                    Line::Size { digits: digits + 1 }
                }
                (b'\r', _) => Line::SizeLf,
                // White space before `;` is read differently by different parsers, and no sender may write it (7.1.1, RFC 9110
                // section 5.6.3): refused here, before the first extension, and everywhere behind it.
                (b';', _) => self.extension(Line::NameStart)?,
                _ => return Err(ParseError::ChunkSize),
            },
            Line::NameStart if is_token_byte(byte) => self.extension(Line::Name)?,
            Line::Name | Line::Token if is_token_byte(byte) => self.extension(line)?,
            Line::Name if byte == b'=' => self.extension(Line::ValueStart)?,
            Line::ValueStart if is_token_byte(byte) => self.extension(Line::Token)?,
            Line::ValueStart if byte == b'"' => self.extension(Line::Quoted)?,
            Line::Quoted if byte == b'"' => self.extension(Line::QuotedEnd)?,
            Line::Quoted if byte == b'\\' => self.extension(Line::Escaped)?,
            Line::Quoted | Line::Escaped if is_text_byte(byte) && byte.is_ascii() => self.extension(Line::Quoted)?,
            Line::Name | Line::Token | Line::QuotedEnd if byte == b';' => self.extension(Line::NameStart)?,
            Line::Name | Line::Token | Line::QuotedEnd if byte == b'\r' => Line::SizeLf,
            Line::NameStart
            | Line::Name
            | Line::ValueStart
            | Line::Token
            | Line::Quoted
            | Line::Escaped
            | Line::QuotedEnd => return Err(ParseError::ChunkExtension),
            Line::SizeLf => match (byte, self.size) {
                (b'\n', 0) => Line::TrailerStart,
                (b'\n', _) => return Ok(State::Data),
                _ => return Err(ParseError::ChunkSize),
            },
            Line::DataCr if byte == b'\r' => Line::DataLf,
            Line::DataLf if byte == b'\n' => Line::SizeStart,
            Line::DataCr | Line::DataLf => return Err(ParseError::ChunkEnd),
            Line::TrailerStart if byte == b'\r' => Line::EndLf,
            Line::TrailerStart if is_token_byte(byte) => {
                if let Some(fields) = &mut self.fields {
                    *fields += 1;
                    if *fields > TRAILER_FIELDS {
                        return Err(ParseError::TrailerTooLarge);
                    }
                }
                self.trailer(byte, Line::TrailerName)?
            }
            Line::TrailerName if is_token_byte(byte) => self.trailer(byte, Line::TrailerName)?,
            Line::TrailerName if byte == b':' => self.trailer(byte, Line::TrailerValue)?,
            Line::TrailerValue if is_text_byte(byte) => self.trailer(byte, Line::TrailerValue)?,
            Line::TrailerValue if byte == b'\r' => self.trailer(byte, Line::TrailerLf)?,
            Line::TrailerLf if byte == b'\n' => self.trailer(byte, Line::TrailerStart)?,
            Line::EndLf if byte == b'\n' => return Ok(State::Done),
            Line::TrailerStart | Line::TrailerName | Line::TrailerValue | Line::TrailerLf | Line::EndLf => {
                return Err(ParseError::Trailer);
            }
        };
        Ok(State::Line(next))
    }

    /// Counts one byte of an extension.
    fn extension(&mut self, next: Line) -> Result<Line, ParseError> {
        self.line += 1;
        self.extensions += 1;
        let is_too_long = self.line > Limits::CHUNK_LINE || self.extensions > Limits::CHUNK_EXTENSIONS;
        if is_too_long { Err(ParseError::ChunkExtensionTooLong) } else { Ok(next) }
    }

    /// Takes one byte of the trailer section.
    fn trailer(&mut self, byte: u8, next: Line) -> Result<Line, ParseError> {
        self.trailer += 1;
        if self.trailer > Limits::TRAILER {
            return Err(ParseError::TrailerTooLarge);
        }
        if self.fields.is_some() {
            self.kept.push(byte);
        }
        Ok(next)
    }
}

/// The fields of [trailers](ChunkedDecoder::trailers): name and value, without the white space around it.
pub fn trailer_fields(lines: &[u8]) -> impl Iterator<Item = (Known, &[u8], &[u8])> {
    lines.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (name, value) = line.split_at_checked(line.iter().position(|&byte| byte == b':')?)?;
        Some((Known::of(name), name, trim(value.get(1..)?)))
    })
}

fn hex(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}
