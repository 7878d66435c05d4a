//! Responses of the demonstration service.

use std::collections::BTreeMap;
use std::time::Duration;

use h1::{Method, RequestHead};
use serde_json::json;

use super::probe::Events;

/// How long `/slow` takes.
const SLOW: Duration = Duration::from_millis(120);

/// What is kept of a request's head while its body is read.
pub(super) struct Request {
    method: Method,
    pub(super) method_name: String,
    pub(super) target: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
}

impl Request {
    /// `all`: with its fields, whatever the path.
    pub(super) fn of(head: &RequestHead, buffer: &[u8], all: bool) -> Self {
        let text = |span: h1::Span| String::from_utf8_lossy(span.of_buf(buffer)).into_owned();
        let target = text(head.path);
        // Only the echo shows them.
        let headers = if all || target.starts_with("/echo") {
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
    /// One without a body, for tests.
    #[cfg(test)]
    pub(super) fn made(method: &str, target: &str, headers: BTreeMap<String, String>) -> Self {
        Request {
            method: Method::of(method.as_bytes()),
            method_name: method.to_owned(),
            target: target.to_owned(),
            headers,
            keep_alive: true,
            expects_continue: false,
        }
    }

    /// How long the response takes beyond the time that it needs.
    pub(super) fn wait(&self) -> Option<Duration> {
        let requested = self.headers.get("x-probe-delay").and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        requested.or((self.target == "/slow").then_some(SLOW))
    }
}

/// A text of some length, as descriptions have it.
pub(super) const TEXT: &str = "A weir is the low wall that regulates a river and, by the height of the water over it, measures the flow. \
    Water that falls over it is counted by its height alone; nobody has to enter the river. This text stands for what \
    items of a shop say of themselves: some hundred characters, the same for every item, so that responses have the length \
    that responses usually have, about half a kibibyte. What a gateway adds to such a response is what it costs by itself.";

/// The stream of `/events`.
const EVENTS: Events = Events { count: 5, every: Duration::from_millis(20) };

/// Appends the response to a request whose body had `length` bytes; the events that follow it, if it is a stream. What is read may be cached as
/// `cache_control` says.
pub(super) fn write(request: &Request, length: u64, cache_control: Option<&str>, out: &mut Vec<u8>) -> Option<Events> {
    let path = request.target.split('?').next().unwrap_or_default();
    let read = matches!(request.method, Method::Get | Method::Head);
    if path == "/events" && request.method == Method::Get {
        return Some(EVENTS.begin(out));
    }
    let (status, body) = match path {
        "/healthz" if read => (200, json!({"ok": true, "service": "gauge demo"})),
        "/items" if read => (200, json!((1..=10).map(item).collect::<Vec<_>>())),
        "/items" if request.method == Method::Post => (201, json!({"bytes": length})),
        "/echo" => {
            let (method, target, headers) = (&request.method_name, &request.target, &request.headers);
            (200, json!({"method": method, "target": target, "headers": headers, "bytes": length}))
        }
        "/slow" if read => (200, json!({"ok": true, "path": "/slow"})),
        "/healthz" | "/items" | "/slow" | "/events" => (405, json!({"error": "method not allowed"})),
        _ => match path.strip_prefix("/items/").and_then(|id| id.parse::<u64>().ok()) {
            Some(id) if read => (200, item(id)),
            Some(_) => (405, json!({"error": "method not allowed"})),
            None => (404, json!({"error": "not found"})),
        },
    };
    let fields: Vec<(&str, &str)> =
        cache_control.filter(|_| read && status == 200).map(|value| ("Cache-Control", value)).into_iter().collect();
    finish(request, status, &fields, body.to_string().as_bytes(), out);
    None
}

fn item(id: u64) -> serde_json::Value {
    json!({"id": id, "name": format!("item {id}"), "price": id * 100, "text": TEXT})
}

/// Appends a response after which the connection ends.
pub(super) fn refusal(status: u16, out: &mut Vec<u8>) {
    head(status, &[], false, out);
    let body = json!({"error": h1::encode::reason(status)}).to_string();
    h1::encode::content_length(out, body.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body.as_bytes());
}

/// Appends a response to a request, in JSON unless `fields` says otherwise.
pub(super) fn finish(request: &Request, status: u16, fields: &[(&str, &str)], body: &[u8], out: &mut Vec<u8>) {
    head(status, fields, request.keep_alive, out);
    if status != 304 {
        h1::encode::content_length(out, body.len() as u64);
    }
    out.extend_from_slice(b"\r\n");
    if request.method != Method::Head && status != 304 {
        out.extend_from_slice(body);
    }
}

fn head(status: u16, fields: &[(&str, &str)], keep_alive: bool, out: &mut Vec<u8>) {
    h1::encode::status_line(out, status, h1::encode::reason(status).as_bytes());
    if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        h1::encode::field(out, b"Content-Type", b"application/json");
    }
    for (name, value) in fields {
        h1::encode::field(out, name.as_bytes(), value.as_bytes());
    }
    if !keep_alive {
        h1::encode::field(out, b"Connection", b"close");
    }
}
