//! Content codings of responses (RFC 9110 section 8.4): which one a client takes ([`choose`]), which media types are worth it
//! ([`MediaTypes`]), and encoders that take a body piece by piece ([`Encoder`]).
//!
//! The crate owns no socket and no task. An encoder holds a bounded amount of memory, however long the body is.

#![forbid(unsafe_code)]

mod accept;
mod encoder;
mod types;

pub use accept::{Choice, choose};
pub use encoder::{Encoder, Failed};
pub use types::{DEFAULT_TYPES, MediaTypes, is_event_stream};

/// A content coding that responses can be sent in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Zstandard (RFC 8878), with a window of at most 128 KiB.
    Zstd,
    /// Brotli (RFC 7932), with a window of at most 256 KiB.
    Brotli,
    /// Gzip (RFC 1952).
    Gzip,
}

impl Coding {
    /// Every coding; the default order of preference.
    pub const ALL: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

    /// Name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// Index into arrays over [`Coding::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Levels that it has.
    pub fn levels(self) -> std::ops::RangeInclusive<u8> {
        match self {
            // Above, an encoder takes more memory and time than a gateway has for a response.
            Coding::Zstd | Coding::Gzip => 1..=9,
            Coding::Brotli => 0..=6,
        }
    }

    /// Level where nothing is said.
    pub fn default_level(self) -> u8 {
        match self {
            Coding::Zstd => 3,
            Coding::Brotli | Coding::Gzip => 5,
        }
    }

    /// Most bytes that one encoder holds, at any level of [`levels`](Self::levels).
    pub fn memory(self) -> usize {
        match self {
            Coding::Zstd => 2560 << 10,
            Coding::Brotli => 5 << 20,
            Coding::Gzip => 512 << 10,
        }
    }
}
