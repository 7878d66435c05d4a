//! Anthropic: messages, count_tokens, models.

use super::{Content, Event, Kind, openai::halves};
use serde_json::{Value, json};

/// The tool that the request offers and has no result of.
pub fn open_tool(request: &Value) -> Option<String> {
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    let has_result = last
        .and_then(|last| last["content"].as_array())
        .is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"));
    if has_result { None } else { request["tools"][0]["name"].as_str().map(str::to_owned) }
}

fn stop_reason(content: &Content) -> &'static str {
    content.end_reason.unwrap_or(if content.tool.is_some() { "tool_use" } else { "end_turn" })
}

fn usage(content: &Content, output: u64) -> Value {
    json!({"input_tokens": content.input, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output})
}

/// A whole message.
pub fn message(content: &Content) -> Value {
    let block = match &content.tool {
        Some((name, arguments)) => json!({"type": "tool_use", "id": "toolu_sim", "name": name,
            "input": serde_json::from_str::<Value>(arguments).unwrap_or_default()}),
        None => json!({"type": "text", "text": content.text.concat()}),
    };
    let mut body = json!({"id": "msg_sim", "type": "message", "role": "assistant", "model": content.model, "content": [block],
        "stop_reason": stop_reason(content), "stop_sequence": null});
    if content.usage {
        body["usage"] = usage(content, content.output());
    }
    body
}

/// A streamed one.
pub fn events(content: &Content) -> Vec<Event> {
    let mut events = Vec::new();
    let mut push = |kind, name: &str, mut data: Value| {
        data["type"] = name.into();
        events.push(Event::named(kind, name, &data));
    };
    let mut start = json!({"id": "msg_sim", "type": "message", "role": "assistant", "model": content.model, "content": [],
        "stop_reason": null, "stop_sequence": null});
    if content.usage {
        start["usage"] = usage(content, 1);
    }
    push(Kind::Opening, "message_start", json!({"message": start}));
    push(Kind::Opening, "ping", json!({}));
    if let Some((name, arguments)) = &content.tool {
        let block = json!({"type": "tool_use", "id": "toolu_sim", "name": name, "input": {}});
        push(Kind::Tool, "content_block_start", json!({"index": 0, "content_block": block}));
        for part in halves(arguments) {
            let delta = json!({"type": "input_json_delta", "partial_json": part});
            push(Kind::Tool, "content_block_delta", json!({"index": 0, "delta": delta}));
        }
    } else {
        push(Kind::Opening, "content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}}));
        for token in &content.text {
            push(
                Kind::Text,
                "content_block_delta",
                json!({"index": 0, "delta": {"type": "text_delta", "text": token}}),
            );
        }
    }
    push(Kind::Other, "content_block_stop", json!({"index": 0}));
    let mut end = json!({"delta": {"stop_reason": stop_reason(content), "stop_sequence": null}});
    if content.usage {
        end["usage"] = usage(content, content.output());
    }
    push(Kind::End, "message_delta", end);
    push(Kind::Last, "message_stop", json!({}));
    events
}

/// The list of models.
pub fn models() -> Value {
    json!({"data": [{"type": "model", "id": "sim", "display_name": "Simulated", "created_at": "2026-01-01T00:00:00Z"}],
        "has_more": false, "first_id": "sim", "last_id": "sim"})
}

/// An error body.
pub fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_sim"})
}
