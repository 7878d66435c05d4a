//! HTTP/2 on the `h2` crate, with prior knowledge, or over TLS with ALPN (RFC 9113 section 3). A slot is a stream; so many of them share a
//! connection. Bytes are counted as those of fields before compression, and of bodies.

mod call;
mod single;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use tls::{ClientConfig, Negotiated, TlsStream};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, Notify};
use tokio::task::{AbortHandle, LocalSet};

use super::clock::{self, Timer};
use super::pacer::Pacer;
use super::recorder::{CallStream, Failure, Response, SentBytes};
use super::stream::Stream;
use super::{Transport, TransportError};
use crate::load::grpc::{self, Method as Grpc};
use crate::load::prepare::{Authority, Body, Operation, Prepared, Secure, json};
use crate::load::template::Escape;
pub(crate) use single::{connect, once};

/// Room for bodies: a stream's and a connection's window (RFC 9113 section 5.2). Large, so that the generator is never what holds a server up.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 256 << 20;

/// Most bytes of a response that are kept for captures: as many as the longest message of gRPC has, with its prefix.
const KEEP: usize = (64 << 20) + 5;

/// The streams of one thread.
pub(crate) struct Http2 {
    runtime: Runtime,
    local: LocalSet,
    timer: AsyncFd<Timer>,
    spin: u64,
    /// One for each group of slots and authority.
    connections: Vec<Rc<Connection>>,
    streams: u32,
    authorities: usize,
    tasks: Vec<Option<AbortHandle>>,
    /// Counts a slot's requests, so that what an aborted one left behind is distinguished.
    generations: Vec<u32>,
    inbox: Rc<Inbox>,
    /// The bodies from files, by operation.
    files: Vec<Option<Bytes>>,
    /// The requests without values, by operation.
    heads: Vec<Option<Head>>,
}

/// A request without its body.
#[derive(Debug, Clone)]
struct Head {
    request: Request<()>,
    /// As counted.
    bytes: u64,
}

impl Head {
    fn new(operation: &Operation, authority: &Authority, values: &[Vec<u8>]) -> Self {
        let request = head_of(operation, authority, values);
        let bytes = operation.method_name.len() + request.uri().to_string().len() + field_bytes(request.headers());
        Head { request, bytes: bytes as u64 }
    }
}

/// What tasks tell the thread.
#[derive(Debug, Default)]
struct Inbox {
    events: RefCell<VecDeque<(u32, u32, Event)>>,
    news: Notify,
}

#[derive(Debug)]
enum Event {
    /// A connection was opened; it took so long.
    Connected(u64),
    /// Its handshake took so long.
    Handshaken(u64, Negotiated),
    /// Why the request is about to fail as [`Failure::Tls`].
    TlsError(String),
    /// Why the call of gRPC is about to fail.
    GrpcError(String),
    /// The request was handed over at this time and has so many bytes.
    Sent(u64, SentBytes),
    Failed(Failure),
    Completed(Box<Completed>),
}

#[derive(Debug)]
struct Completed {
    response: Response,
    fields: HeaderMap,
    body: Vec<u8>,
    /// Of gRPC, where the status is another than OK: why.
    why: Option<String>,
    /// Of a stream of gRPC.
    stream: Option<CallStream>,
}

impl Inbox {
    fn tell(&self, slot: u32, generation: u32, event: Event) {
        self.events.borrow_mut().push_back((slot, generation, event));
        self.news.notify_one();
    }
}

#[derive(Debug)]
struct Connection {
    authority: Authority,
    /// The configuration of connections that resume sessions.
    own_config: RefCell<Option<Arc<ClientConfig>>>,
    /// Held while it is being opened.
    sender: Mutex<Option<SendRequest<Bytes>>>,
}

/// A request, made, and what to look at in its response.
struct Exchange {
    slot: u32,
    generation: u32,
    request: Request<()>,
    /// As counted: fields and body.
    bytes: SentBytes,
    body: Option<Bytes>,
    /// The messages behind the first, where a call has several.
    more: Vec<Bytes>,
    keep_body: bool,
    streams: bool,
    grpc: Option<Arc<Grpc>>,
}

impl Http2 {
    pub(crate) fn new(prepared: &Prepared, slots: usize, streams: u32, spin: u64) -> Result<Self, TransportError> {
        let failed = |error| TransportError::new("runtime", error);
        let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let timer = {
            let _entered = runtime.enter();
            let timer = Timer::new().map_err(|error| TransportError::new("timerfd", error))?;
            #[expect(
                deprecated,
                reason = "its successor is unsafe for types that may replace their descriptor; this one never does"
            )]
            AsyncFd::with_interest(timer, tokio::io::Interest::READABLE).map_err(failed)?
        };
        let groups = slots.div_ceil(streams.max(1) as usize);
        let connections = (0..groups * prepared.authorities.len()).map(|index| {
            let authority = prepared.authorities[index % prepared.authorities.len()].clone();
            Rc::new(Connection { authority, own_config: RefCell::default(), sender: Mutex::new(None) })
        });
        let file = |operation: &Operation| operation.file().map(|file| Bytes::from_owner(Arc::clone(file)));
        let head = |operation: &Operation| {
            let is_fixed = operation.target.is_fixed() && operation.headers.iter().all(|(_, value)| value.is_fixed());
            is_fixed.then(|| Head::new(operation, &prepared.authorities[operation.authority], &[]))
        };
        Ok(Http2 {
            connections: connections.collect(),
            runtime,
            local: LocalSet::new(),
            timer,
            spin,
            streams: streams.max(1),
            authorities: prepared.authorities.len(),
            tasks: vec![None; slots],
            generations: vec![0; slots],
            inbox: Rc::default(),
            files: prepared.operations.iter().map(file).collect(),
            heads: prepared.operations.iter().map(head).collect(),
        })
    }

    /// The messages behind the first one of a call, each with values of its own.
    fn more(&self, pacer: &mut Pacer<'_>, slot: u32, operation: &Operation) -> Result<Vec<Bytes>, String> {
        let count = operation.grpc.as_ref().map_or(1, |method| method.messages);
        (1..count).map(|_| body_of(operation, pacer.draw(slot)).map(Option::unwrap_or_default)).collect()
    }

    fn handle(&mut self, pacer: &mut Pacer<'_>, slot: u32, event: Event) {
        match event {
            Event::Connected(took) => pacer.connected(slot, took),
            Event::Handshaken(took, negotiated) => pacer.handshaken(slot, took, &negotiated),
            Event::TlsError(reason) => pacer.note_tls_error(slot, || reason),
            Event::GrpcError(reason) => pacer.note_grpc_error(slot, reason),
            Event::Sent(at, bytes) => pacer.sent(slot, at, bytes),
            Event::Failed(failure) => {
                self.tasks[slot as usize] = None;
                pacer.failed(slot, failure);
            }
            Event::Completed(completed) => {
                self.tasks[slot as usize] = None;
                let is_short = completed.stream.as_ref().is_some_and(|stream| stream.is_short);
                if let Some(why) = completed.why
                    && (is_short || !pacer.operation(slot).expect.contains(completed.response.status))
                {
                    pacer.note_grpc_error(slot, why);
                }
                if let Some(stream) = &completed.stream {
                    pacer.stream_ended(slot, stream);
                }
                if is_short {
                    pacer.failed(slot, Failure::InvalidResponse);
                    return;
                }
                if !pacer.operation(slot).captures.is_empty() {
                    let header = |name: &str| completed.fields.get(name).map(HeaderValue::as_bytes);
                    pacer.capture(slot, header, &completed.body);
                }
                let field = |name: &str| completed.fields.get(name).map(HeaderValue::as_bytes);
                let marked = pacer.prepared.mark.as_ref().is_some_and(|mark| mark.is_in(field(&mark.header)));
                if pacer.responses(slot, &Response { marked, ..completed.response }) {
                    self.start(pacer, slot);
                }
            }
        }
    }
}

impl Transport for Http2 {
    fn start(&mut self, pacer: &mut Pacer<'_>, slot: u32) {
        let operation = pacer.operation(slot);
        let authority = pacer.authority(slot);
        let number = pacer.slots[slot as usize].operation;
        let generation = self.generations[slot as usize].wrapping_add(1);
        self.generations[slot as usize] = generation;
        // What making a message takes is counted for calls of gRPC only.
        let since = operation.grpc.is_some().then(clock::now);
        let values = pacer.draw(slot);
        let head = self.heads[number].clone().unwrap_or_else(|| Head::new(operation, authority, values));
        let made = body_of(operation, values).and_then(|body| Ok((body, self.more(pacer, slot, operation)?)));
        let (body, more) = match made {
            Ok((body, more)) => (body.or_else(|| self.files[number].clone()), more),
            Err(reason) => {
                pacer.note_grpc_error(slot, reason);
                pacer.failed(slot, Failure::Unsent);
                return;
            }
        };
        if let Some(since) = since {
            pacer.made(slot, since);
        }
        let bodies = body.iter().chain(&more).map(Bytes::len).sum::<usize>() as u64;
        let bytes = SentBytes { all: head.bytes + bodies, bodies };
        let exchange = Exchange {
            slot,
            generation,
            request: head.request,
            bytes,
            body,
            more,
            keep_body: operation.wants_body,
            streams: pacer.prepared.event_streams,
            grpc: operation.grpc.clone(),
        };
        let group = (slot / self.streams) as usize;
        let connection = Rc::clone(&self.connections[group * self.authorities + operation.authority]);
        let inbox = Rc::clone(&self.inbox);
        let task = self.local.spawn_local(async move {
            let (slot, generation) = (exchange.slot, exchange.generation);
            let event = match serve(&connection, exchange, &inbox).await {
                Ok(completed) => Event::Completed(Box::new(completed)),
                Err(failure) => Event::Failed(failure),
            };
            inbox.tell(slot, generation, event);
        });
        self.tasks[slot as usize] = Some(task.abort_handle());
    }

    fn wait(&mut self, pacer: &mut Pacer<'_>, until: u64) -> Result<(), TransportError> {
        let failed = |error| TransportError::new("timerfd", error);
        let asleep = until.saturating_sub(self.spin);
        let sleeps = asleep > clock::now();
        if sleeps {
            self.timer.get_mut().arm(asleep).map_err(failed)?;
        }
        let (timer, inbox) = (&self.timer, &self.inbox);
        self.runtime.block_on(self.local.run_until(async {
            if sleeps {
                tokio::select! {
                    biased;
                    () = inbox.news.notified() => {}
                    ready = timer.readable() => if let Ok(mut ready) = ready { ready.clear_ready() },
                }
            } else {
                // Everything that can go on does, once.
                tokio::task::yield_now().await;
            }
        }));
        // Taken out: handling an event begins the next request, whose task may tell of it at once.
        let events = std::mem::take(&mut *self.inbox.events.borrow_mut());
        for (slot, generation, event) in events {
            if self.generations[slot as usize] == generation {
                self.handle(pacer, slot, event);
            }
        }
        Ok(())
    }

    fn sweep(&mut self, pacer: &mut Pacer<'_>, now: u64) {
        for slot in 0..pacer.slots.len() as u32 {
            if pacer.has_timed_out(slot, now) {
                if let Some(task) = self.tasks[slot as usize].take() {
                    // The stream is reset when its handles are dropped.
                    task.abort();
                }
                self.generations[slot as usize] = self.generations[slot as usize].wrapping_add(1);
                pacer.failed(slot, Failure::Timeout);
            }
        }
    }
}

/// Sends one request and reads its response.
async fn serve(connection: &Connection, exchange: Exchange, inbox: &Inbox) -> Result<Completed, Failure> {
    let mut sender = ready(connection, &exchange, inbox).await?;
    let at = clock::now();
    let (slot, generation) = (exchange.slot, exchange.generation);
    let kind = |error: &h2::Error| {
        let broken = connection.authority.secure.as_ref().zip(tls_error(error));
        let Some((secure, error)) = broken else { return kind(error) };
        inbox.tell(slot, generation, Event::TlsError(secure.reason_of_text(&error)));
        Failure::Tls
    };
    let (response, mut stream) =
        sender.send_request(exchange.request, exchange.body.is_none()).map_err(|error| kind(&error))?;
    inbox.tell(exchange.slot, exchange.generation, Event::Sent(at, exchange.bytes));
    if let Some(method) = exchange.grpc.as_deref().filter(|method| method.is_stream()) {
        let messages = exchange.body.into_iter().chain(exchange.more);
        let failed = |failure| {
            let (failure, reason) = match failure {
                call::Broken::Connection(error) => (kind(&error), None),
                call::Broken::Message(reason) => (Failure::InvalidResponse, Some(reason)),
            };
            reason.into_iter().for_each(|reason| inbox.tell(slot, generation, Event::GrpcError(reason)));
            failure
        };
        return call::stream(method, response, stream, messages, exchange.keep_body).await.map_err(failed);
    }
    let send = async {
        if let Some(body) = exchange.body {
            // A server may respond without having read all: then the response counts.
            let _ = self::send(&mut stream, body, true).await;
        }
        std::future::pending::<()>().await;
    };
    let receive = async {
        let response = response.await.map_err(|error| kind(&error))?;
        let status = response.status().as_u16();
        let (head, mut stream) = response.into_parts();
        let is_complete = stream.is_end_stream();
        let mut bytes = field_bytes(&head.headers) as u64;
        let (mut body, mut seen) = (Vec::new(), exchange.streams.then(Stream::default));
        while let Some(data) = stream.data().await {
            let data = data.map_err(|error| kind(&error))?;
            bytes += data.len() as u64;
            if let Some(stream) = &mut seen {
                let before = stream.events;
                stream.data(&data);
                stream.read(before);
            }
            let _ = stream.flow_control().release_capacity(data.len());
            if exchange.keep_body && body.len() < KEEP {
                body.extend_from_slice(&data);
            }
        }
        let trailers = stream.trailers().await.map_err(|error| kind(&error))?;
        bytes += trailers.as_ref().map_or(0, field_bytes) as u64;
        let done = clock::now();
        let (status, why) = match &exchange.grpc {
            Some(method) => {
                let end = if is_complete { Some(&head.headers) } else { trailers.as_ref() };
                let Some(status) = method.status(status, &head.headers, end, &body) else {
                    inbox.tell(slot, generation, Event::GrpcError("OK without exactly one valid message".to_owned()));
                    return Err(Failure::InvalidResponse);
                };
                let why = (status != grpc::OK).then(|| method.why(status, &head.headers, end));
                (status, why)
            }
            None => (status, None),
        };
        let response = Response { done, status, bytes, marked: false, stream: seen };
        Ok(Completed { response, fields: head.headers, body, why, stream: None })
    };
    tokio::select! {
        completed = receive => completed,
        () = send => unreachable!("it never completes"),
    }
}

/// A handle of an open connection that takes another stream.
async fn ready(connection: &Connection, exchange: &Exchange, inbox: &Inbox) -> Result<SendRequest<Bytes>, Failure> {
    let known = connection.sender.lock().await.clone();
    if let Some(sender) = known
        && let Ok(sender) = sender.ready().await
    {
        return Ok(sender);
    }
    let mut place = connection.sender.lock().await;
    // Another stream of the group may have opened it meanwhile.
    if let Some(sender) = place.clone()
        && let Ok(sender) = sender.ready().await
    {
        return Ok(sender);
    }
    let sender = open(connection, exchange, inbox).await?;
    *place = Some(sender.clone());
    sender.ready().await.map_err(|_| Failure::Connect)
}

/// Opens a connection, with its handshake.
async fn open(connection: &Connection, exchange: &Exchange, inbox: &Inbox) -> Result<SendRequest<Bytes>, Failure> {
    let tell = |event| inbox.tell(exchange.slot, exchange.generation, event);
    let begun = clock::now();
    let socket = TcpStream::connect(connection.authority.address).await.map_err(|_| Failure::Connect)?;
    socket.set_nodelay(true).map_err(|_| Failure::Connect)?;
    let opened = clock::now();
    tell(Event::Connected(opened.saturating_sub(begun)));
    let Some(secure) = &connection.authority.secure else { return drive(socket).await };
    let config = secure.config(&mut connection.own_config.borrow_mut());
    match handshake(socket, secure, config).await {
        Ok(socket) => {
            tell(Event::Handshaken(clock::now().saturating_sub(opened), socket.negotiated()));
            drive(socket).await
        }
        Err(reason) => {
            tell(Event::TlsError(reason));
            Err(Failure::Tls)
        }
    }
}

/// Begins HTTP/2 on a socket, and leaves the connection to a task.
async fn drive<S: AsyncRead + AsyncWrite + Unpin + 'static>(socket: S) -> Result<SendRequest<Bytes>, Failure> {
    let (sender, driver) = windows().handshake::<_, Bytes>(socket).await.map_err(|_| Failure::Connect)?;
    tokio::task::spawn_local(async move {
        // Its streams hear of the end themselves.
        let _ = driver.await;
    });
    Ok(sender)
}

/// A handshake of TLS that selects HTTP/2. An error is a reason in words.
async fn handshake(
    socket: TcpStream,
    secure: &Secure,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, String> {
    let socket = tls::connect(socket, config, secure.name.clone()).await.map_err(|error| secure.reason(&error))?;
    match secure.mismatch(&socket.negotiated()) {
        Some(mismatch) => Err(mismatch),
        None => Ok(socket),
    }
}

fn windows() -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW).enable_push(false);
    builder
}

/// Sends a part of a body as the windows allow; the last ends the stream.
pub(crate) async fn send(stream: &mut h2::SendStream<Bytes>, mut body: Bytes, last: bool) -> Result<(), h2::Error> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let room = match std::future::poll_fn(|context| stream.poll_capacity(context)).await {
            Some(room) => room?,
            None => return Err(h2::Reason::CANCEL.into()),
        };
        let piece = body.split_to(room.min(body.len()));
        stream.send_data(piece, last && body.is_empty())?;
    }
    Ok(())
}

fn kind(error: &h2::Error) -> Failure {
    if error.is_io() || error.is_remote() || error.is_go_away() { Failure::Reset } else { Failure::InvalidResponse }
}

/// The violation of TLS that broke the connection, if that did. `h2` keeps the kind and the text of errors of its socket.
fn tls_error(error: &h2::Error) -> Option<String> {
    error.get_io().filter(|error| error.kind() == io::ErrorKind::InvalidData).map(ToString::to_string)
}

/// As counted in HPACK's terms, before compression: names and values.
fn field_bytes(fields: &HeaderMap) -> usize {
    fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// Makes the request without its body. What HTTP/2 has no place for is left out: the checks of preparation have refused what could not be written.
fn head_of(operation: &Operation, authority: &Authority, values: &[Vec<u8>]) -> Request<()> {
    let mut target = if authority.secure.is_some() { b"https://".to_vec() } else { b"http://".to_vec() };
    target.extend_from_slice(authority.name.as_bytes());
    operation.target.fill(&mut target, values, Escape::Percent);
    let mut request = Request::new(());
    *request.version_mut() = http::Version::HTTP_2;
    *request.method_mut() = Method::from_bytes(operation.method_name.as_bytes()).unwrap_or(Method::GET);
    *request.uri_mut() = Uri::try_from(target).unwrap_or_default();
    for (name, value) in &operation.headers {
        let mut text = Vec::new();
        value.fill(&mut text, values, Escape::Field);
        let field = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(&text));
        if let (Ok(name), Ok(value)) = field
            && name != http::header::HOST
        {
            request.headers_mut().append(name, value);
        }
    }
    request
}

/// Makes a body, or a message of gRPC, where it is not a file. The error says why the values make no message.
fn body_of(operation: &Operation, values: &[Vec<u8>]) -> Result<Option<Bytes>, String> {
    let bytes = match (&operation.body, &operation.grpc) {
        (Body::Text(text, json), _) => {
            let mut body = Vec::new();
            text.fill(&mut body, values, if *json { Escape::Json } else { Escape::None });
            body
        }
        (Body::Message(text), Some(method)) => method.encode(&json(text, values)?)?,
        (Body::None | Body::File(_) | Body::Message(_), _) => Vec::new(),
    };
    Ok(Some(Bytes::from(bytes)).filter(|body| !body.is_empty()))
}
