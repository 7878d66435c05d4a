//! Whole responses of Gemini for clients of the other APIs.

use super::super::{Untranslatable, chat, drop_hint, response};
use super::call_id::{self, CallIds};
use crate::Api;
use serde_json::{Value, json};

/// What a part of a candidate says.
#[derive(Debug)]
pub(super) enum Said<'p> {
    /// Text, not empty.
    Text(&'p str),
    /// A call: it comes whole.
    Call { id: String, name: &'p str, args: Value },
    /// Nothing for the client.
    Nothing,
}

/// Reads a part.
///
/// # Errors
/// It has data that other APIs have no place for: images, code, files.
pub(super) fn said<'p>(
    part: &'p Value,
    ids: &mut CallIds,
    dropped: &mut Vec<String>,
) -> Result<Said<'p>, Untranslatable> {
    for (name, value) in part.as_object().ok_or(Untranslatable)? {
        match name.as_str() {
            _ if value.is_null() => {}
            "text" | "functionCall" | "thought" | "thoughtSignature" => {}
            "partMetadata" => drop_hint(dropped, name),
            _ => return Err(Untranslatable),
        }
    }
    let call = &part["functionCall"];
    let signature = part["thoughtSignature"].as_str().filter(|signature| !signature.is_empty());
    let is_thought = part["thought"] == true;
    if call.is_null() {
        // No other API has a place for it, and only those of calls must come back.
        if signature.is_some() {
            drop_hint(dropped, "thoughtSignature");
        }
        let text = if part["text"].is_null() { "" } else { part["text"].as_str().ok_or(Untranslatable)? };
        return Ok(match text {
            "" => Said::Nothing,
            _ if is_thought => {
                drop_hint(dropped, "thought");
                Said::Nothing
            }
            text => Said::Text(text),
        });
    }
    // Arguments in pieces have to be requested, which Gemini's own API does not support.
    let is_partial = !call["partialArgs"].is_null() || call["willContinue"] == true;
    if is_partial || is_thought || !part["text"].is_null() {
        return Err(Untranslatable);
    }
    let name = response::called(&call["name"])?;
    let args = match &call["args"] {
        Value::Null => json!({}),
        args @ Value::Object(_) => args.clone(),
        _ => return Err(Untranslatable),
    };
    let own = match call["id"].as_str() {
        Some(id) if !id.is_empty() => id.to_owned(),
        _ => ids.call(),
    };
    let id = match signature.map(|signature| call_id::join(&own, signature)) {
        None => own,
        Some(Some(id)) => id,
        Some(None) => {
            drop_hint(dropped, "thoughtSignature");
            own
        }
    };
    Ok(Said::Call { id, name, args })
}

/// The parts of a candidate; it may have none.
///
/// # Errors
/// Its content has another form.
pub(super) fn parts(candidate: &Value) -> Result<&[Value], Untranslatable> {
    let content = &candidate["content"];
    match &content["parts"] {
        Value::Array(parts) => Ok(parts),
        Value::Null if content.is_null() || content.is_object() => Ok(&[]),
        _ => Err(Untranslatable),
    }
}

/// Names what a candidate says about its text.
pub(super) fn drop_sources(candidate: &Value, dropped: &mut Vec<String>) {
    for name in ["citationMetadata", "groundingMetadata", "urlContextMetadata"] {
        if candidate[name].as_object().is_some_and(|members| !members.is_empty()) {
            drop_hint(dropped, name);
        }
    }
}

/// OpenAI's usage: Gemini counts thoughts, and what tools of its own read, apart.
pub(super) fn chat_usage(usage: &Value) -> Value {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let thoughts = count("thoughtsTokenCount");
    let input = count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount"));
    let output = count("candidatesTokenCount").saturating_add(thoughts);
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output),
        "prompt_tokens_details": {"cached_tokens": count("cachedContentTokenCount")},
        "completion_tokens_details": {"reasoning_tokens": thoughts}})
}

/// The id and the model of a response.
pub(super) fn frame(response: &Value, ids: &mut CallIds) -> (Value, Value) {
    let id = response["responseId"].as_str().filter(|id| !id.is_empty());
    let model = if response["modelVersion"].is_string() { response["modelVersion"].clone() } else { "".into() };
    (id.map_or_else(|| ids.response(), str::to_owned).into(), model)
}

/// Gemini's response as a chat completion; and what was left out. `created`: seconds since 1970.
///
/// # Errors
/// It has no candidates, an end reason is a fault, or there is content of another kind.
pub fn gemini_response_to_chat(
    response: &Value,
    created: u64,
    ids: &mut CallIds,
) -> Result<(Value, Vec<String>), Untranslatable> {
    let (mut choices, mut dropped) = (Vec::new(), Vec::new());
    let (id, model) = frame(response, ids);
    let candidates = response["candidates"].as_array().filter(|candidates| !candidates.is_empty());
    for (position, candidate) in candidates.ok_or(Untranslatable)?.iter().enumerate() {
        let (mut text, mut calls) = (None::<String>, Vec::new());
        drop_sources(candidate, &mut dropped);
        for part in parts(candidate)? {
            match said(part, ids, &mut dropped)? {
                Said::Text(part) => text.get_or_insert_default().push_str(part),
                Said::Call { id, name, args } => calls.push(chat::call(&id.into(), &name.into(), &args.to_string())),
                Said::Nothing => {}
            }
        }
        let reason = candidate["finishReason"].as_str().ok_or(Untranslatable)?;
        let reason = chat::finish_reason(Api::Gemini, reason, !calls.is_empty())?;
        let index = candidate["index"].as_u64().unwrap_or(position as u64);
        choices.push(chat::choice(index, text, calls, reason));
    }
    let usage = Some(&response["usageMetadata"]).filter(|usage| usage.is_object()).map(chat_usage);
    Ok((chat::completion(&id, created, &model, choices, usage), dropped))
}

/// Gemini's response as Anthropic's message; and what was left out.
///
/// # Errors
/// It has not one candidate, its end reason is a fault, or there is content of another kind.
pub fn gemini_response_to_message(response: &Value, ids: &mut CallIds) -> Result<(Value, Vec<String>), Untranslatable> {
    let (mut content, mut dropped): (Vec<Value>, _) = (Vec::new(), Vec::new());
    let (id, model) = frame(response, ids);
    let Some([candidate]) = response["candidates"].as_array().map(Vec::as_slice) else { return Err(Untranslatable) };
    drop_sources(candidate, &mut dropped);
    let mut calls = false;
    let mut text = String::new();
    let end_text = |text: &mut String, content: &mut Vec<Value>| {
        if !text.is_empty() {
            content.push(json!({"type": "text", "text": std::mem::take(text)}));
        }
    };
    for part in parts(candidate)? {
        match said(part, ids, &mut dropped)? {
            Said::Text(part) => text.push_str(part),
            Said::Call { id, name, args } => {
                end_text(&mut text, &mut content);
                calls = true;
                content.push(json!({"type": "tool_use", "id": id, "name": name, "input": args}));
            }
            Said::Nothing => {}
        }
    }
    end_text(&mut text, &mut content);
    let reason = candidate["finishReason"].as_str().ok_or(Untranslatable)?;
    let reason = chat::finish_reason(Api::Gemini, reason, calls)?;
    let stop_reason = super::super::response::stop_reason(reason, calls)?;
    let usage = super::super::response::message_usage(&chat_usage(&response["usageMetadata"]));
    let body = json!({"id": id, "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": usage});
    Ok((body, dropped))
}
