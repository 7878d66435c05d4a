mod any;
mod requests;
mod responses;
mod streams;

use super::super::{Refused, Translated, Translator, Untranslatable, messages_to_chat, to_text};
use super::*;
use crate::Api;
use crate::stream::{BodyEnd, EventReader, EventSplitter, Outcome, StreamState};
use proptest::prelude::*;
use serde_json::{Value, json};

const MODEL: &str = "gemini-2.5-flash";

fn from_chat(request: &Value) -> Result<Translated, Refused> {
    chat_to_gemini(request, MODEL)
}

fn from_messages(request: &Value) -> Result<Translated, Refused> {
    messages_to_gemini(request, MODEL)
}

/// A chat request with every member of the table that has an equivalent.
fn full_chat() -> Value {
    json!({
        "model": "alias",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
                {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "user", "content": "And?"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "max_completion_tokens": 50,
        "temperature": 1.5,
        "top_p": 0.9,
        "stop": ["x"],
        "seed": 7,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "n": 2,
        "response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": {"type": "object"}, "strict": true}},
        "reasoning_effort": "low"
    })
}

const GEMINI: &str = include_str!("../golden/gemini.sse");

/// Runs a translator over a stream that comes in pieces of so many bytes.
fn run(
    stream: &[u8],
    step: usize,
    mut event: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), Untranslatable>,
) -> Result<Vec<u8>, Untranslatable> {
    let (mut splitter, mut whole, mut out) = (EventSplitter::new(), Vec::new(), Vec::new());
    for part in stream.chunks(step) {
        let mut at = 0;
        while let Some(piece) = splitter.next(part, &mut at) {
            whole.extend_from_slice(piece.bytes);
            if piece.last {
                event(&std::mem::take(&mut whole), &mut out)?;
            }
        }
    }
    Ok(out)
}

fn as_chat_in(stream: &str, step: usize, include_usage: bool) -> Result<String, Untranslatable> {
    let mut translator = GeminiToChatStream::new(7, include_usage, CallIds::new(1));
    let mut out = run(stream.as_bytes(), step, |event, out| translator.event(event, out))?;
    translator.finish(&[], &mut out)?;
    Ok(String::from_utf8(out).expect("text"))
}

fn as_chat(stream: &str, include_usage: bool) -> Result<String, Untranslatable> {
    as_chat_in(stream, usize::MAX, include_usage)
}

fn as_messages_in(stream: &str, step: usize) -> Result<String, Untranslatable> {
    let mut translator = GeminiToMessagesStream::new(9, CallIds::new(1));
    let mut out = run(stream.as_bytes(), step, |event, out| translator.event(event, out))?;
    translator.finish(&[], &mut out)?;
    Ok(String::from_utf8(out).expect("text"))
}

fn chat_as_gemini(stream: &str, step: usize) -> Result<String, Untranslatable> {
    let mut translator = ChatToGeminiStream::new();
    let out = run(stream.as_bytes(), step, |event, out| translator.event(event, out))?;
    Ok(String::from_utf8(out).expect("text"))
}

fn messages_as_gemini(stream: &str, step: usize) -> Result<String, Untranslatable> {
    let mut translator = MessagesToGeminiStream::new();
    let out = run(stream.as_bytes(), step, |event, out| translator.event(event, out))?;
    Ok(String::from_utf8(out).expect("text"))
}
