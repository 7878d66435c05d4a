//! Says what a client has of a response, by a reading of its own: nothing of the gateway's parsers is used.

use serde_json::Value;

use crate::client::Received;

/// What the simulator says in eight tokens.
pub(crate) const TEXT: &str = "The quick brown fox jumps over lazy dögs. ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All of the text, an end reason, and the end of the form.
    Complete,
    /// An end reason other than the usual, with all of the text, or a refusal.
    Other,
    /// A stream that ends with an error event.
    ErrorEvent,
    /// A status of an error, with a body in the form of the API.
    Status(u16),
    /// The framing shows that something is missing.
    Broken,
    /// It passes for complete and is not: what must never be.
    TruncatedSuccess,
}

#[derive(Default)]
struct Seen {
    text: String,
    reason: Option<String>,
    last: bool,
    error: bool,
    after_error: bool,
}

pub(crate) fn judge(path: &str, streams: bool, received: &Received) -> Verdict {
    let is_anthropic = path == "/v1/messages";
    let is_gemini = path.starts_with("/v1beta/");
    if !received.is_whole {
        return Verdict::Broken;
    }
    if received.status != 200 {
        let body = received.json();
        assert!(
            body["error"]["message"].is_string()
                && body["error"][if is_gemini { "status" } else { "type" }].is_string(),
            "{body}"
        );
        if is_anthropic {
            assert_eq!(body["type"], "error", "{body}");
        }
        return Verdict::Status(received.status);
    }
    let mut seen = Seen::default();
    if streams {
        assert!(received.field("content-type").unwrap_or("").starts_with("text/event-stream"), "{received:?}");
        let text = String::from_utf8(received.body.clone()).expect("UTF-8").replace("\r\n", "\n");
        for event in text.split("\n\n") {
            let data: Vec<&str> = event.split('\n').filter_map(|line| line.strip_prefix("data:")).collect();
            let named_error = event.split('\n').any(|line| line.trim() == "event: error");
            let data = data.join("\n");
            let data = data.trim();
            if data.is_empty() {
                continue;
            }
            seen.after_error |= seen.error;
            if data == "[DONE]" {
                seen.last = true;
                continue;
            }
            let value: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error} in {data}"));
            seen.error |= named_error || !value["error"].is_null();
            match () {
                () if is_anthropic => anthropic_event(&value, &mut seen),
                () if is_gemini => gemini_event(&value, &mut seen),
                () => openai_event(&value, &mut seen),
            }
        }
        assert!(!seen.after_error, "something follows an error event: {text}");
        if seen.error {
            assert!(!seen.last, "an end follows an error: {text}");
            return Verdict::ErrorEvent;
        }
        // An end without an end reason passes for success with the official clients.
        if seen.reason.is_none() || !seen.last {
            return Verdict::TruncatedSuccess;
        }
    } else {
        let Ok(value) = serde_json::from_slice::<Value>(&received.body) else { return Verdict::TruncatedSuccess };
        if !value["error"].is_null() {
            return Verdict::TruncatedSuccess;
        }
        if is_anthropic {
            for block in value["content"].as_array().into_iter().flatten() {
                seen.text.push_str(block["text"].as_str().unwrap_or_default());
            }
            seen.reason = value["stop_reason"].as_str().map(str::to_owned);
        } else if is_gemini {
            gemini_event(&value, &mut seen);
        } else {
            let choice = &value["choices"][0];
            seen.text.push_str(choice["message"]["content"].as_str().unwrap_or_default());
            seen.reason = choice["finish_reason"].as_str().map(str::to_owned);
        }
    }
    match seen.reason.as_deref() {
        None => Verdict::TruncatedSuccess,
        Some("stop" | "end_turn" | "STOP") if seen.text == TEXT => Verdict::Complete,
        // Gemini's API has no event that ends a stream: what is behind the end reason is part of the response.
        Some("stop" | "end_turn" | "STOP") if seen.text == TEXT.repeat(2) => Verdict::Other,
        Some("stop" | "end_turn" | "STOP") => Verdict::TruncatedSuccess,
        Some(_) => Verdict::Other,
    }
}

fn openai_event(value: &Value, seen: &mut Seen) {
    let choice = &value["choices"][0];
    seen.text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
    if let Some(reason) = choice["finish_reason"].as_str() {
        seen.reason = Some(reason.to_owned());
    }
}

fn gemini_event(value: &Value, seen: &mut Seen) {
    let candidate = &value["candidates"][0];
    for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
        seen.text.push_str(part["text"].as_str().unwrap_or_default());
    }
    if let Some(reason) = candidate["finishReason"].as_str() {
        seen.reason = Some(reason.to_owned());
        seen.last = true;
    }
}

fn anthropic_event(value: &Value, seen: &mut Seen) {
    seen.text.push_str(value["delta"]["text"].as_str().unwrap_or_default());
    if let Some(reason) = value["delta"]["stop_reason"].as_str() {
        seen.reason = Some(reason.to_owned());
    }
    seen.last |= value["type"] == "message_stop";
}
