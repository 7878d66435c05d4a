//! What translators share of OpenAI's chat: members without an equivalent, calls, completions and chunks.

use super::{NO_EQUIVALENT, Refused, UNKNOWN, Untranslatable, drop_hint, refuse};
use crate::Api;
use crate::response::EndReason;
use serde_json::{Value, json};

/// A member of a request that means nothing outside of OpenAI's API: it is dropped if it is a hint, or says what holds anyway.
///
/// # Errors
/// It says more.
pub(super) fn other_member(name: &str, value: &Value, dropped: &mut Vec<String>) -> Result<(), Refused> {
    match name {
        "logprobs" | "store" if value == false => {}
        "modalities" if *value == json!(["text"]) => {}
        "prompt_cache_key" | "prompt_cache_options" | "prompt_cache_retention" | "metadata" => drop_hint(dropped, name),
        "verbosity" if value == "medium" => drop_hint(dropped, name),
        "service_tier" if value == "auto" => drop_hint(dropped, name),
        "logprobs" | "top_logprobs" | "logit_bias" | "audio" | "prediction" | "web_search_options" | "functions"
        | "function_call" | "store" | "moderation" | "modalities" | "verbosity" | "service_tier" => {
            return refuse(name, NO_EQUIVALENT);
        }
        _ => return refuse(name, UNKNOWN),
    }
    Ok(())
}

/// OpenAI's word for an end reason of another API. `calls`: the model calls tools, where that API does not say so by its reason.
pub(super) fn finish_reason(api: Api, reason: &str, calls: bool) -> Result<&'static str, Untranslatable> {
    Ok(match EndReason::of(api, reason.as_bytes()) {
        EndReason::Stop if calls => "tool_calls",
        EndReason::Stop => "stop",
        EndReason::Length => "length",
        EndReason::ToolCalls => "tool_calls",
        EndReason::ContentFilter => "content_filter",
        EndReason::Fault | EndReason::Unknown => return Err(Untranslatable),
    })
}

/// A call of a tool. OpenAI's API has its arguments as text.
pub(super) fn call(id: &Value, name: &Value, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// The arguments of a call: a JSON object, or nothing.
///
/// # Errors
/// They are something else.
pub(super) fn arguments(text: &str) -> Result<Value, Untranslatable> {
    match serde_json::from_str(if text.trim().is_empty() { "{}" } else { text }) {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        _ => Err(Untranslatable),
    }
}

/// The texts of a message or a delta.
pub(super) fn texts(message: &Value) -> impl Iterator<Item = &str> {
    ["content", "refusal"].into_iter().filter_map(|name| message[name].as_str()).filter(|text| !text.is_empty())
}

/// Names what a message or a delta says and other APIs have no place for.
///
/// # Errors
/// It has parts or audio, which would be lost.
pub(super) fn drop_more(message: &Value, dropped: &mut Vec<String>) -> Result<(), Untranslatable> {
    for name in ["reasoning", "reasoning_content"] {
        if message[name].as_str().is_some_and(|text| !text.is_empty()) {
            drop_hint(dropped, name);
        }
    }
    if message["annotations"].as_array().is_some_and(|list| !list.is_empty()) {
        drop_hint(dropped, "annotations");
    }
    let is_text = |name: &str| message[name].is_null() || message[name].is_string();
    let has_more = !message["audio"].is_null() || !message["function_call"].is_null();
    if is_text("content") && is_text("refusal") && !has_more { Ok(()) } else { Err(Untranslatable) }
}

/// A choice of a completion.
pub(super) fn choice(index: u64, text: Option<String>, calls: Vec<Value>, finish_reason: &str) -> Value {
    let mut message = json!({"role": "assistant", "content": text, "refusal": null});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish_reason})
}

/// A completion. `created`: seconds since 1970.
pub(super) fn completion(id: &Value, created: u64, model: &Value, choices: Vec<Value>, usage: Option<Value>) -> Value {
    let mut body =
        json!({"id": id, "object": "chat.completion", "created": created, "model": model, "choices": choices});
    if let Some(usage) = usage {
        body["usage"] = usage;
    }
    body
}

/// Writes the chunks of a stream.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) id: Value,
    pub(super) model: Value,
    created: u64,
    include_usage: bool,
}

impl Chunks {
    /// `include_usage`: what the client requested. `created`: seconds since 1970.
    pub(super) fn new(created: u64, include_usage: bool) -> Self {
        Chunks { id: Value::Null, model: Value::Null, created, include_usage }
    }

    fn frame(&self) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model})
    }

    /// Appends a chunk with one choice.
    pub(super) fn push(&self, delta: Value, finish_reason: Value, out: &mut Vec<u8>) {
        let mut chunk = self.frame();
        chunk["choices"] = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}]);
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        push(&chunk, out);
    }

    /// Appends the end; before it what the stream used, if the client wants to know and the provider said so.
    pub(super) fn end(&self, usage: Option<Value>, out: &mut Vec<u8>) {
        if let Some(usage) = usage.filter(|_| self.include_usage) {
            let mut chunk = self.frame();
            chunk["choices"] = json!([]);
            chunk["usage"] = usage;
            push(&chunk, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

fn push(chunk: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("data: {chunk}\n\n").as_bytes());
}

/// A call that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub(super) id: Value,
    pub(super) name: Value,
    pub(super) arguments: String,
}

impl PartialCall {
    /// Takes a piece; returns how many bytes of arguments it has.
    pub(super) fn add(&mut self, piece: &Value) -> usize {
        let arguments = piece["function"]["arguments"].as_str().unwrap_or_default();
        self.name_by(piece);
        self.arguments.push_str(arguments);
        arguments.len()
    }

    /// Takes id and name of a piece, where it has them.
    pub(super) fn name_by(&mut self, piece: &Value) {
        for (own, given) in [(&mut self.id, &piece["id"]), (&mut self.name, &piece["function"]["name"])] {
            if given.is_string() {
                own.clone_from(given);
            }
        }
    }
}

/// Adds counts, which are cumulative, to those of before.
pub(super) fn count(sums: &mut Value, usage: &Value) {
    for (name, count) in usage.as_object().into_iter().flatten().filter(|(_, count)| count.is_u64()) {
        sums[name] = count.clone();
    }
}

/// Those counts, if there are any.
pub(super) fn counted(sums: &Value) -> Option<&Value> {
    Some(sums).filter(|sums| sums.as_object().is_some_and(|counts| !counts.is_empty()))
}
