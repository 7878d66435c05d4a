//! JSON Web Tokens (RFC 7519) in compact form (RFC 7515), checked by the practices of RFC 8725.
//!
//! A token is read once, in this order: form and size, header, algorithm, key, signature, claims. Nothing of it is trusted before its
//! signature holds; a header never chooses a key by itself (`jku`, `jwk`, `x5u` and `x5c` are not read).

mod algorithm;
mod claims;
mod key;
mod token_cache;
mod verify;

pub use algorithm::Algorithm;
pub use claims::Expected;
pub use key::{KeyProblem, SecretKeys, VerifyKey};
pub use token_cache::TokenCache;
pub use verify::{Keys, Rejected, Unverified, Verifier};

/// Longer tokens are refused unread.
pub const LONGEST: usize = 8 * 1024;
