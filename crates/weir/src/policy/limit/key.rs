//! Whose count: the parts of a limit's key, put into one form, hashed to 128 bits.

use std::hash::{BuildHasher, RandomState};

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::config::ClientAddress;
use crate::redis::KeyedHash;
use message::form::decoded;

/// A key of one limit, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Key(pub u128);

/// What keys of this process are hashed with: drawn at the start, so that no client can aim at the count of another.
#[derive(Clone, Copy)]
pub struct KeySecret([u64; 2]);

impl KeySecret {
    /// A new secret.
    pub fn random() -> Self {
        let random = RandomState::new();
        KeySecret([random.hash_one(0u8), random.hash_one(1u8)])
    }
}

impl std::fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySecret")
    }
}

impl Key {
    /// Enough of it to tell keys apart. It says nothing of the key to who does not have this process's secret.
    pub fn short(self) -> String {
        format!("{:016x}", (self.0 >> 64) as u64)
    }

    /// The key of `bytes` in this process (SipHash-1-3).
    #[inline]
    pub fn local(bytes: &KeyBytes, secret: &KeySecret) -> Key {
        let [k0, k1] = secret.0;
        let mut hasher = SipHasher13::new_with_keys(k0, k1);
        std::hash::Hasher::write(&mut hasher, &bytes.0);
        Key(hasher.finish128().as_u128())
    }

    /// The key of `bytes` in all replicas: the first half of a keyed hash of the limit's identity and `bytes`, so that the counts that a client has of
    /// several limits cannot be told to belong together.
    pub fn shared(identity: u128, bytes: &KeyBytes, hash: &KeyedHash) -> Key {
        let digest = hash.hash(&[&identity.to_be_bytes(), &bytes.0]);
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Key(u128::from_be_bytes(half))
    }
}

/// The parts of a key in one form: what differs has different bytes. Reused from key to key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyBytes(Vec<u8>);

/// What a part is, so that an absent one cannot be taken for any value.
const VALUE: u8 = 1;
const MISSING: u8 = 2;

impl KeyBytes {
    /// Starts over.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// A client's address: IPv6 by its /64, because one subscriber has at least that.
    #[inline]
    pub fn address(&mut self, address: ClientAddress) {
        address.with_bytes(8, |bytes| self.value(bytes));
    }

    /// A value as it is.
    #[inline]
    pub fn value(&mut self, value: &[u8]) {
        self.0.push(VALUE);
        self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.0.extend_from_slice(value);
    }

    /// A value of a query, decoded (`%61` and `+`), so that no other spelling of it is another key.
    pub fn query_value(&mut self, value: &[u8]) {
        self.0.push(VALUE);
        let at = self.0.len();
        self.0.extend_from_slice(&[0; 8]);
        self.0.extend(decoded(value));
        let length = (self.0.len() - at - 8) as u64;
        self.0[at..at + 8].copy_from_slice(&length.to_le_bytes());
    }

    /// A part that the request does not have.
    pub fn missing(&mut self) {
        self.0.push(MISSING);
    }
}

/// The one value of a query parameter, still encoded; `None` when there is none or more than one, because which of several the
/// upstream reads is not known. Names are compared decoded.
pub(super) fn query_parameter<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut found = None;
    for pair in query.split(|&byte| byte == b'&') {
        let split = pair.iter().position(|&byte| byte == b'=');
        let (own, value) = split.map_or((pair, &b""[..]), |at| (&pair[..at], &pair[at + 1..]));
        if decoded(own).eq(name.iter().copied()) {
            if found.is_some() {
                return None;
            }
            found = Some(value);
        }
    }
    found
}

#[cfg(test)]
mod tests;
