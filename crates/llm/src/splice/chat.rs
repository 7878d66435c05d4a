//! Chunks of OpenAI's chat and completions.

use super::text::Text;
use super::{Differs, Room};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Members of a chunk that say nothing of the response's content, or that are looked into.
const OF_CHUNK: [&str; 12] = [
    "id",
    "object",
    "created",
    "model",
    "choices",
    "usage",
    "system_fingerprint",
    "service_tier",
    "obfuscation",
    "provider",
    "prompt_filter_results",
    "timings",
];
/// The same of a choice.
const OF_CHOICE: [&str; 10] = [
    "index",
    "delta",
    "message",
    "text",
    "finish_reason",
    "native_finish_reason",
    "stop_reason",
    "matched_stop",
    "content_filter_results",
    "content_filter_offsets",
];
/// What a member costs beside its text.
const MEMBER: usize = 64;

#[derive(Debug, Clone, Default)]
pub(super) struct Chat {
    /// Of the response that the client began with.
    id: Option<Value>,
    choices: BTreeMap<u64, Choice>,
    /// The client has the counts.
    has_usage: bool,
    room: Room,
}

#[derive(Debug, Clone, Default)]
struct Choice {
    /// By path, such as `delta.tool_calls[0].function.arguments`.
    members: BTreeMap<String, Member>,
    /// Members that the response on its way has not repeated.
    missing: usize,
    end: Option<String>,
    /// The response has reached the end.
    has_ended: bool,
}

#[derive(Debug, Clone)]
enum Member {
    /// Its parts are joined.
    Text(Text),
    /// It is the same wherever it stands.
    Fixed { value: String, was_repeated: bool },
    /// Made by the provider at random.
    Id { is_known: bool, was_repeated: bool },
}

impl Chat {
    /// Takes out of a chunk what the client has; false if nothing new is left.
    pub(super) fn take(&mut self, chunk: &mut Value) -> Result<bool, Differs> {
        let chunk = chunk.as_object_mut().ok_or(Differs)?;
        only(chunk, &OF_CHUNK)?;
        match (&self.id, chunk.get_mut("id")) {
            (None, Some(id)) => self.id = Some(id.clone()),
            (Some(first), Some(id)) => *id = first.clone(),
            (_, None) => {}
        }
        let has_usage = chunk.get("usage").is_some_and(Value::is_object);
        let Some(Value::Array(choices)) = chunk.get_mut("choices") else { return Err(Differs) };
        if choices.is_empty() {
            return Ok(has_usage && !std::mem::replace(&mut self.has_usage, true));
        }
        let mut is_new = false;
        for choice in choices {
            let members = choice.as_object_mut().ok_or(Differs)?;
            let index = members.get("index").and_then(Value::as_u64).unwrap_or(0);
            is_new |= self.choices.entry(index).or_default().take(members, &mut self.room)?;
        }
        Ok(is_new)
    }

    pub(super) fn restart(&mut self) {
        for choice in self.choices.values_mut() {
            choice.has_ended = false;
            choice.missing = choice.members.values_mut().map(|member| usize::from(member.restart())).sum();
        }
    }

    /// The text of the response, if the client has nothing else of it, and not its end.
    pub(super) fn plain_text(&self) -> Option<&str> {
        let (index, choice) = self.choices.iter().next().filter(|_| self.choices.len() == 1 && !self.has_usage)?;
        let mut text = None;
        for (path, member) in &choice.members {
            match (path.as_str(), member) {
                ("delta.role", Member::Fixed { .. }) => {}
                ("delta.content" | "text", Member::Text(content)) => text = Some(content.as_str()),
                _ => return None,
            }
        }
        text.filter(|text| *index == 0 && choice.end.is_none() && !text.is_empty())
    }

    /// Puts the first id into a chunk.
    pub(super) fn put_id(&self, chunk: &mut Value) {
        if let (Some(first), Some(id)) = (&self.id, chunk.get_mut("id")) {
            *id = first.clone();
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.choices.values().all(|choice| choice.end.is_some())
    }

    /// Another response begins, with what comes behind the text of this one.
    pub(super) fn restart_behind(&mut self) {
        for choice in self.choices.values_mut() {
            choice.has_ended = false;
            choice.missing = 0;
            choice.members.values_mut().for_each(Member::restart_behind);
        }
    }

    pub(super) fn has_caught_up(&self) -> bool {
        self.choices.values().all(|choice| choice.missing == 0 && choice.has_ended == choice.end.is_some())
    }
}

/// Nothing but these members, unless there is nothing in them: what is not known cannot be compared.
fn only(object: &Map<String, Value>, known: &[&str]) -> Result<(), Differs> {
    let says_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let is_known = |(name, value): (&String, &Value)| known.contains(&name.as_str()) || says_nothing(value);
    if object.iter().all(is_known) { Ok(()) } else { Err(Differs) }
}

impl Choice {
    fn take(&mut self, choice: &mut Map<String, Value>, room: &mut Room) -> Result<bool, Differs> {
        // Among the rest are probabilities, which are those of all tokens of the chunk.
        only(choice, &OF_CHOICE)?;
        let mut is_new = false;
        for name in ["delta", "message", "text"] {
            if let Some(value) = choice.get_mut(name) {
                // Both are the content.
                let path = if name == "message" { "delta" } else { name };
                if !self.member(path.to_owned(), name, value, (&mut is_new, &mut *room))? {
                    *value = if name == "text" { Value::String(String::new()) } else { Value::Object(Map::new()) };
                }
            }
        }
        // Nothing comes behind the end.
        if is_new && self.end.is_some() {
            return Err(Differs);
        }
        if let Some(Value::String(end)) = choice.get("finish_reason") {
            match &self.end {
                _ if self.missing > 0 => return Err(Differs),
                Some(known) if known != end => return Err(Differs),
                Some(_) => {
                    choice.insert("finish_reason".to_owned(), Value::Null);
                }
                None => {
                    self.end = Some(end.clone());
                    is_new = true;
                }
            }
            self.has_ended = true;
        }
        Ok(is_new)
    }

    /// Takes out of a member what the client has; false if nothing is left.
    fn member(
        &mut self,
        path: String,
        name: &str,
        value: &mut Value,
        (is_new, room): (&mut bool, &mut Room),
    ) -> Result<bool, Differs> {
        match value {
            Value::Null => Ok(true),
            Value::Number(_) if name == "index" => Ok(true),
            Value::Bool(_) | Value::Number(_) => Err(Differs),
            Value::String(text) if text.is_empty() => Ok(true),
            Value::String(text) => {
                let known = match self.members.get_mut(&path) {
                    Some(known) => known,
                    None => {
                        room.take(path.len() + MEMBER)?;
                        self.members.entry(path).or_insert(Member::new(name))
                    }
                };
                let was_missing = known.is_missing();
                let new = known.take(text, room)?;
                self.missing -= usize::from(was_missing && !known.is_missing());
                *is_new |= !new.is_empty();
                *text = new;
                Ok(!text.is_empty())
            }
            Value::Object(members) => {
                let was_empty = members.is_empty();
                self.object(&path, members, (is_new, room))?;
                Ok(was_empty || !members.is_empty())
            }
            Value::Array(elements) => {
                let was_empty = elements.is_empty();
                let mut left = Vec::with_capacity(elements.len());
                for mut element in std::mem::take(elements) {
                    // Without an index nobody knows which ones belong together.
                    let members = element.as_object_mut().ok_or(Differs)?;
                    let index = members.get("index").and_then(Value::as_u64).ok_or(Differs)?;
                    self.object(&format!("{path}[{index}]"), members, (&mut *is_new, &mut *room))?;
                    if members.len() > 1 {
                        left.push(element);
                    }
                }
                *elements = left;
                Ok(was_empty || !elements.is_empty())
            }
        }
    }

    fn object(
        &mut self,
        path: &str,
        members: &mut Map<String, Value>,
        (is_new, room): (&mut bool, &mut Room),
    ) -> Result<(), Differs> {
        let mut result = Ok(());
        members.retain(|name, value| {
            if result.is_err() {
                return true;
            }
            let left = self.member(format!("{path}.{name}"), name, value, (&mut *is_new, &mut *room));
            result = left.map(|_| ());
            left.unwrap_or(true)
        });
        result
    }
}

impl Member {
    /// Of which the client has nothing yet.
    fn new(name: &str) -> Self {
        match name {
            "id" => Member::Id { is_known: false, was_repeated: true },
            "role" | "type" => Member::Fixed { value: String::new(), was_repeated: true },
            _ => Member::Text(Text::default()),
        }
    }

    /// Takes a part that is not empty; returns what of it the client does not have.
    fn take(&mut self, part: &str, room: &mut Room) -> Result<String, Differs> {
        let is_new = match self {
            Member::Text(text) => return text.take(part, room).map(str::to_owned),
            Member::Fixed { value, was_repeated } => {
                *was_repeated = true;
                let is_new = value.is_empty();
                if is_new {
                    room.take(part.len())?;
                    part.clone_into(value);
                }
                if value != part {
                    return Err(Differs);
                }
                is_new
            }
            Member::Id { is_known, was_repeated } => {
                *was_repeated = true;
                !std::mem::replace(is_known, true)
            }
        };
        Ok(if is_new { part.to_owned() } else { String::new() })
    }

    /// Whether the response on its way has yet to repeat it.
    fn is_missing(&self) -> bool {
        match self {
            Member::Text(text) => !text.has_caught_up(),
            Member::Fixed { was_repeated, .. } | Member::Id { was_repeated, .. } => !was_repeated,
        }
    }

    /// Another response begins, with what comes behind this.
    fn restart_behind(&mut self) {
        match self {
            Member::Text(text) => text.restart_behind(),
            Member::Fixed { was_repeated, .. } | Member::Id { was_repeated, .. } => *was_repeated = true,
        }
    }

    /// Another response begins; whether it has something to repeat.
    fn restart(&mut self) -> bool {
        match self {
            Member::Text(text) => text.restart(),
            Member::Fixed { was_repeated, .. } | Member::Id { was_repeated, .. } => {
                *was_repeated = false;
                true
            }
        }
    }
}
