//! The clock of everything that is decided about upstreams.
//!
//! A [`Moment`] is passed into each decision, so that the decisions are pure and a test can choose the time. A worker reads its
//! clock once per turn of its loop; [`Clock`] is for the places off the request's ordinary path that have no moment at hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A point before the deadline: microseconds since the process (more exactly its [`Clock`]) began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The beginning of the process.
    pub const START: Moment = Moment(0);

    /// From microseconds since the start.
    pub const fn from_micros(micros: u64) -> Moment {
        Moment(micros)
    }

    /// From milliseconds since the start.
    pub const fn from_millis(millis: u64) -> Moment {
        Moment(millis.saturating_mul(1000))
    }

    /// Microseconds since the start.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Milliseconds since the start, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1000
    }

    /// The moment that lies `span` later; saturates.
    #[must_use]
    pub fn after(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(micros(span)))
    }

    /// Time that passed since `earlier`; zero when that lies in the future.
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// Whole microseconds of a duration; saturates (at half a million years).
pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Reads the current [`Moment`]. Every part of one process must use clones of the same clock.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    Monotonic(Instant),
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that begins now and follows the system's monotonic clock.
    pub fn start() -> Clock {
        Clock(Source::Monotonic(Instant::now()))
    }

    /// A clock that counts from `origin`.
    pub fn since(origin: Instant) -> Clock {
        Clock(Source::Monotonic(origin))
    }

    /// A clock that stands still until it is [moved](Clock::set): for tests and simulations.
    pub fn manual() -> Clock {
        Clock(Source::Manual(Arc::default()))
    }

    /// The current moment.
    pub fn now(&self) -> Moment {
        match &self.0 {
            Source::Monotonic(origin) => Moment(micros(origin.elapsed())),
            Source::Manual(now) => Moment(now.load(Ordering::Relaxed)),
        }
    }

    /// Moves a manual clock and all its clones to `now`; a monotonic clock takes no notice.
    pub fn set(&self, now: Moment) {
        if let Source::Manual(cell) = &self.0 {
            cell.store(now.0, Ordering::Relaxed);
        }
    }
}
