//! One attempt of one exchange: a client connection and an upstream connection, driven together by one task.
//!
//! Both phases poll the same three things: the request's body on its way up, the reply on its way down, and the client, which may
//! disconnect. Nothing here decides what happens next; the pipeline does.

use std::task::{Context, Poll};
use std::time::Duration;

use h1::{HeadScanner, Limits, Method, ParseError, ResponseHead};
use rustix::event::PollFlags;

use super::cached::Keeping;
use super::overtime::Overtime;
use super::pump::{Pump, PumpError};
use super::stall::{Stall, Stalls};
use crate::client::downstream::Downstream;
use crate::error::{Error, Fault, Reason};
use crate::io::buffer::{Buffer, Buffers};
use crate::io::stream::{Outgoing, Stream, poll_read};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::streams::client_stream::ClientStream;

/// An upstream connection in use.
pub struct UpstreamSide {
    /// The byte stream.
    pub stream: Stream,
    /// What was read and not used up.
    pub buffer: Buffer,
    /// What is on its way to the upstream.
    pub out: Outgoing,
    /// How far the attempt is beyond its time.
    pub overtime: Overtime,
}

impl UpstreamSide {
    /// A connection on which nothing was read, and what is put together for it.
    pub fn new(stream: Stream, out: Outgoing) -> Self {
        UpstreamSide { stream, buffer: Buffer::default(), out, overtime: Overtime::No }
    }
}

/// Deadlines of one attempt, in nanoseconds since process start where they are moments.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Between two pieces of the client's body.
    pub client_idle: Option<Duration>,
    /// From the last byte of the request to the first of the reply.
    pub first_byte: Option<Duration>,
    /// Between two pieces of the reply.
    pub idle: Option<Duration>,
    /// When the first byte of the reply must have come, if the client does not keep the attempt waiting.
    pub try_due: u64,
    /// How long the client had kept the exchange waiting when the attempt began.
    pub client_ns: u64,
    /// When the exchange must be over.
    pub total_due: u64,
}

/// One attempt in flight.
pub struct UpstreamExchange<'a> {
    /// The client.
    pub down: &'a mut Downstream,
    /// The upstream.
    pub up: &'a mut UpstreamSide,
    /// The request's body on its way.
    pub request: &'a mut Pump,
    /// Where the request head ends in the client's buffer; its spans stay in use.
    pub keep: usize,
    /// Store of buffers.
    pub buffers: &'a Buffers,
    /// Deadlines.
    pub timing: Timing,
    /// Whether the whole request is written.
    pub request_sent: bool,
    /// Whether the upstream stopped taking the request; its reply may still be there.
    pub request_broken: bool,
    /// Whether the upstream has begun to respond: an interim head counts.
    pub response_started: bool,
    /// Nanoseconds since process start when the request was written as far as was known then.
    pub sent_at: u64,
    stalls: &'a mut Stalls,
}

impl<'a> UpstreamExchange<'a> {
    /// An attempt whose head is already in `up.out`.
    pub fn new(
        down: &'a mut Downstream,
        up: &'a mut UpstreamSide,
        request: &'a mut Pump,
        keep: usize,
        buffers: &'a Buffers,
        timing: Timing,
        stalls: &'a mut Stalls,
    ) -> Self {
        stalls.change(Stall::None);
        UpstreamExchange {
            down,
            up,
            request,
            keep,
            buffers,
            timing,
            request_sent: false,
            request_broken: false,
            response_started: false,
            sent_at: 0,
            stalls,
        }
    }

    /// Whether a byte of the request was handed to the kernel.
    pub fn has_sent(&self) -> bool {
        self.sent_at > 0 || self.up.out.is_begun()
    }

    /// Sends the request and waits for the head of a reply, interim or final; `head` then holds it, with spans of `up.buffer`.
    ///
    /// # Errors
    /// Why there will be none.
    pub fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        scanner: &mut HeadScanner,
        head: &mut ResponseHead,
        method: Method,
        limits: &Limits,
    ) -> Poll<Result<(), Error>> {
        loop {
            self.poll_request(cx)?;
            // Behind an interim head the next one may be here already.
            if !self.up.buffer.is_empty() && self.parse_head(scanner, head, method, limits)? {
                return Poll::Ready(Ok(()));
            }
            if !self.up.buffer.has_space() {
                self.buffers.grow(&mut self.up.buffer);
            }
            let is_closed = match poll_read(cx, &mut self.up.stream, &mut self.up.buffer) {
                Poll::Ready(Ok(0) | Err(_)) => true,
                Poll::Ready(Ok(_)) => {
                    self.response_started = true;
                    false
                }
                Poll::Pending => {
                    self.buffers.release(&mut self.up.buffer);
                    return self.poll_deadline(cx, self.stall_before_response());
                }
            };
            if is_closed {
                let known = self.up.stream.http2_upstream().and_then(ClientStream::failure);
                let broken = if self.up.buffer.is_empty() { Reason::UpstreamReset } else { Reason::BadResponse };
                let broken = known.unwrap_or(broken);
                let detail = match broken {
                    Reason::NoTunnel => "the target does not offer WebSocket over HTTP/2 (RFC 8441)",
                    _ => "closed before the end of the head",
                };
                return Poll::Ready(Err(Error::new(broken, detail)));
            }
        }
    }

    /// Parses a head that is complete in `up.buffer`; false while it is not.
    ///
    /// # Errors
    /// The rule that it breaks.
    fn parse_head(
        &mut self,
        scanner: &mut HeadScanner,
        head: &mut ResponseHead,
        method: Method,
        limits: &Limits,
    ) -> Result<bool, Error> {
        let bad = |error: ParseError| Error::new(Reason::BadResponse, error.text());
        let start = self.up.buffer.start();
        // As nearly all come: whole, and breaking no rule.
        if scanner.is_fresh()
            && let Some(end) = head.parse_whole(self.up.buffer.whole(), start, method, limits)
        {
            self.up.buffer.seek(end);
            return Ok(true);
        }
        let Some(end) = scanner.scan(self.up.buffer.filled(), limits).map_err(bad)? else { return Ok(false) };
        head.parse(self.up.buffer.whole(), start + scanner.skipped(), start + end, method, limits).map_err(bad)?;
        self.up.buffer.consume(end);
        scanner.reset();
        Ok(true)
    }

    /// Copies the reply's body to the client, and what is left of the request's body to the upstream. Ready when the reply is
    /// written; the request may not be.
    ///
    /// # Errors
    /// Why the reply will never be complete.
    pub fn poll_body(&mut self, cx: &mut Context<'_>, response: &mut Pump) -> Poll<Result<(), Error>> {
        self.poll_request(cx)?;
        let mut progress = false;
        let sent = self.down.stream.sent_later();
        let poll = response.poll(
            cx,
            self.buffers,
            (&mut self.up.stream, &mut self.up.buffer, 0),
            (&mut self.down.stream, &mut self.down.out),
            &mut progress,
        );
        progress |= self.down.stream.sent_later() > sent;
        if progress {
            self.stalls.change(Stall::None);
            self.up.overtime.moved();
        }
        match poll {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(body_error(error))),
            Poll::Pending => {
                if self.request_sent {
                    self.buffers.shrink(&mut self.down.buffer);
                }
                if response.waits_for_sink(&self.down.out) {
                    return self.poll_client_takes(cx, response);
                }
                let waits_for_client = !self.request_sent && !self.request_broken && !self.waits_for_upstream_to_read();
                let stall = if waits_for_client { Stall::ClientSendsDuringResponse } else { Stall::UpstreamBody };
                self.poll_deadline(cx, stall)
            }
        }
    }

    /// Copies the reply's body into the cache, and from there to the client, each as fast as it goes, and what is left of the request's
    /// body to the upstream. Ready when the reply was read; the client may not have all of it yet. A client that disconnects ends the
    /// fetch, unless others wait for it.
    ///
    /// # Errors
    /// Why the reply will never be complete.
    pub fn poll_keep(&mut self, cx: &mut Context<'_>, keeping: &mut Keeping) -> Poll<Result<(), Error>> {
        self.poll_request(cx)?;
        let mut fetched = false;
        let (source, fill) = ((&mut self.up.stream, &mut self.up.buffer), keeping.lead.fill());
        if let Poll::Ready(result) = keeping.intake.poll(cx, self.buffers, source, fill, &mut fetched) {
            return Poll::Ready(result.map_err(body_error));
        }
        if keeping.is_unwanted() {
            return Poll::Ready(Err(Reason::ClientDisconnected.into()));
        }
        let mut delivered = false;
        let served = match &mut keeping.delivery {
            Some(delivery) => delivery.poll(cx, self.down, true, &mut delivered),
            None => Poll::Pending,
        };
        let is_slow = keeping.delivery.as_ref().is_some_and(|delivery| delivery.is_blocked(&self.down.out));
        let now = clock::loop_ns();
        let after = |idle: Option<Duration>| idle.map_or(u64::MAX, |idle| now.saturating_add(nanos(idle)));
        if keeping.intake.waits_for_room {
            // Readers delay the upstream, and perhaps one of them the others.
            keeping.upstream_due = keeping.lead.fill().cut_due_ns().unwrap_or(u64::MAX);
            keeping.waited_for_room = true;
        } else if fetched || keeping.upstream_due == 0 || std::mem::take(&mut keeping.waited_for_room) {
            keeping.upstream_due = after(self.timing.idle);
        }
        self.stalls.change(if keeping.intake.waits_for_room { Stall::ClientReceives } else { Stall::UpstreamBody });
        if delivered || !is_slow || keeping.client_due == 0 {
            keeping.client_due = after(self.timing.client_idle);
        }
        let client_due = if is_slow { keeping.client_due } else { u64::MAX };
        let due = keeping.upstream_due.min(client_due).min(self.timing.total_due);
        if due != keeping.due {
            keeping.due = due;
            self.down.deadline.set_at(due);
        }

        let is_late = self.down.deadline.poll_passed(cx);
        if is_late
            && client_due == due
            && let Some(delivery) = &keeping.delivery
            && delivery.poll_stalled(cx, self.down) == Some(false)
        {
            // Set anew when the task, which was woken, runs again.
            keeping.client_due = 0;
            return Poll::Pending;
        }
        let is_disconnected = keeping.delivery.is_some()
            && (matches!(served, Poll::Ready(Err(_)))
                || self.down.poll_disconnect(cx, self.buffers).is_ready()
                || (is_late && client_due == due));
        if is_disconnected {
            keeping.delivery = None;
            self.down.out.clear();
            if !keeping.lead.is_awaited() {
                return Poll::Ready(Err(Reason::ClientDisconnected.into()));
            }
            // The deadline may have been the client's.
            return self.poll_keep(cx, keeping);
        }
        match (is_late, due == self.timing.total_due) {
            (false, _) => Poll::Pending,
            // Another reader is cut off.
            (true, false) if keeping.intake.waits_for_room => self.poll_keep(cx, keeping),
            (true, true) => Poll::Ready(Err(total_timeout(self.stalls, true))),
            (true, false) => Poll::Ready(Err(Reason::IdleTimeout.into())),
        }
    }

    /// Sends what can be sent of the request.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        if self.request_sent || self.request_broken {
            return Ok(());
        }
        let mut progress = false;
        let sent = self.up.stream.sent_later();
        let poll = self.request.poll(
            cx,
            self.buffers,
            (&mut self.down.stream, &mut self.down.buffer, self.keep),
            (&mut self.up.stream, &mut self.up.out),
            &mut progress,
        );
        progress |= self.up.stream.sent_later() > sent;
        if progress {
            self.stalls.change(Stall::None);
            self.up.overtime.moved();
            self.sent_at = clock::refresh();
        }
        match poll {
            Poll::Pending => {}
            Poll::Ready(Ok(())) => self.request_sent = true,
            Poll::Ready(Err(error)) => match error {
                // The upstream may have responded early and closed; its response is worth reading.
                PumpError::Write(_) => self.request_broken = true,
                PumpError::Parse(error) => return Err(Error::new(Reason::BadRequest, error.text())),
                PumpError::TooLarge => return Err(Reason::BodyTooLarge.into()),
                PumpError::Truncated | PumpError::Read(_) | PumpError::Coding => {
                    return Err(Reason::ClientDisconnected.into());
                }
            },
        }
        Ok(())
    }

    fn waits_for_upstream_to_read(&self) -> bool {
        self.request.waits_for_sink(&self.up.out)
    }

    fn stall_before_response(&self) -> Stall {
        if self.request_sent || self.request_broken {
            Stall::UpstreamHead
        } else if self.waits_for_upstream_to_read() {
            Stall::UpstreamReceives
        } else {
            Stall::ClientSends
        }
    }

    /// Nothing can move now: moves the deadline if something else is waited for than before, and looks whether the client disconnected
    /// or the deadline passed.
    fn poll_deadline<T>(&mut self, cx: &mut Context<'_>, stall: Stall) -> Poll<Result<T, Error>> {
        self.note(stall);
        if self.client_disconnected(cx) {
            return Poll::Ready(Err(Reason::ClientDisconnected.into()));
        }
        let passed = match stall {
            _ if self.up.overtime.is_spent(self.timing.total_due) => true,
            Stall::UpstreamHead | Stall::UpstreamBody => {
                self.down.deadline.poll_passed_without(cx, self.up.stream.socket(), PollFlags::IN)
            }
            _ => self.down.deadline.poll_passed(cx),
        };
        if passed { Poll::Ready(Err(self.late())) } else { Poll::Pending }
    }

    /// The same while the client takes no more of the response.
    fn poll_client_takes<T>(&mut self, cx: &mut Context<'_>, response: &Pump) -> Poll<Result<T, Error>> {
        self.note(Stall::ClientReceives);
        if self.client_disconnected(cx) {
            return Poll::Ready(Err(Reason::ClientDisconnected.into()));
        }
        if self.up.overtime.is_spent(self.timing.total_due) {
            return Poll::Ready(Err(self.late()));
        }
        let is_over = clock::loop_ns() >= self.timing.total_due;
        match self.down.poll_stalled(cx, if is_over { &[] } else { response.piece(&self.up.buffer) }) {
            Some(false) if !is_over => {
                self.stalls.change(Stall::None);
                Poll::Pending
            }
            Some(_) => Poll::Ready(Err(self.late())),
            None => Poll::Pending,
        }
    }

    fn note(&mut self, stall: Stall) {
        if self.stalls.current() != stall {
            self.stalls.change(stall);
            let due = self.due(stall);
            self.down.deadline.set_at(due);
        }
    }

    /// While the request's body is on its way the pump reads the client and sees it disconnect.
    fn client_disconnected(&mut self, cx: &mut Context<'_>) -> bool {
        self.down.stream.is_reset()
            || ((self.request_sent || self.request_broken) && self.down.poll_disconnect(cx, self.buffers).is_ready())
    }

    fn due(&mut self, stall: Stall) -> u64 {
        let timeout = match stall {
            Stall::None | Stall::Gateway | Stall::UpstreamConnects => None,
            Stall::ClientSends | Stall::ClientReceives => self.timing.client_idle,
            Stall::UpstreamHead => self.timing.first_byte,
            Stall::UpstreamReceives | Stall::UpstreamBody | Stall::ClientSendsDuringResponse => self.timing.idle,
        };
        let due = timeout.map_or(u64::MAX, |timeout| clock::loop_ns().saturating_add(nanos(timeout)));
        let due = if stall == Stall::UpstreamHead { due.min(self.try_due()) } else { due };
        due.min(self.timing.total_due)
    }

    /// When the first byte of the reply must have come: what the client kept the attempt waiting is not the target's fault.
    fn try_due(&mut self) -> u64 {
        let client_ns = self.stalls.client_ns().saturating_sub(self.timing.client_ns);
        self.timing.try_due.saturating_add(client_ns)
    }

    /// Which timeout passed, and so whose fault it is.
    fn late(&mut self) -> Error {
        let now = clock::loop_ns();
        let stall = self.stalls.current();
        if now >= self.timing.total_due {
            return total_timeout(self.stalls, stall == Stall::ClientReceives || stall == Stall::UpstreamBody);
        }
        match stall {
            Stall::ClientSends | Stall::ClientSendsDuringResponse => Reason::BodyTimeout.into(),
            Stall::ClientReceives => Error::new(Reason::ClientDisconnected, "did not take the response"),
            Stall::UpstreamReceives | Stall::UpstreamBody => Reason::IdleTimeout.into(),
            _ if now >= self.try_due() => Reason::TryTimeout.into(),
            _ => Reason::FirstByteTimeout.into(),
        }
    }
}

/// The whole exchange took too long: an error of the side that kept it waiting the longest. `has_response`: the client was to take one.
pub fn total_timeout(stalls: &mut Stalls, has_response: bool) -> Error {
    match (stalls.larger_fault(), has_response) {
        (Fault::Upstream, _) => Reason::TotalTimeout.into(),
        (Fault::Client, false) => Error::new(Reason::BodyTimeout, "it did not come before the total timeout"),
        (Fault::Client, true) => {
            Error::new(Reason::ClientDisconnected, "did not take the response before the total timeout")
        }
        (Fault::Gateway, _) => Error::new(Reason::TotalTimeout, "most of the time passed in the gateway"),
    }
}

/// Why a reply's body did not get through.
fn body_error(error: PumpError) -> Error {
    match error {
        PumpError::Parse(error) => Error::new(Reason::BodyTruncated, error.text()),
        PumpError::Truncated => Error::new(Reason::BodyTruncated, "closed before the end of the body"),
        PumpError::Read(_) | PumpError::TooLarge => Error::new(Reason::BodyTruncated, "connection failed"),
        PumpError::Write(_) => Reason::ClientDisconnected.into(),
        PumpError::Coding => Error::new(Reason::Resources, "no memory to compress the response"),
    }
}
