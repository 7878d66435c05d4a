//! The search for a candidate that serves a call: which are tried and how often, what follows from a failure, and what the client is told when none
//! is left. `docs/ai.md` has the table of faults.

use std::time::Duration;

use llm::Api;
use llm::fault::{Fault, Next, Repeat, Rule};
use llm::request::Member;

use super::super::{Exchange, SendState};
use super::attempt::{AttemptPlan, Failed, attempt, row};
use super::problem::{Problem, Stop};
use super::recover::{self, Begun};
use super::{Call, Shape, state, translation};
use crate::config::{Candidate, Provider};
use crate::error::{Fault as Side, Reason};
use crate::policy::ai::{AiState, CandidateHealth, KeyChoice, KeyHealth};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::upstream::View;

/// Attempts at one candidate.
const AT_ONE: u32 = 2;
/// First backoff, doubled for each further attempt up to the longest; the wait is a random part of it.
const BACKOFF: Duration = Duration::from_millis(200);
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
/// Part of the estimate that must fit into a candidate's context: the estimate may be too high.
const SURE_PART: f64 = 0.8;

/// Tries candidates until one leads to a response.
///
/// # Errors
/// Why there is none.
pub(super) async fn run(x: &mut Exchange<'_>, call: &Call<'_>, shared: &AiState) -> Result<(), Stop> {
    x.scratch.tried.clear();
    let order = state::order(call, || x.worker.random());
    let mut search = Search::new(call, shared, order);
    while let Some(index) = search.order.get(search.position).copied() {
        search.position += 1;
        let Some(chosen) = search.choose(index) else { continue };
        match search.at(x, &chosen).await? {
            Ended::Served => return Ok(()),
            Ended::Candidate => {}
            Ended::Search => break,
        }
    }
    search.give_up(x).await
}

/// What is known while candidates are tried.
struct Search<'c> {
    call: &'c Call<'c>,
    state: &'c AiState,
    /// Candidates by their place in the model; one that broke off in a stream is tried once more, last.
    order: Vec<usize>,
    /// Of the next one in `order`.
    position: usize,
    /// The model's first choice.
    first: Option<usize>,
    /// Attempts so far.
    attempts: u32,
    /// The last failure.
    last: Option<Failed>,
    /// Why a candidate cannot take such a request at all.
    refused: Option<Problem>,
    /// After a prompt that was too long for a candidate: its context. Only larger ones follow.
    more_than: Option<Option<u64>>,
    /// A context was smaller than the prompt is for sure.
    is_too_long: bool,
    /// The part of a stream that the client has.
    begun: Option<Box<Begun>>,
}

/// A candidate that can be tried.
struct Chosen<'c> {
    index: usize,
    candidate: &'c Candidate,
    provider: &'c Provider,
    /// The API that its provider is spoken to in.
    api: Api,
    /// The request in that API, where it is another one than the client's, and the hints that were left out.
    translated: Option<(Vec<u8>, Vec<String>)>,
    health: &'c CandidateHealth,
    keys: &'c [KeyHealth],
    view: &'c View,
}

/// Attempts at one candidate, so far.
#[derive(Default)]
struct AtOne {
    attempts: u32,
    /// Keys that it refused.
    tried_keys: Vec<usize>,
    /// The next attempt has the key of the last one.
    same_key: Option<Option<usize>>,
    /// The next attempt goes to a target that was not tried yet.
    is_elsewhere: bool,
}

/// How the attempts at one candidate ended.
enum Ended {
    /// The client has its response.
    Served,
    /// The next candidate is tried.
    Candidate,
    /// No other one is tried.
    Search,
}

/// What follows from a failure.
enum Follows {
    /// The next candidate.
    Candidate,
    /// Nothing.
    Nothing,
    /// Another attempt at this candidate.
    Again,
    /// The same attempt once more, so much later.
    After(Duration),
}

impl<'c> Search<'c> {
    fn new(call: &'c Call<'c>, state: &'c AiState, order: Vec<usize>) -> Self {
        Search {
            call,
            state,
            first: order.first().copied(),
            order,
            position: 0,
            attempts: 0,
            last: None,
            refused: None,
            more_than: None,
            is_too_long: false,
            begun: None,
        }
    }

    /// The candidate, unless it cannot serve the call.
    fn choose(&mut self, index: usize) -> Option<Chosen<'c>> {
        let call = self.call;
        let candidate = &call.model.candidates[index];
        let provider = &call.snapshot.config().providers[candidate.provider.0];
        let least = (call.estimate as f64 * SURE_PART) as u64;
        if candidate.context.is_some_and(|context| context < least) {
            self.is_too_long = true;
            return None;
        }
        if self.more_than.is_some_and(|least| candidate.context.is_none() || candidate.context <= least) {
            return None;
        }
        let Some(api) = translation::egress(call.api, provider.family) else {
            let message =
                format!("The model `{}` is served by a provider that has no {} API", call.model.name, call.api.name());
            self.refused.get_or_insert_with(|| Problem::request("unsupported_api", message, Some("model")));
            return None;
        };
        let health = &self.state.candidates(call.model_id)[index];
        // The last hope is tried even if it rests.
        let is_last = self.position == self.order.len() && self.last.is_none();
        if health.is_out(clock::loop_ns()) && !is_last {
            return None;
        }
        let translated = match api == call.api {
            true => None,
            false => match translation::request(call, api, candidate) {
                Ok(translated) => Some(translated),
                Err(why) => {
                    self.refused.get_or_insert_with(|| {
                        Problem::request("unsupported_member", why.to_string(), Some(&why.member))
                    });
                    return None;
                }
            },
        };
        let keys = self.state.keys(candidate.provider);
        let view = call.snapshot.views.get(provider.upstream);
        Some(Chosen { index, candidate, provider, api, translated, health, keys, view })
    }

    /// Tries one candidate, as often as its failures let hope.
    ///
    /// # Errors
    /// The call ends here, whatever other candidates there are.
    async fn at(&mut self, x: &mut Exchange<'_>, chosen: &Chosen<'c>) -> Result<Ended, Stop> {
        let call = self.call;
        let first_due = call.model.first_token.map_or(u64::MAX, |first| clock::loop_ns().saturating_add(nanos(first)));
        let mut at_one = AtOne::default();
        while at_one.attempts < AT_ONE && self.attempts < call.model.attempts {
            let key = match at_one.same_key.take() {
                Some(key) => key,
                None => {
                    match state::choose_key(call, chosen.keys, &at_one.tried_keys, clock::loop_ns(), x.worker.random())
                    {
                        KeyChoice::None => None,
                        KeyChoice::Key(key) => Some(key),
                        KeyChoice::Resting(rest, fault) => {
                            self.last.get_or_insert_with(|| cooling(rest, fault));
                            break;
                        }
                        KeyChoice::Tried => break,
                    }
                }
            };
            at_one.attempts += 1;
            self.attempts += 1;
            let plan = self.plan(chosen, key, std::mem::take(&mut at_one.is_elsewhere));
            note(x, chosen, &plan);
            let result = attempt(x, call, &plan, &mut self.begun).await;
            self.count(x, chosen, &result);
            let Err(failed) = result else {
                if let Some(key) = key {
                    chosen.keys[key].accepted();
                }
                return Ok(Ended::Served);
            };
            if failed.is_of_queue() {
                // Nothing was sent.
                self.attempts -= 1;
            }
            match self.after(x, chosen, (failed, key), (&mut at_one, first_due))? {
                Follows::Candidate => break,
                Follows::Nothing => return Ok(Ended::Search),
                Follows::Again => {}
                Follows::After(wait) => match pause(x, wait, call.total_due).await {
                    Err(Stop::Error(error)) if self.begun.is_some() && error.reason != Reason::ClientDisconnected => {
                        return Ok(Ended::Search);
                    }
                    waited => waited?,
                },
            }
        }
        Ok(Ended::Candidate)
    }

    fn plan<'t>(&self, chosen: &'t Chosen<'c>, key: Option<usize>, is_elsewhere: bool) -> AttemptPlan<'t> {
        let refused_by = self.begun.as_ref().map(|begun| &begun.refused_by);
        AttemptPlan {
            candidate: chosen.candidate,
            provider: chosen.provider,
            key: key.and_then(|key| chosen.provider.keys.get(key)),
            api: chosen.api,
            translated: chosen.translated.as_ref().map(|(body, _)| &**body),
            dropped: chosen.translated.as_ref().map_or_else(Vec::new, |(_, hints)| hints.clone()),
            is_first: self.first == Some(chosen.index),
            adds_usage: adds_usage(self.call, chosen.translated.is_some()),
            is_elsewhere,
            may_prefill: refused_by.is_none_or(|candidates| !candidates.contains(&chosen.index)),
        }
    }

    /// Counts an attempt, and notes it for the log. One for which there was no place is none at the provider.
    fn count(&self, x: &mut Exchange<'_>, chosen: &Chosen<'_>, result: &Result<(), Failed>) {
        let fault = match result {
            Ok(()) => x.ai.as_ref().map_or(0, |record| record.fault),
            Err(failed) => match failed.fault {
                Some(fault) => fault.number(),
                None if self.differs() => 0,
                None => return,
            },
        };
        let is_of_queue = matches!(result, Err(failed) if failed.is_of_queue());
        if !is_of_queue {
            self.state.pair(self.call.model_id, Some(chosen.index)).attempt(fault);
        }
        let end = match fault {
            _ if self.differs() => "differs",
            _ if is_of_queue => "queue",
            0 => "ok",
            fault => row(fault),
        };
        if let Some(record) = &mut x.ai {
            record.fault = fault;
            record.attempted(&chosen.provider.name, &chosen.candidate.model, end);
        }
    }

    /// The attempt said something else than the one before.
    fn differs(&self) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.differs)
    }

    /// What follows from a failure with this key.
    ///
    /// # Errors
    /// The call ends here: nothing else may be tried.
    fn after(
        &mut self,
        x: &mut Exchange<'_>,
        chosen: &Chosen<'_>,
        (failed, key): (Failed, Option<usize>),
        (at_one, first_due): (&mut AtOne, u64),
    ) -> Result<Follows, Stop> {
        let call = self.call;
        let fault = match failed.fault {
            Some(fault) if x.send_state == SendState::None || self.begun.is_some() => fault,
            _ if self.begun.is_some() && failed.error.reason != Reason::ClientDisconnected => {
                return Ok(Follows::Nothing);
            }
            _ => {
                if let Some(begun) = &mut self.begun {
                    begun.abandon(x, call);
                }
                return Err(failed.error.into());
            }
        };
        let rule = fault.rule();
        let hint = failed.retry_after;
        let is_unprocessed = failed.is_unprocessed;
        let may_repeat = state::may_repeat(call, &failed, fault);
        let names_model = failed.message.contains(&*chosen.candidate.model);
        let is_unknown_model =
            fault == Fault::UNAUTHORIZED && failed.response.as_ref().is_some_and(|r| r.status == 404);
        self.last = Some(failed);
        if let Some(begun) = &mut self.begun {
            if begun.is_final {
                return Ok(Follows::Nothing);
            }
            if std::mem::take(&mut begun.is_open) {
                return Ok(self.after_cut(x, chosen, key, at_one));
            }
        }
        match &mut self.begun {
            // A request that was written here may be refused where the client's own would not be.
            Some(begun) if rule.next == Next::Nothing && begun.is_prefilled => begun.refused_by.push(chosen.index),
            _ if rule.next == Next::Nothing || !may_repeat => return Ok(Follows::Nothing),
            _ => {}
        }
        if rule.next == Next::LargerContext {
            self.more_than = Some(chosen.candidate.context);
        }
        // The candidate is not lost while another of its replicas can be reached. It has not seen the request, so the attempt does not
        // count as one at the candidate; the retry budget and the time to the first token bound how many follow.
        if is_unprocessed
            && rule.next == Next::Target
            && clock::loop_ns() < first_due
            && has_untried(x, chosen)
            && self.spend_retry(chosen)
        {
            at_one.attempts -= 1;
            self.attempts -= 1;
            at_one.same_key = Some(key);
            at_one.is_elsewhere = true;
            return Ok(Follows::Again);
        }
        if is_unknown_model {
            // A server without this operation says nothing about the others.
            if names_model {
                chosen.health.unknown_model(clock::loop_ns());
            }
            return Ok(Follows::Candidate);
        }
        let mut has_other_key = false;
        if let (Next::Key, Some(key)) = (rule.next, key) {
            if rests_key(call, fault) {
                chosen.keys[key].refused(fault, hint, clock::loop_ns());
            }
            at_one.tried_keys.push(key);
            let mut others = chosen.keys.iter().enumerate().filter(|(index, _)| !at_one.tried_keys.contains(index));
            has_other_key = state::may_change_key(call) && others.any(|(_, key)| !key.is_out(clock::loop_ns()));
        }
        if at_one.attempts == AT_ONE || self.attempts >= call.model.attempts {
            return Ok(Follows::Candidate);
        }
        if has_other_key {
            return Ok(Follows::Again);
        }
        match self.wait(x, &rule, hint) {
            Some(wait) if self.spend_retry(chosen) => {
                at_one.same_key = Some(key);
                Ok(Follows::After(wait))
            }
            _ => Ok(Follows::Candidate),
        }
    }

    /// What follows after a stream that broke off: another target, else the next candidate, and the same target last.
    fn after_cut(&mut self, x: &Exchange<'_>, chosen: &Chosen<'_>, key: Option<usize>, at_one: &mut AtOne) -> Follows {
        if self.attempts >= self.call.model.attempts || !self.spend_retry(chosen) {
            return Follows::Nothing;
        }
        self.order.push(chosen.index);
        if at_one.attempts == AT_ONE || !has_untried(x, chosen) {
            return Follows::Candidate;
        }
        at_one.same_key = Some(key);
        at_one.is_elsewhere = true;
        Follows::Again
    }

    /// Takes a retry from the upstream's budget.
    fn spend_retry(&self, chosen: &Chosen<'_>) -> bool {
        let is_spent = chosen.view.spend_retry(super::super::proxy::moment());
        if is_spent {
            self.call.snapshot.upstream_metrics[chosen.provider.upstream.0].retried();
        }
        is_spent
    }

    /// How long to wait before the same is tried again; `None` if it is not.
    fn wait(&self, x: &Exchange<'_>, rule: &Rule, hint: Option<Duration>) -> Option<Duration> {
        match (rule.repeat, hint) {
            (Repeat::Never, _) => None,
            (Repeat::NewConnection, _) => Some(Duration::ZERO),
            (Repeat::OnceAfterBackoff, _) => Some(backoff(x, self.attempts)),
            (Repeat::AfterHint, hint) => hint.filter(|hint| *hint <= self.call.model.retry_after),
        }
    }

    /// No candidate is left.
    ///
    /// # Errors
    /// What the client is told; nothing where it was told already.
    async fn give_up(self, x: &mut Exchange<'_>) -> Result<(), Stop> {
        let call = self.call;
        if let Some(begun) = self.begun {
            return recover::give_up(x, call, *begun).await;
        }
        Err(match (self.last, self.refused) {
            (Some(failed), _) => give_up(x, call, failed).await?,
            (None, Some(problem)) => problem.into(),
            (None, None) if self.is_too_long => {
                let estimate = call.estimate;
                let message =
                    format!("The prompt has about {estimate} tokens, more than any candidate of the model takes");
                Problem::request("context_length_exceeded", message, Some("messages")).into()
            }
            (None, None) => Reason::Unavailable.into(),
        })
    }
}

/// Whether a refusal parks the key for all calls. A key may have the right to some operations only, and requests about stored responses are as
/// many as a client likes to send.
fn rests_key(call: &Call<'_>, fault: Fault) -> bool {
    match call.shape {
        Shape::Stored(_) => false,
        Shape::Form(_) => fault != Fault::UNAUTHORIZED,
        Shape::Json => fault != Fault::UNAUTHORIZED || call.api.generates_text(),
    }
}

/// Notes whose attempt begins.
fn note(x: &mut Exchange<'_>, chosen: &Chosen<'_>, plan: &AttemptPlan<'_>) {
    if let Some(record) = &mut x.ai {
        record.candidate = Some(chosen.index);
        record.provider = Some(chosen.provider.name.clone());
        record.served_model = chosen.candidate.model.clone();
        record.key = plan.key.map(|key| key.shown.clone());
        record.fallback = !plan.is_first;
        record.price = chosen.candidate.price;
        record.was_sent = false;
        record.fault = 0;
        record.is_noted = false;
    }
}

/// Whether the candidate has a target that can be tried and was not.
fn has_untried(x: &Exchange<'_>, chosen: &Chosen<'_>) -> bool {
    chosen.view.has_untried(&x.scratch.tried, super::super::proxy::moment())
}

/// Whether the request gets `include_usage`, which its client did not set: the usage is counted, and removed from the stream.
fn adds_usage(call: &Call<'_>, is_translated: bool) -> bool {
    call.streams
        && !is_translated
        && matches!(call.api, Api::Chat | Api::Completions)
        && !call.scan.is_true(Member::IncludeUsage, call.body)
}

/// Every key of the only candidates rests.
fn cooling(rest: Duration, fault: u8) -> Failed {
    let fault = Fault::all().find(|known| known.number() == fault).unwrap_or(Fault::RATE_LIMITED);
    Failed { retry_after: Some(rest), ..Failed::fault(fault, None) }
}

fn backoff(x: &Exchange<'_>, attempts: u32) -> Duration {
    let longest = BACKOFF.saturating_mul(1 << attempts.saturating_sub(1).min(8)).min(LONGEST_BACKOFF);
    Duration::from_nanos(x.worker.random() % nanos(longest).max(1))
}

/// Waits before a further attempt, as long as the client does.
pub(super) async fn pause(x: &mut Exchange<'_>, wait: Duration, total_due: u64) -> Result<(), Stop> {
    if wait.is_zero() {
        return Ok(());
    }
    x.stalls.change(super::super::stall::Stall::Gateway);
    let due = clock::loop_ns().saturating_add(nanos(wait));
    x.down.deadline.set_at(due.min(total_due));
    std::future::poll_fn(|cx| {
        if x.down.poll_disconnect(cx, &x.worker.buffers).is_ready() {
            return std::task::Poll::Ready(Err(Reason::ClientDisconnected));
        }
        match x.down.deadline.poll_passed(cx) {
            true if due >= total_due => std::task::Poll::Ready(Err(Reason::TotalTimeout)),
            true => std::task::Poll::Ready(Ok(())),
            false => std::task::Poll::Pending,
        }
    })
    .await?;
    Ok(())
}

/// Nothing helped: what the client is told. A provider's own response is passed on where the table of faults says so.
async fn give_up(x: &mut Exchange<'_>, call: &Call<'_>, failed: Failed) -> Result<Stop, Stop> {
    let Some(fault) = failed.fault else { return Ok(failed.error.into()) };
    let rule = fault.rule();
    let own_status = failed.error.reason.status();
    let mut status = match (rule.status, &failed.response) {
        (0, Some(response)) => response.status,
        (0, None) => llm::fault::status_of(&llm::response::UpstreamError::default()).max(502),
        (status, _) => status,
    };
    // No target to be had is the gateway's to say.
    let reason = failed.error.reason;
    let is_full = failed.is_of_queue();
    if is_full || reason == Reason::Unavailable {
        status = own_status;
    }
    let message = match (rule.status, failed.message.is_empty()) {
        _ if is_full => "The model is at its limit".to_owned(),
        (0, false) => failed.message.clone(),
        _ => message_of(fault).to_owned(),
    };
    if rule.status == 0
        && let Some(response) = &failed.response
        && let Some(plan) = last_plan(x, call)
        && plan.api == call.api
    {
        x.log.error = Some(failed.error);
        x.worker.metrics.not_served(failed.error.reason);
        x.send_response(call, &plan, response).await?;
        return Err(Stop::Sent);
    }
    let retry_after = match status {
        429 | 503 => Some(failed.retry_after.map_or(1, |wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0))),
        _ => None,
    };
    let code = match (rule.code, status) {
        _ if is_full => reason.label(),
        ("", _) if fault == Fault::CONTENT_FILTER => "content_filter",
        ("", 400..=499) => "invalid_request",
        ("", _) => "upstream_error",
        (code, _) => code,
    };
    let is_final = failed.error.reason.fault() == Side::Client;
    Ok(Problem { reason: failed.error.reason, status, code: code.into(), message, param: None, retry_after, is_final }
        .into())
}

/// The last attempt, as far as a response from it needs it.
fn last_plan<'a>(x: &Exchange<'_>, call: &Call<'a>) -> Option<AttemptPlan<'a>> {
    let record = x.ai.as_ref()?;
    let candidate = &call.model.candidates[record.candidate?];
    let provider = &call.snapshot.config().providers[candidate.provider.0];
    let api = translation::egress(call.api, provider.family)?;
    let is_first = !record.fallback;
    Some(AttemptPlan {
        candidate,
        provider,
        key: None,
        api,
        translated: None,
        dropped: Vec::new(),
        is_first,
        adds_usage: false,
        is_elsewhere: false,
        may_prefill: false,
    })
}

/// A fault in words for a client: nothing of the provider's account.
fn message_of(fault: Fault) -> &'static str {
    match fault {
        Fault::UNREACHABLE => "No provider of the model can be reached",
        Fault::RATE_LIMITED_UNTIL | Fault::RATE_LIMITED => "The providers of the model take no more requests for now",
        Fault::QUOTA => "The quota at the providers of the model is used up",
        Fault::OVERLOADED => "The providers of the model are overloaded",
        Fault::RESET => "The provider closed the connection without a response",
        Fault::SILENT | Fault::NO_CONTENT_IN_TIME => "The providers of the model did not respond within the timeout",
        Fault::UNAUTHORIZED => "The gateway has no access to the model at its provider",
        Fault::CONTEXT_LENGTH => "The prompt is too long for the model",
        Fault::SERVER_ERROR | Fault::ERROR_BEFORE_CONTENT => "The providers of the model failed",
        _ => "The provider's response cannot be used",
    }
}
