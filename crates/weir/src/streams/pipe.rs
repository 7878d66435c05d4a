//! A stream's two bodies of bytes between the connection's task and the exchange: what the exchange reads is an HTTP/1.1 request, what it
//! writes is its response. Towards upstreams ([`crate::upstream::http2`]) it is the other way round: read "request" for "response", and
//! "target" for "client". Both live in one thread, here in one task, so the lock, which
//! streams of other kinds need to be sent to the control thread, is never waited for, and nothing is woken: the connection's task polls the exchange again
//! when [`Pipe::take_awaits`] says that what it waits for has come.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use h1::encode;
use tokio::io::ReadBuf;

use crate::error::{Error, Reason};

/// Bytes of a response that may wait for the client's window, beside a head.
const RESPONSE: usize = 16 * 1024;
/// The exchange is told that there is room when there is so much of it: a client that opens its window byte by byte makes no progress
/// for the deadline that guards against it.
const PROGRESS: usize = 1024;
/// Room for a chunk's size line and line end, and some data.
const CHUNK_ROOM: usize = 64;
/// Memory that is kept from stream to stream.
const KEPT: usize = 16 * 1024;

/// The byte stream of one HTTP/2 stream.
#[derive(Debug, Clone, Default)]
pub struct Pipe(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Bytes for the exchange that are framed already: the head, the last chunk.
    staged: Vec<u8>,
    staged_at: usize,
    /// Body bytes as they came in DATA frames. Framing is put around them when they are read.
    body: Vec<u8>,
    body_at: usize,
    is_chunked: bool,
    /// Bytes behind the head are a tunnel's: there is no framing, and both directions have an end.
    is_tunnel: bool,
    /// The exchange has ended its direction of the tunnel, and the connection has not been told.
    is_shut_down: bool,
    /// The end of that direction has gone out.
    has_sent_end: bool,
    /// Field lines behind the body.
    trailers: Vec<u8>,
    has_ended: bool,
    is_end_staged: bool,
    /// Body bytes that the exchange took since the last call of `take_credit`: credit for the client.
    taken: usize,
    /// Bytes that the exchange wrote.
    response: Vec<u8>,
    response_at: usize,
    /// The final head of the response has gone out.
    has_head: bool,
    is_reset: bool,
    /// Why the connection refused the request while its exchange was in flight.
    refusal: Option<Error>,
    refuses_writes: bool,
    /// The client took something of the connection's output since the exchange last looked.
    has_moved: bool,
    wants_bytes: bool,
    wants_room: bool,
    /// The exchange waits until all that it wrote has gone out.
    wants_flush: bool,
    /// The exchange waits until the end of its direction has gone out.
    wants_end: bool,
    failure: Option<Reason>,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pipe for a new stream: the memory of an old one.
    pub fn clear(&mut self) {
        if Arc::strong_count(&self.0) > 1 {
            *self = Pipe::default();
            return;
        }
        let mut state = self.lock();
        let State { mut staged, mut body, mut response, mut trailers, .. } = std::mem::take(&mut *state);
        for kept in [&mut staged, &mut body, &mut response, &mut trailers] {
            kept.clear();
            kept.shrink_to(KEPT);
        }
        *state = State { staged, body, response, trailers, ..State::default() };
    }

    /// Puts the request's head in front; `is_chunked` says how a body is framed behind it.
    pub fn begin(&self, is_chunked: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock();
        state.is_chunked = is_chunked;
        write(&mut state.staged);
    }

    /// Puts the head of a request for a tunnel in front: what comes behind it is passed on as it is.
    pub fn begin_tunnel(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock();
        state.is_tunnel = true;
        write(&mut state.staged);
    }

    /// Bytes of the request that wait for the exchange, if no more will come: it has no body.
    pub fn only_head(&self) -> Option<usize> {
        let state = self.lock();
        let is_only = state.has_ended && !state.is_chunked && !state.is_tunnel && state.body.is_empty();
        is_only.then(|| state.staged.len() - state.staged_at)
    }

    /// Whether the request is for a tunnel.
    pub fn is_tunnel(&self) -> bool {
        self.lock().is_tunnel
    }

    /// The exchange's side of closing: a tunnel has an end of its own, a response has it in its framing.
    pub fn shut_down(&self) {
        let mut state = self.lock();
        state.is_shut_down = state.is_tunnel;
    }

    /// The same, ready when the end has gone out, behind all that was written: what the exchange gives up before that is a reset.
    pub fn poll_shut_down(&self) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        if state.has_sent_end || !state.is_tunnel {
            return Poll::Ready(Ok(()));
        }
        if state.is_reset || state.refuses_writes {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        state.is_shut_down = true;
        state.wants_end = true;
        Poll::Pending
    }

    /// Whether the exchange has ended its direction of the tunnel, and all that it wrote has gone out. Says so once: the end goes out now.
    pub fn take_shutdown(&self) -> bool {
        let mut state = self.lock();
        let is_over = state.is_shut_down && state.response.is_empty();
        state.is_shut_down &= !is_over;
        state.has_sent_end |= is_over;
        is_over
    }

    /// Body bytes came.
    pub fn push_body(&self, data: &[u8]) {
        let mut state = self.lock();
        if state.body_at > 0 && state.body_at * 2 >= state.body.len() {
            let at = std::mem::take(&mut state.body_at);
            state.body.drain(..at);
        }
        state.body.extend_from_slice(data);
    }

    /// The body is complete; `write` appends field lines behind it.
    pub fn end_body(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock();
        write(&mut state.trailers);
        state.has_ended = true;
    }

    /// Body bytes that the exchange took since the last call.
    pub fn take_credit(&self) -> usize {
        std::mem::take(&mut self.lock().taken)
    }

    /// Body bytes that wait for the exchange.
    pub fn held(&self) -> usize {
        let state = self.lock();
        state.body.len() - state.body_at
    }

    /// The client reset the stream or disconnected: from now on reads and writes fail.
    pub fn reset(&self) {
        let mut state = self.lock();
        state.is_reset = true;
        state.body.clear();
        state.body_at = 0;
        state.response.clear();
        state.response_at = 0;
    }

    /// The connection refused the request, and has responded to it: the same as a reset to the exchange, which records why. False when the exchange
    /// has not seen the request, so that it records nothing.
    pub fn refuse(&self, error: Error) -> bool {
        self.reset();
        let mut state = self.lock();
        state.refusal = Some(error);
        state.staged_at > 0 || state.staged.is_empty()
    }

    /// Why the connection refused the request.
    pub fn refusal(&self) -> Option<Error> {
        self.lock().refusal
    }

    /// From now on writes fail; what was received can still be read.
    pub fn refuse_writes(&self) {
        let mut state = self.lock();
        state.refuses_writes = true;
        state.response.clear();
        state.response_at = 0;
    }

    /// Whether the connection should be told what was read: all that is here was, or much.
    pub fn owes_credit(&self) -> bool {
        let state = self.lock();
        state.taken > 0 && (state.body.is_empty() || state.taken >= RESPONSE)
    }

    /// Whether the client reset the stream.
    pub fn is_reset(&self) -> bool {
        self.lock().is_reset
    }

    /// The final head has gone out: from now on what waits is bounded.
    pub fn head_sent(&self) {
        self.lock().has_head = true;
    }

    /// The client took something while the response waited for its turn, or for room in the output of the connection, and not for a window.
    pub fn client_took(&self) {
        self.lock().has_moved = true;
    }

    /// Whether that has happened since the last call.
    pub fn take_moved(&self) -> bool {
        std::mem::take(&mut self.lock().has_moved)
    }

    /// Hands what the exchange wrote to `take`, which returns how many bytes of it are done with.
    pub fn take_response<R>(&self, take: impl FnOnce(&[u8]) -> (usize, R)) -> R {
        let mut state = self.lock();
        let at = state.response_at;
        let (count, result) = take(state.response.get(at..).unwrap_or_default());
        state.response_at += count;
        if state.response_at >= state.response.len() {
            state.response.clear();
            state.response_at = 0;
        }
        result
    }

    /// Whether the exchange wrote what has not gone out, the end of a tunnel included.
    pub fn has_response(&self) -> bool {
        let state = self.lock();
        !state.response.is_empty() || state.is_shut_down
    }

    /// Whether the exchange waits for something that has come: bytes, room, the end of the client. Says so once; if the exchange does not
    /// take it, it has to wait again.
    pub fn take_awaits(&self) -> bool {
        let mut state = self.lock();
        let has_bytes = state.has_bytes();
        let waiting = state.response.len() - state.response_at;
        let has_room = waiting == 0 || RESPONSE.saturating_sub(waiting) >= PROGRESS || state.refuses_writes;
        let awaits = state.wants_bytes && (has_bytes || state.is_reset)
            || state.wants_room && (has_room || state.is_reset)
            || state.wants_flush && (waiting == 0 || state.is_reset)
            || state.wants_end && (state.has_sent_end || state.is_reset || state.refuses_writes);
        if awaits {
            state.wants_bytes = false;
            state.wants_room = false;
            state.wants_flush = false;
            state.wants_end = false;
        }
        awaits
    }

    /// Notes why the exchange gives the response up.
    pub fn fail(&self, reason: Reason) {
        self.lock().failure = Some(reason);
    }

    /// Why the exchange gave the response up.
    pub fn failure(&self) -> Option<Reason> {
        self.lock().failure
    }

    /// The exchange's side of reading. Only a tunnel has an end: elsewhere the head says where the request ends.
    pub fn poll_read(&self, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        if state.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let before = buf.filled().len();
        while buf.remaining() > 0 && state.read(buf) {}
        // Before the target agrees to the tunnel, the end is not one of the client: it waits for the response.
        let is_over = state.is_tunnel && state.has_ended && state.has_head;
        state.wants_bytes = buf.filled().len() == before && !is_over;
        if state.wants_bytes { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// The exchange's side of writing.
    pub fn poll_write(&self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        if state.is_reset || state.refuses_writes {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let waiting = state.response.len() - state.response_at;
        let room = RESPONSE.saturating_sub(waiting);
        let count = if !state.has_head && waiting == 0 {
            // A head is read whole, whatever its size; what is put together with it is bounded by who puts it together.
            bytes.len()
        } else if room < bytes.len().min(PROGRESS) {
            state.wants_room = true;
            return Poll::Pending;
        } else {
            room.min(bytes.len())
        };
        state.response.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    /// Ready when all that was written has gone to the client as far as its windows allow.
    pub fn poll_flush(&self) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        if state.is_reset {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        // Room alone is not what it waits for: polled for that, it would be polled again and again.
        state.wants_flush = !state.response.is_empty();
        if state.wants_flush { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl State {
    fn has_bytes(&self) -> bool {
        self.staged_at < self.staged.len()
            || self.body_at < self.body.len()
            || (self.has_ended && (self.is_tunnel && self.has_head || self.is_chunked && !self.is_end_staged))
    }

    /// Puts a piece into `buf`; false when there is none.
    fn read(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        if self.staged_at < self.staged.len() {
            let count = buf.remaining().min(self.staged.len() - self.staged_at);
            buf.put_slice(&self.staged[self.staged_at..self.staged_at + count]);
            self.staged_at += count;
            return true;
        }
        self.staged.clear();
        self.staged_at = 0;
        let waiting = self.body.len() - self.body_at;
        if waiting == 0 {
            if self.has_ended && self.is_chunked && !self.is_end_staged {
                self.is_end_staged = true;
                encode::begin_trailers(&mut self.staged);
                self.staged.extend_from_slice(&self.trailers);
                encode::end_head(&mut self.staged);
                return true;
            }
            return false;
        }
        let count;
        if !self.is_chunked {
            count = buf.remaining().min(waiting);
            buf.put_slice(&self.body[self.body_at..self.body_at + count]);
        } else {
            count = waiting.min(buf.remaining().max(2 * CHUNK_ROOM) - CHUNK_ROOM);
            encode::chunk(&mut self.staged, &self.body[self.body_at..self.body_at + count]);
        }
        self.taken += count;
        self.body_at += count;
        if self.body_at == self.body.len() {
            self.body.clear();
            self.body_at = 0;
        }
        true
    }
}
