//! Operations on stored responses, by their ids: they go to the provider that made the response, with the key that made it. An id that nobody here
//! knows goes to the first provider; one of another tenant goes nowhere.

use std::sync::Arc;

use h1::BodyKind;
use llm::Api;
use llm::api::StoredOperation;
use llm::request::RequestScan;

use super::super::Exchange;
use super::problem::{Problem, Stop};
use super::state::{Pin, State, first, not_found, pin, tenant};
use super::{Call, Record, Shape, candidates, guard, request, total_due};
use crate::config::{Config, Model, ModelId, RouteAi, RouteId};
use crate::policy::ai::metrics::Moment;
use crate::policy::ai::models;
use crate::policy::ai::responses::{Known, Origin};
use crate::worker::snapshot::Snapshot;

/// An operation on a stored response.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredCall<'a> {
    /// What is done.
    pub operation: StoredOperation,
    /// Id of the response.
    pub id: &'a str,
}

/// Serves an operation on a stored response.
///
/// # Errors
/// Why there is no response.
pub(super) async fn run(
    x: &mut Exchange<'_>,
    snapshot: &Snapshot,
    route: RouteId,
    action: &RouteAi,
    stored: StoredCall<'_>,
) -> Result<(), Stop> {
    let config = snapshot.config();
    let state = &snapshot.generation.ai;
    let mut held = state.hold();
    if x.scratch.request.body != BodyKind::None {
        // None of these operations has a body; what comes is not forwarded.
        request::read(x, &mut held).await?;
    }
    if stored.operation != StoredOperation::Delete && guard::of(action, Moment::After).is_some() {
        let message = "The guard of this route reads responses as they are made; stored ones are not served";
        return Err(Problem::request("unsupported_operation", message, None).into());
    }
    let tenant = tenant(x, snapshot, route);
    let missing = || not_found("response_not_found", None);
    let ((model_id, model), pin) = match state.responses.find(stored.id, tenant) {
        Known::Foreign => return Err(missing().into()),
        Known::Own(origin) => place_of(x, config, action, &origin).ok_or_else(missing)?,
        Known::Nothing => models(config, action, x.identity.as_deref())
            .find_map(|(id, model)| Some(((id, model), first(config, model)?)))
            .ok_or_else(missing)?,
    };
    x.ai = Some(Box::new(Record::new(Api::Responses, (model_id, model.name.clone()), false)));
    let (body, scan) = (Arc::default(), RequestScan::default());
    let call = Call {
        snapshot,
        route,
        api: Api::Responses,
        body: &body,
        scan: &scan,
        method: None,
        streams: false,
        // It uses no tokens.
        counts: true,
        model,
        model_id,
        estimate: 0,
        total_due: total_due(x, model),
        lead: None,
        heartbeat: None,
        guard: None,
        shape: Shape::Stored(stored),
        state: Some(State::of_stored(tenant, pin)),
    };
    candidates::run(x, &call, state).await
}

/// Where a response was made, in a model that the sender may use: the same one if possible.
fn place_of<'c>(
    x: &Exchange<'_>,
    config: &'c Config,
    action: &RouteAi,
    origin: &Origin,
) -> Option<((ModelId, &'c Model), Pin)> {
    let place = |(id, model): (ModelId, &'c Model)| Some(((id, model), pin(config, model, origin)?));
    let all = || models(config, action, x.identity.as_deref());
    all().filter(|(_, model)| model.name == origin.model).find_map(place).or_else(|| all().find_map(place))
}
