//! The chunked transfer coding (RFC 9112 section 7.1), decoded strictly.

use crate::{BodyEvent, Limits, ParseError};

/// Where in the coding the decoder stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    SizeStart,
    /// Within the digits.
    Size,
    /// In an extension, whose last byte other than white space is kept to refuse a lone `;`.
    Extension { last: u8 },
    /// After the carriage return of a size line.
    SizeLf,
    /// Within data.
    Data,
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
    /// Complete.
    Done,
}

/// Decodes a chunked body. Extensions are checked and dropped; so are trailers, which must never be merged into fields (7.1.2).
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
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        ChunkedDecoder::new()
    }
}

impl ChunkedDecoder {
    /// A decoder before the first chunk.
    pub fn new() -> Self {
        ChunkedDecoder { state: State::SizeStart, size: 0, line: 0, extensions: 0, trailer: 0 }
    }

    /// Whether the last chunk and the trailer section were seen.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// See [`BodyDecoder::decode`](crate::BodyDecoder::decode).
    ///
    /// # Errors
    /// The rule that the input breaks.
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, BodyEvent), ParseError> {
        let mut at = 0;
        while at < input.len() {
            if self.state == State::Done {
                return Ok((at, BodyEvent::End));
            }
            if self.state == State::Data {
                let length = usize::try_from(self.size).unwrap_or(usize::MAX).min(input.len() - at);
                self.size -= length as u64;
                if self.size == 0 {
                    self.state = State::DataCr;
                }
                return Ok((at + length, BodyEvent::Data(at..at + length)));
            }
            self.step(input[at])?;
            at += 1;
        }
        let event = if self.state == State::Done { BodyEvent::End } else { BodyEvent::NeedMore };
        Ok((at, event))
    }

    /// Takes one byte that is not data.
    fn step(&mut self, byte: u8) -> Result<(), ParseError> {
        self.state = match self.state {
            State::SizeStart => {
                self.size = hex(byte).ok_or(ParseError::ChunkSize)?;
                self.line = 1;
                State::Size
            }
            State::Size => {
                self.count_line()?;
                match (hex(byte), byte) {
                    (Some(digit), _) => {
                        if self.size >> 60 != 0 {
                            return Err(ParseError::ChunkSize);
                        }
                        self.size = self.size << 4 | digit;
                        State::Size
                    }
                    (None, b'\r') => State::SizeLf,
                    // White space before `;` is "bad" (7.1.1) and read differently: refused.
                    (None, b';') => self.extension(byte, 0)?,
                    _ => return Err(ParseError::ChunkSize),
                }
            }
            State::Extension { last } => {
                self.count_line()?;
                match byte {
                    b'\r' if matches!(last, b';' | b'=') => return Err(ParseError::ChunkExtension),
                    b'\r' => State::SizeLf,
                    _ => self.extension(byte, last)?,
                }
            }
            State::SizeLf => match (byte, self.size) {
                (b'\n', 0) => State::TrailerStart,
                (b'\n', _) => State::Data,
                _ => return Err(ParseError::ChunkSize),
            },
            State::DataCr if byte == b'\r' => State::DataLf,
            State::DataLf if byte == b'\n' => State::SizeStart,
            State::DataCr | State::DataLf => return Err(ParseError::ChunkEnd),
            State::TrailerStart if byte == b'\r' => State::EndLf,
            State::TrailerStart | State::TrailerName => {
                self.count_trailer()?;
                match byte {
                    b':' if self.state == State::TrailerName => State::TrailerValue,
                    _ if crate::field::is_token(&[byte]) => State::TrailerName,
                    _ => return Err(ParseError::Trailer),
                }
            }
            State::TrailerValue => {
                self.count_trailer()?;
                match byte {
                    b'\r' => State::TrailerLf,
                    b'\t' | 0x20..=0x7e | 0x80.. => State::TrailerValue,
                    _ => return Err(ParseError::Trailer),
                }
            }
            State::TrailerLf if byte == b'\n' => State::TrailerStart,
            State::EndLf if byte == b'\n' => State::Done,
            State::TrailerLf | State::EndLf => return Err(ParseError::Trailer),
            State::Data | State::Done => unreachable!("handled by decode"),
        };
        Ok(())
    }

    fn count_line(&mut self) -> Result<(), ParseError> {
        self.line += 1;
        if self.line > Limits::CHUNK_LINE { Err(ParseError::ChunkExtension) } else { Ok(()) }
    }

    fn count_trailer(&mut self) -> Result<(), ParseError> {
        self.trailer += 1;
        if self.trailer > Limits::TRAILER { Err(ParseError::Trailer) } else { Ok(()) }
    }

    /// One byte of an extension: visible, and no two `;` with nothing between them.
    fn extension(&mut self, byte: u8, last: u8) -> Result<State, ParseError> {
        self.extensions += 1;
        if self.extensions > Limits::CHUNK_EXTENSIONS {
            return Err(ParseError::ChunkExtension);
        }
        match byte {
            b';' if last == b';' || last == b'=' => Err(ParseError::ChunkExtension),
            b' ' | b'\t' => Ok(State::Extension { last }),
            0x21..=0x7e => Ok(State::Extension { last: byte }),
            _ => Err(ParseError::ChunkExtension),
        }
    }
}

fn hex(byte: u8) -> Option<u64> {
    match byte {
        b'0'..=b'9' => Some(u64::from(byte - b'0')),
        b'a'..=b'f' => Some(u64::from(byte - b'a' + 10)),
        b'A'..=b'F' => Some(u64::from(byte - b'A' + 10)),
        _ => None,
    }
}
