//! Public listeners.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use super::TcpOptions;

/// A public listener.
#[derive(Debug, Clone, PartialEq)]
pub struct Listen {
    /// Name that routes refer to.
    pub name: Option<Arc<str>>,
    /// Where it takes connections.
    pub bind: Bind,
    /// Permissions of its file, if it is a Unix socket.
    pub mode: u32,
    /// Whether a connection in clear text may begin with the preface of HTTP/2.
    pub takes_prior_knowledge: bool,
    /// PROXY header that its connections begin with.
    pub proxy_protocol: Option<proxy_protocol::Accepts>,
    /// Options of its TCP connections.
    pub tcp: TcpOptions,
    /// What it does with connections.
    pub serves: Serves,
}

/// Permissions of a Unix socket without `mode`: its user and group may connect.
pub const SOCKET_MODE: u32 = 0o660;

/// Where a listener takes connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Bind {
    /// An IP address; port 0 takes a free port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(Arc<Path>),
    /// A socket that the process is started with, as systemd passes them.
    Inherited(InheritedSocket),
}

/// A socket that the process is started with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum InheritedSocket {
    /// By the number of its descriptor, from 3 on.
    Number(u32),
    /// By its name.
    Name(Arc<str>),
}

/// Longest name of a socket.
const NAME_BYTES: usize = 64;

impl FromStr for InheritedSocket {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.@".contains(&byte);
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = text.parse().ok().filter(|number| *number >= 3);
            return number.map(InheritedSocket::Number).ok_or_else(|| {
                "descriptors that are passed have numbers from 3 on, such as `fd:3`; a name says more, such as `fd:web`".to_owned()
            });
        }
        if text.len() > NAME_BYTES || !text.bytes().all(is_name_byte) {
            return Err(format!("the name of a socket has up to {NAME_BYTES} letters, digits, `_`, `-`, `.` and `@`"));
        }
        Ok(InheritedSocket::Name(text.into()))
    }
}

impl fmt::Display for InheritedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InheritedSocket::Number(number) => number.fmt(f),
            InheritedSocket::Name(name) => name.fmt(f),
        }
    }
}

impl Bind {
    /// Whether any number of listeners may say the same: each takes another free port.
    pub fn takes_free_port(&self) -> bool {
        matches!(self, Bind::Tcp(address) if address.port() == 0)
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bind::Tcp(address) => address.fmt(f),
            Bind::Unix(path) => write!(f, "unix:{}", path.display()),
            Bind::Inherited(which) => write!(f, "fd:{which}"),
        }
    }
}

/// What a listener does with connections.
#[derive(Debug, Clone, PartialEq)]
pub enum Serves {
    /// Requests in clear text.
    Http,
    /// Requests over TLS.
    Https(Arc<ListenerTls>),
    /// Every request is sent to the listener over TLS that has its host.
    RedirectToHttps,
}

/// TLS on a listener: files are read, keys and names checked.
#[derive(Debug)]
pub struct ListenerTls {
    /// Certificates by name, and what clients have to show.
    pub options: tls::server::Options,
    /// What tells listeners apart.
    pub digest: [u8; 32],
}

impl Listen {
    /// Hosts that it serves over TLS, if it does.
    pub fn names(&self) -> Option<&tls::Names> {
        match &self.serves {
            Serves::Https(tls) => Some(&*tls.options.names),
            Serves::Http | Serves::RedirectToHttps => None,
        }
    }
}

impl ListenerTls {
    /// TLS with these options.
    pub fn new(options: tls::server::Options) -> Self {
        ListenerTls { digest: options.digest(), options }
    }

    /// Whether any host requests certificates from its clients.
    pub fn requests_certificates(&self) -> bool {
        self.options.policies.iter().any(|policy| policy.client_auth.is_some())
    }
}

impl PartialEq for ListenerTls {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl From<SocketAddr> for Listen {
    /// A listener in clear text.
    fn from(bind: SocketAddr) -> Self {
        Listen {
            name: None,
            bind: Bind::Tcp(bind),
            mode: SOCKET_MODE,
            takes_prior_knowledge: false,
            proxy_protocol: None,
            tcp: TcpOptions::default(),
            serves: Serves::Http,
        }
    }
}
