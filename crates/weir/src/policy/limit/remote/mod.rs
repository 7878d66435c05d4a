//! Limits with counts in Redis or Valkey, shared by all replicas.
//!
//! # One round trip, less than one call each
//!
//! All limits of a request are asked for at once, and requests that come in the same turn of a worker's event loop go in one call of one
//! script (`count.lua`), which counts them in order by the clock of Redis. A request is charged to all of its limits or to none.
//!
//! Some requests need no call. A key that Redis has refused is refused here until it may have more again ([`memo::Refusals`]): this is exact, as what is left of a
//! window only gets less, and what comes back into a bucket is known. With `lease: N` a worker takes up to N tokens at once and spends
//! them here ([`memo::Leases`]). Tokens of a fixed window are spent within it or lost; tokens of a bucket or a sliding window may be spent up to one
//! window after they were charged, so in any one window at most `(N - 1) * workers * replicas` more pass than the limit says.
//!
//! # On a cluster
//!
//! The counts of a request lie in different slots: each is asked for by a call of its own, all at the same time. If one refuses, the
//! others get back what they gave (`refund.lua`). Nothing more is admitted than the limits say; for one round trip, or until the window ends
//! if the refund is lost with its node, a count may have up to one request's tokens too few.
//!
//! # When Redis does not answer
//!
//! Then `on_store_failure` decides for each limit, see [`stand_in`]. A request whose call was given up may have been charged in Redis too:
//! less is admitted then, never more. With `local`, in the window in which Redis fails a key may spend what Redis admitted and what the
//! replicas admit by themselves, at most twice its quota; after that the replicas together admit one quota a window (but each at least 1).

mod call;
mod memo;
mod operate;
mod stand_in;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use tokio::task::{spawn_local, yield_now};

use super::{Ask, WorkerLimit, WorkerLimits};
use crate::redis::{Client, Failure, Redis};
use crate::server::clock;
use call::{Answer, Call, Name, Question, REFUND, Sent};
use memo::{Leases, Refusals, Spent};

/// A limit cannot be asked and says that its requests must not pass then; nothing was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreFailed;

/// Questions that go in one call at most: a script that runs for long delays everyone.
const CALL: usize = 64;

/// One worker's way to counts in Redis. It lives as long as the Redis stays the same, over reloads.
pub struct Remote {
    client: Rc<Client>,
    /// The call that requests of this turn may join.
    open: RefCell<Option<(Call, Rc<Sent>)>>,
    refusals: Refusals,
    leases: Leases,
}

/// How one limit of a request was met.
#[derive(Debug, Clone, Copy)]
enum Met {
    /// Tokens in hand.
    Leased(Spent),
    /// Redis said so; the times count from then.
    Asked(Answer, u64),
    /// Redis cannot be asked.
    Failed,
}

impl Remote {
    /// For the thread that calls this. It begins to connect.
    pub fn new(client: Rc<Client>) -> Rc<Self> {
        client.warm_up();
        let (open, refusals, leases) = Default::default();
        Rc::new(Remote { client, open, refusals, leases })
    }

    /// Which Redis this is.
    pub fn redis(&self) -> &Redis {
        self.client.redis()
    }

    /// Forgets what is known of keys: Redis will be asked about each again.
    pub fn forget(&self) {
        self.refusals.clear();
        self.leases.clear();
    }

    /// Asks for a request; all of `asks` are of limits with this store. On success every decision is filled in, and if one of them is a
    /// refusal nothing was charged. Takes no longer than the timeout.
    ///
    /// # Errors
    /// When the request must not pass because Redis cannot be asked.
    pub async fn ask(self: &Rc<Self>, limits: &WorkerLimits, asks: &mut [Ask]) -> Result<(), StoreFailed> {
        let limit = |ask: &Ask| limits.get(ask.limit);
        // The common case: one limit, one count, no list.
        if let [ask] = asks
            && let Some(limit) = limit(ask)
        {
            let question = question(limit, ask);
            if self.refuse_here(limit, &question, ask) {
                return Ok(());
            }
            let met = match self.spend(limit, &question) {
                Some((decision, _)) => {
                    ask.decision = decision;
                    return Ok(());
                }
                None if !self.client.may_serve(&question.name) => Met::Failed,
                None => self.call(&[question]).await.map_or(Met::Failed, |list| Met::Asked(list[0].0, list[0].1)),
            };
            return self.settle(limits, asks, &[question], &[met]);
        }
        self.ask_several(limits, asks).await
    }

    async fn ask_several(self: &Rc<Self>, limits: &WorkerLimits, asks: &mut [Ask]) -> Result<(), StoreFailed> {
        let mut questions = Vec::with_capacity(asks.len());
        for index in 0..asks.len() {
            let Some(limit) = limits.get(asks[index].limit) else { continue };
            let question = question(limit, &asks[index]);
            if self.refuse_here(limit, &question, &mut asks[index]) {
                // The others were not asked.
                let others = asks.iter_mut().enumerate().filter(|(other, _)| *other != index);
                others.for_each(|(_, ask)| ask.decision = super::Decision::unlimited());
                return Ok(());
            }
            questions.push(question);
        }
        let mut met: Vec<Option<Met>> = Vec::with_capacity(asks.len());
        for (ask, question) in asks.iter_mut().zip(&questions) {
            let spent = limits.get(ask.limit).and_then(|limit| self.spend(limit, question));
            met.push(spent.map(|(decision, spent)| {
                ask.decision = decision;
                Met::Leased(spent)
            }));
        }
        let open: Vec<Question> =
            questions.iter().zip(&met).filter(|(_, met)| met.is_none()).map(|(q, _)| *q).collect();
        let mut asked = if self.client.is_cluster() {
            self.call_each(&open).await.into_iter()
        } else if open.is_empty() || !self.client.may_serve(b"") {
            vec![Met::Failed; open.len()].into_iter()
        } else {
            let list = self.call(&open).await;
            let failed = || vec![Met::Failed; open.len()];
            list.map_or_else(|_| failed(), |list| list.iter().map(|(answer, at)| Met::Asked(*answer, *at)).collect())
                .into_iter()
        };
        let met: Vec<Met> =
            met.into_iter().map(|met| met.unwrap_or_else(|| asked.next().unwrap_or(Met::Failed))).collect();
        self.settle(limits, asks, &questions, &met)
    }

    /// Refuses without asking, if the count is known to be over.
    fn refuse_here(&self, limit: &WorkerLimit, question: &Question, ask: &mut Ask) -> bool {
        match self.refusals.find(&question.name, question.cost, clock::now_ns()) {
            Some(decision) => {
                ask.decision = decision;
                limit.metrics.refused_locally();
                true
            }
            None => false,
        }
    }

    fn spend(&self, limit: &WorkerLimit, question: &Question) -> Option<(super::Decision, Spent)> {
        let has_leases = limit.limit.spec.lease.get() > 1;
        if has_leases { self.leases.spend(&question.name, question.cost, clock::now_ns()) } else { None }
    }

    /// Asks in one call, together with others of this turn; all or nothing is up to the script.
    async fn call(self: &Rc<Self>, questions: &[Question]) -> Result<Vec<(Answer, u64)>, Failure> {
        let (sent, first) = if self.client.is_cluster() { self.call_alone(questions) } else { self.join(questions) };
        match sent.answers().await {
            Ok(answers) => {
                let own = &answers.from(first)[..questions.len()];
                Ok(own.iter().map(|answer| (*answer, answers.since_ns)).collect())
            }
            Err(failure) => Err(failure.clone()),
        }
    }

    /// Adds to the call that is sent at the end of this turn.
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

    /// Asks for each count by itself, all at the same time.
    async fn call_each(self: &Rc<Self>, questions: &[Question]) -> Vec<Met> {
        let each = questions.iter().map(|question| async move {
            if !self.client.may_serve(&question.name) {
                return Met::Failed;
            }
            self.call(std::slice::from_ref(question)).await.map_or(Met::Failed, |list| Met::Asked(list[0].0, list[0].1))
        });
        all(each).await
    }

    /// Turns what came of the questions into decisions, and takes back what was charged if the request does not pass.
    fn settle(
        self: &Rc<Self>,
        limits: &WorkerLimits,
        asks: &mut [Ask],
        questions: &[Question],
        met: &[Met],
    ) -> Result<(), StoreFailed> {
        let now_ns = clock::now_ns();
        let mut passes = true;
        for ((ask, question), met) in asks.iter_mut().zip(questions).zip(met) {
            let Some(limit) = limits.get(ask.limit) else { continue };
            let most = limit.limit.algorithm.limit();
            match met {
                Met::Leased(_) => {}
                Met::Asked(answer, since_ns) => {
                    ask.decision = answer.decision(most, question.cost);
                    limit.metrics.store_answered(now_ns.saturating_sub(*since_ns));
                    if answer.is_refusal() {
                        passes = false;
                        self.refusals.remember(question.name, question.cost, &ask.decision, *since_ns, now_ns);
                    }
                }
                Met::Failed => limit.metrics.store_failed(),
            }
        }
        let stood_in =
            if passes { stand_in::ask(limits, asks, |index| matches!(met[index], Met::Failed)) } else { Ok(false) };
        match stood_in {
            Ok(true) => {
                for ((ask, question), met) in asks.iter().zip(questions).zip(met) {
                    if let (Met::Asked(answer, since_ns), Some(limit)) = (met, limits.get(ask.limit)) {
                        self.keep(limit, question, answer, ask, *since_ns, now_ns);
                    }
                }
                Ok(())
            }
            refused => {
                self.take_back(questions, met);
                for (ask, met) in asks.iter_mut().zip(met) {
                    if let (true, Met::Failed) = (!passes, met) {
                        ask.decision = super::Decision::unlimited();
                    }
                }
                refused.map(drop)
            }
        }
    }

    /// Keeps what was taken beyond the cost.
    fn keep(&self, limit: &WorkerLimit, question: &Question, answer: &Answer, ask: &Ask, since_ns: u64, now_ns: u64) {
        let spare = u64::try_from(answer.taken).unwrap_or(0).saturating_sub(question.cost);
        let lasts_ns = match question.definition[0] {
            // To the end of the window that they were taken from.
            1 | 2 => ask.decision.reset_ns,
            _ => limit.limit.algorithm.window_ns().unwrap_or(0),
        };
        let until_ns = since_ns.saturating_add(lasts_ns);
        self.leases.keep(question.name, spare, until_ns, &ask.decision, since_ns, now_ns);
    }

    /// Gives back what was taken for a request that does not pass.
    fn take_back(self: &Rc<Self>, questions: &[Question], met: &[Met]) {
        for (question, met) in questions.iter().zip(met) {
            match met {
                Met::Leased(spent) => self.leases.put_back(&question.name, *spent),
                Met::Asked(answer, _) if answer.taken > 0 => self.refund(*question, *answer),
                Met::Asked(..) | Met::Failed => {}
            }
        }
    }

    fn refund(self: &Rc<Self>, question: Question, answer: Answer) {
        let remote = self.clone();
        // Nobody waits for it; if it is lost, the tokens are missing until their window ends.
        spawn_local(async move {
            let [kind, _, b, c] = question.definition;
            let numbers = [kind, b, c, u64::try_from(answer.taken).unwrap_or(0), answer.mark()];
            let write = |cmd: &mut crate::redis::Cmd| {
                for number in numbers {
                    cmd.arg(number);
                }
            };
            let _ = remote.client.script_with(&REFUND, &[&question.name], write).await;
        });
    }
}

fn question(limit: &WorkerLimit, ask: &Ask) -> Question {
    let name: Name = call::name(&limit.limit, ask.key);
    let wanted = ask.cost.max(u64::from(limit.limit.spec.lease.get()));
    Question { name, definition: call::definition(&limit.limit), cost: ask.cost, wanted }
}

/// Waits for all of some futures at the same time.
async fn all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
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
