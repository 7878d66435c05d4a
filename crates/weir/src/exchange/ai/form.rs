//! Calls whose request is a form: files with fields beside them. The form passes as it is, but for the name of the model.

use std::sync::Arc;

use h1::Known;
use llm::Api;
use llm::multipart::{Form, FormError};
use llm::request::RequestScan;

use super::super::Exchange;
use super::problem::{Problem, Stop};
use super::{Call, Record, Shape, find_model, guard, make, models, request, total_due};
use crate::config::{RouteAi, RouteId};
use crate::policy::ai::metrics::Moment;
use crate::worker::snapshot::Snapshot;

/// Serves a call with a form.
///
/// # Errors
/// Why there is no response.
pub(super) async fn run(
    x: &mut Exchange<'_>,
    snapshot: &Snapshot,
    route: RouteId,
    action: &RouteAi,
    api: Api,
) -> Result<(), Stop> {
    let refused = if !action.redact.is_empty() {
        Some("`redact` of this route cannot search forms")
    } else if guard::of(action, Moment::Before).is_some() {
        Some("The guard of this route cannot read forms")
    } else {
        None
    };
    if let Some(message) = refused {
        return Err(Problem::request("unsupported_operation", message, None).into());
    }
    let mut held = snapshot.generation.ai.hold();
    let body = Arc::new(request::read(x, &mut held).await?);
    let form = Form::read(content_type(x), &body).map_err(malformed)?;
    if form.streams && snapshot.routes[route.0].limits.has_budgets() {
        let message = "Events of a form's response are not read, and this route limits tokens or money";
        return Err(Problem::request("unsupported_member", message, Some("stream")).into());
    }
    let name = form.model(&body);
    let config = snapshot.config();
    let Some((model_id, model)) = find_model(config, action, x.identity.as_deref(), name) else {
        return Err(match name {
            Some(name) => models::not_found(name, api).into(),
            None => {
                let message = "The form has no field `model` in its first 64 KiB; put it before the files";
                Problem::request("missing_model", message, Some("model")).into()
            }
        });
    };
    x.ai = Some(Box::new(Record::new(api, (model_id, model.name.clone()), false)));
    let scan = RequestScan::default();
    let call = Call {
        snapshot,
        route,
        api,
        body: &body,
        scan: &scan,
        method: None,
        streams: false,
        counts: false,
        model,
        model_id,
        estimate: 0,
        total_due: total_due(x, model),
        lead: None,
        heartbeat: None,
        guard: None,
        shape: Shape::Form(&form),
        state: None,
    };
    make(x, &call).await
}

/// The content type of the request; empty if it has none, or more than one.
fn content_type<'x>(x: &'x Exchange<'_>) -> &'x [u8] {
    let buf = x.down.buffer.whole();
    let mut all = x.scratch.request.fields.iter().filter(|field| field.known == Known::ContentType);
    match (all.next(), all.next()) {
        (Some(only), None) => only.value.of_buf(buf),
        _ => b"",
    }
}

fn malformed(error: FormError) -> Problem {
    let param = error.defect.is_of_model().then_some("model");
    Problem::request("invalid_request", format!("The form cannot be read: {error}"), param)
}
