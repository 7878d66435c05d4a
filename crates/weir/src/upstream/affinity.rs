//! Which target a cookie names.

use aws_lc_rs::hmac;

use super::target::Address;
use crate::config;

/// Value of the cookie: the half of an HMAC, in hexadecimal digits.
pub type Token = [u8; 32];

/// The value that names a target, if targets of the upstream are named. It follows from the configuration and the address alone, so that replicas of the
/// gateway agree, and so does the same gateway after a restart.
pub(super) fn token(upstream: &config::Upstream, address: &Address, base_path: &str) -> Option<Token> {
    let config::Balance::Cookie(affinity) = &upstream.balance else { return None };
    let secret = affinity.secret.as_deref().unwrap_or("weir").as_bytes();
    let text = format!("{}\n{address}{base_path}", upstream.name);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
    let mut token = [0; 32];
    for (pair, byte) in token.chunks_exact_mut(2).zip(tag.as_ref()) {
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
    }
    Some(token)
}
