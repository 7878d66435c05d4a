//! OpenAI: chat completions, completions, responses, embeddings, models.

use super::{Content, Event, Kind};
use serde_json::{Value, json};

const CREATED: u64 = 1_700_000_000;

/// The tool that the request offers and has no result of.
pub fn open_tool(request: &Value) -> Option<String> {
    let last =
        request["messages"].as_array().or_else(|| request["input"].as_array()).and_then(|messages| messages.last());
    if last.is_some_and(|last| last["role"] == "tool" || last["type"] == "function_call_output") {
        return None;
    }
    let tool = &request["tools"][0];
    tool["function"]["name"].as_str().or_else(|| tool["name"].as_str()).map(str::to_owned)
}

fn finish_reason(content: &Content) -> &'static str {
    content.end_reason.unwrap_or(if content.tool.is_some() { "tool_calls" } else { "stop" })
}

fn usage(content: &Content) -> Value {
    json!({"prompt_tokens": content.input, "completion_tokens": content.output(), "total_tokens": content.input + content.output(),
        "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}})
}

fn tool_call(content: &Content) -> Option<Value> {
    let (name, arguments) = content.tool.as_ref()?;
    Some(json!({"id": "call_sim", "type": "function", "function": {"name": name, "arguments": arguments}}))
}

/// A whole chat completion.
pub fn chat(content: &Content) -> Value {
    let mut message = json!({"role": "assistant", "content": content.text.concat(), "refusal": null});
    if let Some(call) = tool_call(content) {
        message["content"] = Value::Null;
        message["tool_calls"] = json!([call]);
    }
    let choice =
        |index| json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish_reason(content)});
    let mut body = json!({"id": "chatcmpl-sim", "object": "chat.completion", "created": CREATED, "model": content.model,
        "choices": (0..content.choices).map(choice).collect::<Vec<_>>()});
    if content.usage {
        body["usage"] = usage(content);
    }
    body
}

/// A streamed chat completion. `include_usage`: what the request requested.
pub fn chat_events(content: &Content, include_usage: bool) -> Vec<Event> {
    let chunk = |index: u64, delta: Value, finish_reason: Value| {
        let mut chunk = json!({"id": "chatcmpl-sim", "object": "chat.completion.chunk", "created": CREATED, "model": content.model,
            "choices": [{"index": index, "delta": delta, "logprobs": null, "finish_reason": finish_reason}]});
        if include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    };
    let mut events = Vec::new();
    let choices = 0..content.choices;
    for index in choices.clone() {
        events
            .push(Event::plain(Kind::Opening, &chunk(index, json!({"role": "assistant", "content": ""}), Value::Null)));
    }
    for token in &content.text {
        for index in choices.clone() {
            events.push(Event::plain(Kind::Text, &chunk(index, json!({"content": token}), Value::Null)));
        }
    }
    if let Some((name, arguments)) = &content.tool {
        for index in choices.clone() {
            let start =
                json!({"index": 0, "id": "call_sim", "type": "function", "function": {"name": name, "arguments": ""}});
            events.push(Event::plain(Kind::Tool, &chunk(index, json!({"tool_calls": [start]}), Value::Null)));
            for part in halves(arguments) {
                let delta = json!({"tool_calls": [{"index": 0, "function": {"arguments": part}}]});
                events.push(Event::plain(Kind::Tool, &chunk(index, delta, Value::Null)));
            }
        }
    }
    for index in choices {
        events.push(Event::plain(Kind::End, &chunk(index, json!({}), finish_reason(content).into())));
    }
    if include_usage && content.usage {
        let body = json!({"id": "chatcmpl-sim", "object": "chat.completion.chunk", "created": CREATED, "model": content.model,
            "choices": [], "usage": usage(content)});
        events.push(Event::plain(Kind::Usage, &body));
    }
    events.push(done());
    events
}

/// `[DONE]`.
pub fn done() -> Event {
    Event { kind: Kind::Last, text: "data: [DONE]\n\n".into() }
}

pub(super) fn halves(text: &str) -> [&str; 2] {
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    [&text[..middle], &text[middle..]]
}

/// A whole completion.
pub fn completion(content: &Content) -> Value {
    let choice = |index| json!({"index": index, "text": content.text.concat(), "logprobs": null, "finish_reason": finish_reason(content)});
    let mut body = json!({"id": "cmpl-sim", "object": "text_completion", "created": CREATED, "model": content.model,
        "choices": (0..content.choices).map(choice).collect::<Vec<_>>()});
    if content.usage {
        body["usage"] = usage(content);
    }
    body
}

/// A streamed completion.
pub fn completion_events(content: &Content, include_usage: bool) -> Vec<Event> {
    let chunk = |text: &str, finish_reason: Value| {
        json!({"id": "cmpl-sim", "object": "text_completion", "created": CREATED, "model": content.model,
            "choices": [{"index": 0, "text": text, "logprobs": null, "finish_reason": finish_reason}]})
    };
    let mut events: Vec<Event> =
        content.text.iter().map(|token| Event::plain(Kind::Text, &chunk(token, Value::Null))).collect();
    events.push(Event::plain(Kind::End, &chunk("", finish_reason(content).into())));
    if include_usage && content.usage {
        let body = json!({"id": "cmpl-sim", "object": "text_completion", "created": CREATED, "model": content.model, "choices": [],
            "usage": usage(content)});
        events.push(Event::plain(Kind::Usage, &body));
    }
    events.push(done());
    events
}

fn response_object(content: &Content, status: &str) -> Value {
    let output = match &content.tool {
        _ if matches!(status, "in_progress" | "queued") => json!([]),
        Some((name, arguments)) => {
            json!([{"type": "function_call", "id": "fc_sim", "call_id": "call_sim", "name": name,
            "arguments": arguments, "status": "completed"}])
        }
        None => json!([{"type": "message", "id": "msg_sim", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": content.text.concat(), "annotations": []}]}]),
    };
    let mut body = json!({"id": content.response_id, "object": "response", "created_at": CREATED, "status": status, "error": null,
        "incomplete_details": null, "instructions": null, "metadata": {}, "model": content.model, "output": output,
        "parallel_tool_calls": true, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0, "usage": null});
    if status == "incomplete" {
        body["incomplete_details"] = json!({"reason": content.end_reason.unwrap_or("max_output_tokens")});
    }
    if !matches!(status, "in_progress" | "queued") && content.usage {
        body["usage"] = json!({"input_tokens": content.input, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": content.output(), "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": content.input + content.output()});
    }
    body
}

fn status(content: &Content) -> &'static str {
    if content.end_reason.is_some() { "incomplete" } else { "completed" }
}

/// A whole response of the Responses API.
pub fn response(content: &Content) -> Value {
    response_object(content, status(content))
}

/// One that the model has not begun.
pub fn queued_response(content: &Content) -> Value {
    response_object(content, "queued")
}

/// A streamed one.
pub fn response_events(content: &Content) -> Vec<Event> {
    let mut events = Vec::new();
    let mut push = |kind, name: &str, mut data: Value| {
        data["type"] = name.into();
        data["sequence_number"] = events.len().into();
        events.push(Event::named(kind, name, &data));
    };
    push(Kind::Opening, "response.created", json!({"response": response_object(content, "in_progress")}));
    push(Kind::Opening, "response.in_progress", json!({"response": response_object(content, "in_progress")}));
    let whole = response_object(content, status(content));
    let item = whole["output"][0].clone();
    if let Some((name, arguments)) = &content.tool {
        let added = json!({"type": "function_call", "id": "fc_sim", "call_id": "call_sim", "name": name, "arguments": "",
            "status": "in_progress"});
        push(Kind::Tool, "response.output_item.added", json!({"output_index": 0, "item": added}));
        for part in halves(arguments) {
            push(
                Kind::Tool,
                "response.function_call_arguments.delta",
                json!({"item_id": "fc_sim", "output_index": 0, "delta": part}),
            );
        }
        let done = json!({"item_id": "fc_sim", "output_index": 0, "name": name, "arguments": arguments});
        push(Kind::Other, "response.function_call_arguments.done", done);
    } else {
        let added =
            json!({"type": "message", "id": "msg_sim", "status": "in_progress", "role": "assistant", "content": []});
        push(Kind::Opening, "response.output_item.added", json!({"output_index": 0, "item": added}));
        let place = json!({"item_id": "msg_sim", "output_index": 0, "content_index": 0});
        let with = |members: Value| {
            let mut data = place.clone();
            for (name, value) in members.as_object().into_iter().flatten() {
                data[name] = value.clone();
            }
            data
        };
        let empty = json!({"part": {"type": "output_text", "text": "", "annotations": []}});
        push(Kind::Opening, "response.content_part.added", with(empty));
        for token in &content.text {
            push(Kind::Text, "response.output_text.delta", with(json!({"delta": token, "logprobs": []})));
        }
        let text = content.text.concat();
        push(Kind::Other, "response.output_text.done", with(json!({"text": text, "logprobs": []})));
        let part = json!({"part": {"type": "output_text", "text": text, "annotations": []}});
        push(Kind::Other, "response.content_part.done", with(part));
    }
    push(Kind::Other, "response.output_item.done", json!({"output_index": 0, "item": item}));
    push(Kind::End, &format!("response.{}", status(content)), json!({"response": whole}));
    events
}

/// Embeddings of each input: four numbers, as JSON or as the bytes that the Python client requests.
pub fn embeddings(model: &str, request: &Value, input_tokens: u64) -> Value {
    let count = request["input"].as_array().map_or(1, Vec::len);
    let base64 = request["encoding_format"] == "base64";
    let vector = if base64 { json!("AACAPwAAAAAAAAAAAAAAAA==") } else { json!([1.0, 0.0, 0.0, 0.0]) };
    let data: Vec<Value> =
        (0..count).map(|index| json!({"object": "embedding", "index": index, "embedding": vector})).collect();
    json!({"object": "list", "data": data, "model": model, "usage": {"prompt_tokens": input_tokens, "total_tokens": input_tokens}})
}

/// A document without text of a model: what a moderation found, or an image.
pub fn document(is_moderation: bool, model: &str) -> Value {
    if is_moderation {
        let found = json!({"flagged": false, "categories": {"violence": false}, "category_scores": {"violence": 0.01}});
        return json!({"id": "modr-sim", "model": model, "results": [found]});
    }
    json!({"created": CREATED, "data": [{"b64_json": "iVBORw0KGgo="}]})
}

/// The list of models.
pub fn models() -> Value {
    json!({"object": "list", "data": [{"id": "sim", "object": "model", "created": CREATED, "owned_by": "simulator"}]})
}

/// An error body.
pub fn error(kind: &str, code: Option<&str>, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}
