//! Limits as one worker applies them.

use std::rc::Rc;
use std::sync::Arc;

use super::budget::WorkerBudget;
use super::check::{Permit, Stage};
use super::fields::Texts;
use super::lease::{Lease, Token};
use super::memory::Receipt;
use super::{Algorithm, Decision, Key, Limit, Limits, Now, Remote};
use crate::config::{BudgetId, LimitId, LimitKey, LimitStore, LimitTiers};
use crate::observe::refused_keys::RefusedKeys;
use crate::observe::{LimitMetrics, Shard};

/// The limits of a configuration, for one worker.
pub struct WorkerLimits {
    /// What all workers share.
    pub shared: Arc<Limits>,
    /// By [`LimitId`]; `None` for those that are switched off.
    list: Vec<Option<WorkerLimit>>,
    /// Limits of tokens and money, by [`BudgetId`].
    budgets: Vec<Option<WorkerBudget>>,
    /// Where limits with `store: redis` are counted.
    pub remote: Option<Rc<Remote>>,
    /// The keys that are refused most.
    pub(super) refused: Arc<RefusedKeys>,
}

/// One limit, for one worker.
pub struct WorkerLimit {
    /// What all workers share.
    pub limit: Arc<Limit>,
    /// Counts of what it decided here.
    pub metrics: LimitMetrics,
    pub(super) texts: Texts,
    /// Tokens taken in advance, where it would be contended without.
    lease: Option<Lease>,
}

/// Which limits a route applies. Those in memory come before those with a shared store, else they are in the order of the file.
#[derive(Default)]
pub struct RouteLimits {
    pub(super) order: Box<[usize]>,
    /// Limits of tokens and money, which are checked later: once it is known what the request may use.
    pub(super) budgets: Box<[usize]>,
    /// How many of them, the first ones, are in memory and do not need to know who sends the request.
    pub(super) early: usize,
    /// How many of them are in memory.
    pub(super) local: usize,
    /// `RateLimit-Policy` of all of them, a whole line; empty when none shows it.
    pub(super) policy: Vec<u8>,
    /// Whether it depends on the sender which of them hold.
    pub(super) has_tiers: bool,
}

/// How a charge is taken back.
#[derive(Debug, Clone, Copy)]
pub(super) enum Charged {
    /// By giving this to the store.
    Stored(Receipt),
    /// By putting the token back.
    Leased(Token),
    /// By letting go of the permit.
    Held,
    /// There is nothing to take back: a limit that is not enforced would have refused.
    Nothing,
}

impl WorkerLimits {
    /// A worker's view; `workers` is how many there are.
    pub fn new(shared: Arc<Limits>, count: usize, shard: &Shard, workers: usize, remote: Option<Rc<Remote>>) -> Self {
        let worker_limit = |limit: &Arc<Limit>| WorkerLimit {
            metrics: shard.limit(&limit.spec.name),
            texts: Texts::new(limit),
            lease: lease(limit, workers),
            limit: limit.clone(),
        };
        let list = (0..count).map(|index| shared.get(index).map(worker_limit)).collect();
        let budget = |index| {
            let budget = shared.budgets().get(index)?.clone();
            Some(WorkerBudget { metrics: shard.limit(&budget.spec.name), budget })
        };
        let budgets = (0..shared.budgets().count()).map(budget).collect();
        WorkerLimits { budgets, list, remote, shared, refused: shard.refused_keys() }
    }

    /// The limit at an index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&WorkerLimit> {
        self.list.get(index)?.as_ref()
    }

    /// The limit of tokens or money at an index.
    pub(super) fn budget(&self, index: usize) -> Option<&WorkerBudget> {
        self.budgets.get(index)?.as_ref()
    }

    /// Whether the limit at an index refuses requests.
    pub(super) fn enforces(&self, index: usize) -> bool {
        self.get(index).is_none_or(|limit| limit.limit.spec.enforce)
    }

    /// What a route that names these limits applies.
    pub fn of_route(&self, ids: &[LimitId]) -> RouteLimits {
        let on = |store| {
            let is_on = move |index: &usize| self.get(*index).is_some_and(|limit| limit.limit.spec.store == store);
            ids.iter().map(|id| id.0).filter(is_on)
        };
        let needs_identity = |index: &usize| self.get(*index).is_some_and(|limit| limit.limit.spec.needs_identity());
        let local = on(LimitStore::Memory).count();
        let early = on(LimitStore::Memory).filter(|index| !needs_identity(index)).count();
        let mut order: Box<[usize]> = on(LimitStore::Memory).chain(on(LimitStore::Redis)).collect();
        // Stable: else they stay in the order of the file.
        order[..local].sort_by_key(needs_identity);
        let policy = Texts::policy_line(order.iter().filter_map(|index| self.get(*index)).map(|limit| &limit.texts));
        let has_tiers =
            order.iter().any(|index| self.get(*index).is_some_and(|limit| limit.limit.spec.tiers != LimitTiers::All));
        RouteLimits { order, early, local, policy, has_tiers, budgets: Box::default() }
    }

    /// The same with limits of tokens and money.
    pub fn with_budgets(&self, limits: RouteLimits, ids: &[BudgetId]) -> RouteLimits {
        let budgets = ids.iter().map(|id| id.0).filter(|index| self.budget(*index).is_some());
        RouteLimits { budgets: budgets.collect(), ..limits }
    }
}

impl RouteLimits {
    /// Whether there is nothing to check.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether the route has limits of tokens or money.
    pub fn has_budgets(&self) -> bool {
        !self.budgets.is_empty()
    }

    /// The limits of a stage.
    pub(super) fn of_stage(&self, stage: Stage) -> std::ops::Range<usize> {
        match stage {
            Stage::All => 0..self.order.len(),
            Stage::Early => 0..self.early,
            Stage::Late => self.early..self.order.len(),
            Stage::Refused => self.local..self.order.len(),
        }
    }
}

impl WorkerLimit {
    /// Whether it would allow this. Writes nothing.
    pub(super) fn peek(&self, key: Key, cost: u64, now: Now) -> Decision {
        match &self.lease {
            Some(lease)
                if cost == 1
                    && let Some(decision) = lease.peek(now) =>
            {
                decision
            }
            _ => self.limit.memory.peek(key, cost, now),
        }
    }

    /// Checks and charges. Requests in flight are noted in `held`.
    #[inline]
    pub(super) fn charge(&self, key: Key, cost: u64, now: Now, held: &mut Vec<Permit>) -> (Decision, Charged) {
        if let Some(lease) = &self.lease
            && cost == 1
            && let Some((decision, token)) = lease.spend(&self.limit.memory, key, now)
        {
            return (decision, Charged::Leased(token));
        }
        let (decision, receipt) = self.limit.memory.charge(key, cost, now);
        if decision.allowed && matches!(self.limit.algorithm, Algorithm::Concurrency(_)) {
            held.push(Permit::new(self.limit.memory.clone(), key, cost, receipt));
            return (decision, Charged::Held);
        }
        (decision, Charged::Stored(receipt))
    }

    /// Takes a charge back; permits are let go by their holder.
    pub(super) fn undo(&self, key: Key, cost: u64, charged: Charged, now: Now) {
        match (charged, &self.lease) {
            (Charged::Stored(receipt), _) => self.limit.memory.refund(key, cost, receipt, now),
            (Charged::Leased(token), Some(lease)) => lease.put_back(token, &self.limit.memory, key, now),
            (Charged::Leased(_), None) | (Charged::Held | Charged::Nothing, _) => {}
        }
    }
}

/// A lease for a token bucket that everyone shares.
fn lease(limit: &Limit, workers: usize) -> Option<Lease> {
    match (&limit.algorithm, &*limit.spec.key, limit.spec.store) {
        (Algorithm::TokenBucket(bucket), [LimitKey::Global], LimitStore::Memory) => Lease::of(bucket, workers),
        _ => None,
    }
}
