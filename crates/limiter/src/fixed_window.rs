//! Fixed window: a count that starts again. Whole milliseconds: a window that begins with a key's first request lasts its length and
//! up to a millisecond more, never less.
//!
//! Two windows may lie back to back: at the end of one and the beginning of the next, a key can spend its quota twice in no time. Where
//! that matters, use a sliding window or a token bucket.

use std::time::Duration;

use super::{Decision, NS_PER_MS, Now, State, Unfit};

const COUNT_BITS: u32 = 32;
const COUNT_MASK: u128 = (1 << COUNT_BITS) - 1;
/// What is left of a state: 34 years of milliseconds.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const LONGEST_MS: u64 = TIME_MASK / 4;
/// Clocks of two workers differ by at most so much. A window that begins later than that was opened before the system clock was set back.
const LAG_NS: u64 = 1_000_000_000;

/// `quota` in each `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedWindow {
    quota: u64,
    window_ms: u64,
    aligned: bool,
}

/// The window that a key is in.
struct Open {
    /// Millisecond of the process at which it began, or its number since 1970 when aligned.
    mark: u64,
    count: u64,
    left_ns: u64,
}

impl FixedWindow {
    pub(super) fn new(quota: u64, window: Duration, aligned: bool) -> Result<Self, Unfit> {
        if quota > COUNT_MASK as u64 {
            return Err(Unfit::Quota(COUNT_MASK as u64));
        }
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1);
        if window_ms > LONGEST_MS {
            return Err(Unfit::Window(LONGEST_MS / 86_400_000));
        }
        Ok(FixedWindow { quota, window_ms, aligned })
    }

    pub(super) fn quota(&self) -> u64 {
        self.quota
    }

    pub(super) fn window_ns(&self) -> u64 {
        self.window_ms * NS_PER_MS
    }

    #[inline]
    pub(super) fn charge(&self, state: State, cost: u64, now: Now) -> (Option<State>, Decision) {
        let open = self.open(state, now);
        let after = open.count.saturating_add(cost);
        let limit = self.quota;
        if after <= limit {
            let decision =
                Decision { allowed: true, limit, remaining: limit - after, reset_ns: open.left_ns, retry_ns: 0 };
            return (Some(pack(open.mark, after)), decision);
        }
        let decision = Decision {
            allowed: false,
            limit,
            // A smaller quota may have come with another tier.
            remaining: limit.saturating_sub(open.count),
            reset_ns: open.left_ns,
            retry_ns: open.left_ns,
        };
        (None, decision)
    }

    /// The window that `now` lies in, as far as the key is concerned.
    #[inline]
    fn open(&self, state: State, now: Now) -> Open {
        let (mark, count) = unpack(state);
        if self.aligned {
            let (unix_ns, window_ns) = (now.unix_ns(), self.window_ns());
            let number = (unix_ns / window_ns) & TIME_MASK;
            let left_ns = window_ns - unix_ns % window_ns;
            // The next window was opened by a worker whose clock is ahead: it is the one to count in.
            let ahead = mark.wrapping_sub(number) & TIME_MASK;
            let is_same = count > 0 && ahead <= (LAG_NS / window_ns).max(1);
            if is_same {
                Open { mark, count, left_ns: left_ns.saturating_add(ahead.saturating_mul(window_ns)) }
            } else {
                Open { mark: number, count: 0, left_ns }
            }
        } else {
            let end_ns = (mark + self.window_ms) * NS_PER_MS;
            if count > 0 && now.ns < end_ns {
                Open { mark, count, left_ns: end_ns - now.ns }
            } else {
                let mark = now.ns.div_ceil(NS_PER_MS);
                Open { mark, count: 0, left_ns: (mark + self.window_ms) * NS_PER_MS - now.ns }
            }
        }
    }

    /// A window that is over needs nothing back.
    pub(super) fn refund(&self, state: State, cost: u64, receipt: State) -> State {
        let (mark, count) = unpack(state);
        if mark == unpack(receipt).0 { pack(mark, count.saturating_sub(cost)) } else { state }
    }

    #[inline]
    pub(super) fn is_live(&self, state: State, now: Now) -> bool {
        self.open(state, now).count > 0
    }
}

#[inline]
fn pack(mark: u64, count: u64) -> State {
    // A window without a request has not begun.
    if count == 0 { 0 } else { u128::from(mark & TIME_MASK) << COUNT_BITS | u128::from(count) }
}

#[inline]
fn unpack(state: State) -> (u64, u64) {
    ((state >> COUNT_BITS) as u64 & TIME_MASK, (state & COUNT_MASK) as u64)
}
