//! Upstreams: which target gets a request, and what is known about each.
//!
//! What holds for the whole process (requests in flight, latency, health, ejection, breaker, retry budget, queue) lives in atomics that all workers share;
//! what is only a manner of choosing (round-robin position, random numbers) each worker has for itself, in its [`Views`].
//!
//! ```text
//!   control thread                          Upstreams -> Upstream (by name, survives reloads)
//!     sources: services in DNS and in registries, files -> targets
//!     resolve: names -> addresses  --publish-->  TargetSet (immutable: spec + targets) ---- Shared (queue, budget, ejector)
//!     health:  probes -> verdicts  ------------>   Target -> TargetState (atomics, by address, survives reloads)
//!
//!   worker      View (copy of the newest set) --pick--> balance -> eject, breaker, max_in_flight -> Lease
//!   exchange    Lease: first_byte, success | failure, drop --> TargetState; whoever waits in the queue is served
//! ```
//!
//! A pick in the ordinary case takes no lock, allocates nothing and makes no system call. Time comes in as a [`Moment`].

mod affinity;
mod balance;
mod breaker;
mod buckets;
pub mod client;
pub mod connect;
mod control;
mod eject;
mod ewma;
mod health;
pub mod http2;
mod inference;
mod known;
mod lease;
mod members;
mod operate;
mod outcome;
pub mod pool;
mod queue;
mod resolve;
pub mod retry;
mod rng;
mod set;
mod snapshot;
mod sources;
mod target;
mod time;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

pub use affinity::Token;
pub use breaker::BreakerState;
pub use control::{Resolved, supervise};
pub(crate) use inference::MATCH_BOUNDS;
pub use inference::PickReason;
pub use lease::Lease;
pub use operate::{ActError, DrainedTarget, TargetAction};
pub use outcome::FailureKind;
pub use queue::{BOUNDS as QUEUE_BOUNDS, ClassWaits, QueueEntry, WaitError};
pub use resolve::Resolver;
pub use snapshot::{
    EngineSnapshot, Failures, NameSnapshot, ProbeSnapshot, QueueSnapshot, ReplicasSnapshot, SourceSnapshot,
    TargetCondition, TargetSnapshot, UpstreamSnapshot,
};
pub use target::{Address, Health, Target, TargetId, TlsIdentity};
pub use time::{Clock, Moment};
pub use view::{Pick, Request, View, Views};

use crate::config::{self, Config, DemoService, UpstreamId};
use crate::runtime::fingerprint::Fingerprint;
use members::Members;
use set::{Again, Shared, TargetSet};
use sources::{Registries, Services};

/// All upstreams of one configuration, in its order.
#[derive(Debug)]
pub struct Upstreams {
    list: Vec<Arc<Upstream>>,
    common: Arc<Common>,
    /// What files of targets looked like once the configuration had been read.
    seen: BTreeMap<Arc<Path>, Option<Fingerprint>>,
}

/// What the registries of all configurations share.
#[derive(Debug)]
struct Common {
    clock: Clock,
    /// Last [`TargetId`] that was given.
    ids: AtomicU64,
    /// Where the demo services listen, once they do.
    demo: Mutex<Vec<(DemoService, SocketAddr)>>,
    /// What is known about host names.
    names: Mutex<BTreeMap<Arc<str>, Name>>,
    /// What is known of services in DNS.
    services: Mutex<Services>,
    /// What is known of services in registries.
    registries: Mutex<Registries>,
    /// Endpoints that others find, by name.
    endpoints: Mutex<BTreeMap<Arc<str>, Vec<SocketAddr>>>,
    /// Woken when the targets of some upstream have changed; [`supervise`] waits for it.
    changed: tokio::sync::Notify,
}

/// A host name.
#[derive(Debug, Default)]
struct Name {
    /// In order, each once; empty until there was a response.
    addresses: Vec<IpAddr>,
    /// Why there is no newer response.
    error: Option<String>,
}

impl Upstreams {
    /// Fresh state for the upstreams of `config`. Targets with an address can be picked at once, names after their first resolution.
    pub fn new(config: &Config, clock: Clock) -> Upstreams {
        let common = Common {
            clock,
            ids: AtomicU64::new(0),
            demo: Mutex::default(),
            names: Mutex::default(),
            services: Mutex::default(),
            registries: Mutex::default(),
            endpoints: Mutex::default(),
            changed: tokio::sync::Notify::new(),
        };
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
        let previous: HashMap<&str, &Arc<Upstream>> =
            previous.iter().map(|upstream| (&*upstream.name, upstream)).collect();
        let list = config.upstreams.iter().map(|spec| {
            let spec = Arc::new(spec.clone());
            match previous.get(&*spec.name).copied() {
                Some(upstream) => {
                    upstream.reconfigure(spec);
                    upstream.clone()
                }
                None => Upstream::new(spec, common.clone()),
            }
        });
        let files = config.upstreams.iter().filter_map(|spec| spec.targets_file.clone());
        let seen = files.map(|path| (path.clone(), Fingerprint::of(&path))).collect();
        Upstreams { list: list.collect(), common, seen }
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
        let mut known = lock(&self.common.demo);
        known.retain(|(of, _)| *of != service);
        known.push((service, address));
        drop(known);
        self.refresh();
    }

    /// Takes in the endpoints of these names, each in order and once. They hold for the next configuration too; upstreams of this one that have
    /// such targets follow at once.
    pub fn set_endpoints(&self, found: impl IntoIterator<Item = (String, Vec<SocketAddr>)>) {
        let mut changed = BTreeSet::new();
        let mut known = lock(&self.common.endpoints);
        for (name, addresses) in found {
            if known.get(name.as_str()) != Some(&addresses) {
                let name: Arc<str> = name.into();
                known.insert(name.clone(), addresses);
                changed.insert(name);
            }
        }
        drop(known);
        if changed.is_empty() {
            return;
        }
        for upstream in &self.list {
            let has = |target: &config::Target| match &target.address {
                config::TargetAddress::Endpoints(name) => changed.contains(name),
                _ => false,
            };
            let follows = lock(&upstream.members).spec.targets.iter().any(has);
            if follows {
                upstream.refresh();
            }
        }
    }

    /// Forgets endpoints of other names than those of this configuration.
    pub fn forget_endpoints(&self) {
        let targets = |upstream: &Arc<Upstream>| lock(&upstream.members).spec.targets.clone();
        let used: BTreeSet<Arc<str>> = self
            .list
            .iter()
            .flat_map(targets)
            .filter_map(|target| match target.address {
                config::TargetAddress::Endpoints(name) => Some(name),
                _ => None,
            })
            .collect();
        lock(&self.common.endpoints).retain(|name, _| used.contains(name));
    }

    /// Takes in the response for a host name. A failure keeps the addresses that are known.
    fn set_addresses(&self, host: &Arc<str>, response: Result<Vec<IpAddr>, String>) {
        if self.note_addresses(host, response) {
            self.refresh();
        }
    }

    /// The same without a new set of targets yet; returns whether the addresses are others now.
    fn note_addresses(&self, host: &Arc<str>, response: Result<Vec<IpAddr>, String>) -> bool {
        let mut names = lock(&self.common.names);
        let name = names.entry(host.clone()).or_default();
        match response {
            Ok(mut addresses) => {
                addresses.sort_unstable();
                addresses.dedup();
                let is_new = name.addresses != addresses;
                if name.error.take().is_some() || is_new {
                    tracing::info!(%host, ?addresses, "name resolved");
                }
                name.addresses = addresses;
                is_new
            }
            Err(why) => {
                if name.error.is_none() {
                    let known = &name.addresses;
                    tracing::warn!(%host, why, kept = ?known, "name not resolved");
                }
                name.error = Some(why);
                false
            }
        }
    }

    /// What is known about a host name.
    fn addresses_of(&self, host: &str) -> Vec<IpAddr> {
        lock(&self.common.names).get(host).map_or_else(Vec::new, |name| name.addresses.clone())
    }

    /// Lets every upstream follow what is known about names and demo services.
    fn refresh(&self) {
        for upstream in &self.list {
            upstream.refresh();
        }
    }

    /// Host names of targets, those of records included.
    fn hosts(&self) -> BTreeSet<Arc<str>> {
        self.list.iter().flat_map(|upstream| lock(&upstream.members).hosts(&self.common)).collect()
    }

    /// Services in DNS among the targets.
    fn services(&self) -> BTreeSet<Arc<str>> {
        self.list.iter().flat_map(|upstream| lock(&upstream.members).services()).collect()
    }

    /// Services in registries among the targets.
    fn registries(&self) -> BTreeSet<Arc<config::Registry>> {
        self.list.iter().flat_map(|upstream| lock(&upstream.members).registries()).collect()
    }

    /// Files that name targets.
    fn files(&self) -> BTreeSet<Arc<Path>> {
        self.list.iter().filter_map(|upstream| lock(&upstream.members).spec.targets_file.clone()).collect()
    }

    /// Host names of the targets of `config` without an address, each once.
    fn unresolved_hosts(&self, config: &Config) -> Vec<Arc<str>> {
        let names = lock(&self.common.names);
        let targets = config.upstreams.iter().flat_map(|upstream| &upstream.targets);
        let hosts: BTreeSet<Arc<str>> = targets.filter_map(members::host).collect();
        let is_unresolved = |host: &Arc<str>| names.get(host).is_none_or(|name| name.addresses.is_empty());
        hosts.into_iter().filter(is_unresolved).collect()
    }

    /// Services among the targets of `config` without a response, each once.
    fn unknown_services(&self, config: &Config) -> Vec<Arc<str>> {
        let services = lock(&self.common.services);
        let targets = config.upstreams.iter().flat_map(|upstream| &upstream.targets);
        let names: BTreeSet<Arc<str>> = targets.filter_map(members::service).collect();
        let is_unknown = |name: &Arc<str>| services.get(name).is_none_or(|service| service.records.is_none());
        names.into_iter().filter(is_unknown).collect()
    }

    /// Services in registries among the targets of `config` without a response, each once.
    fn unknown_registries(&self, config: &Config) -> Vec<Arc<config::Registry>> {
        let registries = lock(&self.common.registries);
        let targets = config.upstreams.iter().flat_map(|upstream| &upstream.targets);
        let named: BTreeSet<Arc<config::Registry>> = targets.filter_map(members::registry).collect();
        let is_unknown =
            |name: &Arc<config::Registry>| registries.get(name).is_none_or(|known| known.endpoints.is_none());
        named.into_iter().filter(is_unknown).collect()
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
    /// From what `published` is made.
    members: Mutex<Members>,
}

impl Upstream {
    fn new(spec: Arc<config::Upstream>, common: Arc<Common>) -> Arc<Upstream> {
        Arc::new_cyclic(|this| {
            let shared = Arc::new(Shared::default());
            let mut members = Members::new(spec, &common);
            let first =
                members.make_set(&TargetSet::empty(members.spec.clone(), shared.clone(), this.clone()), &common);
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

    /// Whether a target of it is this service.
    fn names_registry(&self, registry: &config::Registry) -> bool {
        let is_it = |target: &config::Target| matches!(&target.address, config::TargetAddress::Registry(named) if **named == *registry);
        lock(&self.members).spec.targets.iter().any(is_it)
    }

    /// New specification under the same name.
    fn reconfigure(&self, spec: Arc<config::Upstream>) {
        let mut members = lock(&self.members);
        // A reload that changes one of thousands of upstreams leaves the sets of the others as they are.
        if members.reconfigure(spec, &self.common) {
            self.publish(&mut members);
        }
    }

    /// Looks whether names or demo services of its targets have other addresses by now.
    fn refresh(&self) {
        let mut members = lock(&self.members);
        if members.refresh(&self.common) {
            self.publish(&mut members);
        }
    }

    fn publish(&self, members: &mut Members) {
        let set = members.make_set(&self.published.load(), &self.common);
        let generation = set.generation;
        self.published.store(Arc::new(set));
        self.generation.store(generation, Ordering::Release);
        self.common.changed.notify_one();
        self.serve_waiters();
    }

    /// Takes in what a check by `spec` found, unless the upstream is checked in another way by now, or not at all: nothing would ever correct the
    /// verdict of a check that no longer runs. Says whether it was taken in; `judge` makes the verdict from the one before.
    fn take_in_check(
        &self,
        target: &Target,
        spec: &config::Health,
        judge: impl FnOnce(Health) -> Option<Health>,
    ) -> bool {
        // A reload sets the verdicts of checks that end under this lock too.
        let members = lock(&self.members);
        if members.spec.health.as_ref() != Some(spec) {
            return false;
        }
        let before = target.state.health();
        let Some(verdict) = judge(before) else { return true };
        target.state.set_health(verdict);
        if before == Health::Unhealthy && verdict == Health::Healthy {
            let now = self.common.clock.now();
            target.state.set_back_since(now);
            self.shared.ramp_until(&self.published.load(), now);
        }
        drop(members);
        self.serve_waiters();
        true
    }

    /// Gives free places to those who wait, and tells them when there is nothing to wait for.
    fn serve_waiters(&self) {
        if self.shared.queue.is_waited_for() {
            let set = self.published.load_full();
            let now = self.common.clock.now();
            self.shared.queue.serve(|tried| {
                let again = if tried.is_empty() { Again::AtOnce } else { Again::IfNoneIsLeft };
                set.least_loaded(tried, again, now)
            });
        }
    }
}

/// Locks, also when another thread panicked with the lock held: every state behind these locks is consistent at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
