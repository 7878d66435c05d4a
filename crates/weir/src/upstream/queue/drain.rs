//! How fast those who wait are served, so that a request that would be served too late is told at once.
//!
//! Requests are counted, not what they cost: that is an estimate of tokens, which says who is next, but not how long a server takes.

use std::time::Duration;

use tokio::time::Instant;

/// What is known after fewer requests is chance.
const ENOUGH: u32 = 16;
/// Share of the past that remains after a request: about the last 32 count.
const KEPT: f64 = 1.0 - 1.0 / 32.0;
/// After so long without a request that waits, nothing is known.
const STALE: Duration = Duration::from_secs(60);
/// A pause counts as so many usual ones at most: a server that stood still once is not slow from then on.
const LONGEST: f64 = 8.0;

/// Requests that are served in a second, while requests wait.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// When the last request was served, or the line began.
    since: Option<Instant>,
    served: f64,
    seconds: f64,
    /// The longest time between two of them, of the last ones: requests that began together end together.
    longest: f64,
    known: u32,
}

impl Drain {
    /// The first request enters.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) > STALE) {
            *self = Drain::default();
        }
        self.since = Some(now);
    }

    /// A request was served.
    pub(super) fn served(&mut self, now: Instant) {
        let gap = self.gap(now);
        self.since = Some(now);
        let is_known = self.known >= ENOUGH;
        let counted = if is_known { gap.min(LONGEST * self.longest.max(self.seconds / self.served)) } else { gap };
        // Those that end together are one step from it.
        let kept = if gap > self.longest / 100.0 { KEPT } else { 1.0 };
        self.longest = (self.longest * kept).max(counted);
        self.served = self.served * KEPT + 1.0;
        self.seconds = self.seconds * KEPT + counted;
        self.known = self.known.saturating_add(1);
    }

    /// How long it takes to serve so many requests, if enough is known for an estimate.
    pub(super) fn time_for(&self, requests: usize, now: Instant) -> Option<Duration> {
        if self.known < ENOUGH {
            return None;
        }
        // A line that stands still longer than it did before becomes slower and slower.
        let late = (self.gap(now) - self.longest).max(0.0);
        let seconds = requests as f64 * (self.seconds + late) / self.served;
        Duration::try_from_secs_f64(seconds).ok()
    }

    fn gap(&self, now: Instant) -> f64 {
        self.since.map_or(0.0, |since| now.saturating_duration_since(since).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn seconds(drain: &Drain, requests: usize, now: Instant) -> f64 {
        drain.time_for(requests, now).expect("an estimate").as_secs_f64()
    }

    #[test]
    fn the_estimate_follows_what_was_served_and_a_line_that_stands_still() {
        let start = Instant::now();
        let mut drain = Drain::default();
        drain.begin(start);
        for count in 1..=200 {
            assert_eq!(drain.time_for(20, start + after(count * 100 - 100)).is_some(), count > u64::from(ENOUGH));
            drain.served(start + after(count * 100));
        }
        let now = start + after(20_000);
        let time = seconds(&drain, 20, now);
        assert!((1.9..2.1).contains(&time), "{time}");
        let later = seconds(&drain, 20, now + after(10_000));
        assert!(later > 3.0 * time, "{later}");
    }

    #[test]
    fn requests_that_end_together_are_not_late_before_they_do() {
        let start = Instant::now();
        let mut drain = Drain::default();
        drain.begin(start);
        for second in 1..=5 {
            (0..64).for_each(|_| drain.served(start + after(second * 1000)));
        }
        // 64 a second: those that wait behind 64 others are served within two seconds.
        let time = seconds(&drain, 64, start + after(5990));
        assert!(time < 2.0, "{time}");
    }

    #[test]
    fn one_pause_is_forgotten_soon() {
        let start = Instant::now();
        let mut drain = Drain::default();
        drain.begin(start);
        (1..=100).for_each(|count| drain.served(start + after(count * 50)));
        let late = start + after(25_000);
        drain.served(late);
        let time = seconds(&drain, 10, late);
        assert!(time < 1.0, "{time}: half a second before");
        // A server that is slow from now on is seen all the same.
        (1..=40).for_each(|count| drain.served(late + after(count * 2000)));
        let time = seconds(&drain, 10, late + after(80_000));
        assert!(time > 10.0, "{time}: twenty seconds");
    }

    #[test]
    fn time_without_a_line_does_not_count_and_what_is_old_is_forgotten() {
        let start = Instant::now();
        let mut drain = Drain::default();
        drain.begin(start);
        (1..=100).for_each(|count| drain.served(start + after(count * 100)));
        let next = start + after(40_000);
        drain.begin(next);
        let time = seconds(&drain, 20, next);
        assert!((1.9..2.1).contains(&time), "{time}");
        let next = next + STALE + after(1);
        drain.begin(next);
        assert_eq!(drain.time_for(20, next), None);
    }
}
