//! Error codes (RFC 9113 section 7) and the rules that a peer can break.

use std::fmt;

/// Code of RST_STREAM and GOAWAY; codes that are not defined are kept as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

#[allow(missing_docs)]
impl ErrorCode {
    pub const NO_ERROR: ErrorCode = ErrorCode(0x0);
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(0x1);
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x2);
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(0x3);
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(0x4);
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(0x5);
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(0x6);
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(0x7);
    pub const CANCEL: ErrorCode = ErrorCode(0x8);
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(0x9);
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(0xb);
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(0xd);
}

/// A connection error: the GOAWAY is in the output; the connection closes when that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// Code that the peer is told.
    pub code: ErrorCode,
    /// The rule, with its section.
    pub reason: &'static str,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP/2 error {:#x}: {}", self.code.0, self.reason)
    }
}

impl std::error::Error for Error {}

/// Why a message is malformed (RFC 9113 section 8); the numbers are those of docs/HTTP2-SAFETY.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// Rule 1.
    FieldName,
    /// Rule 2.
    FieldValue,
    /// Rule 3: unknown, repeated, missing, empty, misplaced.
    PseudoField,
    /// Rule 4.
    Method,
    /// Rule 4: CONNECT where it is not offered.
    Connect,
    /// Rule 5.
    Path,
    /// Rule 6.
    Scheme,
    /// Rule 7.
    Authority,
    /// Rule 8.
    ConnectionField,
    /// Rule 9.
    ContentLength,
    /// Rule 13.
    Trailers,
    /// Rule 14: more interim responses than allowed, or one that ends the stream.
    Interim,
    /// Rule 15.
    Status,
    /// A stream that depends on itself (RFC 7540 section 5.3.1), or a priority that cannot be read.
    Priority,
}

/// Why a stream ended before its message did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetReason {
    /// The peer sent RST_STREAM.
    Peer(ErrorCode),
    /// The peer's GOAWAY says that it did not process the stream: the request may be repeated.
    NotProcessed,
    /// The message broke a rule.
    Malformed(Malformed),
    /// A field section above the limits.
    TooLarge,
    /// A frame broke a rule of the stream: window, length, state.
    Frame(ErrorCode),
}
