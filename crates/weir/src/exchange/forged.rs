//! Fields that are taken out of a request before anything looks at it: what a client forged must not choose its route, its limit, its target or
//! its place in a cache, nor reach the upstream.

use h1::{Fields, Known};

use super::forward::is_set_by_gateway;
use super::identity::Client;
use crate::config::Config;

/// Takes out, of the request of this client,
///
/// - fields that a `Connection` option names: they are meant for this hop, the upstream does not see them (RFC 9110 section 7.6.1);
/// - names that a careless server would take for those which the gateway writes;
/// - where the peer is not trusted, what only proxies may say: [`spoofable`](crate::policy::spoofable), and the request id.
pub fn strip_forged_headers(fields: &mut Fields, buf: &[u8], client: &Client, config: &Config) {
    let is_trusted = client.peer_is_trusted;
    let has_own_id = !config.request_id.eq_ignore_ascii_case(Known::XRequestId.name());
    fields.retain(|field| match field.known {
        Known::XForwardedFor | Known::XForwardedProto | Known::XForwardedHost => is_trusted,
        Known::XRequestId => is_trusted || has_own_id,
        Known::Forwarded => is_trusted || !config.untrusted_headers.removes(Known::Forwarded.name().as_bytes()),
        Known::Other => {
            let name = field.name.of_buf(buf);
            let is_id = has_own_id && Known::is_alias(name, config.request_id.as_bytes());
            !field.named_by_connection
                && !(is_id && !(is_trusted && name.eq_ignore_ascii_case(config.request_id.as_bytes())))
                && (is_trusted || !config.untrusted_headers.removes(name))
                && !is_set_by_gateway(Known::of_alias(name))
        }
        known => !field.named_by_connection || known.is_hop_by_hop(),
    });
}
