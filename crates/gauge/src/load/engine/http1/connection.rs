//! One connection: the request that is being written, the answer that is being read.

use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::ops::Range;

use h1::{BodyDecoder, BodyEvent, HeadScanner, Limits, ResponseHead};

use super::heads::Heads;
use crate::load::engine::chat::Chat;
use crate::load::engine::clock;
use crate::load::engine::recorder::SentBytes;
use crate::load::engine::stream::Stream;
use crate::load::prepare::{Operation, Prepared};

/// Most bytes of an answer that are kept for captures.
const KEEP: usize = 16 * 1024 * 1024;

/// A connection that may be open, and the exchange on it.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) stream: Option<TcpStream>,
    /// Counts the streams, so that events of an earlier one are told apart.
    generation: u32,
    /// When the attempt began; 0 when it is open.
    opening_since: u64,
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
    /// Whether the answer is one to count apart.
    pub(super) marked: bool,
    /// Bytes of the answer so far.
    pub(super) received: u64,
    /// Where responses are event streams.
    pub(super) stream_seen: Option<Stream>,
    /// Where requests are chat calls.
    pub(super) chat: Option<Box<Chat>>,
    /// Kept for captures.
    kept_head: Vec<u8>,
    kept_body: Vec<u8>,
}

/// How far an answer is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
    Bad,
}

/// How far a request is.
#[derive(Debug)]
pub(super) enum Written {
    All,
    Part,
}

impl Connection {
    /// What marks the events of the next stream.
    pub(super) fn next_event_data(&mut self, index: usize) -> u64 {
        self.generation = self.generation.wrapping_add(1);
        self.event_data(index)
    }

    fn event_data(&self, index: usize) -> u64 {
        // The top bit stays free for the timer.
        u64::from(self.generation & 0x7fff_ffff) << 32 | index as u64
    }

    /// Whether an event is of the stream that is there now.
    pub(super) fn is_of(&self, data: u64) -> bool {
        self.stream.is_some() && self.event_data((data & u64::from(u32::MAX)) as usize) == data
    }

    pub(super) fn opening(&mut self, stream: TcpStream, begun: u64) {
        self.stream = Some(stream);
        self.opening_since = begun;
        self.active = true;
    }

    pub(super) fn is_opening(&self) -> bool {
        self.opening_since > 0
    }

    /// Asks whether the attempt succeeded; how long it took.
    pub(super) fn opened(&mut self) -> io::Result<u64> {
        if let Some(error) = self.stream.as_ref().map_or(Ok(None), TcpStream::take_error)? {
            return Err(error);
        }
        let took = clock::now().saturating_sub(self.opening_since);
        self.opening_since = 0;
        Ok(took)
    }

    /// Whether an answer is awaited.
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
        let Some(stream) = &mut self.stream else { return Ok(Written::Part) };
        let head: &[u8] = operation.fixed.as_deref().unwrap_or(&self.own);
        let file: &[u8] = operation.file().map_or(&[], |file| file);
        let total = head.len() + file.len();
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

    /// Takes in bytes of the answer.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        operation: &Operation,
        prepared: &Prepared,
        heads: &mut Heads,
    ) -> Progress {
        self.received += bytes.len() as u64;
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

    /// The head of the answer, which is at `at`; its body follows.
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
                        // Bytes that nobody asked for: the next answer would begin in the wrong place.
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
        self.keep_alive && !self.writing
    }

    /// Waits for the next request.
    pub(super) fn rest(&mut self) {
        self.active = false;
    }

    /// Closes the stream, if there is one. The kernel takes a closed socket off the epoll set.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.opening_since = 0;
        self.active = false;
        self.writing = false;
    }

    /// Shows the kept answer: a look-up of header fields, and the body.
    pub(super) fn with_answer<'a>(&'a self, show: impl FnOnce(&dyn Fn(&str) -> Option<&'a [u8]>, &'a [u8])) {
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
