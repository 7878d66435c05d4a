//! Message bodies as streams of events.

use std::ops::Range;

use crate::{ChunkedDecoder, ParseError};

/// How a body is framed (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// No body.
    None,
    /// So many bytes, more than none.
    Length(u64),
    /// Chunked coding.
    Chunked,
    /// Everything until the connection closes; responses only.
    UntilClose,
}

/// What a decoder found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyEvent {
    /// Body bytes at this range of the input.
    Data(Range<usize>),
    /// The input ends within the body.
    NeedMore,
    /// The body is complete; bytes behind it belong to the next message.
    End,
}

/// Says which bytes of the input are body. State only: no bytes are held.
#[derive(Debug, Clone)]
pub enum BodyDecoder {
    /// Counts down.
    Length(u64),
    /// Chunked coding.
    Chunked(ChunkedDecoder),
    /// Ends with the connection.
    UntilClose,
}

impl BodyDecoder {
    /// A decoder for a body of this kind.
    #[inline]
    pub fn new(kind: BodyKind) -> Self {
        match kind {
            BodyKind::None => BodyDecoder::Length(0),
            BodyKind::Length(length) => BodyDecoder::Length(length),
            BodyKind::Chunked => BodyDecoder::Chunked(ChunkedDecoder::new()),
            BodyKind::UntilClose => BodyDecoder::UntilClose,
        }
    }

    /// Looks at `input`, the bytes that were not consumed yet. Returns how many of them are consumed with the event;
    /// call again with the rest until it says [`BodyEvent::NeedMore`] or [`BodyEvent::End`].
    ///
    /// # Errors
    /// The rule of the chunked coding that the input breaks; the same again for whatever follows.
    #[inline]
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, BodyEvent), ParseError> {
        match self {
            BodyDecoder::Length(0) => Ok((0, BodyEvent::End)),
            BodyDecoder::Length(_) | BodyDecoder::UntilClose if input.is_empty() => Ok((0, BodyEvent::NeedMore)),
            BodyDecoder::Length(remaining) => {
                let length = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= length as u64;
                Ok((length, BodyEvent::Data(0..length)))
            }
            BodyDecoder::Chunked(chunked) => chunked.decode(input),
            BodyDecoder::UntilClose => Ok((input.len(), BodyEvent::Data(0..input.len()))),
        }
    }

    /// The peer closed: is the body complete?
    ///
    /// # Errors
    /// [`ParseError::Truncated`] when bytes are missing.
    pub fn close(&self) -> Result<(), ParseError> {
        match self {
            BodyDecoder::UntilClose => Ok(()),
            _ if self.is_done() => Ok(()),
            _ => Err(ParseError::Truncated),
        }
    }

    /// From now on trailers are kept; only the chunked coding has any.
    pub fn keep_trailers(&mut self) {
        if let BodyDecoder::Chunked(chunked) = self {
            chunked.keep_trailers();
        }
    }

    /// The trailers that were kept; see [`ChunkedDecoder::trailers`].
    pub fn trailers(&self) -> &[u8] {
        match self {
            BodyDecoder::Chunked(chunked) => chunked.trailers(),
            BodyDecoder::Length(_) | BodyDecoder::UntilClose => &[],
        }
    }

    /// Whether the end was seen.
    pub fn is_done(&self) -> bool {
        match self {
            BodyDecoder::Length(remaining) => *remaining == 0,
            BodyDecoder::Chunked(chunked) => chunked.is_done(),
            BodyDecoder::UntilClose => false,
        }
    }

    /// Bytes still to come, where that is known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            BodyDecoder::Length(remaining) => Some(*remaining),
            BodyDecoder::Chunked(_) | BodyDecoder::UntilClose => None,
        }
    }
}
