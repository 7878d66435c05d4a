//! The life of a client connection: wait for a head, hand it to the pipeline, keep or close the connection, repeat.
//! It is drawn in `exchange/LIFECYCLE.md`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ::http2::PREFACE;
use h1::{HeadScanner, Method, ParseError};
use tls::Alpn;

use super::http2;
use crate::client::downstream::{Downstream, Waited};
use crate::client::identity::Client;
use crate::client::origin::Origin;
use crate::error::{Error, Reason};
use crate::exchange::Next;
use crate::exchange::pump::Pump;
use crate::exchange::request_id::new_request_id;
use crate::http::response::{self, Framing, Members};
use crate::io::buffer::Buffer;
use crate::io::life::Life;
use crate::io::stream::{Outgoing, Stream};
use crate::observe::{Line, Record, ServerSeries};
use crate::pipeline;
use crate::runtime::clock;
use crate::worker::{Scratch, Worker};

/// How long a connection that is being closed is read from, so that the last response arrives.
const LINGER: Duration = Duration::from_secs(2);
/// How many bytes it is read for.
const LINGER_BYTES: usize = 1 << 20;
/// When less room than this is left behind unread bytes, they are moved to the front.
const ROOM: usize = 4 * 1024;

/// Serves one client connection to its end.
pub async fn serve(worker: Rc<Worker>, stream: Stream, client: Client, origin: Arc<Origin>) {
    let deadline = worker.deadlines.add();
    let bounds = worker.snapshot.borrow().config().server.connection;
    let life = Life::new(bounds, clock::loop_ns(), || worker.random());
    let (buffer, out) = (Buffer::default(), Outgoing::default());
    let mut down = Downstream { stream, buffer, out, deadline, client, origin, life };
    // What the handshake agreed on, or in clear text the preface.
    if let Some(tls) = &down.client.tls {
        if tls.session.alpn == Some(Alpn::Http2) {
            return http2::serve(worker, down).await;
        }
    } else if down.origin.settings().takes_prior_knowledge {
        match read_preface(&worker, &mut down).await {
            Preface::Http2 => return http2::serve(worker, down).await,
            Preface::Http1 => {}
            Preface::Nothing => return return_buffer(&worker, down),
        }
    }
    let mut scanner = HeadScanner::new();
    let mut is_first = true;
    loop {
        let next = match read_head(&worker, &mut down, &mut scanner, is_first).await {
            Arrived::Parsed(scratch) => exchange(&worker, &mut down, scratch).await,
            Arrived::Head { end } => parse(&worker, &mut down, &scanner, end).await,
            Arrived::Nothing => return close(&worker, down),
            Arrived::Refused(error) => refuse(&worker, &mut down, error).await,
        };
        is_first = false;
        match next {
            Next::KeepAlive => {}
            Next::Drain(body) => {
                if !drain(&worker, &mut down, *body).await {
                    return return_buffer(&worker, down);
                }
            }
            Next::Close if !down.has_unread() => return close(&worker, down),
            Next::Close | Next::Linger => {
                down.deadline.set(Some(LINGER));
                down.linger(&worker.buffers, LINGER_BYTES).await;
                return return_buffer(&worker, down);
            }
            Next::Abort => {
                down.stream.abort();
                return return_buffer(&worker, down);
            }
        }
        if down.buffer.is_empty() {
            worker.buffers.put_back(std::mem::take(&mut down.buffer));
        }
    }
}

/// Serves the one request that `stream` holds: a stream of an HTTP/2 connection.
pub fn serve_one(
    worker: Rc<Worker>,
    stream: Stream,
    client: Client,
    origin: Arc<Origin>,
) -> impl Future<Output = ()> + use<> {
    let deadline = worker.deadlines.add();
    let (buffer, out) = (Buffer::default(), Outgoing::default());
    // The connection decides how many streams there are, and for how long. Made before the future is: it would hold the parts as well as the whole.
    let mut down = Downstream { stream, buffer, out, deadline, client, origin, life: Life::ENDLESS };
    async move {
        let mut scanner = HeadScanner::new();
        // The connection decides what happens to the stream: it knows whether the response is complete.
        let _ = match read_head(&worker, &mut down, &mut scanner, true).await {
            Arrived::Parsed(scratch) => exchange(&worker, &mut down, scratch).await,
            Arrived::Head { end } => parse(&worker, &mut down, &scanner, end).await,
            Arrived::Nothing => Next::Abort,
            Arrived::Refused(error) => refuse(&worker, &mut down, error).await,
        };
        return_buffer(&worker, down);
    }
}

/// What a connection begins with.
enum Preface {
    /// The preface of HTTP/2 (RFC 9113 section 3.4); it lies at the front of the buffer.
    Http2,
    /// Something else.
    Http1,
    /// The client disconnected, or was too late.
    Nothing,
}

/// Reads until it is known whether a connection begins as one of HTTP/2 does.
async fn read_preface(worker: &Worker, down: &mut Downstream) -> Preface {
    let head_timeout = worker.snapshot.borrow().config().server.head_timeout;
    down.deadline.set(head_timeout);
    down.deadline.set_idle(true);
    loop {
        let bytes = down.buffer.filled();
        let length = bytes.len().min(PREFACE.len());
        match bytes.get(..length) {
            start if start != PREFACE.get(..length) => return Preface::Http1,
            _ if length == PREFACE.len() => return Preface::Http2,
            _ => {}
        }
        match std::future::poll_fn(|cx| down.poll_fill(cx, &worker.buffers)).await {
            Waited::Bytes => {}
            // A part of a preface is the beginning of no request.
            Waited::Closed | Waited::Late => return Preface::Nothing,
        }
    }
}

/// What came of waiting for a request.
enum Arrived {
    /// A head that came whole and breaks no rule, as nearly all do.
    Parsed(Box<Scratch>),
    /// A whole head lies at the front of the buffer.
    Head { end: usize },
    /// The connection is over, and no request waits for a response.
    Nothing,
    /// What came is not a valid request, or it took too long.
    Refused(Error),
}

async fn read_head(worker: &Worker, down: &mut Downstream, scanner: &mut HeadScanner, is_first: bool) -> Arrived {
    scanner.reset();
    let (limits, head_timeout, keep_alive) = {
        let snapshot = worker.snapshot.borrow();
        let server = &snapshot.config().server;
        (snapshot.head_limits, server.head_timeout, server.keep_alive)
    };
    let mut has_begun = !down.buffer.is_empty();
    down.deadline.set(if is_first || has_begun { head_timeout } else { keep_alive });
    down.deadline.set_idle(!has_begun);
    loop {
        if has_begun {
            if scanner.is_fresh() {
                let mut scratch = worker.lend_scratch();
                if scratch.request.parse_whole(down.buffer.whole(), down.buffer.start(), &limits).is_some() {
                    return Arrived::Parsed(scratch);
                }
                worker.take_scratch(scratch);
            }
            match scanner.scan(down.buffer.filled(), &limits) {
                Ok(Some(length)) => return Arrived::Head { end: down.buffer.start() + length },
                Ok(None) => {}
                Err(error) => return Arrived::Refused(refusal(error)),
            }
            if down.buffer.room() < ROOM {
                down.buffer.compact();
            }
        }
        match std::future::poll_fn(|cx| down.poll_fill(cx, &worker.buffers)).await {
            Waited::Bytes if !has_begun => {
                has_begun = true;
                down.deadline.set_idle(false);
                // Not moved by further bytes: a head that trickles in is as late as one that does not come.
                down.deadline.set(head_timeout);
            }
            Waited::Bytes => {}
            Waited::Closed => return Arrived::Nothing,
            Waited::Late if has_begun => return Arrived::Refused(Reason::HeadTimeout.into()),
            Waited::Late => return Arrived::Nothing,
        }
    }
}

/// Serves the request whose head was found whole, or refuses it.
async fn parse(worker: &Worker, down: &mut Downstream, scanner: &HeadScanner, end: usize) -> Next {
    let mut scratch = worker.lend_scratch();
    let limits = worker.snapshot.borrow().head_limits;
    let start = down.buffer.start() + scanner.skipped();
    match scratch.request.parse(down.buffer.whole(), start, end, &limits) {
        Ok(()) => exchange(worker, down, scratch).await,
        Err(error) => {
            worker.take_scratch(scratch);
            refuse(worker, down, refusal(error)).await
        }
    }
}

/// Serves the request whose head is in `scratch`.
async fn exchange(worker: &Worker, down: &mut Downstream, mut scratch: Box<Scratch>) -> Next {
    let next = if is_strict(worker) && !scratch.request.has_plain_length(down.buffer.whole()) {
        let error = Error::new(Reason::BadRequest, "Content-Length with leading zeros or blanks (6.2)");
        refuse(worker, down, error).await
    } else {
        down.buffer.seek(scratch.request.end);
        down.out = Outgoing::with(std::mem::take(&mut scratch.to_client));
        let next = pipeline::run(worker, down, &mut scratch).await;
        scratch.to_client = std::mem::take(&mut down.out).into_bytes();
        next
    };
    worker.take_scratch(scratch);
    next
}

fn is_strict(worker: &Worker) -> bool {
    worker.snapshot.borrow().config().server.is_content_length_strict
}

fn refusal(error: ParseError) -> Error {
    let reason = match error.status() {
        _ if error == ParseError::Connect => Reason::ConnectNotSupported,
        414 => Reason::RequestLineTooLong,
        431 => Reason::HeadTooLarge,
        501 => Reason::UnknownCoding,
        505 => Reason::UnsupportedVersion,
        _ => Reason::BadRequest,
    };
    Error::new(reason, error.text())
}

/// Sends an error for something that is not a valid request, and ends the connection: where the next request would begin cannot be known.
async fn refuse(worker: &Worker, down: &mut Downstream, error: Error) -> Next {
    let line = request_line(down.buffer.filled());
    // Whoever sent this takes it for a response to HEAD, though the rest of the request is missing or wrong.
    let framing = Framing { head_only: line.0 == b"HEAD", version: h1::Version::Http11, close: true };
    let snapshot = worker.snapshot.borrow().clone();
    let mut id = Vec::new();
    new_request_id(worker, &mut id);
    let mut fields = Vec::new();
    if snapshot.config().server.returns_request_id {
        h1::encode::field(&mut fields, snapshot.config().request_id.as_bytes(), &id);
    }
    response::problem(&mut down.out.bytes, error, Members::of(&id), &fields, None, framing);
    let record = Record {
        status: error.reason.status(),
        request_bytes: down.buffer.filled().len() as u64,
        response_bytes: down.out.bytes.len() as u64,
        ..Record::default()
    };
    let protocol = down.stream.protocol().unwrap_or("HTTP/1.1");
    let line = request_line(down.buffer.filled());
    record_refusal(worker, &down.client, error, &record, protocol, line, &id);
    down.deadline.set(Some(LINGER));
    if down.flush().await.is_ok() { Next::Linger } else { Next::Abort }
}

/// Records a request of HTTP/2 that no exchange saw.
pub fn note_refusal(worker: &Worker, client: &Client, error: Error) {
    let mut id = Vec::new();
    new_request_id(worker, &mut id);
    let record = Record { status: error.reason.status(), ..Record::default() };
    record_refusal(worker, client, error, &record, "HTTP/2", (b"", b"", None), &id);
}

fn record_refusal(
    worker: &Worker,
    client: &Client,
    error: Error,
    record: &Record,
    protocol: &'static str,
    (method, path, query): (&[u8], &[u8], Option<&[u8]>),
    id: &[u8],
) {
    worker.metrics.not_served(error.reason);
    let snapshot = worker.snapshot.borrow().clone();
    snapshot.unmatched.record(record);
    if let Some(durations) = &worker.durations {
        let series = ServerSeries {
            method: Method::of(method),
            route: None,
            status: record.status,
            error: Some(error.reason.label()),
            version: protocol.trim_start_matches("HTTP/"),
            scheme: client.scheme(),
        };
        durations.server(series, record.total_ns);
    }
    let fault = error.reason.fault();
    let mut failures = worker.failures.borrow_mut();
    let is_noted = failures.wants(fault, clock::now_ns());
    let mut log = worker.log.borrow_mut();
    let is_logged = log.as_mut().is_some_and(|writer| writer.wants(record.status, None, 0));
    if !is_noted && !is_logged {
        return;
    }
    let line = Line {
        time_ms: clock::unix_ms(),
        client: client.address,
        protocol,
        method,
        path,
        query,
        status: record.status,
        request_bytes: record.request_bytes,
        response_bytes: record.response_bytes,
        request_id: id,
        error: Some(error),
        tls: client.tls.as_deref().map(|tls| &tls.session),
        proxied: client.proxied.as_deref(),
        redaction: &snapshot.config().redaction,
        ..Line::default()
    };
    if let Some(writer) = log.as_mut().filter(|_| is_logged) {
        writer.line(&line);
    }
    if is_noted {
        failures.note(fault, &line);
    }
}

/// Method, path and query of something that is not a valid request, as far as they can be recognized: for the log, which escapes and cuts them.
fn request_line(bytes: &[u8]) -> (&[u8], &[u8], Option<&[u8]>) {
    let bytes = bytes.trim_ascii_start();
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match target.iter().position(|&byte| byte == b'?') {
        Some(mark) => (method, &target[..mark], Some(&target[mark + 1..])),
        None => (method, target, None),
    }
}

/// Reads the rest of a body that nobody wants. False when it does not come, or breaks a rule.
async fn drain(worker: &Worker, down: &mut Downstream, mut body: Pump) -> bool {
    down.deadline.set(Some(LINGER));
    loop {
        match body.skip(&mut down.buffer) {
            Ok(true) => return true,
            Ok(false) => down.buffer.rewind(0),
            Err(_) => return false,
        }
        if std::future::poll_fn(|cx| down.poll_fill(cx, &worker.buffers)).await != Waited::Bytes {
            return false;
        }
    }
}

/// The end of a connection that ends in order.
fn close(worker: &Worker, mut down: Downstream) {
    down.stream.say_end();
    return_buffer(worker, down);
}

fn return_buffer(worker: &Worker, down: Downstream) {
    worker.buffers.put_back(down.buffer);
}
