//! Stored responses of the Responses API, by id and key.

use crate::api::{Content, Kind, openai};
use crate::fault::{self, Step};
use crate::http::{self, Request};
use crate::server::{Api, json_response};
use crate::{Ledger, Scenario};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// One response.
#[derive(Debug)]
pub(crate) struct Stored {
    /// `Authorization` of the request that made it.
    account: String,
    content: Content,
    input: Value,
}

fn account(request: &Request) -> String {
    request.field("authorization").unwrap_or_default().to_owned()
}

/// An id that no simulator of the process gives twice.
pub(crate) fn next_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("resp_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Stores the response to a request.
pub(crate) fn keep(ledger: &Ledger, request: &Request, content: &Content, input: &Value) {
    let stored = Stored { account: account(request), content: content.clone(), input: input.clone() };
    ledger.stored(|all| all.insert(content.response_id.clone(), stored));
}

/// The error of a request that goes on from a response which the key does not have.
pub(crate) fn missing_previous(ledger: &Ledger, request: &Request, body: &Value) -> Option<Vec<Step>> {
    let id = body["previous_response_id"].as_str()?;
    let own = account(request);
    let is_there = ledger.stored(|all| all.get(id).is_some_and(|stored| stored.account == own));
    let error =
        openai::error("invalid_request_error", Some("previous_response_not_found"), "Previous response not found.");
    (!is_there).then(|| json_response(400, &error))
}

/// An operation on a stored response; `path`: behind `/v1/responses/`.
pub(crate) fn respond(request: &Request, path: &str, ledger: &Ledger) -> Vec<Step> {
    let (id, operation) = path.split_once('/').unwrap_or((path, ""));
    ledger.call(&format!("{} {operation}", request.method));
    let own = account(request);
    let found = ledger.stored(|all| {
        let stored = all.get(id).filter(|stored| stored.account == own)?;
        Some((stored.content.clone(), stored.input.clone()))
    });
    let Some((content, input)) = found else {
        return json_response(404, &openai::error("invalid_request_error", None, "Response not found."));
    };
    let scenario = Scenario::of(&content.model);
    let scenario = Scenario { fault: scenario.stored_fault, ..scenario };
    if let Some(steps) = fault::before_response(Api::Responses, &scenario, false) {
        return steps;
    }
    let body = match (request.method.as_str(), operation) {
        ("GET", "") if request.query.contains("stream=true") => {
            let events = openai::response_events(&content);
            let after =
                request.query.split('&').find_map(|part| part.strip_prefix("starting_after=")?.parse::<usize>().ok());
            let rest: Vec<_> = events.into_iter().skip(after.map_or(0, |after| after + 1)).collect();
            debug_assert!(rest.iter().all(|event| event.kind != Kind::Last));
            return fault::stream(Api::Responses, &scenario, rest);
        }
        ("GET", "") => openai::response(&content),
        ("DELETE", "") => {
            ledger.stored(|all| all.remove(id));
            json!({"id": id, "object": "response", "deleted": true})
        }
        ("POST", "cancel") => {
            let mut body = openai::response(&content);
            body["status"] = "cancelled".into();
            body
        }
        ("GET", "input_items") => {
            let item =
                json!({"id": "msg_in", "type": "message", "role": "user", "content": input, "query": request.query});
            json!({"object": "list", "data": [item], "first_id": "msg_in", "last_id": "msg_in", "has_more": false})
        }
        _ => {
            let error = openai::error("invalid_request_error", None, "method not allowed").to_string();
            return vec![Step::Bytes(http::whole(405, "application/json", "", error.as_bytes()))];
        }
    };
    fault::whole(Api::Responses, &scenario, body)
}
