//! Tokens of a bucket that everyone shares, taken some at a time: at hundreds of thousands of requests a second on many cores, one word that all
//! of them write to would be what they wait for.
//!
//! A lease is what comes back in a millisecond, divided among the workers, and lasts for a millisecond; so it exists only where the rate
//! is at least two thousand a second for each worker. It is taken from the bucket as a whole, so tokens are spent at most a millisecond later than they were
//! charged: in any time `t` the limit admits at most `burst + rate * (t + 1 ms)`. What is not spent goes back, and in the meantime may be missing
//! elsewhere.
//!
//! A lease is one worker's and never leaves its thread, which is why its numbers are cells and no schedules of threads are tried out here. What workers
//! share is the bucket ([`Memory`], whose schedules are). What can go wrong is the order of steps: requests that begin, are refused elsewhere and come
//! back late, while time passes. Tests try out such orders.

use std::cell::Cell;

use super::memory::{Memory, Receipt};
use super::{Decision, Key, Now};
use crate::runtime::clock;
use limiter::TokenBucket;

/// How long a lease lasts.
const LASTS_NS: u64 = 1_000_000;
/// Fewer tokens are not worth it, more spare no more.
const TOKENS: std::ops::RangeInclusive<u64> = 2..=64;

/// A token that was spent, so that it can be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// When the lease ends that it comes from.
    until_ns: u64,
    /// How that lease was charged.
    receipt: Receipt,
}

/// What one worker has in hand.
#[derive(Debug)]
pub(super) struct Lease {
    /// Tokens that are taken at once.
    size: u64,
    left: Cell<u64>,
    until_ns: Cell<u64>,
    /// What is left of the bucket, as of when the lease was taken.
    decision: Cell<Decision>,
    receipt: Cell<Receipt>,
}

impl Lease {
    /// The lease of one of `workers`; `None` when the rate is too low to need one.
    pub(super) fn of(bucket: &TokenBucket, workers: usize) -> Option<Self> {
        let workers = workers.max(1) as u64;
        if workers == 1 {
            return None;
        }
        let back = LASTS_NS / bucket.interval_ns().max(1);
        let size = (back / workers).min(bucket.burst() / (8 * workers)).min(*TOKENS.end());
        TOKENS.contains(&size).then(|| Lease {
            size,
            left: Cell::new(0),
            until_ns: Cell::new(0),
            decision: Cell::default(),
            receipt: Cell::default(),
        })
    }

    /// What spending one would lead to, if there is one in hand.
    pub(super) fn peek(&self, now: Now) -> Option<Decision> {
        (self.left.get() > 0 && now.ns < self.until_ns.get()).then(|| self.decision(self.left.get() - 1))
    }

    /// Spends one, after taking a new lease if need be; `None` when the bucket has not as much as a lease.
    #[inline]
    pub(super) fn spend(&self, memory: &Memory, key: Key, now: Now) -> Option<(Decision, Token)> {
        self.spend_by(memory, key, now, clock::now_ns)
    }

    #[inline]
    fn spend_by(&self, memory: &Memory, key: Key, now: Now, read: impl FnOnce() -> u64) -> Option<(Decision, Token)> {
        if self.left.get() == 0 || now.ns >= self.until_ns.get() {
            let over = self.left.take();
            if over > 0 {
                let (receipt, now) = (self.receipt.get(), Now { ns: read(), ..now });
                // It goes back whole, what leaked of it too, or a trickle of requests would keep the bucket from filling. So much may be
                // spent twice: what comes back in the lifetime of a lease, which is the millisecond in the bound.
                if memory.holds(receipt, now) {
                    memory.refund(key, over, receipt.made_at(now), now);
                }
            }
            let (decision, receipt) = memory.charge(key, self.size, now);
            if !decision.allowed {
                return None;
            }
            self.decision.set(decision);
            self.receipt.set(receipt);
            self.until_ns.set(now.ns + LASTS_NS);
            self.left.set(self.size);
        }
        let left = self.left.get() - 1;
        self.left.set(left);
        Some((self.decision(left), Token { until_ns: self.until_ns.get(), receipt: self.receipt.get() }))
    }

    /// Takes a token back that was not spent after all. Once its lease has ended it goes back to the bucket: requests may wait for another store for
    /// long, and a later lease that took in all of their tokens would admit more than the bound.
    pub(super) fn put_back(&self, token: Token, memory: &Memory, key: Key, now: Now) {
        if token.until_ns == self.until_ns.get() && now.ns < token.until_ns {
            self.left.set(self.left.get() + 1);
        } else if memory.holds(token.receipt, now) {
            memory.refund(key, 1, token.receipt, now);
        }
    }

    fn decision(&self, left: u64) -> Decision {
        let decision = self.decision.get();
        Decision { remaining: decision.remaining + left, ..decision }
    }
}

#[cfg(test)]
mod tests;
