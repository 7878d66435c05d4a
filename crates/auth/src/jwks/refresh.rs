//! When a key set is fetched.
//!
//! One fetch is in flight for the process at most. A set is fetched again when its lifetime ends, and when tokens name a key that it
//! does not have, at most once in 30 s for that. While fetches fail the old set holds for `stale`. Times are seconds of any clock that
//! does not go back.

use std::time::Duration;

use crate::recent::Recent;

/// The configuration's times.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Lifetime of a set whose response says nothing.
    pub lifetime: Duration,
    /// After a failed refresh the set holds for this long, counted from its last fetch.
    pub stale: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lifetime: Duration::from_secs(300), stale: Duration::from_secs(24 * 3600) }
    }
}

/// Bounds of `max-age`, in seconds.
const SHORTEST: u64 = 60;
const LONGEST: u64 = 24 * 3600;
/// Seconds between fetches that unknown keys cause.
const UNKNOWN_EVERY: u64 = 30;
/// Unknown keys that are stored, so that each causes one fetch.
const UNKNOWN_MOST: usize = 1000;
/// Seconds that an unknown key is stored: an issuer may publish it after it has signed with it.
const UNKNOWN_FOR: u64 = 300;

/// The state of one issuer's key set.
#[derive(Debug)]
pub struct Refresh {
    timing: Timing,
    /// When the set in use was fetched.
    fetched: Option<u64>,
    /// When the next fetch begins.
    next: u64,
    failures: u32,
    in_flight: bool,
    unknown_fetch: Option<u64>,
    unknown: Recent<Box<str>, u64>,
}

/// What to do with a token whose key is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// Begin a fetch, and let the token wait for it.
    Fetch,
    /// A fetch is in flight: let the token wait for it.
    Wait,
    /// Refuse the token.
    Refuse,
}

impl Refresh {
    /// Nothing was fetched yet; the first fetch is due at once.
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            fetched: None,
            next: 0,
            failures: 0,
            in_flight: false,
            unknown_fetch: None,
            unknown: Recent::new(UNKNOWN_MOST),
        }
    }

    /// When the next fetch is due; `None` while one is in flight.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        (!self.in_flight).then_some(self.next)
    }

    /// Begins a fetch, unless one is in flight.
    pub fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.in_flight, true)
    }

    /// Whether there is a set that may be used.
    #[must_use]
    pub fn usable(&self, now: u64) -> bool {
        self.age(now).is_some_and(|age| age < self.timing.stale.as_secs().max(self.timing.lifetime.as_secs()))
    }

    /// Seconds since the set in use was fetched.
    #[must_use]
    pub fn age(&self, now: u64) -> Option<u64> {
        self.fetched.map(|fetched| now.saturating_sub(fetched))
    }

    /// A fetch returned a set; `max_age` is of its `Cache-Control`, `spread` a random number from 0 to 1.
    pub fn succeeded(&mut self, now: u64, max_age: Option<Duration>, spread: f64) {
        let lifetime = max_age.map_or(self.timing.lifetime.as_secs(), |age| age.as_secs()).clamp(SHORTEST, LONGEST);
        self.in_flight = false;
        self.failures = 0;
        self.fetched = Some(now);
        // Up to a tenth earlier, so that many gateways do not fetch at once.
        self.next = now + lifetime - (lifetime as f64 * 0.1 * spread.clamp(0.0, 1.0)) as u64;
    }

    /// A fetch failed: 1, 2, 4 ... 60 s until the next, less up to half.
    pub fn failed(&mut self, now: u64, spread: f64) {
        let pause = 2u64.saturating_pow(self.failures.min(6)).min(60);
        self.in_flight = false;
        self.failures += 1;
        self.next = now + (pause as f64 * (1.0 - 0.5 * spread.clamp(0.0, 1.0))).ceil() as u64;
    }

    /// A token names a key that the set does not have.
    pub fn unknown_key(&mut self, kid: &str, now: u64) -> Unknown {
        if self.in_flight {
            return Unknown::Wait;
        }
        let known_to_be_unknown =
            self.unknown.get(&kid.into()).is_some_and(|since| now.saturating_sub(since) < UNKNOWN_FOR);
        let too_soon = self.unknown_fetch.is_some_and(|last| now.saturating_sub(last) < UNKNOWN_EVERY);
        if known_to_be_unknown || too_soon {
            return Unknown::Refuse;
        }
        self.unknown_fetch = Some(now);
        Unknown::Fetch
    }

    /// A key is not in the set that was just fetched because of it.
    pub fn still_unknown(&mut self, kid: &str, now: u64) {
        self.unknown.insert(kid.into(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Refresh {
        let mut state = Refresh::new(Timing::default());
        assert!(state.begin());
        state.succeeded(1000, None, 0.0);
        state
    }

    #[test]
    fn the_lifetime_is_held_within_a_minute_and_a_day() {
        for (max_age, next) in [(None, 1300), (Some(0), 1060), (Some(600), 1600), (Some(1 << 40), 1000 + 86_400)] {
            let mut state = Refresh::new(Timing::default());
            state.succeeded(1000, max_age.map(Duration::from_secs), 0.0);
            assert_eq!(state.due(), Some(next), "{max_age:?}");
        }
    }

    #[test]
    fn only_one_fetch_is_in_flight() {
        let mut state = Refresh::new(Timing::default());
        assert_eq!(state.due(), Some(0));
        assert!(state.begin());
        assert!(!state.begin());
        assert_eq!(state.due(), None);
        assert_eq!(state.unknown_key("a", 5), Unknown::Wait);
        state.failed(5, 0.0);
        assert!(state.begin());
    }

    #[test]
    fn failures_wait_longer_each_time_up_to_a_minute_and_the_old_set_holds_for_a_day() {
        let mut state = fresh();
        let mut now = 1300;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert!(state.begin());
            state.failed(now, 0.0);
            let next = state.due().expect("not in flight");
            pauses.push(next - now);
            now = next;
            assert!(state.usable(now));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(state.usable(1000 + 86_399));
        assert!(!state.usable(1000 + 86_400));
        assert!(!Refresh::new(Timing::default()).usable(0));
    }

    #[test]
    fn a_storm_of_unknown_keys_causes_one_fetch_in_thirty_seconds() {
        let mut state = fresh();
        let mut fetches = 0;
        for second in 0..300u64 {
            for number in 0..100 {
                let kid = format!("forged-{second}-{number}");
                if state.unknown_key(&kid, 2000 + second) == Unknown::Fetch {
                    fetches += 1;
                    assert!(state.begin());
                    state.succeeded(2000 + second, None, 0.0);
                    state.still_unknown(&kid, 2000 + second);
                }
            }
        }
        assert_eq!(fetches, 10);
        assert!(state.unknown.len() <= UNKNOWN_MOST);
    }

    #[test]
    fn a_key_that_was_looked_for_in_vain_is_not_looked_for_again_for_five_minutes() {
        let mut state = fresh();
        assert_eq!(state.unknown_key("a", 2000), Unknown::Fetch);
        state.still_unknown("a", 2000);
        assert_eq!(state.unknown_key("a", 2040), Unknown::Refuse);
        assert_eq!(state.unknown_key("b", 2040), Unknown::Fetch);
        assert_eq!(state.unknown_key("a", 2300), Unknown::Fetch);
    }
}
