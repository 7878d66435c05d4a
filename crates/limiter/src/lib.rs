//! How requests are counted: pure functions from a key's state and a moment to the next state and a decision.
//!
//! A state is a number of [`STATE_BITS`] bits; 0 is a key that nobody has used. Moments may come out of order, because workers read
//! the clock once per turn of their event loops: a late one is treated so that it admits no more than in order.

#![forbid(unsafe_code)]

mod concurrency;
mod fixed_window;
mod sliding_window;
mod token_bucket;

use std::fmt;
use std::time::Duration;

pub use concurrency::Concurrency;
pub use fixed_window::FixedWindow;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// State of one key.
pub type State = u128;

/// Bits of a state; the rest of 128 tells keys apart.
pub const STATE_BITS: u32 = 72;

/// A moment, as the clocks of the process have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Nanoseconds since the process started; never goes back, by much.
    pub ns: u64,
    /// Nanoseconds from 1970 to the start of the process, as the system clock has it at the moment.
    pub started_unix_ns: u64,
}

impl Now {
    /// Nanoseconds since 1970.
    fn unix_ns(self) -> u64 {
        self.started_unix_ns.saturating_add(self.ns)
    }
}

/// Algorithm of a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LimitAlgorithm {
    /// GCRA: `burst` at once, then `rate_per_second`.
    TokenBucket {
        /// Tokens that come back each second.
        rate_per_second: f64,
        /// Tokens that a full bucket holds.
        burst: u64,
    },
    /// `quota` per window; a window starts with the key's first request, or on multiples of `window` since the epoch when aligned.
    FixedWindow {
        /// Requests per window; 0 switches the limit off.
        quota: u64,
        /// Length.
        window: Duration,
        /// Clock-aligned.
        aligned: bool,
    },
    /// Two adjacent fixed windows, the older weighted by its overlap.
    SlidingWindow {
        /// Requests per window; 0 switches the limit off.
        quota: u64,
        /// Length.
        window: Duration,
    },
    /// Requests in flight.
    Concurrency {
        /// At most so many; 0 switches the limit off.
        quota: u64,
    },
}

/// What a limit says to a request. Times are nanoseconds from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decision {
    /// Whether the request may pass, as far as this limit goes.
    pub allowed: bool,
    /// What the key may spend at most: the burst of a token bucket, else the quota.
    pub limit: u64,
    /// What is left of it.
    pub remaining: u64,
    /// Until more is left: the next token, or the end of the window. 0 when nothing is used up.
    pub reset_ns: u64,
    /// Until the same request would be allowed if nobody else came; 0 when it is allowed.
    pub retry_ns: u64,
}

impl Decision {
    /// Lets a request pass without having counted it; clients are told nothing about such a limit.
    pub const fn unlimited() -> Self {
        Decision { allowed: true, limit: u64::MAX, remaining: u64::MAX, reset_ns: 0, retry_ns: 0 }
    }

    /// Whether there is something to tell.
    pub const fn is_counted(&self) -> bool {
        self.limit != u64::MAX
    }

    /// `Retry-After` in whole seconds: rounded up, at least 1.
    pub const fn retry_after(&self) -> u64 {
        let seconds = self.retry_ns.div_ceil(1_000_000_000);
        if seconds == 0 { 1 } else { seconds }
    }
}

const NS_PER_MS: u64 = 1_000_000;

/// An algorithm with its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Algorithm {
    /// Tokens that come back steadily.
    TokenBucket(TokenBucket),
    /// A count that starts again.
    FixedWindow(FixedWindow),
    /// Two counts, the older one fading.
    SlidingWindow(SlidingWindow),
    /// Requests in flight.
    Concurrency(Concurrency),
}

/// Numbers that an algorithm cannot work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// A quota above this.
    Quota(u64),
    /// A window longer than this many days.
    Window(u64),
    /// A bucket takes longer than this many days to fill.
    Fill(u64),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Quota(most) => write!(f, "`quota` can be at most {most} with this algorithm"),
            Unfit::Window(days) => write!(f, "`window` can be at most {days} days"),
            Unfit::Fill(days) => write!(f, "`burst` at this `rate` takes more than {days} days to come back"),
        }
    }
}

/// A charge that may be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charge {
    /// The state that it led to.
    pub state: State,
    /// When it was made: [`Now::ns`].
    pub at_ns: u64,
}

impl Algorithm {
    /// Makes the numbers ready for use; `None` for a limit that is switched off by a quota of 0.
    ///
    /// # Errors
    /// Which number is out of reach.
    pub fn new(algorithm: LimitAlgorithm) -> Result<Option<Self>, Unfit> {
        Ok(Some(match algorithm {
            LimitAlgorithm::FixedWindow { quota: 0, .. }
            | LimitAlgorithm::SlidingWindow { quota: 0, .. }
            | LimitAlgorithm::Concurrency { quota: 0 } => return Ok(None),
            LimitAlgorithm::TokenBucket { rate_per_second, burst } => {
                Algorithm::TokenBucket(TokenBucket::new(rate_per_second, burst)?)
            }
            LimitAlgorithm::FixedWindow { quota, window, aligned } => {
                Algorithm::FixedWindow(FixedWindow::new(quota, window, aligned)?)
            }
            LimitAlgorithm::SlidingWindow { quota, window } => {
                Algorithm::SlidingWindow(SlidingWindow::new(quota, window)?)
            }
            LimitAlgorithm::Concurrency { quota } => Algorithm::Concurrency(Concurrency::new(quota)?),
        }))
    }

    /// What a key may spend at most.
    pub fn limit(&self) -> u64 {
        match self {
            Algorithm::TokenBucket(bucket) => bucket.burst(),
            Algorithm::FixedWindow(window) => window.quota(),
            Algorithm::SlidingWindow(window) => window.quota(),
            Algorithm::Concurrency(concurrency) => concurrency.quota(),
        }
    }

    /// Time in which that much can be spent again, in nanoseconds; none where time does not matter.
    pub fn window_ns(&self) -> Option<u64> {
        match self {
            Algorithm::TokenBucket(bucket) => Some(bucket.fill_ns()),
            Algorithm::FixedWindow(window) => Some(window.window_ns()),
            Algorithm::SlidingWindow(window) => Some(window.window_ns()),
            Algorithm::Concurrency(_) => None,
        }
    }

    /// What a request of this cost gets, and the key's next state; `None` when it is refused.
    #[inline]
    pub fn charge(&self, state: State, cost: u64, now: Now) -> (Option<State>, Decision) {
        match self {
            Algorithm::TokenBucket(bucket) => bucket.charge(state, cost, now),
            Algorithm::FixedWindow(window) => window.charge(state, cost, now),
            Algorithm::SlidingWindow(window) => window.charge(state, cost, now),
            Algorithm::Concurrency(concurrency) => concurrency.charge(state, cost),
        }
    }

    /// Takes a charge back. What cannot be distinguished any more from the charges of others stays charged; `now` must not be earlier than any
    /// moment that the state has seen.
    pub fn refund(&self, state: State, cost: u64, charge: Charge, now: Now) -> State {
        match self {
            Algorithm::TokenBucket(bucket) => bucket.refund(state, cost, charge.at_ns, now),
            Algorithm::FixedWindow(window) => window.refund(state, cost, charge.state),
            Algorithm::SlidingWindow(window) => window.refund(state, cost, charge.state),
            Algorithm::Concurrency(concurrency) => concurrency.refund(state, cost),
        }
    }

    /// Whether the state still says something: one that does not is the same as 0.
    #[inline]
    pub fn is_live(&self, state: State, now: Now) -> bool {
        match self {
            Algorithm::TokenBucket(bucket) => bucket.is_live(state, now),
            Algorithm::FixedWindow(window) => window.is_live(state, now),
            Algorithm::SlidingWindow(window) => window.is_live(state, now),
            Algorithm::Concurrency(concurrency) => concurrency.is_live(state),
        }
    }
}

#[cfg(test)]
mod tests;
