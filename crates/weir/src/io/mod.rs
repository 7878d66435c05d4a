//! Byte streams to clients and to targets: sockets, TLS and HTTP/2 streams as one type, with their buffers.

pub mod audience;
pub mod buffer;
pub mod capped;
pub mod life;
pub mod listening;
pub mod socket;
pub mod stream;
pub mod tcp;
