//! Compression of responses.

use compress::{Coding, MediaTypes};

/// How responses are compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// Codings in the order of preference.
    pub codings: Vec<Coding>,
    /// Level of each coding, by [`Coding::index`].
    pub levels: [u8; 3],
    /// Shortest body that is compressed, in bytes.
    pub min_bytes: u64,
    /// Media types that are compressed.
    pub types: MediaTypes,
    /// Also responses with `Set-Cookie`.
    pub with_set_cookie: bool,
}
