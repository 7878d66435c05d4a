//! Where a request lies in a weighted split.
//!
//! The same value lies at the same point in every process and every release, and on every route, so that a client has one version of
//! all parts of an application.

use crate::config::ClientAddress;
use crate::config::SplitKey;
use crate::runtime::hash::hash_key;

/// What of a request can keep it with the same upstream.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// Address of the client.
    pub address: ClientAddress,
    /// Name of the consumer.
    pub consumer: Option<&'a str>,
}

/// The point of a request; `values` are those of the fields of a name (in lower case). What has no value is kept by its client's address.
pub fn point<'k, 'a, V: Iterator<Item = &'a [u8]>>(
    by: &'k SplitKey,
    sender: Sender<'_>,
    mut values: impl FnMut(&'k str) -> V,
) -> u64 {
    let value = match by {
        SplitKey::ClientIp => None,
        SplitKey::Consumer => {
            return sender.consumer.map_or_else(|| point_of(sender.address), |name| hash_key(name.as_bytes()));
        }
        SplitKey::Header(name) => values(name).find(|value| !value.is_empty()),
        SplitKey::Cookie(name) => values("cookie").find_map(|line| cookie(line, name.as_bytes())),
    };
    value.map_or_else(|| point_of(sender.address), hash_key)
}

fn point_of(address: ClientAddress) -> u64 {
    // Whoever has one address of a /64 has all of them, and changes them at will.
    address.to_canonical().with_bytes(8, hash_key)
}

/// The value of a cookie in a `Cookie` field (RFC 6265 section 4.2.1), unless it is empty.
pub fn cookie<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    line.split(|&byte| byte == b';').find_map(|pair| {
        let pair = pair.trim_ascii();
        let at = memchr::memchr(b'=', pair)?;
        let value = pair[at + 1..].trim_ascii_start();
        (pair[..at].trim_ascii_end() == name && !value.is_empty()).then_some(value)
    })
}

#[cfg(test)]
mod tests;
