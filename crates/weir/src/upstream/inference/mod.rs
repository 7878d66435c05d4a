//! What is known about the replicas of an inference engine: what each engine tells of itself, and which replica has seen which prompt.
//!
//! Like all state of upstreams it is shared by the workers and survives reloads. The rule of the choice is [`llm::balance::choose`].

mod scrape;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use llm::balance::{EngineMetrics, MAX_REPLICAS, PrefixIndex, PrefixMatch};
use llm::request::PrefixHashes;

use super::buckets::Buckets;
use super::target::{Target, TargetId};
use super::time::Moment;

pub(super) use scrape::watch;

/// What the engine of a target tells of itself.
#[derive(Debug, Default)]
pub(super) struct EngineState {
    last: ArcSwapOption<Scrape>,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

/// A scrape that succeeded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scrape {
    /// When it was begun.
    pub(super) at: Moment,
    pub(super) metrics: EngineMetrics,
    /// Own requests in flight at that time: the engine counts them too.
    pub(super) in_flight: u32,
}

impl EngineState {
    pub(super) fn succeed(&self, scrape: Scrape) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
        self.last.store(Some(Arc::new(scrape)));
    }

    pub(super) fn fail(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// The last scrape that succeeded, however old.
    pub(super) fn last(&self) -> Option<Scrape> {
        self.last.load().as_deref().copied()
    }

    /// The last scrape, unless it is too old to say anything.
    pub(super) fn fresh(&self, now: Moment, stale_after: Duration) -> Option<Scrape> {
        self.last().filter(|scrape| now.since(scrape.at) < stale_after)
    }

    /// Scrapes since the start that succeeded, and that failed.
    pub(super) fn scrapes(&self) -> (u64, u64) {
        (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// What decided a pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickReason {
    /// The replica has seen the start of the prompt.
    Prefix,
    /// It has the lower load of two, as their engines tell.
    Load,
    /// It has fewer requests of this gateway in flight: an engine tells nothing, or nothing new.
    InFlight,
}

impl PickReason {
    /// All, in the order of their counts.
    pub const ALL: [PickReason; 3] = [PickReason::Prefix, PickReason::Load, PickReason::InFlight];

    /// Name in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            PickReason::Prefix => "prefix",
            PickReason::Load => "load",
            PickReason::InFlight => "in_flight",
        }
    }
}

/// Upper bounds of the share of a prompt that its replica had seen.
pub(crate) const MATCH_BOUNDS: [f64; 10] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0];

/// What an upstream knows of its replicas.
#[derive(Default)]
pub(super) struct Replicas {
    /// By slot.
    index: PrefixIndex,
    /// Who has each slot. A target keeps its slot as long as it is a target, as the index knows it by that.
    slots: Mutex<Vec<Option<TargetId>>>,
    picks: [AtomicU64; PickReason::ALL.len()],
    matches: Buckets<{ MATCH_BOUNDS.len() + 1 }>,
}

impl Replicas {
    /// Gives each target its slot; slots of removed targets are free again. Beyond [`MAX_REPLICAS`] there are none.
    pub(super) fn assign(&self, targets: &mut [Target]) {
        let mut slots = super::lock(&self.slots);
        slots.resize(MAX_REPLICAS, None);
        for (slot, owner) in slots.iter_mut().enumerate() {
            if owner.is_some_and(|owner| targets.iter().all(|target| target.id() != owner)) {
                self.index.forget(slot);
                *owner = None;
            }
        }
        for target in targets {
            let id = target.id();
            let own = slots.iter().position(|owner| *owner == Some(id));
            let slot = own.or_else(|| slots.iter().position(Option::is_none));
            if let Some(slot) = slot {
                slots[slot] = Some(id);
            }
            target.slot = slot.map(|slot| slot as u8);
        }
    }

    /// The longest start of a prompt that one of the targets has seen whose bit is in `eligible`; bits are positions in `targets`.
    pub(super) fn longest(&self, prompt: &PrefixHashes, targets: &[Target], eligible: u128) -> PrefixMatch {
        let positions = || targets.iter().take(MAX_REPLICAS).enumerate().filter(|(i, _)| eligible >> i & 1 == 1);
        let slots = positions().filter_map(|(_, target)| target.slot).fold(0, |bits, slot| bits | 1_u128 << slot);
        let found = self.index.longest(prompt.as_slice(), slots);
        let has = |target: &Target| target.slot.is_some_and(|slot| found.replicas >> slot & 1 == 1);
        let replicas = positions().filter(|(_, target)| has(target)).fold(0, |bits, (i, _)| bits | 1_u128 << i);
        PrefixMatch { replicas, blocks: found.blocks }
    }

    /// The prompt goes to this target.
    pub(super) fn saw(&self, target: &Target, prompt: &PrefixHashes) {
        if let Some(slot) = target.slot {
            self.index.insert(prompt.as_slice(), usize::from(slot));
        }
    }

    /// It did not get there.
    pub(super) fn missed(&self, target: &Target, prompt: &PrefixHashes) {
        if let Some(slot) = target.slot {
            self.index.remove(prompt.as_slice(), usize::from(slot));
        }
    }

    /// The cache of the target is empty: its engine has started anew.
    pub(super) fn forget(&self, target: &Target) {
        if let Some(slot) = target.slot {
            self.index.forget(usize::from(slot));
        }
    }

    /// Counts a pick. `share`: of the prompt that the replica had seen, if the prompt is long enough to tell.
    pub(super) fn count(&self, reason: PickReason, share: Option<f64>) {
        self.picks[reason as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(share) = share {
            self.matches.observe(&MATCH_BOUNDS, share);
        }
    }

    /// Picks since the start, in the order of [`PickReason::ALL`].
    pub(super) fn picks(&self) -> [u64; PickReason::ALL.len()] {
        std::array::from_fn(|index| self.picks[index].load(Ordering::Relaxed))
    }

    /// Counts by [`MATCH_BOUNDS`] and one more, and the sum of the shares.
    pub(super) fn matches(&self) -> ([u64; MATCH_BOUNDS.len() + 1], f64) {
        self.matches.read()
    }
}

impl std::fmt::Debug for Replicas {
    /// Without the index, which has 65,536 entries.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replicas").field("slots", &self.slots).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
