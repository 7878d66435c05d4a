//! What an upstream is asked for, and where a redirect leads.

use super::Found;
use super::path::Target;
use crate::config::{Redirect, Rewrite};

/// Writes the request target for an upstream (origin form, RFC 9112 §3.2.1) behind what is in `out`: the base path of the chosen target,
/// the path after the route's rewrite, and the query as it came.
///
/// `base_path` has no slash at its end. The parts of the client's path are in their normal form, so that the result is a path in normal form
/// too.
pub fn upstream_target(out: &mut Vec<u8>, base_path: &str, rewrite: &Rewrite, found: Found, target: Target<'_>) {
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

/// Writes the `Location` of a redirect (RFC 9110 §10.2.2) behind what is in `out`. The query follows, unless the redirect has its own.
pub fn location(out: &mut Vec<u8>, redirect: &Redirect, found: Found, target: Target<'_>) {
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
