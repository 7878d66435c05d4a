//! Who sends a request, and what they may do.
//!
//! Everything here is computation on bytes and times that the caller passes in: no sockets, no files, no clock. The gateway reads key
//! files, fetches key sets and keeps time; this crate decides.
//!
//! - [`api_key`]: keys with a checksum, found by their SHA-256, in a file of up to some hundred thousand entries, or in a remote store with a
//!   cache.
//! - [`jwt`]: JSON Web Tokens (RFC 7519, with the practices of RFC 8725), and a cache of verified ones.
//! - [`jwks`]: key sets of an issuer (RFC 7517), and when to fetch them again.
//! - [`basic`]: `htpasswd` files with bcrypt and Argon2id (RFC 7617).
//! - [`certificate`]: client certificates that a TLS handshake verified (RFC 5280).
//! - [`allow`]: rules on the [`Identity`] that one of these found.
//! - [`Refusal`]: why a request is refused, with its status, its challenge and its name in metrics.
#![forbid(unsafe_code)]

pub mod address_list;
pub mod allow;
pub mod api_key;
pub mod basic;
pub mod certificate;
mod clock_table;
pub mod field;
mod identity;
pub mod jwks;
pub mod jwt;
mod priority;
mod recent;
mod refusal;
pub mod secret;

pub use identity::Identity;
pub use priority::Priority;
pub use refusal::{Challenge, Refusal};
