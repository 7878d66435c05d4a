//! What the demonstration answers.

use std::collections::BTreeMap;
use std::time::Duration;

use h1::{Method, RequestHead};
use serde_json::json;

/// How long `/slow` takes.
const SLOW: Duration = Duration::from_millis(120);

/// What is kept of a request's head while its body is read.
pub(super) struct Request {
    method: Method,
    method_name: String,
    target: String,
    headers: BTreeMap<String, String>,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
}

impl Request {
    pub(super) fn of(head: &RequestHead, buffer: &[u8]) -> Self {
        let text = |span: h1::Span| String::from_utf8_lossy(span.of_buf(buffer)).into_owned();
        let target = text(head.path);
        // Only the echo shows them.
        let headers = if target.starts_with("/echo") {
            head.fields.iter().map(|field| (text(field.name).to_ascii_lowercase(), text(field.value))).collect()
        } else {
            BTreeMap::new()
        };
        Request {
            method: head.method,
            method_name: text(head.method_name),
            target,
            headers,
            keep_alive: head.keep_alive,
            expects_continue: head.expect == h1::Expect::Continue,
        }
    }
}

impl Request {
    /// How long the answer takes beyond the time that it needs.
    pub(super) fn wait(&self) -> Option<Duration> {
        (self.target == "/slow").then_some(SLOW)
    }
}

/// A text of some length, as descriptions have it.
const TEXT: &str = "A weir is the low wall that regulates a river and, by the height of the water over it, measures the flow. \
    Water that falls over it is counted by its height alone; nobody has to stand in the river. This text stands for what \
    items of a shop say of themselves: some hundred characters, the same for all of them, so that answers have the length \
    that answers commonly have, about half a kibibyte. What a gateway adds to such an answer is what it costs by itself.";

/// Appends the answer to a request whose body had `length` bytes.
pub(super) fn write(request: &Request, length: u64, out: &mut Vec<u8>) {
    let path = request.target.split('?').next().unwrap_or_default();
    let read = matches!(request.method, Method::Get | Method::Head);
    let (status, body) = match path {
        "/healthz" if read => (200, json!({"ok": true, "service": "gauge demo"})),
        "/items" if read => (200, json!((1..=10).map(item).collect::<Vec<_>>())),
        "/items" if request.method == Method::Post => (201, json!({"bytes": length})),
        "/echo" => {
            let (method, target, headers) = (&request.method_name, &request.target, &request.headers);
            (200, json!({"method": method, "target": target, "headers": headers, "bytes": length}))
        }
        "/slow" if read => (200, json!({"ok": true, "path": "/slow"})),
        "/healthz" | "/items" | "/slow" => (405, json!({"error": "method not allowed"})),
        _ => match path.strip_prefix("/items/").and_then(|id| id.parse::<u64>().ok()) {
            Some(id) if read => (200, item(id)),
            Some(_) => (405, json!({"error": "method not allowed"})),
            None => (404, json!({"error": "not found"})),
        },
    };
    finish(status, &body.to_string(), request.method != Method::Head, request.keep_alive, out);
}

fn item(id: u64) -> serde_json::Value {
    json!({"id": id, "name": format!("item {id}"), "price": id * 100, "text": TEXT})
}

/// Appends an answer after which the connection ends.
pub(super) fn refusal(status: u16, out: &mut Vec<u8>) {
    finish(status, &json!({"error": h1::encode::reason(status)}).to_string(), true, false, out);
}

fn finish(status: u16, body: &str, with_body: bool, keep_alive: bool, out: &mut Vec<u8>) {
    h1::encode::status_line(out, status, h1::encode::reason(status).as_bytes());
    h1::encode::field(out, b"Content-Type", b"application/json");
    h1::encode::content_length(out, body.len() as u64);
    if !keep_alive {
        h1::encode::field(out, b"Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    if with_body {
        out.extend_from_slice(body.as_bytes());
    }
}
