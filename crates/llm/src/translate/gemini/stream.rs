//! Streams of Gemini for clients of the other APIs.

use super::super::chat::{self, Chunks, count, counted};
use super::super::{ChatToMessagesStream, Translator, Untranslatable, event_data};
use super::call_id::CallIds;
use super::response::{self, Said, said};
use crate::Api;
use serde_json::{Value, json};

/// Translates the events of one stream to chat chunks.
///
/// No event of Gemini's says that the response ends there; an end reason may come with any of them, and more text after it. So the end is
/// written by [`Translator::finish`], once the body has ended properly.
#[derive(Debug)]
pub struct GeminiToChatStream {
    chunks: Chunks,
    has_begun: bool,
    /// Calls so far.
    calls: u64,
    /// Gemini's end reason.
    end: Option<String>,
    /// The prompt was refused after all.
    is_blocked: bool,
    usage: Value,
    ids: CallIds,
    dropped: Vec<String>,
}

impl GeminiToChatStream {
    /// `include_usage`: what the client requested. `created`: seconds since 1970.
    pub fn new(created: u64, include_usage: bool, ids: CallIds) -> Self {
        GeminiToChatStream {
            chunks: Chunks::new(created, include_usage),
            has_begun: false,
            calls: 0,
            end: None,
            is_blocked: false,
            usage: json!({}),
            ids,
            dropped: Vec::new(),
        }
    }

    fn begin(&mut self, data: &Value, out: &mut Vec<u8>) {
        if self.has_begun {
            return;
        }
        self.has_begun = true;
        (self.chunks.id, self.chunks.model) = response::frame(data, &mut self.ids);
        self.chunks.push(json!({"role": "assistant", "content": ""}), Value::Null, out);
    }
}

impl Translator for GeminiToChatStream {
    fn dropped(&self) -> &[String] {
        &self.dropped
    }

    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let Some(data) = event_data(event) else { return Ok(()) };
        let data: Value = serde_json::from_slice(&data).map_err(|_| Untranslatable)?;
        if !data.is_object() || !data["error"].is_null() {
            return Err(Untranslatable);
        }
        count(&mut self.usage, &data["usageMetadata"]);
        self.is_blocked |= !data["promptFeedback"]["blockReason"].is_null();
        let candidates = match &data["candidates"] {
            Value::Null => return Ok(()),
            candidates => candidates.as_array().ok_or(Untranslatable)?,
        };
        for candidate in candidates {
            if candidate["index"].as_u64().unwrap_or(0) != 0 {
                return Err(Untranslatable);
            }
            self.begin(&data, out);
            response::drop_sources(candidate, &mut self.dropped);
            for part in response::parts(candidate)? {
                match said(part, &mut self.ids, &mut self.dropped)? {
                    Said::Text(text) => self.chunks.push(json!({"content": text}), Value::Null, out),
                    Said::Call { id, name, args } => {
                        let mut call = chat::call(&id.into(), &name.into(), &args.to_string());
                        call["index"] = self.calls.into();
                        self.calls += 1;
                        self.chunks.push(json!({"tool_calls": [call]}), Value::Null, out);
                    }
                    Said::Nothing => {}
                }
            }
            if let Some(reason) = candidate["finishReason"].as_str() {
                chat::finish_reason(Api::Gemini, reason, false)?;
                self.end = Some(reason.to_owned());
            }
        }
        Ok(())
    }

    fn finish(&mut self, _missing: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let reason = match &self.end {
            _ if self.is_blocked => "content_filter",
            Some(reason) => chat::finish_reason(Api::Gemini, reason, self.calls > 0)?,
            None => return Err(Untranslatable),
        };
        self.begin(&Value::Null, out);
        self.chunks.push(json!({}), reason.into(), out);
        self.chunks.end(counted(&self.usage).map(response::chat_usage), out);
        Ok(())
    }
}

/// Translates the events of one stream to those of Anthropic's messages. By way of chat, which loses nothing: each chunk says one thing, calls
/// come whole, and both count tokens alike.
#[derive(Debug)]
pub struct GeminiToMessagesStream {
    chat: GeminiToChatStream,
    messages: ChatToMessagesStream,
}

impl GeminiToMessagesStream {
    /// `estimate`: input tokens, for the start.
    pub fn new(estimate: u64, ids: CallIds) -> Self {
        // The time is not part of messages.
        let chat = GeminiToChatStream::new(0, true, ids);
        GeminiToMessagesStream { chat, messages: ChatToMessagesStream::new(estimate) }
    }

    fn chunks(&mut self, chunks: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        // Chunks are lines of JSON, in which no line end stands.
        for line in chunks.split(|byte| *byte == b'\n') {
            self.messages.event(line, out)?;
            self.messages.end_call(out);
        }
        Ok(())
    }
}

impl Translator for GeminiToMessagesStream {
    fn dropped(&self) -> &[String] {
        self.chat.dropped()
    }

    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let mut chunks = Vec::new();
        self.chat.event(event, &mut chunks)?;
        self.chunks(&chunks, out)
    }

    fn finish(&mut self, _missing: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let mut chunks = Vec::new();
        self.chat.finish(&[], &mut chunks)?;
        self.chunks(&chunks, out)
    }
}
