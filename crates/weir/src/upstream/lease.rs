//! A place at a target, held for one attempt.

use std::sync::Arc;
use std::time::Duration;

use llm::request::PrefixHashes;

use super::breaker::{Change, Entry};
use super::outcome::FailureKind;
use super::set::TargetSet;
use super::target::Target;
use super::time::Moment;
use crate::config;

/// What a failure counts in the peak EWMA, unless it took longer. Otherwise the target that refuses connections, and so is done with each request in
/// no time, would seem the fastest of all and draw them on.
const FAILURE_LATENCY: Duration = Duration::from_secs(1);

/// One request in flight at one target. Counts until it is dropped; owns what it refers to, so it may go to another task or thread.
///
/// Tell it one outcome, [success](Lease::success) or [failure](Lease::failure); only the first is taken. A lease that is dropped without an outcome
/// (the client disconnected) counts neither for nor against the target.
#[derive(Debug)]
#[must_use = "dropping a lease ends the attempt"]
pub struct Lease {
    set: Arc<TargetSet>,
    index: u32,
    since: Moment,
    /// How long others than the target kept the attempt waiting.
    excused: Duration,
    /// How it came through the breaker; taken by the outcome.
    entry: Option<Entry>,
    told: bool,
}

impl Lease {
    pub(super) fn new(set: Arc<TargetSet>, index: usize, entry: Option<Entry>, since: Moment) -> Lease {
        Lease { set, index: index as u32, since, entry, told: false, excused: Duration::ZERO }
    }

    /// Where the attempt goes.
    pub fn target(&self) -> &Target {
        &self.set.targets[self.index as usize]
    }

    /// The upstream's specification at the time of the pick: deadlines, retries, keep-alive.
    pub fn spec(&self) -> &config::Upstream {
        &self.set.spec
    }

    /// The first byte of the reply came, `latency` after the attempt was ready to get a response (the end of the request, or of its head).
    /// Feeds the peak EWMA, and is free where the balance does not use it.
    pub fn first_byte(&self, latency: Duration, now: Moment) {
        if self.set.spec.balance == config::Balance::Ewma {
            self.target().state.load.ewma.observe(latency, now);
        }
    }

    /// A call with this prompt goes to the target: the next one that begins so is best served there too.
    pub fn carries_prompt(&self, prompt: &PrefixHashes) {
        self.set.shared.replicas().saw(self.target(), prompt);
    }

    /// The call did not get there after all.
    pub fn lost_prompt(&self, prompt: &PrefixHashes) {
        self.set.shared.replicas().missed(self.target(), prompt);
    }

    /// The client kept the attempt waiting for so long, which is not the target's.
    pub fn excuse(&mut self, stalled: Duration) {
        self.excused = stalled;
    }

    /// When the place was taken.
    pub fn since(&self) -> Moment {
        self.since
    }

    /// The attempt succeeded: the target sent a whole response that is not a [`FailureKind`].
    pub fn success(&mut self, now: Moment) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        self.target().state.clear_failures();
        self.tell_breaker(true, now);
    }

    /// The attempt failed, through the target's fault. May eject the target or open its breaker.
    pub fn failure(&mut self, kind: FailureKind, now: Moment) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let target = &self.set.targets[self.index as usize];
        let in_a_row = target.state.count_failure(kind);
        if self.set.spec.balance == config::Balance::Ewma {
            let latency = now.since(self.since).saturating_sub(self.excused);
            target.state.load.ewma.observe(latency.max(FAILURE_LATENCY), now);
        }
        if let Some(eject) = &self.set.spec.eject {
            self.set.shared.ejector.after_failure(&self.set, target, eject, in_a_row, now);
        }
        self.tell_breaker(false, now);
    }

    fn tell_breaker(&mut self, success: bool, now: Moment) {
        let Some(entry) = self.entry.take() else {
            return;
        };
        let target = self.target();
        let Some(breaker) = &target.breaker else {
            return;
        };
        match breaker.record(entry, success, now) {
            Change::None => {}
            Change::Opened => {
                target.state.count_breaker_opened();
                tracing::warn!(upstream = %self.set.spec.name, target = %target.address, "breaker opened");
            }
            Change::Closed => {
                target.state.set_back_since(now);
                self.set.shared.ramp_until(&self.set, now);
                tracing::info!(upstream = %self.set.spec.name, target = %target.address, "breaker closed");
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let target = &self.set.targets[self.index as usize];
        if let (Some(breaker), Some(entry)) = (&target.breaker, self.entry) {
            breaker.abandon(entry);
        }
        target.state.release();
        if self.set.shared.queue.is_waited_for()
            && let Some(upstream) = self.set.upstream.upgrade()
        {
            upstream.serve_waiters();
        }
    }
}
