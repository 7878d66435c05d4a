//! Ready-made responses for [`super::Upstream::start`]. Each is called once per request, after its body was read.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Conn;
use crate::http::Message;
use crate::{Gate, WireError};

/// A function that responds to one request.
pub type Responder = Box<dyn Fn(&mut Conn, &Message) -> Result<(), WireError> + Send + Sync>;

/// 200 with this body.
pub fn ok(body: impl Into<Vec<u8>>) -> Responder {
    let body = body.into();
    Box::new(move |conn, _| conn.respond(200, &[("Content-Type", "text/plain")], &body))
}

/// This status with a short body.
pub fn status(status: u16) -> Responder {
    Box::new(move |conn, _| conn.respond(status, &[], format!("status {status}")))
}

/// 200 whose body is the request's head, byte for byte, followed by its body without framing.
pub fn echo() -> Responder {
    Box::new(|conn, request| {
        let body = [&request.head.raw[..], &request.body].concat();
        conn.respond(200, &[("Content-Type", "application/octet-stream")], body)
    })
}

/// Exactly these bytes; the connection stays open.
pub fn raw(bytes: impl Into<Vec<u8>>) -> Responder {
    let bytes = bytes.into();
    Box::new(move |conn, _| conn.write(&bytes))
}

/// Exactly these bytes, one at a time; the connection stays open.
pub fn raw_bytewise(bytes: impl Into<Vec<u8>>) -> Responder {
    let bytes = bytes.into();
    Box::new(move |conn, _| conn.write_bytewise(&bytes))
}

/// Exactly these bytes, then the connection is closed.
pub fn raw_then_close(bytes: impl Into<Vec<u8>>) -> Responder {
    let bytes = bytes.into();
    Box::new(move |conn, _| {
        conn.write(&bytes)?;
        conn.close()
    })
}

/// Exactly these bytes, then the connection is reset. The peer may see the reset before the bytes, or them first.
pub fn raw_then_reset(bytes: impl Into<Vec<u8>>) -> Responder {
    let bytes = bytes.into();
    Box::new(move |conn, _| {
        conn.write(&bytes)?;
        conn.reset()
    })
}

/// 200 that promises `promised` bytes and closes after `sent` of them.
pub fn close_after(sent: usize, promised: usize) -> Responder {
    Box::new(move |conn, _| {
        conn.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {promised}\r\n\r\n"))?;
        conn.write_pattern(sent as u64)?;
        conn.close()
    })
}

/// No response: closes after the request was read.
pub fn close() -> Responder {
    Box::new(|conn, _| conn.close())
}

/// No response: resets after the request was read.
pub fn reset() -> Responder {
    Box::new(|conn, _| conn.reset())
}

/// No response, until the peer gives up.
pub fn stall() -> Responder {
    Box::new(|conn, _| conn.stall())
}

/// Waits at the gate, then responds with `then`: requests can be held in flight.
pub fn gated(gate: &Gate, then: Responder) -> Responder {
    let gate = gate.clone();
    Box::new(move |conn, request| {
        conn.pass(&gate)?;
        then(conn, request)
    })
}

/// 200 with these chunks, all written at once.
pub fn chunked<T: AsRef<[u8]>>(pieces: impl IntoIterator<Item = T>) -> Responder {
    let pieces: Vec<Vec<u8>> = pieces.into_iter().map(|piece| piece.as_ref().to_vec()).collect();
    Box::new(move |conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for piece in &pieces {
            conn.write_chunk(piece)?;
        }
        conn.write("0\r\n\r\n")
    })
}

/// 200 with `text/event-stream`: the head at once, each event (`data: …`) as a chunk and the end of the body, each when the
/// test releases the gate.
pub fn sse<T: AsRef<str>>(events: impl IntoIterator<Item = T>, gate: &Gate) -> Responder {
    let events: Vec<String> = events.into_iter().map(|event| format!("data: {}\n\n", event.as_ref())).collect();
    let gate = gate.clone();
    Box::new(move |conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for event in &events {
            conn.pass(&gate)?;
            conn.write_chunk(event)?;
        }
        conn.pass(&gate)?;
        conn.write("0\r\n\r\n")
    })
}

/// 200 with `length` bytes of the [`crate::pattern`] and a Content-Length.
pub fn large(length: u64) -> Responder {
    Box::new(move |conn, _| {
        conn.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"))?;
        conn.write_pattern(length)
    })
}

/// The responses one after the other, over all connections; the last one from then on.
pub fn in_order(responders: impl IntoIterator<Item = Responder>) -> Responder {
    let responders: Vec<Responder> = responders.into_iter().collect();
    assert!(!responders.is_empty(), "in_turn needs an answer");
    let next = AtomicUsize::new(0);
    Box::new(move |conn, request| {
        let round = next.fetch_add(1, Ordering::Relaxed).min(responders.len() - 1);
        responders[round](conn, request)
    })
}

/// The handler for [`super::Upstream::connections`] that reads bodies as the [`crate::pattern`], keeps nothing of them, and
/// responds with `LENGTH ok`, or `LENGTH wrong at OFFSET`.
pub fn sink(conn: &mut Conn) -> Result<(), WireError> {
    loop {
        let request = conn.read_head()?;
        if request.field("expect").is_some() {
            conn.respond(100, &[], "")?;
        }
        let seen = conn.read_pattern()?;
        let verdict = seen.wrong_at.map_or_else(|| "ok".to_owned(), |offset| format!("wrong at {offset}"));
        conn.respond(200, &[], format!("{} {verdict}", seen.bytes))?;
    }
}
