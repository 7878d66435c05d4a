//! Translation between APIs, where a candidate speaks another one than the client.
//!
//! What cannot be translated is refused and named ([`Refused`]). Hints that change no meaning are left out and named
//! ([`Translated::dropped`]). Nothing is dropped in silence.

mod chat;
mod chat_stream;
mod chat_to_messages;
mod gemini;
mod member_order;
mod messages_stream;
mod messages_to_chat;
mod response;

pub use chat_stream::ChatToMessagesStream;
pub use chat_to_messages::chat_to_messages;
pub use gemini::{
    CallIds, ChatToGeminiStream, GeminiToChatStream, GeminiToMessagesStream, MessagesToGeminiStream,
    chat_response_to_gemini, chat_to_gemini, gemini_response_to_chat, gemini_response_to_message, gemini_to_chat,
    gemini_to_messages, message_response_to_gemini, messages_to_gemini,
};
pub use member_order::to_text;
pub use messages_stream::MessagesToChatStream;
pub use messages_to_chat::messages_to_chat;
pub use response::{chat_response_to_message, message_response_to_chat};

use serde_json::{Map, Value};
use std::fmt;

/// A request in another API.
#[derive(Debug, Clone, PartialEq)]
pub struct Translated {
    /// The body.
    pub body: Value,
    /// Hints that were left out, for `X-Weir-Dropped`.
    pub dropped: Vec<String>,
}

/// A request that the other API cannot express: 400.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The member: `messages[2].role`.
    pub member: String,
    /// Why.
    pub reason: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' cannot be translated for this model: {}", self.member, self.reason)
    }
}

impl std::error::Error for Refused {}

/// A response that has no meaning in the other API: a fault of the candidate (F15, F17).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untranslatable;

impl fmt::Display for Untranslatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the provider's response cannot be translated")
    }
}

impl std::error::Error for Untranslatable {}

/// Translates the events of one stream, one by one.
pub trait Translator {
    /// What was left out so far.
    fn dropped(&self) -> &[String];

    /// Appends what the client gets for a whole event: events, comments or nothing. Errors are events of their own kind and never come here.
    ///
    /// # Errors
    /// The event has no meaning for the client: the stream has failed.
    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable>;

    /// Appends the end of a stream that is complete. `missing`: the event of the provider's API that ends streams, where it was not sent
    /// ([`crate::stream::Outcome::Complete`]); else nothing.
    ///
    /// # Errors
    /// There was no end reason: the stream has failed.
    fn finish(&mut self, missing: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        self.event(missing, out)
    }
}

const NO_EQUIVALENT: &str = "the provider's API has no equivalent";
const UNKNOWN: &str = "the member is not known";
const WRONG_TYPE: &str = "the value has the wrong type";

fn refuse<T>(member: impl Into<String>, reason: &'static str) -> Result<T, Refused> {
    Err(Refused { member: member.into(), reason })
}

/// Names what is left out, each once.
fn drop_hint(dropped: &mut Vec<String>, name: &str) {
    if !dropped.iter().any(|known| known == name) {
        dropped.push(name.to_owned());
    }
}

fn object<'a>(value: &'a Value, member: &str) -> Result<&'a Map<String, Value>, Refused> {
    value.as_object().ok_or_else(|| Refused { member: member.into(), reason: WRONG_TYPE })
}

fn array<'a>(value: &'a Value, member: &str) -> Result<&'a Vec<Value>, Refused> {
    value.as_array().ok_or_else(|| Refused { member: member.into(), reason: WRONG_TYPE })
}

fn string<'a>(value: &'a Value, member: &str) -> Result<&'a str, Refused> {
    value.as_str().ok_or_else(|| Refused { member: member.into(), reason: WRONG_TYPE })
}

/// Appends a message; neighbouring messages of one role are joined.
fn push_message(messages: &mut Vec<(String, Vec<Value>)>, role: &str, blocks: Vec<Value>) {
    match messages.last_mut() {
        Some((last, joined)) if last == role => joined.extend(blocks),
        _ => messages.push((role.to_owned(), blocks)),
    }
}

/// The data of a whole event, its lines joined; `None` if it has none.
pub(crate) fn event_data(event: &[u8]) -> Option<Vec<u8>> {
    // The first event of a stream may have a byte order mark.
    let event = event.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(event);
    let lines = event.split(|byte| matches!(byte, b'\n' | b'\r')).filter_map(|line| line.strip_prefix(b"data:"));
    let lines: Vec<&[u8]> = lines.collect();
    (!lines.is_empty()).then(|| lines.join(&b'\n'))
}

#[cfg(test)]
mod tests;
