//! Who sends a request: the peer, or the first untrusted hop behind trusted ones.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use h1::{Fields, Known};
use proxy_protocol::{Addresses, Header, Origin, Received, Version};

use super::tls::ClientTls;
use crate::config::ClientAddress;
use crate::config::TrustedProxies;

const UNSPECIFIED_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const UNSPECIFIED_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// A client of the gateway. The part about the peer lasts as long as its connection, the rest for one request.
#[derive(Debug, Clone)]
pub struct Client {
    /// Address of the connection's other end; IPv4-mapped IPv6 as IPv4.
    pub peer: ClientAddress,
    /// Whether its forwarding fields are believed: by the configuration at the accept, then by that of each request.
    pub peer_is_trusted: bool,
    /// TLS of its connection; none in clear text.
    pub tls: Option<Rc<ClientTls>>,
    /// The PROXY header that its connection began with.
    pub proxied: Option<Rc<Received>>,
    /// Both ends of a connection without a PROXY header, where some upstream is told of them.
    pub ends: Option<Rc<Addresses>>,
    /// Address that limits and logs use.
    pub address: ClientAddress,
    /// `peer` as text, rendered once.
    text: [u8; 46],
    text_length: u8,
}

impl Client {
    /// The client of a new connection.
    pub fn of_peer(peer: ClientAddress, trusted: &TrustedProxies) -> Self {
        let peer = peer.to_canonical();
        let mut text = [0; 46];
        let mut rest = &mut text[..];
        // The longest address has 45 characters.
        let _ = write!(rest, "{peer}");
        let text_length = (46 - rest.len()) as u8;
        Client {
            peer,
            peer_is_trusted: trusted.contains(peer),
            address: peer,
            tls: None,
            proxied: None,
            ends: None,
            text,
            text_length,
        }
    }

    /// The client of a connection that a trusted proxy forwards, as its header tells.
    pub fn of_header(received: Received, trusted: &TrustedProxies) -> Self {
        let proxy = received.proxy.map_or(ClientAddress::Unix, ClientAddress::Ip);
        let mut client = match received.origin {
            Origin::Client(addresses) => Self::of_peer(addresses.source.ip().into(), trusted),
            Origin::Proxy => Self::of_peer(proxy, trusted),
            // The address is the proxy's. What it forwards comes from anyone.
            Origin::Unknown => Self::of_peer(proxy, &TrustedProxies::default()),
        };
        client.proxied = Some(Rc::new(received));
        client
    }

    /// Appends the PROXY header that names this client to an upstream; returns the address that it names.
    pub fn write_header(&self, version: Version, out: &mut Vec<u8>) -> Option<IpAddr> {
        let received = self.proxied.as_deref().and_then(|received| match received.origin {
            Origin::Client(addresses) => Some(addresses),
            Origin::Unknown | Origin::Proxy => None,
        });
        let ends = received.or(self.ends.as_deref().copied());
        // Behind a proxy that speaks HTTP the client's port is not known, and some clients have no address at all.
        let known = self.address.ip().filter(|address| !self.is_unknown() && !address.is_unspecified());
        let origin = known.map_or(Origin::Unknown, |address| {
            let of_client = |ends: &Addresses| ends.source.ip().to_canonical() == address;
            let port = ends.filter(of_client).map_or(0, |ends| ends.source.port());
            let nowhere = || SocketAddr::new(if address.is_ipv4() { UNSPECIFIED_V4 } else { UNSPECIFIED_V6 }, 0);
            let destination = ends.map_or_else(nowhere, |ends| ends.destination);
            let destination = SocketAddr::new(destination.ip().to_canonical(), destination.port());
            Origin::Client(Addresses { source: SocketAddr::new(address, port), destination })
        });
        let header = Header { version, origin, authority: None, alpn: None, unique_id: None };
        proxy_protocol::write(out, &header);
        known
    }

    /// Whether the connection is one of a trusted proxy, or of a client that it does not name.
    pub fn is_behind(&self, trusted: &TrustedProxies) -> bool {
        trusted.contains(self.peer)
    }

    /// Whether the address is that of a proxy which did not know its client's.
    fn is_unknown(&self) -> bool {
        self.proxied.as_ref().is_some_and(|received| received.origin == Origin::Unknown)
    }

    /// Scheme of the URLs that this connection's requests are for.
    #[inline]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The peer's address as text.
    #[inline]
    pub fn peer_text(&self) -> &[u8] {
        &self.text[..usize::from(self.text_length)]
    }

    /// Decides who sent a request with these fields: the first hop from the right of `X-Forwarded-For` that is not trusted, if the
    /// peer is; an element that is not an address ends the walk, because nobody vouches for what is left of it.
    #[inline]
    pub fn identify(&mut self, fields: &Fields, buf: &[u8], trusted: &TrustedProxies) {
        self.address = self.peer;
        self.peer_is_trusted = trusted.contains(self.peer) && !self.is_unknown();
        if self.peer_is_trusted {
            self.walk(fields, buf, trusted);
        }
    }

    fn walk(&mut self, fields: &Fields, buf: &[u8], trusted: &TrustedProxies) {
        let lines = fields.iter().rev().filter(|field| field.known == Known::XForwardedFor);
        for element in lines.flat_map(|field| field.value.of_buf(buf).rsplit(|&byte| byte == b',')) {
            let Some(address) = parse_hop(element) else { return };
            self.address = address;
            if !trusted.contains(address) {
                return;
            }
        }
    }

    /// The client's address as limits count it: see [`subscriber`].
    pub fn limit_address(&self) -> ClientAddress {
        subscriber(self.address)
    }
}

/// Who is behind an address, as limits count it: IPv6 by /64, because one subscriber has at least that.
pub fn subscriber(address: ClientAddress) -> ClientAddress {
    match address {
        ClientAddress::Ip(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)).into()
        }
        ClientAddress::Ip(IpAddr::V4(_)) | ClientAddress::Unix => address,
    }
}

/// An address, also with a port, as some proxies write it; `unix:` as this gateway and nginx do.
fn parse_hop(element: &[u8]) -> Option<ClientAddress> {
    let text = std::str::from_utf8(element).ok()?.trim_matches([' ', '\t']);
    let address = if let Some(rest) = text.strip_prefix('[') {
        IpAddr::V6(rest.split_once(']')?.0.parse().ok()?).into()
    } else if let Ok(address) = text.parse::<ClientAddress>() {
        address
    } else {
        text.parse::<SocketAddr>().ok()?.ip().into()
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identify(peer: &str, lines: &[&str], trusted: &[&str]) -> String {
        let networks = trusted.iter().filter(|one| **one != "unix:").map(|network| network.parse().unwrap()).collect();
        let trusted = TrustedProxies { networks, unix: trusted.contains(&"unix:") };
        let fields: String = lines.iter().map(|line| format!("X-Forwarded-For: {line}\r\n")).collect();
        let buf = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut head = h1::RequestHead::default();
        head.parse(buf.as_bytes(), 0, buf.len(), &h1::Limits::default()).unwrap();
        let mut client = Client::of_peer(peer.parse().unwrap(), &trusted);
        client.identify(&head.fields, buf.as_bytes(), &trusted);
        client.address.to_string()
    }

    #[test]
    fn an_untrusted_peer_cannot_name_another_client() {
        assert_eq!(identify("203.0.113.9", &["10.0.0.1"], &["127.0.0.0/8"]), "203.0.113.9");
    }

    #[test]
    fn the_first_untrusted_hop_from_the_right_is_the_client() {
        let trusted = ["127.0.0.0/8", "10.0.0.0/8"];
        assert_eq!(identify("127.0.0.1", &["1.1.1.1, 2.2.2.2, 10.0.0.7"], &trusted), "2.2.2.2");
        assert_eq!(identify("127.0.0.1", &["1.1.1.1", "2.2.2.2,10.0.0.7"], &trusted), "2.2.2.2");
        assert_eq!(identify("127.0.0.1", &["10.0.0.2, 10.0.0.7"], &trusted), "10.0.0.2");
        assert_eq!(identify("127.0.0.1", &[], &trusted), "127.0.0.1");
    }

    #[test]
    fn peers_of_unix_sockets_are_believed_where_they_are_trusted() {
        assert_eq!(identify("unix:", &["1.1.1.1"], &["127.0.0.0/8"]), "unix:");
        assert_eq!(identify("unix:", &["1.1.1.1"], &["unix:"]), "1.1.1.1");
        assert_eq!(identify("unix:", &[], &["unix:"]), "unix:");
        // Behind a gateway that has such a peer itself.
        assert_eq!(identify("127.0.0.1", &["1.1.1.1, unix:"], &["127.0.0.0/8", "unix:"]), "1.1.1.1");
        assert_eq!(identify("127.0.0.1", &["1.1.1.1, unix:"], &["127.0.0.0/8"]), "unix:");
    }

    #[test]
    fn what_is_left_of_garbage_is_not_believed() {
        assert_eq!(identify("127.0.0.1", &["1.1.1.1, unknown, 127.0.0.5"], &["127.0.0.0/8"]), "127.0.0.5");
        assert_eq!(identify("127.0.0.1", &["\u{e9}"], &["127.0.0.0/8"]), "127.0.0.1");
    }

    #[test]
    fn ports_brackets_and_mapped_addresses_are_read() {
        let trusted = ["127.0.0.0/8"];
        assert_eq!(identify("::ffff:127.0.0.1", &["192.0.2.1:4711"], &trusted), "192.0.2.1");
        assert_eq!(identify("127.0.0.1", &["[2001:db8::1]:443"], &trusted), "2001:db8::1");
        assert_eq!(identify("127.0.0.1", &["2001:db8::1"], &trusted), "2001:db8::1");
    }

    #[test]
    fn addresses_of_one_subscriber_share_a_limit() {
        let mut client = Client::of_peer("2001:db8:1:2:3:4:5:6".parse().unwrap(), &TrustedProxies::default());
        assert_eq!(client.limit_address().to_string(), "2001:db8:1:2::");
        client.address = "192.0.2.1".parse().unwrap();
        assert_eq!(client.limit_address().to_string(), "192.0.2.1");
    }
}
