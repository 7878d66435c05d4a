//! The client's side of a connection: who is at the other end, the listener that it came by, and its byte stream.

pub mod downstream;
pub mod identity;
pub mod origin;
pub mod tls;
