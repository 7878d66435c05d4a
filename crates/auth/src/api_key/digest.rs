//! The digest of a key: what a store lists instead of the key.

use std::fmt::Write as _;

use aws_lc_rs::{digest, hmac};

use super::key::Key;
use crate::Refusal;

/// Shorter keys can be guessed, however they are hashed.
const WEAK_BELOW: usize = 20;
/// No key in use is longer; more is not hashed.
const LONGEST: usize = 512;

/// Makes digests of keys that clients present.
///
/// Stores find keys by these digests, in tables. The time of a look-up depends on the digest, of which a client that does not know the key
/// learns nothing: no part of a key is ever compared with another one.
#[derive(Debug, Default)]
pub struct Digester {
    pepper: Option<hmac::Key>,
}

impl Digester {
    /// With the secret that keys under 20 characters are hashed with, if there is one.
    #[must_use]
    pub fn new(pepper: Option<&[u8]>) -> Self {
        Self { pepper: pepper.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)) }
    }

    /// Whether short keys can be found.
    #[must_use]
    pub fn has_pepper(&self) -> bool {
        self.pepper.is_some()
    }

    /// The digest of a presented key: SHA-256, or HMAC-SHA-256 under the pepper for one under 20 characters.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] for bytes that no key has; [`Refusal::Invalid`] for keys that no store lists: those of this gateway with a
    /// wrong checksum, and short ones without a pepper.
    pub fn digest(&self, presented: &[u8]) -> Result<[u8; 32], Refusal> {
        if presented.is_empty() || presented.len() > LONGEST || !presented.iter().all(u8::is_ascii_graphic) {
            return Err(Refusal::Malformed("api key"));
        }
        if Key::has_prefix(presented) {
            // A typing error costs no digest, and no look-up in a remote store.
            let is_key = std::str::from_utf8(presented).is_ok_and(|text| Key::parse(text).is_ok());
            return if is_key { Ok(sha256(presented)) } else { Err(Refusal::Invalid("form or checksum of the key")) };
        }
        if presented.len() >= WEAK_BELOW {
            return Ok(sha256(presented));
        }
        let pepper = self.pepper.as_ref().ok_or(Refusal::Invalid("unknown key"))?;
        let mut out = [0; 32];
        out.copy_from_slice(hmac::sign(pepper, presented).as_ref());
        Ok(out)
    }
}

/// The digest of a key, as stores list it.
#[must_use]
pub fn sha256(key: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, key).as_ref());
    out
}

/// A digest as stores write it: 64 hexadecimal digits in lower case.
#[must_use]
pub fn hex(digest: &[u8; 32]) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads 64 hexadecimal digits.
#[must_use]
pub fn from_hex(text: &[u8]) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |letter: u8| char::from(letter).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_and_read() {
        let digest = sha256(b"abc");
        // FIPS 180-4, example of SHA-256.
        assert_eq!(hex(&digest), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(from_hex(hex(&digest).as_bytes()), Some(digest));
        for wrong in [&b""[..], b"ba", &[b'g'; 64], &[b'0'; 65], &[0xff; 64]] {
            assert_eq!(from_hex(wrong), None);
        }
    }

    #[test]
    fn a_wrong_letter_costs_no_look_up_and_a_short_key_needs_a_pepper() {
        let key = Key::generate().expect("random bytes");
        let digester = Digester::default();
        assert_eq!(digester.digest(key.reveal().as_bytes()), Ok(sha256(key.reveal().as_bytes())));
        let mut wrong = key.reveal().as_bytes().to_vec();
        wrong[20] = if wrong[20] == b'x' { b'y' } else { b'x' };
        assert!(matches!(digester.digest(&wrong), Err(Refusal::Invalid(_))));
        assert!(matches!(digester.digest(b"wk_"), Err(Refusal::Invalid(_))));
        assert!(matches!(digester.digest(b"hunter2"), Err(Refusal::Invalid(_))));
        let peppered = Digester::new(Some(b"pepper")).digest(b"hunter2").expect("a digest");
        assert_ne!(peppered, sha256(b"hunter2"));
        assert_eq!(
            Digester::new(Some(b"pepper")).digest(key.reveal().as_bytes()),
            digester.digest(key.reveal().as_bytes())
        );
    }
}
