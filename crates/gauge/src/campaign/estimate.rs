//! How long a campaign takes by plan, for somebody who decides whether to start it.

use std::time::Duration;

use super::addressed::planned_duration;
use crate::plan::{Plan, PlannedLoad, SystemKind, Warmup};

/// What is planned. How long programs take to build, to start and to be checked is not known before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Starts of systems: once to check each, and once in each round.
    pub starts: u32,
    /// Trials that take a planned time.
    pub timed: u32,
    /// The load of these, with its warm-up.
    pub load: Duration,
    /// Trials that take as long as their requests, and searches.
    pub open: u32,
}

impl Estimate {
    /// Of a whole campaign.
    pub fn of(plan: &Plan) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let started = plan.systems.iter().filter(|system| !matches!(system.kind, SystemKind::Direct));
        let checked = started.clone().filter(|system| system.control_of.is_none()).count();
        let systems = count(plan.systems.len());
        let in_rounds = count(started.count()).saturating_mul(plan.repeats);
        let mut estimate = Estimate { starts: in_rounds.saturating_add(count(checked)), ..Estimate::default() };
        for workload in &plan.workloads {
            let (rounds, duration) = match &workload.load {
                PlannedLoad::Fixed(load) => (plan.repeats, planned_duration(load, true)),
                PlannedLoad::Search(search) => (plan.repeats.min(search.rounds), None),
            };
            let trials = systems.saturating_mul(rounds);
            let warmup = if let Warmup::For(warmup) = workload.warmup { warmup } else { Duration::ZERO };
            match duration {
                Some(duration) => {
                    estimate.timed = estimate.timed.saturating_add(trials);
                    let load = duration.saturating_add(warmup).saturating_mul(trials);
                    estimate.load = estimate.load.saturating_add(load);
                }
                None => estimate.open = estimate.open.saturating_add(trials),
            }
        }
        estimate
    }
}

#[cfg(test)]
mod tests;
