//! HTTP requests that the gateway makes for itself: key sets of issuers, telemetry. One connection for each: they are rare, and what they
//! fetch must not depend on what an earlier one left behind.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::HOST;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tls::client::Options;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::Resolver;
use crate::io::capped::{Capped, HEADS};

/// What came back.
#[derive(Debug)]
pub struct Reply {
    /// Status and fields.
    pub head: hyper::http::response::Parts,
    /// The body, whole.
    pub body: Bytes,
}

/// Sends a request and reads its response, of at most `limit` bytes. Redirects are not followed. The caller sets a deadline.
///
/// # Errors
/// Why there is no whole response, with the URL.
pub async fn send(
    request: Request<Full<Bytes>>,
    tls: &Options,
    resolver: &Resolver,
    limit: usize,
) -> Result<Reply, String> {
    let uri = request.uri().clone();
    // A query may hold a credential.
    let shown = uri.to_string();
    let shown = shown.split('?').next().unwrap_or_default();
    let with = |problem: String| format!("{shown}: {problem}");
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = connect(host, port, resolver).await.map_err(with)?;
    let reply = if is_tls {
        let config = tls::client::config(tls).map_err(|error| with(error.to_string()))?;
        let name = tls::client::server_name(host).map_err(with)?;
        let stream = tls::connect(stream, config, name).await.map_err(|error| with(error.to_string()))?;
        exchange(stream, request, limit).await
    } else {
        exchange(stream, request, limit).await
    };
    reply.map_err(with)
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

async fn exchange(
    io: impl AsyncRead + AsyncWrite + Unpin,
    mut request: Request<Full<Bytes>>,
    limit: usize,
) -> Result<Reply, String> {
    let wrong = |error: hyper::Error| error.to_string();
    // A body in chunks has its sizes among the bytes.
    let most = limit.saturating_mul(2).saturating_add(HEADS);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(Capped::new(io, most)))
            .await
            .map_err(wrong)?;
    let host = request.uri().authority().and_then(|authority| authority.as_str().parse().ok());
    request.headers_mut().extend(host.map(|host| (HOST, host)));
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
    let whole = async move {
        let (head, body) = sender.send_request(request).await.map_err(wrong)?.into_parts();
        let body = Limited::new(body, limit).collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(Reply { head, body })
    };
    tokio::pin!(whole, connection);
    tokio::select! {
        biased;
        done = &mut whole => done,
        // The response may have come with the end.
        ended = &mut connection => match ended {
            Ok(()) => whole.await,
            Err(error) => Err(wrong(error)),
        },
    }
}
