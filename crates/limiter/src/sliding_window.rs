//! Sliding window from two counters: the count of the current window plus that of the one before, weighted by how much of it the sliding
//! window still covers.
//!
//! Against an exact log of requests: a window that slides over `d <= window` since a burst admits at most `quota * (1 + d / window)`,
//! where the log admits `quota`. So there is no double burst in no time, as at the edge of a fixed window, and over one window
//! length it stays below twice the quota, which takes a client that knows where windows begin. A client whose requests
//! are spread evenly sees the log's own behaviour.

use std::time::Duration;

use super::{Decision, Now, State, Unfit};

const COUNT_BITS: u32 = 26;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// Windows are numbered since the process started, and the numbers start again after a million (17 minutes with the shortest windows).
/// Counts are over long before, and sweeping the memory every few seconds clears those that are over.
const NUMBER_BITS: u32 = 20;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
/// A clock may be behind another's by so many windows; what is further away is an old window.
const LAG: u64 = 1 << 16;
const LONGEST_NS: u64 = 1 << 60;

/// `quota` in any `window`, nearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindow {
    quota: u64,
    window_ns: u64,
}

/// Counts of a key at a moment.
#[derive(Clone, Copy)]
struct Counts {
    number: u64,
    current: u64,
    before: u64,
    /// Of the current window.
    elapsed_ns: u64,
}

impl SlidingWindow {
    pub(super) fn new(quota: u64, window: Duration) -> Result<Self, Unfit> {
        if quota > COUNT_MASK {
            return Err(Unfit::Quota(COUNT_MASK));
        }
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
        if window_ns > LONGEST_NS {
            return Err(Unfit::Window(LONGEST_NS / 1_000_000_000 / 86_400));
        }
        Ok(SlidingWindow { quota, window_ns })
    }

    pub(super) fn quota(&self) -> u64 {
        self.quota
    }

    pub(super) fn window_ns(&self) -> u64 {
        self.window_ns
    }

    #[inline]
    pub(super) fn charge(&self, state: State, cost: u64, now: Now) -> (Option<State>, Decision) {
        let counts = self.counts(state, now);
        let limit = self.quota;
        let left = self.left(counts);
        if cost <= left {
            let after = Counts { current: counts.current + cost, ..counts };
            let remaining = left - cost;
            let reset_ns = self.wait(after, remaining + 1);
            return (Some(pack(after)), Decision { allowed: true, limit, remaining, reset_ns, retry_ns: 0 });
        }
        let retry_ns = self.wait(counts, cost);
        (None, Decision { allowed: false, limit, remaining: left, reset_ns: self.wait(counts, left + 1), retry_ns })
    }

    #[inline]
    fn counts(&self, state: State, now: Now) -> Counts {
        let Counts { number, current, before, .. } = unpack(state);
        let now_number = (now.ns / self.window_ns) & NUMBER_MASK;
        let elapsed_ns = now.ns % self.window_ns;
        match now_number.wrapping_sub(number) & NUMBER_MASK {
            0 => Counts { number, current, before, elapsed_ns },
            1 => Counts { number: now_number, current: 0, before: current, elapsed_ns },
            // Another worker's clock is in the next window already: for this key it has begun.
            behind if behind > NUMBER_MASK - LAG && state != 0 => Counts { number, current, before, elapsed_ns: 0 },
            _ => Counts { number: now_number, current: 0, before: 0, elapsed_ns },
        }
    }

    /// What may still be spent: whole requests only, the fading count rounded up.
    #[inline]
    fn left(&self, counts: Counts) -> u64 {
        let window = u128::from(self.window_ns);
        let fading =
            (u128::from(counts.before) * u128::from(self.window_ns - counts.elapsed_ns)).div_ceil(window) as u64;
        self.quota.saturating_sub(counts.current + fading)
    }

    /// Nanoseconds until `cost` may be spent if nobody else comes. For more than there can be: until all counts have faded.
    fn wait(&self, counts: Counts, cost: u64) -> u64 {
        let Counts { current, before, elapsed_ns, .. } = counts;
        let window = self.window_ns;
        let Some(room) = self.quota.checked_sub(cost) else {
            return if current > 0 {
                2 * window - elapsed_ns
            } else if before > 0 {
                window - elapsed_ns
            } else {
                0
            };
        };
        // A count fades to `room` when so much of the window is left.
        let left_at = |count: u64, room: u64| {
            if count == 0 {
                window
            } else {
                window.min((u128::from(room) * u128::from(window) / u128::from(count)) as u64)
            }
        };
        if current <= room {
            (window - left_at(before, room - current)).saturating_sub(elapsed_ns)
        } else {
            (window - elapsed_ns) + (window - left_at(current, room))
        }
    }

    /// Counts are sums: a charge can be taken out as long as they hold it.
    pub(super) fn refund(&self, state: State, cost: u64, receipt: State) -> State {
        let mut counts = unpack(state);
        match counts.number.wrapping_sub(unpack(receipt).number) & NUMBER_MASK {
            0 => counts.current = counts.current.saturating_sub(cost),
            1 => counts.before = counts.before.saturating_sub(cost),
            _ => {}
        }
        pack(counts)
    }

    #[inline]
    pub(super) fn is_live(&self, state: State, now: Now) -> bool {
        let counts = self.counts(state, now);
        counts.current > 0 || counts.before > 0
    }
}

#[inline]
fn pack(counts: Counts) -> State {
    if counts.current == 0 && counts.before == 0 {
        return 0;
    }
    let counters = u128::from(counts.current) << COUNT_BITS | u128::from(counts.before);
    u128::from(counts.number) << (2 * COUNT_BITS) | counters
}

#[inline]
fn unpack(state: State) -> Counts {
    Counts {
        number: (state >> (2 * COUNT_BITS)) as u64 & NUMBER_MASK,
        current: (state >> COUNT_BITS) as u64 & COUNT_MASK,
        before: state as u64 & COUNT_MASK,
        elapsed_ns: 0,
    }
}
