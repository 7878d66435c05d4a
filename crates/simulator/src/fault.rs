//! Faults F1 to F35 as changes of what a well provider would send.

use crate::Scenario;
use crate::api::{Event, Kind, anthropic, gemini, openai};
use crate::http;
use crate::server::Api;
use serde_json::Value;
use std::time::Duration;

/// A step of sending a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Bytes as they are.
    Bytes(Vec<u8>),
    Pause(Duration),
    /// Nothing more, until the client disconnects.
    Stall,
    /// The connection ends with a reset.
    Reset,
    /// The connection ends.
    Close,
}

/// The error of a status in the form of the API.
pub(crate) fn error_body(api: Api, status: u16, code: Option<&str>, message: &str) -> Value {
    match api {
        Api::Messages => {
            let kind = match status {
                400 | 422 => "invalid_request_error",
                401 => "authentication_error",
                402 => "billing_error",
                404 => "not_found_error",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                _ => "api_error",
            };
            anthropic::error(kind, message)
        }
        Api::Gemini => {
            let name = match status {
                400 | 422 => "INVALID_ARGUMENT",
                401 => "UNAUTHENTICATED",
                404 => "NOT_FOUND",
                429 => "RESOURCE_EXHAUSTED",
                503 => "UNAVAILABLE",
                _ => "INTERNAL",
            };
            gemini::error(status, name, message)
        }
        _ => {
            let kind = match status {
                429 => "rate_limit_error",
                400..=499 => "invalid_request_error",
                _ => "server_error",
            };
            openai::error(kind, code, message)
        }
    }
}

fn error(api: Api, status: u16, code: Option<&str>, message: &str, more: &str) -> Vec<Step> {
    let body = error_body(api, status, code, message).to_string();
    vec![Step::Bytes(http::whole(status, "application/json", more, body.as_bytes()))]
}

/// Faults in place of any response, whole or streamed.
pub(crate) fn before_response(api: Api, scenario: &Scenario, prefilled: bool) -> Option<Vec<Step>> {
    let overloaded = if api == Api::Messages { 529 } else { 503 };
    Some(match scenario.fault {
        2 => error(api, 429, None, "Rate limit reached", "retry-after: 1\r\nretry-after-ms: 200\r\n"),
        3 => error(api, 429, None, "Rate limit reached", ""),
        4 => error(api, 429, Some("insufficient_quota"), "You exceeded your current quota", ""),
        5 => error(api, 500, None, "Internal error", ""),
        6 | 32 => error(api, overloaded, None, "Overloaded", ""),
        1 | 7 => vec![Step::Reset],
        8 => vec![Step::Stall],
        12 => match api {
            Api::Messages => error(api, 400, None, "prompt is too long: 250000 tokens > 200000 maximum", ""),
            Api::Gemini => {
                error(api, 400, None, "The input token count (9) exceeds the maximum number of tokens allowed (8).", "")
            }
            _ => {
                error(api, 400, Some("context_length_exceeded"), "This model's maximum context length is 8 tokens.", "")
            }
        },
        13 if !matches!(api, Api::Gemini) => {
            error(api, 400, Some("content_filter"), "Output blocked by content filtering policy", "")
        }
        14 => error(api, 401, Some("invalid_api_key"), "Incorrect API key provided", ""),
        16 => error(api, 422, None, "A member has the wrong type", ""),
        33 if prefilled => error(api, 400, None, "This model does not support assistant message prefill", ""),
        34 => vec![Step::Bytes(http::whole(307, "text/plain", "location: http://127.0.0.1:9/\r\n", b""))],
        _ => return None,
    })
}

/// Faults of a whole response. `body`: what would be sent.
pub(crate) fn whole(api: Api, scenario: &Scenario, body: Value) -> Vec<Step> {
    let ok = |body: &[u8]| Step::Bytes(http::whole(200, "application/json", "", body));
    let text = body.to_string();
    let mut steps = vec![Step::Pause(scenario.first)];
    match scenario.fault {
        9 => steps.extend([Step::Bytes(http::head(200, "application/json", "content-length: 100\r\n")), Step::Stall]),
        17 | 20 => steps.push(Step::Bytes(http::whole(200, "text/html", "", b"<html>busy</html>"))),
        18 => {
            let empty = match api {
                Api::Messages => r#"{"type":"message","role":"assistant","content":[]}"#,
                Api::Gemini => r#"{"candidates":[]}"#,
                Api::Responses => r#"{"object":"response","output":[]}"#,
                Api::Embeddings => r#"{"data":[]}"#,
                _ => r#"{"choices":[]}"#,
            };
            steps.push(ok(empty.as_bytes()));
        }
        10 | 11 | 19 | 23 => {
            let head = http::head(200, "application/json", &format!("content-length: {}\r\n", text.len() + 100));
            steps.push(Step::Bytes([head, text.into_bytes()].concat()));
            steps.push(if scenario.fault == 11 { Step::Stall } else { Step::Close });
        }
        21 | 22 => steps.push(ok(error_body(api, 500, None, "Internal error").to_string().as_bytes())),
        _ => steps.push(ok(text.as_bytes())),
    }
    steps
}

/// Faults of a stream. `events`: what would be sent.
pub(crate) fn stream(api: Api, scenario: &Scenario, mut events: Vec<Event>) -> Vec<Step> {
    let is_content = |event: &Event| matches!(event.kind, Kind::Text | Kind::Tool);
    // behind half of the content
    let content = events.iter().filter(|event| is_content(event)).count();
    let first = events.iter().position(is_content).unwrap_or(0);
    let middle = first + content.div_ceil(2);
    let raw = |text: &str| Event { kind: Kind::Other, text: text.into() };
    let error = {
        let body = error_body(api, if api == Api::Messages { 529 } else { 500 }, None, "Internal error");
        let mut event = match api {
            Api::Messages => Event::named(Kind::Other, "error", &body),
            _ => Event::plain(Kind::Other, &body),
        };
        if api == Api::Responses {
            let data = serde_json::json!({"type": "error", "code": "server_error", "message": "Internal error", "param": null});
            event = Event::named(Kind::Other, "error", &data);
        }
        event
    };
    let mut end = Step::Bytes(b"0\r\n\r\n".to_vec());
    match scenario.fault {
        9 => {
            events.truncate(first);
            end = Step::Stall;
        }
        10 => {
            events.truncate(middle);
            if scenario.done {
                events.push(openai::done());
            } else {
                end = Step::Close;
            }
        }
        11 => {
            events.truncate(middle);
            end = Step::Stall;
        }
        17 => return vec![Step::Bytes(http::whole(200, "text/html", "", b"<html>busy</html>"))],
        18 => events.retain(|event| matches!(event.kind, Kind::Opening)),
        20 => events.insert(middle, raw("data: {\"choices\":[{\"delta\n\n")),
        21 => {
            events.truncate(first);
            events.push(error);
        }
        22 => {
            events.truncate(middle);
            events.push(error);
            if matches!(api, Api::Chat | Api::Completions) {
                events.push(openai::done());
            }
        }
        23 => {
            events.truncate(middle);
            end = Step::Close;
        }
        24 => events.retain(|event| event.kind != Kind::Last),
        25 => {
            let again: Vec<Event> =
                events.iter().filter(|event| event.kind == Kind::Last || is_content(event)).cloned().collect();
            events.extend(again);
        }
        28 => events.insert(middle, raw(&format!(": {}\n\n", "x".repeat(scenario.size * 1024)))),
        _ => {}
    }
    let mut steps = vec![
        Step::Bytes(http::head(200, "text/event-stream", "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n")),
        Step::Pause(scenario.first),
    ];
    for event in events {
        if scenario.fault == 29 {
            // every byte a chunk of its own, other line ends, no space
            let text = event.text.replace("data: ", "data:").replace('\n', "\r\n");
            steps.extend(text.bytes().map(|byte| Step::Bytes(http::chunk(&[byte]))));
        } else {
            steps.push(Step::Bytes(http::chunk(event.text.as_bytes())));
        }
        if is_content(&event) && !scenario.gap.is_zero() {
            steps.push(Step::Pause(scenario.gap));
        }
    }
    steps.push(end);
    steps
}
