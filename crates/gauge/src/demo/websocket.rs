//! The demonstration over WebSocket (RFC 6455): what comes is sent back. As the upstream of profile checks it does what fields of the upgrade say.
//!
//! | field of the upgrade | effect |
//! |---|---|
//! | `X-Probe-Status: 403` | that status, and no WebSocket |
//! | `X-Probe-Greeting: 1` | a text right behind the head of the 101: what reached the upstream, in JSON |
//! | `X-Probe-Ping: hello` | a ping with that payload; when its pong has come, a text with what that had |
//! | `X-Probe-Close: 4321 bye` | that close frame behind the first message, in place of its echo |
//! | `X-Probe-Drop: 1` | the end of the connection, without a close frame, behind the first message |
//!
//! Its reply to a close frame has the reason `seen: CODE REASON`. It selects the last subprotocol that is offered.

use std::io;

use serde_json::json;
use tokio::net::TcpStream;

use super::respond::{Request, finish};
use super::{MOST, Served, fill, write};
use crate::websocket::{self, Decoder, Event, Opcode, Side, handshake};

pub(crate) const GREETING: &str = "x-probe-greeting";
pub(crate) const PING: &str = "x-probe-ping";
pub(crate) const CLOSE: &str = "x-probe-close";
pub(crate) const DROP: &str = "x-probe-drop";
/// Where the demonstration has it.
pub(super) const PATH: &str = "/echo-ws";

/// What a request is to the echo.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    /// A request of HTTP.
    None,
    /// An upgrade with this value of `Sec-WebSocket-Accept`.
    Accepted(String),
    /// A request for the echo that is not a valid upgrade (sections 4.2.1 and 4.4; RFC 9110, section 15.5.22).
    Refused(u16, &'static [(&'static str, &'static str)]),
}

/// Whether a request is for the echo. `is_upgrade`: it has `Connection: Upgrade` and `Upgrade`.
pub(super) fn upgrade(request: &Request, is_upgrade: bool, probe: bool) -> Upgrade {
    let field = |name: &str| request.headers.get(name).map(String::as_str);
    let wants = is_upgrade && field("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"));
    let path = request.target.split('?').next().unwrap_or_default();
    if if probe { !wants || field("x-probe-status").is_some() } else { path != PATH } {
        return Upgrade::None;
    }
    let key = field("sec-websocket-key").filter(|key| handshake::is_key(key));
    match key {
        _ if !wants => Upgrade::Refused(426, &[("Upgrade", "websocket"), ("Connection", "Upgrade")]),
        _ if request.method_name != "GET" => Upgrade::Refused(405, &[]),
        _ if field("sec-websocket-version") != Some(handshake::VERSION) => {
            Upgrade::Refused(426, &[("Sec-WebSocket-Version", handshake::VERSION)])
        }
        Some(key) => Upgrade::Accepted(handshake::accept(key)),
        None => Upgrade::Refused(400, &[]),
    }
}

/// Appends the response to a request for the echo that is not a valid upgrade.
pub(super) fn refuse(request: &Request, status: u16, fields: &[(&str, &str)], out: &mut Vec<u8>) {
    let body = json!({"error": h1::encode::reason(status)}).to_string();
    finish(request, status, fields, body.as_bytes(), out);
}

/// Accepts an upgrade, and sends back what comes until one side closes. `buffer` has what came behind the request.
pub(super) async fn serve_connection(
    stream: &TcpStream,
    served: &Served,
    request: &Request,
    accept: &str,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let field = |name: &str| request.headers.get(name).map(String::as_str);
    let probe = |name: &str| field(name).filter(|_| served.probe);
    let mut out = Vec::new();
    h1::encode::status_line(&mut out, 101, h1::encode::reason(101).as_bytes());
    for (name, value) in [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)] {
        h1::encode::field(&mut out, name.as_bytes(), value.as_bytes());
    }
    if let Some(last) = field("sec-websocket-protocol").and_then(|list| list.rsplit(',').next()) {
        h1::encode::field(&mut out, b"Sec-WebSocket-Protocol", last.trim().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    if probe(GREETING).is_some() {
        let seen = json!({"method": request.method_name, "target": request.target, "headers": request.headers});
        websocket::write(&mut out, true, Opcode::Text, None, seen.to_string().as_bytes());
    }
    if let Some(payload) = probe(PING) {
        websocket::write(&mut out, true, Opcode::Ping, None, payload.as_bytes());
    }
    let mut decoder = Decoder::new(Side::Server, MOST);
    loop {
        if !out.is_empty() {
            write(stream, &out).await?;
            out.clear();
        }
        let (used, event) = match decoder.decode(buffer) {
            Ok(decoded) => decoded,
            Err(violation) => {
                websocket::write_close(&mut out, Some(violation.code()), violation.text().as_bytes(), None);
                return write(stream, &out).await;
            }
        };
        buffer.drain(..used);
        match event {
            None if fill(stream, buffer).await? == 0 => return Ok(()),
            None => {}
            Some(Event::Ping) => websocket::write(&mut out, true, Opcode::Pong, None, decoder.control()),
            Some(Event::Pong) if probe(PING).is_some() => {
                let said = [b"pong: ", decoder.control()].concat();
                websocket::write(&mut out, true, Opcode::Text, None, String::from_utf8_lossy(&said).as_bytes());
            }
            Some(Event::Pong) => {}
            Some(Event::Message(kind)) => {
                served.count(decoder.message().len() as u64);
                if probe(DROP).is_some() {
                    return Ok(());
                }
                match probe(CLOSE).map(|value| value.split_once(' ').unwrap_or((value, ""))) {
                    Some((code, reason)) => {
                        websocket::write_close(&mut out, code.parse().ok(), reason.as_bytes(), None);
                    }
                    None => websocket::write(&mut out, true, kind.opcode(), None, decoder.message()),
                }
            }
            Some(Event::Close(code)) => {
                let reason = if served.probe { seen(code, decoder.control()) } else { String::new() };
                websocket::write_close(&mut out, code, reason.as_bytes(), None);
                return write(stream, &out).await;
            }
        }
    }
}

/// What a close frame said.
fn seen(code: Option<u16>, payload: &[u8]) -> String {
    let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
    format!("seen: {} {reason}", code.unwrap_or(websocket::NO_CODE))
}

#[cfg(test)]
mod tests;
