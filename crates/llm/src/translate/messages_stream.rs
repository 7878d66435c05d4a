//! Streams: Anthropic messages to OpenAI chat chunks.

use super::chat::{Chunks, count, counted, finish_reason};
use super::{Translator, Untranslatable, event_data, response};
use crate::Api;
use serde_json::{Value, json};

/// Translates the events of one stream, one by one.
#[derive(Debug)]
pub struct MessagesToChatStream {
    chunks: Chunks,
    /// Tool blocks so far.
    tools: u64,
    /// The input of the open tool block, as its start gives it; `None` once there was a delta, or no such block is open.
    input: Option<Value>,
    usage: Value,
    dropped: Vec<String>,
}

impl MessagesToChatStream {
    /// `include_usage`: what the client requested. `created`: seconds since 1970.
    pub fn new(created: u64, include_usage: bool) -> Self {
        MessagesToChatStream {
            chunks: Chunks::new(created, include_usage),
            tools: 0,
            input: None,
            usage: json!({}),
            dropped: Vec::new(),
        }
    }

    fn arguments(&self, part: &str, out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let index = self.tools.checked_sub(1).ok_or(Untranslatable)?;
        let call = json!({"index": index, "function": {"arguments": part}});
        self.chunks.push(json!({"tool_calls": [call]}), Value::Null, out);
        Ok(())
    }

    fn text(&self, text: &Value, out: &mut Vec<u8>) {
        if text.as_str().is_some_and(|text| !text.is_empty()) {
            self.chunks.push(json!({"content": text}), Value::Null, out);
        }
    }
}

impl Translator for MessagesToChatStream {
    fn dropped(&self) -> &[String] {
        &self.dropped
    }

    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let Some(data) = event_data(event) else { return Ok(()) };
        let data: Value = serde_json::from_slice(&data).map_err(|_| Untranslatable)?;
        match data["type"].as_str().ok_or(Untranslatable)? {
            "message_start" => {
                let message = &data["message"];
                self.chunks.id = message["id"].clone();
                self.chunks.model = message["model"].clone();
                count(&mut self.usage, &message["usage"]);
                self.chunks.push(json!({"role": "assistant", "content": ""}), Value::Null, out);
            }
            "content_block_start" => match data["content_block"]["type"].as_str() {
                Some("text") => self.text(&data["content_block"]["text"], out),
                Some("tool_use") => {
                    let block = &data["content_block"];
                    let call = json!({"index": self.tools, "id": block["id"], "type": "function",
                        "function": {"name": block["name"], "arguments": ""}});
                    self.tools += 1;
                    self.input = Some(block["input"].clone());
                    self.chunks.push(json!({"tool_calls": [call]}), Value::Null, out);
                }
                Some("thinking" | "redacted_thinking") => super::drop_hint(&mut self.dropped, "thinking"),
                _ => return Err(Untranslatable),
            },
            "content_block_delta" => match data["delta"]["type"].as_str() {
                Some("text_delta") => self.text(&data["delta"]["text"], out),
                Some("input_json_delta") => {
                    let part = data["delta"]["partial_json"].as_str().ok_or(Untranslatable)?;
                    if !part.is_empty() {
                        self.input = None;
                        self.arguments(part, out)?;
                    }
                }
                Some("thinking_delta" | "signature_delta" | "citations_delta") => {}
                _ => return Err(Untranslatable),
            },
            "content_block_stop" => {
                // A call without arguments has no delta; OpenAI's has an empty object then.
                if let Some(input) = self.input.take() {
                    let text = if input.is_object() { input.to_string() } else { "{}".to_owned() };
                    self.arguments(&text, out)?;
                }
            }
            "message_delta" => {
                count(&mut self.usage, &data["usage"]);
                if let Some(reason) = data["delta"]["stop_reason"].as_str() {
                    self.chunks.push(json!({}), finish_reason(Api::Messages, reason, false)?.into(), out);
                }
            }
            "message_stop" => self.chunks.end(counted(&self.usage).map(response::chat_usage), out),
            "ping" => out.extend_from_slice(b": ping\n\n"),
            "error" => return Err(Untranslatable),
            // the API may add events, and clients skip those that they do not know
            _ => {}
        }
        Ok(())
    }
}
