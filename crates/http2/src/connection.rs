//! The connection: frames in, events out (RFC 9113 sections 3 to 6).

mod receive;
mod send;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::budget::{Budget, Kind, Level};
use crate::config::Config;
use crate::error::{Error, ErrorCode, ResetReason};
use crate::flow::{Receive, Send};
use crate::frame;
use crate::hpack::{Decoder, Encoder, SensitiveNames};
use crate::priority::Priority;
use crate::settings::{self, Settings};
use crate::stream::{Stream, Streams};

pub use send::{RequestLine, SendError};

/// Streams that were reset here and whose frames may still be on their way.
const RESETS: usize = 128;
/// Before a peer's SETTINGS arrive a client opens one stream: the limit is not known yet.
const STREAMS_BEFORE_SETTINGS: u32 = 1;

/// What [`Connection::decode`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The input holds no whole frame any more.
    NeedMore,
    /// Nothing more is read until the output is sent ([`Connection::advance`]).
    Flush,
    /// As many heads as one loop iteration may handle; call [`Connection::begin_iteration`] in the next.
    Yield,
    /// A request; `end` if it has no body.
    Request {
        /// Stream.
        stream: u32,
        /// END_STREAM.
        end: bool,
    },
    /// A final response.
    Response {
        /// Stream.
        stream: u32,
        /// END_STREAM.
        end: bool,
    },
    /// An interim response.
    Interim {
        /// Stream.
        stream: u32,
    },
    /// Body bytes at this range of the input; they count against the windows until [`Connection::consume`].
    Data {
        /// Stream.
        stream: u32,
        /// Where they are.
        range: Range<usize>,
        /// END_STREAM.
        end: bool,
    },
    /// Trailers; the stream's last.
    Trailers {
        /// Stream.
        stream: u32,
    },
    /// The stream is over; [`Connection::release`] it when its handler has ended.
    Reset {
        /// Stream.
        stream: u32,
        /// Why.
        reason: ResetReason,
    },
    /// A window grew that a sender waited for: the stream's, or with 0 the connection's or that of many.
    Writable {
        /// Stream or 0.
        stream: u32,
    },
    /// The priority of a stream changed (RFC 9218).
    Priority {
        /// Stream.
        stream: u32,
    },
    /// The peer acknowledged [`Connection::ping`].
    Pong,
    /// The peer's settings changed, among them how many streams may be opened.
    Settings,
    /// The peer takes no new streams; those above `last` come as [`ResetReason::NotProcessed`].
    GoAway {
        /// Last stream that the peer may have processed.
        last: u32,
        /// Why.
        code: ErrorCode,
    },
}

/// A field block that goes on in CONTINUATION frames.
#[derive(Debug)]
struct Block {
    stream: u32,
    end_stream: bool,
    bytes: Vec<u8>,
    continuations: u32,
    started_ms: u64,
}

/// One HTTP/2 connection, either role.
#[derive(Debug)]
pub struct Connection {
    is_server: bool,
    config: Config,
    peer: Settings,
    now_ms: u64,
    started_ms: u64,
    idle_since_ms: Option<u64>,
    preface_read: bool,
    settings_received: u32,
    streams: Streams,
    decoder: Decoder,
    encoder: Encoder,
    out: Vec<u8>,
    sent: usize,
    /// Control frames in the output that the peer provoked.
    control_frames: u32,
    receive: Receive,
    send: Send,
    /// Some sender found the connection's window empty.
    is_blocked: bool,
    is_credit_paused: bool,
    /// Fragments of a block are kept here from block to block.
    block: Option<Block>,
    spare: Vec<u8>,
    budget: Budget,
    last_ping_ms: Option<u64>,
    /// HEADERS or DATA went out since the peer's last PING.
    has_sent_since_ping: bool,
    priority_frames: u64,
    streams_seen: u64,
    data_frames_sent: u64,
    window_updates: u64,
    heads_this_iteration: u32,
    /// Largest stream that the peer opened, and next that this side opens.
    last_peer: u32,
    next_local: u32,
    resets: VecDeque<u32>,
    /// What a single frame causes beyond one event.
    events: VecDeque<Event>,
    /// Last id of the GOAWAY that was sent.
    going_away: Option<u32>,
    peer_going_away: Option<u32>,
    error: Option<Error>,
}

impl Connection {
    /// The server's side; the clock is in milliseconds from any start.
    pub fn server(config: Config, now_ms: u64) -> Self {
        Connection::new(true, config, now_ms)
    }

    /// The client's side; its preface is in the output at once.
    pub fn client(config: Config, now_ms: u64) -> Self {
        Connection::new(false, config, now_ms)
    }

    /// Fields that are never indexed where they are sent (RFC 7541 section 7.1.3), in place of the common ones.
    pub fn set_sensitive(&mut self, names: Arc<SensitiveNames>) {
        self.encoder.set_sensitive(names);
    }

    fn new(is_server: bool, config: Config, now_ms: u64) -> Self {
        let mut connection = Connection {
            is_server,
            config,
            peer: Settings::default(),
            now_ms,
            started_ms: now_ms,
            idle_since_ms: Some(now_ms),
            preface_read: !is_server,
            settings_received: 0,
            streams: Streams::default(),
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            out: Vec::new(),
            sent: 0,
            control_frames: 0,
            receive: Receive::new(config.connection_window.max(65_535)),
            send: Send::new(65_535),
            is_blocked: false,
            is_credit_paused: false,
            block: None,
            spare: Vec::new(),
            budget: Budget::new(now_ms),
            last_ping_ms: None,
            has_sent_since_ping: false,
            priority_frames: 0,
            streams_seen: 0,
            data_frames_sent: 0,
            window_updates: 0,
            heads_this_iteration: 0,
            last_peer: 0,
            next_local: if is_server { 2 } else { 1 },
            resets: VecDeque::new(),
            events: VecDeque::new(),
            going_away: None,
            peer_going_away: None,
            error: None,
        };
        connection.write_preface();
        connection
    }

    fn write_preface(&mut self) {
        if !self.is_server {
            self.out.extend_from_slice(frame::PREFACE);
        }
        let mut list = [(0, 0); 5];
        let mut count = 0;
        let mut add = |id: u16, value: u32| {
            list[count] = (id, value);
            count += 1;
        };
        if self.is_server {
            add(settings::MAX_CONCURRENT_STREAMS, self.config.max_concurrent_streams);
            add(settings::NO_RFC7540_PRIORITIES, 1);
            if self.config.extended_connect {
                add(settings::ENABLE_CONNECT_PROTOCOL, 1);
            }
        } else {
            add(settings::ENABLE_PUSH, 0);
        }
        add(settings::INITIAL_WINDOW_SIZE, self.config.stream_window);
        add(settings::MAX_HEADER_LIST_SIZE, self.config.section.min(u32::MAX as usize) as u32);
        self.out.extend_from_slice(&frame::header(count * 6, frame::SETTINGS, 0, 0));
        for (id, value) in &list[..count] {
            self.out.extend_from_slice(&id.to_be_bytes());
            self.out.extend_from_slice(&value.to_be_bytes());
        }
        if let Some(more) = self.config.connection_window.checked_sub(65_535).filter(|&more| more > 0) {
            self.write_window_update(0, more);
        }
    }

    /// Bytes to send.
    #[inline]
    pub fn output(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// Bytes of [`Connection::output`] were sent.
    pub fn advance(&mut self, bytes: usize) {
        self.sent = (self.sent + bytes).min(self.out.len());
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
            self.control_frames = 0;
        }
    }

    /// A new turn of the task: request heads are counted anew.
    pub fn begin_iteration(&mut self) {
        self.heads_this_iteration = 0;
    }

    /// The peer's body bytes were taken by whoever needs them: gives credit back.
    pub fn consume(&mut self, stream: u32, bytes: usize) {
        let Some(entry) = self.streams.find(stream) else { return };
        let taken = entry.receive.consume(bytes);
        if !self.config.credits_connection_at_once {
            self.receive.consume(taken);
        }
        self.give_credit(stream);
    }

    /// While paused no credit is given on any stream: the worker holds too many bytes. Where the connection's credit is given at once, those streams get
    /// it of which nothing is held.
    pub fn pause_credit(&mut self, is_paused: bool) {
        self.is_credit_paused = is_paused;
        if !is_paused {
            let mut updates = Vec::new();
            for entry in self.streams.iter_mut().filter(|entry| !entry.receive_ended) {
                updates.extend(entry.receive.take_update().map(|more| (entry.id, more)));
            }
            for (stream, more) in updates {
                self.write_window_update(stream, more);
            }
            self.give_credit(0);
        }
    }

    fn give_credit(&mut self, stream: u32) {
        let is_paused = self.is_credit_paused;
        if is_paused && !self.config.credits_connection_at_once {
            return;
        }
        let may_have = |entry: &&mut Stream| !entry.receive_ended && (!is_paused || entry.receive.held() == 0);
        let live = self.streams.find(stream).filter(may_have);
        if let Some(more) = live.and_then(|entry| entry.receive.take_update()) {
            self.write_window_update(stream, more);
        }
        if let Some(more) = self.receive.take_update() {
            self.write_window_update(0, more);
        }
    }

    fn write_window_update(&mut self, stream: u32, more: u32) {
        self.out.extend_from_slice(&frame::header(4, frame::WINDOW_UPDATE, 0, stream));
        self.out.extend_from_slice(&more.to_be_bytes());
    }

    /// The handler of a stream has ended. A stream that is not over is reset: NO_ERROR if only the rest of a request is missing whose
    /// response is complete (section 8.1), else CANCEL. Only now does the stream leave the count of those in progress.
    pub fn release(&mut self, stream: u32) {
        let Some(entry) = self.streams.find(stream) else { return };
        let is_over = entry.is_reset || entry.receive_ended && entry.send_ended;
        if !is_over {
            let code = if entry.send_ended && self.is_server { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL };
            self.reset(stream, code);
        }
        if let Some(entry) = self.streams.remove(stream) {
            if !self.config.credits_connection_at_once {
                self.receive.consume(entry.receive.held());
            }
            self.give_credit(0);
        }
        if self.streams.len() == 0 {
            self.idle_since_ms = Some(self.now_ms);
        }
    }

    /// Resets a stream for a reason of this side; it still has to be [released](Connection::release).
    pub fn reset(&mut self, stream: u32, code: ErrorCode) {
        let Some(entry) = self.streams.find(stream) else { return };
        if entry.is_reset {
            return;
        }
        entry.is_reset = true;
        entry.receive_ended = true;
        entry.send_ended = true;
        self.write_reset(stream, code);
    }

    /// Frames of this stream may still come and mean nothing.
    fn ignore(&mut self, stream: u32) {
        if self.resets.len() == RESETS {
            self.resets.pop_front();
        }
        self.resets.push_back(stream);
    }

    fn write_reset(&mut self, stream: u32, code: ErrorCode) {
        self.ignore(stream);
        self.out.extend_from_slice(&frame::header(4, frame::RST_STREAM, 0, stream));
        self.out.extend_from_slice(&code.0.to_be_bytes());
    }

    /// Starts a graceful end: GOAWAY(2^31-1) and a PING; when [`Event::Pong`] comes (or a second later) call
    /// [`Connection::finish_drain`].
    pub fn drain(&mut self) {
        if self.going_away.is_none() {
            self.write_goaway(0x7fff_ffff, ErrorCode::NO_ERROR);
            self.going_away = Some(0x7fff_ffff);
            self.ping();
        }
    }

    /// GOAWAY with the last stream that was accepted: no new one is.
    pub fn finish_drain(&mut self) {
        if self.going_away.is_none_or(|last| last == 0x7fff_ffff) {
            self.write_goaway(self.last_peer, ErrorCode::NO_ERROR);
            self.going_away = Some(self.last_peer);
        }
    }

    /// Whether a graceful end has begun, for whatever reason, and waits for [`Connection::finish_drain`].
    pub fn is_draining(&self) -> bool {
        self.going_away == Some(0x7fff_ffff)
    }

    /// Gives memory back that an idle connection has no use for.
    pub fn shrink(&mut self) {
        if self.out.is_empty() {
            self.out = Vec::new();
        }
        self.spare = Vec::new();
    }

    fn write_goaway(&mut self, last: u32, code: ErrorCode) {
        self.out.extend_from_slice(&frame::header(8, frame::GOAWAY, 0, 0));
        self.out.extend_from_slice(&last.to_be_bytes());
        self.out.extend_from_slice(&code.0.to_be_bytes());
    }

    /// Sends a PING.
    pub fn ping(&mut self) {
        self.out.extend_from_slice(&frame::header(8, frame::PING, 0, 0));
        self.out.extend_from_slice(b"weirping");
    }

    /// When [`Connection::handle_time`] has something to do.
    pub fn deadline_ms(&self) -> Option<u64> {
        let head = self.block.as_ref().map(|block| block.started_ms + self.config.head_timeout_ms);
        let start = (self.settings_received == 0).then_some(self.started_ms + self.config.head_timeout_ms);
        let idle = self.idle_since_ms.filter(|_| self.going_away.is_none()).map(|at| at + self.config.idle_timeout_ms);
        [head, start, idle].into_iter().flatten().min()
    }

    /// The clock moved on.
    ///
    /// # Errors
    /// The preface, SETTINGS or a field block took too long.
    pub fn handle_time(&mut self, now_ms: u64) -> Result<(), Error> {
        self.now_ms = now_ms;
        let is_over = |from: u64, limit: u64| now_ms.saturating_sub(from) >= limit;
        let limit = self.config.head_timeout_ms;
        if self.settings_received == 0 && is_over(self.started_ms, limit) {
            return self.fail(ErrorCode::SETTINGS_TIMEOUT, "no preface and SETTINGS before the deadline (3.4)");
        }
        if self.block.as_ref().is_some_and(|block| is_over(block.started_ms, limit)) {
            return self.fail(ErrorCode::ENHANCE_YOUR_CALM, "no END_HEADERS before the deadline (10.5)");
        }
        if self.idle_since_ms.is_some_and(|at| is_over(at, self.config.idle_timeout_ms)) {
            self.drain();
        }
        Ok(())
    }

    /// Ends the connection with a GOAWAY.
    fn fail<T>(&mut self, code: ErrorCode, reason: &'static str) -> Result<T, Error> {
        let error = Error { code, reason };
        if self.error.is_none() {
            self.error = Some(error);
            self.write_goaway(self.last_peer, code);
        }
        Err(error)
    }

    fn spend(&mut self, kind: Kind) -> Result<(), Error> {
        match self.budget.spend(kind, self.now_ms) {
            Level::Good => {}
            Level::Low => self.drain(),
            Level::Exhausted => return self.fail(ErrorCode::ENHANCE_YOUR_CALM, "abuse budget exhausted (10.5)"),
        }
        Ok(())
    }

    /// Points of the abuse budget, and what was paid.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Streams that are not released, whoever opened them.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Priority of a stream.
    pub fn priority(&self, stream: u32) -> Priority {
        self.streams.get(stream).map(|entry| entry.priority).unwrap_or_default()
    }

    /// Whether the connection can close: a GOAWAY went either way and no stream is left.
    pub fn is_finished(&self) -> bool {
        let is_ending = self.going_away.is_some_and(|last| last <= self.last_peer) || self.peer_going_away.is_some();
        self.error.is_some() || is_ending && self.streams.len() == 0
    }

    /// The peer's SETTINGS have come: until then it is not known what it offers.
    pub fn has_peer_settings(&self) -> bool {
        self.settings_received > 0
    }

    /// The peer offers extended CONNECT (RFC 8441).
    pub fn peer_offers_extended_connect(&self) -> bool {
        self.peer.enable_connect_protocol
    }

    /// Streams that may be opened now.
    pub fn available_streams(&self) -> u32 {
        if self.error.is_some() || self.peer_going_away.is_some() || self.going_away.is_some() {
            return 0;
        }
        let limit = if self.settings_received == 0 {
            STREAMS_BEFORE_SETTINGS
        } else {
            self.peer.max_concurrent_streams.min(self.config.max_concurrent_streams)
        };
        let left = (0x7fff_ffff_u32.saturating_sub(self.next_local)) / 2;
        limit.saturating_sub(self.streams.len() as u32).min(left)
    }

    fn insert(&mut self, id: u32) -> &mut Stream {
        self.streams_seen += 1;
        self.idle_since_ms = None;
        let (receive, send) = (Receive::new(self.config.stream_window), Send::new(self.peer.initial_window_size));
        self.streams.insert(Stream::new(id, receive, send))
    }
}
