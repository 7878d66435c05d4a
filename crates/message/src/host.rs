//! One form of every host name: lower case, without port, without a trailing dot, IPv6 addresses as RFC 5952 writes them.

use std::io::Write;
use std::net::Ipv6Addr;

/// Longest name of a host (RFC 1035 §2.3.4), without its trailing dot.
pub const MAX_BYTES: usize = 253;

/// Space for a name that has to be changed.
pub type Scratch = [u8; MAX_BYTES];

/// Writes the value of a `Host` field (RFC 9110 §7.2) in the one form; `None` where it has no name of a host: no route can match it by host.
///
/// A name that is already in the one form, apart from its port, is returned as it is.
pub fn normalise<'a>(host: &'a [u8], scratch: &'a mut Scratch) -> Option<&'a [u8]> {
    if let Some(rest) = host.strip_prefix(b"[") {
        let end = rest.iter().position(|&byte| byte == b']')?;
        let address: Ipv6Addr = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        is_port(&rest[end + 1..]).then_some(())?;
        let mut free = scratch.as_mut_slice();
        write!(free, "[{address}]").ok()?;
        let left = free.len();
        return Some(&scratch[..MAX_BYTES - left]);
    }
    let name = match host.iter().position(|&byte| byte == b':') {
        None => host,
        Some(colon) if is_port(&host[colon..]) => &host[..colon],
        Some(_) => return None,
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() || name.len() > MAX_BYTES {
        return None;
    }
    let mut upper = false;
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {}
            b'A'..=b'Z' => upper = true,
            _ => return None,
        }
    }
    if !upper {
        return Some(name);
    }
    let lower = &mut scratch[..name.len()];
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    Some(lower)
}

/// Nothing, or a colon with any number of digits (RFC 3986 §3.2.3 lets the digits be absent).
fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
