//! Audio and images: forms in, bytes out.

use crate::api::openai;
use crate::fault::{self, Step};
use crate::http::{self, Request};
use crate::server::{Api, json_response};
use crate::{Ledger, Scenario};
use serde_json::{Value, json};

const TEXT: &str = "The quick brown fox jumps over the lazy d\u{f6}g.";

/// Paths of forms.
pub(crate) const FORMS: [&str; 4] =
    ["/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations"];

fn refused(message: &str) -> Vec<Step> {
    json_response(400, &openai::error("invalid_request_error", None, message))
}

/// Values of a field of a form, by a reader that knows as much of forms as it needs.
fn values(request: &Request, name: &str) -> Vec<String> {
    let body = String::from_utf8_lossy(&request.body);
    let start = format!("form-data; name=\"{name}\"\r\n\r\n");
    body.split(&start).skip(1).map(|rest| rest.split("\r\n").next().unwrap_or_default().to_owned()).collect()
}

/// The scenario of a call of this model, which is counted.
fn scenario(model: &str, ledger: &Ledger) -> Scenario {
    let calls = ledger.call(model);
    let mut scenario = Scenario::of(model);
    if (scenario.once && calls > 1) || (scenario.fault == 32 && calls > 3) {
        scenario.fault = 0;
    }
    scenario
}

/// `POST /v1/audio/speech`.
pub(crate) fn speech(request: &Request, ledger: &Ledger) -> Vec<Step> {
    let body = serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
    let Some(model) = body["model"].as_str() else { return refused("you must provide a model parameter") };
    let scenario = scenario(model, ledger);
    if let Some(steps) = fault::before_response(Api::Images, &scenario, false) {
        return steps;
    }
    if body["stream_format"] == "sse" {
        let delta = json!({"type": "speech.audio.delta", "audio": "AAAA"});
        let done =
            json!({"type": "speech.audio.done", "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}});
        let events = format!("{}data: {done}\n\n", format!("data: {delta}\n\n").repeat(8));
        return opaque("text/event-stream", events.as_bytes(), &scenario);
    }
    let audio: Vec<u8> = (0..scenario.size * 1024).map(|at| (at * 31 % 251) as u8).collect();
    opaque("audio/mpeg", &audio, &scenario)
}

/// A call with a form.
pub(crate) fn form(request: &Request, ledger: &Ledger) -> Vec<Step> {
    let models = values(request, "model");
    let [model] = models.as_slice() else { return refused("you must provide one model parameter") };
    if values(request, "file").len() + String::from_utf8_lossy(&request.body).matches("; filename=").count() == 0 {
        return refused("you must provide a file");
    }
    let scenario = scenario(model, ledger);
    if let Some(steps) = fault::before_response(Api::Images, &scenario, false) {
        return steps;
    }
    if request.path.starts_with("/v1/images/") {
        return fault::whole(Api::Images, &scenario, openai::document(false, model));
    }
    if values(request, "stream") == ["true"] {
        let events = TEXT.split_inclusive(' ').map(|word| json!({"type": "transcript.text.delta", "delta": word}));
        let done = json!({"type": "transcript.text.done", "text": TEXT});
        let events: String = events.chain([done]).map(|event| format!("data: {event}\n\n")).collect();
        return opaque("text/event-stream", events.as_bytes(), &scenario);
    }
    match values(request, "response_format").first().map(String::as_str) {
        Some("text" | "srt" | "vtt") => opaque("text/plain; charset=utf-8", TEXT.as_bytes(), &scenario),
        _ => fault::whole(Api::Images, &scenario, json!({"text": TEXT})),
    }
}

/// Bytes in chunks, with the faults that such a response may have.
fn opaque(content_type: &str, body: &[u8], scenario: &Scenario) -> Vec<Step> {
    let mut steps =
        vec![Step::Bytes(http::head(200, content_type, "transfer-encoding: chunked\r\n")), Step::Pause(scenario.first)];
    if scenario.fault == 17 {
        return vec![Step::Bytes(http::whole(200, "text/html", "", b"<html>busy</html>"))];
    }
    let (sent, end) = match scenario.fault {
        9 => (0, Step::Stall),
        10 | 19 => (body.len() / 2, Step::Close),
        11 => (body.len() / 2, Step::Stall),
        18 => (0, Step::Bytes(b"0\r\n\r\n".to_vec())),
        _ => (body.len(), Step::Bytes(b"0\r\n\r\n".to_vec())),
    };
    for piece in body[..sent].chunks(16 * 1024) {
        steps.push(Step::Bytes(http::chunk(piece)));
        if !scenario.gap.is_zero() {
            steps.push(Step::Pause(scenario.gap));
        }
    }
    steps.push(end);
    steps
}
