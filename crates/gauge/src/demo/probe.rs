//! The upstream of profile checks: it responds to every path, says what reached it, and does what fields of the request say.
//!
//! | field of the request | effect |
//! |---|---|
//! | `X-Probe-Status: 503` | that status |
//! | `X-Probe-Headers: Cache-Control: max-age=60 \| ETag: "a"` | those response fields |
//! | `X-Probe-Bytes: 1000000` | a body of so many bytes |
//! | `X-Probe-Delay: 100` | 100 ms before the response |
//! | `X-Probe-Events: 5 50` | an event stream of 5 events, one every 50 ms |
//!
//! It sends messages of WebSocket back on every path ([`super::websocket`]), and calls of gRPC ([`super::grpc`]).
//!
//! It counts what reaches it, as the demonstration does ([`super::COUNTS`]).

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

use super::respond::{Request, finish};

/// Most bytes of a body that is requested.
const MOST: usize = 256 << 20;

/// Events to send one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Events {
    pub(super) count: u32,
    pub(super) every: Duration,
}

impl Events {
    /// Appends the head of a stream.
    pub(super) fn begin(self, out: &mut Vec<u8>) -> Self {
        h1::encode::status_line(out, 200, b"OK");
        h1::encode::field(out, b"Content-Type", b"text/event-stream");
        h1::encode::field(out, b"Cache-Control", b"no-store");
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        self
    }
}

/// Appends the response to the request of this number; the events that follow it, if it is a stream.
pub(super) fn write(request: &Request, length: u64, number: u64, out: &mut Vec<u8>) -> Option<Events> {
    let field = |name: &str| request.headers.get(name).map(String::as_str);
    let amount = |name: &str| field(name).and_then(|value| value.parse::<usize>().ok());
    if let Some((count, every)) = field("x-probe-events").and_then(|value| value.split_once(' ')) {
        let count = count.parse().unwrap_or(1);
        let every = Duration::from_millis(every.parse().unwrap_or(0));
        return Some(Events { count, every }.begin(out));
    }
    let status = amount("x-probe-status").and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
    let more: Vec<(&str, &str)> =
        field("x-probe-headers").into_iter().flat_map(|all| all.split('|')).filter_map(pair).collect();
    let body = match amount("x-probe-bytes") {
        Some(bytes) => vec![b'x'; bytes.min(MOST)],
        None => json!({
            "method": request.method_name, "target": request.target, "headers": request.headers,
            "bytes": length, "seen": number,
        })
        .to_string()
        .into_bytes(),
    };
    finish(request, status, &more, &body, out);
    None
}

pub(super) fn pair(field: &str) -> Option<(&str, &str)> {
    field.split_once(':').map(|(name, value)| (name.trim(), value.trim()))
}

/// One event as a chunk; without a number the chunk that ends the stream.
pub(super) fn event(number: Option<u32>) -> String {
    let Some(number) = number else { return "0\r\n\r\n".to_owned() };
    let event = format!("id: {number}\ndata: event {number}\n\n");
    let mut chunk = String::new();
    let _ = write!(chunk, "{:x}\r\n{event}\r\n", event.len());
    chunk
}
