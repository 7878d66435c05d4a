//! One connection: the request that is being written, the response that is being read.

mod websocket;

use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;

use h1::{BodyDecoder, BodyEvent, HeadScanner, Limits, ResponseHead};
use tls::{ClientConfig, ClientStream, Negotiated};

use super::heads::Heads;
use crate::load::engine::chat::Chat;
use crate::load::engine::clock;
use crate::load::engine::recorder::SentBytes;
use crate::load::engine::stream::Stream;
use crate::load::prepare::{Operation, Prepared, Secure};
pub(in crate::load::engine) use websocket::Notes;
use websocket::Session;

/// Most bytes of a response that are kept for captures.
const KEEP: usize = 16 * 1024 * 1024;

/// What carries an exchange.
#[derive(Debug)]
pub(super) enum Socket {
    Plain(TcpStream),
    Tls(Box<ClientStream<TcpStream>>),
}

/// A connection that may be open, and the exchange on it.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) socket: Option<Socket>,
    /// Counts the sockets, so that events of an earlier one can be recognized.
    generation: u32,
    /// When the attempt began; 0 when it is open.
    opening_since: u64,
    /// When the handshake began; 0 when it is complete.
    handshaking_since: u64,
    /// Of a user who resumes sessions: where they are stored.
    own_config: Option<Arc<ClientConfig>>,
    active: bool,
    /// The request's bytes, when they are not always the same.
    own: Vec<u8>,
    /// Bytes of the body in it, or of its file.
    own_body: u64,
    /// Bytes written of head and body together.
    written: usize,
    writing: bool,
    /// What was read of a head that is not complete.
    partial: Vec<u8>,
    scanner: HeadScanner,
    body: Option<BodyDecoder>,
    keep_alive: bool,
    pub(super) status: u16,
    /// Whether the response is one that is counted separately.
    pub(super) marked: bool,
    /// Bytes of the response so far.
    pub(super) received: u64,
    /// Where responses are event streams.
    pub(super) stream_seen: Option<Stream>,
    /// Where requests are chat calls.
    pub(super) chat: Option<Box<Chat>>,
    /// Where it is upgraded to WebSocket, from its handshake on.
    session: Option<Box<Session>>,
    /// Kept for captures.
    kept_head: Vec<u8>,
    kept_body: Vec<u8>,
}

/// How much of a response has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
    Bad,
    /// The connection is one of WebSocket now; how long that took.
    Upgraded(u64),
    /// The server has closed a connection of WebSocket while a message was awaited.
    Closed,
}

/// How far a request is.
#[derive(Debug)]
pub(super) enum Written {
    All,
    Part,
}

impl Connection {
    /// What marks the events of the next socket.
    pub(super) fn next_event_data(&mut self, index: usize) -> u64 {
        self.generation = self.generation.wrapping_add(1);
        self.event_data(index)
    }

    pub(super) fn event_data(&self, index: usize) -> u64 {
        // The top bit stays free for the timer.
        u64::from(self.generation & 0x7fff_ffff) << 32 | index as u64
    }

    /// Whether an event is of the socket that is there now.
    pub(super) fn is_of(&self, data: u64) -> bool {
        self.socket.is_some() && self.event_data((data & u64::from(u32::MAX)) as usize) == data
    }

    pub(super) fn opening(&mut self, stream: TcpStream, begun: u64) {
        self.socket = Some(Socket::Plain(stream));
        self.opening_since = begun;
        self.active = true;
    }

    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    pub(super) fn is_opening(&self) -> bool {
        self.opening_since > 0
    }

    /// Checks whether the attempt succeeded, and returns how long it took.
    pub(super) fn opened(&mut self) -> io::Result<u64> {
        if let Some(Socket::Plain(stream)) = &self.socket
            && let Some(error) = stream.take_error()?
        {
            return Err(error);
        }
        let took = clock::now().saturating_sub(self.opening_since);
        self.opening_since = 0;
        Ok(took)
    }

    /// Begins the handshake on a connection that has been opened.
    pub(super) fn secure(&mut self, secure: &Secure) -> io::Result<()> {
        let Some(Socket::Plain(stream)) = self.socket.take() else { return Ok(()) };
        let config = secure.config(&mut self.own_config);
        let tls = self.socket.insert(Socket::Tls(Box::new(ClientStream::new(stream, config, secure.name.clone())?)));
        self.handshaking_since = clock::now();
        if let Socket::Tls(tls) = tls { flush(tls).map(|_| ()) } else { Ok(()) }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.handshaking_since > 0
    }

    /// The handshake is complete; how long it took.
    pub(super) fn secured(&mut self) -> u64 {
        clock::now().saturating_sub(std::mem::take(&mut self.handshaking_since))
    }

    /// What the handshake agreed on.
    pub(super) fn negotiated(&self) -> Option<Negotiated> {
        match &self.socket {
            Some(Socket::Tls(tls)) => Some(tls.negotiated()),
            _ => None,
        }
    }

    /// Takes the connection's TLS out, to be put back with [`Connection::put_tls`]: what it decrypts goes into the connection.
    pub(super) fn take_tls(&mut self) -> Option<Box<ClientStream<TcpStream>>> {
        match self.socket.take() {
            Some(Socket::Tls(tls)) => Some(tls),
            other => {
                self.socket = other;
                None
            }
        }
    }

    pub(super) fn put_tls(&mut self, tls: Box<ClientStream<TcpStream>>) {
        self.socket = Some(Socket::Tls(tls));
    }

    /// Sends what TLS has to send beside requests.
    pub(super) fn flush(&mut self) -> io::Result<Written> {
        match &mut self.socket {
            Some(Socket::Tls(tls)) => flush(tls),
            _ => Ok(Written::All),
        }
    }

    /// Whether a response is awaited.
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    pub(super) fn is_writing(&self) -> bool {
        self.writing
    }

    /// Takes up a request.
    #[inline]
    pub(super) fn begin(&mut self, operation: &Operation, write: impl FnOnce(&mut Vec<u8>) -> u64) {
        self.active = true;
        self.written = 0;
        self.writing = true;
        self.received = 0;
        self.body = None;
        self.partial.clear();
        self.scanner.reset();
        if operation.fixed.is_none() {
            self.own.clear();
            self.own_body = write(&mut self.own);
        }
        if !operation.captures.is_empty() {
            self.kept_head.clear();
            self.kept_body.clear();
        }
    }

    /// Bytes of the request, head and body.
    pub(super) fn request_bytes(&self, operation: &Operation) -> SentBytes {
        let (text, bodies) = match &operation.fixed {
            Some(fixed) => (fixed.len(), operation.fixed_body),
            None => (self.own.len(), self.own_body),
        };
        SentBytes { all: (text + operation.file().map_or(0, |file| file.len())) as u64, bodies }
    }

    /// Writes as much of the request as the socket takes.
    pub(super) fn write(&mut self, operation: &Operation) -> io::Result<Written> {
        let head: &[u8] = operation.fixed.as_deref().unwrap_or(&self.own);
        let file: &[u8] = operation.file().map_or(&[], |file| file);
        let total = head.len() + file.len();
        let stream = match &mut self.socket {
            Some(Socket::Plain(stream)) => stream,
            Some(Socket::Tls(tls)) => {
                let written = encrypt(tls, head, file, &mut self.written)?;
                self.writing = matches!(written, Written::Part);
                return Ok(written);
            }
            None => return Ok(Written::Part),
        };
        while self.written < total {
            let result = if file.is_empty() {
                stream.write(&head[self.written..])
            } else if self.written < head.len() {
                stream.write_vectored(&[IoSlice::new(&head[self.written..]), IoSlice::new(file)])
            } else {
                stream.write(&file[self.written - head.len()..])
            };
            match result {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Written::Part),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.writing = false;
        Ok(Written::All)
    }

    /// Takes in bytes of the response.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        operation: &Operation,
        prepared: &Prepared,
        heads: &mut Heads,
    ) -> Progress {
        self.received += bytes.len() as u64;
        if self.session.is_some() {
            return self.feed_websocket(bytes);
        }
        if self.body.is_some() {
            return self.feed_body(bytes, operation);
        }
        if self.partial.is_empty() {
            return self.feed_head(bytes, operation, prepared, heads);
        }
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(bytes);
        let progress = self.feed_head(&partial, operation, prepared, heads);
        if self.partial.is_empty() {
            partial.clear();
            self.partial = partial;
        }
        progress
    }

    /// `bytes` begin with a head. What must be seen again goes to `partial`.
    fn feed_head(&mut self, bytes: &[u8], operation: &Operation, prepared: &Prepared, heads: &mut Heads) -> Progress {
        if let Some((head, end)) = heads.again(bytes, operation.method) {
            return self.take(head, bytes, 0..end, operation, prepared);
        }
        let limits = Limits::default();
        let mut start = 0;
        loop {
            let end = match self.scanner.scan(&bytes[start..], &limits) {
                Ok(Some(end)) => start + end,
                Ok(None) => {
                    self.partial.extend_from_slice(&bytes[start..]);
                    return Progress::More;
                }
                Err(_) => return Progress::Bad,
            };
            if self.scanner.skipped() > 0 {
                return Progress::Bad;
            }
            let Ok(head) = heads.parse(bytes, start, end, operation.method, &limits) else { return Progress::Bad };
            if head.is_interim() {
                self.scanner.reset();
                start = end;
                continue;
            }
            return self.take(head, bytes, start..end, operation, prepared);
        }
    }

    /// The head of the response, which is at `at`; its body follows.
    fn take(
        &mut self,
        head: &ResponseHead,
        bytes: &[u8],
        at: Range<usize>,
        operation: &Operation,
        prepared: &Prepared,
    ) -> Progress {
        self.status = head.status;
        self.keep_alive = head.keep_alive;
        let mark = prepared.mark.as_ref();
        self.marked = mark.is_some_and(|mark| mark.is_in(head.fields.get(mark.header.as_bytes(), bytes)));
        if !operation.captures.is_empty() {
            self.kept_head.extend_from_slice(&bytes[at.clone()]);
        }
        self.body = Some(BodyDecoder::new(head.body));
        self.stream_seen = prepared.event_streams.then(Stream::default);
        if let Some(calls) = prepared.llm {
            self.chat.get_or_insert_with(|| Box::new(Chat::new(calls.stream))).reset();
        }
        self.feed_body(&bytes[at.end..], operation)
    }

    fn feed_body(&mut self, bytes: &[u8], operation: &Operation) -> Progress {
        let before = self.stream_seen.map_or(0, |stream| stream.events);
        let progress = self.decode(bytes, operation);
        if let Some(stream) = &mut self.stream_seen {
            stream.read(before);
        }
        progress
    }

    fn decode(&mut self, mut bytes: &[u8], operation: &Operation) -> Progress {
        let Some(body) = &mut self.body else { return Progress::Bad };
        loop {
            match body.decode(bytes) {
                Ok((used, event)) => {
                    if let BodyEvent::Data(range) = &event
                        && operation.wants_body
                        && self.kept_body.len() < KEEP
                    {
                        self.kept_body.extend_from_slice(&bytes[range.clone()]);
                    }
                    if let (BodyEvent::Data(range), Some(stream)) = (&event, &mut self.stream_seen) {
                        stream.data(&bytes[range.clone()]);
                    }
                    if let (BodyEvent::Data(range), Some(chat)) = (&event, &mut self.chat) {
                        chat.data(&bytes[range.clone()]);
                    }
                    bytes = &bytes[used..];
                    match event {
                        BodyEvent::Data(_) => {}
                        // The decoder has taken in all there was.
                        BodyEvent::NeedMore => return Progress::More,
                        // Bytes beyond the end of the response: the next one would begin in the wrong place.
                        BodyEvent::End if !bytes.is_empty() => return Progress::Bad,
                        BodyEvent::End => return Progress::Done,
                    }
                }
                Err(_) => return Progress::Bad,
            }
        }
    }

    /// The server has closed.
    pub(super) fn end_of_stream(&mut self) -> Progress {
        self.keep_alive = false;
        if let Some(progress) = self.end_of_websocket() {
            return progress;
        }
        match &self.body {
            Some(body) if body.close().is_ok() => Progress::Done,
            _ => Progress::More,
        }
    }

    /// The chat call whose response has begun.
    pub(super) fn chat_begun(&mut self) -> Option<&mut Chat> {
        self.chat.as_deref_mut().filter(|_| self.body.is_some())
    }

    /// Whether another request may follow.
    pub(super) fn may_persist(&self) -> bool {
        self.keep_alive && (!self.writing || self.is_websocket()) && !self.is_closed()
    }

    /// Waits for the next request.
    pub(super) fn rest(&mut self) {
        self.active = false;
    }

    /// Ends a connection in good order. TLS says so to the server.
    pub(super) fn end(&mut self) {
        if let Some(Socket::Tls(tls)) = &mut self.socket {
            tls.close();
        }
        self.close();
    }

    /// Closes the socket, if there is one. The kernel takes a closed socket off the epoll set.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.opening_since = 0;
        self.handshaking_since = 0;
        self.active = false;
        self.writing = false;
        self.session = None;
    }

    /// Shows the kept response: a look-up of header fields, and the body.
    pub(super) fn with_response<'a>(&'a self, show: impl FnOnce(&dyn Fn(&str) -> Option<&'a [u8]>, &'a [u8])) {
        let mut head = ResponseHead::default();
        let parsed = head.parse(&self.kept_head, 0, self.kept_head.len(), h1::Method::Get, &Limits::default()).is_ok();
        let header = |name: &str| -> Option<&'a [u8]> {
            let field = head
                .fields
                .iter()
                .find(|field| field.name.of_buf(&self.kept_head).eq_ignore_ascii_case(name.as_bytes()));
            field.filter(|_| parsed).map(|field| field.value.of_buf(&self.kept_head))
        };
        show(&header, &self.kept_body);
    }
}

/// Writes as much of a request as TLS and the socket take, head and body in the same records.
fn encrypt(tls: &mut ClientStream<TcpStream>, head: &[u8], file: &[u8], written: &mut usize) -> io::Result<Written> {
    loop {
        if *written < head.len() {
            *written += tls.write(&[IoSlice::new(&head[*written..]), IoSlice::new(file)])?;
        } else if *written < head.len() + file.len() {
            *written += tls.write(&[IoSlice::new(&file[*written - head.len()..])])?;
        }
        match flush(tls)? {
            Written::All if *written < head.len() + file.len() => {}
            written => return Ok(written),
        }
    }
}

fn flush(tls: &mut ClientStream<TcpStream>) -> io::Result<Written> {
    match tls.flush() {
        Ok(()) => Ok(Written::All),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Written::Part),
        Err(error) => Err(error),
    }
}
