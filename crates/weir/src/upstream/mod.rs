//! Upstreams: which target gets a request, and what is known about each.
//!
//! What holds for the whole process (requests in flight, latency, health, ejection, breaker, retry budget, queue) lives in atomics that all workers share;
//! what is only a manner of choosing (round-robin position, random numbers) each worker has for itself, in its [`Views`].
//!
//! ```text
//!   control thread                          Upstreams -> Upstream (by name, survives reloads)
//!     resolve: names -> addresses  --publish-->  TargetSet (immutable: spec + targets) ---- Shared (queue, budget, ejector)
//!     health:  probes -> verdicts  ------------>   Target -> TargetState (atomics, by address, survives reloads)
//!
//!   worker      View (copy of the newest set) --pick--> balance -> eject, breaker, max_in_flight -> Lease
//!   exchange    Lease: first_byte, success | failure, drop --> TargetState; whoever waits in the queue is served
//! ```
//!
//! A pick in the ordinary case takes no lock, allocates nothing and makes no system call. Time comes in as a [`Moment`].

mod balance;
mod breaker;
mod eject;
mod ewma;
mod lease;
mod outcome;
pub mod pool;
mod queue;
pub mod retry;
mod rng;
mod set;
mod snapshot;
mod target;
mod time;
mod view;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;

pub use balance::hash_key;
pub use breaker::BreakerState;
pub use lease::Lease;
pub use outcome::FailureKind;
pub use queue::WaitError;
pub use snapshot::{Failures, ProbeSnapshot, QueueSnapshot, TargetCondition, TargetSnapshot, UpstreamSnapshot};
pub use target::{Address, Health, Target, TargetId};
pub use time::{Clock, Moment};
pub use view::{Pick, Request, View, Views};

use crate::config::{self, Config, DemoService, TargetAddress, UpstreamId};
use breaker::Breaker;
use set::{Shared, TargetSet};
use target::TargetState;

/// All upstreams of one configuration, in its order.
#[derive(Debug)]
pub struct Upstreams {
    list: Vec<Arc<Upstream>>,
    common: Arc<Common>,
}

/// What the registries of all configurations share.
#[derive(Debug)]
struct Common {
    clock: Clock,
    /// Last [`TargetId`] that was given.
    ids: AtomicU64,
    /// Where the demo upstreams listen, once they do.
    demo: Mutex<Vec<(DemoService, SocketAddr)>>,
}

impl Upstreams {
    /// Fresh state for the upstreams of `config`. Targets with an address can be picked at once, names after their first resolution.
    pub fn new(config: &Config, clock: Clock) -> Upstreams {
        let common = Common { clock, ids: AtomicU64::new(0), demo: Mutex::default() };
        Upstreams::build(config, Arc::new(common), &[])
    }

    /// The upstreams of a new configuration. One that has the name of an earlier one *is* the earlier one, which takes the new specification at
    /// once; its targets keep their state by address: requests in flight, latency, health, ejection, breaker (unless its numbers changed),
    /// statistics. Whoever still uses `previous` picks among the new targets too.
    #[must_use]
    pub fn reload(config: &Config, previous: &Upstreams) -> Upstreams {
        Upstreams::build(config, previous.common.clone(), &previous.list)
    }

    fn build(config: &Config, common: Arc<Common>, previous: &[Arc<Upstream>]) -> Upstreams {
        let list = config.upstreams.iter().map(|spec| {
            let spec = Arc::new(spec.clone());
            match previous.iter().find(|upstream| upstream.name == spec.name) {
                Some(upstream) => {
                    upstream.reconfigure(spec);
                    upstream.clone()
                }
                None => Upstream::new(spec, common.clone()),
            }
        });
        Upstreams { list: list.collect(), common }
    }

    /// The upstream of an id of the same configuration.
    ///
    /// # Panics
    /// When the id belongs to another configuration and is out of range.
    pub fn get(&self, id: UpstreamId) -> &Arc<Upstream> {
        &self.list[id.0]
    }

    /// All of them, in the order of the configuration.
    pub fn iter(&self) -> std::slice::Iter<'_, Arc<Upstream>> {
        self.list.iter()
    }

    /// The clock that this state follows; workers must take their moments from a clone of it.
    pub fn clock(&self) -> &Clock {
        &self.common.clock
    }

    /// A demo service listens: gives every [`TargetAddress::Demo`] of it its address, after reloads too.
    pub fn set_demo_address(&self, service: DemoService, address: SocketAddr) {
        lock(&self.common.demo).push((service, address));
        for upstream in &self.list {
            upstream.resolve(&TargetAddress::Demo(service), &[address]);
        }
    }
}

/// One upstream: its targets at the moment, and what they share.
#[derive(Debug)]
pub struct Upstream {
    name: Arc<str>,
    common: Arc<Common>,
    shared: Arc<Shared>,
    published: ArcSwap<TargetSet>,
    /// Generation of `published`; a view compares it with its own.
    generation: AtomicU64,
    /// The control side.
    members: Mutex<Members>,
}

/// From what the published set is made.
#[derive(Debug)]
struct Members {
    spec: Arc<config::Upstream>,
    /// Addresses of each target of `spec`, as far as they are known.
    resolved: Vec<Vec<Address>>,
    /// Targets that are no longer there, while requests to them are: if the address comes back, so does their count.
    retired: Vec<(Address, Weak<TargetState>)>,
}

impl Upstream {
    fn new(spec: Arc<config::Upstream>, common: Arc<Common>) -> Arc<Upstream> {
        Arc::new_cyclic(|this| {
            let shared = Arc::new(Shared::default());
            let mut members = Members { resolved: common.known_addresses(&spec, None), spec, retired: Vec::new() };
            let empty = Arc::new(TargetSet {
                spec: members.spec.clone(),
                targets: Vec::new(),
                shared: shared.clone(),
                upstream: this.clone(),
                generation: 0,
                max_in_flight: None,
            });
            let first = common.make_set(&mut members, &empty);
            Upstream {
                name: members.spec.name.clone(),
                shared,
                generation: AtomicU64::new(first.generation),
                published: ArcSwap::from_pointee(first),
                members: Mutex::new(members),
                common,
            }
        })
    }

    /// Name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// New specification under the same name.
    fn reconfigure(&self, spec: Arc<config::Upstream>) {
        let mut members = lock(&self.members);
        members.resolved = self.common.known_addresses(&spec, Some(&members));
        members.spec = spec;
        self.publish(&mut members);
    }

    /// A name (or the demo) has these addresses now; order and repetition do not matter. Returns whether anything changed.
    fn resolve(&self, which: &TargetAddress, addresses: &[SocketAddr]) -> bool {
        let mut addresses: Vec<Address> = addresses.iter().copied().map(Address::Tcp).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut members = lock(&self.members);
        let Members { spec, resolved, .. } = &mut *members;
        let mut changed = false;
        for (target, resolved) in spec.targets.iter().zip(resolved) {
            if target.address == *which && *resolved != addresses {
                resolved.clone_from(&addresses);
                changed = true;
            }
        }
        if changed {
            self.publish(&mut members);
        }
        changed
    }

    fn publish(&self, members: &mut Members) {
        let set = self.common.make_set(members, &self.published.load());
        let generation = set.generation;
        self.published.store(Arc::new(set));
        self.generation.store(generation, Ordering::Release);
        // A new target may have room for those who wait.
        if self.shared.queue.is_waited_for() {
            self.serve_waiters();
        }
    }

    /// Gives free places to those who wait.
    fn serve_waiters(&self) {
        let set = self.published.load_full();
        let now = self.common.clock.now();
        self.shared.queue.serve(|| set.least_loaded(&[], false, now));
    }
}

impl Common {
    /// Addresses of the targets of `spec` that need no resolution, or are known from before.
    fn known_addresses(&self, spec: &config::Upstream, before: Option<&Members>) -> Vec<Vec<Address>> {
        let known = |target: &config::Target| match &target.address {
            TargetAddress::Ip(address) => vec![Address::Tcp(*address)],
            TargetAddress::Unix(path) => vec![Address::Unix(path.as_path().into())],
            TargetAddress::Demo(service) => {
                let known = lock(&self.demo);
                known.iter().filter(|(of, _)| of == service).map(|(_, at)| Address::Tcp(*at)).collect()
            }
            TargetAddress::Name { .. } => {
                let position =
                    before.and_then(|members| members.spec.targets.iter().position(|t| t.address == target.address));
                match (before, position) {
                    (Some(members), Some(position)) => members.resolved[position].clone(),
                    _ => Vec::new(),
                }
            }
        };
        spec.targets.iter().map(known).collect()
    }

    /// The set after `before`. Each address takes over the state that it had; of several targets with one address the nth takes the nth's.
    fn make_set(&self, members: &mut Members, before: &TargetSet) -> TargetSet {
        let spec = members.spec.clone();
        let same_breaker = before.spec.breaker == spec.breaker;
        // Targets that were there from the start have nothing to recover from.
        let now = self.clock.now();
        let since = if before.targets.is_empty() { Moment::START } else { now };
        let mut left: Vec<&Target> = before.targets.iter().collect();
        members.retired.retain(|(_, state)| state.strong_count() > 0);
        let mut targets = Vec::new();
        for (target, addresses) in spec.targets.iter().zip(&members.resolved) {
            for address in addresses {
                let kept = left.iter().position(|old| old.address == *address).map(|position| left.remove(position));
                let state = kept
                    .map(|old| old.state.clone())
                    .or_else(|| take_retired(&mut members.retired, address))
                    .unwrap_or_else(|| Arc::new(TargetState::new(self.next_id(), since)));
                let breaker = match (&spec.breaker, kept.and_then(|old| old.breaker.as_ref())) {
                    (Some(_), Some(breaker)) if same_breaker => Some(breaker.clone()),
                    (Some(spec), _) => Some(Arc::new(Breaker::new(spec))),
                    (None, _) => None,
                };
                if spec.health.is_none() {
                    state.set_health(Health::Unknown); // nobody would ever say otherwise
                }
                targets.push(Target {
                    hash_seed: balance::hash_seed(address, &target.base_path),
                    address: address.clone(),
                    authority: target.authority.clone(),
                    base_path: target.base_path.clone(),
                    weight: target.weight.get(),
                    breaker,
                    state,
                });
            }
        }
        let gone = left.iter().map(|old| (old.address.clone(), Arc::downgrade(&old.state)));
        members.retired.extend(gone);
        let set = TargetSet {
            targets,
            shared: before.shared.clone(),
            upstream: before.upstream.clone(),
            generation: before.generation + 1,
            max_in_flight: spec.max_in_flight.map(std::num::NonZeroU32::get),
            spec,
        };
        set.shared.ramp_until(&set, now);
        set
    }

    fn next_id(&self) -> TargetId {
        TargetId(self.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

fn take_retired(retired: &mut Vec<(Address, Weak<TargetState>)>, address: &Address) -> Option<Arc<TargetState>> {
    let position = retired.iter().position(|(old, _)| old == address)?;
    retired.swap_remove(position).1.upgrade()
}

/// Locks, also when another thread panicked with the lock held: every state behind these locks is consistent at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
