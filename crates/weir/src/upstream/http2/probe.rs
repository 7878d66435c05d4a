//! One request on a connection of its own: a health check over HTTP/2, as a GET or as a gRPC call (grpc/doc/health-checking.md).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use ::http2::{Config, Connection, Event, Head, RequestLine};
use h1::Known;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::runtime::clock;

/// Bytes of a response that are looked at.
const MOST: usize = 4096;

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// `http` or `https`.
    pub scheme: &'q str,
    /// Host, and port where it is not the scheme's.
    pub authority: &'q str,
    /// Path of a GET.
    pub path: &'q str,
    /// Service whose health a gRPC call reads, in place of a GET.
    pub grpc: Option<&'q str>,
}

/// What a target said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResponse {
    /// The status of the response to a GET.
    Status(u16),
    /// The service is serving.
    Serving,
    /// It is not, or the call failed.
    NotServing(String),
}

/// Sends the request and reads the response. The caller sets a deadline.
///
/// # Errors
/// Why there is none.
pub async fn probe(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    question: Question<'_>,
) -> Result<ProbeResponse, String> {
    let mut codec = Connection::client(Config::default(), now_ms());
    let stream = send(&mut codec, question).map_err(|()| "the request cannot be sent".to_owned())?;
    let (mut input, mut head, mut body) = (Vec::new(), Head::default(), Vec::new());
    let mut status = 0;
    loop {
        flush(&mut io, &mut codec).await.map_err(|error| error.to_string())?;
        if read(&mut io, &mut input).await.map_err(|error| error.to_string())? == 0 {
            return Err("the connection ended without a response".to_owned());
        }
        loop {
            let decoded = codec.decode(&input, &mut head, now_ms());
            let (used, event) = decoded.map_err(|error| error.to_string())?;
            let mut has_ended = false;
            let mut grpc_status = None;
            let status_in = |fields: &h1::Fields, text: &[u8]| {
                fields.first(Known::GrpcStatus, text).map(|value| String::from_utf8_lossy(value).into_owned())
            };
            match &event {
                Event::Response { stream: id, end } if *id == stream => {
                    status = head.response.status;
                    has_ended = *end || question.grpc.is_none();
                    grpc_status = status_in(&head.response.fields, &head.text);
                }
                Event::Data { stream: id, range, end } if *id == stream => {
                    body.extend(input[range.clone()].iter().take(MOST - body.len()));
                    has_ended = *end;
                }
                Event::Trailers { stream: id } if *id == stream => {
                    grpc_status = status_in(&head.trailers, &head.text);
                    has_ended = true;
                }
                Event::Reset { .. } => return Err("the target reset the request".to_owned()),
                _ => {}
            }
            input.drain(..used);
            if has_ended {
                return Ok(if question.grpc.is_some() {
                    verdict(status, grpc_status.as_deref(), &body)
                } else {
                    ProbeResponse::Status(status)
                });
            }
            if matches!(event, Event::NeedMore | Event::Flush | Event::Yield) {
                break;
            }
        }
    }
}

fn send(codec: &mut Connection, question: Question<'_>) -> Result<u32, ()> {
    let line = RequestLine {
        method: if question.grpc.is_some() { b"POST" } else { b"GET" },
        scheme: question.scheme.as_bytes(),
        authority: question.authority.as_bytes(),
        path: if question.grpc.is_some() { b"/grpc.health.v1.Health/Check" } else { question.path.as_bytes() },
        protocol: None,
    };
    let agent: (Known, &[u8], &[u8]) = (Known::UserAgent, b"user-agent", b"weir-health");
    let Some(service) = question.grpc else {
        return codec.send_request(line, std::iter::once(agent), true).map_err(drop);
    };
    let fields: [(Known, &[u8], &[u8]); 3] =
        [agent, (Known::ContentType, b"content-type", b"application/grpc"), (Known::Te, b"te", b"trailers")];
    let stream = codec.send_request(line, fields.into_iter(), false).map_err(drop)?;
    codec.send_data(stream, &check_request(service), true).map_err(drop)?;
    Ok(stream)
}

/// A `HealthCheckRequest`: its one field is the name of the service.
fn check_request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.push(length as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(&message);
    framed
}

fn verdict(status: u16, grpc_status: Option<&str>, body: &[u8]) -> ProbeResponse {
    match grpc_status {
        // A `HealthCheckResponse` with its one field at 1, SERVING; 0 is not written.
        Some("0") => match body {
            [0, _, _, _, _, 0x08, 1, ..] => ProbeResponse::Serving,
            [0, _, _, _, _, 0x08, 3, ..] => ProbeResponse::NotServing("the service is unknown".to_owned()),
            _ => ProbeResponse::NotServing("not serving".to_owned()),
        },
        Some(code) => ProbeResponse::NotServing(format!("grpc-status {code}")),
        None => ProbeResponse::NotServing(format!("status {status} without a grpc-status")),
    }
}

async fn flush(io: &mut (impl AsyncWrite + Unpin), codec: &mut Connection) -> io::Result<()> {
    while !codec.output().is_empty() {
        match poll_fn(|cx| Pin::new(&mut *io).poll_write(cx, codec.output())).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => codec.advance(count),
        }
    }
    poll_fn(|cx| Pin::new(&mut *io).poll_flush(cx)).await
}

async fn read(io: &mut (impl AsyncRead + Unpin), input: &mut Vec<u8>) -> io::Result<usize> {
    let mut space = [0; 4096];
    let mut space = ReadBuf::new(&mut space);
    poll_fn(|cx| Pin::new(&mut *io).poll_read(cx, &mut space)).await?;
    input.extend_from_slice(space.filled());
    Ok(space.filled().len())
}

fn now_ms() -> u64 {
    clock::now_ns() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_of_a_health_check_is_protobuf_in_a_grpc_frame() {
        assert_eq!(check_request(""), [0, 0, 0, 0, 0]);
        assert_eq!(check_request("ab"), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        let long = check_request(&"x".repeat(200));
        assert_eq!(long[..8], [0, 0, 0, 0, 203, 0x0a, 0xc8, 1]);
    }

    #[test]
    fn only_serving_is_serving() {
        let message = |value| [0, 0, 0, 0, 2, 8, value];
        assert_eq!(verdict(200, Some("0"), &message(1)), ProbeResponse::Serving);
        for (status, code, body) in [
            (200, Some("0"), &message(2)[..]),
            (200, Some("0"), &message(3)),
            (200, Some("0"), &[0, 0, 0, 0, 0]),
            (200, Some("0"), &[]),
            (200, Some("5"), &message(1)),
            (200, None, &message(1)),
            (503, None, &[]),
        ] {
            assert!(matches!(verdict(status, code, body), ProbeResponse::NotServing(_)), "{status} {code:?} {body:?}");
        }
    }
}
