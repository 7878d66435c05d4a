//! A connection of WebSocket whose reads and writes block: for what is not load.

use std::io;
use std::time::{Duration, Instant};

use super::once::{Fetched, read_body, read_head};
use super::requester::{Requester, Shared, User};
use super::wire::Wire;
use crate::load::prepare::{Operation, Prepared};
use crate::load::websocket::Messages;
use crate::websocket::{Decoder, Event, Kind, NORMAL, Opcode, Side, handshake, write, write_close};

/// Bytes of the longest message that is read.
const MOST: u64 = 64 << 20;

/// What an upgrade led to.
pub(crate) enum Opening<'p> {
    /// The head of the 101, and the connection.
    Open(Fetched, Box<Socket<'p>>),
    /// Another response.
    Refused(Fetched),
}

/// What the server has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Incoming {
    Message(Kind, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
}

/// An open connection.
pub(crate) struct Socket<'p> {
    wire: Wire<'p>,
    buffer: Vec<u8>,
    decoder: Decoder,
    timeout: Duration,
}

impl Prepared {
    /// Upgrades a connection with the first operation.
    pub(crate) fn upgrade(&self) -> io::Result<Opening<'_>> {
        let shared = Shared::new(self);
        let (mut requester, user) = (Requester::new(self, &shared, 0, 1), User::new(self));
        let operation = self.operations.first().ok_or_else(|| io::Error::other("there is no operation"))?;
        self.open(operation, &mut requester, &user)
    }

    fn open(&self, operation: &Operation, requester: &mut Requester<'_>, user: &User) -> io::Result<Opening<'_>> {
        let key = handshake::key(&mut fastrand::Rng::new());
        let mut request = Vec::new();
        requester.write_http1(operation, user, &mut request);
        // In front of the empty line that ends the head.
        request.truncate(request.len() - 2);
        h1::encode::field(&mut request, b"Sec-WebSocket-Key", key.as_bytes());
        request.extend_from_slice(b"\r\n");
        let offered = offered(&request);
        let deadline = Instant::now() + self.timeout;
        let mut wire = Wire::open(&self.authorities[operation.authority], self.timeout)?;
        wire.write_all(&request)?;
        let mut buffer = Vec::new();
        let (head, headers, at) = read_head(&mut wire, &mut buffer, operation.method, deadline)?;
        buffer.drain(..at);
        if head.status != 101 {
            let (body, arrived) = read_body(&mut wire, &mut buffer, &head, deadline, Instant::now())?;
            return Ok(Opening::Refused(Fetched { status: head.status, headers, body, arrived }));
        }
        let response = Fetched { status: 101, headers, body: Vec::new(), arrived: Vec::new() };
        handshake::problem(&key, offered.as_deref(), |name| response.header(name)).map_err(io::Error::other)?;
        let decoder = Decoder::new(Side::Client, MOST);
        let socket = Socket { wire, buffer, decoder, timeout: self.timeout };
        Ok(Opening::Open(response, Box::new(socket)))
    }

    /// An upgrade and one message: the head of the 101, with the message that came back as its body.
    pub(super) fn echo(
        &self,
        messages: &Messages,
        operation: &Operation,
        requester: &mut Requester<'_>,
        user: &User,
    ) -> io::Result<Fetched> {
        let (mut response, mut socket) = match self.open(operation, requester, user)? {
            Opening::Refused(response) => return Ok(response),
            Opening::Open(response, socket) => (response, socket),
        };
        let mut message = Vec::new();
        messages.make(0, &mut message);
        socket.send(true, messages.kind.opcode(), &message)?;
        response.body = loop {
            match socket.receive()? {
                Incoming::Message(_, message) => break message,
                Incoming::Ping(payload) => socket.send(true, Opcode::Pong, &payload)?,
                Incoming::Pong(_) => {}
                Incoming::Close(code, reason) => {
                    let code = code.map_or("no code".to_owned(), |code| code.to_string());
                    return Err(io::Error::other(format!("the connection was closed with {code} {reason}")));
                }
            }
        };
        socket.close(NORMAL, "")?;
        Ok(response)
    }
}

/// The subprotocols that a request offers.
pub(super) fn offered(request: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(request);
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("sec-websocket-protocol").then(|| value.trim().to_owned())
    })
}

impl Socket<'_> {
    /// Sends a frame.
    pub(crate) fn send(&mut self, is_last: bool, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        let mut frame = Vec::new();
        write(&mut frame, is_last, opcode, Some(fastrand::u32(..).to_ne_bytes()), payload);
        self.wire.write_all(&frame)
    }

    /// Sends a close frame.
    pub(crate) fn close(&mut self, code: u16, reason: &str) -> io::Result<()> {
        let mut frame = Vec::new();
        write_close(&mut frame, Some(code), reason.as_bytes(), Some(fastrand::u32(..).to_ne_bytes()));
        self.wire.write_all(&frame)
    }

    /// What comes next.
    pub(crate) fn receive(&mut self) -> io::Result<Incoming> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let decoded = self.decoder.decode(&self.buffer);
            let (used, event) = decoded.map_err(|violation| io::Error::other(violation.text()))?;
            self.buffer.drain(..used);
            let control = || self.decoder.control().to_vec();
            match event {
                None if self.wire.read(&mut self.buffer, deadline)? == 0 => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the connection ended without a close frame",
                    ));
                }
                None => {}
                Some(Event::Message(kind)) => return Ok(Incoming::Message(kind, self.decoder.message().to_vec())),
                Some(Event::Ping) => return Ok(Incoming::Ping(control())),
                Some(Event::Pong) => return Ok(Incoming::Pong(control())),
                Some(Event::Close(code)) => {
                    let reason = String::from_utf8_lossy(self.decoder.control().get(2..).unwrap_or_default());
                    return Ok(Incoming::Close(code, reason.into_owned()));
                }
            }
        }
    }
}
