//! How long a connection is used, to a client or to a target.

use crate::config::ConnectionUse;
use crate::runtime::deadline::nanos;

/// What is left of a connection's use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Requests.
    left: u32,
    /// Nanoseconds since process start from which on it gets no further request.
    until_ns: u64,
}

impl Life {
    /// Without an end that anyone would see.
    pub const ENDLESS: Life = Life { left: u32::MAX, until_ns: u64::MAX };

    /// Of a connection that begins now. `random` says how much less it has than is configured: up to 10 %, so that connections of one moment do not
    /// all end in one moment.
    pub fn new(bounds: ConnectionUse, now_ns: u64, random: impl FnOnce() -> u64) -> Life {
        if bounds == ConnectionUse::default() {
            return Life::ENDLESS;
        }
        let random = random();
        let (of_requests, of_age) = (random & 0xffff, (random >> 16) & 0xffff);
        let shorter = |whole: u64, by: u64| whole - ((u128::from(whole / 10) * u128::from(by)) >> 16) as u64;
        let left = bounds.max_requests.map_or(u32::MAX, |most| shorter(most.into(), of_requests) as u32);
        let until_ns = bounds.max_age.map_or(u64::MAX, |age| now_ns.saturating_add(shorter(nanos(age), of_age)));
        Life { left, until_ns }
    }

    /// Counts a request. Whether it is the last.
    #[inline]
    pub fn take(&mut self, now_ns: u64) -> bool {
        self.left = self.left.saturating_sub(1);
        self.is_over(now_ns)
    }

    /// Whether there is to be no further request.
    #[inline]
    pub fn is_over(&self, now_ns: u64) -> bool {
        self.left == 0 || now_ns >= self.until_ns
    }

    /// Requests that are left.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// When it is over, in nanoseconds since process start, whatever is left of its requests.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bounds(max_requests: Option<u32>, age: Option<u64>) -> ConnectionUse {
        ConnectionUse { max_requests, max_age: age.map(Duration::from_secs) }
    }

    #[test]
    fn a_connection_has_from_90_percent_to_all_of_what_is_configured() {
        let mut seen = (u32::MAX, 0, u64::MAX, 0);
        for random in (0..1000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let life = Life::new(bounds(Some(1000), Some(100)), 5, || random);
            assert!((901..=1000).contains(&life.left), "{life:?}");
            assert!((90_000_000_000..=100_000_000_005).contains(&life.until_ns), "{life:?}");
            seen = (seen.0.min(life.left), seen.1.max(life.left), seen.2.min(life.until_ns), seen.3.max(life.until_ns));
        }
        assert!(seen.0 < 905 && seen.1 > 995 && seen.2 < 90_500_000_000 && seen.3 > 99_500_000_000, "{seen:?}");
    }

    #[test]
    fn the_last_request_is_the_one_that_uses_it_up() {
        let mut life = Life::new(bounds(Some(3), None), 0, || u64::MAX);
        assert_eq!([life.take(0), life.take(0), life.take(0), life.take(0)], [false, false, true, true]);
        let mut life = Life::new(bounds(None, Some(1)), 0, || 0);
        assert_eq!([life.take(999_999_999), life.take(1_000_000_000)], [false, true]);
        let mut life = Life::ENDLESS;
        assert!((0..10).all(|_| !life.take(u64::MAX - 1)));
    }
}
