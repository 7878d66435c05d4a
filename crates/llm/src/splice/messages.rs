//! Events of Anthropic's messages.

use super::text::Text;
use super::{Differs, New};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Messages {
    has_start: bool,
    blocks: Vec<Block>,
    /// Blocks that the response on its way has begun.
    begun: usize,
    /// Why the model ended, as the client knows it.
    end: Option<Value>,
    /// The response has reached the end.
    has_ended: bool,
}

#[derive(Debug)]
struct Block {
    /// As it begins, without the id.
    start: Value,
    /// By type of delta.
    texts: BTreeMap<String, Text>,
    is_closed: bool,
    /// Closed by the response on its way.
    was_closed: bool,
}

/// The member of a delta that is text, by its type.
fn member_of(kind: &str) -> Result<&'static str, Differs> {
    Ok(match kind {
        "text_delta" => "text",
        "input_json_delta" => "partial_json",
        "thinking_delta" => "thinking",
        "signature_delta" => "signature",
        _ => return Err(Differs),
    })
}

impl Messages {
    /// Takes out of an event what the client has.
    pub(super) fn take(&mut self, event: &mut Value) -> Result<New, Differs> {
        let had_caught_up = self.has_caught_up();
        let event = event.as_object_mut().ok_or(Differs)?;
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "message_start" => Ok(if std::mem::replace(&mut self.has_start, true) { New::Nothing } else { New::Whole }),
            "ping" => Ok(if had_caught_up { New::Whole } else { New::Nothing }),
            "content_block_start" => self.begin(event),
            "content_block_delta" => self.delta(event),
            "content_block_stop" => self.close(event),
            "message_delta" => self.end(event),
            "message_stop" if self.end.is_some() && had_caught_up => Ok(New::Whole),
            _ => Err(Differs),
        }
    }

    fn begin(&mut self, event: &Map<String, Value>) -> Result<New, Differs> {
        let mut start = event.get("content_block").cloned().unwrap_or_default();
        if let Some(start) = start.as_object_mut() {
            start.remove("id");
        }
        if index_of(event)? != self.begun {
            return Err(Differs);
        }
        self.begun += 1;
        match self.blocks.get(self.begun - 1) {
            Some(block) if block.start == start => Ok(New::Nothing),
            Some(_) => Err(Differs),
            None if self.end.is_some() || self.blocks.iter().any(|block| !block.is_closed) => Err(Differs),
            None => {
                self.blocks.push(Block { start, texts: BTreeMap::new(), is_closed: false, was_closed: false });
                Ok(New::Whole)
            }
        }
    }

    fn delta(&mut self, event: &mut Map<String, Value>) -> Result<New, Differs> {
        let block = self.block(event)?;
        let delta = event.get_mut("delta").and_then(Value::as_object_mut).ok_or(Differs)?;
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(Value::String(text)) = delta.get_mut(member_of(&kind)?) else { return Err(Differs) };
        let new = block.texts.entry(kind).or_default().take(text)?;
        if new.is_empty() {
            return Ok(if text.is_empty() && !block.is_closed { New::Whole } else { New::Nothing });
        }
        if block.is_closed {
            return Err(Differs);
        }
        let is_whole = new.len() == text.len();
        *text = new.to_owned();
        Ok(if is_whole { New::Whole } else { New::Part })
    }

    fn close(&mut self, event: &Map<String, Value>) -> Result<New, Differs> {
        let block = self.block(event)?;
        if !block.texts.values().all(Text::has_caught_up) {
            return Err(Differs);
        }
        block.was_closed = true;
        Ok(if std::mem::replace(&mut block.is_closed, true) { New::Nothing } else { New::Whole })
    }

    fn end(&mut self, event: &Map<String, Value>) -> Result<New, Differs> {
        let is_whole = self.begun == self.blocks.len() && self.blocks.iter().all(|block| block.was_closed);
        let end = event.get("delta").map(|delta| delta["stop_reason"].clone()).unwrap_or_default();
        self.has_ended = true;
        match &self.end {
            _ if !is_whole => Err(Differs),
            Some(known) if *known == end => Ok(New::Nothing),
            Some(_) => Err(Differs),
            None => {
                self.end = Some(end);
                Ok(New::Whole)
            }
        }
    }

    /// The block of an event, which the response on its way has begun.
    fn block(&mut self, event: &Map<String, Value>) -> Result<&mut Block, Differs> {
        let index = index_of(event)?;
        self.blocks.get_mut(index).filter(|block| index < self.begun && !block.was_closed).ok_or(Differs)
    }

    pub(super) fn restart(&mut self) {
        self.begun = 0;
        self.has_ended = false;
        for block in &mut self.blocks {
            block.was_closed = false;
            block.texts.values_mut().for_each(Text::restart);
        }
    }

    pub(super) fn has_caught_up(&self) -> bool {
        let has_blocks = self.begun == self.blocks.len()
            && self
                .blocks
                .iter()
                .all(|block| block.was_closed == block.is_closed && block.texts.values().all(Text::has_caught_up));
        has_blocks && self.has_ended == self.end.is_some()
    }
}

fn index_of(event: &Map<String, Value>) -> Result<usize, Differs> {
    event.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok()).ok_or(Differs)
}
