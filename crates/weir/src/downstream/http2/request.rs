//! From a validated HTTP/2 request to the HTTP/1.1 request that the exchange reads.

use ::http2::Head;
use h1::{Known, encode};
use message::BodyLength;

use crate::http::websocket;

/// Whether a body of this length is framed in chunks.
pub(super) fn is_chunked(body: BodyLength) -> bool {
    body == BodyLength::Unknown
}

/// Whether the request is for a WebSocket (RFC 8441 section 5).
pub(super) fn is_websocket(head: &Head) -> bool {
    head.request.connect_protocol.is_some_and(|protocol| protocol.of_buf(&head.text) == websocket::NAME)
}

/// Appends the head of a request for a WebSocket: over HTTP/1.1 it is a GET with `Upgrade`, and with a key, which HTTP/2 has no use for.
pub(super) fn write_websocket_head(out: &mut Vec<u8>, head: &Head, key: &str) {
    write_line(out, b"GET", head);
    write_fields(out, head, |known| known == Known::SecWebSocketKey);
    encode::field(out, b"Connection", b"Upgrade");
    encode::field(out, b"Upgrade", websocket::NAME);
    encode::field(out, b"Sec-WebSocket-Key", key.as_bytes());
    encode::end_head(out);
}

/// Appends the request line and Host, which is made from the authority.
fn write_line(out: &mut Vec<u8>, method: &[u8], head: &Head) {
    let Head { text, request, .. } = head;
    encode::begin_request_line(out, method);
    out.extend_from_slice(request.path.of_buf(text));
    if let Some(query) = request.query {
        out.push(b'?');
        out.extend_from_slice(query.of_buf(text));
    }
    encode::end_request_line(out, request.authority.map_or(&b""[..], |authority| authority.of_buf(text)));
}

/// Appends the fields but those that are written here, Host and framing, and those that `is_left_out` names.
fn write_fields(out: &mut Vec<u8>, head: &Head, is_left_out: impl Fn(Known) -> bool) {
    let Head { text, request, .. } = head;
    for field in request.fields.iter() {
        let is_written_here = matches!(field.known, Known::Host | Known::ContentLength) || is_left_out(field.known);
        if !is_written_here && (!field.is_hop_by_hop() || field.announces_trailers()) {
            out.extend_from_slice(field.line().of_buf(text));
        }
    }
}

/// Appends the head. Framing is made here from what is known of the body; the codec has validated each field and joined the crumbs of cookies.
pub(super) fn write_head(out: &mut Vec<u8>, head: &Head) {
    let Head { text, request, .. } = head;
    write_line(out, request.method_name.of_buf(text), head);
    write_fields(out, head, |_| false);
    // The codec lets no other value through.
    if request.accepts_trailers {
        encode::plain(out, b"TE", b"trailers");
    }
    match request.body {
        BodyLength::None => {}
        BodyLength::Exact(length) => encode::content_length(out, length),
        BodyLength::Unknown => encode::chunked(out),
    }
    encode::end_head(out);
}
