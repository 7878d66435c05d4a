//! HTTP requests that the gateway makes for itself: key sets of issuers, telemetry, registries. What is fetched must not depend on what an
//! earlier request left behind, so each has a connection of its own; only what is sent again and again to one peer keeps its connection.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper::header::HOST;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tls::client::Options;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::Resolver;
use crate::io::capped::{Allowance, Capped, HEADS};

/// What came back.
#[derive(Debug)]
pub struct ClientResponse {
    /// Status and fields.
    pub head: hyper::http::response::Parts,
    /// The body, whole.
    pub body: Bytes,
}

/// Sends a request on a connection of its own and reads its response, of at most `limit` bytes. Redirects are not followed. The caller sets a deadline.
///
/// # Errors
/// Why there is no whole response, with the URL.
pub async fn send(
    request: Request<Full<Bytes>>,
    tls: &Options,
    resolver: &Resolver,
    limit: usize,
) -> Result<ClientResponse, String> {
    let response = PersistentConnection::default().send(request, tls, resolver, limit, None).await?;
    let body = response.body.map_err(|problem| format!("{}: {problem}", response.shown))?;
    Ok(ClientResponse { head: response.head, body })
}

/// A response whose head has come; a status says enough where the body cannot be read.
pub struct Response {
    /// Status and fields.
    pub head: hyper::http::response::Parts,
    /// The body, whole, or why there is none.
    pub body: Result<Bytes, String>,
    /// The URL without its query.
    shown: String,
}

/// A connection to one peer that is kept from one request to the next, for as long as the peer keeps it.
#[derive(Default)]
pub struct PersistentConnection(Option<Connection>);

impl PersistentConnection {
    /// As [`send`], until a deadline at the latest. A request that gets no response on a connection that was kept is sent once more, on a new one:
    /// the peer may have closed it at the same moment. So it has to be one that may arrive twice. All requests go to one peer; if the future is
    /// dropped, the connection is closed.
    ///
    /// # Errors
    /// Why there is no response, with the URL.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        tls: &Options,
        resolver: &Resolver,
        limit: usize,
        until: Option<Instant>,
    ) -> Result<Response, String> {
        let uri = request.uri().clone();
        // A query may hold a credential.
        let shown = uri.to_string();
        let shown = shown.split('?').next().unwrap_or_default();
        let with = |problem: String| format!("{shown}: {problem}");
        let request = in_origin_form(request).map_err(with)?;
        let mut kept = None;
        if let Some(mut connection) = self.0.take()
            && !connection.has_ended().await
        {
            kept = connection.exchange(request.clone(), limit, until).await.ok().map(|response| (connection, response));
        }
        let (mut connection, (head, body)) = match kept {
            Some(both) => both,
            None => {
                let opened = within(until, Connection::open(&uri, tls, resolver)).await;
                let mut connection = opened.and_then(|opened| opened).map_err(with)?;
                let response = connection.exchange(request, limit, until).await.map_err(with)?;
                (connection, response)
            }
        };
        // Behind a body that was not read whole nothing can be read.
        if body.is_ok() && !connection.has_ended().await {
            self.0 = Some(connection);
        }
        Ok(Response { head, body, shown: shown.to_owned() })
    }
}

/// The path in the line of the request, the host in a field.
fn in_origin_form(mut request: Request<Full<Bytes>>) -> Result<Request<Full<Bytes>>, String> {
    let host = request.uri().authority().and_then(|authority| authority.as_str().parse().ok());
    request.headers_mut().extend(host.map(|host| (HOST, host)));
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
    Ok(request)
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Reads and writes. It is polled during a request only: a peer that sends something between two has it read with the next.
    driver: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>,
    allowance: Allowance,
}

impl Connection {
    async fn open(uri: &Uri, tls: &Options, resolver: &Resolver) -> Result<Self, String> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = connect(host, port, resolver).await?;
        if is_tls {
            let config = tls::client::config(tls).map_err(|error| error.to_string())?;
            let name = tls::client::server_name(host)?;
            let stream = tls::connect(stream, config, name).await.map_err(|error| error.to_string())?;
            Connection::over(stream).await
        } else {
            Connection::over(stream).await
        }
    }

    async fn over(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Self, String> {
        let (io, allowance) = Capped::refilled(io);
        let (sender, driver) =
            hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(|error| error.to_string())?;
        Ok(Connection { sender, driver: Box::pin(driver), allowance })
    }

    /// Whether nothing can be sent on it any more.
    async fn has_ended(&mut self) -> bool {
        let ended = poll_fn(|cx| Poll::Ready(self.driver.as_mut().poll(cx).is_ready())).await;
        ended || !self.sender.is_ready()
    }

    /// Not to be used again after an error, of the body too.
    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        limit: usize,
        until: Option<Instant>,
    ) -> Result<HeadAndBody, String> {
        let wrong = |error: hyper::Error| error.to_string();
        // A body in chunks has its sizes among the bytes.
        self.allowance.refill(limit.saturating_mul(2).saturating_add(HEADS));
        let (sender, driver) = (&mut self.sender, &mut self.driver);
        let whole = async move {
            let (head, body) = within(until, sender.send_request(request)).await?.map_err(wrong)?.into_parts();
            let body = within(until, Limited::new(body, limit).collect()).await;
            let body = body.and_then(|body| body.map_err(|error| error.to_string())).map(|body| body.to_bytes());
            Ok((head, body))
        };
        tokio::pin!(whole);
        tokio::select! {
            biased;
            done = &mut whole => done,
            // The response, or its head, may have come with the end.
            ended = driver => whole.await.map_err(|error| ended.err().map_or(error, wrong)),
        }
    }
}

type HeadAndBody = (hyper::http::response::Parts, Result<Bytes, String>);

async fn within<T>(until: Option<Instant>, future: impl Future<Output = T>) -> Result<T, String> {
    match until {
        Some(until) => timeout_at(until, future).await.map_err(|_| "no response before the timeout".to_owned()),
        None => Ok(future.await),
    }
}

async fn connect(host: &str, port: u16, resolver: &Resolver) -> Result<TcpStream, String> {
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => resolver.addresses(host).await?,
    };
    let mut last = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect(SocketAddr::new(address, port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = format!("cannot connect to {address}: {error}"),
        }
    }
    Err(last)
}
