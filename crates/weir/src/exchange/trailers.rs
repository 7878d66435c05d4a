//! Trailers: which fields are allowed in them (RFC 9110 section 6.5.1), and which of them pass.
//!
//! A trailer comes after everything that a head decides, so it may decide nothing of that: what frames, routes, authenticates, is about
//! caches or describes the content is dropped, whoever sends it. What policies remove from heads is removed here too. Trailers are never
//! merged into a head (HTTP1-SAFETY's rule 13).

use std::fmt;
use std::rc::Rc;

use h1::{Fields, Known, encode, trailer_fields};
use message::list_elements;
use message::validate::is_token;

use crate::config::{Edits, RouteId};
use crate::http::edits::is_edited;
use crate::worker::snapshot::Snapshot;

/// Beginnings of names that are about a message or a connection as a whole.
const PREFIXES: [&[u8]; 6] = [b"content-", b"proxy-", b"sec-", b"access-control-", b"x-forwarded-", b"transfer-"];
/// Further names of that kind.
const NAMES: [&[u8]; 8] = [
    b"www-authenticate",
    b"authentication-info",
    b"set-cookie2",
    b"cookie2",
    b"max-forwards",
    b"http2-settings",
    b"refresh",
    b"clear-site-data",
];

/// Whether a field is allowed in a trailer section.
fn may_be_trailer(name: &[u8]) -> bool {
    match (Known::of(name), Known::of_alias(name)) {
        (Known::GrpcStatus | Known::GrpcMessage, _) => true,
        (Known::Other, Known::Other) => {
            let begins = |prefix: &&[u8]| name.get(..prefix.len()).is_some_and(|start| Known::is_alias(start, prefix));
            !PREFIXES.iter().any(begins) && !NAMES.iter().any(|other| Known::is_alias(name, other))
        }
        _ => false,
    }
}

/// Appends the field that announces trailers, with those names that are allowed in them: Go's net/http refuses a message that announces
/// `Content-Length`, which other servers accept.
pub(super) fn write_announced(out: &mut Vec<u8>, fields: &Fields, buf: &[u8]) {
    let lines = fields.iter().filter(|field| field.announces_trailers()).map(|field| field.value.of_buf(buf));
    let mut names = lines.flat_map(list_elements).filter(|name| is_token(name) && may_be_trailer(name));
    let Some(first) = names.next() else { return };
    encode::begin_field(out, b"Trailer");
    out.extend_from_slice(first);
    for name in names {
        out.extend_from_slice(b", ");
        out.extend_from_slice(name);
    }
    encode::end_field(out);
}

/// Whom trailers go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Towards {
    /// The upstream; whether the peer that they came from is trusted.
    Upstream { is_trusted: bool },
    /// The client.
    Client,
}

/// What the trailers of one body pass.
#[derive(Clone)]
pub(super) struct TrailerRules {
    /// The configuration of the exchange.
    pub(super) snapshot: Rc<Snapshot>,
    /// Its route, whose edits of heads hold for trailers too.
    pub(super) route: Option<RouteId>,
    pub(super) towards: Towards,
}

impl fmt::Debug for TrailerRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrailerRules")
            .field("route", &self.route)
            .field("towards", &self.towards)
            .finish_non_exhaustive()
    }
}

impl TrailerRules {
    /// Appends those of `lines`, which the decoder has checked, that pass, each in its one form.
    pub(super) fn write(&self, out: &mut Vec<u8>, lines: &[u8]) {
        for (_, name, value) in trailer_fields(lines) {
            if may_be_trailer(name) && self.passes(name) {
                encode::field(out, name, value);
            }
        }
    }

    fn passes(&self, name: &[u8]) -> bool {
        let config = self.snapshot.config();
        let edits = |route: RouteId| match self.towards {
            Towards::Upstream { .. } => &config.routes[route.0].headers.request,
            Towards::Client => &config.routes[route.0].headers.response,
        };
        let is_own = Known::is_alias(name, config.request_id.as_bytes());
        let is_edited_here = |edits: &Edits| !edits.is_empty() && is_edited(edits, name);
        if is_own || self.route.is_some_and(|route| is_edited_here(edits(route))) {
            return false;
        }
        let Towards::Upstream { is_trusted } = self.towards else { return true };
        let is_credential =
            self.route.is_some_and(|route| self.snapshot.routes[route.0].auth_edits.removes_named(name));
        (is_trusted || !config.untrusted_headers.removes(name))
            && !self.snapshot.auth.shared().forged.contains(name)
            && !is_credential
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_head_decides_may_not_come_in_trailers() {
        for name in [
            "Content-Length",
            "content_length",
            "Transfer-Encoding",
            "Host",
            "Authorization",
            "Cookie",
            "Set-Cookie",
            "Cache-Control",
            "ETag",
            "Vary",
            "Content-Type",
            "Content-Foo",
            "X-Forwarded-For",
            "X-Forwarded-Prefix",
            "Connection",
            "TE",
            "Trailer",
            "Upgrade",
            "Proxy-Foo",
            "Location",
            "WWW-Authenticate",
            "www_authenticate",
            "Access-Control-Allow-Origin",
            "Sec-WebSocket-Key",
            "Expect",
            "Max-Forwards",
            "Retry-After",
        ] {
            assert!(!may_be_trailer(name.as_bytes()), "{name}");
        }
        for name in
            ["grpc-status", "Grpc-Message", "grpc-status-details-bin", "X-Checksum", "Digest-Of-Mine", "server-timing"]
        {
            assert!(may_be_trailer(name.as_bytes()), "{name}");
        }
    }
}
