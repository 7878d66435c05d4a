//! Calls at candidates that speak another API than the client.

use llm::Api;
use llm::api::{Family, GeminiMethod};
use llm::request::Member;
use llm::translate::{
    CallIds, ChatToGeminiStream, ChatToMessagesStream, GeminiToChatStream, GeminiToMessagesStream,
    MessagesToChatStream, MessagesToGeminiStream, Refused, Translator, Untranslatable, chat_response_to_gemini,
    chat_response_to_message, chat_to_gemini, chat_to_messages, gemini_response_to_chat, gemini_response_to_message,
    gemini_to_chat, gemini_to_messages, message_response_to_chat, message_response_to_gemini, messages_to_chat,
    messages_to_gemini, to_text,
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
        (Api::Messages | Api::Gemini, Family::OpenAi) => Some(Api::Chat),
        (Api::Gemini, Family::Anthropic) => Some(Api::Messages),
        (Api::Chat | Api::Messages, Family::Gemini) => Some(Api::Gemini),
        _ => None,
    }
}

/// The request in the API of a candidate, and the hints that were left out.
///
/// # Errors
/// A member that has no equivalent there.
pub(super) fn request(call: &Call<'_>, egress: Api, candidate: &Candidate) -> Result<(Vec<u8>, Vec<String>), Refused> {
    let only_same = |member: &str, reason| Err(Refused { member: member.to_owned(), reason });
    if call.counts {
        return only_same("messages", "tokens are counted by providers with the API of the request only");
    }
    match call.method {
        Some(GeminiMethod::Stream) if !call.streams => {
            return only_same("streamGenerateContent", "an array is not translated; use `alt=sse`");
        }
        _ => {}
    }
    // The scanner has read it, so it is JSON.
    let body: Value = serde_json::from_slice(call.body).unwrap_or(Value::Null);
    let translated = match (call.api, egress) {
        (Api::Chat, Api::Gemini) => chat_to_gemini(&body, &candidate.model)?,
        (Api::Chat, _) => chat_to_messages(&body, &candidate.model, candidate.max_output)?,
        (Api::Gemini, Api::Messages) => {
            gemini_to_messages(&body, &candidate.model, call.streams, candidate.max_output)?
        }
        (Api::Gemini, _) => gemini_to_chat(&body, &candidate.model, call.streams)?,
        (_, Api::Gemini) => messages_to_gemini(&body, &candidate.model)?,
        _ => messages_to_chat(&body, &candidate.model)?,
    };
    Ok((to_text(&translated.body, call.body), translated.dropped))
}

/// A whole response in the client's API. `random`: for ids that the provider leaves out.
///
/// # Errors
/// It has no meaning there.
pub(super) fn response(ingress: Api, egress: Api, response: Response, random: u64) -> Result<Response, Untranslatable> {
    let body: Value = serde_json::from_slice(&response.body).map_err(|_| Untranslatable)?;
    let (created, mut ids) = (clock::unix_ms() / 1000, CallIds::new(random));
    let (body, dropped) = match (ingress, egress) {
        (Api::Chat, Api::Gemini) => gemini_response_to_chat(&body, created, &mut ids)?,
        (Api::Chat, _) => message_response_to_chat(&body, created)?,
        (Api::Gemini, Api::Messages) => message_response_to_gemini(&body)?,
        (Api::Gemini, _) => chat_response_to_gemini(&body)?,
        (_, Api::Gemini) => gemini_response_to_message(&body, &mut ids)?,
        _ => chat_response_to_message(&body)?,
    };
    let mut lines = Vec::new();
    h1::encode::field(&mut lines, b"Content-Type", b"application/json");
    if !dropped.is_empty() {
        h1::encode::field(&mut lines, b"X-Weir-Dropped", dropped.join(", ").as_bytes());
    }
    Ok(Response { status: response.status, lines, body: body.to_string().into_bytes() })
}

/// Translates the events of one stream, which come in pieces.
pub(super) struct StreamTranslation {
    to: Box<dyn Translator>,
    /// Pieces of an event that is not at its end.
    event: Vec<u8>,
}

impl StreamTranslation {
    /// For the response to this call. `random`: for ids that the provider leaves out.
    pub(super) fn new(call: &Call<'_>, egress: Api, random: u64) -> Self {
        let (created, ids) = (clock::unix_ms() / 1000, CallIds::new(random));
        let wants_usage = call.scan.is_true(Member::IncludeUsage, call.body);
        let to: Box<dyn Translator> = match (call.api, egress) {
            (Api::Chat, Api::Gemini) => Box::new(GeminiToChatStream::new(created, wants_usage, ids)),
            (Api::Chat, _) => Box::new(MessagesToChatStream::new(created, wants_usage)),
            (Api::Gemini, Api::Messages) => Box::new(MessagesToGeminiStream::new()),
            (Api::Gemini, _) => Box::new(ChatToGeminiStream::new()),
            (_, Api::Gemini) => Box::new(GeminiToMessagesStream::new(call.estimate, ids)),
            _ => Box::new(ChatToMessagesStream::new(call.estimate)),
        };
        StreamTranslation { to, event: Vec::new() }
    }

    /// What was left out so far.
    pub(super) fn dropped(&self) -> &[String] {
        self.to.dropped()
    }

    /// Takes bytes of an event, `last` with its end; what the client gets is appended to `out`.
    ///
    /// # Errors
    /// The event has no meaning in the client's API.
    pub(super) fn piece(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        if last && self.event.is_empty() {
            return self.to.event(bytes, out);
        }
        self.event.extend_from_slice(bytes);
        if !last {
            return Ok(());
        }
        let event = std::mem::take(&mut self.event);
        self.to.event(&event, out)
    }

    /// Ends a stream that is complete. `missing`: the event of the provider's API that ends streams, if it was not sent.
    ///
    /// # Errors
    /// It has no meaning in the client's API.
    pub(super) fn finish(&mut self, missing: &[u8], out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        self.to.finish(missing, out)
    }
}
