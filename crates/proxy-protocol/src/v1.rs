//! Version 1: `PROXY TCP4 192.0.2.1 198.51.100.2 56324 443` and CRLF.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{Addresses, Header, Malformed, Origin, Version};

/// What every line begins with.
pub(crate) const PREFIX: &[u8] = b"PROXY ";
/// Longest line, its end included.
const LINE: usize = 107;

pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Header<'_>, usize)>, Malformed> {
    let within = &bytes[..bytes.len().min(LINE)];
    let Some(end) = within.iter().position(|&byte| byte == b'\n') else {
        return if bytes.len() >= LINE { Err(Malformed::TooLong) } else { Ok(None) };
    };
    let Some(line) = within[..end].strip_suffix(b"\r") else {
        return Err(Malformed::Invalid("the line does not end with CRLF"));
    };
    let line = std::str::from_utf8(&line[PREFIX.len().min(line.len())..]);
    let line = line.map_err(|_| Malformed::Invalid("the line is not ASCII"))?;
    Ok(Some((Header::new(Version::V1, origin(line)?), end + 1)))
}

fn origin(line: &str) -> Result<Origin, Malformed> {
    let (protocol, rest) = line.split_once(' ').unwrap_or((line, ""));
    match protocol {
        // What follows is not defined, and skipped.
        "UNKNOWN" => return Ok(Origin::Unknown),
        "TCP4" | "TCP6" => {}
        _ => return Err(Malformed::Invalid("the protocol is not TCP4, TCP6 or UNKNOWN")),
    }
    let words: Vec<&str> = rest.split(' ').collect();
    let [source, destination, source_port, destination_port] = words[..] else {
        return Err(Malformed::Invalid("the line does not have two addresses and two ports"));
    };
    let address = |text: &str| -> Result<IpAddr, Malformed> {
        let parsed = if protocol == "TCP4" {
            text.parse::<Ipv4Addr>().map(IpAddr::V4)
        } else {
            text.parse::<Ipv6Addr>().map(IpAddr::V6)
        };
        parsed.map_err(|_| Malformed::Invalid("an address is not of the protocol that the line names"))
    };
    let source = SocketAddr::new(address(source)?, port(source_port)?);
    let destination = SocketAddr::new(address(destination)?, port(destination_port)?);
    Ok(Origin::Client(Addresses { source, destination }))
}

/// Decimal digits without leading zeros.
fn port(text: &str) -> Result<u16, Malformed> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain).ok_or(Malformed::Invalid("a port is not a number from 0 to 65535"))
}
