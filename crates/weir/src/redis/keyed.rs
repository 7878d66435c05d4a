//! Keyed hashes of what clients send, for names in Redis: HMAC-SHA-256 (RFC 2104).

use sha2::{Digest, Sha256};

const BLOCK: usize = 64;

/// HMAC-SHA-256 with a key that was prepared once.
#[derive(Clone)]
pub struct KeyedHash {
    inner: Sha256,
    outer: Sha256,
}

impl KeyedHash {
    /// Prepares a key.
    pub fn new(key: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        if key.len() > BLOCK {
            block[..32].copy_from_slice(&Sha256::digest(key));
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let padded = |pad: u8| Sha256::new_with_prefix(block.map(|byte| byte ^ pad));
        KeyedHash { inner: padded(0x36), outer: padded(0x5c) }
    }

    /// The hash of some parts, one after the other.
    pub fn hash(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut inner = self.inner.clone();
        parts.iter().for_each(|part| inner.update(part));
        let mut outer = self.outer.clone();
        outer.update(inner.finalize());
        outer.finalize().into()
    }
}

impl std::fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyedHash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test cases 1, 2 and 6.
    #[test]
    fn hashes_are_those_of_the_rfc() {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let one = KeyedHash::new(&[0x0b; 20]).hash(&[b"Hi ", b"There"]);
        assert_eq!(hex(one), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        let two = KeyedHash::new(b"Jefe").hash(&[b"what do ya want for nothing?"]);
        assert_eq!(hex(two), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let six = KeyedHash::new(&[0xaa; 131]).hash(&[b"Test Using Larger Than Block-Size Key - Hash Key First"]);
        assert_eq!(hex(six), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }
}
