//! The target that an upstream gets, and the location that a redirect leads to.

use super::RouteMatch;
use super::host;
use super::path::Target;
use crate::config::{Redirect, RedirectParts, Rewrite};

/// Writes the request target for an upstream (origin form, RFC 9112 §3.2.1) behind what is in `out`: the base path of the chosen target,
/// the path after the route's rewrite, and the query as it came.
///
/// `base_path` has no slash at its end. The parts of the client's path are in their normal form, so that the result is a path in normal form
/// too.
pub fn upstream_target(out: &mut Vec<u8>, base_path: &str, rewrite: &Rewrite, found: RouteMatch, target: Target<'_>) {
    out.extend_from_slice(base_path.as_bytes());
    match rewrite {
        Rewrite::None => out.extend_from_slice(target.path),
        Rewrite::Path(path) => out.extend_from_slice(path.as_bytes()),
        Rewrite::Prefix(prefix) => {
            let rest = &target.path[found.fixed_len..];
            out.extend_from_slice(prefix.as_bytes());
            // Begins with a slash, as the fixed part ends before one; only a pattern without parameter or wildcard leaves nothing.
            out.extend_from_slice(rest);
            if rest.is_empty() && prefix.is_empty() {
                out.push(b'/');
            }
        }
    }
    if let Some(query) = target.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// What a redirect knows of its request.
#[derive(Debug, Clone, Copy)]
pub struct RequestOrigin<'a> {
    /// Scheme of the connection.
    pub scheme: &'a str,
    /// Value of `Host`, or the authority that stands for it.
    pub authority: &'a [u8],
}

/// Writes the `Location` of a redirect that changes parts of the request's URL; nothing when the request has no host that it could lead to.
pub fn changed_location(
    out: &mut Vec<u8>,
    parts: &RedirectParts,
    origin: RequestOrigin<'_>,
    found: RouteMatch,
    target: Target<'_>,
) {
    let mut memory = [0; host::MAX_BYTES];
    let own = host::normalise(origin.authority, &mut memory);
    let Some(host) = parts.host.as_deref().map(str::as_bytes).or(own) else { return };
    let scheme = parts.scheme.as_deref().unwrap_or(origin.scheme);
    let port = parts.port.or_else(|| if parts.scheme.is_some() { None } else { port_of(origin.authority) });
    out.extend_from_slice(scheme.as_bytes());
    out.extend_from_slice(b"://");
    out.extend_from_slice(host);
    if let Some(port) = port.filter(|port| (scheme, *port) != ("http", 80) && (scheme, *port) != ("https", 443)) {
        out.extend_from_slice(format!(":{port}").as_bytes());
    }
    upstream_target(out, "", &parts.path, found, target);
}

/// The port of an authority.
fn port_of(authority: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(authority).ok()?;
    text.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'))?.1.parse().ok()
}

/// Writes the `Location` of a redirect (RFC 9110 §10.2.2) behind what is in `out`. The query follows, unless the redirect has its own.
pub fn location(out: &mut Vec<u8>, redirect: &Redirect, found: RouteMatch, target: Target<'_>) {
    out.extend_from_slice(redirect.to.as_bytes());
    if redirect.append_rest {
        // `//` would be the start of another host; it is there only where `server.path.double_slash` keeps it.
        let rest = &target.path[found.rest_at..];
        let slashes = rest.iter().take_while(|&&byte| byte == b'/').count();
        out.extend_from_slice(&rest[if redirect.to.ends_with('/') { slashes } else { 0 }..]);
    }
    if let Some(query) = target.query.filter(|_| !redirect.to.contains('?')) {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

#[cfg(test)]
mod tests;
