//! The few parts of a URL that a generator needs.

use std::net::{SocketAddr, ToSocketAddrs};

use super::{Authority, PrepareError};

/// `http://host[:port][/path][?query]`, or the same with `https`, `ws` or `wss`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether it is `https` or `wss`.
    pub https: bool,
    /// Whether it is `ws` or `wss`.
    pub websocket: bool,
    /// Host and port as written: the Host field.
    pub authority: String,
    /// Port; 80, or 443 for `https` and `wss`, unless written.
    pub port: u16,
    /// Path and query, `/` at least.
    pub path: String,
}

impl Url {
    /// Cuts a URL into its parts.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<Self, PrepareError> {
        let fail = |problem: &str| Err(PrepareError::Url { url: url.to_owned(), problem: problem.to_owned() });
        let (https, websocket, rest) =
            match url.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest)) {
                Some((scheme, rest)) if scheme == "http" => (false, false, rest),
                Some((scheme, rest)) if scheme == "https" => (true, false, rest),
                Some((scheme, rest)) if scheme == "ws" => (false, true, rest),
                Some((scheme, rest)) if scheme == "wss" => (true, true, rest),
                Some(_) => return fail("only http:// and https:// are supported, and ws:// and wss:// for WebSocket"),
                None => return fail("invalid URL; expected http://host:port/path"),
            };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let path = path.split('#').next().unwrap_or_default();
        if authority.contains('@') {
            return fail("it holds a user name; write a header instead: -H 'Authorization: Basic ...'");
        }
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return fail("its path holds spaces or characters beyond ASCII; percent-encode them");
        }
        let port = match authority.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return fail("its port is not a number from 1 to 65535"),
            },
            _ if https => 443,
            _ => 80,
        };
        let host = host(authority);
        if host.is_empty() || !authority.bytes().all(|byte| byte.is_ascii_graphic()) {
            return fail("it names no host; write http://host:port/path");
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Url { https, websocket, authority: authority.to_owned(), port, path })
    }

    /// Scheme and authority: `https://host:port`.
    pub fn origin(&self) -> String {
        let scheme = match (self.websocket, self.https) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "ws",
            (true, true) => "wss",
        };
        format!("{scheme}://{}", self.authority)
    }

    /// The host, without port and brackets.
    pub(crate) fn host(&self) -> &str {
        host(&self.authority)
    }

    /// Looks the host up, once: the first address is used for the whole run, so that every connection goes to one place.
    /// Where it leads.
    ///
    /// # Errors
    /// [`PrepareError::Resolve`] when the name has no address.
    pub fn address(&self) -> Result<std::net::SocketAddr, PrepareError> {
        Ok(self.resolve()?.address)
    }

    pub(crate) fn resolve(&self) -> Result<Authority, PrepareError> {
        let host = host(&self.authority);
        let fail = |error| PrepareError::Resolve { host: host.to_owned(), error };
        let mut addresses: Vec<SocketAddr> = (host, self.port).to_socket_addrs().map_err(fail)?.collect();
        // `localhost` has both; servers on a developer's machine listen on IPv4 more often.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        match addresses.first() {
            Some(&address) => Ok(Authority { name: self.authority.clone(), address, secure: None }),
            None => Err(fail(std::io::Error::other("the name has no address"))),
        }
    }
}

/// Without port and brackets.
fn host(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}
