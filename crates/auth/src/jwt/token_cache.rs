//! Tokens that were verified a moment ago.

use std::sync::Arc;

use crate::Identity;
use crate::api_key::sha256;
use crate::recent::Recent;

/// Most seconds that a token is stored.
const LONGEST: u64 = 300;

/// Verified tokens by their SHA-256, of one key set. A signature costs some 25 to 60 us, a look-up below one.
#[derive(Debug)]
pub struct TokenCache {
    verified: Recent<[u8; 32], (Arc<Identity>, u64)>,
    generation: u64,
}

impl Default for TokenCache {
    fn default() -> Self {
        Self::new(10_000)
    }
}

impl TokenCache {
    /// A cache of at most `capacity` tokens.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { verified: Recent::new(capacity), generation: 0 }
    }

    /// The identity of a token that was verified with the same key set and has not expired. `generation` is the set's: when it changes,
    /// everything is dropped, so that a withdrawn key opens nothing.
    pub fn get(&mut self, token: &[u8], generation: u64, now: u64) -> Option<Arc<Identity>> {
        self.follow(generation);
        let digest = sha256(token);
        let (identity, until) = self.verified.get(&digest)?;
        if now >= until {
            self.verified.remove(&digest);
            return None;
        }
        Some(identity)
    }

    /// Stores a verified token until it expires, at most five minutes.
    pub fn insert(&mut self, token: &[u8], generation: u64, identity: Arc<Identity>, expires: u64, now: u64) {
        self.follow(generation);
        let until = expires.min(now.saturating_add(LONGEST));
        if until > now {
            self.verified.insert(sha256(token), (identity, until));
        }
    }

    /// Tokens held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.verified.len()
    }

    /// Whether no token is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn follow(&mut self, generation: u64) {
        if self.generation != generation {
            self.verified.clear();
            self.generation = generation;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who() -> Arc<Identity> {
        Arc::new(Identity::default())
    }

    #[test]
    fn a_token_is_cached_until_it_expires_or_five_minutes_pass() {
        let mut cache = TokenCache::default();
        cache.insert(b"short", 1, who(), 110, 100);
        cache.insert(b"long", 1, who(), 100_000, 100);
        assert!(cache.get(b"short", 1, 109).is_some());
        assert!(cache.get(b"short", 1, 110).is_none());
        assert!(cache.get(b"long", 1, 399).is_some());
        assert!(cache.get(b"long", 1, 400).is_none());
        assert!(cache.get(b"other", 1, 100).is_none());
    }

    #[test]
    fn a_changed_key_set_forgets_every_token() {
        let mut cache = TokenCache::default();
        cache.insert(b"a", 1, who(), 1000, 100);
        assert!(cache.get(b"a", 2, 100).is_none());
        assert!(cache.get(b"a", 1, 100).is_none());
    }

    #[test]
    fn a_flood_of_tokens_stays_within_the_bound() {
        let mut cache = TokenCache::new(100);
        for number in 0..10_000u32 {
            cache.insert(&number.to_le_bytes(), 1, who(), 1000, 100);
        }
        assert!(cache.len() <= 100, "{}", cache.len());
    }
}
