//! Prefetching tokens: for each count of a limit with `lease`, a worker has one call in flight at most.
//!
//! Requests that find too few prefetched tokens wait for that call, each within its own deadline. The next call requests what the
//! waiting requests need, or for `lease` tokens if that is more. So a burst of requests for one key takes what it spends, and at most `lease - 1`
//! tokens are left in this worker, however many requests came at once. A request that gave up waiting is charged all the same, like one that gave up a call.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::call::{Name, Question};
use super::memo::Lease;
use super::{LimitOutcome, Remote};
use crate::runtime::clock;

/// Requests that wait for tokens, by count.
#[derive(Default)]
pub(super) struct Flights(RefCell<HashMap<Name, VecDeque<Waiter>, foldhash::fast::RandomState>>);

struct Waiter {
    cost: u64,
    done: oneshot::Sender<LimitOutcome>,
}

/// What is prefetched for a count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefetch {
    /// `name` and `definition` of the count.
    pub(super) question: Question,
    /// Tokens that one call takes at least, if there are so many.
    pub(super) lease: u64,
    /// What a key may spend at most.
    pub(super) limit: u64,
    /// How long tokens may be spent; none: to the end of the window that they were taken from.
    pub(super) lasts_ns: Option<u64>,
}

impl Prefetch {
    /// Most tokens that one worker keeps. Tokens of a fixed window cannot be spent outside it, so any number of them is harmless.
    pub(super) fn most(&self) -> u64 {
        if self.lasts_ns.is_none() { u64::MAX } else { self.lease - 1 }
    }
}

impl Flights {
    /// Adds a request; says whether nobody waited before it, so that a call is to be made.
    fn join(&self, name: Name, waiter: Waiter) -> bool {
        let mut flights = self.0.borrow_mut();
        let is_first = !flights.contains_key(&name);
        flights.entry(name).or_default().push_back(waiter);
        is_first
    }

    /// Cost of the first request that still waits, of all of them, and their number; without waiting requests `None`, and the flight is removed.
    fn demand(&self, name: &Name) -> Option<(u64, u64)> {
        let mut flights = self.0.borrow_mut();
        let waiters = flights.get_mut(name)?;
        waiters.retain(|waiter| !waiter.done.is_closed());
        match waiters.front() {
            Some(first) => Some((first.cost, waiters.iter().map(|waiter| waiter.cost).sum())),
            None => {
                flights.remove(name);
                None
            }
        }
    }

    fn first_cost(&self, name: &Name) -> Option<u64> {
        Some(self.0.borrow().get(name)?.front()?.cost)
    }

    fn take_first(&self, name: &Name) -> Option<Waiter> {
        self.0.borrow_mut().get_mut(name)?.pop_front()
    }

    /// Wakes all waiting requests that need at least `cost`.
    fn tell(&self, name: &Name, cost: u64, met: LimitOutcome) {
        if let Some(waiters) = self.0.borrow_mut().get_mut(name) {
            let (told, others) = waiters.drain(..).partition(|waiter| waiter.cost >= cost);
            *waiters = others;
            let told: VecDeque<Waiter> = told;
            for waiter in told {
                // One whose deadline has passed has stopped listening.
                let _ = waiter.done.send(met);
            }
        }
    }
}

impl Remote {
    /// Waits for prefetched tokens, no longer than `timeout`.
    pub(super) async fn acquire(self: &Rc<Self>, prefetch: Prefetch, timeout: Duration) -> LimitOutcome {
        if !self.client.may_serve(&prefetch.question.name) {
            return LimitOutcome::Failed;
        }
        let (done, met) = oneshot::channel();
        if self.flights.join(prefetch.question.name, Waiter { cost: prefetch.question.cost, done }) {
            spawn_local(fly(self.clone(), prefetch));
        }
        match tokio::time::timeout(timeout, met).await {
            Ok(Ok(met)) => met,
            Ok(Err(_)) | Err(_) => LimitOutcome::Failed,
        }
    }

    /// Gives prefetched tokens to waiting requests in their order.
    fn grant(&self, name: &Name) {
        while let Some(cost) = self.flights.first_cost(name) {
            let Some((decision, spent)) = self.leases.spend(name, cost, clock::now_ns()) else { return };
            if let Some(waiter) = self.flights.take_first(name) {
                let _ = waiter.done.send(LimitOutcome::Leased(decision, spent));
            }
        }
    }
}

impl Remote {
    /// Gives tokens of a lease to waiting requests in their order.
    fn grant_from(&self, name: &Name, lease: &mut Lease) {
        while let Some(cost) = self.flights.first_cost(name) {
            let Some((decision, spent)) = lease.spend(cost, clock::now_ns()) else { return };
            if let Some(waiter) = self.flights.take_first(name) {
                let _ = waiter.done.send(LimitOutcome::Leased(decision, spent));
            }
        }
    }
}

/// Calls Redis until no request waits for tokens of this count.
async fn fly(remote: Rc<Remote>, prefetch: Prefetch) {
    let name = prefetch.question.name;
    while let Some((first, all)) = remote.flights.demand(&name) {
        let here = remote.leases.tokens(&name, clock::now_ns());
        if here >= first {
            remote.grant(&name);
            continue;
        }
        // What could not be kept is not taken: it would be missing from the quota.
        let lease = if remote.leases.has_room(&name) { prefetch.lease } else { 0 };
        let question = Question { cost: first - here, wanted: all.max(lease).max(first) - here, ..prefetch.question };
        let Ok(list) = remote.call(&[question]).await else {
            remote.flights.tell(&name, 0, LimitOutcome::Failed);
            continue;
        };
        let (result, since_ns) = list[0];
        if result.is_refusal() {
            remote.flights.tell(&name, first, LimitOutcome::Redis(result, since_ns));
            continue;
        }
        let (taken, now_ns) = (u64::try_from(result.taken).unwrap_or(0), clock::now_ns());
        let decision = result.decision(prefetch.limit, taken);
        let lasts_ns = prefetch.lasts_ns.unwrap_or(decision.reset_ns);
        let until_ns = since_ns.saturating_add(lasts_ns);
        let mut lease = remote.leases.collect(&name, taken, until_ns, &decision, since_ns, now_ns);
        // Waiting requests are served from the response itself: they get the tokens, however short these last and whether or not the
        // remaining ones can be kept.
        remote.grant_from(&name, &mut lease);
        remote.leases.keep(name, lease, now_ns);
    }
}
