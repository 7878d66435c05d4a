//! Limits with counts in Redis or Valkey, shared by all replicas.
//!
//! # One round trip, less than one call each
//!
//! All limits of a request are checked at once, and requests that come in one iteration of a worker's event loop go in one call of one
//! script (`count.lua`), which counts them in order by the clock of Redis. A request is charged to all of its limits or to none.
//!
//! Some requests need no call. A key that Redis has refused is refused here until it may have more again ([`memo::Refusals`]). With `lease: N` a worker
//! prefetches up to N tokens in one call (`flight.rs`) and spends them here ([`memo::Leases`]), before it refuses anything. Tokens of a fixed
//! window are spent within it or lost; tokens of a bucket or a sliding window may be spent up to one
//! window after they were charged, so in any one window at most `(N - 1) * workers * replicas` more pass than the limit says.
//!
//! Requests in flight (`algorithm: concurrency`) are counted by the same call, and let go by another: see `hold.rs`.
//!
//! # On a cluster
//!
//! The counts of a request are in different slots: each has a call of its own, all at the same time. If one refuses, the
//! others get back what they gave (`refund.lua`). Nothing more is admitted than the limits say; for one round trip, or until the window ends
//! if the refund is lost with its node, a count may have up to one request's tokens too few. What was refused in between may be allowed after the refund, so a
//! refusal is believed for two timeouts only.
//!
//! # When Redis does not respond
//!
//! Then `on_store_failure` decides for each limit, see [`local_fallback`]. A request whose call was given up may have been charged in Redis too:
//! less is admitted then, never more. With `local`, in the window in which Redis fails a key may spend what Redis admitted and what the
//! replicas admit by themselves, at most twice its quota; after that the replicas together admit one quota a window (but each at least 1).

mod call;
mod flight;
mod hold;
mod local_fallback;
mod memo;
mod operate;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use tokio::task::{spawn_local, yield_now};

use super::{Algorithm, LimitCheck, Permit, WorkerLimit, WorkerLimits};
use crate::redis::{Client, Failure, Redis};
use crate::runtime::clock;
use call::{Call, Name, Question, REFUND, ScriptResult, Sent};
use flight::{Flights, Prefetch};
pub(super) use hold::Held;
use hold::{Holds, KIND, PendingCall};
use memo::{Leases, Refusals, Spent};
pub use operate::Workers;
pub(super) use operate::on_worker;

/// A limit cannot be checked and says that its requests must not pass then; nothing was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreFailed;

/// Questions that go in one call at most: a script that runs for long delays everyone.
const CALL: usize = 64;

/// One worker's way to counts in Redis. It lives as long as the Redis stays the same, over reloads.
pub struct Remote {
    client: Rc<Client>,
    /// The call that requests of this event-loop iteration may join.
    open: RefCell<Option<(Call, Rc<Sent>)>>,
    refusals: Refusals,
    leases: Leases,
    flights: Flights,
    holds: Holds,
}

/// How one limit of a request was met.
#[derive(Debug, Clone, Copy)]
enum LimitOutcome {
    /// Prefetched tokens.
    Leased(super::Decision, Spent),
    /// Redis said so; the times count from then.
    Redis(ScriptResult, u64),
    /// Another limit had refused before this one was checked.
    Skipped,
    /// Known to be over, of a limit that is not enforced.
    Over,
    /// Redis cannot be reached.
    Failed,
}

/// The questions of a request, and what Redis said.
struct CallResults<'a> {
    questions: &'a [Question],
    prefetches: &'a [Option<Prefetch>],
    met: &'a [LimitOutcome],
    pending_call: Option<PendingCall>,
}

impl Remote {
    /// For the thread that calls this. It begins to connect.
    pub fn new(client: Rc<Client>) -> Rc<Self> {
        client.warm_up();
        let (open, refusals, leases, flights, holds) = Default::default();
        Rc::new(Remote { client, open, refusals, leases, flights, holds })
    }

    /// The connection.
    pub(super) fn client(&self) -> &Rc<Client> {
        &self.client
    }

    /// Which Redis this is.
    pub fn redis(&self) -> &Redis {
        self.client.redis()
    }

    /// Forgets what is known of keys: the next request of each calls Redis.
    pub fn forget(&self) {
        self.refusals.clear();
        self.leases.clear();
    }

    /// Checks a request; all of `checks` are of limits with this store. On success every decision is filled in, and if one of them is a
    /// refusal nothing was charged. Places among requests in flight are added to `held`. Takes no longer than the timeout.
    ///
    /// # Errors
    /// When the request must not pass because Redis cannot be reached.
    pub async fn check(
        self: &Rc<Self>,
        limits: &WorkerLimits,
        checks: &mut [LimitCheck],
        held: &mut Vec<Permit>,
    ) -> Result<(), StoreFailed> {
        let limit = |check: &LimitCheck| limits.get(check.limit);
        // The common case: one limit, one count, no list.
        if let [check] = checks
            && let Some(limit) = limit(check)
        {
            let question = self.question(limit, check);
            let prefetch = prefetch(limit, &question);
            // Before anything is refused: tokens that this worker has are there to be spent, even if Redis has none left.
            if let Some((decision, _)) = self.spend(prefetch.as_ref()) {
                check.decision = decision;
                return Ok(());
            }
            if self.refuse_here(limit, &question, check) {
                return Ok(());
            }
            let pending_call = self.pending_call(&[question]);
            let met = match prefetch {
                Some(prefetch) => self.acquire_counted(limit, prefetch).await,
                None if !self.client.may_serve(&question.name) => LimitOutcome::Failed,
                None => self
                    .call(&[question])
                    .await
                    .map_or(LimitOutcome::Failed, |list| LimitOutcome::Redis(list[0].0, list[0].1)),
            };
            let results = CallResults { questions: &[question], prefetches: &[prefetch], met: &[met], pending_call };
            return self.settle(limits, checks, results, held);
        }
        self.check_several(limits, checks, held).await
    }

    async fn check_several(
        self: &Rc<Self>,
        limits: &WorkerLimits,
        checks: &mut [LimitCheck],
        held: &mut Vec<Permit>,
    ) -> Result<(), StoreFailed> {
        let deadline = Instant::now() + self.client.timeout();
        let questions: Vec<Question> = checks
            .iter()
            .map(|check| limits.get(check.limit).map(|limit| self.question(limit, check)))
            .collect::<Option<_>>()
            .ok_or(StoreFailed)?;
        let prefetches: Vec<Option<Prefetch>> = checks
            .iter()
            .zip(&questions)
            .map(|(check, question)| limits.get(check.limit).and_then(|limit| prefetch(limit, question)))
            .collect();
        let mut met: Vec<Option<LimitOutcome>> = Vec::with_capacity(checks.len());
        for index in 0..checks.len() {
            let spent = self.spend(prefetches[index].as_ref());
            if let (None, Some(limit)) = (spent, limits.get(checks[index].limit))
                && self.refuse_here(limit, &questions[index], &mut checks[index])
            {
                if !limit.limit.spec.enforce {
                    met.push(Some(LimitOutcome::Over));
                    continue;
                }
                self.put_back(&prefetches, &met);
                // The others were not checked.
                let others = checks.iter_mut().enumerate().filter(|(other, _)| *other != index);
                others.for_each(|(_, check)| check.decision = super::Decision::unlimited());
                return Ok(());
            }
            met.push(spent.map(|(decision, spent)| LimitOutcome::Leased(decision, spent)));
        }
        let pending_call = self.pending_call(&questions);
        // Tokens that are to be prefetched, all at the same time; then the counts that every request is checked against in Redis.
        let missing = checks.iter().zip(&prefetches).zip(&met).filter(|(_, met)| met.is_none());
        let missing = missing.filter_map(|((check, prefetch), _)| Some((limits.get(check.limit)?, (*prefetch)?)));
        let acquired = all(missing.map(|(limit, prefetch)| self.acquire_counted(limit, prefetch))).await;
        let mut acquired = acquired.into_iter();
        for (met, _) in met.iter_mut().zip(&prefetches).filter(|(met, prefetch)| met.is_none() && prefetch.is_some()) {
            *met = acquired.next();
        }
        let is_refused =
            |met: &Option<LimitOutcome>| matches!(met, Some(LimitOutcome::Redis(result, _)) if result.is_refusal());
        if !met.iter().any(is_refused) {
            let open = met.iter().zip(&questions).filter(|(met, _)| met.is_none());
            let open: Vec<Question> = open.map(|(_, question)| *question).collect();
            let mut results = self.call_within(&open, deadline).await.into_iter();
            met.iter_mut().filter(|met| met.is_none()).for_each(|met| *met = results.next());
        }
        let met: Vec<LimitOutcome> = met.into_iter().map(|met| met.unwrap_or(LimitOutcome::Skipped)).collect();
        self.settle(
            limits,
            checks,
            CallResults { questions: &questions, prefetches: &prefetches, met: &met, pending_call },
            held,
        )
    }

    /// Calls Redis for the counts of one request.
    async fn call_within(self: &Rc<Self>, questions: &[Question], deadline: Instant) -> Vec<LimitOutcome> {
        if self.client.is_cluster() {
            return self.call_each(questions, deadline).await;
        }
        if questions.is_empty() || !self.client.may_serve(b"") {
            return vec![LimitOutcome::Failed; questions.len()];
        }
        match tokio::time::timeout_at(deadline.into(), self.call(questions)).await {
            Ok(Ok(list)) => list.iter().map(|(result, at)| LimitOutcome::Redis(*result, *at)).collect(),
            Ok(Err(_)) | Err(_) => vec![LimitOutcome::Failed; questions.len()],
        }
    }

    /// Refuses without a call, if the count is known to be over.
    fn refuse_here(&self, limit: &WorkerLimit, question: &Question, check: &mut LimitCheck) -> bool {
        let most = limit.limit.algorithm.limit();
        match self.refusals.find(&question.name, question.cost, most, clock::now_ns()) {
            Some(decision) => {
                check.decision = decision;
                if limit.limit.spec.enforce {
                    limit.metrics.refused_locally();
                }
                true
            }
            None => false,
        }
    }

    fn spend(&self, prefetch: Option<&Prefetch>) -> Option<(super::Decision, Spent)> {
        let question = &prefetch?.question;
        self.leases.spend(&question.name, question.cost, clock::now_ns())
    }

    async fn acquire_counted(self: &Rc<Self>, limit: &WorkerLimit, prefetch: Prefetch) -> LimitOutcome {
        let since_ns = clock::now_ns();
        let met = self.acquire(prefetch, self.client.timeout()).await;
        if let LimitOutcome::Leased(..) = met {
            limit.metrics.store_responded(clock::now_ns().saturating_sub(since_ns));
        }
        met
    }

    /// How long a refusal holds without a call. On a cluster a count may be charged for a request that another count refuses: what is missing then comes
    /// back with the refund, at most a charge and a refund later.
    fn believes_refusals_ns(&self) -> u64 {
        if !self.client.is_cluster() {
            return u64::MAX;
        }
        u64::try_from((2 * self.client.timeout()).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Sends the counts in one call, together with those of other requests in this event-loop iteration; the script charges all or nothing.
    async fn call(self: &Rc<Self>, questions: &[Question]) -> Result<Vec<(ScriptResult, u64)>, Failure> {
        let (sent, first) = if self.client.is_cluster() { self.call_alone(questions) } else { self.join(questions) };
        match sent.results().await {
            Ok(results) => {
                let own = &results.from(first)[..questions.len()];
                Ok(own.iter().map(|result| (*result, results.since_ns)).collect())
            }
            Err(failure) => Err(failure.clone()),
        }
    }

    /// Adds to the call that is sent at the end of this event-loop iteration.
    fn join(self: &Rc<Self>, questions: &[Question]) -> (Rc<Sent>, usize) {
        let mut open = self.open.borrow_mut();
        if let Some((call, sent)) = open.as_mut()
            && call.len() + questions.len() <= CALL
        {
            return (sent.clone(), call.add(questions));
        }
        let (mut call, sent) = (Call::default(), Sent::new());
        let first = call.add(questions);
        // One that is full goes now; nobody can join it any more.
        if let Some((full, waiting)) = open.replace((call, sent.clone())) {
            self.send(full, waiting);
        }
        let remote = self.clone();
        let mine = sent.clone();
        spawn_local(async move {
            yield_now().await;
            let own = remote.open.borrow_mut().take_if(|(_, sent)| Rc::ptr_eq(sent, &mine));
            if let Some((call, sent)) = own {
                sent.arrive(call.send(&remote.client).await);
            }
        });
        (sent, first)
    }

    fn call_alone(self: &Rc<Self>, questions: &[Question]) -> (Rc<Sent>, usize) {
        let (mut call, sent) = (Call::default(), Sent::new());
        let first = call.add(questions);
        self.send(call, sent.clone());
        (sent, first)
    }

    fn send(self: &Rc<Self>, call: Call, sent: Rc<Sent>) {
        let remote = self.clone();
        spawn_local(async move { sent.arrive(call.send(&remote.client).await) });
    }

    /// Sends a call for each count, all at the same time. The deadline holds for each by itself: what a healthy node has charged must be known when
    /// another one is too slow, or it could not be refunded.
    async fn call_each(self: &Rc<Self>, questions: &[Question], deadline: Instant) -> Vec<LimitOutcome> {
        let each = questions.iter().map(|question| async move {
            if !self.client.may_serve(&question.name) {
                return LimitOutcome::Failed;
            }
            let call = self.call(std::slice::from_ref(question));
            match tokio::time::timeout_at(deadline.into(), call).await {
                Ok(Ok(list)) => LimitOutcome::Redis(list[0].0, list[0].1),
                Ok(Err(_)) | Err(_) => LimitOutcome::Failed,
            }
        });
        all(each).await
    }

    /// Turns what came of the questions into decisions, and takes back what was charged if the request does not pass.
    fn settle(
        self: &Rc<Self>,
        limits: &WorkerLimits,
        checks: &mut [LimitCheck],
        results: CallResults<'_>,
        held: &mut Vec<Permit>,
    ) -> Result<(), StoreFailed> {
        let CallResults { questions, prefetches, met, pending_call } = results;
        let now_ns = clock::now_ns();
        let mut passes = true;
        for ((check, question), met) in checks.iter_mut().zip(questions).zip(met) {
            let Some(limit) = limits.get(check.limit) else { continue };
            let most = limit.limit.algorithm.limit();
            match met {
                LimitOutcome::Leased(decision, _) => check.decision = *decision,
                LimitOutcome::Skipped => check.decision = super::Decision::unlimited(),
                LimitOutcome::Over => {}
                LimitOutcome::Redis(result, since_ns) => {
                    check.decision = result.decision(most, question.cost);
                    limit.metrics.store_responded(now_ns.saturating_sub(*since_ns));
                    if result.is_refusal() {
                        passes &= !limit.limit.spec.enforce;
                        let most_ns = self.believes_refusals_ns();
                        self.refusals.note(question.name, question.cost, &check.decision, *since_ns, now_ns, most_ns);
                    }
                }
                LimitOutcome::Failed => limit.metrics.store_failed(),
            }
        }
        let is_failed = |index: usize| matches!(met[index], LimitOutcome::Failed);
        let stood_in = if passes { local_fallback::check(limits, checks, is_failed, held) } else { Ok(false) };
        if let Some(pending_call) = pending_call {
            // What was given up may have been counted.
            let failed = questions.iter().zip(met).filter(|(_, met)| matches!(met, LimitOutcome::Failed));
            let failed: Vec<Name> = failed.map(|(question, _)| question.name).collect();
            pending_call.end(|name| failed.contains(name));
        }
        match stood_in {
            Ok(true) => {
                for (question, met) in questions.iter().zip(met) {
                    if let (KIND, LimitOutcome::Redis(result, _)) = (question.definition[0], met)
                        && result.taken > 0
                    {
                        held.push(Permit::shared(self.held(question.name, question.cost)));
                    }
                }
                Ok(())
            }
            refused => {
                self.undo(questions, prefetches, met);
                for (check, met) in checks.iter_mut().zip(met) {
                    if let (true, LimitOutcome::Failed) = (!passes, met) {
                        check.decision = super::Decision::unlimited();
                    }
                }
                refused.map(drop)
            }
        }
    }

    fn question(&self, limit: &WorkerLimit, check: &LimitCheck) -> Question {
        let name: Name = call::name(&limit.limit, check.key);
        let definition = call::definition(&limit.limit, self.holds.worker);
        Question { name, definition, cost: check.cost, wanted: check.cost }
    }

    /// Gives back what was taken for a request that does not pass.
    fn undo(self: &Rc<Self>, questions: &[Question], prefetches: &[Option<Prefetch>], met: &[LimitOutcome]) {
        for ((question, prefetch), met) in questions.iter().zip(prefetches).zip(met) {
            match met {
                LimitOutcome::Leased(_, spent) => self.put_back_one(prefetch.as_ref(), *spent),
                LimitOutcome::Redis(result, _) if result.taken > 0 && question.definition[0] == KIND => {
                    self.let_go(question.name, question.cost);
                }
                LimitOutcome::Redis(result, _) if result.taken > 0 => self.refund(*question, *result),
                LimitOutcome::Redis(..) | LimitOutcome::Skipped | LimitOutcome::Over | LimitOutcome::Failed => {}
            }
        }
    }

    fn put_back(&self, prefetches: &[Option<Prefetch>], met: &[Option<LimitOutcome>]) {
        for (prefetch, met) in prefetches.iter().zip(met) {
            if let Some(LimitOutcome::Leased(_, spent)) = met {
                self.put_back_one(prefetch.as_ref(), *spent);
            }
        }
    }

    fn put_back_one(&self, prefetch: Option<&Prefetch>, spent: Spent) {
        if let Some(prefetch) = prefetch {
            self.leases.put_back(prefetch.question.name, spent, prefetch.most(), clock::now_ns());
        }
    }

    fn refund(self: &Rc<Self>, question: Question, result: ScriptResult) {
        let remote = self.clone();
        // No request waits for it; if it is lost, the tokens are missing until their window ends.
        spawn_local(async move {
            let [kind, _, b, c, _] = question.definition;
            let numbers = [kind, b, c, u64::try_from(result.taken).unwrap_or(0), result.mark()];
            let write = |cmd: &mut crate::redis::Cmd| {
                for number in numbers {
                    cmd.arg(number);
                }
            };
            let _ = remote.client.script_with(&REFUND, &[&question.name], write).await;
        });
    }
}

/// What is prefetched for a request; none for a limit without leases, and for a request that costs more than a lease holds.
fn prefetch(limit: &WorkerLimit, question: &Question) -> Option<Prefetch> {
    let lease = u64::from(limit.limit.spec.lease.get());
    let algorithm = &limit.limit.algorithm;
    let is_leased = lease > 1
        && question.cost <= lease
        && limit.limit.spec.enforce
        && !matches!(algorithm, Algorithm::Concurrency(_));
    let lasts_ns = match algorithm {
        Algorithm::FixedWindow(_) => None,
        _ => algorithm.window_ns(),
    };
    is_leased.then(|| Prefetch { question: *question, lease, limit: algorithm.limit(), lasts_ns })
}

/// Waits for all of some futures at the same time.
pub(super) async fn all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<(Pin<Box<_>>, Option<T>)> =
        futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut is_ready = true;
        for (future, done) in &mut waiting {
            if done.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *done = Some(value),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests;
