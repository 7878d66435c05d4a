//! HTTP/1.1 codec, sans-io: bytes in, events out, for both roles.
//!
//! The codec owns no socket and no buffer. A caller reads bytes into a buffer of its own and
//!
//! 1. calls [`HeadScanner`] to see where the head ends (incremental: no byte is looked at twice),
//! 2. parses the complete head with [`RequestHead::parse`] or [`ResponseHead::parse`] into spans of that buffer,
//! 3. feeds what follows to the [`BodyDecoder`] that the head requests, which says which bytes are body.
//!
//! Writing goes through [`encode`]: framing is always our own and never copied. [`written`] finds the lines of what it wrote.
//!
//! Everything that two parsers could read differently is refused (RFC 9112 sections 2.2, 3, 5, 6, 7 and 11); [`ParseError`]
//! names the rule with its section. The codec never panics on any input and holds no `unsafe` code.

#![forbid(unsafe_code)]

mod body;
mod chunked;
pub mod encode;
mod error;
mod field;
mod framing;
mod request;
mod response;
mod scan;
mod target;
pub mod written;

pub use body::{BodyDecoder, BodyEvent, BodyKind};
pub use chunked::{ChunkedDecoder, trailer_fields};
pub use error::ParseError;
pub use request::RequestHead;
pub use response::ResponseHead;
pub use scan::HeadScanner;

// What every protocol shares is in `message`.
use message::validate as bytes;
pub use message::{Expect, Field, Fields, Known, Limits, Method, Span, TargetForm};

/// Version of a message; anything else is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: no chunked coding, closes unless told to keep alive.
    Http10,
    /// HTTP/1.1.
    Http11,
}

impl Version {
    /// As it is in a message.
    pub fn text(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}
