//! Requests in flight. What is charged comes back when the exchange ends, never by time.

use super::{Decision, State, Unfit};

const MOST: u64 = u32::MAX as u64;

/// `quota` at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    quota: u64,
}

impl Concurrency {
    pub(super) fn new(quota: u64) -> Result<Self, Unfit> {
        if quota > MOST { Err(Unfit::Quota(MOST)) } else { Ok(Concurrency { quota }) }
    }

    pub(super) fn quota(&self) -> u64 {
        self.quota
    }

    #[inline]
    pub(super) fn charge(&self, state: State, cost: u64) -> (Option<State>, Decision) {
        let in_flight = state as u64;
        let limit = self.quota;
        let after = in_flight.saturating_add(cost);
        // When a request ends is not known; a second is what a client is told to wait.
        let decision = |allowed, remaining| Decision { allowed, limit, remaining, reset_ns: 0, retry_ns: 0 };
        if after <= limit {
            (Some(u128::from(after)), decision(true, limit - after))
        } else {
            (None, decision(false, limit.saturating_sub(in_flight)))
        }
    }

    pub(super) fn refund(&self, state: State, cost: u64) -> State {
        state.saturating_sub(u128::from(cost))
    }

    #[inline]
    pub(super) fn is_live(&self, state: State) -> bool {
        state != 0
    }
}
