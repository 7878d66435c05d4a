//! Sizes above which a message is refused.

/// Bounds on one message. The defaults are those of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request or status line, CRLF included.
    pub start_line: usize,
    /// Bytes of the whole head, final empty line included.
    pub head: usize,
    /// Header fields; at most [`Limits::MAX_FIELDS`].
    pub fields: usize,
}

impl Limits {
    /// Most fields that any setting allows: work on them is bounded by their number times that of others.
    pub const MAX_FIELDS: usize = 256;
    /// Options of all `Connection` fields together; each is looked for among all fields.
    pub const CONNECTION_OPTIONS: usize = 32;
    /// Bytes of one chunk-size line, extension included (RFC 9112 section 7.1.1).
    pub const CHUNK_LINE: usize = 256;
    /// Bytes of all chunk extensions of one body: else 1-byte chunks with long extensions are a cheap flood.
    pub const CHUNK_EXTENSIONS: usize = 16 * 1024;
    /// Bytes of a trailer section.
    pub const TRAILER: usize = 8 * 1024;
    /// Bytes of a method.
    pub const METHOD: usize = 32;
}

impl Default for Limits {
    fn default() -> Self {
        Limits { start_line: 8 * 1024, head: 64 * 1024, fields: 100 }
    }
}
