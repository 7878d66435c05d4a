//! Reads one response body, or the data of one event, fed in any split.

use std::borrow::Cow;

use super::node::Node;
use super::{EndReason, Usage};
use crate::Api;
use crate::api::{Family, LONGEST_ID};
use crate::json::{JsonError, Lexer, Token, TokenKind, unescape_into};

/// Deeper places are not read.
const DEPTH: usize = 12;
/// Bytes stored of one string.
const KEPT: usize = 512;

/// An error that a provider reports in a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamError {
    /// `code` as text, a number or a name.
    pub code: String,
    /// `type`, or Gemini's `status`.
    pub kind: String,
    /// The start of the message, for patterns; it may quote the prompt, so it is never logged.
    pub message: String,
}

/// What a body or an event says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// There was JSON.
    pub json: bool,
    /// The data is neither JSON nor `[DONE]`.
    pub malformed: bool,
    /// `[DONE]`, `message_stop`, or a last event of the Responses API.
    pub done: bool,
    /// Text, reasoning, a refusal, a tool call, audio or an end reason.
    pub content: bool,
    /// A tool call or a part of one.
    pub tool_call: bool,
    /// One bit a choice that occurs.
    pub choices: u128,
    /// One bit a choice with an end reason.
    pub ended: u128,
    /// The last end reason.
    pub end_reason: Option<EndReason>,
    /// `choices` is there and empty.
    pub no_choices: bool,
    /// Counts that it reports.
    pub usage: Usage,
    /// An error that it reports.
    pub error: Option<UpstreamError>,
    /// Id of a response of the Responses API.
    pub response_id: Option<Box<str>>,
    /// A response of the Responses API that its provider works on: `queued` or `in_progress`.
    pub pending: bool,
}

impl Facts {
    /// The chunk that `include_usage` adds to a stream, and no other: usage, and no choices.
    pub fn is_usage_chunk(&self) -> bool {
        self.no_choices && !self.usage.is_empty() && self.error.is_none()
    }

    /// The prompt is refused: Gemini's `promptFeedback.blockReason`, which ends all choices and has none.
    pub fn refuses_prompt(&self) -> bool {
        self.ended == u128::MAX && self.choices == 0
    }
}

/// Reads JSON of one API with constant memory.
#[derive(Debug)]
pub struct ResponseReader {
    api: Api,
    lexer: Lexer,
    failed: bool,
    /// The node of each open container, and whether it is an object.
    open: [(Node, bool); DEPTH],
    /// The node of the member whose name was read last.
    member: Node,
    key: Vec<u8>,
    text: Vec<u8>,
    /// `type`, kept until the end of the body.
    event_type: Vec<u8>,
    /// The choice that is being read: its index, and whether it ended.
    index: u64,
    ended: bool,
    /// Items of `choices`.
    items: u32,
    choices_seen: bool,
    /// A string of content with at least one byte was read.
    text_seen: bool,
    message: String,
    code: String,
    facts: Facts,
}

impl ResponseReader {
    /// For bodies and events of this API.
    pub fn new(api: Api) -> Self {
        ResponseReader {
            api,
            lexer: Lexer::new(),
            failed: false,
            open: [(Node::Other, false); DEPTH],
            member: Node::Other,
            key: Vec::new(),
            text: Vec::new(),
            event_type: Vec::new(),
            index: 0,
            ended: false,
            items: 0,
            choices_seen: false,
            text_seen: false,
            message: String::new(),
            code: String::new(),
            facts: Facts::default(),
        }
    }

    /// Forgets what was read; the buffers stay.
    pub fn reset(&mut self) {
        self.lexer = Lexer::new();
        self.failed = false;
        self.member = Node::Other;
        self.key.clear();
        self.text.clear();
        self.event_type.clear();
        self.index = 0;
        self.ended = false;
        self.items = 0;
        self.choices_seen = false;
        self.text_seen = false;
        self.message.clear();
        self.code.clear();
        self.facts = Facts::default();
    }

    /// The id of the response, as soon as it was read.
    pub fn response_id(&self) -> Option<&str> {
        self.facts.response_id.as_deref()
    }

    /// Reads bytes.
    pub fn read(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while !self.failed {
            let depth = usize::from(self.lexer.depth());
            match self.lexer.next(bytes, &mut at) {
                Ok(Some(token)) => self.token(token, &bytes[token.start..token.end], depth),
                Ok(None) => return,
                Err(JsonError::TrailingBytes | JsonError::Syntax | JsonError::TooDeep | JsonError::Truncated) => {
                    self.failed = true;
                }
            }
        }
    }

    /// The end of the body or event: what it said. The reader is as new.
    pub fn finish(&mut self) -> Facts {
        let mut facts = std::mem::take(&mut self.facts);
        facts.json = true;
        facts.malformed = self.failed || self.lexer.finish().is_err();
        facts.no_choices = self.choices_seen && self.items == 0;
        match (self.api, self.event_type.as_slice()) {
            (Api::Messages, b"message_stop") => facts.done = true,
            (Api::Messages, b"error") if facts.error.is_none() => facts.error = Some(UpstreamError::default()),
            (api, b"error") if api.family() == Family::OpenAi => {
                let error = facts.error.get_or_insert_default();
                if error.code.is_empty() {
                    error.code.clone_from(&self.code);
                }
                if error.message.is_empty() {
                    error.message.clone_from(&self.message);
                }
            }
            (Api::Responses, b"response.failed") => {
                facts.error.get_or_insert_default();
            }
            (Api::Responses, b"response.completed" | b"response.incomplete") => {
                facts.done = true;
                facts.ended |= 1;
                facts.content = true;
                if facts.end_reason.is_none() {
                    let is_whole = self.event_type == b"response.completed";
                    facts.end_reason = Some(if is_whole { EndReason::Stop } else { EndReason::Length });
                }
            }
            (Api::Responses, name) if name.ends_with(b".delta") => facts.content |= self.text_seen,
            // other events repeat what deltas said, or announce it
            (Api::Responses, name) if !name.is_empty() => {}
            _ => facts.content |= self.text_seen,
        }
        if facts.end_reason.is_some() {
            facts.content = true;
        }
        if !self.api.generates_text() {
            // a response without choices and end reasons
            facts.content |= self.api != Api::Embeddings && !facts.malformed && facts.error.is_none();
            facts.ended = u128::from(facts.content);
            facts.choices = facts.ended;
        }
        self.reset();
        facts
    }

    /// `depth`: containers that were open before the token.
    fn token(&mut self, token: Token, bytes: &[u8], depth: usize) {
        let (container, in_object) = match depth {
            0 => (Node::Root, false),
            _ => self.open.get(depth - 1).copied().unwrap_or((Node::Other, true)),
        };
        if let TokenKind::Key(part) = token.kind {
            // Names that come in one piece, nearly all, are not copied.
            let is_whole = part.first && part.last;
            if !is_whole {
                if part.first {
                    self.key.clear();
                }
                keep(&mut self.key, bytes);
            }
            if part.last {
                let name = if is_whole { bytes } else { self.key.as_slice() };
                let name = if part.escaped { plain(name) } else { Cow::Borrowed(name) };
                self.member = if depth > DEPTH { Node::Other } else { container.child(self.api, &name) };
            }
            return;
        }
        let node = match (depth, in_object) {
            (0, _) => Node::Root,
            _ if depth > DEPTH => Node::Other,
            (_, true) => self.member,
            (_, false) => container.item(),
        };
        let is_whole =
            token.kind == TokenKind::ObjectStart || (self.api == Api::Gemini && token.kind == TokenKind::ArrayStart);
        if depth == 0 && !is_whole {
            self.failed = true;
            return;
        }
        match token.kind {
            TokenKind::ObjectStart | TokenKind::ArrayStart => {
                if let Some(slot) = self.open.get_mut(depth) {
                    *slot = (node, token.kind == TokenKind::ObjectStart);
                }
                self.start(node, token.kind == TokenKind::ObjectStart);
            }
            TokenKind::ObjectEnd | TokenKind::ArrayEnd => {
                if depth <= DEPTH && container == Node::Choice && in_object {
                    self.end_choice();
                }
            }
            TokenKind::String(part) => match node {
                Node::Text | Node::ToolCalls | Node::Media => self.filled(node, !bytes.is_empty()),
                Node::Other => {}
                _ if part.first && part.last => self.string(node, &bytes[..bytes.len().min(KEPT)]),
                _ => {
                    if part.first {
                        self.text.clear();
                    }
                    keep(&mut self.text, bytes);
                    if part.last {
                        let text = std::mem::take(&mut self.text);
                        self.string(node, &text);
                        self.text = text;
                    }
                }
            },
            TokenKind::Number(part) if part.first && part.last => self.number(node, bytes),
            TokenKind::Number(part) => {
                if part.first {
                    self.text.clear();
                }
                keep(&mut self.text, bytes);
                // the last fragment is empty if the number ended with the input before
                if part.last {
                    let text = std::mem::take(&mut self.text);
                    self.number(node, &text);
                    self.text = text;
                }
            }
            TokenKind::Bool(_) | TokenKind::Null | TokenKind::Key(_) => {}
        }
    }

    fn start(&mut self, node: Node, object: bool) {
        match (node, object) {
            (Node::Choices, false) => self.choices_seen = true,
            (Node::Choice, true) => {
                self.items += 1;
                self.index = 0;
                self.ended = false;
            }
            (Node::ToolCalls, true) => self.filled(node, true),
            (Node::Media, true) => self.filled(node, true),
            (Node::Error, true) => {
                self.facts.error.get_or_insert_default();
            }
            _ => {}
        }
    }

    fn filled(&mut self, node: Node, not_empty: bool) {
        match node {
            Node::Text => self.text_seen |= not_empty,
            Node::ToolCalls => {
                self.facts.tool_call = true;
                self.facts.content |= not_empty;
            }
            _ => self.facts.content |= not_empty,
        }
    }

    fn end_choice(&mut self) {
        let bit = u32::try_from(self.index).ok().and_then(|index| 1u128.checked_shl(index)).unwrap_or(0);
        self.facts.choices |= bit;
        if self.ended {
            self.facts.ended |= bit;
        }
    }

    fn string(&mut self, node: Node, text: &[u8]) {
        match node {
            Node::EndReason => {
                let reason = EndReason::of(self.api, &plain(text));
                self.facts.end_reason = Some(reason);
                self.ended = true;
                if matches!(self.api, Api::Messages) {
                    self.facts.ended |= 1;
                    self.facts.choices |= 1;
                }
            }
            Node::BlockReason => {
                self.facts.end_reason = Some(EndReason::ContentFilter);
                self.facts.ended = u128::MAX;
            }
            Node::Status => match text {
                b"completed" => {
                    self.facts.end_reason.get_or_insert(EndReason::Stop);
                    self.facts.ended |= 1;
                    self.facts.choices |= 1;
                }
                b"incomplete" => {
                    self.facts.end_reason.get_or_insert(EndReason::Length);
                    self.facts.ended |= 1;
                    self.facts.choices |= 1;
                }
                b"failed" => {
                    self.facts.error.get_or_insert_default();
                }
                b"queued" | b"in_progress" => self.facts.pending = true,
                _ => {}
            },
            Node::ResponseId => {
                // A longer one was cut.
                let id = plain(text);
                let id = std::str::from_utf8(&id).ok().filter(|id| (1..=LONGEST_ID).contains(&id.len()));
                self.facts.response_id = id.map(Box::from);
            }
            Node::Type => {
                self.event_type.clear();
                self.event_type.extend_from_slice(text);
            }
            Node::BlockType => {
                // a text block starts empty, a message or reasoning item too
                let announces = matches!(
                    text,
                    b"text" | b"thinking" | b"message" | b"reasoning" | b"output_text" | b"summary_text"
                );
                self.facts.content |= !announces;
                self.facts.tool_call |= text.ends_with(b"tool_use") || text.ends_with(b"_call");
            }
            Node::Error => {
                let message = lossy(text);
                self.facts.error.get_or_insert_default().message = message;
            }
            Node::ErrorMessage => {
                self.message = lossy(text);
                if let Some(error) = self.facts.error.as_mut() {
                    error.message.clone_from(&self.message);
                }
            }
            Node::ErrorCode => {
                self.code = lossy(text);
                if let Some(error) = self.facts.error.as_mut() {
                    error.code.clone_from(&self.code);
                }
            }
            Node::ErrorType => {
                let kind = lossy(text);
                self.facts.error.get_or_insert_default().kind = kind;
            }
            _ => {}
        }
    }

    fn number(&mut self, node: Node, text: &[u8]) {
        let value = std::str::from_utf8(text).ok().and_then(|text| {
            text.parse()
                .ok()
                .or_else(|| text.parse::<f64>().ok().filter(|value| *value >= 0.0).map(|value| value as u64))
        });
        let Some(value): Option<u64> = value else { return };
        let usage = &mut self.facts.usage;
        match node {
            Node::Index => self.index = value,
            Node::Input => usage.input = Some(value),
            Node::Output => usage.output = Some(value),
            Node::Cached => usage.cached = Some(value),
            Node::CacheWrite => usage.cache_write = Some(value),
            Node::Thoughts => usage.thoughts = Some(value),
            Node::ToolInput => usage.tool_input = Some(value),
            Node::Media => self.facts.content = true,
            Node::ErrorCode => {
                self.code = value.to_string();
                if let Some(error) = self.facts.error.as_mut() {
                    error.code.clone_from(&self.code);
                }
            }
            _ => {}
        }
    }
}

fn keep(buffer: &mut Vec<u8>, bytes: &[u8]) {
    let room = KEPT.saturating_sub(buffer.len());
    buffer.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

/// The bytes of a raw string; of one that has invalid escapes, or was cut in one, those before it.
fn plain(raw: &[u8]) -> Cow<'_, [u8]> {
    if !raw.contains(&b'\\') {
        return Cow::Borrowed(raw);
    }
    let mut text = Vec::with_capacity(raw.len());
    let _ = unescape_into(raw, &mut text);
    Cow::Owned(text)
}

/// The text of a raw string that may have been cut.
fn lossy(raw: &[u8]) -> String {
    String::from_utf8_lossy(&plain(raw)).into_owned()
}
