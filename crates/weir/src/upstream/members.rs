//! From the targets whose addresses are known to the next set of targets: what stays keeps its state.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::affinity;
use super::balance::hash_seed;
use super::breaker::Breaker;
use super::known::Known;
use super::set::TargetSet;
use super::sources::Status;
use super::sources::registry::Host;
use super::target::{Address, Health, Target, TargetId, TargetState};
use super::time::Moment;
use super::{Common, lock};
use crate::config::{self, MAX_TARGETS, TargetAddress};

/// The control side of an upstream.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) spec: Arc<config::Upstream>,
    /// The targets of `spec`, as far as their addresses are known.
    known: Known,
    /// How reading the file of the targets went, if one names them.
    pub(super) file: Status,
    /// Targets that are no longer there, while requests to them are: if the address comes back, so does their count.
    retired: Vec<(Address, Weak<TargetState>)>,
}

impl Members {
    pub(super) fn new(spec: Arc<config::Upstream>, common: &Common) -> Members {
        Members { known: common.known(&spec), spec, file: Status::default(), retired: Vec::new() }
    }

    /// Takes over a specification; returns whether it or what is known is anything new.
    pub(super) fn reconfigure(&mut self, spec: Arc<config::Upstream>, common: &Common) -> bool {
        if self.spec.targets_file != spec.targets_file {
            self.file = Status::default();
        }
        let known = common.known(&spec);
        let is_new = known != self.known || *spec != *self.spec;
        self.known = known;
        self.spec = spec;
        is_new
    }

    /// Takes over what is known by now; returns whether it is anything new.
    pub(super) fn refresh(&mut self, common: &Common) -> bool {
        let known = common.known(&self.spec);
        let is_new = known != self.known;
        if known.cut != self.known.cut
            && let Some(service) = &known.cut
        {
            tracing::warn!(upstream = %self.spec.name, %service, "more than {MAX_TARGETS} addresses: the rest are no targets");
        }
        self.known = known;
        is_new
    }

    /// Host names among the targets, those of records and of endpoints included.
    pub(super) fn hosts(&self, common: &Common) -> Vec<Arc<str>> {
        let services = lock(&common.services);
        let registries = lock(&common.registries);
        let of_records = |target: &config::Target| {
            let records = service(target).and_then(|name| services.get(&name)?.records.as_deref()).unwrap_or_default();
            records.iter().map(|record| record.host.clone()).collect::<Vec<_>>()
        };
        let of_endpoints = |target: &config::Target| {
            let endpoints = registry(target).and_then(|name| registries.get(&name)?.endpoints.as_deref());
            let names = endpoints.unwrap_or_default().iter().filter_map(|endpoint| match &endpoint.host {
                Host::Name(host) => Some(host.clone()),
                Host::Ip(_) => None,
            });
            names.collect::<Vec<_>>()
        };
        let targets = &self.spec.targets;
        let named = targets.iter().filter_map(host);
        named.chain(targets.iter().flat_map(of_records)).chain(targets.iter().flat_map(of_endpoints)).collect()
    }

    /// Services in DNS among the targets.
    pub(super) fn services(&self) -> Vec<Arc<str>> {
        self.spec.targets.iter().filter_map(service).collect()
    }

    /// Services in registries among the targets.
    pub(super) fn registries(&self) -> Vec<Arc<config::Registry>> {
        self.spec.targets.iter().filter_map(registry).collect()
    }

    /// The set after `before`. While not one of the targets has an address and some are not resolved yet, which is so after a reload with new names that do
    /// not resolve yet, the targets of before stay. Each address takes over the state that it had; of several targets with one address the nth takes the nth's.
    pub(super) fn make_set(&mut self, before: &TargetSet, common: &Common) -> TargetSet {
        let spec = self.spec.clone();
        let same_breaker = before.spec.breaker == spec.breaker;
        // Targets that are there from the start have nothing to recover from.
        let since = if before.targets.is_empty() { Moment::START } else { common.clock.now() };
        let mut left = Left::of(&before.targets);
        let drains = Drains::of(&before.targets);
        self.retired.retain(|(_, state)| state.strong_count() > 0);
        let mut targets = Vec::new();
        for member in &self.known.members {
            let address = &member.address;
            let kept = left.take(address);
            let state = kept
                .map(|old| old.state.clone())
                .or_else(|| take_retired(&mut self.retired, address))
                .unwrap_or_else(|| Arc::new(TargetState::new(common.next_id(), since)));
            let breaker = match (&spec.breaker, kept.and_then(|old| old.breaker.as_ref())) {
                (Some(_), Some(breaker)) if same_breaker => Some(breaker.clone()),
                (Some(spec), _) => Some(Arc::new(Breaker::new(spec))),
                (None, _) => None,
            };
            if spec.health.is_none() {
                state.set_health(Health::Unknown); // nobody would ever say otherwise
            }
            targets.push(Target {
                hash_seed: hash_seed(address, &member.base_path),
                token: affinity::token(&spec, address, &member.base_path),
                text: address.to_string().into(),
                address: address.clone(),
                authority: member.authority.clone(),
                base_path: member.base_path.clone(),
                weight: member.weight.get(),
                tier: member.tier,
                source: member.source.clone(),
                breaker,
                slot: None,
                state,
            });
        }
        if targets.is_empty() && !before.targets.is_empty() && self.known.is_incomplete {
            targets = before.targets.iter().map(|target| keep(target, &spec, same_breaker)).collect();
            left = Left::of(&[]);
        }
        if matches!(spec.balance, config::Balance::Inference(_)) {
            before.shared.replicas().assign(&mut targets);
        }
        drains.carry_over(&spec.name, &targets);
        for old in left.rest() {
            // If the address comes back, it may be another machine's.
            old.state.undrain(common.clock.now());
            self.retired.push((old.address.clone(), Arc::downgrade(&old.state)));
        }
        let set = TargetSet {
            has_tiers: targets.iter().any(|target| target.tier > 0),
            has_even_weights: targets.windows(2).all(|pair| pair[0].weight == pair[1].weight),
            targets,
            shared: before.shared.clone(),
            upstream: before.upstream.clone(),
            generation: before.generation + 1,
            max_in_flight: spec.max_in_flight.map(std::num::NonZeroU32::get),
            spec,
        };
        let back_since = set.targets.iter().map(|target| target.state.back_since()).max();
        if let Some(back_since) = back_since.filter(|moment| *moment > Moment::START) {
            set.shared.ramp_until(&set, back_since);
        }
        set
    }
}

/// Targets of before that have no successor yet, by their addresses: there may be ten thousand.
struct Left<'t> {
    targets: &'t [Target],
    /// Positions, the first one last.
    by_address: HashMap<&'t Address, Vec<usize>>,
}

impl<'t> Left<'t> {
    fn of(targets: &'t [Target]) -> Self {
        let mut by_address: HashMap<&Address, Vec<usize>> = HashMap::with_capacity(targets.len());
        for (position, target) in targets.iter().enumerate().rev() {
            by_address.entry(&target.address).or_default().push(position);
        }
        Left { targets, by_address }
    }

    fn take(&mut self, address: &Address) -> Option<&'t Target> {
        let position = self.by_address.get_mut(address)?.pop()?;
        Some(&self.targets[position])
    }

    /// In the order in which they were.
    fn rest(self) -> impl Iterator<Item = &'t Target> {
        let mut positions: Vec<usize> = self.by_address.into_values().flatten().collect();
        positions.sort_unstable();
        positions.into_iter().map(|position| &self.targets[position])
    }
}

/// Addresses that operators drain. What else is a target there, with another certificate or base path, is drained too: operators see addresses.
struct Drains<'t>(HashMap<&'t str, Moment>);

impl<'t> Drains<'t> {
    fn of(targets: &'t [Target]) -> Self {
        Drains(targets.iter().filter_map(|target| Some((&*target.text, target.state.drained_since()?))).collect())
    }

    fn carry_over(mut self, upstream: &str, targets: &[Target]) {
        if self.0.is_empty() {
            return;
        }
        let mut kept = HashSet::new();
        for target in targets {
            if let Some((address, since)) = self.0.get_key_value(&*target.text) {
                target.state.drain(*since);
                kept.insert(*address);
            }
        }
        self.0.retain(|address, _| !kept.contains(address));
        for address in self.0.keys() {
            tracing::warn!(upstream, target = address, "a drained address is no longer a target: its drain has ended");
        }
    }
}

/// Host name of a target.
pub(super) fn host(target: &config::Target) -> Option<Arc<str>> {
    match &target.address {
        TargetAddress::Name { host, .. } => Some(host.clone()),
        _ => None,
    }
}

/// Service in DNS that a target is.
pub(super) fn service(target: &config::Target) -> Option<Arc<str>> {
    match &target.address {
        TargetAddress::Service(name) => Some(name.clone()),
        _ => None,
    }
}

/// Service in a registry that a target is.
pub(super) fn registry(target: &config::Target) -> Option<Arc<config::Registry>> {
    match &target.address {
        TargetAddress::Registry(registry) => Some(registry.clone()),
        _ => None,
    }
}

/// A target of before under a new specification.
fn keep(target: &Target, spec: &config::Upstream, same_breaker: bool) -> Target {
    let breaker = match (&spec.breaker, &target.breaker) {
        (Some(_), Some(breaker)) if same_breaker => Some(breaker.clone()),
        (Some(spec), _) => Some(Arc::new(Breaker::new(spec))),
        (None, _) => None,
    };
    if spec.health.is_none() {
        target.state.set_health(Health::Unknown);
    }
    Target { breaker, token: affinity::token(spec, &target.address, &target.base_path), ..target.clone() }
}

impl Common {
    fn next_id(&self) -> TargetId {
        TargetId(self.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

fn take_retired(retired: &mut Vec<(Address, Weak<TargetState>)>, address: &Address) -> Option<Arc<TargetState>> {
    let position = retired.iter().position(|(old, _)| old == address)?;
    retired.swap_remove(position).1.upgrade()
}
