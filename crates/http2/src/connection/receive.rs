//! What the peer sends.

use message::Fields;

use super::{Block, Connection, Event};
use crate::budget::Kind;
use crate::error::{Error, ErrorCode, Malformed, ResetReason};
use crate::frame::{self, HEADER, Header, MAX_PAYLOAD, PREFACE};
use crate::priority::Priority;
use crate::section::{Head, Role, Section};

/// Interim responses of one exchange.
const INTERIM: u8 = 16;
/// Sections above the limit by this factor end the connection.
const FAR_TOO_LARGE: usize = 4;

type FrameResult = Result<Option<Event>, Error>;

impl Connection {
    /// Reads frames from `input`, the bytes that were not consumed yet, up to the first that means something to the caller. Returns how
    /// many bytes are consumed with the event; heads go to `head`.
    ///
    /// # Errors
    /// The rule that the peer broke; the GOAWAY is in the output. The same again whenever called.
    pub fn decode(&mut self, input: &[u8], head: &mut Head, now_ms: u64) -> Result<(usize, Event), Error> {
        self.now_ms = now_ms;
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut at = 0;
        if !self.preface_read {
            let length = input.len().min(PREFACE.len());
            if input.get(..length) != PREFACE.get(..length) {
                return self.fail(ErrorCode::PROTOCOL_ERROR, "no connection preface (3.4)");
            }
            if length < PREFACE.len() {
                return Ok((0, Event::NeedMore));
            }
            self.preface_read = true;
            at = length;
        }
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok((at, event));
            }
            if self.control_frames >= self.config.unsent_control_frames {
                return Ok((at, Event::Flush));
            }
            if self.heads_this_iteration >= self.config.heads_per_iteration {
                return Ok((at, Event::Yield));
            }
            let rest = input.get(at..).unwrap_or_default();
            let Some(header) = Header::read(rest) else { return Ok((at, Event::NeedMore)) };
            if header.length > MAX_PAYLOAD {
                return self.fail(ErrorCode::FRAME_SIZE_ERROR, "frame above SETTINGS_MAX_FRAME_SIZE (4.2)");
            }
            let Some(payload) = rest.get(HEADER..HEADER + header.length) else { return Ok((at, Event::NeedMore)) };
            let start = at + HEADER;
            at = start + header.length;
            if let Some(event) = self.frame(&header, payload, start, head)? {
                return Ok((at, event));
            }
        }
    }

    fn frame(&mut self, header: &Header, payload: &[u8], start: usize, head: &mut Head) -> FrameResult {
        if self.settings_received == 0 && (header.kind != frame::SETTINGS || header.has(frame::ACK)) {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "the first frame is not SETTINGS (3.4)");
        }
        let is_outside = |block: &Block| header.kind != frame::CONTINUATION || header.stream != block.stream;
        if self.block.as_ref().is_some_and(is_outside) {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "a frame within a field block (6.10)");
        }
        let needs_stream = matches!(
            header.kind,
            frame::DATA
                | frame::HEADERS
                | frame::PRIORITY
                | frame::RST_STREAM
                | frame::CONTINUATION
                | frame::PUSH_PROMISE
        );
        let needs_none = matches!(header.kind, frame::SETTINGS | frame::PING | frame::GOAWAY | frame::PRIORITY_UPDATE);
        if needs_stream && header.stream == 0 || needs_none && header.stream != 0 {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "wrong stream identifier for the frame (6)");
        }
        match header.kind {
            frame::DATA => self.data(header, payload, start),
            frame::HEADERS => self.headers(header, payload, head),
            frame::CONTINUATION => self.continuation(header, payload, head),
            frame::PRIORITY => self.priority_frame(header, payload),
            frame::RST_STREAM => self.reset_frame(header, payload),
            frame::SETTINGS => self.settings_frame(header, payload),
            frame::PUSH_PROMISE => self.fail(ErrorCode::PROTOCOL_ERROR, "PUSH_PROMISE without being enabled (6.6)"),
            frame::PING => self.ping_frame(header, payload),
            frame::GOAWAY => self.goaway_frame(payload),
            frame::WINDOW_UPDATE => self.window_update(header, payload),
            frame::PRIORITY_UPDATE => self.priority_update(payload),
            _ => self.spend(Kind::UnknownFrame).map(|()| None),
        }
    }

    /// Whether a stream was never opened.
    fn is_idle(&self, stream: u32) -> bool {
        let is_peers = (stream % 2 == 1) == self.is_server;
        if is_peers { stream > self.last_peer } else { stream >= self.next_local }
    }

    /// A frame for a stream that is not open: nothing if it was reset here and the peer could not know, else an error (section 5.1).
    fn check_closed(&mut self, stream: u32) -> Result<(), Error> {
        if self.is_idle(stream) {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "a frame on an idle stream (5.1)");
        }
        if !self.resets.contains(&stream) {
            return self.fail(ErrorCode::STREAM_CLOSED, "a frame on a closed stream (5.1)");
        }
        Ok(())
    }

    /// A stream error: RST_STREAM, and the stream ends. The peer pays.
    fn stream_error(&mut self, stream: u32, code: ErrorCode, reason: ResetReason) -> FrameResult {
        self.spend(Kind::ForcedReset)?;
        self.control_frames += 1;
        self.reset(stream, code);
        Ok(Some(Event::Reset { stream, reason }))
    }

    /// A malformed message: 400 where no response began, then RST_STREAM (section 8.1.1).
    fn malformed(&mut self, stream: u32, rule: Malformed) -> FrameResult {
        let is_unanswered = self.streams.find(stream).is_some_and(|entry| !entry.head_sent && !entry.send_ended);
        if self.is_server && is_unanswered {
            self.write_refusal(stream, if rule == Malformed::Connect { 501 } else { 400 });
        }
        self.stream_error(stream, ErrorCode::PROTOCOL_ERROR, ResetReason::Malformed(rule))
    }

    fn data(&mut self, header: &Header, payload: &[u8], start: usize) -> FrameResult {
        let stream = header.stream;
        let Some((from, to)) = frame::unpad(payload, header) else {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "padding longer than the payload (6.1)");
        };
        if !self.receive.receive(payload.len()) {
            return self.fail(ErrorCode::FLOW_CONTROL_ERROR, "DATA beyond the connection's window (6.9.1)");
        }
        let end = header.has(frame::END_STREAM);
        let is_server = self.is_server;
        let Some(entry) = self.streams.find(stream) else {
            self.receive.consume(payload.len());
            self.give_credit(0);
            return self.check_closed(stream).map(|()| None);
        };
        if entry.receive_ended {
            self.receive.consume(payload.len());
            self.give_credit(0);
            return self.check_closed(stream).map(|()| None);
        }
        if !entry.head_received {
            if !is_server {
                self.receive.consume(payload.len());
                return self.malformed(stream, Malformed::PseudoField);
            }
            return self.fail(ErrorCode::PROTOCOL_ERROR, "DATA before HEADERS (8.1)");
        }
        if !entry.receive.receive(payload.len()) {
            self.receive.consume(payload.len());
            let code = ErrorCode::FLOW_CONTROL_ERROR;
            return self.stream_error(stream, code, ResetReason::Frame(code));
        }
        let length = to - from;
        let overhead = payload.len() - length;
        let at_once = self.config.credits_connection_at_once;
        entry.receive.consume(overhead);
        self.receive.consume(if at_once { payload.len() } else { overhead });
        if let Some(remaining) = &mut entry.remaining {
            match remaining.checked_sub(length as u64) {
                Some(left) if !end || left == 0 => *remaining = left,
                _ => return self.malformed(stream, Malformed::ContentLength),
            }
        }
        entry.receive_ended = end;
        // Also because what is held now may leave the peer nothing but what was not worth a frame before.
        self.give_credit(stream);
        if length == 0 && !end {
            return self.spend(Kind::EmptyData).map(|()| None);
        }
        Ok(Some(Event::Data { stream, range: start + from..start + to, end }))
    }

    fn headers(&mut self, header: &Header, payload: &[u8], head: &mut Head) -> FrameResult {
        let stream = header.stream;
        let Some((mut from, to)) = frame::unpad(payload, header) else {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "padding longer than the payload (6.2)");
        };
        let mut depends_on_itself = false;
        if header.has(frame::PRIORITY_FLAG) {
            let Some(on) = payload.get(from..to).filter(|fields| fields.len() >= 5).and_then(frame::number) else {
                return self.fail(ErrorCode::FRAME_SIZE_ERROR, "HEADERS too short for its priority (6.2)");
            };
            depends_on_itself = on & 0x7fff_ffff == stream;
            from += 5;
        }
        let is_peers = (stream % 2 == 1) == self.is_server;
        if is_peers && !self.is_server || !is_peers && self.is_server {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "a stream identifier of the wrong side (5.1.1)");
        }
        if self.is_idle(stream) {
            if !self.is_server {
                return self.fail(ErrorCode::PROTOCOL_ERROR, "HEADERS on an idle stream (5.1)");
            }
            self.open(stream)?;
        } else if self.streams.find(stream).is_none_or(|entry| entry.receive_ended) {
            self.check_closed(stream)?;
        }
        let fragment = payload.get(from..to).unwrap_or_default();
        let end_stream = header.has(frame::END_STREAM);
        if !header.has(frame::END_HEADERS) {
            let mut bytes = std::mem::take(&mut self.spare);
            bytes.clear();
            bytes.extend_from_slice(fragment);
            self.block = Some(Block { stream, end_stream, bytes, continuations: 0, started_ms: self.now_ms });
            return if depends_on_itself { self.malformed(stream, Malformed::Priority) } else { Ok(None) };
        }
        let found = self.section(stream, end_stream, fragment, head)?;
        if depends_on_itself {
            return self.malformed(stream, Malformed::Priority);
        }
        Ok(found)
    }

    /// The client opens a stream; above the limits it is refused, and its section only decoded.
    fn open(&mut self, stream: u32) -> Result<(), Error> {
        self.last_peer = stream;
        if self.going_away.is_some_and(|last| stream > last) {
            self.ignore(stream);
            return Ok(());
        }
        if self.streams.len() >= self.config.max_concurrent_streams as usize {
            self.control_frames += 1;
            self.write_reset(stream, ErrorCode::REFUSED_STREAM);
            return self.spend(Kind::Refused);
        }
        self.insert(stream);
        if self.streams_seen >= u64::from(self.config.max_streams) {
            self.drain();
        }
        Ok(())
    }

    fn continuation(&mut self, header: &Header, payload: &[u8], head: &mut Head) -> FrameResult {
        let Some(mut block) = self.block.take() else {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "CONTINUATION without HEADERS (6.10)");
        };
        block.continuations += 1;
        block.bytes.extend_from_slice(payload);
        if block.continuations > self.config.continuations {
            return self.fail(ErrorCode::ENHANCE_YOUR_CALM, "too many CONTINUATION frames (10.5)");
        }
        if block.bytes.len() > self.config.block.saturating_mul(FAR_TOO_LARGE) {
            return self.fail(ErrorCode::ENHANCE_YOUR_CALM, "field block far too large (10.5.1)");
        }
        if !header.has(frame::END_HEADERS) {
            self.block = Some(block);
            return Ok(None);
        }
        let found = self.section(block.stream, block.end_stream, &block.bytes, head);
        self.spare = block.bytes;
        self.spare.shrink_to(MAX_PAYLOAD);
        found
    }

    /// A whole field block: always decoded, for the table's sake.
    fn section(&mut self, stream: u32, end_stream: bool, block: &[u8], head: &mut Head) -> FrameResult {
        let entry = self.streams.find(stream).filter(|entry| !entry.receive_ended).cloned();
        let (role, fields) = match &entry {
            None => (Role::Discarded, Fields::default()),
            Some(entry) if entry.head_received => (Role::Trailers, std::mem::take(&mut head.trailers)),
            Some(_) if self.is_server => (Role::Request, std::mem::take(&mut head.request.fields)),
            Some(_) => (Role::Response, std::mem::take(&mut head.response.fields)),
        };
        let mut section = Section::new(&mut head.text, fields, role, &self.config);
        if self.decoder.decode(block, &mut section).is_err() {
            return self.fail(ErrorCode::COMPRESSION_ERROR, "invalid field block (RFC 7541)");
        }
        if section.size() > self.config.section.saturating_mul(FAR_TOO_LARGE) {
            return self.fail(ErrorCode::ENHANCE_YOUR_CALM, "field section far too large (10.5.1)");
        }
        let Some(entry) = entry else { return Ok(None) };
        if role == Role::Request {
            self.heads_this_iteration += 1;
        }
        if section.is_too_large || block.len() > self.config.block {
            if role == Role::Request {
                self.write_refusal(stream, 431);
            }
            self.reset(stream, ErrorCode::NO_ERROR);
            return Ok(Some(Event::Reset { stream, reason: ResetReason::TooLarge }));
        }
        let (result, event) = match role {
            Role::Request => {
                let extended = self.config.extended_connect;
                let result = section.into_request(&mut head.request, end_stream, extended);
                (result, Event::Request { stream, end: end_stream })
            }
            Role::Response => {
                let result = section.into_response(&mut head.response, end_stream, &entry);
                let is_interim = head.response.is_interim();
                if !is_interim && result.is_ok() && head.response.status < 400 {
                    self.budget.refund();
                }
                let event =
                    if is_interim { Event::Interim { stream } } else { Event::Response { stream, end: end_stream } };
                (result.map(|length| (length, Priority::default())), event)
            }
            Role::Trailers | Role::Discarded => {
                let (fields, result) = section.into_trailers();
                head.trailers = fields;
                let is_short = entry.remaining.is_some_and(|remaining| remaining > 0);
                let result = match result {
                    Ok(()) if entry.is_connect => Err(Malformed::Trailers),
                    Ok(()) if !end_stream => Err(Malformed::Trailers),
                    Ok(()) if is_short => Err(Malformed::ContentLength),
                    other => other,
                };
                (result.map(|()| (entry.remaining, entry.priority)), Event::Trailers { stream })
            }
        };
        let (remaining, priority) = match result {
            Ok(facts) => facts,
            Err(rule) => return self.malformed(stream, rule),
        };
        let is_interim = matches!(event, Event::Interim { .. });
        let Some(entry) = self.streams.find(stream) else { return Ok(None) };
        if is_interim {
            entry.interim += 1;
            if entry.interim > INTERIM {
                return self.malformed(stream, Malformed::Interim);
            }
        } else {
            entry.head_received = true;
            entry.is_connect = match role {
                Role::Request => head.request.connect_protocol.is_some(),
                _ => entry.is_connect && (200..300).contains(&head.response.status),
            };
            entry.remaining = remaining;
            entry.priority = priority;
            entry.receive_ended = end_stream;
        }
        Ok(Some(event))
    }

    fn priority_frame(&mut self, header: &Header, payload: &[u8]) -> FrameResult {
        let stream = header.stream;
        self.priority_frames += 1;
        if self.priority_frames > 100 + self.streams_seen {
            self.spend(Kind::Priority)?;
        }
        let Some(on) = frame::number(payload).filter(|_| payload.len() == 5) else {
            return self.fail(ErrorCode::FRAME_SIZE_ERROR, "PRIORITY is not of 5 bytes (6.3)");
        };
        if on & 0x7fff_ffff != stream {
            return Ok(None);
        }
        if self.streams.find(stream).is_none() {
            // An idle stream cannot be reset (section 6.4).
            return self.fail(ErrorCode::PROTOCOL_ERROR, "a stream that depends on itself (RFC 7540, 5.3.1)");
        }
        self.malformed(stream, Malformed::Priority)
    }

    fn priority_update(&mut self, payload: &[u8]) -> FrameResult {
        let Some(stream) = frame::number(payload).map(|stream| stream & 0x7fff_ffff) else {
            return self.fail(ErrorCode::FRAME_SIZE_ERROR, "PRIORITY_UPDATE too short (RFC 9218, 7.1)");
        };
        if !self.is_server || stream == 0 {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "PRIORITY_UPDATE for no request (RFC 9218, 7.1)");
        }
        self.priority_frames += 1;
        if self.priority_frames > 100 + self.streams_seen {
            self.spend(Kind::Priority)?;
        }
        let Some(entry) = self.streams.find(stream) else { return Ok(None) };
        entry.priority = Priority::parse(payload.get(4..).unwrap_or_default());
        Ok(Some(Event::Priority { stream }))
    }

    fn reset_frame(&mut self, header: &Header, payload: &[u8]) -> FrameResult {
        let stream = header.stream;
        let Some(code) = frame::number(payload).filter(|_| payload.len() == 4) else {
            return self.fail(ErrorCode::FRAME_SIZE_ERROR, "RST_STREAM is not of 4 bytes (6.4)");
        };
        if self.is_idle(stream) {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "RST_STREAM on an idle stream (6.4)");
        }
        let Some(entry) = self.streams.find(stream).filter(|entry| !entry.is_reset) else { return Ok(None) };
        let is_early = !entry.head_sent;
        entry.is_reset = true;
        entry.receive_ended = true;
        entry.send_ended = true;
        if self.is_server && is_early {
            self.spend(Kind::ClientReset)?;
        }
        let code = ErrorCode(code);
        let is_refused = !self.is_server && code == ErrorCode::REFUSED_STREAM;
        let reason = if is_refused { ResetReason::NotProcessed } else { ResetReason::Peer(code) };
        Ok(Some(Event::Reset { stream, reason }))
    }

    fn settings_frame(&mut self, header: &Header, payload: &[u8]) -> FrameResult {
        if header.has(frame::ACK) {
            if !payload.is_empty() {
                return self.fail(ErrorCode::FRAME_SIZE_ERROR, "SETTINGS acknowledgement with a payload (6.5)");
            }
            return Ok(None);
        }
        let (parameters, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return self.fail(ErrorCode::FRAME_SIZE_ERROR, "SETTINGS is not of whole parameters (6.5)");
        }
        self.settings_received = self.settings_received.saturating_add(1);
        if self.settings_received > 2 {
            self.spend(Kind::Settings)?;
        }
        let before = self.peer.initial_window_size;
        for &[i0, i1, v0, v1, v2, v3] in parameters {
            let (id, value) = (u16::from_be_bytes([i0, i1]), u32::from_be_bytes([v0, v1, v2, v3]));
            if let Err(error) = self.peer.apply(id, value, !self.is_server) {
                return self.fail(error.code, error.reason);
            }
            if id == crate::settings::HEADER_TABLE_SIZE {
                self.encoder.set_max_size(value as usize);
            }
        }
        let change = i64::from(self.peer.initial_window_size) - i64::from(before);
        let mut is_good = true;
        if change != 0 {
            for entry in self.streams.iter_mut() {
                is_good &= entry.send.grow(change);
                entry.is_blocked &= change <= 0;
            }
        }
        if !is_good {
            return self.fail(ErrorCode::FLOW_CONTROL_ERROR, "a window above 2^31-1 by SETTINGS (6.9.2)");
        }
        self.control_frames += 1;
        self.out.extend_from_slice(&frame::header(0, frame::SETTINGS, frame::ACK, 0));
        if change > 0 {
            self.events.push_back(Event::Writable { stream: 0 });
        }
        Ok(Some(Event::Settings))
    }

    fn ping_frame(&mut self, header: &Header, payload: &[u8]) -> FrameResult {
        if payload.len() != 8 {
            return self.fail(ErrorCode::FRAME_SIZE_ERROR, "PING is not of 8 bytes (6.7)");
        }
        if header.has(frame::ACK) {
            return Ok(Some(Event::Pong));
        }
        // gRPC peers measure the path with a PING for each piece of a stream that comes: those follow what was sent here.
        let is_measuring = std::mem::take(&mut self.has_sent_since_ping);
        if !is_measuring && self.last_ping_ms.is_some_and(|last| self.now_ms.saturating_sub(last) < 1000) {
            self.spend(Kind::Ping)?;
        }
        self.last_ping_ms = Some(self.now_ms);
        self.control_frames += 1;
        self.out.extend_from_slice(&frame::header(8, frame::PING, frame::ACK, 0));
        self.out.extend_from_slice(payload);
        Ok(None)
    }

    fn goaway_frame(&mut self, payload: &[u8]) -> FrameResult {
        let (Some(last), Some(code)) = (frame::number(payload), payload.get(4..).and_then(frame::number)) else {
            return self.fail(ErrorCode::FRAME_SIZE_ERROR, "GOAWAY too short (6.8)");
        };
        let (last, code) = (last & 0x7fff_ffff, ErrorCode(code));
        if self.peer_going_away.is_some_and(|before| last > before) {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "GOAWAY with a larger stream than before (6.8)");
        }
        self.peer_going_away = Some(last);
        if !self.is_server {
            for entry in self.streams.iter_mut().filter(|entry| entry.id > last && !entry.is_reset) {
                entry.is_reset = true;
                entry.receive_ended = true;
                entry.send_ended = true;
                self.events.push_back(Event::Reset { stream: entry.id, reason: ResetReason::NotProcessed });
            }
        }
        Ok(Some(Event::GoAway { last, code }))
    }

    fn window_update(&mut self, header: &Header, payload: &[u8]) -> FrameResult {
        let stream = header.stream;
        let Some(more) = frame::number(payload).filter(|_| payload.len() == 4).map(|more| more & 0x7fff_ffff) else {
            return self.fail(ErrorCode::FRAME_SIZE_ERROR, "WINDOW_UPDATE is not of 4 bytes (6.9)");
        };
        self.window_updates += 1;
        if self.window_updates > 10 * (self.data_frames_sent + 10) {
            self.spend(Kind::WindowUpdate)?;
        }
        if stream == 0 {
            if more == 0 {
                return self.fail(ErrorCode::PROTOCOL_ERROR, "WINDOW_UPDATE by zero (6.9)");
            }
            if !self.send.grow(i64::from(more)) {
                return self.fail(ErrorCode::FLOW_CONTROL_ERROR, "the connection's window above 2^31-1 (6.9.1)");
            }
            return Ok(std::mem::take(&mut self.is_blocked).then_some(Event::Writable { stream: 0 }));
        }
        if self.is_idle(stream) {
            return self.fail(ErrorCode::PROTOCOL_ERROR, "WINDOW_UPDATE on an idle stream (5.1)");
        }
        let Some(entry) = self.streams.find(stream).filter(|entry| !entry.is_reset) else { return Ok(None) };
        if more == 0 {
            let code = ErrorCode::PROTOCOL_ERROR;
            return self.stream_error(stream, code, ResetReason::Frame(code));
        }
        if !entry.send.grow(i64::from(more)) {
            let code = ErrorCode::FLOW_CONTROL_ERROR;
            return self.stream_error(stream, code, ResetReason::Frame(code));
        }
        // A window below zero (6.9.2) may need more than one update.
        let is_writable = entry.is_blocked && entry.send.available() > 0;
        entry.is_blocked &= !is_writable;
        Ok(is_writable.then_some(Event::Writable { stream }))
    }
}
