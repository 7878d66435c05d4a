//! Events of Anthropic's messages.

use super::text::Text;
use super::{Differs, Room};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a block costs beside its text.
const BLOCK: usize = 256;

#[derive(Debug, Clone, Default)]
pub(super) struct Messages {
    has_start: bool,
    /// Only the last one may be open.
    blocks: Vec<Block>,
    /// Blocks that the response on its way has begun.
    begun: usize,
    /// Texts and ends of blocks that it has not repeated.
    missing: usize,
    /// Why the model ended, as the client knows it.
    end: Option<Value>,
    /// The response has reached the end.
    has_ended: bool,
    room: Room,
}

#[derive(Debug, Clone)]
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
    /// Takes out of an event what the client has; false if nothing new is left.
    pub(super) fn take(&mut self, event: &mut Value) -> Result<bool, Differs> {
        let event = event.as_object_mut().ok_or(Differs)?;
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "message_start" => Ok(!std::mem::replace(&mut self.has_start, true)),
            "ping" => Ok(self.has_caught_up()),
            "content_block_start" => self.begin(event),
            "content_block_delta" => self.delta(event),
            "content_block_stop" => self.close(event),
            "message_delta" => self.end(event),
            "message_stop" if self.end.is_some() && self.has_caught_up() => Ok(true),
            _ => Err(Differs),
        }
    }

    fn begin(&mut self, event: &Map<String, Value>) -> Result<bool, Differs> {
        let mut start = event.get("content_block").cloned().unwrap_or_default();
        if let Some(start) = start.as_object_mut() {
            start.remove("id");
        }
        let is_open = self.begun > 0 && self.blocks.get(self.begun - 1).is_some_and(|block| !block.was_closed);
        if is_open || index_of(event)? != self.begun {
            return Err(Differs);
        }
        self.begun += 1;
        match self.blocks.get(self.begun - 1) {
            Some(block) if block.start == start => Ok(false),
            Some(_) => Err(Differs),
            None if self.end.is_some() => Err(Differs),
            None => {
                self.room.take(start.to_string().len() + BLOCK)?;
                self.blocks.push(Block { start, texts: BTreeMap::new(), is_closed: false, was_closed: false });
                Ok(true)
            }
        }
    }

    fn delta(&mut self, event: &mut Map<String, Value>) -> Result<bool, Differs> {
        let index = self.open(event)?;
        let block = &mut self.blocks[index];
        let delta = event.get_mut("delta").and_then(Value::as_object_mut).ok_or(Differs)?;
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(Value::String(part)) = delta.get_mut(member_of(&kind)?) else { return Err(Differs) };
        let text = block.texts.entry(kind).or_default();
        let was_missing = !text.has_caught_up();
        let new = text.take(part, &mut self.room)?.to_owned();
        self.missing -= usize::from(was_missing && text.has_caught_up());
        if block.is_closed && !new.is_empty() {
            return Err(Differs);
        }
        *part = new;
        Ok(!part.is_empty())
    }

    fn close(&mut self, event: &Map<String, Value>) -> Result<bool, Differs> {
        let index = self.open(event)?;
        let block = &mut self.blocks[index];
        if !block.texts.values().all(Text::has_caught_up) {
            return Err(Differs);
        }
        block.was_closed = true;
        let is_new = !std::mem::replace(&mut block.is_closed, true);
        self.missing -= usize::from(!is_new);
        Ok(is_new)
    }

    fn end(&mut self, event: &Map<String, Value>) -> Result<bool, Differs> {
        let is_whole = self.missing == 0
            && self.begun == self.blocks.len()
            && self.blocks.last().is_none_or(|block| block.was_closed);
        let end = event.get("delta").map(|delta| delta["stop_reason"].clone()).unwrap_or_default();
        self.has_ended = true;
        match &self.end {
            _ if !is_whole => Err(Differs),
            Some(known) if *known == end => Ok(false),
            Some(_) => Err(Differs),
            None => {
                self.end = Some(end);
                Ok(true)
            }
        }
    }

    /// The block of an event, which is the one that the response on its way has begun last.
    fn open(&self, event: &Map<String, Value>) -> Result<usize, Differs> {
        let index = index_of(event)?;
        let is_open = index + 1 == self.begun && self.blocks.get(index).is_some_and(|block| !block.was_closed);
        if is_open { Ok(index) } else { Err(Differs) }
    }

    pub(super) fn restart(&mut self) {
        self.begun = 0;
        self.has_ended = false;
        self.missing = 0;
        for block in &mut self.blocks {
            block.was_closed = false;
            self.missing += usize::from(block.is_closed);
            self.missing += block.texts.values_mut().map(|text| usize::from(text.restart())).sum::<usize>();
        }
    }

    pub(super) fn has_caught_up(&self) -> bool {
        self.missing == 0 && self.begun == self.blocks.len() && self.has_ended == self.end.is_some()
    }
}

fn index_of(event: &Map<String, Value>) -> Result<usize, Differs> {
    event.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok()).ok_or(Differs)
}
