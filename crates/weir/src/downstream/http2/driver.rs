//! The task of one connection: reads once, decodes, polls the streams that something has come for, and writes once.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http2::{Budget, Connection, ErrorCode, Event, Head, Malformed, ResetReason};
use h1::Method;
use tokio::io::AsyncWrite;

use super::response::Requested;
use super::slots::{Slots, Spares};
use super::{codec_config, request};
use crate::client::downstream::Downstream;
use crate::downstream::http1::note_refusal;
use crate::error::{Error, Reason};
use crate::http::websocket;
use crate::io::stream::{Stream, poll_read};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::streams::body::write_trailers;
use crate::streams::pipe::Pipe;
use crate::streams::ready::Ready;
use crate::streams::registry::Registered;
use crate::worker::Worker;

/// No frame with a part of a response is begun while so many bytes wait to be sent.
const OUTPUT: usize = 64 * 1024;
/// Rounds of one poll; then other connections run.
const ROUNDS: usize = 16;
/// From the first GOAWAY of a graceful end to the second, if the client does not respond to the PING (RFC 9113 section 6.8).
const GRACE: Duration = Duration::from_secs(1);
/// How long the client has to close after the last frame, so that it arrives.
const LINGER: Duration = Duration::from_secs(2);
/// How much it is read for.
const LINGER_BYTES: usize = 1 << 20;
/// When less room than this is left behind unread bytes, they are moved to the front.
const ROOM: usize = 4 * 1024;
const NEVER: u64 = u64::MAX;

/// How far the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// What is in the output is the last.
    Flushing,
    /// All is sent; the client is to close, and may still send so many bytes.
    Lingering(usize),
    /// The socket is closed; exchanges may still have to end.
    Closed,
}

pub(super) struct Driver<F, M> {
    worker: Rc<Worker>,
    down: Downstream,
    codec: Connection,
    head: Head,
    slots: Slots<F>,
    ready: Arc<Ready>,
    make: M,
    registered: Registered,
    phase: Phase,
    /// When the deadline is set to.
    due: u64,
    /// When the second GOAWAY is sent.
    drain_due: u64,
    /// When the client must have taken something of the output, or have closed.
    stall_due: u64,
    /// When its progress is checked again before that.
    retry_due: u64,
    idle_ns: u64,
    is_paused: bool,
    is_idle: bool,
    /// Its client's address has been charged for the points that it has lost.
    is_charged: bool,
    /// Where the next round of frames begins among the slots.
    next: usize,
    order: Vec<(u8, usize, usize)>,
}

impl<F: Future<Output = ()>, M: Fn(&Pipe) -> F> Driver<F, M> {
    pub(super) fn new(worker: Rc<Worker>, down: Downstream, spares: Rc<Spares<F>>, make: M) -> Self {
        let snapshot = worker.snapshot.borrow().clone();
        let server = &snapshot.config().server;
        let config = codec_config(server, down.life.left(), snapshot.offers_websocket);
        let ready = Ready::new(config.max_concurrent_streams as usize);
        down.deadline.set_idle(true);
        worker.metrics.http2_connection_opened();
        let mut codec = Connection::server(config, now_ms());
        codec.set_sensitive(snapshot.sensitive.clone());
        Driver {
            registered: Registered::new(worker.http2.clone()),
            down,
            codec,
            head: Head::default(),
            slots: Slots::new(ready.clone(), spares),
            ready,
            make,
            phase: Phase::Open,
            due: 0,
            drain_due: NEVER,
            stall_due: NEVER,
            retry_due: NEVER,
            idle_ns: server.body_idle_timeout.map_or(NEVER, nanos),
            is_paused: false,
            is_idle: true,
            is_charged: false,
            next: 0,
            order: Vec::new(),
            worker,
        }
    }

    /// Ready when the connection is closed and every exchange of it has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.ready.register(cx.waker());
        self.registered.register(cx.waker());
        self.codec.begin_iteration();
        self.look_at_time(cx);
        let mut rounds = 0;
        loop {
            let mut has_moved = self.poll_input(cx);
            while self.poll_slots() | self.send() {
                has_moved = true;
                rounds += 1;
                if rounds >= ROUNDS {
                    break;
                }
            }
            self.look_at_end();
            has_moved |= self.poll_output(cx);
            if self.phase == Phase::Closed && self.slots.active() == 0 {
                return Poll::Ready(());
            }
            rounds += 1;
            if !has_moved {
                break;
            }
            if rounds >= ROUNDS {
                cx.waker().wake_by_ref();
                break;
            }
        }
        self.hold();
        self.set_deadline();
        Poll::Pending
    }

    /// Charges the client's address for points that this connection has lost, once. A trusted proxy has the connections of all its clients.
    fn charge(&mut self, points: i64) {
        let snapshot = self.worker.snapshot.borrow();
        let points = u64::try_from(points).unwrap_or_default();
        if points > 0 && !self.is_charged && !self.down.client.is_behind(&snapshot.config().trusted_proxies) {
            snapshot.limits.shared.count_abuse(self.down.client.peer, points);
            self.is_charged = true;
        }
    }

    /// Gives back what the connection has of the worker's.
    pub(super) fn end(mut self) {
        self.charge(Budget::FULL - self.codec.budget().points());
        self.worker.metrics.http2_connection_closed(self.codec.budget());
        self.worker.buffers.put_back(self.down.buffer);
    }

    /// Reads and decodes. Whether something came.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_read = false;
        loop {
            match self.phase {
                Phase::Open => {
                    if !self.decode(cx) {
                        return has_read;
                    }
                }
                Phase::Lingering(left) => {
                    let count = self.down.buffer.filled().len();
                    self.down.buffer.consume(count);
                    if count > left {
                        self.close();
                    } else {
                        self.phase = Phase::Lingering(left - count);
                    }
                }
                Phase::Flushing | Phase::Closed => return has_read,
            }
            let buffers = &self.worker.buffers;
            let buffer = &mut self.down.buffer;
            if buffer.is_empty() {
                buffer.rewind(0);
            } else if buffer.room() < ROOM {
                buffer.compact();
            }
            let was_held = buffer.is_held();
            if !was_held {
                *buffer = buffers.small();
            } else if !buffer.has_space() {
                buffers.grow(buffer);
            }
            match poll_read(cx, &mut self.down.stream, buffer) {
                Poll::Pending => {
                    if buffer.is_empty() {
                        buffers.put_back(std::mem::take(buffer));
                    }
                    return has_read;
                }
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.close();
                    return true;
                }
                Poll::Ready(Ok(_)) => has_read = true,
            }
        }
    }

    /// Decodes what was read. False when no more may be read in this poll.
    fn decode(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            let input = self.down.buffer.filled();
            let (used, event) = match self.codec.decode(input, &mut self.head, now_ms()) {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%error, peer = %self.down.client.peer, "HTTP/2 connection ended");
                    self.fail(error.code);
                    return false;
                }
            };
            match event {
                Event::NeedMore => {
                    self.down.buffer.consume(used);
                    return true;
                }
                // Goes on when the output is sent.
                Event::Flush => {
                    self.down.buffer.consume(used);
                    return false;
                }
                Event::Yield => {
                    self.down.buffer.consume(used);
                    cx.waker().wake_by_ref();
                    return false;
                }
                Event::Data { stream, range, end } => {
                    let length = range.len();
                    match self.slots.find(stream) {
                        Some((index, slot)) if !slot.has_ended() && !slot.pipe.is_reset() => {
                            slot.pipe.push_body(&input[range]);
                            if end {
                                slot.pipe.end_body(|_| ());
                            }
                            self.slots.touch(index);
                        }
                        _ => self.codec.consume(stream, length),
                    }
                }
                event => self.handle(event),
            }
            self.down.buffer.consume(used);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request { stream, end } => self.open(stream, end),
            Event::Trailers { stream } => {
                if let Some((index, slot)) = self.slots.find(stream) {
                    slot.pipe.end_body(|out| write_trailers(out, &self.head.trailers, &self.head.text));
                    self.slots.touch(index);
                }
            }
            Event::Reset { stream, reason } => match self.slots.find(stream) {
                // The exchange ends when it sees that; until then the stream counts as one in progress.
                Some((index, slot)) => {
                    let is_recorded = match refusal(reason) {
                        Some(error) => slot.pipe.refuse(error),
                        None => {
                            slot.pipe.reset();
                            true
                        }
                    };
                    self.ready.insert(index);
                    if !is_recorded {
                        self.note_refusal(reason);
                    }
                }
                None => {
                    self.codec.release(stream);
                    self.note_refusal(reason);
                }
            },
            Event::Writable { stream } => self.slots.unblock(stream),
            Event::Pong if self.codec.is_draining() => self.codec.finish_drain(),
            _ => {}
        }
    }

    fn open(&mut self, stream: u32, end: bool) {
        let head = &self.head;
        let is_tunnel = head.request.connect_protocol.is_some();
        // Another protocol than WebSocket is none of HTTP/1.1's; without random bytes there is no handshake.
        let key = if request::is_websocket(head) { websocket::key() } else { None };
        if is_tunnel && key.is_none() {
            self.refuse_tunnel(stream);
            return;
        }
        let body = head.request.body;
        let make = &self.make;
        let method = if is_tunnel { Method::Get } else { head.request.method };
        self.slots.open(stream, Requested { method, is_tunnel }, |pipe| {
            match &key {
                Some(key) => pipe.begin_tunnel(|out| request::write_websocket_head(out, head, key)),
                None => pipe.begin(request::is_chunked(body), |out| request::write_head(out, head)),
            }
            if end {
                pipe.end_body(|_| ());
            }
            make(pipe)
        });
        self.worker.metrics.http2_stream();
        if std::mem::take(&mut self.is_idle) {
            self.down.deadline.set_idle(false);
        }
    }

    /// Refuses an extended CONNECT that no exchange can serve.
    fn refuse_tunnel(&mut self, stream: u32) {
        let error = Error::new(Reason::NoTunnel, "`:protocol` is not `websocket`");
        // Only a stream that has ended meanwhile has no room for it.
        let _ = self.codec.send_response(stream, error.reason.status(), std::iter::empty(), true);
        self.codec.release(stream);
        note_refusal(&self.worker, &self.down.client, error);
    }

    /// A request that no exchange saw: the codec has refused it.
    fn note_refusal(&self, reason: ResetReason) {
        if let Some(error) = refusal(reason) {
            note_refusal(&self.worker, &self.down.client, error);
        }
    }

    /// Polls the exchanges that something has come for. Whether there were any.
    fn poll_slots(&mut self) -> bool {
        let mut has_polled = false;
        let Driver { ready, slots, codec, .. } = self;
        ready.take(|index| {
            let Some((stream, taken)) = slots.poll(index) else { return };
            has_polled = true;
            if taken > 0 {
                codec.consume(stream, taken);
            }
        });
        has_polled
    }

    /// Turns what exchanges wrote into frames: the most urgent streams first, one frame each in turn (RFC 9218 section 10). Whether an
    /// exchange can go on, or a stream has ended.
    fn send(&mut self) -> bool {
        if matches!(self.phase, Phase::Open | Phase::Flushing) {
            while self.send_round() {}
        }
        let mut has_moved = false;
        let mut index = 0;
        while let Some(slot) = self.slots.take_touched(&mut index) {
            if slot.has_ended() && !(self.phase == Phase::Open && slot.owes_end()) {
                let stream = slot.stream;
                if let Some(code) = slot.code() {
                    self.codec.reset(stream, code);
                }
                self.codec.release(stream);
                self.slots.close(index);
                has_moved = true;
            } else if slot.pipe.take_awaits() {
                self.ready.insert(index);
                has_moved = true;
            }
            index += 1;
        }
        has_moved
    }

    fn send_round(&mut self) -> bool {
        if self.codec.output().len() >= OUTPUT {
            return false;
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        let next = self.next;
        let mut index = 0;
        while let Some(slot) = self.slots.next_sendable(&mut index) {
            let urgency = self.codec.priority(slot.stream).urgency;
            order.push((urgency, index.wrapping_sub(next), index));
            index += 1;
        }
        order.sort_unstable();
        let mut sent_at = None;
        for &(urgency, _, index) in &order {
            if self.codec.output().len() >= OUTPUT || sent_at.is_some_and(|sent_at| sent_at != urgency) {
                break;
            }
            if self.slots.send(index, &mut self.codec) {
                sent_at = Some(urgency);
                self.next = index + 1;
            }
        }
        self.order = order;
        sent_at.is_some()
    }

    fn look_at_end(&mut self) {
        if self.phase != Phase::Open {
            return;
        }
        let is_last =
            self.worker.draining.get() || self.down.origin.is_closed() || clock::loop_ns() >= self.down.life.until_ns();
        if is_last {
            self.codec.drain();
        }
        if self.codec.is_draining() && self.drain_due == NEVER {
            self.drain_due = clock::loop_ns().saturating_add(nanos(GRACE));
        }
        if self.codec.is_finished() {
            self.phase = Phase::Flushing;
        }
    }

    /// Writes what waits. Whether reading or sending can go on that could not.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> bool {
        if !matches!(self.phase, Phase::Open | Phase::Flushing) {
            return false;
        }
        let was_full = self.codec.output().len() >= OUTPUT;
        let had_output = !self.codec.output().is_empty();
        while !self.codec.output().is_empty() {
            match Pin::new(&mut self.down.stream).poll_write(cx, self.codec.output()) {
                Poll::Ready(Ok(count @ 1..)) => {
                    self.codec.advance(count);
                    self.end_stall();
                }
                Poll::Ready(_) => {
                    self.close();
                    return true;
                }
                Poll::Pending => {
                    self.begin_stall();
                    return was_full && self.codec.output().len() < OUTPUT;
                }
            }
        }
        match Pin::new(&mut self.down.stream).poll_flush(cx) {
            Poll::Ready(Err(_)) => {
                self.close();
                return true;
            }
            Poll::Pending => {
                self.begin_stall();
                return false;
            }
            Poll::Ready(Ok(())) if self.phase == Phase::Flushing => {
                // A client that has closed its side is not waited for.
                let _ = Pin::new(&mut self.down.stream).poll_shutdown(cx);
                self.phase = Phase::Lingering(LINGER_BYTES);
                self.stall_due = clock::loop_ns().saturating_add(nanos(LINGER));
                return true;
            }
            Poll::Ready(Ok(())) => self.end_stall(),
        }
        // Decoding may have waited for the control frames to be sent.
        had_output
    }

    /// The client takes nothing: it has so long to begin again.
    fn begin_stall(&mut self) {
        if self.stall_due == NEVER {
            let time = if self.phase == Phase::Open { self.idle_ns } else { nanos(LINGER) };
            self.stall_due = clock::loop_ns().saturating_add(time);
            self.retry_due = clock::loop_ns().saturating_add(time / 2);
        }
    }

    /// The client took something. That is progress of every response that waits for the connection; of none that waits for a window.
    fn end_stall(&mut self) {
        if self.stall_due == NEVER {
            return;
        }
        (self.stall_due, self.retry_due) = (NEVER, NEVER);
        let mut index = 0;
        while let Some(slot) = self.slots.next_sendable(&mut index) {
            // One whose window is empty may not have been tried yet.
            if self.codec.capacity(slot.stream) > 0 {
                slot.pipe.client_took();
            }
            index += 1;
        }
    }

    /// Writes what the kernel takes although it has not announced that there is space: a slow reader may take longer for so much than it may
    /// take nothing. Twice in the time of a stall, so that the exchanges learn of it before their own deadlines.
    fn write_again(&mut self) {
        self.retry_due = NEVER;
        if matches!(self.phase, Phase::Open | Phase::Flushing)
            && let Ok(written) = self.down.stream.write_now(self.codec.output())
        {
            self.codec.advance(written.taken);
            self.end_stall();
            self.begin_stall();
        }
    }

    /// The peer broke a rule of the connection: the GOAWAY is in the output.
    fn fail(&mut self, code: ErrorCode) {
        self.worker.metrics.http2_connection_failed();
        if code == ErrorCode::ENHANCE_YOUR_CALM {
            // Not all of it is paid for in points.
            self.charge(Budget::FULL);
        }
        self.phase = Phase::Flushing;
        self.stall_due = NEVER;
        self.reset_all();
    }

    /// Closes the socket. Exchanges see that their client disconnected.
    fn close(&mut self) {
        self.phase = Phase::Closed;
        (self.stall_due, self.retry_due) = (NEVER, NEVER);
        self.down.stream = Stream::Subrequest;
        let length = self.down.buffer.filled().len();
        self.down.buffer.consume(length);
        self.reset_all();
    }

    fn reset_all(&mut self) {
        for (index, slot) in self.slots.iter_mut() {
            slot.pipe.reset();
            self.ready.insert(index);
        }
    }

    /// Keeps to the worker's bound on memory.
    fn hold(&mut self) {
        self.registered.hold(self.slots.held());
        let registry = &self.worker.http2;
        let is_full = registry.is_full();
        if is_full != self.is_paused {
            self.is_paused = is_full;
            self.codec.pause_credit(is_full);
        }
    }

    fn look_at_time(&mut self, cx: &mut Context<'_>) {
        if !self.down.deadline.poll_passed(cx) {
            return;
        }
        let now = clock::loop_ns();
        if now < self.due && self.slots.active() == 0 {
            // The worker drains, or needs room: at once, as nothing is lost.
            self.codec.drain();
            self.codec.finish_drain();
        }
        self.due = 0;
        if self.phase == Phase::Open
            && let Err(error) = self.codec.handle_time(now_ms())
        {
            self.fail(error.code);
        }
        if now >= self.drain_due {
            self.codec.finish_drain();
        }
        if now >= self.stall_due.min(self.retry_due) {
            self.write_again();
        }
        if now >= self.stall_due {
            self.close();
        }
    }

    fn set_deadline(&mut self) {
        let is_idle = self.slots.active() == 0;
        if is_idle && !self.is_idle {
            self.is_idle = true;
            self.down.deadline.set_idle(true);
            self.codec.shrink();
        }
        let of_codec = match self.phase {
            Phase::Open => self.codec.deadline_ms().map_or(NEVER, |ms| ms.saturating_mul(1_000_000)),
            _ => NEVER,
        };
        let drain_due = if self.phase == Phase::Open && self.codec.is_draining() { self.drain_due } else { NEVER };
        let is_open = self.phase == Phase::Open && !self.codec.is_draining();
        let life_due = if is_open { self.down.life.until_ns() } else { NEVER };
        let due = of_codec.min(drain_due).min(self.stall_due).min(self.retry_due).min(life_due);
        if due != self.due {
            self.due = due;
            self.down.deadline.set_at(due);
        }
    }
}

fn now_ms() -> u64 {
    clock::loop_ns() / 1_000_000
}

/// What a reset says of a request that the codec refuses.
fn refusal(reason: ResetReason) -> Option<Error> {
    match reason {
        ResetReason::Malformed(rule) => Some(Error::new(Reason::BadRequest, text(rule))),
        ResetReason::TooLarge => Some(Error::new(Reason::HeadTooLarge, "a field section above the limits")),
        _ => None,
    }
}

/// What the access log says of a malformed request.
fn text(rule: Malformed) -> &'static str {
    match rule {
        Malformed::FieldName => "a field name that is not a lower-case token (RFC 9113 8.2.1)",
        Malformed::FieldValue => "a field value with a control byte, or a blank at an end (RFC 9113 8.2.1)",
        Malformed::PseudoField => "pseudo-fields that are missing, unknown, repeated or misplaced (RFC 9113 8.3)",
        Malformed::Method => "a method that is not a token, is too long, or has the wrong case",
        Malformed::Connect => "CONNECT is not offered",
        Malformed::Path => "an invalid `:path` (RFC 9113 8.3.1)",
        Malformed::Scheme => "a `:scheme` that is neither http nor https",
        Malformed::Authority => "an `:authority` that is invalid or differs from Host (RFC 9113 8.3.1)",
        Malformed::ConnectionField => "a field of an HTTP/1 connection (RFC 9113 8.2.2)",
        Malformed::ContentLength => "a content-length that is not a number, or differs from the body (RFC 9113 8.1.1)",
        Malformed::Trailers => "trailers that do not end the stream, or with pseudo-fields (RFC 9113 8.1)",
        Malformed::Interim | Malformed::Status => "a response",
        Malformed::Priority => "a priority that cannot be read, or depends on itself",
    }
}
