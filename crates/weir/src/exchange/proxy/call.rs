//! gRPC calls that a target ended with a head only ("Trailers-Only"): whether they are made again, and what the client gets if no attempt
//! ends better.
//!
//! By gRFC A6 a call is committed when the client has a head that is not the last one. Until then nothing of the call has reached anybody.

use std::task::Poll;

use super::super::grpc::{CallHead, Pushback};
use super::super::stall::Stall;
use super::super::upstream_exchange::UpstreamSide;
use super::super::{Exchange, SendState};
use super::failed::Failed;
use super::heads::write_response_head;
use super::{Plan, moment};
use crate::error::{Error, Fault, Reason};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::upstream::retry::{Cause, may_repeat};
use crate::upstream::{FailureKind, Lease};

/// The response of a target that is not forwarded, as the call is made again. The client gets it if no other comes.
pub(in super::super) struct Spared {
    /// Its head, as the client gets it.
    head: Vec<u8>,
    status: u8,
    /// Where it came from, as the log names it.
    slot: usize,
    target: String,
    fell_back: bool,
    /// Calls that targets ended so far, and that are made again.
    pub(in super::super) calls: u32,
}

/// Why a call that ended with a head is not forwarded but made again, at another target or at a fallback; `None` if it is forwarded.
pub(super) fn repeats(
    x: &mut Exchange<'_>,
    plan: &Plan<'_>,
    up: &UpstreamSide,
    lease: &Lease,
    call: &CallHead,
    number: u32,
) -> Option<Failed> {
    let status = call.last_status()?;
    let error = Error::new(Reason::Unavailable, "the target ended the call with a status that is retried");
    let mut failed = Failed::new(error, true, true);
    failed.kind = FailureKind::of_grpc_status(status);
    failed.grpc_status = Some(status);
    let tried = failed.as_attempt(x, Cause::GrpcStatus(status));
    may_repeat(&tried, lease.spec().retry.on).ok()?;
    let wait_ns = match call.pushback {
        Pushback::None => 0,
        Pushback::Never => return None,
        Pushback::After(ns) => ns,
    };
    // As long as a head is waited for, and no longer than the client waits.
    let longest = plan.choice.timeouts.first_byte.map_or(u64::MAX, nanos);
    let is_in_time = wait_ns <= longest && clock::loop_ns().saturating_add(wait_ns) < plan.total_due;
    let is_granted = is_in_time && plan.view.may_retry(&tried, number, moment()).is_ok();
    if !is_granted && !plan.has_fallback {
        return None;
    }
    failed.retry = Some(is_granted);
    failed.wait_ns = wait_ns;
    spare(x, plan, up, lease, status);
    Some(failed)
}

#[cold]
fn spare(x: &mut Exchange<'_>, plan: &Plan<'_>, up: &UpstreamSide, lease: &Lease, status: u8) {
    let start = x.down.out.bytes.len();
    write_response_head(x, plan, up, lease);
    let calls = x.spared.as_ref().map_or(0, |spared| spared.calls) + 1;
    x.spared = Some(Box::new(Spared {
        head: x.down.out.bytes.split_off(start),
        status,
        slot: x.log.slot,
        target: x.scratch.logged_target.clone(),
        fell_back: x.log.fell_back,
        calls,
    }));
}

impl Exchange<'_> {
    /// Sends what the last target said that ended the call, in place of an error of the gateway: what happened behind it is not the
    /// client's concern.
    ///
    /// # Errors
    /// The error, if there is no such response, or if it says why the client waits no longer.
    pub(super) async fn send_spared(&mut self, error: Error) -> Result<(), Error> {
        let is_late = error.reason == Reason::TotalTimeout || error.reason.fault() == Fault::Client;
        let spared = self.spared.take().filter(|_| !is_late && self.send_state == SendState::None);
        let Some(spared) = spared else { return Err(error) };
        let Spared { head, status, slot, target, fell_back, .. } = *spared;
        self.skip_body();
        self.down.out.clear();
        self.down.out.bytes.extend_from_slice(&head);
        self.scratch.logged_target = target;
        self.log.status = 200;
        self.log.grpc_status = Some(status);
        (self.log.slot, self.log.fell_back) = (slot, fell_back);
        self.flush_response().await
    }
}

/// Waits before a call is made again, as its target wants it.
pub(super) async fn wait_before_retry(x: &mut Exchange<'_>, wait_ns: u64, total_due: u64) -> Result<(), Error> {
    let due = clock::loop_ns().saturating_add(wait_ns);
    x.stalls.change(Stall::Gateway);
    x.down.deadline.set_at(due.min(total_due));
    std::future::poll_fn(|cx| {
        if x.down.stream.is_reset()
            || (x.body.has_read_all() && x.down.poll_disconnect(cx, &x.worker.buffers).is_ready())
        {
            return Poll::Ready(Err(Reason::ClientDisconnected.into()));
        }
        match x.down.deadline.poll_passed(cx) {
            true if due < total_due => Poll::Ready(Ok(())),
            true => Poll::Ready(Err(Reason::TotalTimeout.into())),
            false => Poll::Pending,
        }
    })
    .await
}
