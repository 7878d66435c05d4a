//! A small, strict reader of HTTP/1.1 messages (RFC 9112), independent of the gateway's own codec: what it accepts has one
//! reading. It refuses bare CR, bare LF and NUL, obs-fold, space before a colon, every doubtful framing, and says why.

mod body;
mod head;

use std::time::Instant;

pub use head::Head;

pub(crate) use body::BodyReader;
pub(crate) use head::{read_request_head, read_response_head};

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body (no length field, or a status or method that has none).
    None,
    /// Content-Length.
    Length(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
    /// The end of the connection (responses only).
    UntilClose,
}

/// A piece of a body as it arrived: with chunked framing one chunk (one above 1 MiB comes in parts), else what a read found.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Its bytes, without chunk framing.
    pub data: Vec<u8>,
    /// When its last byte was read.
    pub at: Instant,
}

/// A whole message: a response that a client read, or a request that an upstream read.
#[derive(Clone, Debug)]
pub struct Message {
    /// Start line and fields.
    pub head: Head,
    /// How the body was framed.
    pub framing: Framing,
    /// The body without framing.
    pub body: Vec<u8>,
    /// Length of every piece of the body and when it arrived.
    pub pieces: Vec<(usize, Instant)>,
    /// Fields after the last chunk.
    pub trailers: Vec<(String, String)>,
    /// Interim (1xx) responses before this one.
    pub interim: Vec<Head>,
}

impl Message {
    pub(crate) fn new(head: Head, framing: Framing) -> Self {
        Self { head, framing, body: Vec::new(), pieces: Vec::new(), trailers: Vec::new(), interim: Vec::new() }
    }

    /// The status of a response.
    #[track_caller]
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    /// The value of a field that must not be repeated; `None` when it is absent.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// The body as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of UTF-8 text")
    }
}
