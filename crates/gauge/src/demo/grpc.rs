//! The demonstration over gRPC: the service of `examples/evaluations/grpc.proto` on connections that begin with the preface of HTTP/2. As the upstream of
//! profile checks it takes a call of any method, and says what reached it in JSON instead of a message.

mod streams;

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use serde_json::json;
use tokio::net::TcpStream;

use super::respond::TEXT;
use super::{MOST, Served, probe};
use crate::load::engine::http2::send;

/// `5 not%20found`: the status and the message of a call.
pub(crate) const DO_STATUS: &str = "x-probe-grpc-status";
/// Metadata behind the message, `name: value | name: value`.
pub(crate) const DO_TRAILERS: &str = "x-probe-trailers";
/// The status is in the head, and there is no message.
pub(crate) const DO_TRAILERS_ONLY: &str = "x-probe-trailers-only";

/// UNIMPLEMENTED.
const UNKNOWN_METHOD: &str = "12";
/// Window of a stream; that of a connection is four of them.
const WINDOW: u32 = 4 << 20;
/// Calls at once on a connection.
const STREAMS: u32 = 1000;

/// A message with its prefix: not compressed, and its length.
pub(crate) fn frame(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(message);
    framed
}

/// A connection, call beside call.
pub(super) async fn serve_connection(stream: TcpStream, served: Rc<Served>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(4 * WINDOW).max_concurrent_streams(STREAMS);
    let mut connection = builder.handshake::<_, Bytes>(stream).await.map_err(io::Error::other)?;
    while let Some(call) = connection.accept().await {
        let (request, respond) = call.map_err(io::Error::other)?;
        let served = Rc::clone(&served);
        // A client that cancels a call is no failure of this server.
        tokio::task::spawn_local(async move { drop(serve_call(request, respond, &served).await) });
    }
    Ok(())
}

/// What a call ends with.
#[derive(Debug, Default)]
struct GrpcResponse {
    message: Option<Vec<u8>>,
    status: String,
    /// Percent-encoded.
    detail: Option<String>,
    head: Vec<(String, String)>,
    trailers: Vec<(String, String)>,
}

impl GrpcResponse {
    fn message(message: Vec<u8>) -> Self {
        GrpcResponse { message: Some(message), status: "0".to_owned(), ..GrpcResponse::default() }
    }

    fn status(status: &str) -> Self {
        GrpcResponse { status: status.to_owned(), ..GrpcResponse::default() }
    }

    fn ending(&self) -> HeaderMap {
        let own = [("grpc-status", Some(self.status.as_str())), ("grpc-message", self.detail.as_deref())];
        let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
        fields(own.chain(self.trailers.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
    }
}

fn fields<'f>(list: impl Iterator<Item = (&'f str, &'f str)>) -> HeaderMap {
    let field =
        |(name, value): (&str, &str)| Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?));
    list.filter_map(field).collect()
}

async fn serve_call(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    served: &Served,
) -> Result<(), h2::Error> {
    if !served.probe && streams::is_stream(request.uri().path()) {
        return streams::respond(request, respond, served).await;
    }
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        let _ = stream.flow_control().release_capacity(data.len());
        if (body.len() + data.len()) as u64 > MOST {
            respond.send_reset(h2::Reason::CANCEL);
            return Ok(());
        }
        body.extend_from_slice(&data);
    }
    served.count(body.len() as u64);
    let path = head.uri.path();
    let sent = match body.get(5..) {
        None => GrpcResponse::status("3"),
        Some(message) if served.probe => probed(&head, message),
        Some(message) => method(path, message),
    };
    let mut response = Response::new(());
    *response.headers_mut() = fields(
        [("content-type", "application/grpc")]
            .into_iter()
            .chain(sent.head.iter().map(|(name, value)| (name.as_str(), value.as_str()))),
    );
    let Some(message) = &sent.message else {
        response.headers_mut().extend(sent.ending());
        respond.send_response(response, true)?;
        return Ok(());
    };
    let mut stream = respond.send_response(response, false)?;
    send(&mut stream, frame(message).into(), false).await?;
    stream.send_trailers(sent.ending())
}

/// The service of the demonstration, and gRPC's own for health (doc/health-checking.md).
fn method(path: &str, message: &[u8]) -> GrpcResponse {
    match path {
        "/grpc.health.v1.Health/Check" => GrpcResponse::message(vec![8, 1]),
        "/gauge.demo.Items/Get" => GrpcResponse::message(item(number(message))),
        "/gauge.demo.Items/Add" => GrpcResponse::message(integer(1, message.len() as u64)),
        _ => {
            GrpcResponse { detail: Some("there is no such method".to_owned()), ..GrpcResponse::status(UNKNOWN_METHOD) }
        }
    }
}

/// What reached the upstream of a check, as its fields want it.
fn probed(head: &http::request::Parts, message: &[u8]) -> GrpcResponse {
    let field = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let pairs = |name: &str| -> Vec<(String, String)> {
        let all = field(name).into_iter().flat_map(|all| all.split('|')).filter_map(probe::pair);
        all.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect()
    };
    let mut headers = BTreeMap::new();
    for (name, value) in &head.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        // The values of a field that comes twice are a list (RFC 9110, section 5.3).
        headers
            .entry(name.as_str().to_owned())
            .and_modify(|all: &mut String| *all += &format!(", {value}"))
            .or_insert(value);
    }
    let said = match field("x-probe-bytes").and_then(|bytes| bytes.parse::<usize>().ok()) {
        Some(bytes) => vec![b'x'; bytes.min(MOST as usize)],
        None => json!({"target": head.uri.path(), "headers": headers, "bytes": message.len()}).to_string().into_bytes(),
    };
    let (status, detail) = match field(DO_STATUS).map(|value| value.split_once(' ').unwrap_or((value, ""))) {
        Some((status, detail)) => (status.to_owned(), Some(detail.to_owned())),
        None => ("0".to_owned(), None),
    };
    GrpcResponse {
        message: field(DO_TRAILERS_ONLY).is_none().then_some(said),
        status,
        detail,
        head: pairs("x-probe-headers"),
        trailers: pairs(DO_TRAILERS),
    }
}

/// An `Item` (protobuf.dev, "Encoding").
fn item(id: u64) -> Vec<u8> {
    let mut item = integer(1, id);
    item.extend(text(2, &format!("item {id}")));
    item.extend(integer(3, id * 100));
    item.extend(text(4, TEXT));
    item
}

fn integer(field: u8, value: u64) -> Vec<u8> {
    let mut out = vec![field << 3];
    varint(value, &mut out);
    out
}

fn text(field: u8, text: &str) -> Vec<u8> {
    let mut out = vec![field << 3 | 2];
    varint(text.len() as u64, &mut out);
    out.extend_from_slice(text.as_bytes());
    out
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Field 1 of a message that has nothing else; 0 where it is absent.
fn number(message: &[u8]) -> u64 {
    let digits = message.strip_prefix(&[1 << 3]).unwrap_or_default();
    digits.iter().take(9).rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F))
}

#[cfg(test)]
mod tests;
