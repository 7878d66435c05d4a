//! HTTP/2 on the `h2` crate, with prior knowledge, or over TLS with ALPN (RFC 9113 section 3). A slot is a stream; so many of them share a
//! connection. Bytes are counted as those of fields before compression, and of bodies.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
use super::recorder::{Failure, Response, SentBytes};
use super::stream::Stream;
use super::{Answer, Transport, TransportError};
use crate::load::grpc::Method as Grpc;
use crate::load::prepare::{Authority, Body, Operation, Prepared, Secure};
use crate::load::template::Escape;

/// Room for bodies: a stream's and a connection's window (RFC 9113 section 5.2). Large, so that the generator is never what holds a server up.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 256 << 20;

/// Most bytes of a response that are kept for captures.
const KEEP: usize = 16 * 1024 * 1024;

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
    /// The request was handed over at this time and has so many bytes.
    Sent(u64, SentBytes),
    Failed(Failure),
    Answered(Box<Answered>),
}

#[derive(Debug)]
struct Answered {
    response: Response,
    fields: HeaderMap,
    body: Vec<u8>,
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
        })
    }

    fn handle(&mut self, pacer: &mut Pacer<'_>, slot: u32, event: Event) {
        match event {
            Event::Connected(took) => pacer.connected(slot, took),
            Event::Handshaken(took, negotiated) => pacer.handshaken(slot, took, &negotiated),
            Event::TlsError(reason) => pacer.note_tls_error(slot, || reason),
            Event::Sent(at, bytes) => pacer.sent(slot, at, bytes),
            Event::Failed(failure) => {
                self.tasks[slot as usize] = None;
                pacer.failed(slot, failure);
            }
            Event::Answered(answer) => {
                self.tasks[slot as usize] = None;
                if !pacer.operation(slot).captures.is_empty() {
                    let header = |name: &str| answer.fields.get(name).map(HeaderValue::as_bytes);
                    pacer.capture(slot, header, &answer.body);
                }
                let field = |name: &str| answer.fields.get(name).map(HeaderValue::as_bytes);
                let marked = pacer.prepared.mark.as_ref().is_some_and(|mark| mark.is_in(field(&mark.header)));
                if pacer.answered(slot, &Response { marked, ..answer.response }) {
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
        let (request, text) = make(operation, authority, pacer.draw(slot));
        let body = text.map(Bytes::from).or_else(|| self.files[number].clone());
        let head = operation.method_name.len() + request.uri().to_string().len() + field_bytes(request.headers());
        let bodies = body.as_ref().map_or(0, Bytes::len) as u64;
        let bytes = SentBytes { all: head as u64 + bodies, bodies };
        let exchange = Exchange {
            slot,
            generation,
            request,
            bytes,
            body,
            keep_body: operation.wants_body,
            streams: pacer.prepared.event_streams,
            grpc: operation.grpc.clone(),
        };
        let group = (slot / self.streams) as usize;
        let connection = Rc::clone(&self.connections[group * self.authorities + operation.authority]);
        let inbox = Rc::clone(&self.inbox);
        let task = self.local.spawn_local(async move {
            let (slot, generation) = (exchange.slot, exchange.generation);
            let event = match converse(&connection, exchange, &inbox).await {
                Ok(answer) => Event::Answered(Box::new(answer)),
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
async fn converse(connection: &Connection, exchange: Exchange, inbox: &Inbox) -> Result<Answered, Failure> {
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
    let send = async {
        if let Some(body) = exchange.body {
            // A server may respond without having read all: then the response counts.
            let _ = send_body(&mut stream, body).await;
        }
        std::future::pending::<()>().await;
    };
    let receive = async {
        let response = response.await.map_err(|error| kind(&error))?;
        let status = response.status().as_u16();
        let (head, mut stream) = response.into_parts();
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
        let status = match &exchange.grpc {
            Some(method) => method.status(status, &head.headers, trailers.as_ref(), &body).ok_or(Failure::BadReply)?,
            None => status,
        };
        let response = Response { done, status, bytes, marked: false, stream: seen };
        Ok(Answered { response, fields: head.headers, body })
    };
    tokio::select! {
        answer = receive => answer,
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

/// One request on a connection of its own, with its response kept.
pub(crate) fn once(
    operation: &Operation,
    authority: &Authority,
    values: &[Vec<u8>],
    timeout: Duration,
) -> io::Result<Answer> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let (request, text) = make(operation, authority, values);
    let body = text.map(Bytes::from).or_else(|| operation.file().map(|file| Bytes::from_owner(Arc::clone(file))));
    let exchange = async {
        let socket = TcpStream::connect(authority.address).await?;
        socket.set_nodelay(true)?;
        match &authority.secure {
            None => exchange_on(socket, request, body, operation).await,
            Some(secure) => {
                let socket = handshake(socket, secure, secure.config(&mut None)).await.map_err(io::Error::other)?;
                exchange_on(socket, request, body, operation).await
            }
        }
    };
    runtime.block_on(async { tokio::time::timeout(timeout, exchange).await.map_err(io::Error::from)? })
}

/// One request on a new connection.
async fn exchange_on<S: AsyncRead + AsyncWrite + Unpin>(
    socket: S,
    request: Request<()>,
    body: Option<Bytes>,
    operation: &Operation,
) -> io::Result<Answer> {
    let (sender, driver) = windows().handshake::<_, Bytes>(socket).await.map_err(io::Error::other)?;
    let receive = async {
        let mut sender = sender.ready().await.map_err(io::Error::other)?;
        let (response, mut stream) = sender.send_request(request, body.is_none()).map_err(io::Error::other)?;
        let sent = Instant::now();
        let receive = receive(response, sent, operation.grpc.as_deref());
        tokio::pin!(receive);
        if let Some(body) = body {
            // A server may respond without having read all: then the response counts.
            tokio::select! {
                answer = &mut receive => return answer,
                _ = send_body(&mut stream, body) => {}
            }
        }
        receive.await
    };
    tokio::pin!(receive);
    tokio::select! {
        answer = &mut receive => answer,
        // What came before the connection ended is there to be read.
        ended = driver => match ended {
            Ok(()) => receive.await,
            Err(error) => Err(io::Error::other(error)),
        },
    }
}

/// A whole response; the fields of its trailers stand behind those of its head.
async fn receive(response: h2::client::ResponseFuture, sent: Instant, grpc: Option<&Grpc>) -> io::Result<Answer> {
    let (head, mut stream) = response.await.map_err(io::Error::other)?.into_parts();
    let field = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let (mut body, mut arrived) = (Vec::new(), Vec::new());
    while let Some(data) = stream.data().await {
        let data = data.map_err(io::Error::other)?;
        let _ = stream.flow_control().release_capacity(data.len());
        body.extend_from_slice(&data);
        arrived.push((sent.elapsed(), body.len()));
    }
    let trailers = stream.trailers().await.map_err(io::Error::other)?;
    let status = head.status.as_u16();
    let status = match grpc {
        None => status,
        Some(method) => method
            .status(status, &head.headers, trailers.as_ref(), &body)
            .ok_or_else(|| io::Error::other("the response is not one of gRPC"))?,
    };
    let headers = head.headers.iter().chain(trailers.iter().flatten()).map(field).collect();
    Ok(Answer { status, headers, body, arrived })
}

fn windows() -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW).enable_push(false);
    builder
}

/// Sends a body as the windows allow.
async fn send_body(stream: &mut h2::SendStream<Bytes>, mut body: Bytes) -> Result<(), h2::Error> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let room = match std::future::poll_fn(|context| stream.poll_capacity(context)).await {
            Some(room) => room?,
            None => return Ok(()),
        };
        let piece = body.split_to(room.min(body.len()));
        stream.send_data(piece, body.is_empty())?;
    }
    Ok(())
}

fn kind(error: &h2::Error) -> Failure {
    if error.is_io() || error.is_remote() || error.is_go_away() { Failure::Reset } else { Failure::BadReply }
}

/// The violation of TLS that broke the connection, if that did. `h2` keeps the kind and the text of errors of its socket.
fn tls_error(error: &h2::Error) -> Option<String> {
    error.get_io().filter(|error| error.kind() == io::ErrorKind::InvalidData).map(ToString::to_string)
}

/// As counted in HPACK's terms, before compression: names and values.
fn field_bytes(fields: &HeaderMap) -> usize {
    fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// Makes the request, and its body where that is text. What HTTP/2 has no place for is left out: the checks of preparation have
/// refused what could not be written.
fn make(operation: &Operation, authority: &Authority, values: &[Vec<u8>]) -> (Request<()>, Option<Vec<u8>>) {
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
    let text = match &operation.body {
        Body::Text(text, json) => {
            let mut body = Vec::new();
            text.fill(&mut body, values, if *json { Escape::Json } else { Escape::None });
            Some(body).filter(|body| !body.is_empty())
        }
        Body::None | Body::File(_) => None,
    };
    (request, text)
}
