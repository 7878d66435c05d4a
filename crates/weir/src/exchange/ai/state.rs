//! State that lies with one provider: responses of the Responses API. A call that refers to one goes where it was made, with the same key, and
//! nowhere else; whoever is not its tenant does not find it.

use llm::api::{Family, LONGEST_ID};
use llm::fault::Fault;
use llm::request::{Member, RequestScan};

use super::super::Exchange;
use super::Call;
use super::attempt::{AttemptPlan, Failed};
use super::problem::Problem;
use crate::config::{Config, LimitKey, Model, ProviderKey, RouteId};
use crate::error::Reason;
use crate::policy::ai::responses::{KeyMark, Known, Origin, Tenant};
use crate::policy::ai::{self, KeyChoice, KeyHealth};
use crate::policy::limit::identity_value;
use crate::worker::snapshot::Snapshot;

/// What a call of the Responses API has to do with state.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    tenant: Tenant,
    /// The only candidate that has the state.
    pin: Option<Pin>,
    /// The provider keeps the response: its id is noted.
    keeps: bool,
    /// The call changes state, or refers to it: it is not repeated once a provider may have worked on it.
    is_once: bool,
    /// The provider responds before the model does.
    pub(super) is_background: bool,
}

/// The place of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pin {
    /// Candidate, by its place in the model.
    pub(super) candidate: usize,
    /// Key, by its place at the provider; `None`: any.
    pub(super) key: Option<usize>,
}

impl State {
    /// For an operation on a stored response.
    pub(super) fn of_stored(tenant: Tenant, pin: Pin) -> Self {
        State { tenant, pin: Some(pin), keeps: false, is_once: false, is_background: false }
    }

    /// For a call that makes a response.
    ///
    /// # Errors
    /// The state to which it refers is not there, or is not known where.
    pub(super) fn of_call(
        x: &Exchange<'_>,
        snapshot: &Snapshot,
        route: RouteId,
        model: &Model,
        (found, body): (&RequestScan, &[u8]),
    ) -> Result<Self, Problem> {
        let tenant = tenant(x, snapshot, route);
        let config = snapshot.config();
        let is_background = found.is_true(Member::Background, body);
        let stores = found.value(Member::Store).is_none() || found.is_true(Member::Store, body);
        let mut state = State { tenant, pin: None, keeps: stores, is_once: found.has_state(body), is_background };
        if let Some(id) = found.string(Member::PreviousResponseId, body) {
            let known = match id.len() {
                // Of a longer one nobody knows whose it is.
                ..=LONGEST_ID => snapshot.generation.ai.responses.find(&id, tenant),
                _ => Known::Foreign,
            };
            state.pin = match known {
                Known::Foreign => return Err(not_found("previous_response_not_found", Some("previous_response_id"))),
                Known::Own(origin) => Some(pin(config, model, &origin).ok_or_else(|| {
                    let message =
                        "The response of `previous_response_id` was made at a provider that the model does not have";
                    Problem::request("unsupported_state", message, Some("previous_response_id"))
                })?),
                Known::Nothing if model.candidates.len() > 1 => first(config, model),
                Known::Nothing => None,
            };
        } else if found.value(Member::Conversation).is_some() && model.candidates.len() > 1 {
            let message = "`conversation` needs a model with one candidate, because one provider has the state";
            return Err(Problem::request("unsupported_state", message, Some("conversation")));
        }
        Ok(state)
    }
}

/// Whose the responses are that an exchange makes: its team's, else its key's, its consumer's or its token's subject's; of one authenticator, because
/// a name that another one gave is another name. Senders without a name are one tenant.
pub(super) fn tenant(x: &Exchange<'_>, snapshot: &Snapshot, route: RouteId) -> Tenant {
    let config = snapshot.config();
    let by = snapshot.auth.choose(&config.routes[route.0].auth, x.credentials()).ok().flatten().unwrap_or_default();
    let who = x.identity.as_deref();
    let keys = [("team", LimitKey::Team), ("key", LimitKey::VirtualKey), ("consumer", LimitKey::Consumer)];
    let known = who.and_then(|who| {
        let named = keys.iter().find_map(|(kind, key)| Some((*kind, identity_value(key, who)?.into_owned())));
        named.or_else(|| Some(("sub", who.claim_text("sub")?)))
    });
    let (kind, name) = known.unwrap_or_default();
    let mut names = vec![kind.as_bytes(), name.as_bytes()];
    names.extend(by.iter().map(|id| config.auth[id.0].name.as_bytes()));
    Tenant::of(&names)
}

/// Where in this model a response was made: at the same name of the same provider if that is a candidate, else at another name there.
pub(super) fn pin(config: &Config, model: &Model, origin: &Origin) -> Option<Pin> {
    let provider = |index: &usize| &config.providers[model.candidates[*index].provider.0];
    let is_there = |index: &usize| provider(index).name == origin.provider && provider(index).family == Family::OpenAi;
    let candidates = || (0..model.candidates.len()).filter(is_there);
    let candidate = candidates()
        .find(|index| model.candidates[*index].model == origin.served_model)
        .or_else(|| candidates().next())?;
    // A key that was removed was replaced by another one of the account, as far as anybody knows.
    let key = origin.key.and_then(|mark| {
        provider(&candidate).keys.iter().position(|key: &ProviderKey| KeyMark::of(&key.secret) == mark)
    });
    Some(Pin { candidate, key })
}

/// The first candidate with OpenAI's API.
pub(super) fn first(config: &Config, model: &Model) -> Option<Pin> {
    let is_openai = |index: &usize| config.providers[model.candidates[*index].provider.0].family == Family::OpenAi;
    let candidate = (0..model.candidates.len()).find(is_openai)?;
    Some(Pin { candidate, key: None })
}

/// A response that does not exist for whoever sends the request.
pub(super) fn not_found(code: &'static str, param: Option<&str>) -> Problem {
    let message = "The response does not exist here, or you have no access to it";
    Problem { reason: Reason::AiRequest, status: 404, ..Problem::request(code, message, param) }
}

fn pinned(call: &Call<'_>) -> Option<Pin> {
    call.state.and_then(|state| state.pin)
}

/// Indices of the candidates that are tried, in this order.
pub(super) fn order(call: &Call<'_>, random: impl FnMut() -> u64) -> Vec<usize> {
    pinned(call).map_or_else(|| ai::order(call.model, random), |pin| vec![pin.candidate])
}

/// Chooses a key of a candidate's provider: the one whose account has the state, else by weight.
pub(super) fn choose_key(call: &Call<'_>, keys: &[KeyHealth], tried: &[usize], now: u64, random: u64) -> KeyChoice {
    let Some(only) = pinned(call).and_then(|pin| pin.key) else { return KeyHealth::choose(keys, tried, now, random) };
    let others: Vec<usize> = (0..keys.len()).filter(|index| *index != only).collect();
    match keys.get(only) {
        Some(_) if tried.contains(&only) => KeyChoice::Tried,
        Some(key) if key.is_out(now) => KeyHealth::choose(std::slice::from_ref(key), &[], now, random),
        _ => KeyHealth::choose(keys, &others, now, random),
    }
}

/// Whether other keys than the one that was refused may be tried.
pub(super) fn may_change_key(call: &Call<'_>) -> bool {
    pinned(call).is_none_or(|pin| pin.key.is_none())
}

/// Whether another attempt may follow: where a call has state, only if its provider has not worked on it.
pub(super) fn may_repeat(call: &Call<'_>, failed: &Failed, fault: Fault) -> bool {
    const REFUSALS: [Fault; 7] = [
        Fault::UNREACHABLE,
        Fault::RATE_LIMITED_UNTIL,
        Fault::RATE_LIMITED,
        Fault::QUOTA,
        Fault::OVERLOADED,
        Fault::UNAUTHORIZED,
        Fault::CONTEXT_LENGTH,
    ];
    call.state.is_none_or(|state| !state.is_once) || failed.is_unprocessed || REFUSALS.contains(&fault)
}

/// Notes where a response is made, before its client knows the id.
pub(super) fn note(call: &Call<'_>, plan: &AttemptPlan<'_>, id: Option<&str>) {
    if let Some(state) = call.state.filter(|state| state.keeps)
        && let Some(id) = id
    {
        let origin = Origin {
            model: call.model.name.clone(),
            provider: plan.provider.name.clone(),
            served_model: plan.candidate.model.clone(),
            key: plan.key.map(|key| KeyMark::of(&key.secret)),
        };
        call.snapshot.generation.ai.responses.put(id, state.tenant, &origin);
    }
}
