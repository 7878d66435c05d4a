//! Why a request was not served as requested: one enum for the whole crate.
//!
//! A [`Reason`] knows who is at fault, which status the client gets, how it is named in logs and metrics, and whether another
//! attempt could help. The exhaustive matches stand side by side here, so that a new reason cannot be added halfway.

mod advice;

use std::fmt;

/// Who has to change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The sender of the request.
    Client,
    /// The service behind the gateway.
    Upstream,
    /// The gateway itself, or the machine that it runs on.
    Gateway,
}

impl Fault {
    /// All of them, in their order.
    pub const ALL: [Fault; 3] = [Fault::Client, Fault::Upstream, Fault::Gateway];

    /// Name in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Fault::Client => "client",
            Fault::Upstream => "upstream",
            Fault::Gateway => "gateway",
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident: $fault:ident, $status:literal, $label:literal, $title:literal;)*) => {
        /// Why a request was not served as requested.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// Every reason, in the order of their discriminants; metrics are arrays over it.
            pub const ALL: &'static [Reason] = &[$(Reason::$name),*];
            /// Who is at fault.
            pub fn fault(self) -> Fault { match self { $(Reason::$name => Fault::$fault,)* } }
            /// Status that the client gets, when a response can still be sent.
            pub fn status(self) -> u16 { match self { $(Reason::$name => $status,)* } }
            /// Name in logs and metrics.
            pub fn label(self) -> &'static str { match self { $(Reason::$name => $label,)* } }
            /// Title of the problem document (RFC 9457): the same sentence every time.
            pub fn title(self) -> &'static str { match self { $(Reason::$name => $title,)* } }
        }
    };
}

reasons! {
    /// The head breaks a rule of RFC 9112 or 9110; the codec's error says which.
    BadRequest: Client, 400, "bad_request", "The request cannot be understood";
    /// The path has two readings (encoded slash, empty segment, ...).
    BadPath: Client, 400, "bad_path", "The path is ambiguous";
    /// No route matches.
    NotFound: Client, 404, "not_found", "No route matches this request";
    /// A route matches but for the method.
    MethodNotAllowed: Client, 405, "method_not_allowed", "The method is not allowed here";
    /// The head did not arrive before the deadline.
    HeadTimeout: Client, 408, "head_timeout", "The request head took too long";
    /// The body stalled.
    BodyTimeout: Client, 408, "body_timeout", "The request body took too long";
    /// The body is larger than the route takes.
    BodyTooLarge: Client, 413, "body_too_large", "The request body is too large";
    /// The media type of the body is not described, or its coding cannot be checked.
    UnsupportedMediaType: Client, 415, "unsupported_media_type", "The media type of the body is not accepted";
    /// The request is not what the description of the API says.
    InvalidRequest: Client, 400, "invalid_request", "The request does not match the description of the API";
    /// The request line is too long.
    RequestLineTooLong: Client, 414, "request_line_too_long", "The request line is too long";
    /// An `Expect` other than `100-continue`.
    ExpectationFailed: Client, 417, "expectation_failed", "The expectation cannot be met";
    /// The host is not one that this connection's TLS handshake was made for.
    Misdirected: Client, 421, "misdirected", "This connection may not carry requests for this host";
    /// A limit is counted by something that the request does not have, and says to refuse such requests.
    MissingKey: Client, 400, "missing_key", "The request lacks the key that it is limited by";
    /// The request does not show who sends it, or what it shows does not hold; the log says why.
    Unauthenticated: Client, 401, "unauthenticated", "The request needs valid credentials";
    /// The sender is known and may not do this.
    Forbidden: Client, 403, "forbidden", "The sender may not do this";
    /// An authorizer does not let the request pass; the client gets its response.
    AuthDenied: Client, 403, "auth_denied", "The authorizer does not allow this request";
    /// The sender's address is not allowed.
    IpDenied: Client, 403, "ip_denied", "Requests from this address are not allowed";
    /// Credentials that occur twice, or have bytes that none has.
    BadCredentials: Client, 400, "bad_credentials", "The credentials cannot be read";
    /// A limit refused it.
    RateLimited: Client, 429, "rate_limited", "Too many requests";
    /// The head has too many bytes or fields.
    HeadTooLarge: Client, 431, "head_too_large", "The request head is too large";
    /// The client closed or reset its connection before the response was complete.
    ClientDisconnected: Client, 499, "client_disconnected", "The client disconnected";
    /// A transfer coding that is not implemented.
    UnknownCoding: Client, 501, "unknown_coding", "The transfer coding is not implemented";
    /// CONNECT, which this gateway does not tunnel.
    ConnectNotSupported: Client, 501, "connect_not_supported", "CONNECT is not supported";
    /// An extended CONNECT where no WebSocket is offered.
    NoTunnel: Client, 501, "no_tunnel", "WebSocket is not offered here";
    /// A version other than HTTP/1.0 and HTTP/1.1.
    UnsupportedVersion: Client, 505, "unsupported_version", "The HTTP version is not supported";

    /// A request of an AI API that cannot be read, or not be served as it is.
    AiRequest: Client, 400, "ai_request", "The request of the AI API cannot be served";
    /// No model of the route has the name that is requested.
    ModelNotFound: Client, 404, "model_not_found", "There is no such model";

    /// No provider of the model gave a usable response.
    AiUpstream: Upstream, 502, "ai_upstream", "No provider of the model gave a usable response";
    /// No provider of the model gave content before the deadline.
    AiTimeout: Upstream, 504, "ai_timeout", "No provider of the model responded before the deadline";
    /// The providers of the model, or the keys for them, take no more requests for now.
    AiLimited: Upstream, 429, "ai_limited", "The providers of the model take no more requests for now";
    /// The provider's response broke off after content was sent; the client got an error event.
    AiCut: Upstream, 502, "ai_cut", "The provider's response broke off";
    /// No connection could be made.
    ConnectFailed: Upstream, 502, "connect_failed", "The upstream cannot be reached";
    /// The TLS handshake failed; the detail says how.
    UpstreamTls: Upstream, 502, "upstream_tls", "The upstream's TLS handshake failed";
    /// Making a connection took too long.
    ConnectTimeout: Upstream, 504, "connect_timeout", "Connecting to the upstream timed out";
    /// One attempt took too long (`timeouts.try`).
    TryTimeout: Upstream, 504, "try_timeout", "The upstream did not respond within the timeout";
    /// No first byte before the deadline.
    FirstByteTimeout: Upstream, 504, "first_byte_timeout", "The upstream did not respond within the timeout";
    /// The connection broke before the first byte of a reply.
    UpstreamReset: Upstream, 502, "upstream_reset", "The upstream closed the connection without a response";
    /// The reply breaks a rule of RFC 9112.
    BadResponse: Upstream, 502, "bad_response", "The upstream's response is invalid";
    /// The reply's body broke off; the client's connection is aborted too.
    BodyTruncated: Upstream, 502, "body_truncated", "The upstream's response was cut short";
    /// The reply's body stalled.
    IdleTimeout: Upstream, 504, "idle_timeout", "The upstream's response stalled";
    /// The client wants a response from the cache or none (RFC 9111 section 5.2.1.7).
    NotCached: Client, 504, "not_cached", "The cache has no response to this request";
    /// The whole exchange took too long.
    TotalTimeout: Upstream, 504, "total_timeout", "The exchange took too long";
    /// Every target is unhealthy, ejected or behind an open breaker.
    Unavailable: Upstream, 503, "unavailable", "No upstream target is available";
    /// Every target is at its limit of requests in flight and the queue is full or absent.
    QueueFull: Upstream, 503, "queue_full", "The upstream is at its limit";
    /// The request waited for others' fetches of the same response, and the upstream responded to two of them with an error.
    SharedFetchFailed: Upstream, 503, "shared_fetch_failed", "The upstream responded with an error to the requests before this one";
    /// Its turn in the queue would come after the time that it may wait.
    QueueTooLong: Upstream, 503, "queue_too_long", "The upstream is at its limit";
    /// Waited in the queue for too long.
    QueueTimeout: Upstream, 503, "queue_timeout", "The upstream is at its limit";

    /// A route leads to a backend that there is not.
    InvalidBackend: Gateway, 500, "invalid_backend", "The route has no valid backend";
    /// The store of a limit failed and the limit says `closed`.
    LimitStore: Gateway, 503, "limit_store", "The rate limit cannot be checked";
    /// An authorizer with `mode: nginx` responded with a status that is not a verdict.
    AuthorizerFailed: Gateway, 500, "authorizer_failed", "The authorizer failed";
    /// Whether the credentials hold cannot be decided now.
    AuthUnavailable: Gateway, 503, "auth_unavailable", "The credentials cannot be checked";
    /// The guard of an AI route gave no verdict, and calls do not pass without one.
    AiGuard: Gateway, 503, "ai_guard", "The guard of the route gave no verdict";
    /// Request bodies of AI traffic take up all the memory that they may.
    AiHeld: Gateway, 503, "ai_held", "The gateway holds too many request bodies";
    /// More connections than `max_connections`.
    TooManyConnections: Gateway, 503, "too_many_connections", "The gateway has too many connections";
    /// No file descriptor, memory or port is left.
    Resources: Gateway, 503, "resources", "The gateway is out of resources";
    /// The process ended before the exchange did: the drain deadline passed, or a second signal came.
    Shutdown: Gateway, 503, "shutdown", "The gateway ended before the exchange did";
    /// A defect of the gateway: the request was cut off, the process goes on.
    Panic: Gateway, 500, "panic", "The gateway failed";
}

impl Reason {
    /// Index into arrays over [`Reason::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether the same request, sent again later and unchanged, may succeed: such responses carry `Retry-After`.
    pub fn is_temporary(self) -> bool {
        matches!(
            self,
            Reason::RateLimited
                | Reason::Unavailable
                | Reason::SharedFetchFailed
                | Reason::QueueFull
                | Reason::QueueTooLong
                | Reason::QueueTimeout
                | Reason::LimitStore
                | Reason::AuthUnavailable
                | Reason::AiGuard
                | Reason::AiHeld
                | Reason::AiLimited
                | Reason::TooManyConnections
                | Reason::Resources
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A reason with what the log adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// Why.
    pub reason: Reason,
    /// More exactly why, for the problem document's `detail` and the log; a fixed text, never input.
    pub detail: &'static str,
}

impl Error {
    /// An error that says more than its reason.
    pub fn new(reason: Reason, detail: &'static str) -> Self {
        Error { reason, detail }
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        Error { reason, detail: "" }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() { self.reason.fmt(f) } else { write!(f, "{}: {}", self.reason, self.detail) }
    }
}

impl std::error::Error for Error {}
