//! One count of tokens or money: pure functions from a state and a moment to the next state and a decision. `reserve.lua` and `settle.lua` do
//! the same in Redis.
//!
//! A window counts what calls have used and what those in flight have reserved; settling corrects the window that was charged, if it is still
//! open. A bucket holds the two apart: what is reserved does not come back with time, and what was used is charged when it is known. So what
//! is settled in any time `t` is at most `burst + rate x t`, but for what a call used beyond its reservation, which is a debt.

use super::super::Decision;
use super::calendar::beginnings;
use crate::config::BudgetWindow;

/// The highest level of a bucket, in nanoseconds: numbers in Redis have 53 bits.
const HIGHEST_LEVEL: u64 = 9_000_000_000_000_000;

/// How a limit counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// `burst` at once; one comes back in `interval_ns`.
    Bucket {
        /// What a full bucket holds.
        burst: u64,
        /// Time in which one comes back.
        interval_ns: u64,
    },
    /// `quota` in each window.
    Window {
        /// What may be used in one.
        quota: u64,
        /// Which windows.
        window: BudgetWindow,
    },
}

/// State of one key; the default is a key that nobody has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Microseconds since 1970: end of a window from the first call, beginning of another window, or moment of a bucket's level.
    mark: u64,
    /// Used, in a window with what is reserved; of a bucket the nanoseconds until it is full.
    used: u64,
    /// Reserved of a bucket by calls in flight.
    reserved: u64,
}

impl Rule {
    /// What a key may use at most.
    pub(super) fn limit(&self) -> u64 {
        match self {
            Rule::Bucket { burst, .. } => *burst,
            Rule::Window { quota, .. } => *quota,
        }
    }

    /// Seconds in which that much comes back, about.
    pub(super) fn window_seconds(&self) -> u64 {
        match self {
            Rule::Bucket { burst, interval_ns } => burst.saturating_mul(*interval_ns).div_ceil(1_000_000_000),
            Rule::Window { window: BudgetWindow::First(length) | BudgetWindow::Aligned(length), .. } => {
                length.as_secs() + u64::from(length.subsec_nanos() > 0)
            }
            Rule::Window { window: BudgetWindow::Day(_), .. } => 86_400,
            Rule::Window { window: BudgetWindow::Month(_), .. } => 30 * 86_400,
        }
    }

    /// The part of one of several gateways, at least 1.
    pub(super) fn divided(self, replicas: u64) -> Rule {
        let part = |whole: u64| (whole / replicas).max(whole.min(1));
        match self {
            Rule::Bucket { burst, interval_ns } => {
                Rule::Bucket { burst: part(burst), interval_ns: interval_ns.saturating_mul(replicas) }
            }
            Rule::Window { quota, window } => Rule::Window { quota: part(quota), window },
        }
    }
}

impl Account {
    /// The state that `reserve.lua` writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(|number| number.parse().ok());
        Some(Account { mark: numbers.next()??, used: numbers.next()??, reserved: numbers.next()?? })
    }

    /// Updates the state to this moment; of a window, when it ends.
    fn roll(&mut self, rule: &Rule, now_us: u64) -> u64 {
        match rule {
            Rule::Bucket { .. } => {
                self.used = self.used.saturating_sub(now_us.saturating_sub(self.mark).saturating_mul(1000));
                self.mark = now_us;
                0
            }
            Rule::Window { window: BudgetWindow::First(length), .. } => {
                let whole = now_us.saturating_add(u64::try_from(length.as_micros()).unwrap_or(u64::MAX));
                if self.mark <= now_us {
                    *self = Account { mark: whole, ..Account::default() };
                }
                // The clock was set back: no window is longer than its length.
                self.mark = self.mark.min(whole);
                self.mark
            }
            Rule::Window { window, .. } => {
                let [_, begin, end, after] = beginnings(*window, now_us);
                if self.mark < begin {
                    *self = Account { mark: begin, ..Account::default() };
                }
                self.mark = self.mark.min(end);
                if self.mark == end { after } else { end }
            }
        }
    }

    fn left(&self, rule: &Rule) -> u64 {
        match rule {
            Rule::Bucket { burst, interval_ns } => {
                let whole = burst.saturating_mul(*interval_ns);
                (whole.saturating_sub(self.used) / interval_ns).saturating_sub(self.reserved)
            }
            Rule::Window { quota, .. } => quota.saturating_sub(self.used),
        }
    }

    /// Reserves an amount if so much is left; the mark is what settling wants to know.
    pub(super) fn reserve(&mut self, rule: &Rule, amount: u64, now_us: u64) -> (Decision, u64) {
        let end = self.roll(rule, now_us);
        let left = self.left(rule);
        let allowed = left >= amount;
        if allowed {
            match rule {
                Rule::Bucket { .. } => self.reserved += amount,
                Rule::Window { .. } => self.used += amount,
            }
        }
        let (reset_us, retry_us) = match rule {
            Rule::Bucket { burst, interval_ns } => {
                let wanted = (self.reserved.saturating_add(amount)).saturating_mul(*interval_ns);
                let lacking = self.used.saturating_add(wanted).saturating_sub(burst.saturating_mul(*interval_ns));
                (self.used.div_ceil(1000), lacking.div_ceil(1000).max(1))
            }
            Rule::Window { .. } => (end - now_us, end - now_us),
        };
        let decision = Decision {
            allowed,
            limit: rule.limit(),
            remaining: if allowed { left - amount } else { left },
            reset_ns: reset_us.saturating_mul(1000),
            retry_ns: if allowed { 0 } else { retry_us.saturating_mul(1000) },
        };
        (decision, self.mark)
    }

    /// Puts what was used in the place of what was reserved. Of a window that is over, nothing is left to correct.
    pub(super) fn settle(&mut self, rule: &Rule, reserved: u64, used: u64, mark: u64, now_us: u64) {
        match rule {
            Rule::Bucket { interval_ns, .. } => {
                self.roll(rule, now_us);
                self.reserved = self.reserved.saturating_sub(reserved);
                self.used = self.used.saturating_add(used.saturating_mul(*interval_ns)).min(HIGHEST_LEVEL);
            }
            Rule::Window { .. } if self.mark == mark => {
                self.used = self.used.saturating_add(used).saturating_sub(reserved);
            }
            Rule::Window { .. } => {}
        }
    }

    /// Whether the state still says something: one that does not is the same as the default.
    pub(super) fn is_live(&self, rule: &Rule, now_us: u64) -> bool {
        let mut rolled = *self;
        rolled.roll(rule, now_us);
        rolled.used > 0 || rolled.reserved > 0
    }
}

#[cfg(test)]
mod tests;
