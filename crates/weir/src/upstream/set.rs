//! The targets of one upstream at one moment: immutable, published by the control thread, copied by each worker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::Upstream;
use super::affinity::Token;
use super::eject::Ejector;
use super::inference::Replicas;
use super::lease::Lease;
use super::queue::Queue;
use super::retry::Budget;
use super::target::{Target, TargetId};
use super::time::Moment;
use crate::config;

/// The targets with the specification that they follow from.
#[derive(Debug, Clone)]
pub(super) struct TargetSet {
    pub(super) spec: Arc<config::Upstream>,
    pub(super) targets: Vec<Target>,
    pub(super) shared: Arc<Shared>,
    /// To find the newest set when a place becomes free and somebody waits. Weak: the upstream owns the set.
    pub(super) upstream: Weak<Upstream>,
    pub(super) generation: u64,
    /// `spec.max_in_flight`.
    pub(super) max_in_flight: Option<u32>,
    /// All targets have the same weight.
    pub(super) has_even_weights: bool,
    /// Some targets are of a later tier.
    pub(super) has_tiers: bool,
}

/// What all sets of an upstream share, over reloads too.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) queue: Queue,
    pub(super) budget: Budget,
    pub(super) ejector: Ejector,
    /// Of replicas of an inference engine; created when the balance first needs it.
    replicas: OnceLock<Box<Replicas>>,
    /// Until then some target may be in slow start; later every target has its whole weight, and no pick needs to look.
    ramp_until_us: AtomicU64,
}

impl Shared {
    /// What is known of the replicas of an inference engine.
    pub(super) fn replicas(&self) -> &Replicas {
        self.replicas.get_or_init(Box::default)
    }

    /// A target of the set comes back (or appears) at `since`.
    pub(super) fn ramp_until(&self, set: &TargetSet, since: Moment) {
        if let Some(slow_start) = set.spec.slow_start {
            let until = since.after(slow_start).as_micros();
            self.ramp_until_us.fetch_max(until, Ordering::Relaxed);
        }
    }
}

/// Whether a target that failed a request may get it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Rather than no target at this moment.
    AtOnce,
    /// Not while an untried one is only full: the request may wait for that.
    IfNoneIsLeft,
    /// Never: what failed it could not be reached at all.
    Never,
}

/// What a central pick (for those who wait) found.
pub(super) enum Grant {
    /// A place.
    Lease(Lease),
    /// All usable targets are at their maximum.
    Full,
    /// There is no usable target.
    Unavailable,
}

impl TargetSet {
    /// Before the first.
    pub(super) fn empty(spec: Arc<config::Upstream>, shared: Arc<Shared>, upstream: Weak<Upstream>) -> TargetSet {
        TargetSet {
            spec,
            targets: Vec::new(),
            shared,
            upstream,
            generation: 0,
            max_in_flight: None,
            has_even_weights: true,
            has_tiers: false,
        }
    }

    /// Whether any target may be in slow start.
    pub(super) fn ramping(&self, now: Moment) -> bool {
        self.spec.slow_start.is_some() && self.shared.ramp_until_us.load(Ordering::Relaxed) > now.as_micros()
    }

    pub(super) fn has_room(&self, target: &Target) -> bool {
        self.max_in_flight.is_none_or(|max| target.state.in_flight() < max)
    }

    /// The tier for a request that these targets failed: the lowest one that has another usable target. A target that is only full counts: a later
    /// tier is for failures, not for load. `None`: there is no choice between tiers.
    pub(super) fn tier(&self, tried: &[TargetId], now: Moment) -> Option<u16> {
        if !self.has_tiers {
            return None;
        }
        let is_usable =
            |target: &&Target| target.alive(now) && !target.state.ejected(now) && !tried.contains(&target.id());
        self.targets.iter().filter(is_usable).map(|target| target.tier).min()
    }

    /// Takes a place at the target that a cookie names, if it may be used, of whatever tier it is.
    pub(super) fn enter_wanted(self: &Arc<Self>, wanted: &Token, tried: &[TargetId], now: Moment) -> Option<Lease> {
        let is_usable = |target: &Target| {
            target.token.as_ref() == Some(wanted)
                && target.alive(now)
                && !target.state.ejected(now)
                && self.has_room(target)
                && !tried.contains(&target.id())
        };
        let index = self.targets.iter().position(is_usable)?;
        self.acquire(index, now)
    }

    /// Takes a place at a target for one request. `None`: its last place, or its breaker's one probe, went to somebody else.
    pub(super) fn acquire(self: &Arc<Self>, index: usize, now: Moment) -> Option<Lease> {
        let target = &self.targets[index];
        let entry = match &target.breaker {
            None => None,
            Some(breaker) => Some(breaker.acquire(now)?),
        };
        if target.state.acquire(self.max_in_flight) {
            return Some(Lease::new(self.clone(), index, entry, now));
        }
        if let (Some(breaker), Some(entry)) = (&target.breaker, entry) {
            breaker.abandon(entry);
        }
        None
    }

    /// The choice where the balance has none to offer, and the choice for those who wait: the least loaded target, by weight, of the best group
    /// that has room:
    ///
    /// 1. usable targets that were not tried for this request;
    /// 2. usable targets that were (a sole target may be tried twice, and a connection that broke says little);
    /// 3. ejected targets, when not one usable target is left: ejection is a guess from a few failures, and a guess must not turn the last
    ///    targets off. What active checks found dead, or a breaker holds back, stays out: then [`Grant::Unavailable`] leads to a fallback.
    ///
    /// Of a group only the targets of its first tier count.
    ///
    /// `again` says what tried targets are good for.
    pub(super) fn least_loaded(self: &Arc<Self>, tried: &[TargetId], again: Again, now: Moment) -> Grant {
        let mut refused: Vec<usize> = Vec::new();
        loop {
            let group = |ejected: bool, was_tried: bool| {
                let members = self.targets.iter().enumerate().filter(move |(_, target)| {
                    target.alive(now)
                        && target.state.ejected(now) == ejected
                        && tried.contains(&target.id()) == was_tried
                });
                let mut found = Group { exists: false, best: None };
                let mut first_tier = u16::MAX;
                for (index, target) in members {
                    found.exists = true;
                    if target.tier > first_tier || refused.contains(&index) {
                        continue;
                    }
                    if target.tier < first_tier {
                        first_tier = target.tier;
                        found.best = None;
                    }
                    if self.has_room(target) {
                        let load = f64::from(target.state.in_flight()) / f64::from(target.weight);
                        if found.best.is_none_or(|(least, _)| load < least) {
                            found.best = Some((load, index));
                        }
                    }
                }
                found
            };
            let tried_group = |ejected: bool| match again {
                Again::Never => Group { exists: false, best: None },
                Again::AtOnce | Again::IfNoneIsLeft => group(ejected, true),
            };
            let (fresh, used) = (group(false, false), tried_group(false));
            let mut best = fresh.best;
            if best.is_none() && !(fresh.exists && again == Again::IfNoneIsLeft) {
                best = used.best;
            }
            let mut exists = fresh.exists || used.exists;
            if !exists || (best.is_none() && again == Again::Never) {
                let (fresh, used) = (group(true, false), tried_group(true));
                best = fresh.best.or(used.best);
                exists |= fresh.exists || used.exists;
            }
            let Some((_, index)) = best else {
                return if exists { Grant::Full } else { Grant::Unavailable };
            };
            match self.acquire(index, now) {
                Some(lease) => return Grant::Lease(lease),
                None => refused.push(index),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Group {
    exists: bool,
    best: Option<(f64, usize)>,
}
