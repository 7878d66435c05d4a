//! Whether a failed attempt may be repeated: rule 20 of the safety rules, what the configuration requests, and the budget.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::outcome::FailureKind;
use super::time::Moment;
use crate::config::RetryOn;

/// Retries that a window of [`WINDOW_SECONDS`] always has, so that a quiet gateway can retry at all: one of ten requests a minute that
/// meets a dead target must not fail because 20 % of so few is nothing. Ten a second cannot overload what is worth a gateway.
pub const BUDGET_FLOOR: u64 = 100;

/// Length of the budget's window.
pub const WINDOW_SECONDS: u64 = 10;

/// An attempt that failed, as far as its repetition is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// How it failed.
    pub cause: Cause,
    /// The method is idempotent, see [`is_idempotent`].
    pub idempotent: bool,
    /// A byte of the request was written to the target's connection. Written means handed to the kernel: whether it arrived is not known.
    pub sent: bool,
    /// The whole body (or its absence) is still at hand.
    pub body_replayable: bool,
    /// A byte of a final reply was read. Ignored where the failure is a status, which is such a reply, read but not forwarded.
    pub response_started: bool,
}

/// Why a request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The target failed.
    Failure(FailureKind),
    /// The target ended a gRPC call with this status before a message: with a head, which was read but not forwarded.
    GrpcStatus(u8),
}

impl From<FailureKind> for Cause {
    fn from(kind: FailureKind) -> Self {
        Cause::Failure(kind)
    }
}

/// Why an attempt is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoRetry {
    /// `retry.on` does not name this failure, or it never is repeated.
    NotConfigured,
    /// The reply had begun.
    ResponseStarted,
    /// The method is not idempotent and something of the request was sent.
    NotIdempotent,
    /// The body has been passed on and is not held any more.
    BodyDropped,
    /// `retry.extra_attempts` are used up.
    AttemptsUsed,
    /// The budget of the upstream is spent.
    OverBudget,
}

impl NoRetry {
    /// Name in metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            NoRetry::NotConfigured => "not_configured",
            NoRetry::ResponseStarted => "response_started",
            NoRetry::NotIdempotent => "not_idempotent",
            NoRetry::BodyDropped => "body_dropped",
            NoRetry::AttemptsUsed => "attempts_used",
            NoRetry::OverBudget => "over_budget",
        }
    }
}

/// Whether the request may be sent once more, to another target or to a fallback upstream, without harm: safety rule 20.
///
/// An idempotent request may be repeated after any failure before the first byte of the reply; any other request only when nothing of it was
/// sent. A status that `on` names may be repeated for idempotent requests only, since the request was sent. That of a gRPC call may be
/// repeated although every call is a POST: gRPC has no idempotent methods, so it is the configuration that says so by naming the status.
///
/// # Errors
/// The first reason against it.
pub fn may_repeat(attempt: &Attempt, on: RetryOn) -> Result<(), NoRetry> {
    let failure = match attempt.cause {
        Cause::GrpcStatus(status) if !on.grpc.has(status) => return Err(NoRetry::NotConfigured),
        Cause::GrpcStatus(_) if !attempt.body_replayable => return Err(NoRetry::BodyDropped),
        Cause::GrpcStatus(_) => return Ok(()),
        Cause::Failure(failure) => failure,
    };
    let (wanted, is_status) = match failure {
        FailureKind::Connect => (on.connect, false),
        FailureKind::Reset => (on.reset, false),
        FailureKind::TryTimeout => (on.try_timeout, false),
        FailureKind::Status502 => (on.status_502, true),
        FailureKind::Status503 => (on.status_503, true),
        FailureKind::Status504 => (on.status_504, true),
        // One of trailers: the client has the beginning of the response.
        FailureKind::GrpcUnavailable
        | FailureKind::FirstByteTimeout
        | FailureKind::IdleTimeout
        | FailureKind::TotalTimeout
        | FailureKind::InvalidResponse
        | FailureKind::IncompleteResponse => (false, false),
    };
    if !wanted {
        return Err(NoRetry::NotConfigured);
    }
    if attempt.response_started && !is_status {
        return Err(NoRetry::ResponseStarted);
    }
    if !attempt.idempotent && (attempt.sent || is_status) {
        return Err(NoRetry::NotIdempotent);
    }
    if !attempt.body_replayable {
        return Err(NoRetry::BodyDropped);
    }
    Ok(())
}

/// Whether a method is idempotent (RFC 9110 section 9.2.2); methods that are not known are not.
pub fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE")
}

/// Requests and retries of the last ten seconds, in buckets of one second.
///
/// A retry is allowed when the retries of the window, this one included, are at most the share of its requests plus [`BUDGET_FLOOR`]. A share of 0 allows none.
/// Retries are counted for the whole process, requests by each worker for itself and added up when a retry is considered: so the ordinary
/// request, which is never repeated, shares nothing. The bound is exact among workers that agree on the second; each new second may let one
/// more through per worker whose clock lags.
#[derive(Debug, Default)]
pub(super) struct Budget {
    deposits: Mutex<Vec<Arc<Deposits>>>,
    retries: Buckets,
    taken: AtomicU64,
    refused: AtomicU64,
}

/// The requests of one worker, which alone writes them.
#[derive(Debug, Default)]
pub(super) struct Deposits(Buckets);

impl Deposits {
    /// Counts a request (not its retries).
    pub(super) fn count(&self, now: Moment) {
        let second = second(now);
        let bucket = self.0.at(second);
        let word = bucket.load(Ordering::Relaxed);
        bucket.store(second << 32 | (count(word, second) + 1), Ordering::Relaxed);
    }
}

impl Budget {
    /// Where a worker counts its requests. They stay in the window when the worker drops it.
    pub(super) fn join(&self) -> Arc<Deposits> {
        let own = Arc::<Deposits>::default();
        super::lock(&self.deposits).push(own.clone());
        own
    }

    /// Workers that count here.
    #[cfg(test)]
    pub(super) fn members(&self) -> usize {
        super::lock(&self.deposits).len()
    }

    /// Requests of the window, of all workers.
    fn requests(&self, second: u64) -> u64 {
        let mut deposits = super::lock(&self.deposits);
        let mut sum = 0;
        deposits.retain(|worker| {
            let requests = worker.0.sum(second);
            sum += requests;
            // Nobody writes here any more, and what was written is too old.
            requests > 0 || Arc::strong_count(worker) > 1
        });
        sum
    }

    /// Takes one retry, if there is one.
    pub(super) fn withdraw(&self, share: f64, now: Moment) -> bool {
        let taken = self.try_withdraw(share, now);
        let count = if taken { &self.taken } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        taken
    }

    fn try_withdraw(&self, share: f64, now: Moment) -> bool {
        if share <= 0.0 {
            return false;
        }
        let second = second(now);
        let allowed = BUDGET_FLOOR + (self.requests(second) as f64 * share + 1e-9) as u64;
        let bucket = self.retries.at(second);
        loop {
            // The exchange fails when another worker took one in between; older buckets do not change any more.
            let word = bucket.load(Ordering::Acquire);
            if self.retries.sum(second) >= allowed {
                return false;
            }
            let taken = (count(word, second) + 1) | second << 32;
            if bucket.compare_exchange(word, taken, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Retries since the start.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Retries that were refused since the start.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Retries of the window.
    pub(super) fn retries(&self, now: Moment) -> u64 {
        self.retries.sum(second(now))
    }
}

fn second(now: Moment) -> u64 {
    // The second 0 is that of an untouched bucket.
    now.as_micros() / 1_000_000 + 1
}

/// Each bucket: its second above, the count below.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Buckets([AtomicU64; WINDOW_SECONDS as usize]);

impl Buckets {
    fn at(&self, second: u64) -> &AtomicU64 {
        &self.0[(second % WINDOW_SECONDS) as usize]
    }

    fn sum(&self, second: u64) -> u64 {
        let oldest = second.saturating_sub(WINDOW_SECONDS - 1);
        let newer = |word: &u64| *word >> 32 >= oldest;
        self.0
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .filter(newer)
            .map(|word| word & u64::from(u32::MAX))
            .sum()
    }
}

/// Count of a bucket, 0 when it is still that of an earlier second.
fn count(word: u64, second: u64) -> u64 {
    if word >> 32 == second { word & u64::from(u32::MAX) } else { 0 }
}

#[cfg(test)]
mod tests;
