//! From a validated HTTP/2 request to the HTTP/1.1 request that the exchange reads.

use ::http2::Head;
use h1::{Known, encode};
use message::BodyLength;

/// Whether a body of this length is framed in chunks.
pub(super) fn is_chunked(body: BodyLength) -> bool {
    body == BodyLength::Unknown
}

/// Appends the head. Framing is made here from what is known of the body, Host from the authority; the codec has validated each field and
/// joined the crumbs of cookies.
pub(super) fn write_head(out: &mut Vec<u8>, head: &Head) {
    let Head { text, request, .. } = head;
    out.extend_from_slice(request.method_name.of_buf(text));
    out.push(b' ');
    out.extend_from_slice(request.path.of_buf(text));
    if let Some(query) = request.query {
        out.push(b'?');
        out.extend_from_slice(query.of_buf(text));
    }
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(request.authority.map_or(&b""[..], |authority| authority.of_buf(text)));
    out.extend_from_slice(b"\r\n");
    for field in request.fields.iter() {
        let is_written_here = matches!(field.known, Known::Host | Known::ContentLength);
        if !is_written_here && !field.is_hop_by_hop() {
            out.extend_from_slice(field.line().of_buf(text));
        }
    }
    // The codec lets no other value through.
    if request.accepts_trailers {
        out.extend_from_slice(b"TE: trailers\r\n");
    }
    match request.body {
        BodyLength::None => {}
        BodyLength::Exact(length) => encode::content_length(out, length),
        BodyLength::Unknown => encode::chunked(out),
    }
    out.extend_from_slice(b"\r\n");
}
