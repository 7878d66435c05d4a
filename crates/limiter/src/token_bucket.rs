//! Token bucket, as the generic cell rate algorithm (ITU-T I.371): the state is one number, the theoretical arrival time. That is when
//! the bucket will be full again if nobody comes; how far it lies ahead says how many tokens are out.
//!
//! In any time `t` it admits at most `burst + rate * t`.

use super::{Decision, Now, State, Unfit};

/// Times are in sixteenths of a nanosecond: fine enough for a million tokens a second, and 36 years fit.
const FRACTION_BITS: u32 = 4;
/// A bucket fills in nine years or less, so that no sum overflows.
const LONGEST_FILL: u64 = 1 << 62;
const DAYS: u64 = (LONGEST_FILL >> FRACTION_BITS) / 1_000_000_000 / 86_400;

/// `burst` at once, then `rate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    burst: u64,
    /// Time in which one token comes back.
    interval: u64,
    /// Time in which all of them do.
    fill: u64,
}

impl TokenBucket {
    /// A bucket of `burst` tokens, `rate_per_second` of which come back each second. The time of one is rounded up: never faster, but for
    /// the error of the division itself.
    pub(super) fn new(rate_per_second: f64, burst: u64) -> Result<Self, Unfit> {
        let interval = (1e9 * f64::from(1 << FRACTION_BITS) / rate_per_second * (1.0 - 1e-15)).ceil();
        if interval.is_nan() || interval > LONGEST_FILL as f64 {
            return Err(Unfit::Fill(DAYS));
        }
        let interval = (interval as u64).max(1);
        let fill = interval.checked_mul(burst).filter(|fill| *fill <= LONGEST_FILL).ok_or(Unfit::Fill(DAYS))?;
        Ok(TokenBucket { burst, interval, fill })
    }

    /// Tokens that a full bucket holds.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    pub(super) fn fill_ns(&self) -> u64 {
        ns(self.fill)
    }

    /// Nanoseconds in which one token comes back.
    pub fn interval_ns(&self) -> u64 {
        ns(self.interval)
    }

    #[inline]
    pub(super) fn charge(&self, state: State, cost: u64, now: Now) -> (Option<State>, Decision) {
        let now = instant(now);
        let used = (state as u64).saturating_sub(now);
        let limit = self.burst;
        let price = self.interval.saturating_mul(cost);
        let after = used.saturating_add(price);
        if after <= self.fill {
            let remaining = (self.fill - after) / self.interval;
            let decision =
                Decision { allowed: true, limit, remaining, reset_ns: ns(self.next_token(after)), retry_ns: 0 };
            return (Some(u128::from(now + after)), decision);
        }
        // Who requests more than there can be waits until the bucket is full, and is refused again.
        let retry = if price > self.fill { used } else { after - self.fill };
        let remaining = self.fill.saturating_sub(used) / self.interval;
        let decision =
            Decision { allowed: false, limit, remaining, reset_ns: ns(self.next_token(used)), retry_ns: ns(retry) };
        (None, decision)
    }

    /// Time until one more whole token is there.
    #[inline]
    fn next_token(&self, used: u64) -> u64 {
        if used == 0 { 0 } else { self.interval - self.fill.saturating_sub(used) % self.interval }
    }

    /// What came back since the charge is not given back: without the charge the bucket may have been full meanwhile, and a full one
    /// gets nothing. The two states, with and without the charge, differ at first by its price, and come closer at most as fast as time goes.
    pub(super) fn refund(&self, state: State, cost: u64, charged_ns: u64, now: Now) -> State {
        let since = now.ns.saturating_sub(charged_ns).saturating_mul(1 << FRACTION_BITS);
        state.saturating_sub(u128::from(self.interval.saturating_mul(cost).saturating_sub(since)))
    }

    #[inline]
    pub(super) fn is_live(&self, state: State, now: Now) -> bool {
        state as u64 > instant(now)
    }
}

#[inline]
fn instant(now: Now) -> u64 {
    now.ns << FRACTION_BITS
}

/// Nanoseconds, rounded up: nobody is told to come back too early.
#[inline]
fn ns(time: u64) -> u64 {
    time.div_ceil(1 << FRACTION_BITS)
}
