//! `POST /upstreams/NAME/targets/ADDRESS/ACTION`: what an operator does to a target while the process runs.

use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::routes::{Shared, json};
use super::{Control, problem};
use crate::upstream::{ActError, TargetAction};

/// Longest ejection by hand, in seconds.
const LONGEST: u64 = 86_400;

const EXPECTED: &str = "Actions are drain, undrain, eject?seconds=N, readmit and reset-breaker.";

pub(super) async fn act(
    State(control): Shared,
    path: Result<Path<(String, String, String)>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Response {
    let Ok(Path((upstream, target, action))) = path else {
        return bad(format!("The path is not valid UTF-8 once it is decoded. {EXPECTED}"));
    };
    let seconds = match query.as_deref().unwrap_or_default() {
        "" => None,
        query => match query.strip_prefix("seconds=").and_then(seconds_of) {
            Some(seconds) => Some(seconds),
            None => return bad(format!("`{query}` is no query of an action. {EXPECTED}")),
        },
    };
    act_on(&*control, &upstream, &target, &action, seconds)
}

/// Digits only: `+` stands for a space in a query.
fn seconds_of(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Does it, and says what the target is like then.
pub(super) fn act_on(
    control: &dyn Control,
    upstream: &str,
    target: &str,
    action: &str,
    seconds: Option<u64>,
) -> Response {
    let action = match (action, seconds) {
        ("drain", None) => TargetAction::Drain,
        ("undrain", None) => TargetAction::Undrain,
        ("readmit", None) => TargetAction::Readmit,
        ("reset-breaker", None) => TargetAction::ResetBreaker,
        ("eject", Some(seconds @ 1..=LONGEST)) => TargetAction::Eject(Duration::from_secs(seconds)),
        ("eject", _) => return bad(format!("`eject` needs `seconds`, a number from 1 to {LONGEST}.")),
        ("drain" | "undrain" | "readmit" | "reset-breaker", Some(_)) => {
            return bad(format!("`{action}` has no `seconds`."));
        }
        _ => return bad(format!("There is no action `{action}`. {EXPECTED}")),
    };
    match control.act_on_target(upstream, target, action) {
        Ok(state) => {
            let body =
                serde_json::json!({ "upstream": upstream, "target": target, "action": action.name(), "state": state });
            json(StatusCode::OK, body.to_string())
        }
        Err(error) => {
            let status = match error {
                ActError::NoUpstream(_) | ActError::NoTarget { .. } => StatusCode::NOT_FOUND,
                ActError::NoBreaker(_) => StatusCode::CONFLICT,
            };
            problem::of(status, error.to_string()).into_response()
        }
    }
}

fn bad(detail: String) -> Response {
    problem::of(StatusCode::BAD_REQUEST, detail).into_response()
}
