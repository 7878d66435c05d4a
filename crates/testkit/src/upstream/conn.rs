//! One connection of an upstream, in the hands of its handler.

use std::net::Shutdown;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::record::Slot;
use super::{Behaviour, Shared};
use crate::http::{BodyReader, Framing, Message, Piece, read_request_head};
use crate::pattern::Checker;
use crate::wire::{Socket, Wire};
use crate::{Gate, WireError};

/// The test has the deadlines; an upstream is patient.
const HOLD: Duration = Duration::from_secs(3600);

/// How soon a waiting handler notices that its peer has disconnected.
const NOTICE: Duration = Duration::from_millis(20);

/// A connection of an [`super::Upstream`].
///
/// Methods fail when the peer has disconnected; a handler passes that on with `?`, and the connection is closed. When a handler for
/// connections returns, the connection is closed; after a response to a request it is kept unless one side said `close`.
#[derive(Debug)]
pub struct Conn {
    wire: Wire,
    number: usize,
    shared: Arc<Shared>,
    /// The request that is being read or served.
    current: Option<Slot>,
    method: String,
    body: BodyReader,
    closing: bool,
}

impl Conn {
    pub(super) fn new(socket: Socket, number: usize, shared: Arc<Shared>) -> std::io::Result<Self> {
        let mut wire = Wire::new(socket, HOLD)?;
        wire.set_tap_limit(shared.record_limit);
        let body = BodyReader::new(Framing::None);
        Ok(Self { wire, number, shared, current: None, method: String::new(), body, closing: false })
    }

    /// Which connection this is, counted from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Reads a whole request. `None` when the peer closed between two requests, or sent what is not a request; the latter
    /// is recorded as an error.
    pub fn read_request(&mut self) -> Option<Message> {
        let mut request = self.read_head().ok()?;
        while let Some(piece) = self.read_piece().ok()? {
            request.pieces.push((piece.data.len(), piece.at));
            let room = self.shared.record_limit.saturating_sub(request.body.len());
            request.body.extend_from_slice(&piece.data[..piece.data.len().min(room)]);
        }
        request.trailers.clone_from(&self.body.trailers);
        Some(request)
    }

    /// Reads the head of a request; its body comes from [`Conn::read_piece`] or [`Conn::read_pattern`], or is left unread.
    pub fn read_head(&mut self) -> Result<Message, WireError> {
        self.wire.take_tap();
        let end = self.wire.end();
        let (head, framing) = match read_request_head(&mut self.wire, end) {
            Ok(parts) => parts,
            Err(error) => return Err(self.note(error, "a head")),
        };
        self.method = head.method().to_owned();
        self.body = BodyReader::new(framing);
        let raw = self.wire.take_tap();
        self.current = Some(self.shared.lock().record.begin(self.number, head.clone(), raw));
        Ok(Message::new(head, framing))
    }

    /// The next piece of the request's body, `None` at its end.
    pub fn read_piece(&mut self) -> Result<Option<Piece>, WireError> {
        let end = self.wire.end();
        let outcome = self.body.next(&mut self.wire, end);
        let raw = self.wire.take_tap();
        if let Some(current) = &self.current {
            let mut recorded = current.lock().unwrap_or_else(PoisonError::into_inner);
            let limit = self.shared.record_limit;
            push_up_to(limit, &mut recorded.raw, &raw);
            match &outcome {
                Ok(Some(piece)) => {
                    recorded.body_length += piece.data.len() as u64;
                    push_up_to(limit, &mut recorded.body, &piece.data);
                }
                Ok(None) => {
                    recorded.complete = true;
                    recorded.trailers.clone_from(&self.body.trailers);
                }
                Err(_) => {}
            }
        }
        outcome.map_err(|error| self.note(error, "a body"))
    }

    /// Reads the rest of the body as the [`crate::pattern`].
    pub fn read_pattern(&mut self) -> Result<Checker, WireError> {
        let mut checker = Checker::default();
        while let Some(piece) = self.read_piece()? {
            checker.push(&piece.data);
        }
        Ok(checker)
    }

    /// Reads what comes next as bytes, not as a message: after an upgrade. Empty at the end of the stream.
    pub fn read_raw(&mut self) -> Result<Vec<u8>, WireError> {
        if self.wire.buffered().is_empty() {
            self.wire.fill(self.wire.end())?;
        }
        Ok(self.wire.consume(self.wire.buffered().len()))
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), WireError> {
        self.wire.write(bytes.as_ref())
    }

    /// Writes one byte at a time.
    pub fn write_bytewise(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), WireError> {
        for byte in bytes.as_ref() {
            self.wire.write(&[*byte])?;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Writes bytes, a piece for each permit of the gate.
    pub fn write_gated(&mut self, bytes: &[u8], piece: usize, gate: &Gate) -> Result<(), WireError> {
        for piece in bytes.chunks(piece) {
            self.pass(gate)?;
            self.write(piece)?;
        }
        Ok(())
    }

    /// Writes `length` bytes of the [`crate::pattern`].
    pub fn write_pattern(&mut self, length: u64) -> Result<(), WireError> {
        self.wire.write_pattern(length)
    }

    /// Writes the pattern until the peer has taken nothing for `quiet`, at most `limit` bytes; returns how many it took.
    pub fn write_until_blocked(&mut self, limit: u64, quiet: Duration) -> Result<u64, WireError> {
        self.wire.write_until_blocked(limit, quiet)
    }

    /// Writes a response with Content-Length. To a HEAD request the body is left out.
    pub fn respond(&mut self, status: u16, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Result<(), WireError> {
        let body = body.as_ref();
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        if status >= 200 && status != 204 && status != 304 {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        let body: &[u8] = if self.method == "HEAD" { b"" } else { body };
        self.write([head.as_bytes(), body].concat())
    }

    /// Writes `data` as one chunk.
    pub fn write_chunk(&mut self, data: impl AsRef<[u8]>) -> Result<(), WireError> {
        let data = data.as_ref();
        self.write([format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat())
    }

    /// Waits until the test lets it through the gate; fails when the peer disconnects first.
    pub fn pass(&mut self, gate: &Gate) -> Result<(), WireError> {
        while !gate.pass(NOTICE) {
            if self.wire.peer_disconnected(Duration::ZERO) {
                return Err(WireError::Closed);
            }
        }
        Ok(())
    }

    /// Does nothing, and reads nothing, until the peer closes its side (a FIN counts) or the upstream is stopped.
    pub fn stall(&mut self) -> Result<(), WireError> {
        while !self.wire.peer_disconnected(HOLD) {}
        Err(WireError::Closed)
    }

    /// Says that no more will be written (FIN), and still reads.
    pub fn half_close(&mut self) -> Result<(), WireError> {
        Ok(self.wire.socket().shutdown(Shutdown::Write)?)
    }

    /// Closes the connection when the handler returns. If bytes of the peer were not read by then, the kernel resets it.
    pub fn close(&mut self) -> Result<(), WireError> {
        self.closing = true;
        Ok(())
    }

    /// Resets the connection now (RST); bytes that were written and not yet sent are lost.
    pub fn reset(&mut self) -> Result<(), WireError> {
        self.closing = true;
        self.wire.socket().reset();
        Ok(())
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(super) fn behaviour(&self) -> Behaviour {
        self.shared.lock().behaviour.clone()
    }

    /// Records what the peer did wrong; a close or reset between two messages is its right.
    fn note(&mut self, error: WireError, during: &str) -> WireError {
        let between_messages = during == "a head" && self.wire.buffered().is_empty();
        if !(between_messages && matches!(error, WireError::Closed | WireError::Reset)) {
            self.shared.lock().record.error(format!("connection {}, reading {during}: {error}", self.number));
        }
        error
    }
}

fn push_up_to(limit: usize, to: &mut Vec<u8>, bytes: &[u8]) {
    let room = limit.saturating_sub(to.len());
    to.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

/// Reason phrases of the statuses that tests use (RFC 9110, 15); nobody reads them.
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        103 => "Early Hints",
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        404 => "Not Found",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
