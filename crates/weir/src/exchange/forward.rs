//! Heads on their way through: the client's head becomes the upstream's, the upstream's becomes the client's.
//!
//! Field lines are forwarded as they lie in the buffer, in runs: neighbours that stay are one copy. What is taken out: fields of one
//! connection (RFC 9110 section 7.6.1), framing (RFC 9112 section 6, always written anew), and what the gateway itself vouches for. What
//! clients forged was taken out before (`forged.rs`).

use h1::{BodyKind, Field, Known, RequestHead, ResponseHead, Version, encode};

use super::{grpc, trailers};
use crate::client::identity::Client;
use crate::config::Edits;
use crate::http::edits::{is_edited, write_connection, write_edits};
use crate::policy::auth::{ForgedNames, RouteEdits};
use crate::policy::cache::rules::update::is_replaced;

/// What the upstream's request is made of.
pub struct ToUpstream<'a> {
    /// Buffer that the head was parsed from.
    pub buf: &'a [u8],
    /// The client's head, after [`strip_forged_headers`](super::forged::strip_forged_headers).
    pub head: &'a RequestHead,
    /// Path and query of the request, rewritten.
    pub target: &'a [u8],
    /// `Host` to write.
    pub host: &'a [u8],
    /// Who sends the request.
    pub client: &'a Client,
    /// Request id to write, with the name of its field.
    pub request_id: (&'a str, &'a [u8]),
    /// Lines that carry the trace's context.
    pub trace: &'a [u8],
    /// What authentication removes: credentials that the upstream must not see, and fields that only the gateway may write.
    pub auth: (&'a RouteEdits, &'a ForgedNames),
    /// Lines that tell the upstream who sends the request.
    pub identity: &'a [u8],
    /// Lines of the route whose values have variables.
    pub variables: &'a [u8],
    /// The route's edits.
    pub edits: &'a Edits,
    /// Protocol to request an upgrade to.
    pub upgrade: Option<&'a [u8]>,
    /// Framing of the body.
    pub body: BodyKind,
    /// Whether the route forwards trailers.
    pub forwards_trailers: bool,
    /// Whether the client takes them too.
    pub accepts_trailers: bool,
    /// What is left of a gRPC call's time, in nanoseconds; takes the place of what the client said.
    pub grpc_timeout: Option<u64>,
    /// Times that a gRPC call was made before.
    pub previous_attempts: u32,
    /// Lines by which the cache has its copy confirmed; they take the place of the client's own conditions and range.
    pub conditions: Option<&'a [u8]>,
}

impl ToUpstream<'_> {
    /// Appends the head.
    pub fn write(&self, out: &mut Vec<u8>) {
        let ToUpstream { buf, head, client, edits, .. } = *self;
        encode::begin_request_line(out, head.method_name.of_buf(buf));
        out.extend_from_slice(self.target);
        encode::end_request_line(out, self.host);

        let own_id = !self.request_id.0.eq_ignore_ascii_case(Known::XRequestId.name());
        let has_edits = !edits.is_empty();
        let has_auth = !self.auth.0.is_empty() || !self.auth.1.is_empty();
        let mut has_forwarded_for = false;
        let mut keeps_proto = false;
        let mut keeps_host = false;
        copy_lines(out, buf, head.fields.iter(), |field| {
            if field.is_hop_by_hop() {
                return false;
            }
            let keep = match field.known {
                Known::Host | Known::ContentLength | Known::Expect | Known::Http2Settings => false,
                Known::XRequestId => own_id,
                Known::GrpcTimeout => self.grpc_timeout.is_none(),
                Known::XForwardedFor => {
                    has_forwarded_for = true;
                    false
                }
                Known::XForwardedProto => {
                    keeps_proto |= client.peer_is_trusted;
                    client.peer_is_trusted
                }
                Known::XForwardedHost => {
                    keeps_host |= client.peer_is_trusted;
                    client.peer_is_trusted
                }
                Known::Other => {
                    let name = field.name.of_buf(buf);
                    let is_replaced = own_id && Known::is_alias(name, self.request_id.0.as_bytes());
                    let is_counted = self.previous_attempts > 0 && name.eq_ignore_ascii_case(grpc::PREVIOUS_ATTEMPTS);
                    !(is_replaced || is_counted)
                }
                _ => true,
            };
            let keep = keep
                && !(has_auth && (self.auth.0.removes(field, buf) || self.auth.1.contains(field.name.of_buf(buf))));
            let keep = keep && !(self.conditions.is_some() && is_replaced(field.known));
            keep && !(has_edits && is_edited(edits, field.name.of_buf(buf)))
        });

        if let Some(conditions) = self.conditions {
            out.extend_from_slice(conditions);
        }
        out.extend_from_slice(b"X-Forwarded-For: ");
        if has_forwarded_for && client.peer_is_trusted {
            for value in head.fields.values(Known::XForwardedFor, buf).filter(|value| !value.is_empty()) {
                out.extend_from_slice(value);
                out.extend_from_slice(b", ");
            }
        }
        out.extend_from_slice(client.peer_text());
        encode::end_field(out);
        if !keeps_proto {
            // A copy of known length is a few instructions; one of any length is a call.
            match client.tls {
                None => out.extend_from_slice(b"X-Forwarded-Proto: http"),
                Some(_) => out.extend_from_slice(b"X-Forwarded-Proto: https"),
            }
            encode::end_field(out);
        }
        if !keeps_host && let Some(authority) = head.authority {
            out.extend_from_slice(b"X-Forwarded-Host: ");
            out.extend_from_slice(authority.of_buf(buf));
            encode::end_field(out);
        }
        write_request_id(out, self.request_id);
        for lines in [self.trace, self.identity] {
            if !lines.is_empty() {
                out.extend_from_slice(lines);
            }
        }
        if has_edits {
            write_edits(out, edits);
            out.extend_from_slice(self.variables);
        }
        if let Some(left) = self.grpc_timeout
            && !(has_edits && is_edited(edits, Known::GrpcTimeout.name().as_bytes()))
        {
            grpc::write_timeout(out, left);
        }
        if self.previous_attempts > 0 && !(has_edits && is_edited(edits, grpc::PREVIOUS_ATTEMPTS)) {
            encode::number(out, grpc::PREVIOUS_ATTEMPTS, u64::from(self.previous_attempts));
        }
        if self.forwards_trailers && self.body == BodyKind::Chunked {
            trailers::write_announced(out, &head.fields, buf);
        }
        if self.accepts_trailers {
            // RFC 9110 section 10.1.4: a hop-by-hop field, so it is named.
            encode::field(out, b"Connection", b"TE");
            encode::field(out, b"TE", b"trailers");
        }
        if let Some(protocol) = self.upgrade {
            encode::field(out, b"Connection", b"upgrade");
            encode::field(out, b"Upgrade", protocol);
        }
        match self.body {
            BodyKind::Length(length) => encode::content_length(out, length),
            BodyKind::Chunked => encode::chunked(out),
            // A method that usually has a body says so when it has none (RFC 9110 section 8.6).
            BodyKind::None if matches!(head.method, h1::Method::Post | h1::Method::Put | h1::Method::Patch) => {
                encode::content_length(out, 0);
            }
            BodyKind::None | BodyKind::UntilClose => {}
        }
        encode::end_head(out);
    }
}

/// Appends the line of an id, which is one that was checked or made here.
#[inline]
pub fn write_request_id(out: &mut Vec<u8>, (name, id): (&str, &[u8])) {
    encode::begin_field(out, name.as_bytes());
    match id.first_chunk::<32>() {
        Some(made) if id.len() == made.len() => out.extend_from_slice(made),
        _ => out.extend_from_slice(id),
    }
    encode::end_field(out);
}

/// What the client's response is made of.
pub struct ToClient<'a> {
    /// Buffer that the head was parsed from.
    pub buf: &'a [u8],
    /// The upstream's head.
    pub head: &'a ResponseHead,
    /// The route's edits.
    pub edits: &'a Edits,
    /// Name of a field that the gateway writes itself: the upstream's is left out.
    pub own_field: Option<&'a str>,
    /// Version of the client.
    pub version: Version,
    /// Whether this is the connection's last response.
    pub close: bool,
    /// Whether the body is compressed here, so that its length is not the upstream's.
    pub is_coded: bool,
    /// Whether trailers pass to this client.
    pub forwards_trailers: bool,
}

impl ToClient<'_> {
    /// How the body will be framed towards the client.
    pub fn framing(&self) -> BodyKind {
        match (self.head.body, self.version) {
            (BodyKind::Chunked | BodyKind::UntilClose, Version::Http11) => BodyKind::Chunked,
            (BodyKind::Chunked | BodyKind::UntilClose, Version::Http10) => BodyKind::UntilClose,
            (BodyKind::Length(_), Version::Http11) if self.is_coded => BodyKind::Chunked,
            (BodyKind::Length(_), Version::Http10) if self.is_coded => BodyKind::UntilClose,
            (kind, _) => kind,
        }
    }

    /// Appends the head without its final empty line, so that policies can add fields; [`end`](Self::end) closes it.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_without(out, |_| false);
    }

    /// The same without some fields.
    #[inline]
    pub fn write_without(&self, out: &mut Vec<u8>, mut drops: impl FnMut(&Field) -> bool) {
        let ToClient { buf, head, edits, own_field, .. } = *self;
        encode::status_line(out, head.status, head.reason.of_buf(buf));
        let has_edits = !edits.is_empty();
        let mut has_date = false;
        copy_lines(out, buf, head.fields.iter(), |field| {
            if field.is_hop_by_hop() {
                return false;
            }
            match field.known {
                Known::ContentLength => return false,
                Known::Date => has_date = true,
                _ => {}
            }
            if is_own(own_field, field, buf) || drops(field) {
                return false;
            }
            !(has_edits && is_edited(edits, field.name.of_buf(buf)))
        });
        if self.forwards_trailers && self.framing() == BodyKind::Chunked {
            trailers::write_announced(out, &head.fields, buf);
        }
        // RFC 9110 section 6.6.1: who forwards a response without a date adds one.
        if !has_date {
            crate::runtime::clock::date_line(out);
        }
        if has_edits {
            write_edits(out, edits);
        }
    }

    /// Appends framing, connection and the empty line.
    pub fn end(&self, out: &mut Vec<u8>) {
        match self.framing() {
            BodyKind::Length(length) => encode::content_length(out, length),
            BodyKind::Chunked => encode::chunked(out),
            BodyKind::UntilClose => {}
            // RFC 9110 section 8.6: never in 1xx and 204; for HEAD and 304 it says what GET would have had.
            BodyKind::None => match (self.head.status, self.head.content_length) {
                (100..=199 | 204, _) | (_, None) => {}
                _ if self.is_coded => {}
                (_, Some(length)) => encode::content_length(out, length),
            },
        }
        write_connection(out, self.version, self.close);
        encode::end_head(out);
    }
}

/// Appends an interim head (RFC 9110 section 15.2): status and fields, no framing.
pub fn write_interim_head(out: &mut Vec<u8>, buf: &[u8], head: &ResponseHead, own_field: Option<&str>) {
    encode::status_line(out, head.status, head.reason.of_buf(buf));
    copy_lines(out, buf, head.fields.iter(), |field| {
        !field.is_hop_by_hop() && field.known != Known::ContentLength && !is_own(own_field, field, buf)
    });
    encode::end_head(out);
}

/// Appends the head of a 101: the one response that names a protocol. `own` is the field that the gateway writes, with its value.
pub fn write_upgrade_head(
    out: &mut Vec<u8>,
    buf: &[u8],
    head: &ResponseHead,
    protocol: &[u8],
    own: Option<(&str, &[u8])>,
) {
    encode::status_line(out, head.status, head.reason.of_buf(buf));
    let own_field = own.map(|(name, _)| name);
    copy_lines(out, buf, head.fields.iter(), |field| {
        !field.is_hop_by_hop() && field.known != Known::ContentLength && !is_own(own_field, field, buf)
    });
    if let Some((name, value)) = own {
        encode::field(out, name.as_bytes(), value);
    }
    encode::field(out, b"Connection", b"upgrade");
    encode::field(out, b"Upgrade", protocol);
    encode::end_head(out);
}

/// Whether a field of the upstream is one that the gateway writes itself.
#[inline]
fn is_own(own: Option<&str>, field: &Field, buf: &[u8]) -> bool {
    let Some(own) = own else { return false };
    match field.known {
        Known::XRequestId | Known::Other => field.name.of_buf(buf).eq_ignore_ascii_case(own.as_bytes()),
        _ => false,
    }
}

/// Appends the lines of the fields that stay; lines that lie side by side are copied at once.
#[inline]
pub(super) fn copy_lines<'a>(
    out: &mut Vec<u8>,
    buf: &[u8],
    fields: impl Iterator<Item = &'a Field>,
    mut keep: impl FnMut(&Field) -> bool,
) {
    let mut run = 0..0;
    for field in fields {
        if !keep(field) {
            continue;
        }
        let line = field.line().range();
        if line.start == run.end {
            run.end = line.end;
        } else {
            out.extend_from_slice(&buf[run]);
            run = line;
        }
    }
    out.extend_from_slice(&buf[run]);
}

#[cfg(test)]
mod tests;
