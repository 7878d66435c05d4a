//! `GET /v1/models`, `GET /v1beta/models`: the models of the route that the API can reach, in the form of that API.

use auth::Identity;
use llm::Api;
use serde_json::{Value, json};

use super::super::Exchange;
use super::problem::{Problem, Stop};
use super::translation::egress;
use crate::config::{Alias, Config, Model, RouteAi};
use crate::error::Reason;
use crate::http::response::Prepared;
use crate::policy::ai::{self, find_model};

/// Whether a provider of the model can serve a client of this API.
fn is_served(config: &Config, model: &Model, api: Api) -> bool {
    model.candidates.iter().any(|candidate| egress(api, config.providers[candidate.provider.0].family).is_some())
}

/// Names that a client may use: those of models, and aliases without a `*`.
fn names(config: &Config, route: &RouteAi, who: Option<&Identity>, api: Api) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (_, model) in ai::models(config, route, who).filter(|(_, model)| is_served(config, model, api)) {
        let exact = model.aliases.iter().filter_map(|alias| match alias {
            Alias::Exact(name) => Some(name.to_string()),
            Alias::Pattern(..) => None,
        });
        names.extend(std::iter::once(model.name.to_string()).chain(exact));
    }
    names
}

fn describe(api: Api, name: &str) -> Value {
    match api {
        Api::Messages => {
            json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"})
        }
        Api::Gemini => {
            let methods = ["generateContent", "streamGenerateContent", "countTokens"];
            json!({"name": format!("models/{name}"), "displayName": name, "supportedGenerationMethods": methods})
        }
        _ => json!({"id": name, "object": "model", "created": 0, "owned_by": "weir"}),
    }
}

/// Responds with all names, or with one.
///
/// # Errors
/// There is no such model, or the client does not take the response.
pub(super) async fn run(
    x: &mut Exchange<'_>,
    config: &Config,
    route: &RouteAi,
    api: Api,
    name: Option<&str>,
) -> Result<(), Stop> {
    let document = match name {
        Some(name) => {
            let exact = RouteAi { default_model: None, ..route.clone() };
            match find_model(config, &exact, x.identity.as_deref(), Some(name)) {
                Some((_, model)) if is_served(config, model, api) => describe(api, name),
                _ => return Err(not_found(name, api).into()),
            }
        }
        None => {
            let names = names(config, route, x.identity.as_deref(), api);
            let list: Vec<Value> = names.iter().map(|name| describe(api, name)).collect();
            match api {
                Api::Messages => {
                    json!({"data": list, "has_more": false, "first_id": names.first(), "last_id": names.last()})
                }
                Api::Gemini => json!({"models": list}),
                _ => json!({"object": "list", "data": list}),
            }
        }
    };
    let body = document.to_string();
    x.log.own = Some("The gateway says which models it has");
    x.response(&Prepared::new(200, Some("application/json"), b"", body.as_bytes())).await?;
    Ok(())
}

/// No model has this name.
pub(super) fn not_found(name: &str, api: Api) -> Problem {
    let list = if api == Api::Gemini { "/v1beta/models" } else { "/v1/models" };
    // What clients send may be anything; a name that none could have is not repeated.
    let is_plain = name.len() <= 256 && name.bytes().all(|byte| byte.is_ascii_graphic());
    let message = if is_plain {
        format!("The model `{name}` does not exist here, or you have no access to it; GET {list} lists those that do")
    } else {
        format!("The model does not exist here; GET {list} lists those that do")
    };
    Problem {
        reason: Reason::ModelNotFound,
        status: 404,
        code: "model_not_found".into(),
        message,
        param: Some("model".into()),
        retry_after: None,
        is_final: true,
    }
}
