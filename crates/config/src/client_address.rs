//! The address of a client or a proxy: an IP address, or that of all peers of Unix sockets.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Address of a peer, or of a client that a proxy names.
///
/// Whoever connects to a Unix socket has none: to limits all of them are one client, `unix:`, and no list of networks holds them. A proxy among them
/// that `trusted_proxies` names (`unix:`) tells its clients apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientAddress {
    /// An IP address.
    Ip(IpAddr),
    /// A process of this machine that connected to a Unix socket.
    Unix,
}

/// How [`ClientAddress::Unix`] is written, as nginx does.
const UNIX: &str = "unix:";

impl ClientAddress {
    /// The IP address, if there is one.
    #[inline]
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            ClientAddress::Ip(address) => Some(address),
            ClientAddress::Unix => None,
        }
    }

    /// The same address in one form: IPv4-mapped IPv6 as IPv4.
    #[inline]
    pub fn to_canonical(self) -> Self {
        match self {
            ClientAddress::Ip(address) => ClientAddress::Ip(address.to_canonical()),
            ClientAddress::Unix => ClientAddress::Unix,
        }
    }

    /// Bytes that hashes and keys are made of; of IPv6 the first `six`.
    #[inline]
    pub fn with_bytes<T>(self, six: usize, take: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            ClientAddress::Ip(IpAddr::V4(address)) => take(&address.octets()),
            ClientAddress::Ip(IpAddr::V6(address)) => take(&address.octets()[..six]),
            ClientAddress::Unix => take(UNIX.as_bytes()),
        }
    }
}

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        ClientAddress::Ip(address)
    }
}

impl FromStr for ClientAddress {
    type Err = std::net::AddrParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == UNIX { Ok(ClientAddress::Unix) } else { text.parse().map(ClientAddress::Ip) }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientAddress::Ip(address) => address.fmt(f),
            ClientAddress::Unix => f.write_str(UNIX),
        }
    }
}
