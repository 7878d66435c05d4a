//! Gemini: generateContent, streamGenerateContent, countTokens, models.

use super::{Content, Event, Kind};
use serde_json::{Value, json};

/// The tool that the request offers and has no result of.
pub fn open_tool(request: &Value) -> Option<String> {
    let last = request["contents"].as_array().and_then(|contents| contents.last());
    let has_result = last
        .and_then(|last| last["parts"].as_array())
        .is_some_and(|parts| parts.iter().any(|part| !part["functionResponse"].is_null()));
    let name = &request["tools"][0]["functionDeclarations"][0]["name"];
    if has_result { None } else { name.as_str().map(str::to_owned) }
}

fn frame(content: &Content, parts: Value, end: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(reason) = end {
        candidate["finishReason"] = reason.into();
    }
    let mut body = json!({"candidates": [candidate], "modelVersion": content.model, "responseId": "sim"});
    if content.usage {
        let output = content.output();
        body["usageMetadata"] = json!({"promptTokenCount": content.input, "candidatesTokenCount": output,
            "totalTokenCount": content.input + output});
    }
    body
}

fn tool_part(content: &Content) -> Option<Value> {
    let (name, arguments) = content.tool.as_ref()?;
    let arguments = serde_json::from_str::<Value>(arguments).unwrap_or_default();
    Some(json!({"functionCall": {"name": name, "args": arguments}}))
}

/// A whole response.
pub fn response(content: &Content) -> Value {
    let part = tool_part(content).unwrap_or_else(|| json!({"text": content.text.concat()}));
    frame(content, json!([part]), Some(content.end_reason.unwrap_or("STOP")))
}

/// A streamed one.
pub fn events(content: &Content) -> Vec<Event> {
    let mut events: Vec<Event> = content
        .text
        .iter()
        .map(|token| Event::plain(Kind::Text, &frame(content, json!([{"text": token}]), None)))
        .collect();
    if let Some(part) = tool_part(content) {
        events.push(Event::plain(Kind::Tool, &frame(content, json!([part]), None)));
    }
    let end = frame(content, json!([{"text": ""}]), Some(content.end_reason.unwrap_or("STOP")));
    events.push(Event::plain(Kind::End, &end));
    events
}

/// The list of models.
pub fn models() -> Value {
    json!({"models": [{"name": "models/sim", "displayName": "Simulated", "supportedGenerationMethods": ["generateContent"]}]})
}

/// An error body.
pub fn error(status: u16, name: &str, message: &str) -> Value {
    json!({"error": {"code": status, "message": message, "status": name}})
}
