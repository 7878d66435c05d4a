//! The step of a call: what it may use is reserved from all limits of its route, and settled when it is over.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::check::{Keyed, LimitInput, write_key};
use super::super::{Decision, Key, KeyBytes, RouteLimits, StoreFailed, WorkerLimits};
use super::account::Rule;
use super::remote::{self, Question, Used};
use super::table::{Wanted, reserve_all};
use super::{Budget, LASTS_BEYOND, LASTS_WITHOUT_DEADLINE, WorkerBudget, micros};
use crate::config::{BudgetUnit, LimitStore, OnStoreFailure};
use crate::redis::{Client, Failure};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;

/// What a call may use, or did use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Millionths of the currency unit.
    pub money: u64,
}

/// What a call wants to reserve.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// The most that it may use.
    pub amounts: Amounts,
    /// How long it may take.
    pub deadline: Option<Duration>,
    /// A number that no other call of any gateway has.
    pub id: u128,
}

impl Amounts {
    fn of(&self, unit: BudgetUnit) -> u64 {
        match unit {
            BudgetUnit::Tokens => self.input.saturating_add(self.output),
            BudgetUnit::InputTokens => self.input,
            BudgetUnit::OutputTokens => self.output,
            BudgetUnit::Money => self.money,
        }
    }
}

/// What a call has reserved. Dropped without being settled, it stands as used.
#[derive(Debug, Default)]
pub struct Reservation {
    charges: Vec<Charge>,
    remote: Option<RemoteReservation>,
    /// The first limit that is not enforced and would have refused the call.
    pub would_refuse: Option<Arc<str>>,
}

struct RemoteReservation {
    client: Rc<Client>,
    id: String,
    /// When it stands as used.
    until_ns: u64,
}

impl std::fmt::Debug for RemoteReservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteReservation").field("id", &self.id).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Charge {
    budget: Arc<Budget>,
    amount: u64,
    place: CountedIn,
}

#[derive(Debug)]
enum CountedIn {
    Memory { key: u128, mark: u64 },
    Redis(Vec<u8>),
}

/// A refusal.
#[derive(Debug)]
pub struct Refused {
    /// The limit.
    pub budget: Arc<Budget>,
    /// Why.
    pub reason: RefusedFor,
    /// What it says.
    pub decision: Decision,
    /// What the call wants of it.
    pub amount: u64,
}

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedFor {
    /// Too little is left.
    Exceeded,
    /// The call wants more than there can be.
    NeverFits,
    /// The call lacks the key.
    MissingKey,
}

impl Refused {
    /// Whether it is about money, or about a window of the calendar: official clients should not try again by themselves.
    pub fn is_quota(&self) -> bool {
        self.budget.is_money()
    }

    /// Seconds after which the same call may pass; none when it never will.
    pub fn retry_after(&self) -> Option<u64> {
        (self.reason == RefusedFor::Exceeded).then(|| self.decision.retry_after())
    }

    /// Why, for people.
    pub fn message(&self) -> String {
        let name = &self.budget.spec.name;
        let unit = match self.budget.spec.unit {
            BudgetUnit::Tokens => "tokens",
            BudgetUnit::InputTokens => "input tokens",
            BudgetUnit::OutputTokens => "output tokens",
            // What a customer may spend is between him and who runs the gateway.
            BudgetUnit::Money => {
                return match self.reason {
                    RefusedFor::MissingKey => format!("The request lacks the key that the limit `{name}` counts by"),
                    _ => format!("The budget `{name}` does not suffice for this request"),
                };
            }
        };
        let (limit, left, amount) = (self.decision.limit, self.decision.remaining, self.amount);
        match self.reason {
            RefusedFor::Exceeded => {
                format!("The limit `{name}` has {left} of {limit} {unit} left; the request may need {amount}")
            }
            RefusedFor::NeverFits => format!(
                "The request may need {amount} {unit}, more than the limit `{name}` ever allows ({limit}); lower `max_tokens` or send less input"
            ),
            RefusedFor::MissingKey => format!("The request lacks the key that the limit `{name}` counts by"),
        }
    }
}

/// One limit of a call.
struct Query<'a> {
    limit: &'a WorkerBudget,
    key: Key,
    amount: u64,
    decision: Decision,
}

/// Reserves what a call may use from all limits of its route, or from none. With it comes what clients are told of each limit.
///
/// # Errors
/// When Redis does not respond and a limit says that calls must not pass then.
pub async fn reserve(
    limits: &WorkerLimits,
    route: &RouteLimits,
    input: &LimitInput<'_>,
    wish: &Wish,
) -> Result<Result<(Reservation, Vec<(Arc<Budget>, Decision)>), Refused>, StoreFailed> {
    let mut reservation = Reservation::default();
    let mut queries: Vec<Query<'_>> = Vec::with_capacity(route.budgets.len());
    let mut bytes = KeyBytes::default();
    for limit in route.budgets.iter().filter_map(|index| limits.budget(*index)) {
        let spec = &limit.budget.spec;
        if !spec.tiers.include(input.identity.and_then(|who| who.tier.as_deref())) {
            continue;
        }
        let amount = wish.amounts.of(spec.unit);
        let refused = |reason, decision| {
            limit.metrics.dropped();
            Refused { budget: limit.budget.clone(), reason, decision, amount }
        };
        match write_key(&mut bytes, &spec.key, &spec.missing_key, input) {
            Keyed::Whole => {}
            Keyed::Skip => continue,
            Keyed::Refuse if spec.enforce => return Ok(Err(refused(RefusedFor::MissingKey, Decision::default()))),
            Keyed::Refuse => {
                reservation.note_unenforced(limit);
                continue;
            }
        }
        let most = limit.budget.rule.limit();
        if amount > most && spec.enforce {
            let decision = Decision { limit: most, ..Decision::default() };
            return Ok(Err(refused(RefusedFor::NeverFits, decision)));
        }
        let key = limit.budget.key(&bytes, &limits.shared);
        queries.push(Query { limit, key, amount, decision: Decision::default() });
    }
    // What costs no round trip first. Stable: else the order is that of the file.
    queries.sort_by_key(|query| query.limit.budget.spec.store == LimitStore::Redis);
    let local = queries.iter().filter(|query| query.limit.budget.spec.store == LimitStore::Memory).count();
    let (memory, shared) = queries.split_at_mut(local);
    let passes = reservation.reserve_here(limits, &mut memory.iter_mut().collect::<Vec<_>>())
        && (shared.is_empty() || reservation.reserve_in_redis(limits, shared, wish).await?);
    if !passes {
        reservation.settle(&Amounts::default(), limits).await;
        let refuses = |query: &&Query<'_>| !query.decision.allowed && query.limit.budget.spec.enforce;
        // The first whose decision was made: those behind it were not checked.
        if let Some(query) = queries.iter().find(|query| refuses(query) && query.decision.is_counted()) {
            query.limit.metrics.dropped();
            let spec = &query.limit.budget.spec;
            limits.note_refused(&spec.name, query.key, &spec.key, input);
            let (budget, decision) = (query.limit.budget.clone(), query.decision);
            return Ok(Err(Refused { budget, reason: RefusedFor::Exceeded, decision, amount: query.amount }));
        }
        return Err(StoreFailed);
    }
    for query in &queries {
        if query.decision.allowed {
            query.limit.metrics.allowed();
        } else {
            reservation.note_unenforced(query.limit);
        }
    }
    let told = queries.iter().filter(|query| query.limit.budget.spec.enforce && query.decision.is_counted());
    let told = told.map(|query| (query.limit.budget.clone(), query.decision)).collect();
    Ok(Ok((reservation, told)))
}

impl Reservation {
    fn note_unenforced(&mut self, limit: &WorkerBudget) {
        limit.metrics.would_refuse();
        self.would_refuse.get_or_insert_with(|| limit.budget.spec.name.clone());
    }

    /// Reserves in memory, all or nothing.
    fn reserve_here(&mut self, limits: &WorkerLimits, queries: &mut [&mut Query<'_>]) -> bool {
        let now_us = micros(limits.shared.now());
        let mut wanted: Vec<Wanted<'_>> = queries
            .iter()
            .map(|query| {
                let budget: &Budget = &query.limit.budget;
                let (amount, enforced) = (query.amount, budget.spec.enforce);
                let (key, decision) = (query.key.0, Decision::default());
                Wanted { table: &budget.table, rule: budget.own, key, amount, enforced, decision, mark: 0 }
            })
            .collect();
        let passes = reserve_all(&mut wanted, now_us);
        let made: Vec<(Decision, u128, u64)> = wanted.iter().map(|one| (one.decision, one.key, one.mark)).collect();
        for (query, (decision, key, mark)) in queries.iter_mut().zip(made) {
            query.decision = decision;
            if passes && decision.allowed {
                let (budget, amount) = (query.limit.budget.clone(), query.amount);
                self.charges.push(Charge { budget, amount, place: CountedIn::Memory { key, mark } });
            }
        }
        passes
    }

    /// Reserves in Redis, all or nothing. Where Redis does not respond, each limit's `on_store_failure` decides.
    async fn reserve_in_redis(
        &mut self,
        limits: &WorkerLimits,
        queries: &mut [Query<'_>],
        wish: &Wish,
    ) -> Result<bool, StoreFailed> {
        let lasts = wish.deadline.map_or(LASTS_WITHOUT_DEADLINE, |deadline| deadline + LASTS_BEYOND);
        let lasts_us = u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX);
        let client = limits.remote.as_ref().map(|remote| remote.client().clone());
        let questions: Vec<Question> = queries.iter().map(question).collect();
        let since_ns = clock::now_ns();
        let results = match &client {
            Some(client) => {
                let id = format!("{:032x}", wish.id);
                let until_ns = since_ns.saturating_add(nanos(lasts));
                let now_us = micros(limits.shared.now());
                let results = remote::reserve(client, &id, lasts_us, now_us, &questions).await;
                self.remote = Some(RemoteReservation { client: client.clone(), id, until_ns });
                results
            }
            // The configuration was checked: there is a Redis where a limit names it.
            None => vec![Err(Failure::Unavailable); queries.len()],
        };
        let mut passes = true;
        // Calls that were given up may have reserved all the same.
        let mut doubtful = Vec::new();
        let mut failed = Vec::new();
        let took_ns = clock::now_ns().saturating_sub(since_ns);
        for ((query, question), result) in queries.iter_mut().zip(questions).zip(results) {
            let limit = query.limit;
            match result {
                Ok(result) => {
                    limit.metrics.store_responded(took_ns);
                    query.decision = Decision {
                        allowed: result.result != 0,
                        limit: limit.budget.rule.limit(),
                        remaining: result.left,
                        reset_ns: result.reset_us.saturating_mul(1000),
                        retry_ns: if result.result == 0 { result.retry_us.saturating_mul(1000) } else { 0 },
                    };
                    if result.result == 1 {
                        let (budget, amount) = (limit.budget.clone(), query.amount);
                        self.charges.push(Charge { budget, amount, place: CountedIn::Redis(question.name) });
                    }
                    passes &= query.decision.allowed || !limit.budget.spec.enforce;
                }
                Err(failure) => {
                    limit.metrics.store_failed();
                    if matches!(failure, Failure::TimedOut | Failure::Disconnected) {
                        doubtful.push(Used { name: question.name, rule: question.rule, amount: 0 });
                    }
                    query.decision = Decision::unlimited();
                    failed.push(query);
                }
            }
        }
        if let (false, Some(remote)) = (doubtful.is_empty(), &self.remote) {
            remote::settle_later(remote.client.clone(), remote.id.clone(), doubtful, remote.until_ns);
        }
        if !passes || failed.is_empty() {
            return Ok(passes);
        }
        let on_failure = |query: &Query<'_>| query.limit.budget.spec.on_store_failure;
        if failed.iter().any(|query| on_failure(query) == OnStoreFailure::Closed && query.limit.budget.spec.enforce) {
            let reservation = std::mem::take(self);
            reservation.settle(&Amounts::default(), limits).await;
            return Err(StoreFailed);
        }
        failed.retain(|query| on_failure(query) == OnStoreFailure::Local);
        Ok(self.reserve_here(limits, &mut failed))
    }

    /// Puts what the call used in the place of what it reserved.
    pub async fn settle(mut self, used: &Amounts, limits: &WorkerLimits) {
        let mut in_redis = Vec::new();
        let now_us = micros(limits.shared.now());
        for Charge { budget, amount, place } in std::mem::take(&mut self.charges) {
            let own = used.of(budget.spec.unit);
            match place {
                CountedIn::Memory { key, mark } => budget.table.settle(&budget.own, key, (amount, own), mark, now_us),
                CountedIn::Redis(name) => in_redis.push(Used { name, rule: budget.rule, amount: own }),
            }
        }
        if let (false, Some(RemoteReservation { client, id, until_ns })) = (in_redis.is_empty(), self.remote.take()) {
            remote::settle(client, id, in_redis, until_ns).await;
        }
    }
}

impl Drop for Reservation {
    /// The call ended without saying how: it used what it reserved, as far as anybody knows. Redis comes to the same by itself.
    fn drop(&mut self) {
        for Charge { budget, amount, place } in self.charges.drain(..) {
            if let (CountedIn::Memory { key, mark }, Rule::Bucket { .. }) = (place, &budget.own) {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let now_us = u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX);
                budget.table.settle(&budget.own, key, (amount, amount), mark, now_us);
            }
        }
    }
}

fn question(query: &Query<'_>) -> Question {
    let budget = &query.limit.budget;
    Question { name: budget.name(query.key), rule: budget.rule, enforced: budget.spec.enforce, amount: query.amount }
}
