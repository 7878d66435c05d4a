//! Circuit breaker of one target, shared by all workers, without a lock.
//!
//! ```text
//!            failures >= share of the last N             open_for is over and a request comes
//!   CLOSED ---------------------------------> OPEN ----------------------------------------> PROBING
//!     ^                                        ^  ^--------- the probe failed ----------------- | |
//!     |                                        '------------ the probe said nothing ------------' |
//!     '----------------------------------------------------- the probe succeeded -----------------'
//! ```
//!
//! The share is taken only once N outcomes are there. Each change of state begins a new epoch, and a request that was let through in
//! an earlier epoch is not counted when it ends: late failures of the old times neither open a breaker that has just closed nor disturb a probe.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use super::time::Moment;
use crate::config;

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const PROBING: u64 = 2;

/// One breaker.
#[derive(Debug)]
pub(super) struct Breaker {
    /// Low 2 bits: state; next 16: epoch; the rest: milliseconds at which `OPEN` lets a probe through.
    state: AtomicU64,
    window: Window,
    /// Failures among the last N that open it.
    threshold: u32,
    open_for: Duration,
}

/// How a request came through the breaker; handed back with its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// The breaker was closed in this epoch.
    Closed(u16),
    /// This request is the one probe of this epoch.
    Probe(u16),
}

/// What an outcome did to the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// It opened, or opened again after a failed probe.
    Opened,
    /// It closed after a probe.
    Closed,
}

/// State as shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Requests pass.
    Closed,
    /// No request passes.
    Open,
    /// The next request is, or a request in flight is, the probe that decides.
    HalfOpen,
}

impl Breaker {
    /// A closed breaker with an empty window.
    pub(super) fn new(spec: &config::Breaker) -> Breaker {
        let of_last = spec.of_last.max(1);
        // The epsilon keeps 0.3 * 10 at 3 failures, not 4.
        let threshold = (spec.failures * f64::from(of_last) - 1e-9).ceil() as u32;
        Breaker {
            state: AtomicU64::new(pack(CLOSED, 0, 0)),
            window: Window::new(of_last),
            threshold: threshold.clamp(1, of_last),
            open_for: spec.open_for,
        }
    }

    /// Whether a request could pass now. Takes nothing.
    pub(super) fn admits(&self, now: Moment) -> bool {
        let word = self.state.load(Ordering::Relaxed);
        match kind(word) {
            CLOSED => true,
            OPEN => until_ms(word) <= now.as_millis(),
            _ => false,
        }
    }

    /// Lets a request through, or not. Who gets [`Entry::Probe`] must end with [`Breaker::record`] or [`Breaker::abandon`].
    pub(super) fn acquire(&self, now: Moment) -> Option<Entry> {
        let word = self.state.load(Ordering::Acquire);
        match kind(word) {
            CLOSED => Some(Entry::Closed(epoch(word))),
            OPEN if until_ms(word) <= now.as_millis() => {
                let probing = pack(PROBING, epoch(word), 0);
                self.state
                    .compare_exchange(word, probing, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                    .then_some(Entry::Probe(epoch(word)))
            }
            _ => None,
        }
    }

    /// Takes the outcome of a request that [entered](Breaker::enter).
    pub(super) fn record(&self, entry: Entry, success: bool, now: Moment) -> Change {
        match entry {
            Entry::Probe(epoch) if success => {
                // Nobody writes to the window while the breaker is not closed, so it is emptied before it is in use again.
                self.window.clear();
                self.change(pack(PROBING, epoch, 0), CLOSED, 0, Change::Closed)
            }
            Entry::Probe(epoch) => self.change(pack(PROBING, epoch, 0), OPEN, self.open_until(now), Change::Opened),
            Entry::Closed(epoch) => {
                let closed = pack(CLOSED, epoch, 0);
                if self.state.load(Ordering::Acquire) != closed {
                    return Change::None;
                }
                match self.window.push(success) {
                    Some(failures) if failures >= self.threshold => {
                        self.change(closed, OPEN, self.open_until(now), Change::Opened)
                    }
                    _ => Change::None,
                }
            }
        }
    }

    /// A request that entered ended without an outcome (its client disconnected): a probe frees its place for the next request.
    pub(super) fn abandon(&self, entry: Entry) {
        if let Entry::Probe(epoch) = entry {
            let (from, to) = (pack(PROBING, epoch, 0), pack(OPEN, epoch, 0));
            let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Closes it, with an empty window, whatever it was: who knows that the target works need not wait for a probe. Requests in flight are not
    /// counted.
    pub(super) fn reset(&self) {
        // Its own probe, which nobody else may let through or end: the window is emptied while nobody writes to it, as after a probe.
        let hold = |word| Some(pack(PROBING, epoch(word).wrapping_add(1), 0));
        let Ok(before) = self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, hold) else { return };
        self.window.clear();
        self.change(pack(PROBING, epoch(before).wrapping_add(1), 0), CLOSED, 0, Change::Closed);
    }

    /// State as shown to people.
    pub(super) fn state(&self, now: Moment) -> BreakerState {
        let word = self.state.load(Ordering::Relaxed);
        match kind(word) {
            CLOSED => BreakerState::Closed,
            OPEN if until_ms(word) > now.as_millis() => BreakerState::Open,
            _ => BreakerState::HalfOpen,
        }
    }

    fn open_until(&self, now: Moment) -> u64 {
        now.after(self.open_for).as_micros().div_ceil(1000)
    }

    fn change(&self, from: u64, kind: u64, until_ms: u64, change: Change) -> Change {
        let to = pack(kind, epoch(from).wrapping_add(1), until_ms);
        match self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => change,
            Err(_) => Change::None,
        }
    }
}

const fn pack(kind: u64, epoch: u16, until_ms: u64) -> u64 {
    until_ms << 18 | (epoch as u64) << 2 | kind
}

const fn kind(word: u64) -> u64 {
    word & 3
}

const fn epoch(word: u64) -> u16 {
    (word >> 2) as u16
}

const fn until_ms(word: u64) -> u64 {
    word >> 18
}

/// The last N outcomes: a ring of bits (1 is a failure), the number of ones, and how many outcomes there were.
#[derive(Debug)]
struct Window {
    bits: Box<[AtomicU64]>,
    size: u32,
    /// Signed: [`Window::clear`] may meet an outcome that has set its bit and not yet counted it.
    failures: AtomicI32,
    /// Outcomes since the window was empty; the next one goes to `pushed % size`.
    pushed: AtomicU64,
}

impl Window {
    fn new(size: u32) -> Window {
        Window {
            bits: (0..size.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            size,
            failures: AtomicI32::new(0),
            pushed: AtomicU64::new(0),
        }
    }

    /// Takes in one outcome; the number of failures in the window when it is full, else `None`.
    fn push(&self, success: bool) -> Option<u32> {
        // A success in a full window of successes changes nothing: a target that works costs two reads, no write.
        if success
            && self.pushed.load(Ordering::Relaxed) >= u64::from(self.size)
            && self.failures.load(Ordering::Relaxed) == 0
        {
            return Some(0);
        }
        let position = self.pushed.fetch_add(1, Ordering::AcqRel);
        let slot = (position % u64::from(self.size)) as usize;
        let bit = 1u64 << (slot % 64);
        let word = &self.bits[slot / 64];
        let failed_before = if success {
            word.fetch_and(!bit, Ordering::AcqRel) & bit != 0
        } else {
            word.fetch_or(bit, Ordering::AcqRel) & bit != 0
        };
        let failures = match (failed_before, success) {
            (true, true) => self.failures.fetch_sub(1, Ordering::AcqRel) - 1,
            (false, false) => self.failures.fetch_add(1, Ordering::AcqRel) + 1,
            _ => self.failures.load(Ordering::Acquire),
        };
        (position + 1 >= u64::from(self.size)).then_some(failures.max(0) as u32)
    }

    fn clear(&self) {
        for word in &self.bits {
            let ones = word.swap(0, Ordering::AcqRel).count_ones();
            self.failures.fetch_sub(ones as i32, Ordering::AcqRel);
        }
        self.pushed.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
