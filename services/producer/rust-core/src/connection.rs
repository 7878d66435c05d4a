//! A connection that waits for its client within limits: the timeouts that hyper has not, or that it counts differently from the
//! servers of the other four services (hyper's own timeout for a head includes the idle time before it).
//!
//! ```text
//! accepted ──> Head ──(request: head complete)──> Busy ──(response made)──> Idle ──(first byte of the next head)──> Head
//! ```
//!
//! `Head` and `Idle` have a deadline, after which a read fails and hyper closes the connection. `Busy` has none: body and work have
//! timeouts of their own. A gRPC connection is in `Head` until its HTTP/2 preface is complete, and then in `Busy` for good.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{
    Router,
    extract::Request,
    response::Response,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep, sleep_until},
};
use tower::Service;

use crate::settings::Settings;

/// The least that a client's HTTP/2 preface has: its 24 bytes and a SETTINGS frame (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24 + 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Busy,
    Idle,
}

/// What the socket and the service of a connection tell each other.
#[derive(Debug)]
struct Progress {
    head: Duration,
    idle: Duration,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    phase: Phase,
    deadline: Option<Instant>,
    /// The task that waits for a read. After a response hyper does not read again as long as the read before has not ended: it has to be
    /// woken, so that it sees the new deadline.
    reader: Option<Waker>,
}

impl Progress {
    fn enter(&self, phase: Phase) {
        let deadline = match phase {
            Phase::Head => Some(Instant::now() + self.head),
            Phase::Busy => None,
            Phase::Idle => Some(Instant::now() + self.idle),
        };
        let mut now = self.now();
        now.phase = phase;
        now.deadline = deadline;
        if phase == Phase::Idle
            && let Some(reader) = now.reader.take()
        {
            reader.wake();
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The deadline of a read that waits.
    fn deadline(&self, cx: &Context<'_>) -> Option<Instant> {
        let mut now = self.now();
        match &mut now.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        now.deadline
    }
}

/// A socket whose reads fail once a deadline has passed.
#[derive(Debug)]
pub struct TimedStream {
    stream: TcpStream,
    progress: Arc<Progress>,
    /// Bytes of an HTTP/2 preface that are still to come.
    preface_left: usize,
    timer: Pin<Box<Sleep>>,
}

impl TimedStream {
    /// A connection whose requests are those of HTTP/1.1.
    fn http1(stream: TcpStream, settings: &Settings) -> Self {
        // A socket that disconnected says so at its next read.
        let _ = stream.set_nodelay(true);
        let deadline = Instant::now() + settings.head_timeout;
        let now = Mutex::new(Now { phase: Phase::Head, deadline: Some(deadline), reader: None });
        let progress = Progress { head: settings.head_timeout, idle: settings.idle_timeout, now };
        let timer = Box::pin(sleep_until(deadline));
        Self { stream, progress: Arc::new(progress), preface_left: 0, timer }
    }

    /// A connection that begins with the preface of HTTP/2.
    #[must_use]
    pub fn http2(stream: TcpStream, settings: &Settings) -> Self {
        Self { preface_left: PREFACE_BYTES, ..Self::http1(stream, settings) }
    }

    /// The socket.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    fn note_read(&mut self, bytes: usize) {
        if self.preface_left > 0 {
            self.preface_left = self.preface_left.saturating_sub(bytes);
            if self.preface_left == 0 {
                self.progress.enter(Phase::Busy);
            }
        } else if bytes > 0 && self.progress.now().phase == Phase::Idle {
            self.progress.enter(Phase::Head);
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if let Poll::Ready(result) = Pin::new(&mut self.stream).poll_read(cx, buf) {
            self.note_read(buf.filled().len() - before);
            return Poll::Ready(result);
        }
        let Some(deadline) = self.progress.deadline(cx) else { return Poll::Pending };
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        self.timer.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Accepts connections for [`TimedRouter`].
#[derive(Debug)]
pub struct TimedListener {
    listener: TcpListener,
    settings: Settings,
}

impl TimedListener {
    /// Accepts from `listener`, with the timeouts of `settings`.
    #[must_use]
    pub fn new(listener: TcpListener, settings: &Settings) -> Self {
        Self { listener, settings: settings.clone() }
    }
}

impl Listener for TimedListener {
    type Io = TimedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // Axum's own: it logs an error and goes on after a while.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (TimedStream::http1(stream, &self.settings), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A router that tells each connection when a request begins and ends.
#[derive(Clone, Debug)]
pub struct TimedRouter(pub Router);

impl<'a> Service<IncomingStream<'a, TimedListener>> for TimedRouter {
    type Response = TimedConnection;
    type Error = Infallible;
    type Future = std::future::Ready<Result<TimedConnection, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, stream: IncomingStream<'a, TimedListener>) -> Self::Future {
        let progress = stream.io().progress.clone();
        std::future::ready(Ok(TimedConnection { router: self.0.clone(), progress }))
    }
}

/// The service of one connection.
#[derive(Clone, Debug)]
pub struct TimedConnection {
    router: Router,
    progress: Arc<Progress>,
}

impl Service<Request> for TimedConnection {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.progress.enter(Phase::Busy);
        let (response, progress) = (self.router.call(request), self.progress.clone());
        Box::pin(async move {
            let response = response.await;
            progress.enter(Phase::Idle);
            response
        })
    }
}
