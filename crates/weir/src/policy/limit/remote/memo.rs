//! What a worker knows without asking: keys that are over their limit, and tokens that it took in advance.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::super::Decision;
use super::call::Name;

/// Entries of one kind; more are not remembered, and their keys asked for each time.
const MOST: usize = 65_536;
/// How often what is over is thrown away, in nanoseconds.
const CLEAN_NS: u64 = 5_000_000_000;

/// Something that is known about a count until some time.
trait Lasting {
    /// In nanoseconds of the process.
    fn until_ns(&self) -> u64;
}

/// Things known about counts, by their names.
struct Memo<T> {
    map: RefCell<HashMap<Name, T, foldhash::fast::RandomState>>,
    clean_at_ns: Cell<u64>,
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Memo { map: RefCell::default(), clean_at_ns: Cell::new(0) }
    }
}

impl<T: Lasting> Memo<T> {
    fn put(&self, name: Name, value: T, now_ns: u64) {
        let mut map = self.map.borrow_mut();
        if now_ns >= self.clean_at_ns.get() {
            self.clean_at_ns.set(now_ns + CLEAN_NS);
            map.retain(|_, known| known.until_ns() > now_ns);
            if map.len() < map.capacity() / 8 {
                map.shrink_to_fit();
            }
        }
        if map.len() < MOST || map.contains_key(&name) {
            map.insert(name, value);
        }
    }
}

/// A count that has too little left, until it has more again.
struct Over {
    /// As long as Redis is not called.
    until_ns: u64,
    /// When the same request would be allowed.
    retry_at_ns: u64,
    reset_at_ns: u64,
    /// The least that was refused.
    cost: u64,
    limit: u64,
    remaining: u64,
}

impl Lasting for Over {
    fn until_ns(&self) -> u64 {
        self.until_ns
    }
}

/// Counts that are known to be over.
#[derive(Default)]
pub(super) struct Refusals(Memo<Over>);

impl Refusals {
    /// Remembers what Redis refused; the times of `decision` count from `since_ns`. It is believed for `most_ns` at most.
    pub(super) fn remember(
        &self,
        name: Name,
        cost: u64,
        decision: &Decision,
        since_ns: u64,
        now_ns: u64,
        most_ns: u64,
    ) {
        let retry_at_ns = since_ns.saturating_add(decision.retry_ns);
        let until_ns = retry_at_ns.min(since_ns.saturating_add(most_ns));
        let reset_at_ns = since_ns.saturating_add(decision.reset_ns);
        if until_ns <= now_ns {
            return;
        }
        let known = self.0.map.borrow().get(&name).is_some_and(|over| over.until_ns > now_ns && over.cost < cost);
        // Who asks for less is refused for a shorter time, but more often.
        if !known {
            let Decision { limit, remaining, .. } = *decision;
            self.0.put(name, Over { until_ns, retry_at_ns, reset_at_ns, cost, limit, remaining }, now_ns);
        }
    }

    /// The refusal of a request that would be refused by Redis too: what is left of a window only gets less, and what a bucket gives
    /// back is known.
    pub(super) fn find(&self, name: &Name, cost: u64, now_ns: u64) -> Option<Decision> {
        let map = self.0.map.borrow();
        let over = map.get(name).filter(|over| over.until_ns > now_ns && cost >= over.cost)?;
        Some(Decision {
            allowed: false,
            limit: over.limit,
            remaining: over.remaining,
            reset_ns: over.reset_at_ns.saturating_sub(now_ns),
            retry_ns: over.retry_at_ns.saturating_sub(now_ns),
        })
    }

    /// Forgets all: somebody has reset a key.
    pub(super) fn clear(&self) {
        self.0.map.borrow_mut().clear();
    }
}

/// Tokens that were taken from a count for later.
struct Lease {
    tokens: u64,
    until_ns: u64,
    reset_at_ns: u64,
    limit: u64,
    /// Left in Redis when they were taken.
    left: u64,
}

impl Lasting for Lease {
    fn until_ns(&self) -> u64 {
        self.until_ns
    }
}

/// What was spent of a lease, and what it takes to put it back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    tokens: u64,
    until_ns: u64,
    reset_at_ns: u64,
    limit: u64,
    left: u64,
}

/// Prefetched tokens of this worker, by count.
#[derive(Default)]
pub(super) struct Leases(Memo<Lease>);

impl Leases {
    /// Adds tokens that may be spent until `until_ns` to those of the count.
    pub(super) fn keep(&self, name: Name, tokens: u64, until_ns: u64, decision: &Decision, since_ns: u64, now_ns: u64) {
        if until_ns <= now_ns {
            return;
        }
        let reset_at_ns = since_ns.saturating_add(decision.reset_ns);
        let tokens = tokens + self.tokens(&name, now_ns);
        let lease = Lease { tokens, until_ns, reset_at_ns, limit: decision.limit, left: decision.remaining };
        self.0.put(name, lease, now_ns);
    }

    /// How many tokens there are to spend.
    pub(super) fn tokens(&self, name: &Name, now_ns: u64) -> u64 {
        self.0.map.borrow().get(name).filter(|lease| lease.until_ns > now_ns).map_or(0, |lease| lease.tokens)
    }

    /// Spends tokens, if there are enough.
    pub(super) fn spend(&self, name: &Name, cost: u64, now_ns: u64) -> Option<(Decision, Spent)> {
        let mut map = self.0.map.borrow_mut();
        let lease = map.get_mut(name).filter(|lease| lease.until_ns > now_ns && lease.tokens >= cost)?;
        lease.tokens -= cost;
        let Lease { until_ns, reset_at_ns, limit, left, .. } = *lease;
        let decision = Decision {
            allowed: true,
            limit,
            remaining: left.saturating_add(lease.tokens),
            reset_ns: reset_at_ns.saturating_sub(now_ns),
            retry_ns: 0,
        };
        Some((decision, Spent { tokens: cost, until_ns, reset_at_ns, limit, left }))
    }

    /// Puts tokens back that were spent on a request which another limit refused. `most` is what may be there after that; tokens above
    /// it, and those whose time is over, stay charged.
    pub(super) fn put_back(&self, name: Name, spent: Spent, most: u64, now_ns: u64) {
        if spent.until_ns <= now_ns {
            return;
        }
        let mut map = self.0.map.borrow_mut();
        // Both are valid now, so a fixed window took them from the same window.
        if let Some(lease) = map.get_mut(&name).filter(|lease| lease.until_ns > now_ns) {
            lease.tokens = (lease.tokens + spent.tokens).min(most.max(lease.tokens));
            return;
        }
        drop(map);
        let Spent { tokens, until_ns, reset_at_ns, limit, left } = spent;
        self.0.put(name, Lease { tokens: tokens.min(most), until_ns, reset_at_ns, limit, left }, now_ns);
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.0.map.borrow_mut().clear();
    }
}
