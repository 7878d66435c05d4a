//! Fields that are taken out of a request before anything looks at it: what a client forged must not choose its route, its limit, its target or
//! its place in a cache, nor reach the upstream.

use std::sync::Arc;

use h1::{Field, Fields, Known};

use crate::config::UntrustedHeaders;
use crate::policy::auth::ForgedNames;

/// Takes out, of a request by a peer that is trusted or not,
///
/// - fields that a `Connection` option names: they are meant for this hop, the upstream does not see them (RFC 9110 section 7.6.1);
/// - names that a careless server would take for those which the gateway writes;
/// - fields that authentication writes, in every spelling;
/// - other spellings of fields that routes have conditions on, or that decide about limits, places in a cache, splits or targets: CGI and its
///   heirs would take them for those;
/// - where the peer is not trusted, what only proxies may say: [`spoofable`](crate::policy::spoofable), and the request id.
///
/// Every way to [`ToUpstream`](super::forward::ToUpstream) begins here; that does not look again.
pub fn strip_forged_headers(
    fields: &mut Fields,
    buf: &[u8],
    is_trusted: bool,
    id_name: &str,
    untrusted: &UntrustedHeaders,
    identity: &ForgedNames,
    decisive: &[Arc<str>],
) {
    if !identity.is_empty() {
        fields.retain(|field| !identity.contains(field.name.of_buf(buf)));
    }
    if !decisive.is_empty() {
        fields.retain(|field| {
            let name = field.name.of_buf(buf);
            let poses_as = |other: &[u8]| Known::is_alias(name, other) && !name.eq_ignore_ascii_case(other);
            !decisive.iter().any(|name| poses_as(name.as_bytes()))
        });
    }
    let passes = |field: &Field| match field.known {
        Known::XForwardedFor | Known::XForwardedProto | Known::XForwardedHost => is_trusted,
        // Where ids have a field of their own, this one is like any other.
        Known::XRequestId => is_trusted || !id_name.eq_ignore_ascii_case(Known::XRequestId.name()),
        Known::Forwarded => is_trusted || !untrusted.removes(Known::Forwarded.name().as_bytes()),
        Known::Other => {
            let name = field.name.of_buf(buf);
            let is_id = Known::is_alias(name, id_name.as_bytes());
            !field.named_by_connection
                && !(is_id && !(is_trusted && name.eq_ignore_ascii_case(id_name.as_bytes())))
                && (is_trusted || !untrusted.removes(name))
                && !is_set_by_gateway(Known::of_alias_at(buf, field.name))
        }
        known => !field.named_by_connection || known.is_hop_by_hop(),
    };
    // Most requests hold nothing of it, and stay where they are; and most fields are none that the client may not send.
    if !fields.iter().all(|field| is_harmless(field) || passes(field)) {
        fields.retain(passes);
    }
}

/// Whether it passes whoever sends it, by its name alone.
#[inline]
fn is_harmless(field: &Field) -> bool {
    const LOOKED_AT: u64 = Known::Other.bit()
        | Known::XForwardedFor.bit()
        | Known::XForwardedProto.bit()
        | Known::XForwardedHost.bit()
        | Known::XRequestId.bit()
        | Known::Forwarded.bit();
    !field.named_by_connection && field.known.bit() & LOOKED_AT == 0
}

/// Fields that upstreams trust because the gateway wrote them, or that frame the message.
fn is_set_by_gateway(known: Known) -> bool {
    known.is_hop_by_hop()
        || matches!(
            known,
            Known::Host
                | Known::ContentLength
                | Known::XForwardedFor
                | Known::XForwardedProto
                | Known::XForwardedHost
                | Known::XRequestId
                | Known::Forwarded
        )
}
