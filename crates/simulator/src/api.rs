//! What well providers send: whole responses and streams as lists of events.

pub mod anthropic;
pub mod gemini;
pub mod openai;

use serde_json::Value;

/// What an event of a stream is, for faults that happen at some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Before content: role, start, ping.
    Opening,
    /// Text.
    Text,
    /// A piece of a tool call.
    Tool,
    /// An end reason.
    End,
    /// Usage alone.
    Usage,
    /// `[DONE]`, `message_stop`.
    Last,
    /// Another event that belongs to the form.
    Other,
}

/// An event with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is.
    pub kind: Kind,
    /// Its bytes, with the blank line.
    pub text: String,
}

impl Event {
    /// An event with a name.
    pub fn named(kind: Kind, name: &str, data: &Value) -> Self {
        Event { kind, text: format!("event: {name}\ndata: {data}\n\n") }
    }

    /// An event without one.
    pub fn plain(kind: Kind, data: &Value) -> Self {
        Event { kind, text: format!("data: {data}\n\n") }
    }
}

/// What a call gets, whatever its API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The model's name as it is reported.
    pub model: String,
    /// Pieces of text, one per token; empty if a tool is called.
    pub text: Vec<String>,
    /// Name and arguments of the tool that is called.
    pub tool: Option<(String, String)>,
    /// Input tokens that are reported.
    pub input: u64,
    /// The end reason in the words of the API, in place of the usual one.
    pub end_reason: Option<&'static str>,
    /// Whether usage is reported.
    pub usage: bool,
    /// Choices.
    pub choices: u64,
    /// Id of a response of the Responses API.
    pub response_id: String,
}

const WORDS: [&str; 8] = ["The ", "quick ", "brown ", "fox ", "jumps ", "over ", "lazy ", "dögs. "];

impl Content {
    /// The content for a request. `tool`: the name of the first tool that the request offers and has no result of.
    pub fn new(model: &str, request: &Value, tokens: u64, tool: Option<String>, json: bool) -> Self {
        let text = match (&tool, json) {
            (Some(_), _) => Vec::new(),
            (None, true) => vec!["{\"city\":".into(), "\"Paris\"}".into()],
            (None, false) => (0..tokens).map(|i| WORDS[i as usize % WORDS.len()].to_owned()).collect(),
        };
        let tool = tool.map(|name| (name, "{\"city\":\"Paris\"}".to_owned()));
        Content {
            model: model.into(),
            text,
            tool,
            input: 1 + text_bytes(request) / 4,
            end_reason: None,
            usage: true,
            choices: 1,
            response_id: "resp_sim".into(),
        }
    }

    /// Output tokens that are reported.
    pub fn output(&self) -> u64 {
        self.choices * (self.text.len() as u64 + if self.tool.is_some() { 6 } else { 0 })
    }
}

/// Bytes of all strings of a request.
fn text_bytes(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(members) => members.values().map(text_bytes).sum(),
        _ => 0,
    }
}
