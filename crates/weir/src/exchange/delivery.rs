//! An answer on its way from a fetch that may still be under way to one client.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h1::{BodyKind, encode};

use super::downstream::Downstream;
use super::stream::{COPIED, Outgoing};
use crate::policy::cache::fill::{Piece, Reader};

/// No more is put together before it is written.
const GATHERED: usize = 16 * 1024;

/// Why a client does not get the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The rest will never come.
    Broken,
    /// The client went away.
    Gone,
}

/// The body of one answer.
#[derive(Debug)]
pub struct Delivery {
    reader: Reader,
    /// Whether the client gets chunks.
    chunks: bool,
    /// Large piece that is being written as it lies.
    piece: Bytes,
    /// The line end behind the last chunk's data is still due.
    owes_line_end: bool,
    ended: bool,
    /// Body bytes so far.
    pub bytes: u64,
}

impl Delivery {
    /// A body that goes out framed like this, or none; the head is in the client's `out` already.
    pub fn new(reader: Reader, framing: BodyKind, has_body: bool) -> Self {
        let chunks = framing == BodyKind::Chunked;
        Delivery { reader, chunks, piece: Bytes::new(), owes_line_end: false, ended: !has_body, bytes: 0 }
    }

    /// Whether it waits for the client.
    pub fn is_blocked(&self, out: &Outgoing) -> bool {
        !self.piece.is_empty() || !out.is_empty()
    }

    /// Whether it was cut off because other clients waited for this one.
    pub fn is_cut(&self) -> bool {
        self.reader.is_cut()
    }

    /// Writes what is there and can be written. Ready when all is written. `is_leader`: this task fetches too and need not be woken.
    ///
    /// # Errors
    /// Why there will be no end.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut Downstream,
        is_leader: bool,
        progress: &mut bool,
    ) -> Poll<Result<(), Stopped>> {
        loop {
            let broken = self.gather(cx, is_leader, &mut down.out.bytes);
            if !self.piece.is_empty() || !down.out.is_empty() {
                let before = (down.out.written(), down.stream.sent_later());
                let poll = down.out.poll_write(cx, &mut down.stream, &self.piece);
                *progress |= poll.is_ready() || down.out.written() > before.0 || down.stream.sent_later() > before.1;
                ready!(poll).map_err(|_| Stopped::Gone)?;
                self.piece.clear();
                continue;
            }
            return match broken {
                _ if self.ended => Poll::Ready(Ok(())),
                Some(Stopped::Broken) => Poll::Ready(Err(Stopped::Broken)),
                _ => Poll::Pending,
            };
        }
    }

    /// Puts together what is here.
    fn gather(&mut self, cx: &Context<'_>, is_leader: bool, out: &mut Vec<u8>) -> Option<Stopped> {
        while !self.ended && self.piece.is_empty() && out.len() < GATHERED {
            let piece = match self.reader.poll_piece((!is_leader).then_some(cx)) {
                Poll::Pending => return None,
                Poll::Ready(piece) => piece,
            };
            if matches!(piece, Piece::Broken) {
                return Some(Stopped::Broken);
            }
            if std::mem::take(&mut self.owes_line_end) {
                out.extend_from_slice(b"\r\n");
            }
            match piece {
                Piece::Bytes(bytes) if bytes.len() <= COPIED => self.copy(&bytes, out),
                Piece::Rest(entry, at) if entry.body().len() - at <= COPIED => {
                    self.copy(&entry.body()[at..], out);
                    self.end(out);
                }
                Piece::Bytes(bytes) => self.hand_on(bytes, out),
                Piece::Rest(entry, at) => {
                    self.hand_on(entry.rest(at), out);
                    // What ends chunks has to wait until the piece is written.
                    self.ended = !self.chunks;
                }
                Piece::End => self.end(out),
                Piece::Broken => {}
            }
        }
        None
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.ended = true;
        if self.chunks {
            encode::last_chunk(out);
        }
    }

    fn copy(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.bytes += bytes.len() as u64;
        if self.chunks {
            encode::chunk(out, bytes);
        } else {
            out.extend_from_slice(bytes);
        }
    }

    /// To be written as it lies.
    fn hand_on(&mut self, bytes: Bytes, out: &mut Vec<u8>) {
        self.bytes += bytes.len() as u64;
        if self.chunks {
            encode::chunk_size(out, bytes.len());
            self.owes_line_end = true;
        }
        self.piece = bytes;
    }
}
