//! From a validated HTTP/2 response to the HTTP/1.1 response that the exchange reads.

use ::http2::Head;
use h1::{Known, Method, encode};
use message::BodyLength;

use crate::http::websocket;

/// How the body behind a head is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// Decides the framing: from what is known of the body, never from what the target says of framing. A body that trailers may follow is
/// framed in chunks, which alone can carry them.
pub(super) fn framing(head: &Head, method: Method, is_complete: bool, keeps_trailers: bool) -> Framing {
    let response = &head.response;
    if method == Method::Head || matches!(response.status, 204 | 304) {
        return Framing::None;
    }
    match response.body {
        _ if is_complete => Framing::Length(0),
        _ if keeps_trailers => Framing::Chunked,
        BodyLength::None => Framing::Length(0),
        BodyLength::Exact(length) => Framing::Length(length),
        BodyLength::Unknown => Framing::Chunked,
    }
}

/// Appends the fields but framing, those of the connection, and `without`.
fn write_fields(out: &mut Vec<u8>, head: &Head, without: Option<Known>) {
    for field in head.response.fields.iter() {
        let is_written_here = field.known == Known::ContentLength || Some(field.known) == without;
        if !is_written_here && (!field.is_hop_by_hop() || field.announces_trailers()) {
            out.extend_from_slice(field.line().of_buf(&head.text));
        }
    }
}

/// Appends the 101 that a success in response to an extended CONNECT is over HTTP/1.1 (RFC 8441 section 5).
pub(super) fn write_switch(out: &mut Vec<u8>, head: &Head, accept: &str) {
    encode::status_line(out, 101, encode::reason(101).as_bytes());
    write_fields(out, head, Some(Known::SecWebSocketAccept));
    encode::field(out, b"Connection", b"upgrade");
    encode::field(out, b"Upgrade", websocket::NAME);
    encode::field(out, b"Sec-WebSocket-Accept", accept.as_bytes());
    encode::end_head(out);
}

/// Appends the head; interim ones have no framing.
pub(super) fn write_head(out: &mut Vec<u8>, head: &Head, framing: Option<Framing>) {
    let response = &head.response;
    encode::status_line(out, response.status, encode::reason(response.status).as_bytes());
    write_fields(out, head, None);
    match framing {
        // For HEAD and 304 it says what GET would have had (RFC 9110 section 8.6).
        Some(Framing::None) => {
            if let Some(length) = response.content_length.filter(|_| response.status != 204) {
                encode::content_length(out, length);
            }
        }
        Some(Framing::Length(length)) => encode::content_length(out, length),
        Some(Framing::Chunked) => encode::chunked(out),
        None => {}
    }
    encode::end_head(out);
}
