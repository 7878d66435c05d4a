//! How one of several targets is picked: one policy a file.
//!
//! A policy is worker-local and proposes; whether a target may be used (alive, not ejected, not at its maximum, not tried before) is the caller's
//! decision, through [`Choice::admits`]. A policy returns `None` only when no target is admitted.

mod inference;
mod rendezvous;
mod round_robin;
mod two_choices;

pub(super) use rendezvous::hash_seed;

use std::time::Duration;

use llm::request::PrefixHashes;

use super::rng::Rng;
use super::set::TargetSet;
use super::target::Target;
use super::time::{Moment, micros};
use crate::config;

/// Weights are multiplied by this, so that a target in slow start can have a fraction of one.
const SCALE: u64 = 1000;

/// The least share of its weight that a target in slow start has, in thousandths: it must get some requests to warm up at all.
const RAMP_FLOOR: u64 = 100;

/// One pick.
pub(super) struct Choice<'a, F> {
    pub(super) targets: &'a [Target],
    /// All weights are the same, and no target is in slow start.
    pub(super) is_even: bool,
    /// Length of the slow start, when some target is in it.
    pub(super) ramp: Option<Duration>,
    /// Key of a consistent hash.
    pub(super) hash: Option<u64>,
    /// Start of a prompt.
    pub(super) prompt: Option<&'a PrefixHashes>,
    pub(super) now: Moment,
    /// Whether the target at an index may be used.
    pub(super) admits: F,
}

impl<F: Fn(usize) -> bool> Choice<'_, F> {
    /// Weight of a target now, slow start included; at least 1.
    fn weight(&self, index: usize) -> u64 {
        let target = &self.targets[index];
        let weight = u64::from(target.weight) * SCALE;
        match self.ramp {
            None => weight,
            Some(slow_start) => ramped(weight, target.state.back_since(), slow_start, self.now),
        }
    }
}

/// Share of `weight` at `now` for a target that is back since `since`: from a tenth, in a straight line, to the whole.
fn ramped(weight: u64, since: Moment, slow_start: Duration, now: Moment) -> u64 {
    if since == Moment::START {
        return weight;
    }
    let elapsed = micros(now.since(since));
    let whole = micros(slow_start).max(1);
    if elapsed >= whole {
        return weight;
    }
    let share = (u128::from(elapsed) * u128::from(SCALE) / u128::from(whole)) as u64;
    (weight * share.max(RAMP_FLOOR) / SCALE).max(1)
}

/// The configured policy with this worker's state of it.
pub(super) enum Balancer {
    RoundRobin(round_robin::RoundRobin),
    TwoChoices(two_choices::TwoChoices),
    Rendezvous,
    Inference(inference::Inference),
}

impl Balancer {
    /// For a set of targets. The random generator spreads the workers over the positions of a round.
    pub(super) fn new(set: &TargetSet, rng: &mut Rng) -> Balancer {
        match &set.spec.balance {
            config::Balance::RoundRobin => Balancer::RoundRobin(round_robin::RoundRobin::new(&set.targets, rng)),
            config::Balance::LeastRequest | config::Balance::Cookie(_) => Balancer::TwoChoices(
                two_choices::TwoChoices::new(&set.targets, set.has_even_weights, two_choices::Cost::InFlight),
            ),
            config::Balance::Ewma => Balancer::TwoChoices(two_choices::TwoChoices::new(
                &set.targets,
                set.has_even_weights,
                two_choices::Cost::PeakEwma,
            )),
            config::Balance::Hash(_) => Balancer::Rendezvous,
            config::Balance::Inference(spec) => Balancer::Inference(inference::Inference::new(set, spec)),
        }
    }

    /// Index of the target to use.
    pub(super) fn choose<F: Fn(usize) -> bool>(&mut self, choice: &Choice<'_, F>, rng: &mut Rng) -> Option<usize> {
        match self {
            Balancer::RoundRobin(policy) => policy.choose(choice),
            Balancer::TwoChoices(policy) => policy.choose(choice, rng),
            Balancer::Rendezvous => {
                // Without a key there is nothing to be consistent with.
                let key = choice.hash.unwrap_or_else(|| rng.next());
                rendezvous::choose(choice, key)
            }
            Balancer::Inference(policy) => policy.choose(choice, rng),
        }
    }
}

#[cfg(test)]
mod tests;
