//! Bodies, piece by piece.

use std::time::Instant;

use super::head::{read_fields, read_line};
use super::{Framing, Piece};
use crate::WireError;
use crate::wire::Wire;

/// A chunk up to this size is one piece.
const WHOLE_CHUNK: u64 = 1 << 20;

/// Where a body stands.
#[derive(Debug)]
pub(crate) struct BodyReader {
    framing: Framing,
    /// Bytes left of the body (Length) or of the chunk (Chunked).
    left: u64,
    ended: bool,
    /// Fields after the last chunk.
    pub(crate) trailers: Vec<(String, String)>,
}

impl BodyReader {
    pub(crate) fn new(framing: Framing) -> Self {
        let left = if let Framing::Length(length) = framing { length } else { 0 };
        let ended = framing == Framing::None || framing == Framing::Length(0);
        Self { framing, left, ended, trailers: Vec::new() }
    }

    /// The next piece, or `None` at the end of the body.
    pub(crate) fn next(&mut self, wire: &mut Wire, end: Instant) -> Result<Option<Piece>, WireError> {
        if self.ended {
            return Ok(None);
        }
        if self.framing == Framing::Chunked && self.left == 0 {
            self.left = read_chunk_size(wire, end)?;
            if self.left == 0 {
                self.trailers = read_fields(wire, end, &mut Vec::new())?;
                self.ended = true;
                return Ok(None);
            }
        }
        let wanted = if self.framing == Framing::Chunked && self.left <= WHOLE_CHUNK { self.left as usize } else { 1 };
        while wire.buffered().len() < wanted {
            if wire.fill(end)? == 0 {
                self.ended = true;
                return match self.framing {
                    Framing::UntilClose => Ok(None),
                    _ => Err(WireError::Truncated(format!("a body, {} bytes missing ({:?})", self.left, self.framing))),
                };
            }
        }
        let available = wire.buffered().len();
        let count = match self.framing {
            Framing::UntilClose => available,
            _ => available.min(usize::try_from(self.left).unwrap_or(usize::MAX)),
        };
        let data = wire.consume(count);
        self.left = self.left.saturating_sub(count as u64);
        if self.framing == Framing::Chunked && self.left == 0 {
            let rest = read_line(wire, end, &mut Vec::new())?;
            if !rest.is_empty() {
                return Err(WireError::Malformed(format!("no CRLF after chunk data: {rest:?}")));
            }
        }
        self.ended = matches!(self.framing, Framing::Length(_)) && self.left == 0;
        Ok(Some(Piece { data, at: Instant::now() }))
    }
}

/// `1*HEXDIG CRLF`; chunk extensions are refused, since the gateway drops them.
fn read_chunk_size(wire: &mut Wire, end: Instant) -> Result<u64, WireError> {
    let line = read_line(wire, end, &mut Vec::new())?;
    if line.is_empty() || !line.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(WireError::Malformed(format!("chunk size: {line:?}")));
    }
    u64::from_str_radix(&line, 16).map_err(|_| WireError::Malformed(format!("chunk size does not fit: {line:?}")))
}
