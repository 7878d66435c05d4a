//! Keeps foreign web pages out. A page that somebody on the operator's machine looks at can make the browser send
//! requests to `127.0.0.1`; two ways must be closed.
//!
//! *DNS rebinding*: the page's own name is made to resolve to this listener's address, which makes the page and the
//! listener one origin to the browser. The request then carries that name in `Host`, so only names that no stranger can
//! have been completed: addresses, `localhost`, and, where the connection did not come over the loopback interface, names
//! without a dot (`weir:9901` in a compose file).
//!
//! *Cross-site requests*: the browser sends them but does not show the response to the page. That is enough to reload, so
//! what changes something must not carry a foreign `Origin` (Fetch standard) or `Sec-Fetch-Site` (Fetch Metadata).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};

use crate::LocalAddress;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It has no Host field.
    NoHost,
    /// Host is a name that another site can have made to lead here.
    Name,
    /// It changes something, and a page of another site sent it.
    Site,
}

impl Refused {
    /// The status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Refused::NoHost => StatusCode::BAD_REQUEST,
            Refused::Name => StatusCode::MISDIRECTED_REQUEST,
            Refused::Site => StatusCode::FORBIDDEN,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::NoHost => "The Host field is missing.",
            Refused::Name => {
                "This listener accepts an IP address or localhost as Host, not this name (a protection against DNS rebinding)."
            }
            Refused::Site => {
                "The request came from a page of another site. Only this site and programs other than browsers may send it."
            }
        })
    }
}

/// Whether a page of another site may have caused a request, as [`crate::serve`] hands it over.
///
/// # Errors
/// What is wrong with it.
pub fn check(request: &Request) -> Result<(), Refused> {
    let local = request.extensions().get::<LocalAddress>().map(|local| local.0);
    // RFC 9112 section 3.2.2: an absolute target overrides Host; a browser sends neither twice nor different.
    let hosts = request.headers().get_all(header::HOST).iter().map(|value| Authority::try_from(value.as_bytes()).ok());
    let named = request.uri().authority().cloned().map(Some);
    let mut count = 0;
    for host in hosts.chain(named) {
        count += 1;
        if !host.is_some_and(|host| is_own_host(&host, local)) {
            return Err(Refused::Name);
        }
    }
    if count == 0 {
        return Err(Refused::NoHost);
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && is_cross_site(request.headers()) { Err(Refused::Site) } else { Ok(()) }
}

/// Whether no stranger can have made this name lead here.
fn is_own_host(host: &Authority, local: Option<SocketAddr>) -> bool {
    if host.as_str().contains('@') {
        return false;
    }
    let name = host.host();
    let literal = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    if literal.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    // RFC 6761 section 6.3: these never leave the machine.
    if name == "localhost" || name.ends_with(".localhost") {
        return true;
    }
    let over_loopback = local.is_none_or(|local| local.ip().to_canonical().is_loopback());
    !over_loopback && !name.is_empty() && !name.contains('.')
}

fn is_cross_site(headers: &HeaderMap) -> bool {
    const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let foreign_site = |value: &[u8]| !matches!(value, b"same-origin" | b"none");
    if headers.get_all(SEC_FETCH_SITE).iter().any(|value| foreign_site(value.as_bytes())) {
        return true;
    }
    let host = headers.get(header::HOST).map_or(&b""[..], |host| host.as_bytes());
    headers.get_all(header::ORIGIN).iter().any(|origin| {
        let origin = origin.as_bytes();
        let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    })
}
