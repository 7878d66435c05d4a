//! From a validated HTTP/2 response to the HTTP/1.1 response that the exchange reads.

use ::http2::Head;
use h1::{Known, Method, encode};
use message::BodyLength;

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

/// Appends the head; interim ones have no framing.
pub(super) fn write_head(out: &mut Vec<u8>, head: &Head, framing: Option<Framing>) {
    let Head { text, response, .. } = head;
    encode::status_line(out, response.status, encode::reason(response.status).as_bytes());
    for field in response.fields.iter() {
        if field.known != Known::ContentLength && (!field.is_hop_by_hop() || field.announces_trailers()) {
            out.extend_from_slice(field.line().of_buf(text));
        }
    }
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
