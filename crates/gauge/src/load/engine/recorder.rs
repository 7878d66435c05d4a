//! What one thread counts. Threads record apart and are added up at the end: nothing is shared while the load runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tls::Negotiated;

use super::chat::{Chat, End};
use super::http1::Notes;
use super::pacer::nanoseconds;
use super::stream::Stream;
use crate::load::chat::Slo;
use crate::results::report::{Histogram, SAMPLES};

/// What went wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    Connect,
    Reset,
    Timeout,
    /// A complete response with an unexpected status; counted with the response.
    Status,
    InvalidResponse,
    /// A handshake that failed, a violation of TLS, or a response that may be truncated.
    Tls,
    /// A connection of WebSocket was closed while a message was awaited.
    Closed,
    /// The values made no message, so that nothing was sent.
    Unsent,
}

/// Kinds of [`Failure`].
pub(crate) const FAILURES: usize = 8;

/// What was counted of one operation in one phase.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub(crate) scheduled: u64,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) late: u64,
    pub(crate) marked: u64,
    pub(crate) dropped: u64,
    /// Those of `dropped` for which a connection was free when they were due.
    pub(crate) dropped_free: u64,
    pub(crate) no_response: u64,
    pub(crate) failures: [u64; FAILURES],
    /// A handful at most: the first is nearly always the one.
    pub(crate) statuses: Vec<(u16, u64)>,
    pub(crate) sent: SentBytes,
    pub(crate) received_bytes: u64,
    pub(crate) latency: Histogram,
    /// Of event streams: until the first byte of the body, the events, and the reads in which one ended.
    pub(crate) first_byte: Histogram,
    pub(crate) events: u64,
    pub(crate) arrivals: u64,
    /// Of chat calls.
    pub(crate) chat: Option<Box<ChatCell>>,
    /// Of streams of gRPC.
    pub(crate) streams: Option<Box<StreamCell>>,
    /// In the order of the responses; cut off when there are more than [`SAMPLES`].
    pub(crate) samples: Vec<u64>,
    pub(crate) lag: Histogram,
    pub(crate) generator_lag: Histogram,
}

/// What was counted of chat calls.
#[derive(Debug, Default)]
pub(crate) struct ChatCell {
    pub(crate) complete: u64,
    pub(crate) error_events: u64,
    pub(crate) cut: u64,
    /// Complete calls within the objective.
    pub(crate) good: u64,
    pub(crate) output_tokens: u64,
    /// Complete calls without the server's count: their events with content were counted.
    pub(crate) uncounted: u64,
    pub(crate) ttft: Histogram,
    pub(crate) inter_token: Histogram,
}

impl ChatCell {
    /// Adds what another thread counted.
    pub(crate) fn add(&mut self, other: &ChatCell) {
        self.complete += other.complete;
        self.error_events += other.error_events;
        self.cut += other.cut;
        self.good += other.good;
        self.output_tokens += other.output_tokens;
        self.uncounted += other.uncounted;
        self.ttft.add(&other.ttft);
        self.inter_token.add(&other.inter_token);
    }
}

/// What was counted of streams of gRPC.
#[derive(Debug, Default)]
pub(crate) struct StreamCell {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) short: u64,
    pub(crate) first_message: Histogram,
    pub(crate) round_trip: Histogram,
}

impl StreamCell {
    /// Adds what another thread counted.
    pub(crate) fn add(&mut self, other: &StreamCell) {
        self.sent += other.sent;
        self.received += other.received;
        self.short += other.short;
        self.first_message.add(&other.first_message);
        self.round_trip.add(&other.round_trip);
    }
}

/// What was seen of a stream of gRPC whose status is OK.
#[derive(Debug, Default)]
pub(crate) struct CallStream {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// When the first message was complete; 0: none came, or only one can come.
    pub(crate) first: u64,
    /// Of messages that waited for one of the server, nanoseconds.
    pub(crate) round_trips: Vec<u64>,
    /// It has fewer messages than it should have.
    pub(crate) is_short: bool,
}

/// What was counted of TLS.
#[derive(Debug, Default)]
pub(crate) struct TlsCells {
    pub(crate) full: u64,
    pub(crate) resumed: u64,
    pub(crate) handshake: Histogram,
    /// Version and cipher suite: one or two pairs.
    pub(crate) sessions: Vec<((&'static str, &'static str), u64)>,
    /// Why the first of the requests failed that count as [`Failure::Tls`].
    pub(crate) first_error: Option<String>,
}

impl TlsCells {
    /// Adds what another thread counted.
    pub(crate) fn add(&mut self, other: TlsCells) {
        self.full += other.full;
        self.resumed += other.resumed;
        self.handshake.add(&other.handshake);
        for (session, count) in other.sessions {
            self.count(session, count);
        }
        if self.first_error.is_none() {
            self.first_error = other.first_error;
        }
    }

    fn count(&mut self, session: (&'static str, &'static str), more: u64) {
        match self.sessions.iter_mut().find(|(known, _)| *known == session) {
            Some((_, count)) => *count += more,
            None => self.sessions.push((session, more)),
        }
    }
}

/// What was counted of WebSocket.
#[derive(Debug, Default)]
pub(crate) struct WebSocketCells {
    pub(crate) handshakes: u64,
    pub(crate) handshake: Histogram,
    pub(crate) pings: u64,
    /// Of connections that were closed while a message was awaited: one or two codes.
    pub(crate) closes: BTreeMap<u16, u64>,
    /// What was wrong with the first refused upgrade, or the first invalid handshake or frame.
    pub(crate) first_error: Option<String>,
}

impl WebSocketCells {
    /// Adds what another thread counted.
    pub(crate) fn add(&mut self, other: WebSocketCells) {
        self.handshakes += other.handshakes;
        self.handshake.add(&other.handshake);
        self.pings += other.pings;
        for (code, count) in other.closes {
            *self.closes.entry(code).or_default() += count;
        }
        if self.first_error.is_none() {
            self.first_error = other.first_error;
        }
    }
}

/// What was counted in one phase.
#[derive(Debug)]
pub(crate) struct PhaseCells {
    /// When it began and ended on this thread; both 0 when it was never reached.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// By operation.
    pub(crate) cells: Vec<Cell>,
    pub(crate) connections: u64,
    pub(crate) connect: Histogram,
    pub(crate) tls: TlsCells,
    pub(crate) websocket: WebSocketCells,
    /// Why the first call of gRPC failed that did.
    pub(crate) grpc_error: Option<String>,
    /// Times without any response, from 5 ms on: where a closed loop may have hidden something.
    pub(crate) gaps: Vec<u64>,
    last_response: u64,
}

/// Shorter silences hide nothing that matters.
const GAP_NS: u64 = 5_000_000;

/// One second.
#[derive(Debug, Default)]
pub(crate) struct SecondCells {
    pub(crate) at: u32,
    pub(crate) sent: u64,
    pub(crate) responses: u64,
    /// Of the completed ones, those with 2xx.
    pub(crate) succeeded: u64,
    pub(crate) errors: u64,
    pub(crate) dropped: u64,
    pub(crate) received_bytes: u64,
    /// Latencies as (nanoseconds, count): a fraction of a histogram's memory.
    pub(crate) latency: Vec<(u64, u64)>,
}

/// What the progress bar and the event stream show.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) responses: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// Number and latencies of the last full second; locked once a second.
    pub(crate) second: Mutex<(u32, Vec<(u64, u64)>)>,
}

/// Counts for one thread.
#[derive(Debug)]
pub(crate) struct Recorder<'p> {
    pub(crate) phases: Vec<PhaseCells>,
    pub(crate) seconds: Vec<SecondCells>,
    second: SecondCells,
    second_latency: Histogram,
    second_ends: u64,
    start: u64,
    live: &'p Live,
}

const SECOND_NS: u64 = 1_000_000_000;

impl<'p> Recorder<'p> {
    pub(crate) fn new(phases: usize, operations: usize, start: u64, live: &'p Live) -> Self {
        let phase = || PhaseCells {
            start: 0,
            end: 0,
            cells: (0..operations).map(|_| Cell::default()).collect(),
            connections: 0,
            connect: Histogram::default(),
            tls: TlsCells::default(),
            websocket: WebSocketCells::default(),
            grpc_error: None,
            gaps: Vec::new(),
            last_response: 0,
        };
        Recorder {
            phases: (0..phases).map(|_| phase()).collect(),
            seconds: Vec::new(),
            second: SecondCells::default(),
            second_latency: Histogram::with_digits(2),
            second_ends: start + SECOND_NS,
            start,
            live,
        }
    }

    /// A request was sent: when it was due, when it was due with a connection free, when the generator began with it, when its first
    /// byte left, and how many bytes it has.
    #[inline]
    pub(crate) fn sent(&mut self, phase: usize, operation: usize, times: &SendTimes, bytes: SentBytes) {
        self.reach(times.sent);
        self.second.sent += 1;
        let cell = &mut self.phases[phase].cells[operation];
        cell.requests += 1;
        cell.sent.all += bytes.all;
        cell.sent.bodies += bytes.bodies;
        if times.paced {
            cell.lag.record(times.sent.saturating_sub(times.due));
            // Where every connection waited for a response, the server decided when the request could be sent.
            if times.possible <= times.due {
                cell.generator_lag.record(times.begun.saturating_sub(times.possible));
            }
        } else if times.making > 0 {
            cell.generator_lag.record(times.making);
        }
    }

    /// A complete response came.
    #[inline]
    pub(crate) fn responses(&mut self, phase: usize, operation: usize, due: u64, expected: bool, response: &Response) {
        self.reach(response.done);
        let latency = response.done.saturating_sub(due);
        self.second.responses += 1;
        self.second.succeeded += u64::from(response.status / 100 == 2);
        self.second.received_bytes += response.bytes;
        self.second_latency.record(latency);
        let phase = &mut self.phases[phase];
        let silence = response.done.saturating_sub(phase.last_response);
        if silence >= GAP_NS && phase.last_response > 0 {
            phase.gaps.push(silence);
        }
        phase.last_response = response.done;
        let cell = &mut phase.cells[operation];
        cell.responses += 1;
        cell.late += u64::from(phase.end > 0 && response.done > phase.end);
        cell.marked += u64::from(response.marked);
        cell.received_bytes += response.bytes;
        cell.latency.record(latency);
        if cell.responses <= SAMPLES as u64 {
            cell.samples.push(latency);
        }
        match cell.statuses.iter_mut().find(|(status, _)| *status == response.status) {
            Some((_, count)) => *count += 1,
            None => cell.statuses.push((response.status, 1)),
        }
        if let Some(stream) = &response.stream {
            cell.events += stream.events;
            cell.arrivals += stream.arrivals;
            if stream.first > 0 {
                cell.first_byte.record(stream.first.saturating_sub(due));
            }
        }
        if !expected {
            cell.failures[Failure::Status as usize] += 1;
            self.second.errors += 1;
        }
    }

    /// The response to a chat call is over.
    pub(crate) fn chat_ended(
        &mut self,
        phase: usize,
        operation: usize,
        due: u64,
        chat: &Chat,
        end: End,
        slo: Option<&Slo>,
    ) {
        let cell = self.phases[phase].cells[operation].chat.get_or_insert_default();
        match end {
            End::ErrorEvent => cell.error_events += 1,
            End::Cut => cell.cut += 1,
            End::Complete => {
                cell.complete += 1;
                cell.output_tokens += chat.output_tokens.unwrap_or(chat.contents);
                cell.uncounted += u64::from(chat.output_tokens.is_none());
                if chat.first > 0 {
                    cell.ttft.record(chat.first.saturating_sub(due));
                }
                chat.gaps.iter().for_each(|gap| cell.inter_token.record(*gap));
                cell.good += u64::from(slo.is_some_and(|slo| is_within(slo, due, chat)));
            }
        }
    }

    /// A stream of gRPC is over.
    pub(crate) fn stream_ended(&mut self, phase: usize, operation: usize, due: u64, stream: &CallStream) {
        let cell = self.phases[phase].cells[operation].streams.get_or_insert_default();
        if stream.is_short {
            cell.short += 1;
            return;
        }
        cell.sent += stream.sent;
        cell.received += stream.received;
        if stream.first > 0 {
            cell.first_message.record(stream.first.saturating_sub(due));
        }
        stream.round_trips.iter().for_each(|took| cell.round_trip.record(*took));
    }

    /// Keeps why a call of gRPC failed, if it is the first.
    pub(crate) fn note_grpc_error(&mut self, phase: usize, reason: String) {
        self.phases[phase].grpc_error.get_or_insert(reason);
    }

    /// A request went wrong without a complete response.
    pub(crate) fn failed(&mut self, phase: usize, operation: usize, failure: Failure, now: u64) {
        self.reach(now);
        self.second.errors += 1;
        self.phases[phase].cells[operation].failures[failure as usize] += 1;
    }

    /// A request was given up before it was sent, `free` if there was a connection for it when it was due.
    pub(crate) fn dropped(&mut self, phase: usize, operation: usize, free: bool, now: u64) {
        self.reach(now);
        self.second.dropped += 1;
        let cell = &mut self.phases[phase].cells[operation];
        cell.dropped += 1;
        cell.dropped_free += u64::from(free);
    }

    /// A connection was opened.
    pub(crate) fn connected(&mut self, phase: usize, took: u64) {
        self.phases[phase].connections += 1;
        self.phases[phase].connect.record(took);
    }

    /// A handshake is complete.
    pub(crate) fn handshaken(&mut self, phase: usize, took: u64, negotiated: &Negotiated) {
        let tls = &mut self.phases[phase].tls;
        *(if negotiated.is_resumed { &mut tls.resumed } else { &mut tls.full }) += 1;
        tls.handshake.record(took);
        tls.count((negotiated.version, negotiated.cipher), 1);
    }

    /// An opening handshake of WebSocket is complete.
    pub(crate) fn upgraded(&mut self, phase: usize, took: u64) {
        let cells = &mut self.phases[phase].websocket;
        cells.handshakes += 1;
        cells.handshake.record(took);
    }

    /// What a connection of WebSocket had beside its messages.
    pub(crate) fn note_websocket(&mut self, phase: usize, notes: Notes) {
        let cells = &mut self.phases[phase].websocket;
        cells.pings += notes.pings;
        if let Some(code) = notes.closed {
            *cells.closes.entry(code).or_default() += 1;
        }
        if cells.first_error.is_none() {
            cells.first_error = notes.problem;
        }
    }

    /// Keeps why a request is about to fail as [`Failure::Tls`], if it is the first.
    pub(crate) fn note_tls_error(&mut self, phase: usize, reason: impl FnOnce() -> String) {
        self.phases[phase].tls.first_error.get_or_insert_with(reason);
    }

    /// Closes the seconds that are over.
    #[inline]
    fn reach(&mut self, now: u64) {
        if now >= self.second_ends {
            self.close_second();
            let at = (now - self.start) / SECOND_NS;
            self.second.at = at as u32;
            self.second_ends = self.start + (at + 1) * SECOND_NS;
        }
    }

    fn close_second(&mut self) {
        let mut second = std::mem::take(&mut self.second);
        if second.sent + second.responses + second.errors + second.dropped > 0 {
            second.latency = self.second_latency.buckets().collect();
            self.second_latency.clear();
            let mut live = self.live.second.lock().unwrap_or_else(PoisonError::into_inner);
            (live.0, live.1) = (second.at, second.latency.clone());
            drop(live);
            self.seconds.push(second);
        }
    }

    /// Counts so far, for the progress bar.
    pub(crate) fn publish(&self) {
        let cells = || self.phases.iter().flat_map(|phase| &phase.cells);
        self.live.responses.store(cells().map(|cell| cell.responses).sum(), Ordering::Relaxed);
        self.live.errors.store(cells().flat_map(|cell| &cell.failures).sum(), Ordering::Relaxed);
        self.live.dropped.store(cells().map(|cell| cell.dropped).sum(), Ordering::Relaxed);
    }

    /// Closes the last second.
    pub(crate) fn finish(&mut self) {
        self.close_second();
    }
}

/// Whether a complete call keeps to an objective. One without content keeps to none that needs it.
fn is_within(slo: &Slo, due: u64, chat: &Chat) -> bool {
    let ttft = chat.first.saturating_sub(due);
    let gap = (chat.last - chat.first) / (chat.gaps.len() as u64).max(1);
    slo.ttft.is_none_or(|most| chat.first > 0 && ttft <= nanoseconds(most))
        && slo.inter_token.is_none_or(|most| chat.first > 0 && gap <= nanoseconds(most))
}

/// When a request was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SendTimes {
    /// When it should have been sent.
    pub(crate) due: u64,
    /// When it was due and a connection was free.
    pub(crate) possible: u64,
    /// When the generator turned to it; of a call of gRPC, when it had made the messages.
    pub(crate) begun: u64,
    /// Of a call of gRPC: how long its messages took to make.
    pub(crate) making: u64,
    /// When its first byte left.
    pub(crate) sent: u64,
    /// Whether a schedule or a think time said when; if not, the only lag is that of messages which are made.
    pub(crate) paced: bool,
}

/// Bytes that were sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SentBytes {
    /// Heads and bodies.
    pub(crate) all: u64,
    /// Bodies alone.
    pub(crate) bodies: u64,
}

/// A complete response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Response {
    /// When its last byte came.
    pub(crate) done: u64,
    pub(crate) status: u16,
    /// Bytes of head and body.
    pub(crate) bytes: u64,
    /// Counted apart.
    pub(crate) marked: bool,
    /// Of an event stream.
    pub(crate) stream: Option<Stream>,
}
