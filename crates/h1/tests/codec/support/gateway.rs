//! A gateway in a few lines: what the codec accepts goes on with framing of its own and without the fields of the connection.
//!
//! It does what the real one does (RFC 9110 sections 7.6 and 8.6, RFC 9112 section 6), as plainly as possible.

use h1::{BodyKind, Known, Version, encode};

use super::feed::{Message, Start};

/// Host that sent to the upstream when the client named none.
pub const DEFAULT_HOST: &[u8] = b"upstream.test";
/// What the gateway adds.
pub const FORWARDED_FOR: &[u8] = b"192.0.2.1";

/// Names that an upstream trusts because the gateway wrote them, or that frame the message: dropped under other spellings too.
pub const OWN_NAMES: [Known; 6] = [
    Known::Host,
    Known::ContentLength,
    Known::XForwardedFor,
    Known::XForwardedProto,
    Known::XForwardedHost,
    Known::XRequestId,
];

/// What an upstream gets of a request; a body that broke off stays unfinished. `chunk` is how large the pieces are that it comes in.
pub fn to_upstream(message: &Message, chunk: usize) -> Vec<u8> {
    let Start::Request { method, authority, path, query, .. } = &message.start else { panic!("not a request") };
    let mut out = Vec::new();
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(if !path.is_empty() {
        path
    } else if method == b"OPTIONS" && query.is_none() {
        b"*"
    } else {
        b"/"
    });
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    encode::field(&mut out, b"Host", authority.as_deref().unwrap_or(DEFAULT_HOST));
    for field in &message.fields {
        let alias = Known::of_alias(&field.name);
        let is_own = OWN_NAMES.contains(&field.known) || OWN_NAMES.contains(&alias) || alias.is_hop_by_hop();
        if !is_own && !field.is_hop_by_hop && field.known != Known::Expect {
            out.extend_from_slice(&field.line);
        }
    }
    encode::field(&mut out, b"X-Forwarded-For", FORWARDED_FOR);
    write_framing(&mut out, message.kind);
    out.extend_from_slice(b"\r\n");
    write_body(&mut out, message, message.kind, chunk);
    out
}

/// What a client of `version` gets of a response.
pub fn to_client(message: &Message, version: Version, chunk: usize) -> Vec<u8> {
    let Start::Response { status, reason, content_length, .. } = &message.start else { panic!("not a response") };
    let mut out = Vec::new();
    encode::status_line(&mut out, *status, reason);
    for field in &message.fields {
        if !field.is_hop_by_hop && field.known != Known::ContentLength {
            out.extend_from_slice(&field.line);
        }
    }
    let kind = client_framing(message.kind, version);
    match (kind, *status, content_length) {
        (BodyKind::None, 200.., Some(length)) if *status != 204 => encode::content_length(&mut out, *length),
        _ => write_framing(&mut out, kind),
    }
    out.extend_from_slice(b"\r\n");
    write_body(&mut out, message, kind, chunk);
    out
}

/// How a body goes on to a client: one that ends with the upstream's connection is chunked for those who know that.
pub fn client_framing(kind: BodyKind, version: Version) -> BodyKind {
    match (kind, version) {
        (BodyKind::Chunked | BodyKind::UntilClose, Version::Http11) => BodyKind::Chunked,
        (BodyKind::Chunked | BodyKind::UntilClose, Version::Http10) => BodyKind::UntilClose,
        (kind, _) => kind,
    }
}

fn write_framing(out: &mut Vec<u8>, kind: BodyKind) {
    match kind {
        BodyKind::Length(length) => encode::content_length(out, length),
        BodyKind::Chunked => encode::chunked(out),
        BodyKind::None | BodyKind::UntilClose => {}
    }
}

fn write_body(out: &mut Vec<u8>, message: &Message, kind: BodyKind, chunk: usize) {
    if kind != BodyKind::Chunked {
        out.extend_from_slice(&message.body);
        return;
    }
    for piece in message.body.chunks(chunk.max(1)) {
        encode::chunk(out, piece);
    }
    if message.is_complete {
        encode::last_chunk(out);
    }
}
