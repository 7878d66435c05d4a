//! What operators do to targets of a process that runs: it lasts until they undo it, the target is no longer named, or the process ends.

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;

use super::snapshot::condition;
use super::target::Target;
use super::{TargetCondition, Upstream, Upstreams, lock};

/// What is done to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetAction {
    /// No new requests, also if no other target is left; those in flight go on.
    Drain,
    /// The end of that.
    Undrain,
    /// As if it had failed: left out for so long, as far as others are left.
    Eject(Duration),
    /// Ends an ejection.
    Readmit,
    /// Closes its breaker.
    ResetBreaker,
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    /// No upstream has this name.
    #[error("No upstream is named `{0}`.")]
    NoUpstream(String),
    /// The upstream has no target with this address.
    #[error("Upstream `{upstream}` has no target with the address `{target}`; /upstreams lists them.")]
    NoTarget {
        /// Name of the upstream.
        upstream: String,
        /// What was looked for.
        target: String,
    },
    /// The upstream has no breaker.
    #[error("Upstream `{0}` has no breaker.")]
    NoBreaker(String),
}

impl TargetAction {
    /// Name in URLs and in the log.
    pub fn name(self) -> &'static str {
        match self {
            TargetAction::Drain => "drain",
            TargetAction::Undrain => "undrain",
            TargetAction::Eject(_) => "eject",
            TargetAction::Readmit => "readmit",
            TargetAction::ResetBreaker => "reset-breaker",
        }
    }
}

/// A target that an operator keeps requests away from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrainedTarget {
    /// Name of its upstream.
    pub upstream: String,
    /// Its address.
    pub target: String,
    /// For how long.
    pub ms: u64,
}

impl Upstreams {
    /// Does something to every target of an upstream with this address, and writes it to the log; returns what the target is like then.
    ///
    /// # Errors
    /// When there is no such target.
    pub fn act(&self, upstream: &str, target: &str, action: TargetAction) -> Result<TargetCondition, ActError> {
        let found = self.list.iter().find(|known| &*known.name == upstream);
        found.ok_or_else(|| ActError::NoUpstream(upstream.to_owned()))?.act(target, action)
    }

    /// Targets that are drained.
    pub fn drained(&self) -> Vec<DrainedTarget> {
        let now = self.clock().now();
        let of = |upstream: &Upstream| {
            let set = upstream.published.load();
            // Several targets may have one address.
            let mut listed = HashSet::new();
            let drained = set.targets.iter().filter_map(|target| {
                let ms = now.since(target.state.drained_since()?).as_millis() as u64;
                let is_new = listed.insert(target.text.clone());
                is_new.then(|| DrainedTarget {
                    upstream: upstream.name.to_string(),
                    target: target.text.to_string(),
                    ms,
                })
            });
            drained.collect::<Vec<_>>()
        };
        self.list.iter().flat_map(|upstream| of(upstream)).collect()
    }
}

impl Upstream {
    fn act(&self, address: &str, action: TargetAction) -> Result<TargetCondition, ActError> {
        // The next set is not made of this one meanwhile.
        let members = lock(&self.members);
        let set = self.published.load_full();
        let targets: Vec<&Target> = set.targets.iter().filter(|target| &*target.text == address).collect();
        let Some(first) = targets.first().copied() else {
            return Err(ActError::NoTarget { upstream: self.name.to_string(), target: address.to_owned() });
        };
        if action == TargetAction::ResetBreaker && set.spec.breaker.is_none() {
            return Err(ActError::NoBreaker(self.name.to_string()));
        }
        let now = self.common.clock.now();
        for target in targets {
            match action {
                TargetAction::Drain => target.state.drain(now),
                TargetAction::Undrain => {
                    if target.state.undrain(now) {
                        self.shared.ramp_until(&set, now);
                    }
                }
                TargetAction::Eject(period) => {
                    let until = now.after(period);
                    target.state.eject_until(until);
                    self.shared.ramp_until(&set, until);
                }
                TargetAction::Readmit => {
                    if target.state.ejected(now) {
                        target.state.readmit(now);
                        self.shared.ramp_until(&set, now);
                    }
                }
                TargetAction::ResetBreaker => {
                    if let Some(breaker) = &target.breaker {
                        breaker.reset();
                    }
                }
            }
        }
        drop(members);
        tracing::info!(upstream = %self.name, target = address, action = action.name(), "an operator acted on a target");
        // Some may get a place now; others have nothing left to wait for.
        self.serve_waiters();
        Ok(condition(&set, first, now))
    }
}

#[cfg(test)]
mod tests;
