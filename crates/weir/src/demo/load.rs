//! What this process is doing with requests: which are admitted, which fail, how many are in flight.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::refusal::Refusal;
use super::settings::Settings;

/// The response of `/sim`.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Counts {
    in_flight: u64,
    admitted: u64,
    failed: u64,
    refused: u64,
    cancelled: u64,
}

/// Counts of one service.
#[derive(Debug, Default)]
pub(super) struct Load(Mutex<Counts>);

/// A request in flight; one that is dropped before [`LoadSlot::done`] was cancelled.
#[derive(Debug)]
pub(super) struct LoadSlot {
    load: Arc<Load>,
    done: bool,
}

impl Load {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Counts {
        *self.counts()
    }

    /// Takes a place in flight, or says what a request that gets none gets a response.
    pub(super) fn admit(self: &Arc<Self>, settings: &Settings) -> Result<LoadSlot, Refusal> {
        let mut counts = self.counts();
        if settings.concurrency > 0 && counts.in_flight >= u64::from(settings.concurrency) {
            counts.refused += 1;
            return Err(Refusal::overloaded());
        }
        counts.admitted += 1;
        let failures_of = |requests: u64| requests.saturating_mul(u64::from(settings.error_rate)) / 1_000_000;
        if failures_of(counts.admitted) > failures_of(counts.admitted - 1) {
            counts.failed += 1;
            return Err(Refusal::simulated(settings.error_status));
        }
        counts.in_flight += 1;
        Ok(LoadSlot { load: self.clone(), done: false })
    }
}

impl LoadSlot {
    /// The last byte is handed to the connection.
    pub(super) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for LoadSlot {
    fn drop(&mut self) {
        let mut counts = self.load.counts();
        counts.in_flight -= 1;
        if !self.done {
            counts.cancelled += 1;
        }
    }
}
