//! The request that has a model go on with a text: the client's own, with that text as the last message of the assistant, or behind the prompt.

use crate::Api;
use crate::json::{Lexer, TokenKind, push_escaped, unescape};

/// How a server is told to go on with the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefill {
    /// By the message alone.
    Assistant,
    /// By `prefix: true` in the message (Mistral). The server sends the text again before what comes behind it.
    Prefix,
    /// By `continue_final_message: true` and `add_generation_prompt: false` in the request (vLLM, `SGLang`).
    ContinueFinalMessage,
}

/// Members with which a text cannot be gone on with: a grammar would begin anew behind it, and what counts tokens or choices would count wrongly.
const AGAINST: [&str; 16] = [
    "response_format",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "regex",
    "json_schema",
    "ebnf",
    "grammar",
    "min_tokens",
    "best_of",
    "echo",
    "suffix",
    "continue_final_message",
    "add_generation_prompt",
];
/// Those of them that are written: they must not be there at all, not even as `null`.
const WRITTEN: [&str; 2] = ["continue_final_message", "add_generation_prompt"];

/// What is found of a request.
#[derive(Default)]
struct InsertPoint {
    /// Where the message goes, or the text.
    at: Option<usize>,
    /// Role of the last message.
    role: String,
    /// It cannot be gone on with.
    is_unfit: bool,
}

/// A request to go on with `text`; `None` if the API has none, the response is to be JSON, the last message is of the assistant already, or the request
/// says itself how it is to be gone on with.
pub fn prefilled(api: Api, body: &[u8], text: &str, prefill: Prefill) -> Option<Vec<u8>> {
    let list = match api {
        Api::Chat => "messages",
        Api::Completions => "prompt",
        _ => return None,
    };
    let InsertPoint { at: Some(at), role, is_unfit: false } = place(body, list)? else { return None };
    if role == "assistant" {
        return None;
    }
    let mut quoted = Vec::with_capacity(text.len() + 2);
    push_escaped(text, &mut quoted);
    let inserted = if api == Api::Chat {
        let end: &[u8] = if prefill == Prefill::Prefix { b",\"prefix\":true}" } else { b"}" };
        [b",{\"role\":\"assistant\",\"content\":", quoted.as_slice(), end].concat()
    } else {
        quoted[1..quoted.len() - 1].to_vec()
    };
    let open = 1 + body.iter().position(|byte| *byte == b'{')?;
    let flags: &[u8] = if api == Api::Chat && prefill == Prefill::ContinueFinalMessage {
        b"\"continue_final_message\":true,\"add_generation_prompt\":false,"
    } else {
        b""
    };
    Some([&body[..open], flags, &body[open..at], &inserted, &body[at..]].concat())
}

/// Looks for the end of the list of messages that is not empty, or of the prompt, and for what is against it.
fn place(body: &[u8], list: &str) -> Option<InsertPoint> {
    let (mut lexer, mut at) = (Lexer::new(), 0);
    let mut place = InsertPoint::default();
    let (mut top, mut inner) = (String::new(), String::new());
    let mut elements = 0;
    while let Some(token) = lexer.next(body, &mut at).ok()? {
        let raw = &body[token.start..token.end];
        let depth = lexer.depth();
        match token.kind {
            TokenKind::Key(_) if depth == 1 => top = unescape(raw).ok()?.into_owned(),
            TokenKind::Key(_) if depth == 3 && top == list => inner = unescape(raw).ok()?.into_owned(),
            TokenKind::ObjectStart if depth == 3 && top == list => {
                elements += 1;
                place.role.clear();
                inner.clear();
            }
            TokenKind::String(_) if depth == 3 && top == list && inner == "role" => {
                place.role = unescape(raw).ok()?.into_owned();
            }
            TokenKind::ArrayEnd if depth == 1 && top == list && list == "messages" => {
                place.at = (elements > 0).then_some(token.start);
            }
            TokenKind::String(_) if depth == 1 && top == list && list == "prompt" => place.at = Some(token.end),
            _ => {}
        }
        let is_value =
            depth == 1 && !matches!(token.kind, TokenKind::Key(_) | TokenKind::Null | TokenKind::ObjectStart);
        let is_written = token.kind == TokenKind::Null && depth == 1 && WRITTEN.contains(&top.as_str());
        let is_without_meaning = token.kind == TokenKind::Bool(false) && top == "echo";
        place.is_unfit |= is_written || (is_value && !is_without_meaning && AGAINST.contains(&top.as_str()));
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn chat(body: &Value, prefill: Prefill) -> Option<Value> {
        let body = prefilled(Api::Chat, body.to_string().as_bytes(), "Die \"Uhr\"\n", prefill)?;
        Some(serde_json::from_slice(&body).expect("JSON"))
    }

    fn requested() -> Value {
        json!({"a": {"messages": [1]}, "messages": [{"role": "user", "content": [{"type": "text", "text": "role"}]}], "n": 1})
    }

    #[test]
    fn the_text_is_the_last_message() {
        let message = json!({"role": "assistant", "content": "Die \"Uhr\"\n"});
        let with = |message: Value| {
            let mut body = requested();
            body["messages"].as_array_mut().expect("a list").push(message);
            body
        };
        assert_eq!(chat(&requested(), Prefill::Assistant), Some(with(message.clone())));
        let mut prefix = message.clone();
        prefix["prefix"] = true.into();
        assert_eq!(chat(&requested(), Prefill::Prefix), Some(with(prefix)));
        let mut flags = with(message);
        flags["continue_final_message"] = true.into();
        flags["add_generation_prompt"] = false.into();
        assert_eq!(chat(&requested(), Prefill::ContinueFinalMessage), Some(flags));
    }

    #[test]
    fn bytes_beside_it_stay() {
        let body = b" { \"x\" : 1.50e3, \"messages\":[ {\"role\":\"user\",\"content\":\"\\u0061\"} ] , \"x\":2 } ";
        let filled = prefilled(Api::Chat, body, "b", Prefill::Assistant).expect("a request");
        let expected = b" { \"x\" : 1.50e3, \"messages\":[ {\"role\":\"user\",\"content\":\"\\u0061\"} ,{\"role\":\"assistant\",\"content\":\"b\"}] , \"x\":2 } ";
        assert_eq!(filled, expected);
        let prompt = prefilled(Api::Completions, b"{\"prompt\": \"Once\", \"n\": 1}", " upon \"a", Prefill::Assistant);
        assert_eq!(prompt.as_deref(), Some(&b"{\"prompt\": \"Once upon \\\"a\", \"n\": 1}"[..]));
    }

    #[test]
    fn what_cannot_be_continued_is_left() {
        for (member, value) in [
            ("response_format", json!({"type": "json_object"})),
            ("continue_final_message", json!(false)),
            ("add_generation_prompt", Value::Null),
            ("structured_outputs", json!({"regex": "a"})),
            ("guided_choice", json!(["a"])),
            ("best_of", json!(2)),
            ("messages", json!([])),
            ("messages", json!("a")),
            ("messages", json!([{"role": "user", "content": "a"}, {"content": "b", "role": "assistant"}])),
        ] {
            let mut body = requested();
            body[member] = value;
            assert_eq!(chat(&body, Prefill::Assistant), None, "{body}");
        }
        let mut body = requested();
        body["response_format"] = Value::Null;
        assert!(chat(&body, Prefill::Assistant).is_some());
        for wrong in [
            &b"{\"messages\":[{\"role\":\"user\"}"[..],
            b"{\"prompt\":[1,2]}",
            b"{\"prompt\":\"a\",\"echo\":true}",
            b"{}",
        ] {
            assert_eq!(prefilled(Api::Completions, wrong, "b", Prefill::Assistant), None);
        }
        assert_eq!(prefilled(Api::Messages, b"{\"messages\":[{}]}", "b", Prefill::Assistant), None);
    }
}
