//! A connection that is upgraded to WebSocket: its handshake, then a message at a time and what the server sends meanwhile.

use h1::{Limits, ResponseHead};

use super::{Connection, Progress, Socket};
use crate::load::engine::clock;
use crate::load::engine::recorder::SentBytes;
use crate::load::engine::websocket::offered;
use crate::load::prepare::Operation;
use crate::load::websocket::Messages;
use crate::websocket::{ABNORMAL, Decoder, Event, Kind, NO_CODE, NORMAL, Opcode, Side, handshake, write, write_close};

/// What a connection is beyond one of HTTP.
#[derive(Debug)]
pub(super) struct Session {
    decoder: Decoder,
    key: String,
    /// The subprotocols of the upgrade.
    offered: Option<String>,
    /// When the handshake began; 0 when it is complete.
    upgrading_since: u64,
    kind: Kind,
    /// The message whose echo is awaited.
    message: Vec<u8>,
    awaits: bool,
    /// Messages that were sent.
    messages: u64,
    /// Bytes of the upgrade, which are counted with the first message.
    upgrade_bytes: u64,
    /// The code with which the server has closed.
    closed: Option<u16>,
    notes: Notes,
}

/// What is to be recorded of a connection beside its messages.
#[derive(Debug, Default)]
pub(in crate::load::engine) struct Notes {
    /// Pings of the server.
    pub(in crate::load::engine) pings: u64,
    /// The code with which the server closed while a message was awaited.
    pub(in crate::load::engine) closed: Option<u16>,
    /// A refused handshake, or bytes that must not come.
    pub(in crate::load::engine) problem: Option<String>,
}

/// The masking key of a frame (RFC 6455, section 5.3).
fn mask() -> Option<[u8; 4]> {
    Some(fastrand::u32(..).to_ne_bytes())
}

impl Connection {
    pub(in super::super) fn is_websocket(&self) -> bool {
        self.session.is_some()
    }

    /// Takes up the handshake.
    pub(in super::super) fn begin_upgrade(&mut self, messages: &Messages, write: impl FnOnce(&mut Vec<u8>) -> u64) {
        self.active = true;
        self.status = 0;
        self.received = 0;
        self.body = None;
        self.partial.clear();
        self.scanner.reset();
        self.own.clear();
        self.written = 0;
        self.writing = true;
        write(&mut self.own);
        let key = handshake::key(&mut fastrand::Rng::new());
        // In front of the empty line that ends the head.
        self.own.truncate(self.own.len() - 2);
        let offered = offered(&self.own);
        h1::encode::field(&mut self.own, b"Sec-WebSocket-Key", key.as_bytes());
        self.own.extend_from_slice(b"\r\n");
        self.session = Some(Box::new(Session {
            decoder: Decoder::new(Side::Client, messages.size()),
            key,
            offered,
            upgrading_since: clock::now(),
            kind: messages.kind,
            message: Vec::new(),
            awaits: false,
            messages: 0,
            upgrade_bytes: self.own.len() as u64,
            closed: None,
            notes: Notes::default(),
        }));
    }

    /// Takes up a message.
    pub(in super::super) fn begin_message(&mut self, messages: &Messages, random: &mut fastrand::Rng) -> SentBytes {
        self.active = true;
        let Some(session) = &mut self.session else { return SentBytes::default() };
        messages.make(random.u64(..), &mut session.message);
        session.awaits = true;
        session.messages += 1;
        let upgrade = std::mem::take(&mut session.upgrade_bytes);
        if session.messages > 1 {
            self.received = 0;
        }
        let message = std::mem::take(&mut session.message);
        let frame = self.append(messages.kind.opcode(), &message);
        if let Some(session) = &mut self.session {
            session.message = message;
        }
        SentBytes { all: upgrade + frame, bodies: messages.size() }
    }

    /// Appends a frame to what is being written; its bytes.
    fn append(&mut self, opcode: Opcode, payload: &[u8]) -> u64 {
        if !self.writing {
            self.own.clear();
            self.written = 0;
        }
        let before = self.own.len();
        write(&mut self.own, true, opcode, mask(), payload);
        self.writing = true;
        (self.own.len() - before) as u64
    }

    /// Sends what the server's frames require, such as pongs. If that fails, so do reads.
    pub(in super::super) fn flush_frames(&mut self, operation: &Operation) {
        if self.session.is_some() && self.writing && self.write(operation).is_err() {
            self.writing = false;
        }
    }

    /// Takes in bytes of the handshake or of frames.
    pub(in super::super) fn feed_websocket(&mut self, bytes: &[u8]) -> Progress {
        match &self.session {
            Some(session) if session.upgrading_since > 0 => self.feed_upgrade(bytes),
            _ => self.feed_frames(bytes),
        }
    }

    fn feed_upgrade(&mut self, bytes: &[u8]) -> Progress {
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(bytes);
        let limits = Limits::default();
        let mut head = ResponseHead::default();
        loop {
            let end = match self.scanner.scan(&all, &limits) {
                Ok(Some(end)) => end,
                Ok(None) => {
                    self.partial = all;
                    return Progress::More;
                }
                Err(error) => return self.refuse(error.text().to_owned()),
            };
            if let Err(error) = head.parse(&all, 0, end, h1::Method::Get, &limits) {
                return self.refuse(error.text().to_owned());
            }
            if !head.is_interim() {
                return self.upgrade_accepted(&head, &all[..end], &all[end..]);
            }
            self.scanner.reset();
            all.drain(..end);
        }
    }

    /// The head of the response to the upgrade, and what came behind it.
    fn upgrade_accepted(&mut self, head: &ResponseHead, text: &[u8], rest: &[u8]) -> Progress {
        self.status = head.status;
        self.keep_alive = head.status == 101;
        let Some(session) = &mut self.session else { return Progress::Bad };
        if head.status != 101 {
            session.notes.problem = Some(format!("an upgrade was refused with status {}", head.status));
            return Progress::Done;
        }
        let field =
            |name: &str| head.fields.get(name.as_bytes(), text).and_then(|value| std::str::from_utf8(value).ok());
        if let Err(problem) = handshake::problem(&session.key, session.offered.as_deref(), field) {
            return self.refuse(problem);
        }
        let took = clock::now().saturating_sub(std::mem::take(&mut session.upgrading_since));
        match self.feed_frames(rest) {
            Progress::More => Progress::Upgraded(took),
            other => other,
        }
    }

    fn refuse(&mut self, problem: String) -> Progress {
        if let Some(session) = &mut self.session {
            session.notes.problem = Some(problem);
        }
        Progress::Bad
    }

    fn feed_frames(&mut self, mut bytes: &[u8]) -> Progress {
        let mut progress = Progress::More;
        loop {
            let Some(session) = &mut self.session else { return Progress::Bad };
            if session.notes.problem.is_some() || session.closed.is_some() {
                // Nothing is read any more.
                return progress;
            }
            let (used, event) = match session.decoder.decode(bytes) {
                Ok(decoded) => decoded,
                Err(violation) => return self.refuse(violation.text().to_owned()),
            };
            bytes = &bytes[used..];
            match event {
                None => return progress,
                Some(Event::Pong) => {}
                Some(Event::Ping) => {
                    session.notes.pings += 1;
                    let payload = session.decoder.control().to_vec();
                    self.append(Opcode::Pong, &payload);
                }
                Some(Event::Message(_)) if !session.awaits => {
                    return self.refuse("a message that was not sent came".to_owned());
                }
                Some(Event::Message(kind)) if kind != session.kind => {
                    return self.refuse("a message came back as one of the other kind".to_owned());
                }
                Some(Event::Message(_)) if session.decoder.message() != session.message => {
                    return self.refuse("a message came back with other bytes".to_owned());
                }
                Some(Event::Message(_)) => {
                    session.awaits = false;
                    progress = Progress::Done;
                }
                Some(Event::Close(code)) => {
                    session.closed = Some(code.unwrap_or(NO_CODE));
                    let awaits = session.awaits;
                    self.append_close(code);
                    if awaits {
                        return self.closed();
                    }
                }
            }
        }
    }

    fn append_close(&mut self, code: Option<u16>) {
        let mut payload = Vec::new();
        write_close(&mut payload, code, b"", None);
        self.append(Opcode::Close, &payload[2..]);
    }

    /// The server has closed while a message was awaited.
    fn closed(&mut self) -> Progress {
        if let Some(session) = &mut self.session {
            session.notes.closed = Some(session.closed.unwrap_or(ABNORMAL));
        }
        Progress::Closed
    }

    /// The server's last byte has come: whether that is in the middle of an exchange.
    pub(super) fn end_of_websocket(&mut self) -> Option<Progress> {
        let session = self.session.as_ref()?;
        session.awaits.then(|| self.closed())
    }

    /// What is to be recorded, if there is something; once.
    pub(in super::super) fn take_notes(&mut self) -> Option<Notes> {
        let notes = &mut self.session.as_mut()?.notes;
        let is_something = notes.pings > 0 || notes.closed.is_some() || notes.problem.is_some();
        is_something.then(|| std::mem::take(notes))
    }

    /// Whether bytes came that must not come while no message was awaited: the next message fails for it.
    pub(in super::super) fn is_broken(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.notes.problem.is_some())
    }

    /// Whether no further message goes over this connection.
    pub(in super::super) fn is_closed(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.closed.is_some())
    }

    /// Whether it has had its messages.
    pub(in super::super) fn has_sent(&self, messages: u64) -> bool {
        self.session.as_ref().is_some_and(|session| session.messages >= messages)
    }

    /// Ends a connection in good order, with a close frame unless the server has sent one: the socket on which the server's is to come.
    pub(in super::super) fn end_websocket(&mut self, operation: &Operation) -> Option<Socket> {
        let session = self.session.as_ref()?;
        if session.upgrading_since > 0 || self.status != 101 {
            return None;
        }
        if session.closed.is_none() {
            self.append_close(Some(NORMAL));
        }
        self.flush_frames(operation);
        let socket = self.socket.take();
        self.close();
        socket
    }
}
