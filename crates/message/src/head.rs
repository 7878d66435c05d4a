//! Heads of requests and responses, whatever the protocol.

use crate::{Fields, Method, Span};

/// What the client expects before it sends its body (RFC 9110 section 10.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    None,
    /// `100-continue`.
    Continue,
    /// Something else: 417.
    Unknown,
}

/// Form of the request target (RFC 9112 section 3.2); authority form belongs to CONNECT and is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `*`
    Asterisk,
}

/// Protocol in which a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
    /// HTTP/2
    Http2,
    /// Made by the gateway itself.
    Internal,
}

/// What is known of a body's length before the body. Framing is the writer's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyLength {
    /// No body.
    #[default]
    None,
    /// So many bytes.
    Exact(u64),
    /// It ends when its source says so.
    Unknown,
}

/// A request head of any protocol: spans of the arena it was read into. Kept and refilled from request to request.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// Protocol of the request.
    pub protocol: Protocol,
    /// Method, recognised.
    pub method: Method,
    /// Method as written.
    pub method_name: Span,
    /// Form of the target.
    pub form: TargetForm,
    /// Path as written, not normalised.
    pub path: Span,
    /// Query without `?`; `None` where there is no `?`.
    pub query: Option<Span>,
    /// Effective authority (RFC 9110 section 7.1).
    pub authority: Option<Span>,
    /// `:protocol` of an extended CONNECT (RFC 8441).
    pub connect_protocol: Option<Span>,
    /// Fields, in order.
    pub fields: Fields,
    /// What is known of the body's length.
    pub body: BodyLength,
    /// Expectation.
    pub expect: Expect,
    /// Whether the client said that it reads trailers: `TE: trailers`.
    pub accepts_trailers: bool,
    /// Where the head ends in the arena.
    pub end: usize,
}

impl Default for RequestHead {
    fn default() -> Self {
        RequestHead {
            protocol: Protocol::default(),
            method: Method::Other,
            method_name: Span::default(),
            form: TargetForm::Origin,
            path: Span::default(),
            query: None,
            authority: None,
            connect_protocol: None,
            fields: Fields::default(),
            body: BodyLength::None,
            expect: Expect::None,
            accepts_trailers: false,
            end: 0,
        }
    }
}

/// A response head of any protocol: spans of the arena it was read into. Kept and refilled from response to response.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    /// Status, 100 to 999.
    pub status: u16,
    /// Reason phrase; empty in HTTP/2.
    pub reason: Span,
    /// Fields, in order.
    pub fields: Fields,
    /// What is known of the body's length, given the request's method.
    pub body: BodyLength,
    /// Content-Length as given, also where there is no body (HEAD, 304).
    pub content_length: Option<u64>,
    /// Where the head ends in the arena.
    pub end: usize,
}

impl ResponseHead {
    /// Whether it is an interim response (RFC 9110 section 15.2); 101 is final for the exchange.
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }
}
