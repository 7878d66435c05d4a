//! The PROXY protocol (HAProxy's `doc/proxy-protocol.txt`, 2020/03/05): the header with which a proxy that forwards bytes tells whose connection it
//! forwards. Version 1 is a line of text, version 2 is binary. No I/O: bytes in, a header out, and the other way round.

mod crc32c;
mod v1;
mod v2;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

pub use write::write;

/// Most bytes of a header that are read. The length field of version 2 allows more; no proxy sends so much, and a receiver holds it in memory.
pub const MAX_BYTES: usize = 16 * 1024;

/// Most bytes of a unique id, as the specification says.
const UNIQUE_ID_BYTES: usize = 128;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

impl Version {
    /// `v1` or `v2`.
    pub fn name(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V2 => "v2",
        }
    }
}

/// Versions that a receiver takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// Version 1 only.
    V1,
    /// Version 2 only.
    V2,
    /// Both.
    Any,
}

/// Both ends of a connection that a proxy forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// The address that the client connected to.
    pub destination: SocketAddr,
}

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client's, with its addresses.
    Client(Addresses),
    /// A client's, whose addresses the proxy does not know, or that has none (`UNKNOWN`, `UNSPEC`, a Unix socket).
    Unknown,
    /// The proxy's own (`LOCAL`): a health check.
    Proxy,
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The version that it is written in.
    pub version: Version,
    /// Whose connection it is.
    pub origin: Origin,
    /// Host that the client named in its TLS handshake with the proxy (`PP2_TYPE_AUTHORITY`).
    pub authority: Option<&'a [u8]>,
    /// Protocol that the client agreed on with the proxy (`PP2_TYPE_ALPN`).
    pub alpn: Option<&'a [u8]>,
    /// Id that the proxy gave the connection (`PP2_TYPE_UNIQUE_ID`).
    pub unique_id: Option<&'a [u8]>,
}

impl Header<'_> {
    fn new(version: Version, origin: Origin) -> Self {
        Header { version, origin, authority: None, alpn: None, unique_id: None }
    }
}

/// A header that was received, kept for as long as its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The proxy that sent it; `None` if it came by a Unix socket.
    pub proxy: Option<IpAddr>,
    /// The version that it is written in.
    pub version: Version,
    /// Whose connection it is.
    pub origin: Origin,
    /// Host that the client named in its TLS handshake with the proxy.
    pub authority: Option<Box<[u8]>>,
    /// Protocol that the client agreed on with the proxy.
    pub alpn: Option<Box<[u8]>>,
    /// Id that the proxy gave the connection.
    pub unique_id: Option<Box<[u8]>>,
}

impl Received {
    /// Keeps a header that came from `proxy`.
    pub fn new(proxy: Option<IpAddr>, header: &Header<'_>) -> Self {
        Received {
            proxy,
            version: header.version,
            origin: header.origin,
            authority: header.authority.map(Into::into),
            alpn: header.alpn.map(Into::into),
            unique_id: header.unique_id.map(Into::into),
        }
    }
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// They begin in another way: there is no header.
    Missing,
    /// It is of a version that is not taken here.
    Version(Version),
    /// It is longer than [`MAX_BYTES`], or than 107 bytes in version 1.
    TooLong,
    /// It breaks a rule; which one.
    Invalid(&'static str),
    /// Its CRC32c is not that of its bytes.
    Checksum,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Missing => f.write_str("the connection does not begin with a PROXY header"),
            Malformed::Version(version) => write!(f, "the header is of version {}", version.name()),
            Malformed::TooLong => f.write_str("the header is too long"),
            Malformed::Invalid(rule) => f.write_str(rule),
            Malformed::Checksum => f.write_str("the checksum of the header is wrong"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Reads the header at the front of `bytes`: the header and its length, or `None` while it is not complete. All of the bytes belong to the header
/// as long as it is not complete.
///
/// # Errors
/// Why they are not the beginning of a header that is taken; known as soon as the bytes tell.
pub fn read(bytes: &[u8], accepts: Accepts) -> Result<Option<(Header<'_>, usize)>, Malformed> {
    let version = if begins(bytes, v1::PREFIX) {
        Version::V1
    } else if begins(bytes, v2::SIGNATURE) {
        Version::V2
    } else {
        return Err(Malformed::Missing);
    };
    let is_taken = match accepts {
        Accepts::V1 => version == Version::V1,
        Accepts::V2 => version == Version::V2,
        Accepts::Any => true,
    };
    match version {
        // No byte yet tells nothing.
        _ if bytes.is_empty() => Ok(None),
        _ if !is_taken => Err(Malformed::Version(version)),
        Version::V1 => v1::read(bytes),
        Version::V2 => v2::read(bytes),
    }
}

/// Whether one is the beginning of the other.
fn begins(bytes: &[u8], prefix: &[u8]) -> bool {
    let length = bytes.len().min(prefix.len());
    bytes[..length] == prefix[..length]
}
