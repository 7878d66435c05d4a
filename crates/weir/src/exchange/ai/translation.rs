//! Calls at candidates that speak another API than the client.

use llm::Api;
use llm::api::Family;
use llm::request::Member;
use llm::translate::{
    ChatToMessagesStream, MessagesToChatStream, Refused, Untranslatable, chat_response_to_message, chat_to_messages,
    message_response_to_chat, messages_to_chat, to_text,
};
use serde_json::Value;

use super::Call;
use super::response::Response;
use crate::config::Candidate;
use crate::runtime::clock;

/// The API that a provider of a family is spoken to in; `None` if there is no translation.
pub(super) fn egress(api: Api, family: Family) -> Option<Api> {
    match (api, family) {
        (api, family) if api.family() == family => Some(api),
        (Api::Chat, Family::Anthropic) => Some(Api::Messages),
        (Api::Messages, Family::OpenAi) => Some(Api::Chat),
        _ => None,
    }
}

/// The request in the API of a candidate, and the hints that were left out.
///
/// # Errors
/// A member that has no equivalent there.
pub(super) fn request(call: &Call<'_>, candidate: &Candidate) -> Result<(Vec<u8>, Vec<String>), Refused> {
    // The scanner has read it, so it is JSON.
    let body: Value = serde_json::from_slice(call.body).unwrap_or(Value::Null);
    let translated = match call.api {
        Api::Chat => chat_to_messages(&body, &candidate.model, candidate.max_output)?,
        _ => messages_to_chat(&body, &candidate.model)?,
    };
    Ok((to_text(&translated.body, call.body), translated.dropped))
}

/// A whole response in the client's API.
///
/// # Errors
/// It has no meaning there.
pub(super) fn response(ingress: Api, egress: Api, response: Response) -> Result<Response, Untranslatable> {
    let body: Value = serde_json::from_slice(&response.body).map_err(|_| Untranslatable)?;
    let (body, dropped) = match (ingress, egress) {
        (Api::Chat, _) => message_response_to_chat(&body, clock::unix_ms() / 1000)?,
        _ => chat_response_to_message(&body)?,
    };
    let mut lines = Vec::new();
    h1::encode::field(&mut lines, b"Content-Type", b"application/json");
    if !dropped.is_empty() {
        h1::encode::field(&mut lines, b"X-Weir-Dropped", dropped.join(", ").as_bytes());
    }
    Ok(Response { status: response.status, lines, body: body.to_string().into_bytes() })
}

/// Translates the events of one stream.
pub(super) struct StreamTranslation {
    to: To,
    /// Pieces of an event that is not at its end.
    event: Vec<u8>,
}

enum To {
    Chat(MessagesToChatStream),
    Messages(ChatToMessagesStream),
}

impl StreamTranslation {
    /// For the response to this call.
    pub(super) fn new(call: &Call<'_>) -> Self {
        let to = match call.api {
            Api::Chat => {
                let wants_usage = call.scan.is_true(Member::IncludeUsage, call.body);
                To::Chat(MessagesToChatStream::new(clock::unix_ms() / 1000, wants_usage))
            }
            _ => To::Messages(ChatToMessagesStream::new(call.estimate)),
        };
        StreamTranslation { to, event: Vec::new() }
    }

    /// What was left out so far.
    pub(super) fn dropped(&self) -> &[String] {
        match &self.to {
            To::Chat(stream) => stream.dropped(),
            To::Messages(stream) => stream.dropped(),
        }
    }

    /// Takes bytes of an event, `last` with its end; what the client gets is appended to `out`.
    ///
    /// # Errors
    /// The event has no meaning in the client's API.
    pub(super) fn piece(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        if last && self.event.is_empty() {
            return self.event(bytes, out);
        }
        self.event.extend_from_slice(bytes);
        if !last {
            return Ok(());
        }
        let event = std::mem::take(&mut self.event);
        self.event(&event, out)
    }

    /// Takes a whole event.
    ///
    /// # Errors
    /// It has no meaning in the client's API.
    pub(super) fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        match &mut self.to {
            To::Chat(stream) => stream.event(event, out),
            To::Messages(stream) => stream.event(event, out),
        }
    }
}
