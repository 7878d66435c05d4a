//! The chat completions of OpenAI's API: what is requested, and the bytes of the response.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::refusal::Refusal;
use super::settings::Settings;
use super::tokens::{Crc32, Draws};

/// Always: equal requests have equal responses.
pub(super) const CREATED: u64 = 1_735_689_600;

/// Members of an object, each as its text: what is wrong with one must not hide which one it is. The last of several of
/// one name counts.
pub(super) type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// A request, checked.
#[derive(Debug)]
pub(super) struct Chat {
    model: String,
    /// Of roles and texts.
    crc: Crc32,
    text_bytes: u64,
    pub(super) stream: bool,
    with_usage: bool,
    max_tokens: Option<u64>,
}

impl Chat {
    /// Reads the body; a refusal names the first wrong member, in the order below.
    pub(super) fn parse(body: &str) -> Result<Chat, Refusal> {
        let members: Members<'_> =
            serde_json::from_str(body).map_err(|_| Refusal::bad_body(None, "must be a JSON object"))?;
        let bad = |param, wanted| move || Refusal::bad_body(Some(param), wanted);

        let model = members.get("model").and_then(|raw| parsed::<String>(raw)).filter(|model| !model.is_empty());
        let model = model.ok_or_else(bad("model", "must be a non-empty string"))?;
        let messages = members.get("messages").and_then(|raw| parsed::<Vec<Members<'_>>>(raw));
        let (crc, text_bytes) = messages
            .filter(|messages| !messages.is_empty())
            .and_then(|messages| read_messages(&messages))
            .ok_or_else(bad("messages", "must be a non-empty array of messages with a role and a content"))?;
        let stream = optional::<bool>(&members, "stream").ok_or_else(bad("stream", "must be a boolean"))?;
        let with_usage = match optional::<Members<'_>>(&members, "stream_options") {
            Some(None) => Some(None),
            Some(Some(options)) => {
                optional::<bool>(&options, "include_usage").map(|usage| Some(usage.unwrap_or(false)))
            }
            None => None,
        };
        let with_usage = with_usage.ok_or_else(bad("stream_options", "must be an object"))?;
        let count = |param| optional_count(&members, param).ok_or_else(bad(param, "must be a whole number from 1"));
        let (newer, older) = (count("max_completion_tokens")?, count("max_tokens")?);
        if optional_count(&members, "n").is_none_or(|n| n.is_some_and(|n| n != 1)) {
            return Err(bad("n", "must be 1")());
        }
        let stream = stream.unwrap_or(false);
        if with_usage.is_some() && !stream {
            return Err(bad("stream_options", "is only allowed with stream")());
        }
        let with_usage = with_usage.unwrap_or(false);
        Ok(Chat { model, crc, text_bytes, stream, with_usage, max_tokens: newer.or(older) })
    }
}

fn parsed<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// `Some(None)` where the member is absent or null, `None` where it is wrong.
fn optional<'a, T: Deserialize<'a>>(members: &Members<'a>, name: &str) -> Option<Option<T>> {
    members.get(name).map_or(Some(None), |raw| parsed(raw))
}

/// A whole number from 1; 3.0 is one in JSON. Large ones are as good as any: the least of two counts is taken.
fn optional_count(members: &Members<'_>, name: &str) -> Option<Option<u64>> {
    let Some(number) = optional::<serde_json::Number>(members, name)? else { return Some(None) };
    let count = number.as_u64().or_else(|| number.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as u64))?;
    (count >= 1).then_some(Some(count))
}

/// Roles and texts, each with a zero byte behind it, and the bytes of the texts alone.
fn read_messages(messages: &[Members<'_>]) -> Option<(Crc32, u64)> {
    let (mut crc, mut bytes) = (Crc32::new(), 0);
    for message in messages {
        let role = parsed::<String>(message.get("role")?).filter(|role| !role.is_empty())?;
        let text = message.get("content").map_or(Some(String::new()), |raw| content(raw))?;
        bytes += text.len() as u64;
        crc = crc.update(role.as_bytes()).update(b"\0").update(text.as_bytes()).update(b"\0");
    }
    Some((crc, bytes))
}

/// The text of a message: its content, or the texts of its parts of type `text`.
fn content(raw: &RawValue) -> Option<String> {
    let Some(parts) = parsed::<Vec<Members<'_>>>(raw) else {
        return parsed::<Option<String>>(raw).map(Option::unwrap_or_default);
    };
    let mut whole = String::new();
    for part in parts {
        let kind = parsed::<String>(part.get("type")?)?;
        match (kind.as_str(), optional::<String>(&part, "text")?) {
            ("text", Some(text)) => whole.push_str(&text),
            ("text", None) => return None,
            _ => {}
        }
    }
    Some(whole)
}

/// One response: plain, or as the events of a stream, each with the time after admission when it is due.
pub(super) struct Completion {
    id: String,
    model: String,
    draws: Draws,
    tokens: u32,
    finish_reason: &'static str,
    usage: Usage,
    with_usage: bool,
    first_due: Duration,
    interval: Duration,
}

#[derive(Clone, Copy, Serialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

#[derive(Serialize)]
struct Document<'a, Choices> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Choices,
    /// `Some(None)` is written as null.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<Usage>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Said<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<Said<'a>>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Said<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

impl Completion {
    pub(super) fn new(chat: Chat, settings: &Settings) -> Self {
        let draws = Draws::of(settings.seed, chat.crc);
        let tokens = chat.max_tokens.map_or(settings.tokens, |most| most.min(u64::from(settings.tokens)) as u32);
        let prompt_tokens = chat.text_bytes.div_ceil(4).max(1);
        let completion_tokens = u64::from(tokens);
        Completion {
            id: format!("chatcmpl-{:08x}", draws.hash),
            model: chat.model,
            draws,
            tokens,
            finish_reason: if tokens == settings.tokens { "stop" } else { "length" },
            usage: Usage { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
            with_usage: chat.with_usage,
            first_due: Duration::from_millis(settings.latency_ms.unwrap_or(draws.latency_ms()).into()),
            interval: Duration::from_millis(settings.token_interval_ms.into()),
        }
    }

    /// When token `i` is due.
    fn due(&self, i: u32) -> Duration {
        self.first_due + self.interval * i
    }

    /// The whole response, when a stream would have sent its last token.
    pub(super) fn plain(self) -> (Duration, Bytes) {
        let mut content = String::new();
        (0..self.tokens).for_each(|i| self.draws.push_token(i, &mut content));
        let message = Said { role: Some("assistant"), content: Some(&content) };
        let choice = Choice { index: 0, message: Some(message), delta: None, finish_reason: Some(self.finish_reason) };
        let body = self.document("chat.completion", [choice], Some(Some(self.usage)));
        (self.due(self.tokens - 1), body.into())
    }

    /// The events of a stream.
    pub(super) fn events(self) -> impl Iterator<Item = (Duration, Bytes)> + Send + 'static {
        let last = self.tokens + 1;
        let ends = if self.with_usage { 2 } else { 1 };
        (0..=last + ends).map(move |n| match n {
            0 => (self.first_due, self.chunk(Said { role: Some("assistant"), content: Some("") }, None)),
            n if n < last => {
                let mut token = String::new();
                self.draws.push_token(n - 1, &mut token);
                (self.due(n - 1), self.chunk(Said { role: None, content: Some(&token) }, None))
            }
            n => (self.due(self.tokens - 1), self.end(n - last)),
        })
    }

    /// What follows the last token.
    fn end(&self, n: u32) -> Bytes {
        match n {
            0 => self.chunk(Said::default(), Some(self.finish_reason)),
            1 if self.with_usage => {
                event(&self.document::<[Choice<'_>; 0]>("chat.completion.chunk", [], Some(Some(self.usage))))
            }
            _ => Bytes::from_static(b"data: [DONE]\n\n"),
        }
    }

    fn chunk(&self, delta: Said<'_>, finish_reason: Option<&'static str>) -> Bytes {
        let choice = Choice { index: 0, message: None, delta: Some(delta), finish_reason };
        event(&self.document("chat.completion.chunk", [choice], self.with_usage.then_some(None)))
    }

    fn document<C: Serialize>(&self, object: &'static str, choices: C, usage: Option<Option<Usage>>) -> String {
        let document = Document { id: &self.id, object, created: CREATED, model: &self.model, choices, usage };
        serde_json::to_string(&document).expect("plain values with string keys")
    }
}

fn event(json: &str) -> Bytes {
    format!("data: {json}\n\n").into()
}
