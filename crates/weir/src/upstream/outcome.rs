//! What can go wrong with an attempt, as balancing, ejection, breaker, retries and metrics name it.

use serde::Serialize;

/// Why an attempt at a target failed. Only failures that are the target's (or the network's) belong here: a client that disconnected,
/// or a file descriptor that this process could not get, is no failure of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No connection: refused, unreachable, or `timeouts.connect` ran out. Nothing of the request was sent.
    Connect,
    /// The connection broke before the first byte of a reply.
    Reset,
    /// `timeouts.try` ran out.
    TryTimeout,
    /// `timeouts.first_byte` ran out.
    FirstByteTimeout,
    /// `timeouts.idle` ran out within the reply's body.
    IdleTimeout,
    /// `timeouts.total` ran out.
    TotalTimeout,
    /// The reply is not HTTP that may be forwarded (HTTP1-SAFETY's rules from the upstream's side).
    InvalidResponse,
    /// The reply ended before its framing said so.
    IncompleteResponse,
    /// The target responded with 502.
    Status502,
    /// The target responded with 503.
    Status503,
    /// The target responded with 504.
    Status504,
    /// The target ended a gRPC call with UNAVAILABLE.
    GrpcUnavailable,
}

impl FailureKind {
    /// Every kind, in the order of [`FailureKind::index`].
    pub const ALL: [FailureKind; 12] = [
        FailureKind::Connect,
        FailureKind::Reset,
        FailureKind::TryTimeout,
        FailureKind::FirstByteTimeout,
        FailureKind::IdleTimeout,
        FailureKind::TotalTimeout,
        FailureKind::InvalidResponse,
        FailureKind::IncompleteResponse,
        FailureKind::Status502,
        FailureKind::Status503,
        FailureKind::Status504,
        FailureKind::GrpcUnavailable,
    ];

    /// The failure that a status is, if any: 502, 503 and 504 say that the target cannot serve. A 500 is a response of the application,
    /// often to one bad request, and must not take a target out.
    pub const fn of_status(status: u16) -> Option<FailureKind> {
        match status {
            502 => Some(FailureKind::Status502),
            503 => Some(FailureKind::Status503),
            504 => Some(FailureKind::Status504),
            _ => None,
        }
    }

    /// The failure that the status of a gRPC call is, if any: what 503 is to HTTP. Every other status is a response of the application.
    pub const fn of_grpc_status(status: u8) -> Option<FailureKind> {
        match status {
            14 => Some(FailureKind::GrpcUnavailable),
            _ => None,
        }
    }

    /// The status of the response that was the failure, if there was one.
    pub const fn status(self) -> Option<u16> {
        match self {
            FailureKind::Status502 => Some(502),
            FailureKind::Status503 => Some(503),
            FailureKind::Status504 => Some(504),
            _ => None,
        }
    }

    /// Position in [`FailureKind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name in metrics, logs and `/upstreams`.
    pub const fn label(self) -> &'static str {
        match self {
            FailureKind::Connect => "connect",
            FailureKind::Reset => "reset",
            FailureKind::TryTimeout => "try_timeout",
            FailureKind::FirstByteTimeout => "first_byte_timeout",
            FailureKind::IdleTimeout => "idle_timeout",
            FailureKind::TotalTimeout => "total_timeout",
            FailureKind::InvalidResponse => "invalid_response",
            FailureKind::IncompleteResponse => "incomplete_response",
            FailureKind::Status502 => "status_502",
            FailureKind::Status503 => "status_503",
            FailureKind::Status504 => "status_504",
            FailureKind::GrpcUnavailable => "grpc_unavailable",
        }
    }
}
