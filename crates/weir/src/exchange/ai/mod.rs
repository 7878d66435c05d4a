//! Calls of AI models: the request is held whole, a candidate is found, and nothing is sent to the client before there is content, so that
//! another candidate can take the place of one that fails unseen. `docs/ai.md` has the table of faults.

mod attempt;
mod budget;
mod cache_key;
mod cached;
mod count;
mod form;
mod guard;
mod heartbeat;
mod models;
mod opaque;
mod pick;
mod problem;
mod prompt;
mod record;
mod recover;
mod request;
mod response;
mod shared;
mod span;
mod state;
mod storable;
mod stored;
mod stream;
mod translation;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use llm::Api;
use llm::api::{GeminiMethod, MESSAGES_COUNT};
use llm::fault::{Fault, Next, Repeat};
use llm::multipart::Form;
use llm::request::{Member, RequestScan};
use llm::tokens::PromptSize;

pub use problem::{write_problem, write_refusal};
pub use record::{Record, end_of};

use super::{Answer, Exchange};
use crate::config::{Guard, Model, ModelId, RouteAi, RouteId};
use crate::error::{Error, Reason};
use crate::policy::ai::metrics::Moment;
use crate::policy::ai::{AiState, KeyChoice, Operation, find_model};
use crate::policy::cache::calls::CallLead;
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::worker::snapshot::Snapshot;
use attempt::{Failed, Turn, attempt};
use problem::{Problem, Stop};
use recover::Begun;
use state::State;
use stored::StoredCall;

/// Attempts at one candidate.
const AT_ONE: u32 = 2;
/// First backoff, doubled for each further attempt up to the longest; the wait is a random part of it.
const BACKOFF: Duration = Duration::from_millis(200);
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
/// Part of the estimate that must fit into a candidate's context: the estimate may be too high.
const SURE_PART: f64 = 0.8;

/// What a request consists of.
#[derive(Debug, Clone, Copy)]
enum Shape<'a> {
    /// A document in JSON.
    Json,
    /// A form with files.
    Form(&'a Form),
    /// Nothing but its path.
    Stored(StoredCall<'a>),
}

/// One call of a model.
pub struct Call<'a> {
    snapshot: &'a Snapshot,
    route: RouteId,
    /// What the client speaks.
    api: Api,
    /// The client's body, shared with what is being written.
    body: &'a Arc<Vec<u8>>,
    scan: &'a RequestScan,
    /// The method in the path of Gemini's API; `None` for the other APIs.
    method: Option<GeminiMethod>,
    /// The client requests an event stream.
    streams: bool,
    /// Tokens are counted, none are generated: the call uses none.
    counts: bool,
    model: &'a Model,
    model_id: ModelId,
    /// Estimated input tokens.
    estimate: u64,
    /// End of the exchange, in nanoseconds since process start.
    total_due: u64,
    /// For all that wait for the response, where another exchange makes the call.
    lead: Option<&'a CallLead>,
    /// Comments are due after so long without content.
    heartbeat: Option<Duration>,
    /// Reads the response before the client gets any of it.
    guard: Option<&'a Guard>,
    /// What the request consists of.
    shape: Shape<'a>,
    /// State of the Responses API.
    state: Option<State>,
}

impl Call<'_> {
    /// The call is made by an exchange of its own, because this one does more than to pass the response on as it comes.
    fn is_apart(&self) -> bool {
        self.heartbeat.is_some() || self.guard.is_some()
    }
}

/// Serves a request of a route with `ai`.
///
/// # Errors
/// Why there is no complete response; what the client is told depends on how much of one was sent.
pub async fn run(x: &mut Exchange<'_>, snapshot: &Snapshot, route: RouteId, action: &RouteAi) -> Result<(), Error> {
    let api = x.ingress_api().unwrap_or(Api::Chat);
    match serve(x, snapshot, route, action, api).await {
        Ok(()) => Ok(()),
        Err(Stop::Sent) => Ok(()),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Problem(problem)) => x.refuse_call(api, &problem).await,
    }
}

async fn serve(
    x: &mut Exchange<'_>,
    snapshot: &Snapshot,
    route: RouteId,
    action: &RouteAi,
    api: Api,
) -> Result<(), Stop> {
    let config = snapshot.config();
    let method = x.scratch.request.method_name.of_buf(x.down.buffer.whole());
    match Operation::of(method, &x.scratch.path) {
        Operation::Call(api) if api.takes_form() => return form::run(x, snapshot, route, action, api).await,
        Operation::Call(_) => {}
        Operation::Stored(operation, id) => {
            return stored::run(x, snapshot, route, action, StoredCall { operation, id: &id }).await;
        }
        Operation::Models => return models::run(x, config, action, api, None).await,
        Operation::Model(name) => return models::run(x, config, action, api, Some(&name)).await,
        Operation::WrongMethod(allow) => {
            x.allow = Some(allow.as_bytes().to_vec());
            return Err(Reason::MethodNotAllowed.into());
        }
        Operation::Unknown => {
            let detail = "AI routes serve /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/moderations, /v1/images/generations, /v1/images/edits, /v1/images/variations, /v1/audio/speech, /v1/audio/transcriptions, /v1/audio/translations, /v1/responses, /v1/responses/{id} with /cancel and /input_items, /v1/messages, /v1/messages/count_tokens, /v1/models, and of Gemini's API /v1beta/models with :generateContent, :streamGenerateContent and :countTokens";
            return Err(Error::new(Reason::NotFound, detail).into());
        }
    }
    let state = &snapshot.generation.ai;
    let mut held = state.hold();
    let body = request::read(x, &mut held).await?;
    let (body, found, redacted) = prompt::scanned(body, &action.redact)?;
    // What takes the place of what was found may be longer.
    request::take_room(&mut held, body.len() as u64)?;
    state.counters.redacted(&redacted);
    let body = Arc::new(body);
    let path = std::str::from_utf8(&x.scratch.path).unwrap_or_default();
    let (name, method) = match GeminiMethod::of_path(path).filter(|_| api == Api::Gemini) {
        Some((name, method)) => (Some(name.into()), Some(method)),
        None => (found.model(&body), None),
    };
    let counts = method == Some(GeminiMethod::Count) || path == MESSAGES_COUNT;
    let Some((model_id, model)) = find_model(config, action, x.identity.as_deref(), name.as_deref()) else {
        return Err(match name {
            Some(name) => models::not_found(&name, api).into(),
            None => Problem::request("missing_model", "The request names no `model`", Some("model")).into(),
        });
    };
    let stateful = match api {
        Api::Responses => Some(State::of_call(x, snapshot, route, model, (&found, &body))?),
        _ => None,
    };
    if api == Api::Images && found.stream(&body) {
        let message = "Images are not served as events";
        return Err(Problem::request("unsupported_member", message, Some("stream")).into());
    }
    let streams = match method {
        Some(method) => method == GeminiMethod::Stream && request::wants_events(x),
        None => found.stream(&body) && api.generates_text() && !counts,
    };
    let estimate = state.ratio(model_id).estimate(&PromptSize::from(&found));
    let mut record = Record::new(api, (model_id, model.name.clone()), streams);
    record.estimate = estimate;
    record.redacted = redacted.total();
    x.ai = Some(Box::new(record));
    if counts && count::has_inner_request(api, &body) {
        let message = "A `generateContentRequest` is not looked into; put its `contents` into the request itself";
        return Err(Problem::request("unsupported_member", message, Some("generateContentRequest")).into());
    }
    if counts && !count::is_served(config, model, api) {
        return count::estimated(x, api, estimate).await;
    }
    let scan = &found;
    let call = Call {
        snapshot,
        route,
        api,
        body: &body,
        scan,
        method,
        streams,
        counts,
        model,
        model_id,
        estimate,
        total_due: total_due(x, model),
        lead: None,
        heartbeat: action.heartbeat.filter(|_| streams),
        // Embeddings and counts of tokens say nothing.
        guard: guard::of(action, Moment::After).filter(|_| api.generates_text() && !counts),
        shape: Shape::Json,
        state: stateful,
    };
    if let Some(guard) = guard::of(action, Moment::Before) {
        guard::check(&body)?;
        let question = guard::question(x, &call, Moment::Before, guard::Text::Json(&body));
        Box::pin(guard::ask(x, &call, guard, Moment::Before, question)).await?;
    }
    if let Some(cache) = &snapshot.routes[route.0].cache {
        // Boxed, so that calls without a cache carry nothing of it.
        if let Some(result) = Box::pin(cached::run(x, &call, cache, &mut held)).await {
            return result;
        }
    }
    if call.is_apart() {
        return Box::pin(heartbeat::run(x, &call, &mut held)).await;
    }
    make(x, &call).await
}

/// When the call must be over, in nanoseconds since process start.
fn total_due(x: &Exchange<'_>, model: &Model) -> u64 {
    model.total.map_or(u64::MAX, |total| x.log.started_ns.saturating_add(nanos(total)))
}

/// Makes a call whose response goes to this client only.
async fn make(x: &mut Exchange<'_>, call: &Call<'_>) -> Result<(), Stop> {
    let state = &call.snapshot.generation.ai;
    let reservation = budget::reserve(x, call).await?;
    let result = candidates(x, call, state).await;
    budget::settle(x, call, &result, reservation).await;
    learn(x, call, state);
    result
}

/// Learns from what a provider reported how long the tokens of the model are.
fn learn(x: &Exchange<'_>, call: &Call<'_>, state: &AiState) {
    if let Some(record) = &x.ai
        && let Some([input, ..]) = record.tokens
        && !record.estimated
        && !record.is_prefilled
    {
        state.ratio(call.model_id).learn(&PromptSize::from(call.scan), input);
    }
}

/// Tries candidates until one leads to a response.
async fn candidates(x: &mut Exchange<'_>, call: &Call<'_>, state: &AiState) -> Result<(), Stop> {
    x.scratch.tried.clear();
    let mut order = state::order(call, || x.worker.random());
    let first = order.first().copied();
    let mut attempts = 0;
    let mut last: Option<Failed> = None;
    let mut refused: Option<Problem> = None;
    // After a prompt that was too long: only candidates with more room than this.
    let mut more_than = None;
    let least = (call.estimate as f64 * SURE_PART) as u64;
    let mut too_small = 0;
    // The part of a stream that the client has.
    let mut begun: Option<Box<Begun>> = None;
    let mut position = 0;
    'candidates: while let Some(&index) = order.get(position) {
        position += 1;
        let candidate = &call.model.candidates[index];
        let provider = &call.snapshot.config().providers[candidate.provider.0];
        if candidate.context.is_some_and(|context| context < least) {
            too_small += 1;
            continue;
        }
        if more_than.is_some_and(|least: Option<u64>| candidate.context.is_none() || candidate.context <= least) {
            continue;
        }
        let Some(api) = translation::egress(call.api, provider.family) else {
            let message =
                format!("The model `{}` is served by a provider that has no {} API", call.model.name, call.api.name());
            refused.get_or_insert_with(|| Problem::request("unsupported_api", message, Some("model")));
            continue;
        };
        let health = &state.candidates(call.model_id)[index];
        // The last hope is tried even if it rests.
        let is_last = position == order.len() && last.is_none();
        if health.is_out(clock::turn_ns()) && !is_last {
            continue;
        }
        let mut dropped = Vec::new();
        let translated = if api == call.api {
            None
        } else {
            match translation::request(call, api, candidate) {
                Ok((body, hints)) => {
                    dropped = hints;
                    Some(body)
                }
                Err(why) => {
                    refused.get_or_insert_with(|| {
                        Problem::request("unsupported_member", why.to_string(), Some(&why.member))
                    });
                    continue;
                }
            }
        };
        let keys = state.keys(candidate.provider);
        let mut tried_keys: Vec<usize> = Vec::new();
        let mut same_key = None;
        let view = call.snapshot.views.get(provider.upstream);
        let first_due = call.model.first_token.map_or(u64::MAX, |first| clock::turn_ns().saturating_add(nanos(first)));
        let mut is_elsewhere = false;
        let mut at_one = 0;
        while at_one < AT_ONE && attempts < call.model.attempts {
            let key = match same_key.take() {
                Some(key) => key,
                None => match state::choose_key(call, keys, &tried_keys, clock::turn_ns(), x.worker.random()) {
                    KeyChoice::None => None,
                    KeyChoice::Key(key) => Some(key),
                    KeyChoice::Resting(rest, fault) if last.is_none() => {
                        last = Some(resting(rest, fault));
                        break;
                    }
                    KeyChoice::Resting(..) | KeyChoice::Tried => break,
                },
            };
            at_one += 1;
            attempts += 1;
            let turn = Turn {
                candidate,
                provider,
                key: key.and_then(|key| provider.keys.get(key)),
                api,
                translated: translated.as_deref(),
                dropped: dropped.clone(),
                is_first: first == Some(index),
                adds_usage: adds_usage(call, translated.is_some()),
                is_elsewhere,
                may_prefill: begun.as_ref().is_none_or(|begun| !begun.refused_by.contains(&index)),
            };
            is_elsewhere = false;
            if let Some(record) = &mut x.ai {
                record.candidate = Some(index);
                record.provider = Some(provider.name.clone());
                record.served_model = candidate.model.clone();
                record.key = turn.key.map(|key| key.shown.clone());
                record.fallback = first != Some(index);
                record.price = candidate.price;
                record.was_sent = false;
                record.fault = 0;
            }
            let result = attempt(x, call, &turn, &mut begun).await;
            let number = match &result {
                Ok(()) => x.ai.as_ref().map_or(0, |record| record.fault),
                Err(failed) => failed.fault.map_or(0, Fault::number),
            };
            let differs = begun.as_ref().is_some_and(|begun| begun.differs);
            let is_outcome = result.is_ok() || differs || matches!(&result, Err(failed) if failed.fault.is_some());
            if is_outcome {
                state.pair(call.model_id, Some(index)).attempt(number);
                if let Some(record) = &mut x.ai {
                    record.attempted(&provider.name, &candidate.model, number, differs);
                }
            }
            if matches!(&result, Err(failed) if failed.is_of_queue()) {
                // Nothing was sent.
                attempts -= 1;
            }
            let failed = match result {
                Ok(()) => {
                    if let Some(key) = key {
                        keys[key].accepted();
                    }
                    return Ok(());
                }
                Err(failed) => failed,
            };
            let fault = match failed.fault {
                Some(fault) if x.answer == Answer::None || begun.is_some() => fault,
                _ if begun.is_some() && failed.error.reason != Reason::ClientGone => break 'candidates,
                _ => {
                    if let Some(begun) = &mut begun {
                        begun.abandon(x, call);
                    }
                    return Err(failed.error.into());
                }
            };
            let rule = fault.rule();
            let hint = failed.retry_after;
            let is_unprocessed = failed.is_unprocessed;
            let is_unknown_model =
                fault == Fault::UNAUTHORIZED && failed.response.as_ref().is_some_and(|r| r.status == 404);
            let may_repeat = state::may_repeat(call, &failed, fault);
            last = Some(failed);
            if begun.as_ref().is_some_and(|begun| begun.is_final) {
                break 'candidates;
            }
            if begun.as_mut().is_some_and(|begun| std::mem::take(&mut begun.is_open)) {
                if attempts >= call.model.attempts || !view.spend_retry(super::proxy::moment()) {
                    break 'candidates;
                }
                call.snapshot.upstream_metrics[provider.upstream.0].retried();
                // Another target, else the next candidate, and the same target last.
                order.push(index);
                if at_one < AT_ONE && view.has_untried(&x.scratch.tried, super::proxy::moment()) {
                    same_key = Some(key);
                    is_elsewhere = true;
                    continue;
                }
                break;
            }
            // A request that was written here may be refused where the client's own would not be.
            match &mut begun {
                Some(begun) if rule.next == Next::Nothing && begun.is_prefilled => begun.refused_by.push(index),
                _ if rule.next == Next::Nothing || !may_repeat => break 'candidates,
                _ => {}
            }
            if rule.next == Next::LargerContext {
                more_than = Some(candidate.context);
            }
            // The candidate is not lost while another of its replicas can be reached. It has not seen the request, so the attempt does not
            // count as one at the candidate; the retry budget and the time to the first token bound how many follow.
            if is_unprocessed
                && rule.next == Next::Target
                && clock::turn_ns() < first_due
                && view.has_untried(&x.scratch.tried, super::proxy::moment())
                && view.spend_retry(super::proxy::moment())
            {
                call.snapshot.upstream_metrics[provider.upstream.0].retried();
                at_one -= 1;
                attempts -= 1;
                same_key = Some(key);
                is_elsewhere = true;
                continue;
            }
            let mut other_key = false;
            if is_unknown_model {
                health.unknown_model(clock::turn_ns());
                break;
            }
            if let (Next::Key, Some(key)) = (rule.next, key) {
                keys[key].refused(fault, hint, clock::turn_ns());
                tried_keys.push(key);
                other_key = state::may_change_key(call)
                    && keys
                        .iter()
                        .enumerate()
                        .any(|(index, key)| !tried_keys.contains(&index) && !key.is_out(clock::turn_ns()));
            }
            if at_one == AT_ONE || attempts >= call.model.attempts {
                break;
            }
            if other_key {
                continue;
            }
            let wait = match (rule.repeat, hint) {
                (Repeat::Never, _) => None,
                (Repeat::NewConnection, _) => Some(Duration::ZERO),
                (Repeat::OnceAfterBackoff, _) => Some(backoff(x, attempts)),
                (Repeat::AfterHint, Some(hint)) if hint <= call.model.retry_after => Some(hint),
                (Repeat::AfterHint, _) => None,
            };
            let Some(wait) = wait else { break };
            if !view.spend_retry(super::proxy::moment()) {
                break;
            }
            call.snapshot.upstream_metrics[provider.upstream.0].retried();
            match pause(x, wait, call.total_due).await {
                Err(Stop::Error(error)) if begun.is_some() && error.reason != Reason::ClientGone => break 'candidates,
                waited => waited?,
            }
            same_key = Some(key);
        }
    }
    if let Some(begun) = begun {
        return recover::give_up(x, call, *begun).await;
    }
    Err(match (last, refused) {
        (Some(failed), _) => give_up(x, call, failed).await?,
        (None, Some(problem)) => problem.into(),
        (None, None) if too_small > 0 => {
            let message =
                format!("The prompt has about {} tokens, more than any candidate of the model takes", call.estimate);
            Problem::request("context_length_exceeded", message, Some("messages")).into()
        }
        (None, None) => Reason::Unavailable.into(),
    })
}

/// Whether the request gets `include_usage`, which its client did not set: the usage is counted, and removed from the stream.
fn adds_usage(call: &Call<'_>, is_translated: bool) -> bool {
    call.streams
        && !is_translated
        && matches!(call.api, Api::Chat | Api::Completions)
        && !call.scan.is_true(Member::IncludeUsage, call.body)
}

/// Every key of the only candidates rests.
fn resting(rest: Duration, fault: u8) -> Failed {
    let fault = Fault::all().find(|known| known.number() == fault).unwrap_or(Fault::RATE_LIMITED);
    Failed { retry_after: Some(rest), ..Failed::fault(fault, None) }
}

fn backoff(x: &Exchange<'_>, attempts: u32) -> Duration {
    let longest = BACKOFF.saturating_mul(1 << attempts.saturating_sub(1).min(8)).min(LONGEST_BACKOFF);
    Duration::from_nanos(x.worker.random() % nanos(longest).max(1))
}

/// Waits before a further attempt, as long as the client does.
async fn pause(x: &mut Exchange<'_>, wait: Duration, total_due: u64) -> Result<(), Stop> {
    if wait.is_zero() {
        return Ok(());
    }
    x.stalls.change(super::stall::Stall::Gateway);
    let due = clock::turn_ns().saturating_add(nanos(wait));
    x.down.deadline.set_at(due.min(total_due));
    std::future::poll_fn(|cx| {
        if x.down.poll_gone(cx, &x.worker.buffers).is_ready() {
            return std::task::Poll::Ready(Err(Reason::ClientGone));
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
        && let Some(turn) = last_turn(x, call)
        && turn.api == call.api
    {
        x.log.error = Some(failed.error);
        x.worker.metrics.not_served(failed.error.reason);
        x.send_response(call, &turn, response).await?;
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
    let is_final = failed.error.reason.fault() == crate::error::Fault::Client;
    Ok(Problem { reason: failed.error.reason, status, code: code.into(), message, param: None, retry_after, is_final }
        .into())
}

/// The last attempt, as far as a response from it needs it.
fn last_turn<'a>(x: &Exchange<'_>, call: &Call<'a>) -> Option<Turn<'a>> {
    let record = x.ai.as_ref()?;
    let candidate = &call.model.candidates[record.candidate?];
    let provider = &call.snapshot.config().providers[candidate.provider.0];
    let api = translation::egress(call.api, provider.family)?;
    let is_first = !record.fallback;
    Some(Turn {
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
