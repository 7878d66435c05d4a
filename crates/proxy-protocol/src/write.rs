//! Writing a header.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};

use crate::{Addresses, Header, Origin, Version, crc32c, v2};

/// Appends a header. Version 1 has no values, and no word for a connection of the proxy's own: it says `UNKNOWN`. Version 2 ends with a checksum.
/// Addresses of two families are written as IPv6.
pub fn write(out: &mut Vec<u8>, header: &Header<'_>) {
    let origin = match header.origin {
        Origin::Client(addresses) => Origin::Client(of_one_family(addresses)),
        other => other,
    };
    match header.version {
        Version::V1 => write_v1(out, origin),
        Version::V2 => write_v2(out, origin, header),
    }
}

fn write_v1(out: &mut Vec<u8>, origin: Origin) {
    let Origin::Client(Addresses { source, destination }) = origin else {
        out.extend_from_slice(b"PROXY UNKNOWN\r\n");
        return;
    };
    let protocol = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (source.ip(), destination.ip());
    write!(out, "PROXY {protocol} {from} {to} {} {}\r\n", source.port(), destination.port())
        .expect("a Vec takes what is written");
}

fn write_v2(out: &mut Vec<u8>, origin: Origin, header: &Header<'_>) {
    let start = out.len();
    out.extend_from_slice(v2::SIGNATURE);
    let (command, family) = match origin {
        Origin::Proxy => (0x20, 0x00),
        Origin::Unknown => (0x21, 0x00),
        Origin::Client(addresses) => (0x21, if addresses.source.is_ipv4() { 0x11 } else { 0x21 }),
    };
    out.extend_from_slice(&[command, family, 0, 0]);
    if let Origin::Client(Addresses { source, destination }) = origin {
        for ip in [source.ip(), destination.ip()] {
            match ip {
                IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
                IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
            }
        }
        out.extend_from_slice(&source.port().to_be_bytes());
        out.extend_from_slice(&destination.port().to_be_bytes());
    }
    let values = [
        (v2::kind::ALPN, header.alpn),
        (v2::kind::AUTHORITY, header.authority),
        (v2::kind::UNIQUE_ID, header.unique_id),
    ];
    for (kind, value) in values {
        // One that is too long for its length, or for a receiver, is left out: it is for logs only.
        if let Some(value) = value.filter(|value| value.len() <= 1024) {
            out.push(kind);
            out.extend_from_slice(&(value.len() as u16).to_be_bytes());
            out.extend_from_slice(value);
        }
    }
    out.extend_from_slice(&[v2::kind::CRC32C, 0, 4, 0, 0, 0, 0]);
    let length = (out.len() - start - v2::FIXED) as u16;
    out[start + 14..start + 16].copy_from_slice(&length.to_be_bytes());
    let checksum = crc32c::of(&[&out[start..]]);
    let end = out.len();
    out[end - 4..].copy_from_slice(&checksum.to_be_bytes());
}

/// Both addresses as they are, or as IPv6 when only one of them is.
fn of_one_family(addresses: Addresses) -> Addresses {
    let Addresses { mut source, mut destination } = addresses;
    if source.is_ipv4() != destination.is_ipv4() {
        let six = |ip: IpAddr| -> Ipv6Addr {
            match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            }
        };
        source.set_ip(six(source.ip()).into());
        destination.set_ip(six(destination.ip()).into());
    }
    Addresses { source, destination }
}
