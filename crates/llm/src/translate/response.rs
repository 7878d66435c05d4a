//! Whole responses, in both directions.

use super::{Untranslatable, chat, drop_hint};
use crate::Api;
use crate::response::EndReason;
use serde_json::{Value, json};

/// OpenAI's usage for Anthropic's: input counts what was cached too.
pub(super) fn chat_usage(usage: &Value) -> Value {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let (cached, written) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    let input = count("input_tokens").saturating_add(cached).saturating_add(written);
    let output = count("output_tokens");
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output),
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written}})
}

/// Anthropic's word for an end reason of OpenAI. `calls`: the model calls tools; where it was forced to, OpenAI says `stop`.
pub(super) fn stop_reason(finish_reason: &str, calls: bool) -> Result<&'static str, Untranslatable> {
    Ok(match EndReason::of(Api::Chat, finish_reason.as_bytes()) {
        EndReason::Stop if calls => "tool_use",
        EndReason::Stop => "end_turn",
        EndReason::Length => "max_tokens",
        EndReason::ToolCalls => "tool_use",
        EndReason::ContentFilter => "refusal",
        EndReason::Fault | EndReason::Unknown => return Err(Untranslatable),
    })
}

/// Anthropic's usage for OpenAI's: input counts what was not cached.
pub(super) fn message_usage(usage: &Value) -> Value {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let details = &usage["prompt_tokens_details"];
    let (cached, written) = (count(&details["cached_tokens"]), count(&details["cache_write_tokens"]));
    let input = count(&usage["prompt_tokens"]).saturating_sub(cached.saturating_add(written));
    json!({"input_tokens": input, "cache_creation_input_tokens": written, "cache_read_input_tokens": cached,
        "output_tokens": count(&usage["completion_tokens"])})
}

/// Id or name of a call: without them nobody can respond to it.
///
/// # Errors
/// It is missing.
pub(super) fn called(value: &Value) -> Result<&str, Untranslatable> {
    value.as_str().filter(|text| !text.is_empty()).ok_or(Untranslatable)
}

/// Anthropic's message as a chat completion; and what was left out. `created`: seconds since 1970.
///
/// # Errors
/// It is not a message, or its end reason is a fault.
pub fn message_response_to_chat(message: &Value, created: u64) -> Result<(Value, Vec<String>), Untranslatable> {
    let (mut text, mut calls, mut dropped) = (None::<String>, Vec::new(), Vec::new());
    for block in message["content"].as_array().ok_or(Untranslatable)? {
        match block["type"].as_str() {
            Some("text") => text.get_or_insert_default().push_str(block["text"].as_str().ok_or(Untranslatable)?),
            Some("tool_use") => calls.push(chat::call(&block["id"], &block["name"], &block["input"].to_string())),
            Some("thinking" | "redacted_thinking") => drop_hint(&mut dropped, "thinking"),
            _ => return Err(Untranslatable),
        }
    }
    let reason = message["stop_reason"].as_str().ok_or(Untranslatable)?;
    let choice = chat::choice(0, text, calls, chat::finish_reason(Api::Messages, reason, false)?);
    let usage = Some(&message["usage"]).filter(|usage| usage.is_object()).map(chat_usage);
    Ok((chat::completion(&message["id"], created, &message["model"], vec![choice], usage), dropped))
}

/// A chat completion as Anthropic's message; and what was left out.
///
/// # Errors
/// It is not a completion with one choice, its end reason is unknown, or the arguments of a call are not a JSON object.
pub fn chat_response_to_message(completion: &Value) -> Result<(Value, Vec<String>), Untranslatable> {
    let Some([choice]) = completion["choices"].as_array().map(Vec::as_slice) else { return Err(Untranslatable) };
    let message = &choice["message"];
    let (mut content, mut dropped) = (Vec::new(), Vec::new());
    chat::drop_more(message, &mut dropped)?;
    content.extend(chat::texts(message).map(|text| json!({"type": "text", "text": text})));
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let input = chat::arguments(call["function"]["arguments"].as_str().ok_or(Untranslatable)?)?;
        let (id, name) = (called(&call["id"])?, called(&call["function"]["name"])?);
        content.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
    }
    let reason = choice["finish_reason"].as_str().ok_or(Untranslatable)?;
    let calls = content.iter().any(|block| block["type"] == "tool_use");
    let stop_reason = stop_reason(reason, calls)?;
    let body = json!({"id": completion["id"], "type": "message", "role": "assistant", "model": completion["model"], "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": message_usage(&completion["usage"])});
    Ok((body, dropped))
}
