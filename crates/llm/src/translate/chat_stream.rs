//! Streams: OpenAI chat chunks to Anthropic messages.

use super::chat::{PartialCall, drop_more, texts};
use super::{Translator, Untranslatable, event_data, response};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Bytes of deltas that may wait for the end of another tool's block.
const MAX_WAITING: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    /// OpenAI's index of the call.
    Tool(u64),
}

/// Translates the events of one stream, one by one.
#[derive(Debug)]
pub struct ChatToMessagesStream {
    /// Estimated input tokens, for the start; the end reports the provider's count.
    estimate: u64,
    started: bool,
    open: Option<Block>,
    /// Blocks so far.
    blocks: u64,
    /// Calls whose blocks have ended.
    ended: Vec<u64>,
    /// Calls whose blocks cannot be opened yet: one block is open at a time.
    waiting: BTreeMap<u64, PartialCall>,
    waiting_bytes: usize,
    stop_reason: Option<&'static str>,
    usage: Value,
    dropped: Vec<String>,
}

impl ChatToMessagesStream {
    /// `estimate`: input tokens, as the provider reports them at the end only.
    pub fn new(estimate: u64) -> Self {
        ChatToMessagesStream {
            estimate,
            started: false,
            open: None,
            blocks: 0,
            ended: Vec::new(),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            stop_reason: None,
            usage: Value::Null,
            dropped: Vec::new(),
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        if self.open != Some(Block::Text) {
            self.close(out);
            let block = json!({"type": "text", "text": ""});
            push("content_block_start", json!({"index": self.blocks, "content_block": block}), out);
            self.open = Some(Block::Text);
        }
        push("content_block_delta", json!({"index": self.blocks, "delta": {"type": "text_delta", "text": text}}), out);
    }

    fn tool(&mut self, call: &Value, out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let index = call["index"].as_u64().unwrap_or(0);
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        match self.open {
            _ if self.ended.contains(&index) => return Err(Untranslatable),
            Some(Block::Tool(open)) if open == index => {}
            Some(Block::Tool(_)) => {
                self.waiting_bytes += self.waiting.entry(index).or_default().add(call);
                return if self.waiting_bytes > MAX_WAITING { Err(Untranslatable) } else { Ok(()) };
            }
            _ => {
                self.close(out);
                // It may have begun while another one was open.
                let mut waiting = self.waiting.remove(&index).unwrap_or_default();
                waiting.name_by(call);
                self.start_tool(&waiting.id, &waiting.name, out)?;
                self.open = Some(Block::Tool(index));
                self.waiting_bytes -= waiting.arguments.len();
                self.arguments(&waiting.arguments, out);
            }
        }
        self.arguments(arguments, out);
        Ok(())
    }

    fn start_tool(&mut self, id: &Value, name: &Value, out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let (id, name) = (response::called(id)?, response::called(name)?);
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        push("content_block_start", json!({"index": self.blocks, "content_block": block}), out);
        self.open = Some(Block::Tool(u64::MAX));
        Ok(())
    }

    fn arguments(&self, part: &str, out: &mut Vec<u8>) {
        if !part.is_empty() {
            let delta = json!({"type": "input_json_delta", "partial_json": part});
            push("content_block_delta", json!({"index": self.blocks, "delta": delta}), out);
        }
    }

    /// Ends the block of a call that is known to be whole; otherwise only another block shows that.
    pub(super) fn end_call(&mut self, out: &mut Vec<u8>) {
        if matches!(self.open, Some(Block::Tool(_))) {
            self.close(out);
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if let Some(block) = self.open.take() {
            push("content_block_stop", json!({"index": self.blocks}), out);
            self.blocks += 1;
            if let Block::Tool(index) = block {
                self.ended.push(index);
            }
        }
    }

    /// `[DONE]` alone proves nothing: without an end reason the stream has failed.
    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let stop_reason = self.stop_reason.ok_or(Untranslatable)?;
        // Clients read the counts unasked; of a provider that reports none they are 0.
        let usage = response::message_usage(&self.usage);
        let delta = json!({"delta": {"stop_reason": stop_reason, "stop_sequence": null}, "usage": usage});
        push("message_delta", delta, out);
        push("message_stop", json!({}), out);
        Ok(())
    }
}

impl Translator for ChatToMessagesStream {
    fn dropped(&self) -> &[String] {
        &self.dropped
    }

    // The end is written at `[DONE]`.
    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        let Some(data) = event_data(event) else { return Ok(()) };
        if data.trim_ascii() == b"[DONE]" {
            return self.end(out);
        }
        let data: Value = serde_json::from_slice(&data).map_err(|_| Untranslatable)?;
        if !data["error"].is_null() || !data["choices"].is_array() {
            return Err(Untranslatable);
        }
        // Azure's first chunk has no choice, and no id.
        let has_choice = data["choices"].as_array().is_some_and(|choices| !choices.is_empty());
        if !self.started && has_choice {
            self.started = true;
            let usage = json!({"input_tokens": self.estimate, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                "output_tokens": 0});
            let message = json!({"id": data["id"], "type": "message", "role": "assistant", "model": data["model"], "content": [],
                "stop_reason": null, "stop_sequence": null, "usage": usage});
            push("message_start", json!({"message": message}), out);
        }
        if data["usage"].is_object() {
            self.usage = data["usage"].clone();
        }
        for choice in data["choices"].as_array().into_iter().flatten() {
            if choice["index"].as_u64().unwrap_or(0) != 0 {
                return Err(Untranslatable);
            }
            let delta = &choice["delta"];
            drop_more(delta, &mut self.dropped)?;
            texts(delta).for_each(|text| self.text(text, out));
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                self.tool(call, out)?;
            }
            if let Some(reason) = choice["finish_reason"].as_str() {
                self.close(out);
                for (_, call) in std::mem::take(&mut self.waiting) {
                    self.start_tool(&call.id, &call.name, out)?;
                    self.arguments(&call.arguments, out);
                    self.close(out);
                }
                self.stop_reason = Some(response::stop_reason(reason, !self.ended.is_empty())?);
            }
        }
        Ok(())
    }
}

fn push(name: &str, mut data: Value, out: &mut Vec<u8>) {
    data["type"] = name.into();
    out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
}
