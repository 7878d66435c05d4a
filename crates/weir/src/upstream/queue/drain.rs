//! How fast those who wait are served, so that a request whose turn would come too late is told at once.

use std::time::Duration;

use tokio::time::Instant;

/// What is known after fewer turns is chance.
const ENOUGH: u32 = 16;
/// Share of the past that remains after a dispatch: about the last 32 count.
const KEPT: f64 = 1.0 - 1.0 / 32.0;
/// After so long without a request that waits, nothing is known.
const STALE: Duration = Duration::from_secs(60);

/// Cost that is served in a second, while requests wait.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// When the last request was served, or the line began.
    since: Option<Instant>,
    cost: f64,
    seconds: f64,
    turns: u32,
}

impl Drain {
    /// The first request enters.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) > STALE) {
            *self = Drain::default();
        }
        self.since = Some(now);
    }

    /// A request of this cost was served.
    pub(super) fn served(&mut self, cost: u64, now: Instant) {
        let gap = self.gap(now);
        self.since = Some(now);
        self.cost = self.cost * KEPT + cost as f64;
        self.seconds = self.seconds * KEPT + gap;
        self.turns = self.turns.saturating_add(1);
    }

    /// How long it takes to serve this cost, if enough is known for an estimate.
    pub(super) fn time_for(&self, cost: u64, now: Instant) -> Option<Duration> {
        if self.turns < ENOUGH || self.cost <= 0.0 {
            return None;
        }
        // The turn that is due counts as far as it has lasted: a line that stands still becomes slower and slower.
        let seconds = cost as f64 * (self.seconds + self.gap(now)) / self.cost;
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

    #[test]
    fn the_estimate_follows_what_was_served_and_a_line_that_stands_still() {
        let start = Instant::now();
        let mut drain = Drain::default();
        drain.begin(start);
        for turn in 1..=200 {
            assert_eq!(drain.time_for(1000, start + after(turn * 100 - 100)).is_some(), turn > u64::from(ENOUGH));
            drain.served(50, start + after(turn * 100));
        }
        // 500 a second.
        let now = start + after(20_000);
        let time = drain.time_for(1000, now).expect("an estimate").as_secs_f64();
        assert!((1.9..2.1).contains(&time), "{time}");
        let later = drain.time_for(1000, now + after(10_000)).expect("an estimate").as_secs_f64();
        assert!(later > 4.0 * time, "{later}");
    }

    #[test]
    fn time_without_a_line_does_not_count_and_what_is_old_is_forgotten() {
        let start = Instant::now();
        let mut drain = Drain::default();
        drain.begin(start);
        for turn in 1..=100 {
            drain.served(50, start + after(turn * 100));
        }
        let next = start + after(40_000);
        drain.begin(next);
        let time = drain.time_for(1000, next).expect("an estimate").as_secs_f64();
        assert!((1.9..2.1).contains(&time), "{time}");
        let next = next + STALE + after(1);
        drain.begin(next);
        assert_eq!(drain.time_for(1000, next), None);
    }
}
