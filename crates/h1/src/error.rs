//! What is wrong with a message.

use std::fmt;

macro_rules! parse_errors {
    ($($(#[$doc:meta])* $name:ident: $status:literal, $text:literal;)*) => {
        /// A rule that a message breaks. The names follow the rules; [`ParseError::text`] is fit for a client's eyes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ParseError { $($(#[$doc])* $name,)* }

        impl ParseError {
            /// Every rule; for tests and tables.
            pub const ALL: &'static [ParseError] = &[$(ParseError::$name),*];
            /// Status with which a server responds to a request that breaks the rule. A broken response is always a 502.
            pub fn status(self) -> u16 { match self { $(ParseError::$name => $status,)* } }
            /// The rule in words, with the section of RFC 9112 (or the RFC named).
            pub fn text(self) -> &'static str { match self { $(ParseError::$name => $text,)* } }
        }
    };
}

parse_errors! {
    /// A line feed without a carriage return before it.
    BareLf: 400, "line feed without carriage return (2.2)";
    /// A carriage return that ends no line.
    BareCr: 400, "carriage return without line feed (2.2)";
    /// White space where the first field name should be.
    SpaceBeforeFirstField: 400, "white space before the first field (2.2)";
    /// More than one empty line before the request line.
    EmptyLines: 400, "empty lines before the request line (2.2)";
    /// The method is not a token, is too long, or is a well-known one in another case.
    Method: 400, "invalid method (3.1)";
    /// The request line does not have three parts with one space between them.
    RequestLine: 400, "malformed request line (3)";
    /// The version is not HTTP/1.0 or HTTP/1.1.
    Version: 505, "unsupported version (2.3)";
    /// The target holds something other than printable ASCII, or a fragment.
    Target: 400, "invalid request target (3.2)";
    /// `*` with a method other than OPTIONS.
    AsteriskForm: 400, "asterisk form without OPTIONS (3.2.4)";
    /// CONNECT, which this gateway does not tunnel.
    Connect: 501, "CONNECT is not implemented (3.2.3)";
    /// The request line is longer than allowed.
    StartLineTooLong: 414, "request line too long (3)";
    /// The head is larger than allowed.
    HeadTooLarge: 431, "head too large (5)";
    /// More fields than allowed.
    TooManyFields: 431, "too many fields (5)";
    /// A field name that is empty, no token, or followed by a space.
    FieldName: 400, "invalid field name (5.1)";
    /// A field value with a control byte.
    FieldValue: 400, "invalid field value (5.5)";
    /// A field continued on the next line.
    ObsFold: 400, "folded field line (5.2)";
    /// A `Connection` option that is not a token.
    Connection: 400, "invalid Connection (9.6, RFC 9110 7.6.1)";
    /// More `Connection` options than any client has use for.
    ConnectionOptions: 431, "too many Connection options (RFC 9110 7.6.1)";
    /// A status line that cannot be read.
    StatusLine: 502, "malformed status line (4)";
    /// HTTP/1.1 without Host.
    HostMissing: 400, "no Host field (3.2)";
    /// More than one Host field.
    HostRepeated: 400, "more than one Host field (3.2)";
    /// A Host or authority with userinfo, path, list or nothing in it.
    HostInvalid: 400, "invalid Host (3.2, RFC 9110 7.2)";
    /// Transfer-Encoding in HTTP/1.0.
    TransferEncodingIn10: 400, "Transfer-Encoding in HTTP/1.0 (6.1)";
    /// Transfer-Encoding and Content-Length together.
    BothFramings: 400, "Transfer-Encoding with Content-Length (6.3)";
    /// Transfer-Encoding that is not exactly `chunked`.
    TransferEncoding: 400, "invalid Transfer-Encoding (6.1)";
    /// The last coding is not chunked: where the body ends cannot be known.
    ChunkedNotLast: 400, "the last transfer coding is not chunked (6.3)";
    /// A coding before a final chunked.
    UnknownCoding: 501, "unknown transfer coding (6.1)";
    /// Content-Length that is not a number of 64 bits.
    ContentLength: 400, "invalid Content-Length (6.2)";
    /// Content-Length given twice, even if equal.
    ContentLengthRepeated: 400, "repeated Content-Length (6.3)";
    /// A framing field in an interim response or a response that switches protocols.
    FramingForbidden: 400, "framing field in a 1xx response (6.1, RFC 9110 8.6)";
    /// A chunk size that is not a hexadecimal number of 64 bits.
    ChunkSize: 400, "invalid chunk size (7.1)";
    /// A chunk extension that is not `;name`, `;name=token` or `;name="text"`.
    ChunkExtension: 400, "invalid chunk extension (7.1.1)";
    /// A line with a chunk's size, or all extensions of a body, longer than allowed.
    ChunkExtensionTooLong: 400, "chunk extensions too long (7.1.1)";
    /// No CRLF right after a chunk's data.
    ChunkEnd: 400, "no CRLF after chunk data (7.1)";
    /// A trailer section that breaks the rules of fields.
    Trailer: 400, "invalid trailer section (7.1.2)";
    /// A trailer section larger than allowed.
    TrailerTooLarge: 431, "trailer section too large (7.1.2)";
    /// The peer closed before the message was complete.
    Truncated: 400, "incomplete message (8)";
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for ParseError {}
