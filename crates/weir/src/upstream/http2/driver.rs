//! The task of one connection: reads once, decodes, looks at the streams that something has come for, and writes once.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use ::http2::{Connection, ErrorCode, Event, Head};
use tokio::io::AsyncWrite;

use super::sessions::Session;
use super::slot::New;
use super::slots::Slots;
use super::{Counted, Host, codec_config, request, response};
use crate::config::Upstream;
use crate::error::Reason;
use crate::io::buffer::Buffer;
use crate::io::stream::{Stream, poll_read};
use crate::runtime::clock;
use crate::runtime::deadline::{Deadline, nanos};
use crate::streams::body::write_trailers;
use crate::streams::registry::Registered;

/// No frame with a part of a request is begun while so many bytes wait to be sent.
const OUTPUT: usize = 64 * 1024;
/// Rounds of one poll; then other tasks run.
const ROUNDS: usize = 16;
/// When less room than this is left behind unread bytes, they are moved to the front.
const ROOM: usize = 4 * 1024;
/// How long a target that left a request unanswered has to acknowledge a PING. Nothing more is sent on the connection until then.
const PROBE_NS: u64 = 5_000_000_000;
/// How long the last frames may take.
const FLUSH_NS: u64 = 2_000_000_000;
const NEVER: u64 = u64::MAX;

/// How far the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The target takes no new streams; those that are open go on.
    Ending,
    /// What is in the output is the last.
    Flushing,
    Closed,
}

struct Driver<H: Host> {
    host: Rc<H>,
    session: Rc<Session>,
    stream: Stream,
    buffer: Buffer,
    deadline: Deadline,
    codec: Connection,
    head: Head,
    slots: Slots,
    /// Memory of slots that were.
    readers: Vec<request::Reader>,
    registered: Registered,
    phase: Phase,
    scheme: &'static [u8],
    idle_ns: u64,
    is_settled: bool,
    is_paused: bool,
    received_ns: u64,
    /// When the target must have acknowledged a PING.
    probe_due: u64,
    /// When an idle connection is closed, or the last frames must have left.
    close_due: u64,
    due: u64,
    /// Where the next round of frames begins among the slots.
    next: usize,
}

/// Serves a connection to its end.
pub(super) fn run<H: Host>(
    host: Rc<H>,
    session: Rc<Session>,
    stream: Stream,
    upstream: &Upstream,
) -> impl Future<Output = ()> + use<H> {
    let now = clock::loop_ns();
    host.count(Counted::Opened);
    let mut driver = Driver {
        registered: Registered::new(host.registry().clone()),
        deadline: host.deadlines().add(),
        codec: Connection::client(codec_config(upstream), now / 1_000_000),
        scheme: if matches!(stream, Stream::Tls(_)) { b"https" } else { b"http" },
        idle_ns: nanos(upstream.keep_alive.idle),
        host,
        session,
        stream,
        buffer: Buffer::default(),
        head: Head::default(),
        slots: Slots::default(),
        readers: Vec::new(),
        phase: Phase::Open,
        is_settled: false,
        is_paused: false,
        received_ns: now,
        probe_due: NEVER,
        close_due: NEVER,
        due: NEVER,
        next: 0,
    };
    async move {
        std::future::poll_fn(|cx| {
            clock::count_work();
            driver.poll(cx)
        })
        .await;
    }
}

impl<H: Host> Drop for Driver<H> {
    /// However the task ends, no exchange waits for it.
    fn drop(&mut self) {
        self.host.sessions().remove(&self.session);
        self.fail_all();
        self.host.count(Counted::Closed);
        self.host.buffers().put_back(std::mem::take(&mut self.buffer));
    }
}

impl<H: Host> Driver<H> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.session.ready.register(cx.waker());
        self.registered.register(cx.waker());
        self.codec.begin_iteration();
        self.look_at_time(cx);
        let mut rounds = 0;
        loop {
            let mut has_moved = self.take_new();
            has_moved |= self.poll_input(cx);
            has_moved |= self.look_at_slots();
            while self.send_round() {
                has_moved = true;
            }
            self.look_at_end();
            has_moved |= self.poll_output(cx);
            if self.phase == Phase::Closed {
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
        self.wake_exchanges();
        self.publish();
        self.hold();
        self.set_deadline();
        Poll::Pending
    }

    /// Gives new streams a slot.
    fn take_new(&mut self) -> bool {
        let new = std::mem::take(&mut *self.session.new.borrow_mut());
        let has_some = !new.is_empty();
        if has_some {
            // Those of the present configuration: connections to targets outlive a reload.
            self.codec.set_sensitive(self.host.sensitive());
        }
        for new in new.into_iter().filter(|new| !new.link.is_dropped()) {
            let mut reader = self.readers.pop().unwrap_or_default();
            reader.clear();
            self.slots.add(new, reader);
        }
        has_some
    }

    /// Reads and decodes. Whether something came.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_read = false;
        loop {
            if !matches!(self.phase, Phase::Open | Phase::Ending) || !self.decode() {
                return has_read;
            }
            let buffers = self.host.buffers();
            let buffer = &mut self.buffer;
            if buffer.is_empty() {
                buffer.rewind(0);
            } else if buffer.room() < ROOM {
                buffer.compact();
            }
            if !buffer.is_held() {
                *buffer = buffers.small();
            } else if !buffer.has_space() {
                buffers.grow(buffer);
            }
            match poll_read(cx, &mut self.stream, buffer) {
                Poll::Pending => {
                    if buffer.is_empty() {
                        buffers.put_back(std::mem::take(buffer));
                    }
                    return has_read;
                }
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.phase = Phase::Closed;
                    return true;
                }
                Poll::Ready(Ok(_)) => {
                    has_read = true;
                    self.received_ns = clock::loop_ns();
                    self.probe_due = NEVER;
                }
            }
        }
    }

    /// Decodes what was read. False when no more may be read in this poll.
    fn decode(&mut self) -> bool {
        loop {
            let input = self.buffer.filled();
            let (used, event) = match self.codec.decode(input, &mut self.head, clock::loop_ns() / 1_000_000) {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%error, "HTTP/2 connection to a target ended");
                    self.fail_codec();
                    return false;
                }
            };
            match event {
                Event::NeedMore => {
                    self.buffer.consume(used);
                    return true;
                }
                Event::Flush | Event::Yield => {
                    self.buffer.consume(used);
                    return false;
                }
                Event::Data { stream, range, end } => {
                    let length = range.len();
                    match self.slots.touch(stream) {
                        Some(slot) if !slot.link.is_dropped() => {
                            slot.pipe.push_body(&input[range]);
                            if end {
                                slot.has_ended = true;
                                slot.pipe.end_body(|_| ());
                            }
                        }
                        _ => self.codec.consume(stream, length),
                    }
                }
                event => self.handle(event),
            }
            self.buffer.consume(used);
        }
    }

    fn handle(&mut self, event: Event) {
        let head = &self.head;
        match event {
            Event::Interim { stream } => {
                if let Some(slot) = self.slots.touch(stream) {
                    slot.pipe.begin(false, |out| response::write_head(out, head, None));
                }
            }
            Event::Response { stream, end } => {
                let Some(slot) = self.slots.touch(stream) else { return };
                slot.has_head = true;
                slot.has_ended = end;
                let is_success = (200..300).contains(&head.response.status);
                if let Some(accept) = slot.reader.accept().filter(|_| is_success) {
                    slot.pipe.begin_tunnel(|out| response::write_switch(out, head, accept));
                    if end {
                        slot.pipe.end_body(|_| ());
                    }
                    return;
                }
                if slot.reader.accept().is_some() {
                    slot.reader.end_tunnel(&mut self.codec, stream);
                }
                let reader = &slot.reader;
                let framing = response::framing(head, reader.method(), end, reader.accepts_trailers());
                slot.pipe.begin(framing == response::Framing::Chunked, |out| {
                    response::write_head(out, head, Some(framing));
                });
                if end {
                    slot.pipe.end_body(|_| ());
                }
            }
            Event::Trailers { stream } => {
                if let Some(slot) = self.slots.touch(stream) {
                    slot.has_ended = true;
                    slot.pipe.end_body(|out| write_trailers(out, &head.trailers, &head.text));
                }
            }
            Event::Reset { stream, reason } => {
                if let Some(slot) = self.slots.touch(stream) {
                    if !slot.has_ended {
                        self.host.count(Counted::StreamLost);
                    }
                    slot.end(reason, self.phase == Phase::Open);
                }
            }
            Event::Settings => self.is_settled = true,
            Event::Writable { stream } => self.slots.unblock(stream),
            Event::GoAway { code, .. } => {
                if code != ErrorCode::NO_ERROR {
                    tracing::debug!(code = code.0, "a target ends its HTTP/2 connection");
                }
                self.begin_end();
            }
            _ => {}
        }
    }

    /// Looks at the streams whose exchange has done something.
    fn look_at_slots(&mut self) -> bool {
        let mut has_moved = false;
        let Driver { session, slots, codec, readers, probe_due, received_ns, .. } = self;
        session.ready.take(|index| {
            let Some(slot) = slots.get_mut(index) else { return };
            let taken = slot.pipe.take_credit();
            if taken > 0 {
                codec.consume(slot.stream, taken);
            }
            if !slot.link.is_dropped() {
                slots.woken(index);
                return;
            }
            has_moved = true;
            codec.release(slot.stream);
            // The exchange gave up on a target that has said nothing for most of the time: is it there at all?
            let now = clock::loop_ns();
            let waited = now.saturating_sub(slot.sent_ns);
            let is_silent = slot.stream != 0 && !slot.has_head && now.saturating_sub(*received_ns) > waited / 2;
            if is_silent && *probe_due == NEVER {
                codec.ping();
                *probe_due = now.saturating_add(PROBE_NS);
            }
            readers.extend(slots.close(index));
        });
        has_moved
    }

    /// Sends at most one frame of data for each stream. Whether something went out.
    fn send_round(&mut self) -> bool {
        if !matches!(self.phase, Phase::Open | Phase::Ending) {
            return false;
        }
        if self.slots.unopened() > 0 && self.codec.available_streams() > 0 {
            self.slots.unblock_unopened();
        }
        let mut has_sent = false;
        for (begin, end) in [(self.next, usize::MAX), (0, self.next)] {
            let mut from = begin;
            while let Some(index) = self.slots.next_sendable(from).filter(|index| *index < end) {
                if self.codec.output().len() >= OUTPUT {
                    self.next = index;
                    return false;
                }
                let (sent, has_opened) = self.slots.send(index, &mut self.codec, self.scheme);
                has_sent |= sent;
                if has_opened {
                    self.host.count(Counted::Stream);
                }
                from = index + 1;
            }
        }
        has_sent
    }

    /// Says to exchanges that what they wait for has come.
    fn wake_exchanges(&mut self) {
        let mut index = 0;
        while let Some(slot) = self.slots.take_touched(&mut index) {
            if slot.pipe.take_awaits() {
                slot.link.wake_exchange();
            }
            index += 1;
        }
    }

    fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.session.new.borrow().is_empty()
    }

    fn look_at_end(&mut self) {
        if self.session.life().is_over(clock::loop_ns()) {
            self.begin_end();
        }
        if !matches!(self.phase, Phase::Open | Phase::Ending) || !self.is_idle() {
            return;
        }
        if self.phase == Phase::Ending || (self.host.is_draining() && self.is_settled) {
            self.begin_end();
            self.codec.close(ErrorCode::NO_ERROR);
            self.flush_last();
        }
    }

    /// Nobody gets a new stream.
    fn begin_end(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Ending;
            self.host.sessions().remove(&self.session);
        }
    }

    /// The target broke a rule of the connection: the GOAWAY is in the output.
    fn fail_codec(&mut self) {
        self.begin_end();
        for slot in self.slots.iter_mut() {
            slot.pipe.fail(Reason::BadResponse);
        }
        self.fail_all();
        self.flush_last();
    }

    fn flush_last(&mut self) {
        self.phase = Phase::Flushing;
        self.close_due = clock::loop_ns().saturating_add(FLUSH_NS);
    }

    /// No stream goes on.
    fn fail_all(&mut self) {
        for slot in self.slots.iter_mut() {
            if !slot.has_ended && slot.stream != 0 && !slot.pipe.is_reset() && !slot.link.is_dropped() {
                self.host.count(Counted::StreamLost);
            }
            slot.lose();
            slot.link.wake_exchange();
        }
        for New { pipe, link } in self.session.new.borrow_mut().drain(..) {
            link.set_unprocessed();
            pipe.reset();
            link.wake_exchange();
        }
    }

    /// Writes what waits. Whether reading or sending can go on that could not.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> bool {
        if self.phase == Phase::Closed {
            return false;
        }
        let had_output = !self.codec.output().is_empty();
        while !self.codec.output().is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, self.codec.output()) {
                Poll::Ready(Ok(count @ 1..)) => self.codec.advance(count),
                Poll::Ready(_) => {
                    self.phase = Phase::Closed;
                    return true;
                }
                Poll::Pending => return false,
            }
        }
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Err(_)) => self.phase = Phase::Closed,
            Poll::Ready(Ok(())) if self.phase == Phase::Flushing => {
                self.stream.say_end();
                self.phase = Phase::Closed;
            }
            Poll::Ready(Ok(())) => {}
            Poll::Pending => return false,
        }
        // Decoding may have waited for the control frames to be sent, and frames for room.
        had_output
    }

    fn publish(&mut self) {
        if self.phase != Phase::Open {
            return;
        }
        if self.codec.is_draining() {
            // The target has used up its budget.
            return self.begin_end();
        }
        let unsent = self.slots.unopened() + self.session.new.borrow().len();
        let is_probed = self.probe_due != NEVER;
        let free = if is_probed { 0 } else { self.codec.available_streams().saturating_sub(unsent as u32) };
        self.host.sessions().publish(&self.session, free, self.is_settled);
    }

    /// Keeps to the worker's bound on memory.
    fn hold(&mut self) {
        self.registered.hold(self.slots.held());
        let is_full = self.host.registry().is_full();
        if is_full != self.is_paused {
            self.is_paused = is_full;
            self.codec.pause_credit(is_full);
        }
    }

    fn look_at_time(&mut self, cx: &mut Context<'_>) {
        if !self.deadline.poll_passed(cx) {
            return;
        }
        self.due = NEVER;
        let now = clock::loop_ns();
        if now >= self.probe_due {
            tracing::debug!("a target is silent on its HTTP/2 connection");
            self.phase = Phase::Closed;
            return;
        }
        if now >= self.close_due {
            match self.phase {
                Phase::Flushing => self.phase = Phase::Closed,
                _ if self.is_idle() => {
                    self.begin_end();
                    self.codec.close(ErrorCode::NO_ERROR);
                    self.flush_last();
                }
                _ => {}
            }
        }
        if matches!(self.phase, Phase::Open | Phase::Ending) && self.codec.handle_time(now / 1_000_000).is_err() {
            self.fail_codec();
        }
    }

    fn set_deadline(&mut self) {
        if self.phase != Phase::Flushing {
            match (self.is_idle(), self.close_due == NEVER) {
                (true, true) => {
                    self.close_due = clock::loop_ns().saturating_add(self.idle_ns);
                    self.codec.shrink();
                }
                (false, false) => self.close_due = NEVER,
                _ => {}
            }
        }
        let of_codec = self.codec.deadline_ms().map_or(NEVER, |ms| ms.saturating_mul(1_000_000));
        let life_due = if self.phase == Phase::Open { self.session.life().until_ns() } else { NEVER };
        let due = of_codec.min(self.probe_due).min(self.close_due).min(life_due);
        if due != self.due {
            self.due = due;
            self.deadline.set_at(due);
        }
    }
}
