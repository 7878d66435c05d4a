//! HTTP/2 codec and connection state machine (RFC 9113, RFC 7541), sans-io: bytes and a clock in, events and bytes out, both roles.
//!
//! The codec owns no socket, no timer and no body. A connection task
//!
//! 1. reads bytes into a buffer of its own and calls [`Connection::decode`] until it returns [`Event::NeedMore`];
//! 2. takes heads from the [`Head`] that it lent, and body bytes from its own buffer at the range that [`Event::Data`] names;
//! 3. gives credit back with [`Connection::consume`] when somebody has taken those bytes: the only place where a window grows;
//! 4. sends heads, data and trailers through the `send_` methods, which write to [`Connection::output`], and writes that once per turn.
//!
//! Field blocks are decoded into an arena of field lines (`name: value CRLF`), as crate `message` wants them. Every rule that a peer
//! breaks is an [`Error`] of the connection, after which the output holds the GOAWAY, or an [`Event::Reset`] of one stream, for which the
//! RST_STREAM is written already. All that a peer can do too often is paid from one [`Budget`]. No input makes the codec panic.

#![forbid(unsafe_code)]

mod budget;
mod config;
mod connection;
mod error;
mod flow;
mod frame;
pub mod hpack;
mod priority;
mod section;
mod settings;
mod stream;

pub use budget::{Budget, Kind as BudgetKind};
pub use config::Config;
pub use connection::{Connection, Event, RequestLine, SendError};
pub use error::{Error, ErrorCode, Malformed, ResetReason};
pub use frame::PREFACE;
pub use priority::Priority;
pub use section::Head;
