//! Passive ejection: a target that fails `after` times in a row is left out for a while, as long as enough others remain.
//!
//! The run of failures is ended by a success only, not by the ejection itself: a target that comes back and fails its first request is out again at
//! once, one that responds to it starts with a clean record.

use std::sync::Mutex;

use super::set::TargetSet;
use super::target::{Health, Target};
use super::time::Moment;
use crate::config;

/// Guards the decision, so that the ceiling is exact over all workers. Taken only after `after` failures in a row.
#[derive(Debug, Default)]
pub(super) struct Ejector(Mutex<()>);

impl Ejector {
    /// Called after a failure, the last of `in_a_row`. Returns whether the target was ejected by it.
    pub(super) fn after_failure(
        &self,
        set: &TargetSet,
        target: &Target,
        spec: &config::Eject,
        in_a_row: u32,
        now: Moment,
    ) -> bool {
        if in_a_row < spec.after || target.state.ejected(now) {
            return false;
        }
        let _deciding = super::lock(&self.0);
        if target.state.ejected(now) {
            return false; // another worker was faster
        }
        let out = set.targets.iter().filter(|t| t.id() != target.id() && is_out(t, now)).count();
        if out + 1 > ceiling(set.targets.len(), spec.max_share) {
            return false;
        }
        let until = now.after(spec.period);
        target.state.eject_until(until);
        set.shared.ramp_until(set, until);
        tracing::warn!(
            upstream = %set.spec.name,
            target = %target.address,
            failures = in_a_row,
            seconds = spec.period.as_secs_f64(),
            "target ejected"
        );
        true
    }
}

/// Out for any reason: what active checks or an operator took out must not be doubled by passive ejection.
fn is_out(target: &Target, now: Moment) -> bool {
    target.state.ejected(now) || target.state.health() == Health::Unhealthy || target.state.is_drained()
}

/// How many of `targets` may be out at once: the share, rounded down. A sole target is never ejected unless the share is 100 %.
fn ceiling(targets: usize, max_share: f64) -> usize {
    // The epsilon keeps 0.29 * 100 at 29.
    (targets as f64 * max_share + 1e-9) as usize
}

#[cfg(test)]
mod tests;
