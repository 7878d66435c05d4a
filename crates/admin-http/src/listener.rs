//! axum routes behind hyper, with bounds on connections and on how long a client may take.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::body::Body;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::places::{Busy, ConnectionSlot, Places};

/// What a client may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Open connections. For a further one the connection is closed that has had no request for the longest time; while all have one, it waits.
    pub connections: usize,
    /// Time for a request's head to arrive, counted from when the connection last had nothing to do.
    pub head_or_idle: Duration,
}

/// Where the connection of a request came in; in the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct LocalAddress(pub SocketAddr);

/// Bytes of a request's head.
pub const HEAD: usize = 16 * 1024;
/// How long requests in flight may take after the shutdown.
const FAREWELL: Duration = Duration::from_secs(1);
/// Pause after a failed accept: without a free descriptor the next one fails at once too.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `shutdown` completes.
pub async fn serve(listener: TcpListener, router: Router, bounds: Bounds, shutdown: impl Future<Output = ()>) {
    let places = Places::new(bounds.connections);
    let (close, closing) = watch::channel(());
    let accepting = async {
        loop {
            let stream = accept(&listener).await;
            let place = Arc::new(places.take().await);
            tokio::spawn(connection(stream, router.clone(), bounds, place, closing.clone()));
        }
    };
    tokio::select! {
        () = accepting => {}
        () = shutdown => {}
    }
    drop((listener, closing));
    close.send_replace(());
    // Every connection holds a receiver.
    let _ = tokio::time::timeout(FAREWELL, close.closed()).await;
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!("accept failed, trying again: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    bounds: Bounds,
    place: Arc<ConnectionSlot>,
    mut closing: watch::Receiver<()>,
) {
    let Ok(local) = stream.local_addr() else { return };
    // Small responses in several pieces (events of a stream) must not wait for one another.
    let _ = stream.set_nodelay(true);
    // A client that does not read its response holds one of few connections: the system closes it after the time that an idle one has.
    let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(bounds.head_or_idle));
    let service = service(router, LocalAddress(local), place.clone(), bounds.head_or_idle);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_or_idle)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        // Before the connection: a response that is ready just now says `Connection: close`.
        _ = closing.changed() => connection.as_mut().graceful_shutdown(),
        // How a client's connection ends is its own affair.
        _ = connection.as_mut() => return,
        () = place.dismissed() => {
            connection.as_mut().graceful_shutdown();
            // What was responded is on its way; a head that is not complete never will be.
            let _ = tokio::time::timeout(PAUSE, connection).await;
            return;
        }
    }
    let _ = connection.await;
}

/// The router as hyper wants it, with the local address added to each request, and a bound on how long its body may stall. The connection keeps its
/// place until the response has been sent.
fn service(
    router: Router,
    local: LocalAddress,
    place: Arc<ConnectionSlot>,
    stall: Duration,
) -> impl hyper::service::Service<
    hyper::Request<hyper::body::Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future: Send,
> {
    let router = TowerToHyperService::new(router);
    hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(local);
        let busy = place.begin();
        let request = request.map(|body| axum::body::Body::new(BoundedBody::new(body, stall)));
        let response = hyper::service::Service::call(&router, request);
        async move {
            let response = response.await?;
            Ok(response.map(|body| axum::body::Body::new(HeldBody { body, _busy: busy })))
        }
    })
}

/// A response's body, while which is being sent its request is in flight.
struct HeldBody {
    body: axum::body::Body,
    _busy: Busy,
}

impl Body for HeldBody {
    type Data = axum::body::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<axum::body::Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

/// A request's body that must not stall: hyper bounds the time for a head only, and a client that sends half a body would keep a connection without limit.
struct BoundedBody<B> {
    body: B,
    /// Longest time between two pieces.
    stall: Duration,
    sleep: Pin<Box<tokio::time::Sleep>>,
}

impl<B> BoundedBody<B> {
    fn new(body: B, stall: Duration) -> Self {
        BoundedBody { body, stall, sleep: Box::pin(tokio::time::sleep(stall)) }
    }
}

impl<B: Body<Error = hyper::Error> + Unpin> Body for BoundedBody<B> {
    type Data = B::Data;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<B::Data>, io::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let due = tokio::time::Instant::now() + self.stall;
            self.sleep.as_mut().reset(due);
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
