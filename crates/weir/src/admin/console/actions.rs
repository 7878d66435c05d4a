//! What the console can change: the actions of the admin listener, for a browser.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::{Shared, without_excerpts};
use crate::admin::{problem, purge, routes, targets};
use crate::policy::limit::Question;
use axum::http::StatusCode;
use axum::response::IntoResponse;

pub(super) async fn reload(State(console): Shared) -> Response {
    routes::reload_of(&*console.control, |error| without_excerpts(&error)).await
}

pub(super) async fn purge(State(console): Shared, body: Bytes) -> Response {
    purge::purge_of(&*console.control, &body).await
}

/// What to do to which target.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Act {
    upstream: String,
    target: String,
    action: String,
    seconds: Option<u64>,
}

pub(super) async fn act_on_target(State(console): Shared, body: Bytes) -> Response {
    match serde_json::from_slice::<Act>(&body) {
        Ok(Act { upstream, target, action, seconds }) => {
            targets::act_on(&*console.control, &upstream, &target, &action, seconds)
        }
        Err(error) => {
            let detail = format!(
                "{error}; write {{\"upstream\": \"name\", \"target\": \"address\", \"action\": \"drain\"}}, and \"seconds\" for eject"
            );
            problem::of(StatusCode::BAD_REQUEST, detail).into_response()
        }
    }
}

/// Which key of which limit; an empty name stands for every limit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reset {
    #[serde(default)]
    limit: String,
    key: Vec<String>,
}

pub(super) async fn reset_limits(State(console): Shared, body: Bytes) -> Response {
    match serde_json::from_slice::<Reset>(&body) {
        Ok(Reset { limit, key }) => {
            let question = Question { limit: Some(limit).filter(|name| !name.is_empty()), key };
            routes::reset_of(&*console.control, Ok(question)).await
        }
        Err(error) => {
            let detail = format!("{error}; write {{\"limit\": \"name\", \"key\": [\"value\"]}}");
            problem::of(StatusCode::BAD_REQUEST, detail).into_response()
        }
    }
}
