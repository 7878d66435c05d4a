//! The opening handshake of WebSocket (RFC 6455 section 4), where the gateway makes it in place of a client of HTTP/2 or of a target of HTTP/2
//! (RFC 8441).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Name of the protocol, in `Upgrade` and in `:protocol`.
pub const NAME: &[u8] = b"websocket";
/// What the accepting side appends to the key (section 1.3).
const SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A value of `Sec-WebSocket-Key`: 16 random bytes. None when the system has no random bytes.
pub fn key() -> Option<String> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).ok()?;
    Some(STANDARD.encode(nonce))
}

/// Whether this is a value of `Sec-WebSocket-Key`: 16 bytes in base64.
pub fn is_key(value: &[u8]) -> bool {
    STANDARD.decode(value).is_ok_and(|nonce| nonce.len() == 16)
}

/// The value of `Sec-WebSocket-Accept` that shows that the key was read.
pub fn accept(key: &[u8]) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, SUFFIX].concat()).as_ref())
}

/// Whether this value of `Sec-WebSocket-Accept` shows that the other side read the key.
pub fn accepts(key: &[u8], value: &[u8]) -> bool {
    accept(key).as_bytes() == value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        // RFC 6455 section 1.3.
        assert!(accepts(b"dGhlIHNhbXBsZSBub25jZQ==", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(!accepts(b"dGhlIHNhbXBsZSBub25jZQ==", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOO="));
        assert!(!accepts(b"dGhlIHNhbXBsZSBub25jZQ==", b""));
    }

    #[test]
    fn keys_are_16_bytes_and_each_is_another() {
        let (one, other) = (key().unwrap(), key().unwrap());
        assert_eq!((one.len(), STANDARD.decode(&one).unwrap().len()), (24, 16));
        assert_ne!(one, other);
        assert!(is_key(one.as_bytes()) && is_key(b"dGhlIHNhbXBsZSBub25jZQ=="));
        for wrong in [&b""[..], b"x", b"dGhlIHNhbXBsZSBub25jZQ", b"dGhlIHNhbXBsZSBub25j", b"dGhlIHNhbXBsZSBub25jZQ==,"]
        {
            assert!(!is_key(wrong), "{}", wrong.escape_ascii());
        }
    }
}
