//! What a worker decides without a call: keys that are over their limit (deny cache), and prefetched tokens.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::super::Decision;
use super::call::Name;

/// Entries of one kind; more are not stored, and their keys are fetched each time.
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
    /// Stores what Redis refused; the times of `decision` count from `since_ns`. It is believed for `most_ns` at most.
    pub(super) fn note(&self, name: Name, cost: u64, decision: &Decision, since_ns: u64, now_ns: u64, most_ns: u64) {
        let retry_at_ns = since_ns.saturating_add(decision.retry_ns);
        let until_ns = retry_at_ns.min(since_ns.saturating_add(most_ns));
        let reset_at_ns = since_ns.saturating_add(decision.reset_ns);
        if until_ns <= now_ns {
            return;
        }
        let Decision { limit, remaining, .. } = *decision;
        let known = self
            .0
            .map
            .borrow()
            .get(&name)
            .is_some_and(|over| over.until_ns > now_ns && over.cost < cost && over.limit >= limit);
        // Who requests less is refused for a shorter time, but more often.
        if !known {
            self.0.put(name, Over { until_ns, retry_at_ns, reset_at_ns, cost, limit, remaining }, now_ns);
        }
    }

    /// The refusal of a request that would be refused by Redis too: what is left of a window only gets less, and what a bucket gives
    /// back is known. Not of one that may have more than `most`, the limit of the request: another tier's, or that of the configuration before.
    pub(super) fn find(&self, name: &Name, cost: u64, most: u64, now_ns: u64) -> Option<Decision> {
        let map = self.0.map.borrow();
        let over = map.get(name).filter(|over| over.until_ns > now_ns && cost >= over.cost && most <= over.limit)?;
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
pub(super) struct Lease {
    tokens: u64,
    until_ns: u64,
    reset_at_ns: u64,
    limit: u64,
    /// Left in Redis when they were taken.
    left: u64,
}

impl Lasting for Lease {
    /// One that is spent is worth nothing.
    fn until_ns(&self) -> u64 {
        if self.tokens == 0 { 0 } else { self.until_ns }
    }
}

impl Lease {
    /// Spends tokens, if there are enough.
    pub(super) fn spend(&mut self, cost: u64, now_ns: u64) -> Option<(Decision, Spent)> {
        self.tokens = self.tokens.checked_sub(cost)?;
        let Lease { until_ns, reset_at_ns, limit, left, .. } = *self;
        let decision = Decision {
            allowed: true,
            limit,
            remaining: left.saturating_add(self.tokens),
            reset_ns: reset_at_ns.saturating_sub(now_ns),
            retry_ns: 0,
        };
        Some((decision, Spent { tokens: cost, until_ns, reset_at_ns, limit, left }))
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
    /// Tokens that were just taken, which may be spent until `until_ns`, with those that the count has here: they are no longer here.
    pub(super) fn collect(
        &self,
        name: &Name,
        taken: u64,
        until_ns: u64,
        decision: &Decision,
        since_ns: u64,
        now_ns: u64,
    ) -> Lease {
        let here = self.tokens(name, now_ns);
        self.0.map.borrow_mut().remove(name);
        let reset_at_ns = since_ns.saturating_add(decision.reset_ns);
        Lease { tokens: taken + here, until_ns, reset_at_ns, limit: decision.limit, left: decision.remaining }
    }

    /// Keeps what is left of a lease for later requests.
    pub(super) fn keep(&self, name: Name, lease: Lease, now_ns: u64) {
        if lease.until_ns() > now_ns {
            self.0.put(name, lease, now_ns);
        }
    }

    /// Whether tokens of the count could be kept.
    pub(super) fn has_room(&self, name: &Name) -> bool {
        let map = self.0.map.borrow();
        map.len() < MOST || map.contains_key(name)
    }

    /// How many tokens there are to spend.
    pub(super) fn tokens(&self, name: &Name, now_ns: u64) -> u64 {
        self.0.map.borrow().get(name).filter(|lease| lease.until_ns > now_ns).map_or(0, |lease| lease.tokens)
    }

    /// Spends tokens, if there are enough.
    pub(super) fn spend(&self, name: &Name, cost: u64, now_ns: u64) -> Option<(Decision, Spent)> {
        let mut map = self.0.map.borrow_mut();
        map.get_mut(name).filter(|lease| lease.until_ns > now_ns)?.spend(cost, now_ns)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn decision() -> Decision {
        Decision { allowed: true, limit: 100, remaining: 90, reset_ns: 1_000, retry_ns: 0 }
    }

    fn name(number: u64) -> Name {
        Name::numbered(number)
    }

    #[test]
    fn tokens_are_spent_from_the_response_even_if_they_cannot_be_kept() {
        let leases = Leases::default();
        // Too late to be kept, before the deadline for those who wait.
        let mut lease = leases.collect(&name(1), 10, 50, &decision(), 0, 100);
        assert!(lease.spend(4, 100).is_some());
        leases.keep(name(1), lease, 100);
        assert_eq!(leases.tokens(&name(1), 100), 0);
    }

    #[test]
    fn a_full_memo_takes_no_lease_and_spent_leases_make_room() {
        let leases = Leases::default();
        for number in 0..MOST as u64 {
            let lease = leases.collect(&name(number), 1, u64::MAX, &decision(), 0, 1);
            leases.keep(name(number), lease, 1);
        }
        assert!(!leases.has_room(&name(u64::MAX)) && leases.has_room(&name(1)));
        assert!(leases.spend(&name(1), 1, 1).is_some());
        let lease = leases.collect(&name(2), 1, u64::MAX, &decision(), 0, 1 + CLEAN_NS);
        leases.keep(name(2), lease, 1 + CLEAN_NS);
        assert!(leases.has_room(&name(u64::MAX)), "the spent one is removed");
    }
}
