//! Chunks of OpenAI's chat and completions.

use super::text::Text;
use super::{Differs, New};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Chat {
    /// Of the response that the client began with.
    id: Option<Value>,
    choices: BTreeMap<u64, Choice>,
}

#[derive(Debug, Default)]
struct Choice {
    /// By path, such as `delta.tool_calls[0].function.arguments`.
    members: BTreeMap<String, Member>,
    end: Option<String>,
    /// The response on its way has reached the end.
    has_ended: bool,
}

#[derive(Debug)]
enum Member {
    /// Its parts are joined.
    Text(Text),
    /// It is the same wherever it stands.
    Fixed(String),
    /// Made by the provider at random.
    Id,
}

/// What was found in a choice of one chunk.
#[derive(Debug, Default)]
struct Seen {
    is_new: bool,
    /// Part of a text is what the client has.
    is_cut: bool,
}

impl Chat {
    /// Takes out of a chunk what the client has.
    pub(super) fn take(&mut self, chunk: &mut Value) -> Result<New, Differs> {
        let had_caught_up = self.has_caught_up();
        let chunk = chunk.as_object_mut().ok_or(Differs)?;
        match (&self.id, chunk.get_mut("id")) {
            (None, Some(id)) => self.id = Some(id.clone()),
            (Some(first), Some(id)) => *id = first.clone(),
            (_, None) => {}
        }
        let has_usage = chunk.get("usage").is_some_and(Value::is_object);
        let Some(Value::Array(choices)) = chunk.get_mut("choices").filter(|choices| **choices != Value::Array(vec![]))
        else {
            return Ok(if has_usage || had_caught_up { New::Whole } else { New::Nothing });
        };
        let mut new = New::Whole;
        let mut left = Vec::with_capacity(choices.len());
        for mut choice in std::mem::take(choices) {
            let members = choice.as_object_mut().ok_or(Differs)?;
            let index = members.get("index").and_then(Value::as_u64).unwrap_or(0);
            let seen = self.choices.entry(index).or_default().take(members)?;
            if seen.is_cut || !seen.is_new {
                new = New::Part;
            }
            if seen.is_new || had_caught_up {
                left.push(choice);
            }
        }
        *choices = left;
        Ok(if choices.is_empty() { New::Nothing } else { new })
    }

    pub(super) fn restart(&mut self) {
        for choice in self.choices.values_mut() {
            choice.has_ended = false;
            choice.texts().for_each(Text::restart);
        }
    }

    pub(super) fn has_caught_up(&self) -> bool {
        self.choices.values().all(|choice| choice.has_texts() && choice.has_ended == choice.end.is_some())
    }
}

impl Choice {
    fn take(&mut self, choice: &mut Map<String, Value>) -> Result<Seen, Differs> {
        let mut seen = Seen::default();
        for name in ["delta", "text"] {
            if let Some(value) = choice.get_mut(name)
                && !self.member(name.to_owned(), name, value, &mut seen)?
            {
                *value = if name == "text" { Value::String(String::new()) } else { Value::Object(Map::new()) };
            }
        }
        // Nothing comes behind the end.
        if seen.is_new && self.end.is_some() {
            return Err(Differs);
        }
        // Probabilities are those of all tokens of the chunk.
        if seen.is_new && seen.is_cut && choice.get("logprobs").is_some_and(|value| !value.is_null()) {
            return Err(Differs);
        }
        if let Some(Value::String(end)) = choice.get_mut("finish_reason") {
            match &self.end {
                _ if !self.has_texts() => return Err(Differs),
                Some(known) if known != end => return Err(Differs),
                Some(_) => {}
                None => {
                    self.end = Some(end.clone());
                    seen.is_new = true;
                }
            }
            self.has_ended = true;
        }
        Ok(seen)
    }

    /// Takes out of a member what the client has; false if nothing is left.
    fn member(&mut self, path: String, name: &str, value: &mut Value, seen: &mut Seen) -> Result<bool, Differs> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(true),
            Value::String(text) if name == "id" => {
                let is_known = text.is_empty() || self.members.insert(path, Member::Id).is_some();
                seen.is_new |= !is_known;
                Ok(!is_known)
            }
            Value::String(text) if matches!(name, "role" | "type") => match self.members.get(&path) {
                Some(Member::Fixed(known)) if known == text => Ok(false),
                Some(_) => Err(Differs),
                None => {
                    self.members.insert(path, Member::Fixed(text.clone()));
                    seen.is_new = true;
                    Ok(true)
                }
            },
            Value::String(text) => {
                let member = self.members.entry(path).or_insert_with(|| Member::Text(Text::default()));
                let Member::Text(known) = member else { return Err(Differs) };
                let new = known.take(text)?;
                seen.is_cut |= new.len() < text.len();
                seen.is_new |= !new.is_empty();
                let is_left = !new.is_empty() || text.is_empty();
                *text = new.to_owned();
                Ok(is_left)
            }
            Value::Object(members) => {
                let was_empty = members.is_empty();
                self.object(&path, members, seen)?;
                Ok(was_empty || !members.is_empty())
            }
            Value::Array(elements) => {
                let was_empty = elements.is_empty();
                let mut left = Vec::with_capacity(elements.len());
                for mut element in std::mem::take(elements) {
                    // Without an index nobody knows which ones belong together.
                    let members = element.as_object_mut().ok_or(Differs)?;
                    let index = members.get("index").and_then(Value::as_u64).ok_or(Differs)?;
                    self.object(&format!("{path}[{index}]"), members, seen)?;
                    if members.len() > 1 {
                        left.push(element);
                    }
                }
                *elements = left;
                Ok(was_empty || !elements.is_empty())
            }
        }
    }

    fn object(&mut self, path: &str, members: &mut Map<String, Value>, seen: &mut Seen) -> Result<(), Differs> {
        let mut result = Ok(());
        members.retain(|name, value| {
            if result.is_err() {
                return true;
            }
            let left = self.member(format!("{path}.{name}"), name, value, seen);
            result = left.map(|_| ());
            left.unwrap_or(true)
        });
        result
    }

    fn texts(&mut self) -> impl Iterator<Item = &mut Text> {
        self.members.values_mut().filter_map(|member| match member {
            Member::Text(text) => Some(text),
            Member::Fixed(_) | Member::Id => None,
        })
    }

    /// Whether all texts were repeated.
    fn has_texts(&self) -> bool {
        self.members.values().all(|member| !matches!(member, Member::Text(text) if !text.has_caught_up()))
    }
}
