//! Calls of AI models: the request is held whole, a candidate is found, and nothing is sent to the client before there is content, so that
//! another candidate can take the place of one that fails unseen. `docs/ai.md` has the table of faults.

mod attempt;
mod budget;
mod cache_key;
mod cached;
mod candidates;
mod count;
mod explain;
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
use llm::multipart::Form;
use llm::request::{Member, RequestScan};
use llm::tokens::PromptSize;
use memchr::memmem;

pub use problem::{write_problem, write_refusal};
pub use record::{Record, end_of};

use super::{Exchange, SendState};
use crate::config::{Guard, Model, ModelId, RouteAi, RouteId};
use crate::error::{Error, Reason};
use crate::policy::ai::metrics::Moment;
use crate::policy::ai::{AiState, Operation, find_model};
use crate::policy::cache::calls::CallLead;
use crate::runtime::deadline::nanos;
use crate::worker::snapshot::Snapshot;
use problem::{Problem, Stop};
use state::State;
use stored::StoredCall;

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
    fn has_own_exchange(&self) -> bool {
        self.heartbeat.is_some() || self.guard.is_some()
    }
}

/// Serves a request of a route with `ai`.
///
/// # Errors
/// Why there is no complete response; what the client is told depends on how much of one was sent.
pub async fn run(x: &mut Exchange<'_>, snapshot: &Snapshot, route: RouteId, action: &RouteAi) -> Result<(), Error> {
    let api = x.ingress_api().unwrap_or(Api::Chat);
    let stop = match serve(x, snapshot, route, action, api).await {
        Ok(()) | Err(Stop::Sent) => return Ok(()),
        Err(stop) => stop,
    };
    if x.send_state == SendState::None {
        x.explain(0);
    }
    match stop {
        Stop::Sent => Ok(()),
        Stop::Error(error) => Err(error),
        Stop::Problem(problem) => x.refuse_call(api, &problem).await,
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
        Box::pin(guard::call_guard(x, &call, guard, Moment::Before, question)).await?;
    }
    if let Some(cache) = &snapshot.routes[route.0].cache {
        // Boxed, so that calls without a cache carry nothing of it.
        if let Some(result) = Box::pin(cached::run(x, &call, cache, &mut held)).await {
            return result;
        }
    }
    if call.has_own_exchange() {
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
    let result = candidates::run(x, call, state).await;
    budget::settle(x, call, &result, reservation).await;
    learn(x, call, state);
    result
}

/// Whether the text of the request is all that the provider counts: no history that lies there, no images that it made.
fn teaches(call: &Call<'_>) -> bool {
    let is_text = call.api.generates_text() || call.api == Api::Embeddings;
    let has_history = || {
        let references =
            call.scan.value(Member::Prompt).is_some() || memmem::find(call.body, b"item_reference").is_some();
        call.api == Api::Responses && (call.scan.has_state(call.body) || references)
    };
    is_text && !has_history()
}

/// Learns from what a provider reported how long the tokens of the model are.
fn learn(x: &Exchange<'_>, call: &Call<'_>, state: &AiState) {
    if let Some(record) = &x.ai
        && let Some([input, ..]) = record.tokens
        && !record.estimated
        && !record.is_prefilled
        && teaches(call)
    {
        state.ratio(call.model_id).learn(&PromptSize::from(call.scan), input);
    }
}
