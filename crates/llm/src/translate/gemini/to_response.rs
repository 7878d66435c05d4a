//! Responses of the other APIs for clients of Gemini's, whole and as streams.

use super::super::chat::{PartialCall, arguments, drop_more, texts};
use super::super::{MessagesToChatStream, Translator, Untranslatable, drop_hint, event_data, response};
use crate::Api;
use crate::response::EndReason;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Bytes of arguments that may wait for the end of their calls.
const MAX_WAITING: usize = 1 << 20;

/// Gemini's word for an end reason.
fn finish_reason(api: Api, reason: &str) -> Result<&'static str, Untranslatable> {
    Ok(match EndReason::of(api, reason.as_bytes()) {
        EndReason::Stop | EndReason::ToolCalls => "STOP",
        EndReason::Length => "MAX_TOKENS",
        EndReason::ContentFilter => "SAFETY",
        EndReason::Fault | EndReason::Unknown => return Err(Untranslatable),
    })
}

/// Gemini's usage for OpenAI's.
fn usage_metadata(usage: &Value) -> Value {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let thoughts = count(&usage["completion_tokens_details"]["reasoning_tokens"]);
    let (input, output) = (count(&usage["prompt_tokens"]), count(&usage["completion_tokens"]));
    let mut out = json!({"promptTokenCount": input, "candidatesTokenCount": output.saturating_sub(thoughts),
        "totalTokenCount": input.saturating_add(output)});
    let cached = count(&usage["prompt_tokens_details"]["cached_tokens"]);
    for (name, count) in [("thoughtsTokenCount", thoughts), ("cachedContentTokenCount", cached)] {
        if count > 0 {
            out[name] = count.into();
        }
    }
    out
}

/// A call whose arguments are complete.
fn function_call(id: &Value, name: &Value, text: &str) -> Result<Value, Untranslatable> {
    let args = arguments(text)?;
    Ok(json!({"functionCall": {"id": response::called(id)?, "name": response::called(name)?, "args": args}}))
}

fn candidate(index: u64, mut parts: Vec<Value>, finish_reason: Option<&str>) -> Value {
    if parts.is_empty() {
        parts.push(json!({"text": ""}));
    }
    let mut out = json!({"content": {"parts": parts, "role": "model"}, "index": index});
    if let Some(reason) = finish_reason {
        out["finishReason"] = reason.into();
    }
    out
}

/// A chat completion as Gemini's response; and what was left out.
///
/// # Errors
/// It has no choices, an end reason is unknown, or the arguments of a call are not a JSON object.
pub fn chat_response_to_gemini(completion: &Value) -> Result<(Value, Vec<String>), Untranslatable> {
    let (mut candidates, mut dropped) = (Vec::new(), Vec::new());
    let choices = completion["choices"].as_array().filter(|choices| !choices.is_empty());
    for (position, choice) in choices.ok_or(Untranslatable)?.iter().enumerate() {
        let message = &choice["message"];
        drop_more(message, &mut dropped)?;
        let mut parts: Vec<Value> = texts(message).map(|text| json!({"text": text})).collect();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().ok_or(Untranslatable)?;
            parts.push(function_call(&call["id"], &call["function"]["name"], arguments)?);
        }
        let reason = finish_reason(Api::Chat, choice["finish_reason"].as_str().ok_or(Untranslatable)?)?;
        let index = choice["index"].as_u64().unwrap_or(position as u64);
        candidates.push(candidate(index, parts, Some(reason)));
    }
    let mut body =
        json!({"candidates": candidates, "modelVersion": completion["model"], "responseId": completion["id"]});
    if completion["usage"].is_object() {
        body["usageMetadata"] = usage_metadata(&completion["usage"]);
    }
    Ok((body, dropped))
}

/// Anthropic's message as Gemini's response; and what was left out.
///
/// # Errors
/// It is not a message, or its end reason is a fault.
pub fn message_response_to_gemini(message: &Value) -> Result<(Value, Vec<String>), Untranslatable> {
    let (mut parts, mut dropped) = (Vec::new(), Vec::new());
    for block in message["content"].as_array().ok_or(Untranslatable)? {
        match block["type"].as_str() {
            Some("text") => parts.push(json!({"text": block["text"].as_str().ok_or(Untranslatable)?})),
            Some("tool_use") => parts.push(function_call(&block["id"], &block["name"], &block["input"].to_string())?),
            Some("thinking" | "redacted_thinking") => drop_hint(&mut dropped, "thinking"),
            _ => return Err(Untranslatable),
        }
    }
    let reason = finish_reason(Api::Messages, message["stop_reason"].as_str().ok_or(Untranslatable)?)?;
    let mut body = json!({"candidates": [candidate(0, parts, Some(reason))], "modelVersion": message["model"],
        "responseId": message["id"]});
    if message["usage"].is_object() {
        body["usageMetadata"] = usage_metadata(&response::chat_usage(&message["usage"]));
    }
    Ok((body, dropped))
}

/// Translates chat chunks to events of Gemini's, in which calls are whole.
#[derive(Debug, Default)]
pub struct ChatToGeminiStream {
    id: Value,
    model: Value,
    calls: BTreeMap<u64, PartialCall>,
    waiting_bytes: usize,
    end: Option<&'static str>,
    usage: Value,
    dropped: Vec<String>,
}

impl ChatToGeminiStream {
    /// For one stream.
    pub fn new() -> Self {
        ChatToGeminiStream::default()
    }

    fn call(&mut self, call: &Value) -> Result<(), Untranslatable> {
        self.waiting_bytes += self.calls.entry(call["index"].as_u64().unwrap_or(0)).or_default().add(call);
        if self.waiting_bytes > MAX_WAITING || self.calls.len() > 1024 { Err(Untranslatable) } else { Ok(()) }
    }

    fn push(&self, parts: Vec<Value>, end: Option<&str>, out: &mut Vec<u8>) {
        let mut body =
            json!({"candidates": [candidate(0, parts, end)], "modelVersion": self.model, "responseId": self.id});
        if end.is_some() && self.usage.is_object() {
            body["usageMetadata"] = usage_metadata(&self.usage);
        }
        out.extend_from_slice(format!("data: {body}\n\n").as_bytes());
    }
}

impl Translator for ChatToGeminiStream {
    fn dropped(&self) -> &[String] {
        &self.dropped
    }

    // The end is written at `[DONE]`: nothing else says that the response is complete.
    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let Some(data) = event_data(event) else { return Ok(()) };
        if data.trim_ascii() == b"[DONE]" {
            let end = self.end.ok_or(Untranslatable)?;
            self.push(Vec::new(), Some(end), out);
            return Ok(());
        }
        let data: Value = serde_json::from_slice(&data).map_err(|_| Untranslatable)?;
        let choices = data["choices"].as_array().ok_or(Untranslatable)?;
        if !data["error"].is_null() {
            return Err(Untranslatable);
        }
        if data["usage"].is_object() {
            self.usage = data["usage"].clone();
        }
        for choice in choices {
            if choice["index"].as_u64().unwrap_or(0) != 0 {
                return Err(Untranslatable);
            }
            // Azure's first chunk has no choice, and no id.
            (self.id, self.model) = (data["id"].clone(), data["model"].clone());
            let delta = &choice["delta"];
            drop_more(delta, &mut self.dropped)?;
            texts(delta).for_each(|text| self.push(vec![json!({"text": text})], None, out));
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                self.call(call)?;
            }
            if let Some(reason) = choice["finish_reason"].as_str() {
                self.end = Some(finish_reason(Api::Chat, reason)?);
                self.waiting_bytes = 0;
                let calls = std::mem::take(&mut self.calls).into_values();
                let parts = calls.map(|call| function_call(&call.id, &call.name, &call.arguments));
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                if !parts.is_empty() {
                    self.push(parts, None, out);
                }
            }
        }
        Ok(())
    }
}

/// Translates the events of Anthropic's messages to those of Gemini, by way of chat, which loses nothing of what Gemini's API has a place for.
#[derive(Debug)]
pub struct MessagesToGeminiStream {
    chat: MessagesToChatStream,
    gemini: ChatToGeminiStream,
    dropped: Vec<String>,
}

impl Default for MessagesToGeminiStream {
    fn default() -> Self {
        Self::new()
    }
}

impl MessagesToGeminiStream {
    /// For one stream.
    pub fn new() -> Self {
        // The time is not part of Gemini's events.
        let chat = MessagesToChatStream::new(0, true);
        MessagesToGeminiStream { chat, gemini: ChatToGeminiStream::new(), dropped: Vec::new() }
    }
}

impl Translator for MessagesToGeminiStream {
    fn dropped(&self) -> &[String] {
        &self.dropped
    }

    // The end is written at `message_stop`.
    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let mut chunks = Vec::new();
        self.chat.event(event, &mut chunks)?;
        // Chunks are lines of JSON, in which no line end stands.
        chunks.split(|byte| *byte == b'\n').try_for_each(|line| self.gemini.event(line, out))?;
        self.chat.dropped().iter().for_each(|name| drop_hint(&mut self.dropped, name));
        Ok(())
    }
}
