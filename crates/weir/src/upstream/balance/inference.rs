//! Replicas of an inference engine: the one that has seen the start of the prompt, else the less loaded of two.
//!
//! Which replica that is, [`llm::balance::choose`] says; here it is told what is known of each.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use llm::balance::{self, Load, MAX_REPLICAS, PrefixMatch, Reason, Settings};
use llm::request::{BLOCK_BYTES, MAX_BLOCKS};

use super::Choice;
use super::two_choices::{Cost, TwoChoices};
use crate::config;
use crate::upstream::inference::PickReason;
use crate::upstream::rng::Rng;
use crate::upstream::set::{Shared, TargetSet};

pub(in crate::upstream) struct Inference {
    settings: Settings,
    stale_after: Duration,
    shared: Arc<Shared>,
    /// Of each target; kept for its memory.
    loads: Vec<Load>,
    /// For more targets than the rule distinguishes.
    many: Option<TwoChoices>,
}

impl Inference {
    pub(in crate::upstream) fn new(set: &TargetSet, spec: &config::Inference) -> Inference {
        let count = set.targets.len();
        let many = (count > MAX_REPLICAS).then(|| TwoChoices::new(&set.targets, true, Cost::InFlight));
        Inference {
            settings: spec.settings,
            stale_after: spec.stale_after(),
            shared: set.shared.clone(),
            loads: Vec::with_capacity(count),
            many,
        }
    }

    pub(in crate::upstream) fn choose<F: Fn(usize) -> bool>(
        &mut self,
        choice: &Choice<'_, F>,
        rng: &mut Rng,
    ) -> Option<usize> {
        if let Some(many) = &mut self.many {
            return many.choose(choice, rng);
        }
        self.loads.clear();
        self.loads.extend(choice.targets.iter().enumerate().map(|(index, target)| {
            let in_flight = target.state.in_flight();
            let scrape = target.state.engine.fresh(choice.now, self.stale_after);
            Load {
                metrics: scrape.map(|scrape| scrape.metrics),
                since_scrape: scrape.map_or(0, |scrape| in_flight.cast_signed() - scrape.in_flight.cast_signed()),
                in_flight,
                available: (choice.admits)(index),
            }
        }));
        let replicas = self.shared.replicas();
        // Bytes that are not hashed cannot match, and do not count against those that do.
        let bytes = choice.prompt.map_or(0, |prompt| prompt.prompt_bytes.min(MAX_BLOCKS * BLOCK_BYTES));
        let blocks = bytes as f64 / BLOCK_BYTES as f64;
        let longest = Cell::new(0);
        let look_up = |eligible| {
            let Some(prompt) = choice.prompt else { return PrefixMatch::default() };
            let found = replicas.longest(prompt, choice.targets, eligible);
            longest.set(found.blocks);
            found
        };
        let chosen = balance::choose(&self.loads, &self.settings, blocks, look_up, rng.next())?;
        let (reason, seen) = match chosen.reason {
            Reason::Prefix => (PickReason::Prefix, longest.get()),
            Reason::Load if self.loads.iter().all(|load| load.metrics.is_some() || !load.available) => {
                (PickReason::Load, 0)
            }
            Reason::Load => (PickReason::InFlight, 0),
        };
        let has_blocks = choice.prompt.is_some_and(|prompt| !prompt.as_slice().is_empty());
        replicas.count(reason, has_blocks.then(|| (seen as f64 / blocks).min(1.0)));
        Some(chosen.replica)
    }
}
