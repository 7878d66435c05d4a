//! An attempt that failed: what it means for the target, and for a further attempt.

use super::super::Exchange;
use crate::error::{Error, Fault, Reason};
use crate::upstream::FailureKind;
use crate::upstream::retry::{Attempt, Cause};

/// An attempt that did not lead to a response.
pub(super) struct Failed {
    pub(super) error: Error,
    /// What it means for the target; `None` when it is not the target's fault.
    pub(super) kind: Option<FailureKind>,
    /// Whether a byte of the request was handed to the kernel.
    pub(super) sent: bool,
    /// Whether a byte of a reply was read.
    pub(super) response_started: bool,
    /// The status of a gRPC call that is not forwarded.
    pub(super) grpc_status: Option<u8>,
    /// Whether a retry is granted, where that is decided already.
    pub(super) retry: Option<bool>,
    /// How long the target wants the retry to wait.
    pub(super) wait_ns: u64,
}

impl Failed {
    pub(super) fn new(error: Error, sent: bool, response_started: bool) -> Self {
        Failed {
            error,
            kind: kind_of(error.reason),
            sent,
            response_started,
            grpc_status: None,
            retry: None,
            wait_ns: 0,
        }
    }

    /// A failure that counts against the target only if the target kept the exchange waiting: not when the total timeout passed for other
    /// reasons, and not when it closed its connection while the client kept back the rest of the request.
    pub(super) fn of(x: &mut Exchange<'_>, error: Error, sent: bool, response_started: bool) -> Self {
        let mut failed = Failed::new(error, sent, response_started);
        let is_shared = match error.reason {
            // How little time a client gives its call says nothing about the target.
            Reason::TotalTimeout if x.has_own_deadline => {
                failed.kind = None;
                return failed;
            }
            Reason::TotalTimeout => true,
            Reason::UpstreamReset => !x.body.has_read_all(),
            _ => false,
        };
        if is_shared && x.stalls.larger_fault() != Fault::Upstream {
            failed.kind = None;
        }
        failed
    }

    /// Why the request may be sent again; none when nobody but the client, or the gateway, is at fault.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.grpc_status.map(Cause::GrpcStatus).or(self.kind.map(Cause::Failure))
    }

    pub(super) fn as_attempt(&self, x: &Exchange<'_>, cause: Cause) -> Attempt {
        Attempt {
            cause,
            idempotent: x.scratch.request.method.is_idempotent(),
            sent: self.sent,
            body_replayable: x.body.is_replayable(),
            response_started: self.response_started,
        }
    }
}

/// What a failure is to the target; `None` when it is not the target's.
pub(in super::super) fn kind_of(reason: Reason) -> Option<FailureKind> {
    Some(match reason {
        Reason::ConnectFailed | Reason::ConnectTimeout | Reason::UpstreamTls => FailureKind::Connect,
        Reason::UpstreamReset => FailureKind::Reset,
        Reason::TryTimeout => FailureKind::TryTimeout,
        Reason::FirstByteTimeout => FailureKind::FirstByteTimeout,
        Reason::IdleTimeout => FailureKind::IdleTimeout,
        Reason::TotalTimeout => FailureKind::TotalTimeout,
        Reason::BadResponse => FailureKind::InvalidResponse,
        Reason::BodyTruncated => FailureKind::IncompleteResponse,
        _ => return None,
    })
}
