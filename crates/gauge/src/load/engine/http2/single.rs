//! Single requests, outside of the load: each on a connection of its own, with its response kept.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderName, HeaderValue, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

use super::{body_of, handshake, head_of, send, windows};
use crate::load::engine::Fetched;
use crate::load::grpc::Method as Grpc;
use crate::load::prepare::{Authority, Operation};

/// What moves the bytes of a connection, until it ends.
type Driver = Pin<Box<dyn Future<Output = Result<(), h2::Error>>>>;

/// A connection outside of the load.
pub(crate) async fn connect(authority: &Authority) -> io::Result<(SendRequest<Bytes>, Driver)> {
    let socket = TcpStream::connect(authority.address).await?;
    socket.set_nodelay(true)?;
    match &authority.secure {
        None => begin(socket).await,
        Some(secure) => {
            let socket = handshake(socket, secure, secure.config(&mut None)).await.map_err(io::Error::other)?;
            begin(socket).await
        }
    }
}

async fn begin<S: AsyncRead + AsyncWrite + Unpin + 'static>(socket: S) -> io::Result<(SendRequest<Bytes>, Driver)> {
    let (sender, driver) = windows().handshake::<_, Bytes>(socket).await.map_err(io::Error::other)?;
    Ok((sender, Box::pin(driver)))
}

/// One request on a connection of its own, with its response kept.
pub(crate) fn once(
    operation: &Operation,
    authority: &Authority,
    values: &[Vec<u8>],
    timeout: Duration,
) -> io::Result<Fetched> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let request = head_of(operation, authority, values);
    // Of a stream the first message, which is then its last.
    let body = body_of(operation, values).map_err(io::Error::other)?;
    let body = body.or_else(|| operation.file().map(|file| Bytes::from_owner(Arc::clone(file))));
    let exchange = async {
        let (sender, driver) = connect(authority).await?;
        exchange_on(sender, driver, request, body, operation).await
    };
    runtime.block_on(async { tokio::time::timeout(timeout, exchange).await.map_err(io::Error::from)? })
}

/// One request on a new connection.
async fn exchange_on(
    sender: SendRequest<Bytes>,
    driver: Driver,
    request: Request<()>,
    body: Option<Bytes>,
    operation: &Operation,
) -> io::Result<Fetched> {
    let receive = async {
        let mut sender = sender.ready().await.map_err(io::Error::other)?;
        let (response, mut stream) = sender.send_request(request, body.is_none()).map_err(io::Error::other)?;
        let sent = Instant::now();
        let receive = receive(response, sent, operation.grpc.as_deref());
        tokio::pin!(receive);
        if let Some(body) = body {
            // A server may respond without having read all: then the response counts.
            tokio::select! {
                completed = &mut receive => return completed,
                _ = send(&mut stream, body, true) => {}
            }
        }
        receive.await
    };
    tokio::pin!(receive);
    tokio::select! {
        completed = &mut receive => completed,
        // What came before the connection ended is there to be read.
        ended = driver => match ended {
            Ok(()) => receive.await,
            Err(error) => Err(io::Error::other(error)),
        },
    }
}

/// A whole response; the fields of its trailers stand behind those of its head.
async fn receive(response: h2::client::ResponseFuture, sent: Instant, grpc: Option<&Grpc>) -> io::Result<Fetched> {
    let (head, mut stream) = response.await.map_err(io::Error::other)?.into_parts();
    let is_complete = stream.is_end_stream();
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
    let end = if is_complete { Some(&head.headers) } else { trailers.as_ref() };
    let status = match grpc {
        None => status,
        Some(method) if method.returns_stream => Grpc::stream_status(status, &head.headers, end),
        Some(method) => method
            .status(status, &head.headers, end, &body)
            .ok_or_else(|| io::Error::other("the response is not one of gRPC"))?,
    };
    let headers = head.headers.iter().chain(trailers.iter().flatten()).map(field).collect();
    Ok(Fetched { status, headers, body, arrived })
}
