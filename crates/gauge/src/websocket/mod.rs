//! WebSocket (RFC 6455) without sockets: the opening handshake, and frames as bytes in and events out.

mod frame;
pub(crate) mod handshake;

pub(crate) use frame::{Decoder, Event, Kind, Opcode, Side, write, write_close};

/// A close frame without a code is reported as this one (section 7.1.5), which is never sent.
pub(crate) const NO_CODE: u16 = 1005;
/// A connection that ended without a close frame (section 7.1.5); never sent either.
pub(crate) const ABNORMAL: u16 = 1006;
/// The purpose of the connection is fulfilled (section 7.4.1).
pub(crate) const NORMAL: u16 = 1000;

#[cfg(test)]
mod tests;
