//! A worker's view of the upstreams: where picks happen.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use llm::request::PrefixHashes;

use super::balance::{Balancer, Choice};
use super::lease::Lease;
use super::queue::{self, QueueEntry, WaitError};
use super::retry::{self, Attempt, Deposits, NoRetry};
use super::rng::Rng;
use super::set::{Again, Grant, TargetSet};
use super::target::TargetId;
use super::time::Moment;
use super::{Upstream, Upstreams};
use crate::config::{self, UpstreamId};

/// What a pick depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Key of a consistent hash, see [`super::hash_key`]; only `balance: hash` looks at it.
    pub hash: Option<u64>,
    /// Start of the prompt of a model call; only `balance: inference` looks at it.
    pub prompt: Option<&'a PrefixHashes>,
    /// What names the target that served the client before, see [`Target::token`](super::Target::token).
    pub wanted: Option<super::Token>,
    /// Targets that earlier attempts of this request went to: avoided while there is another. Empty on the first attempt, which feeds the retry budget.
    pub tried: &'a [TargetId],
    /// The tried targets were not reached, so they do not get the request again: an ejected target comes before them, as its ejection is a guess.
    pub only_untried: bool,
}

/// Result of a pick.
#[derive(Debug)]
pub enum Pick {
    /// Go there.
    Target(Lease),
    /// Every usable target is at `max_in_flight`, or others wait already: [`View::wait`], or respond with 503.
    Busy,
    /// No target may be used: all unhealthy, held back by their breakers, or not resolved yet.
    Unavailable,
}

/// All upstreams as one worker sees them. Not `Sync`: each worker has its own.
pub struct Views {
    upstreams: Arc<Upstreams>,
    /// Shared with the views of the configurations before and after, as far as upstreams stay.
    views: Vec<Rc<View>>,
}

impl Views {
    /// Views of all upstreams. Give each worker another seed.
    pub fn new(upstreams: Arc<Upstreams>, seed: u64) -> Views {
        Views::after(&[], upstreams, seed)
    }

    /// After a reload: the new configuration's upstreams. Views of those that stayed are the same ones, with their place in the round and their share of
    /// the retry budget.
    #[must_use]
    pub fn reload(&self, upstreams: Arc<Upstreams>, seed: u64) -> Views {
        Views::after(&self.views, upstreams, seed)
    }

    fn after(before: &[Rc<View>], upstreams: Arc<Upstreams>, seed: u64) -> Views {
        let mut rng = Rng::new(seed);
        let known: HashMap<*const Upstream, &Rc<View>> =
            before.iter().map(|view| (Arc::as_ptr(&view.upstream), view)).collect();
        let view = |upstream: &Arc<Upstream>| match known.get(&Arc::as_ptr(upstream)) {
            Some(view) => Rc::clone(view),
            None => Rc::new(View::new(upstream.clone(), rng.next())),
        };
        let views = upstreams.iter().map(view).collect();
        Views { upstreams, views }
    }

    /// The view of an upstream of the same configuration.
    ///
    /// # Panics
    /// When the id belongs to another configuration and is out of range.
    pub fn get(&self, id: UpstreamId) -> &View {
        &self.views[id.0]
    }

    /// What these views look at.
    pub fn upstreams(&self) -> &Arc<Upstreams> {
        &self.upstreams
    }
}

/// One upstream as one worker sees it.
pub struct View {
    upstream: Arc<Upstream>,
    local: RefCell<Local>,
}

struct Local {
    /// This worker's own copy: its count of references, which every lease changes, is on no other worker's cache line.
    set: Arc<TargetSet>,
    balancer: Balancer,
    rng: Rng,
    /// This worker's share of the retry budget's count.
    deposits: Arc<Deposits>,
    /// Targets that refused during the current pick; kept for its memory.
    refused: Vec<usize>,
}

impl View {
    fn new(upstream: Arc<Upstream>, seed: u64) -> View {
        let mut rng = Rng::new(seed);
        let set = Arc::new(TargetSet::clone(&upstream.published.load()));
        let balancer = Balancer::new(&set, &mut rng);
        let deposits = upstream.shared.budget.join();
        let local = Local { set, balancer, rng, deposits, refused: Vec::new() };
        View { upstream, local: RefCell::new(local) }
    }

    /// Picks a target for one attempt. No lock, no allocation, no system call in the ordinary case.
    pub fn pick(&self, request: &Request<'_>, now: Moment) -> Pick {
        let local = &mut *self.local.borrow_mut();
        if self.upstream.generation.load(Ordering::Acquire) != local.set.generation {
            local.refresh(&self.upstream);
        }
        let set = &local.set;
        if request.tried.is_empty() && set.spec.retry.extra_attempts > 0 {
            local.deposits.count(now);
        }
        if set.shared.queue.is_waited_for() {
            return Pick::Busy;
        }
        if let Some(wanted) = request.wanted
            && let Some(lease) = set.enter_wanted(&wanted, request.tried, now)
        {
            return Pick::Target(lease);
        }
        let tier = set.tier(request.tried, now);
        let ramp = if set.ramping(now) { set.spec.slow_start } else { None };
        local.refused.clear();
        loop {
            let refused = &local.refused;
            let choice = Choice {
                targets: &set.targets,
                is_even: set.has_even_weights && ramp.is_none(),
                ramp,
                hash: request.hash,
                prompt: request.prompt,
                now,
                admits: |index: usize| {
                    let target = &set.targets[index];
                    tier.is_none_or(|tier| target.tier == tier)
                        && target.alive(now)
                        && !target.state.ejected(now)
                        && set.has_room(target)
                        && !request.tried.contains(&target.id())
                        && !refused.contains(&index)
                },
            };
            let Some(index) = local.balancer.choose(&choice, &mut local.rng) else {
                break;
            };
            match set.acquire(index, now) {
                Some(lease) => return Pick::Target(lease),
                None => local.refused.push(index),
            }
        }
        // Nothing that the policy may choose: what is left is decided by need, not by policy.
        let again = match (request.only_untried, set.spec.queue.is_some()) {
            (true, _) => Again::Never,
            (false, true) => Again::IfNoneIsLeft,
            (false, false) => Again::AtOnce,
        };
        match set.least_loaded(request.tried, again, now) {
            Grant::Lease(lease) => Pick::Target(lease),
            Grant::Full => Pick::Busy,
            Grant::Unavailable => Pick::Unavailable,
        }
    }

    /// Enters the queue at once, and waits for a place at any target. The future needs nothing of this view, and leaves the queue when it is dropped.
    pub fn wait(&self, entry: QueueEntry) -> impl Future<Output = Result<Lease, WaitError>> + Send + use<> {
        self.wait_for_untried(entry, &[])
    }

    /// The same for a request that these targets failed: while it waits for others, it does not get a place there.
    pub fn wait_for_untried(
        &self,
        entry: QueueEntry,
        tried: &[TargetId],
    ) -> impl Future<Output = Result<Lease, WaitError>> + Send + use<> {
        let set = self.local.borrow().set.clone();
        queue::wait(self.upstream.clone(), set.spec.queue.as_ref(), entry, tried.into())
    }

    /// Whether a target that a request may still go to was not tried for it. One without room counts if there is a queue to wait in.
    pub fn has_untried(&self, tried: &[TargetId], now: Moment) -> bool {
        let local = self.local.borrow();
        let set = &local.set;
        let may_wait = set.spec.queue.is_some();
        set.targets
            .iter()
            .any(|target| target.alive(now) && !tried.contains(&target.id()) && (may_wait || set.has_room(target)))
    }

    /// Whether to make one more attempt at this upstream after `attempts` of them, the last of which failed. Takes from the retry budget, so call it
    /// only to do it. (For a fallback upstream only [`retry::may_repeat`] counts.)
    ///
    /// # Errors
    /// The first reason against it.
    pub fn may_retry(&self, attempt: &Attempt, attempts: u32, now: Moment) -> Result<(), NoRetry> {
        let local = self.local.borrow();
        let spec = &local.set.spec.retry;
        retry::may_repeat(attempt, spec.on)?;
        if attempts > spec.extra_attempts {
            return Err(NoRetry::AttemptsUsed);
        }
        if !local.set.shared.budget.withdraw(spec.budget, now) {
            return Err(NoRetry::OverBudget);
        }
        Ok(())
    }

    /// Takes one retry from the budget, for whoever decides by other rules than [`retry::may_repeat`] what may be repeated.
    pub fn spend_retry(&self, now: Moment) -> bool {
        let local = self.local.borrow();
        local.set.shared.budget.withdraw(local.set.spec.retry.budget, now)
    }

    /// The specification that picks follow at the moment.
    pub fn spec(&self) -> Arc<config::Upstream> {
        self.local.borrow().set.spec.clone()
    }

    /// The shared upstream.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }
}

impl Local {
    /// Takes over what the control thread has published. Rare: a reload, a new DNS response.
    #[cold]
    fn refresh(&mut self, upstream: &Upstream) {
        self.set = Arc::new(TargetSet::clone(&upstream.published.load()));
        self.balancer = Balancer::new(&self.set, &mut self.rng);
    }
}

#[cfg(test)]
mod tests;
