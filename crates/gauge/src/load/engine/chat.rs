//! What is seen of a chat call's response while it arrives (OpenAI's chat API): the first content, the times between contents, how it ends.
//!
//! A response is complete when every choice has an end reason and the HTTP body ends properly. `[DONE]` alone proves nothing: some servers send
//! it behind an error.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::clock;

/// Most bytes of an event or of a whole response that are read; a larger one is invalid.
const MOST: usize = 16 * 1024 * 1024;

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    /// An error instead of content, or behind it; also what is not an event of the API.
    ErrorEvent,
    /// No end reason, or a body that was cut.
    Cut,
}

/// The response of one call.
#[derive(Debug)]
pub(crate) struct Chat {
    stream: bool,
    /// The line that has not ended; of a whole response all of it.
    line: Vec<u8>,
    /// The `data` of the event that has not ended.
    event: Vec<u8>,
    /// When the first content came, and the last; 0: none came.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Between one content and the next, nanoseconds.
    pub(crate) gaps: Vec<u64>,
    /// Events with content.
    pub(crate) contents: u64,
    /// What the server counted.
    pub(crate) output_tokens: Option<u64>,
    /// By choice: whether it has an end reason.
    ended: Vec<bool>,
    error: bool,
}

impl Chat {
    pub(crate) fn new(stream: bool) -> Self {
        Chat {
            stream,
            line: Vec::new(),
            event: Vec::new(),
            first: 0,
            last: 0,
            gaps: Vec::new(),
            contents: 0,
            output_tokens: None,
            ended: Vec::new(),
            error: false,
        }
    }

    /// Ready for the next response; what was allocated stays.
    pub(crate) fn reset(&mut self) {
        self.line.clear();
        self.event.clear();
        self.gaps.clear();
        self.ended.clear();
        (self.first, self.last, self.contents, self.output_tokens, self.error) = (0, 0, 0, None, false);
    }

    /// Bytes of the body, in order.
    pub(crate) fn data(&mut self, bytes: &[u8]) {
        self.data_at(bytes, clock::now());
    }

    fn data_at(&mut self, bytes: &[u8], now: u64) {
        if self.line.len() + self.event.len() + bytes.len() > MOST {
            self.error = true;
        }
        if self.error {
            return;
        }
        if !self.stream {
            self.line.extend_from_slice(bytes);
            return;
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            self.end_line(now);
        }
        self.line.extend_from_slice(rest);
    }

    fn end_line(&mut self, now: u64) {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if !event.is_empty() && event != b"[DONE]" {
                self.take(&event, now);
            }
            self.event = event;
            self.event.clear();
        } else if let Some(data) = line.strip_prefix(b"data:") {
            if !self.event.is_empty() {
                self.event.push(b'\n');
            }
            self.event.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        } else if line.starts_with(b"{") {
            // A whole response in place of a stream: no field of an event begins so.
            self.error = true;
        }
        self.line.clear();
    }

    /// A chunk of a stream, or a whole response.
    fn take(&mut self, json: &[u8], now: u64) {
        let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(json) else {
            self.error = true;
            return;
        };
        self.error |= chunk.error.is_some();
        if let Some(usage) = chunk.usage {
            self.output_tokens = Some(usage.completion_tokens);
        }
        let mut content = false;
        for choice in chunk.choices.unwrap_or_default() {
            content |= [&choice.delta, &choice.message].into_iter().flatten().any(Message::has_content);
            if choice.index >= MOST_CHOICES {
                self.error = true;
                return;
            }
            if self.ended.len() <= choice.index {
                self.ended.resize(choice.index + 1, false);
            }
            self.ended[choice.index] |= choice.finish_reason.is_some();
        }
        // A whole response says nothing of when its tokens came.
        if content && self.stream {
            if self.first == 0 {
                self.first = now;
            } else {
                self.gaps.push(now.saturating_sub(self.last));
            }
            self.last = now;
            self.contents += 1;
        }
    }

    /// The response is over: its body ended properly, or it was cut.
    pub(crate) fn end(&mut self, properly: bool) -> End {
        if !self.stream && properly {
            let whole = std::mem::take(&mut self.line);
            self.take(&whole, clock::now());
        }
        self.error |= self.stream && self.line.starts_with(b"{");
        if self.error {
            End::ErrorEvent
        } else if properly && !self.ended.is_empty() && self.ended.iter().all(|ended| *ended) {
            End::Complete
        } else {
            End::Cut
        }
    }
}

/// Choices of a call: `n` is 128 at most in the API.
const MOST_CHOICES: usize = 128;

#[derive(Deserialize)]
struct Chunk<'j> {
    error: Option<IgnoredAny>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'j>>>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    completion_tokens: u64,
}

#[derive(Deserialize)]
struct Choice<'j> {
    #[serde(default)]
    index: usize,
    #[serde(borrow)]
    delta: Option<Message<'j>>,
    #[serde(borrow)]
    message: Option<Message<'j>>,
    finish_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Message<'j> {
    #[serde(borrow)]
    content: Option<Cow<'j, str>>,
    #[serde(borrow)]
    reasoning: Option<Cow<'j, str>>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'j, str>>,
    #[serde(borrow)]
    refusal: Option<Cow<'j, str>>,
    tool_calls: Option<Vec<IgnoredAny>>,
}

impl Message<'_> {
    fn has_content(&self) -> bool {
        let texts = [&self.content, &self.reasoning, &self.reasoning_content, &self.refusal];
        texts.into_iter().flatten().any(|text| !text.is_empty())
            || self.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
    }
}

#[cfg(test)]
mod tests;
