//! Each request of a workload once, by one user, with the responses kept: to look at what a server says, not at how fast.

use std::io;
use std::time::{Duration, Instant};

use h1::{BodyDecoder, BodyEvent, HeadScanner, Limits, ResponseHead};

use super::requester::{Requester, Shared, User};
use super::wire::Wire;
use crate::load::prepare::{Operation, Prepared};
use crate::load::workload::Protocol;

/// Most bytes of a body that are kept.
const KEEP: usize = 64 << 20;

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its status.
    pub status: u16,
    /// Its fields in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its content, without framing.
    pub body: Vec<u8>,
    /// When pieces of the content came, counted from when the request had been sent: the time, and the length of the content then.
    pub arrived: Vec<(Duration, usize)>,
}

impl Fetched {
    /// The first field of this name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Its name.
    pub operation: String,
    /// Whether it belongs to the setup.
    pub setup: bool,
    /// Whether its status is one that the operation expects.
    pub expected: bool,
    /// The response, or why there is none.
    pub response: Result<Fetched, String>,
}

impl Prepared {
    /// Sends the setup, then each operation in the order of the workload, each once on a connection of its own. Captures work.
    pub fn once(&self) -> Vec<Exchange> {
        let shared = Shared::new(self);
        let mut requester = Requester::new(self, &shared, 0, 1);
        let mut user = User::new(self);
        let listed = self.operations.len() - self.setup_len();
        let order = (listed..self.operations.len()).chain(0..listed);
        order
            .map(|index| {
                let operation = &self.operations[index];
                let response = self.exchange(operation, &mut requester, &user);
                if let Ok(response) = &response {
                    let header = |name: &str| response.header(&name.to_ascii_lowercase()).map(str::as_bytes);
                    requester.capture(operation, &mut user, header, &response.body);
                }
                Exchange {
                    operation: operation.id.clone(),
                    setup: index >= listed,
                    expected: response.as_ref().is_ok_and(|response| operation.expect.contains(response.status)),
                    response: response.map_err(|error| error.to_string()),
                }
            })
            .collect()
    }

    /// How many of the operations belong to the setup.
    fn setup_len(&self) -> usize {
        let setup = self.phases.iter().find(|phase| matches!(phase.kind, crate::load::prepare::Kind::Setup));
        setup.map_or(0, |phase| phase.choice.len())
    }

    fn exchange(&self, operation: &Operation, requester: &mut Requester<'_>, user: &User) -> io::Result<Fetched> {
        if self.protocol != Protocol::Http1 {
            requester.draw(operation, user);
            let authority = &self.authorities[operation.authority];
            return super::http2::once(operation, authority, requester.values(), self.timeout);
        }
        if let Some(messages) = &self.websocket {
            return self.echo(messages, operation, requester, user);
        }
        let mut request = Vec::new();
        requester.write_http1(operation, user, &mut request);
        let deadline = Instant::now() + self.timeout;
        let mut stream = Wire::open(&self.authorities[operation.authority], self.timeout)?;
        let file = operation.file().map_or(&[][..], |file| file);
        // A server may respond, and close, before it has read everything: then its response counts.
        let written = stream.write_all(&request).and_then(|()| stream.write_all(file));
        match read_response(&mut stream, operation, deadline, Instant::now()) {
            Err(error) => Err(written.err().unwrap_or(error)),
            response => response,
        }
    }
}

fn read_response(
    stream: &mut Wire<'_>,
    operation: &Operation,
    deadline: Instant,
    sent: Instant,
) -> io::Result<Fetched> {
    let mut buffer = Vec::new();
    let (head, headers, at) = read_head(stream, &mut buffer, operation.method, deadline)?;
    buffer.drain(..at);
    let (body, arrived) = read_body(stream, &mut buffer, &head, deadline, sent)?;
    Ok(Fetched { status: head.status, headers, body, arrived })
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Fields in order, names in lower case.
type Fields = Vec<(String, String)>;

/// Reads the head of a response: the head, its fields, and where it ends in the buffer.
pub(super) fn read_head(
    stream: &mut Wire<'_>,
    buffer: &mut Vec<u8>,
    method: h1::Method,
    deadline: Instant,
) -> io::Result<(ResponseHead, Fields, usize)> {
    let (limits, mut scanner, mut head) = (Limits::default(), HeadScanner::for_response(), ResponseHead::default());
    let mut start = 0;
    let end = loop {
        match scanner.scan(&buffer[start..], &limits).map_err(|error| bad(error.text()))? {
            Some(end) => {
                let end = start + end;
                head.parse(buffer, start, end, method, &limits).map_err(|error| bad(error.text()))?;
                if !head.is_interim() {
                    break end;
                }
                scanner.reset();
                start = end;
            }
            None if stream.read(buffer, deadline)? == 0 => {
                return Err(bad("the connection was closed without a response"));
            }
            None => {}
        }
    };
    let field = |field: &h1::Field| {
        let text = |span: h1::Span| String::from_utf8_lossy(span.of_buf(buffer)).into_owned();
        (text(field.name).to_ascii_lowercase(), text(field.value))
    };
    let headers = head.fields.iter().map(field).collect();
    Ok((head, headers, end))
}

/// A body, and when its pieces came.
type Body = (Vec<u8>, Vec<(Duration, usize)>);

/// Reads the body behind a head, of which the buffer has the begin.
pub(super) fn read_body(
    stream: &mut Wire<'_>,
    buffer: &mut Vec<u8>,
    head: &ResponseHead,
    deadline: Instant,
    sent: Instant,
) -> io::Result<Body> {
    let mut decoder = BodyDecoder::new(head.body);
    let mut at = 0;
    let mut fresh = true;
    let (mut body, mut arrived) = (Vec::new(), Vec::new());
    loop {
        let (used, event) = decoder.decode(&buffer[at..]).map_err(|error| bad(error.text()))?;
        if let BodyEvent::Data(range) = &event
            && body.len() < KEEP
        {
            body.extend_from_slice(&buffer[at..][range.clone()]);
            let now = sent.elapsed();
            match arrived.last_mut() {
                Some((_, length)) if !fresh => *length = body.len(),
                _ => arrived.push((now, body.len())),
            }
            fresh = false;
        }
        at += used;
        match event {
            BodyEvent::End => return Ok((body, arrived)),
            BodyEvent::Data(_) => {}
            BodyEvent::NeedMore => {
                buffer.drain(..at);
                at = 0;
                fresh = true;
                if stream.read(buffer, deadline)? == 0 {
                    decoder.close().map_err(|_| bad("the connection was closed before the end of the response"))?;
                    return Ok((body, arrived));
                }
            }
        }
    }
}

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nobody accepted the connection, or its handshake failed.
    Refused,
    /// The connection ended before the response did.
    Reset,
    /// Nothing, or not all, came before the deadline.
    Timeout,
}

impl Prepared {
    /// A user who sends one request after the other on a connection that is kept; a closed one is opened anew, as well-behaved clients do. `work` is
    /// given what sends the next request.
    pub(crate) fn user<T>(&self, number: u32, work: impl FnOnce(&mut dyn FnMut() -> Result<u16, Lost>) -> T) -> T {
        let shared = Shared::new(self);
        let (mut requester, user) = (Requester::new(self, &shared, number, number + 1), User::new(self));
        let (mut stream, mut request): (Option<Wire<'_>>, Vec<u8>) = (None, Vec::new());
        let phase = self.phases.iter().find(|phase| phase.measured);
        let mut count = 0;
        work(&mut || {
            let Some(phase) = phase else { return Err(Lost::Refused) };
            let operation = &self.operations[requester.choose(phase, count)];
            count += 1;
            request.clear();
            requester.draw(operation, &user);
            requester.write_http1(operation, &user, &mut request);
            let deadline = Instant::now() + self.timeout;
            let lost = |error: &io::Error| match error.kind() {
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Lost::Timeout,
                _ => Lost::Reset,
            };
            let kept = stream.take().and_then(|mut kept| kept.is_open().then_some(kept));
            let mut kept = match kept {
                Some(kept) => kept,
                None => {
                    let opened = Wire::open(&self.authorities[operation.authority], self.timeout);
                    opened.map_err(|error| match lost(&error) {
                        Lost::Timeout => Lost::Timeout,
                        _ => Lost::Refused,
                    })?
                }
            };
            kept.write_all(&request).map_err(|error| lost(&error))?;
            let response =
                read_response(&mut kept, operation, deadline, Instant::now()).map_err(|error| lost(&error))?;
            let closes = response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
            stream = Some(kept).filter(|_| !closes);
            Ok(response.status)
        })
    }
}
