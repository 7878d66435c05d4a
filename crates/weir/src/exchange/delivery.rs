//! A response on its way to one client, from a fetch that may still be in flight.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h1::{BodyKind, encode};

use super::coded::{BYTES_AT_ONCE, Coder, CodingFailed};
use crate::client::downstream::Downstream;
use crate::io::stream::{COPIED, Outgoing};
use crate::policy::cache::fill::{Piece, Reader};
use crate::worker::Worker;

/// No more is put together before it is written.
const GATHERED: usize = 16 * 1024;

/// Why a client does not get the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The rest will never come.
    Broken,
    /// The client disconnected.
    Disconnected,
}

/// The body of one response.
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
    bytes: u64,
    /// What the client gets is coded by it.
    coder: Option<Box<Coder>>,
    /// What is to be coded next, and that nothing comes behind it.
    uncoded: Bytes,
    is_last: bool,
}

impl Delivery {
    /// A body that goes out framed like this, or none; the head is in the client's `out` already.
    pub fn new(reader: Reader, framing: BodyKind, has_body: bool, coder: Option<Box<Coder>>) -> Self {
        Delivery {
            reader,
            chunks: framing == BodyKind::Chunked,
            piece: Bytes::new(),
            owes_line_end: false,
            ended: !has_body,
            bytes: 0,
            coder,
            uncoded: Bytes::new(),
            is_last: false,
        }
    }

    /// Body bytes that the client got.
    pub fn sent_bytes(&self) -> u64 {
        self.coder.as_ref().map_or(self.bytes, |coder| coder.bytes)
    }

    /// Counts what was coded.
    pub fn count(&self, worker: &Worker) {
        if let Some(coder) = &self.coder {
            worker.metrics.compressed(coder.coding(), self.bytes, coder.bytes);
        }
    }

    /// Whether it waits for the client.
    pub fn is_blocked(&self, out: &Outgoing) -> bool {
        !self.piece.is_empty() || !out.is_empty()
    }

    /// [`Downstream::poll_stalled`] of what is being written.
    pub fn poll_stalled(&self, cx: &Context<'_>, down: &mut Downstream) -> Option<bool> {
        down.poll_stalled(cx, &self.piece)
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
            let broken = match self.coder {
                None => self.gather(cx, is_leader, &mut down.out.bytes),
                Some(_) => match self.gather_coded(cx, is_leader, &mut down.out.bytes) {
                    Ok(broken) => broken,
                    Err(CodingFailed) => Some(Stopped::Broken),
                },
            };
            if !self.piece.is_empty() || !down.out.is_empty() {
                let before = (down.out.written(), down.stream.sent_later());
                let poll = down.out.poll_write(cx, &mut down.stream, &self.piece);
                *progress |= poll.is_ready() || down.out.written() > before.0 || down.stream.sent_later() > before.1;
                ready!(poll).map_err(|_| Stopped::Disconnected)?;
                self.piece.clear();
                if self.yields() {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                continue;
            }
            if self.yields() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
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
                encode::end_chunk(out);
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

    /// Whether others go first: as much was coded as one event-loop iteration allows.
    fn yields(&mut self) -> bool {
        match &mut self.coder {
            Some(coder) if coder.left == 0 && !self.ended => {
                coder.left = BYTES_AT_ONCE;
                true
            }
            _ => false,
        }
    }

    /// Codes what is here, as much as one event-loop iteration allows.
    #[cold]
    fn gather_coded(
        &mut self,
        cx: &Context<'_>,
        is_leader: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Stopped>, CodingFailed> {
        let Some(coder) = &mut self.coder else { return Ok(None) };
        while !self.ended && out.len() < GATHERED {
            if coder.left == 0 {
                return Ok(None);
            }
            if !self.uncoded.is_empty() {
                let piece = self.uncoded.split_to(self.uncoded.len().min(coder.left));
                self.bytes += piece.len() as u64;
                coder.push(&piece)?;
            } else if self.is_last {
                coder.finish()?;
                self.ended = true;
            } else {
                match self.reader.poll_piece((!is_leader).then_some(cx)) {
                    // What was taken so far must not wait for more.
                    Poll::Pending => {
                        coder.left = BYTES_AT_ONCE;
                        coder.flush()?;
                        coder.put_out(self.chunks, out);
                        return Ok(None);
                    }
                    Poll::Ready(Piece::Broken) => return Ok(Some(Stopped::Broken)),
                    Poll::Ready(Piece::Bytes(bytes)) => self.uncoded = bytes,
                    Poll::Ready(Piece::Rest(entry, at)) => {
                        self.uncoded = entry.rest(at);
                        self.is_last = true;
                    }
                    Poll::Ready(Piece::End) => self.is_last = true,
                }
            }
            coder.put_out(self.chunks, out);
            if self.ended && self.chunks {
                encode::last_chunk(out);
            }
        }
        Ok(None)
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
