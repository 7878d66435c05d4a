//! Responses of the gateway itself: fixed content, redirects, and errors as problem documents (RFC 9457).

use h1::{Version, encode};

use super::edits::{is_edited, write_connection, write_edits};
use crate::config::Edits;
use crate::error::{Error, Reason};
use crate::runtime::clock;

/// What a local response depends on besides its content.
#[derive(Debug, Clone, Copy)]
pub struct Framing {
    /// The request was HEAD: no body.
    pub head_only: bool,
    /// Version of the client.
    pub version: Version,
    /// This is the connection's last response.
    pub close: bool,
}

/// A fixed response, as much of it put together as does not change from request to request.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Status.
    pub status: u16,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Prepared {
    /// Puts a response together; `fields` are whole lines.
    pub fn new(status: u16, content_type: Option<&str>, fields: &[u8], body: &[u8]) -> Self {
        let mut head = Vec::new();
        encode::status_line(&mut head, status, encode::reason(status).as_bytes());
        if let Some(content_type) = content_type {
            encode::field(&mut head, b"Content-Type", content_type.as_bytes());
        }
        head.extend_from_slice(fields);
        // RFC 9110 section 8.6: no length where there can be no content.
        if status != 204 && status != 304 && status >= 200 {
            encode::content_length(&mut head, body.len() as u64);
        }
        Prepared { status, head, body: body.to_vec() }
    }

    /// The same with a route's edits of responses.
    pub fn edited(
        status: u16,
        content_type: Option<&str>,
        fields: &[(&str, &[u8])],
        body: &[u8],
        edits: &Edits,
    ) -> Self {
        let mut lines = Vec::new();
        for (name, value) in fields.iter().filter(|(name, _)| !is_edited(edits, name.as_bytes())) {
            encode::field(&mut lines, name.as_bytes(), value);
        }
        write_edits(&mut lines, edits);
        let content_type = content_type.filter(|_| !is_edited(edits, b"content-type"));
        Prepared::new(status, content_type, &lines, body)
    }

    /// Appends the response.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, fields: &[u8], framing: Framing) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(fields);
        clock::date_line(out);
        write_connection(out, framing.version, framing.close);
        encode::end_head(out);
        if !framing.head_only {
            out.extend_from_slice(&self.body);
        }
    }
}

/// Appends a response that is made now; `fields` are whole lines.
pub fn write(out: &mut Vec<u8>, status: u16, content_type: &str, fields: &[u8], body: &[u8], framing: Framing) {
    encode::status_line(out, status, encode::reason(status).as_bytes());
    encode::field(out, b"Content-Type", content_type.as_bytes());
    write_behind(out, b"", fields, &[body], framing);
}

/// Appends a response that begins with `start`, which was put together before; `fields` are further whole lines, `body` is the content in pieces.
pub fn write_behind(out: &mut Vec<u8>, start: &[u8], fields: &[u8], body: &[&[u8]], framing: Framing) {
    out.extend_from_slice(start);
    out.extend_from_slice(fields);
    encode::content_length(out, body.iter().map(|piece| piece.len() as u64).sum());
    clock::date_line(out);
    write_connection(out, framing.version, framing.close);
    encode::end_head(out);
    if !framing.head_only {
        body.iter().for_each(|piece| out.extend_from_slice(piece));
    }
}

/// What a problem document says beside its error.
#[derive(Debug, Clone, Copy)]
pub struct Members<'a> {
    /// Id of the request; empty without one.
    pub request_id: &'a [u8],
    /// A JSON array of what is wrong with the request; empty without one.
    pub errors: &'a [u8],
}

impl<'a> Members<'a> {
    /// Only the id of the request.
    pub fn of(request_id: &'a [u8]) -> Self {
        Members { request_id, errors: b"" }
    }
}

/// Appends a problem document for `error`. `fields` are whole lines; `retry_after` is in seconds.
pub fn problem(
    out: &mut Vec<u8>,
    error: Error,
    members: Members<'_>,
    fields: &[u8],
    retry_after: Option<u64>,
    framing: Framing,
) {
    let reason = error.reason;
    let request_id = members.request_id;
    let mut body = Vec::with_capacity(256);
    body.extend_from_slice(b"{\"type\":\"about:blank\",\"title\":\"");
    body.extend_from_slice(reason.title().as_bytes());
    body.extend_from_slice(b"\",\"status\":");
    encode::decimal(&mut body, u64::from(reason.status()));
    // Clients of the older gateway look for this member.
    body.extend_from_slice(b",\"error\":\"");
    body.extend_from_slice(if reason == Reason::RateLimited {
        b"too_many_requests"
    } else {
        reason.label().as_bytes()
    });
    body.push(b'"');
    if !error.detail.is_empty() {
        body.extend_from_slice(b",\"detail\":\"");
        body.extend_from_slice(error.detail.as_bytes());
        body.push(b'"');
    }
    if !request_id.is_empty() {
        body.extend_from_slice(b",\"request_id\":\"");
        body.extend(request_id.iter().filter(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')));
        body.push(b'"');
    }
    if !members.errors.is_empty() {
        body.extend_from_slice(b",\"errors\":");
        body.extend_from_slice(members.errors);
    }
    body.extend_from_slice(b"}\n");

    let mut lines = fields.to_vec();
    let retry_after = retry_after.or(reason.is_temporary().then_some(1));
    if let Some(seconds) = retry_after {
        encode::number(&mut lines, b"Retry-After", seconds.max(1));
    }
    write(out, reason.status(), "application/problem+json", &lines, &body, framing);
}
