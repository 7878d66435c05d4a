//! What a gateway knows about AI traffic, sans-io: bytes in, facts and edits out.
//!
//! The crate owns no socket, no clock and no task. It reads requests ([`request`]) and event streams of the three APIs, and says what they
//! contain; the gateway decides and moves the bytes. Nothing is serialised again where both sides speak the same API: a change is a splice
//! into the original bytes, and members that nobody here knows pass unseen.
//!
//! Everything that two JSON parsers could read differently is refused in what is read. No function panics on any input.

#![forbid(unsafe_code)]

pub mod api;
pub mod balance;
pub mod cache_key;
pub mod error;
pub mod fault;
pub mod json;
pub mod money;
pub mod multipart;
pub mod redact;
pub mod request;
pub mod response;
pub mod splice;
pub mod stream;
pub mod tokens;
pub mod translate;

pub use api::Api;
