mod chat;
mod messages;

use super::{Differs, Splice, events_of};
use crate::Api;
use serde_json::Value;

/// What the client gets of a first response that breaks off, and of a second one.
fn joined(api: Api, first: &[String], second: &[String]) -> Result<String, Differs> {
    let mut splice = Splice::new(api).expect("it can be compared");
    let mut out = Vec::new();
    for event in first {
        splice.piece(event.as_bytes(), true, &mut out)?;
    }
    assert_eq!(out, first.concat().as_bytes(), "the first response is passed as it is");
    assert!(splice.can_go_on() && splice.has_caught_up());
    splice.restart();
    for event in second {
        let had_caught_up = splice.has_caught_up();
        let has = out.len();
        let taken = splice.piece(event.as_bytes(), true, &mut out);
        assert!(had_caught_up || splice.has_caught_up() || out.len() == has, "nothing passes before all is repeated");
        taken?;
    }
    if splice.has_caught_up() { Ok(String::from_utf8(out).expect("text")) } else { Err(Differs) }
}

/// The data of all events.
fn data_of(stream: &str) -> Vec<Value> {
    let lines = stream.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    lines.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

/// Cuts a text at some of its characters.
fn cut(text: &str, cuts: &[usize]) -> Vec<String> {
    let mut parts = vec![String::new()];
    for (at, char) in text.chars().enumerate() {
        if cuts.contains(&at) {
            parts.push(String::new());
        }
        parts.last_mut().expect("one at least").push(char);
    }
    parts
}

#[test]
fn events_are_split_whatever_ends_their_lines() {
    for stream in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\r\rdata: b\r\r",
        "data: a\n\n: c\ndata: b",
    ] {
        let events: Vec<&[u8]> = events_of(stream.as_bytes()).collect();
        assert_eq!(events.len(), 2, "{stream:?}");
        assert_eq!(events.concat(), stream.as_bytes());
    }
    assert_eq!(events_of(b"").count(), 0);
}

#[test]
fn other_apis_cannot_be_compared() {
    for api in Api::ALL {
        let can = matches!(api, Api::Chat | Api::Completions | Api::Messages);
        assert_eq!(Splice::new(api).is_some(), can, "{api:?}");
    }
}

/// What the client gets of a response that breaks off, and of one that goes on behind its text.
fn behind(first: &[&str], second: &[&str]) -> Result<String, Differs> {
    let mut splice = Splice::new(Api::Chat).expect("it can be compared");
    let mut out = Vec::new();
    for data in first {
        splice.piece(format!("data: {data}\n\n").as_bytes(), true, &mut out)?;
    }
    out.clear();
    splice.restart_behind();
    for data in second {
        splice.piece(format!("data: {data}\n\n").as_bytes(), true, &mut out)?;
    }
    Ok(String::from_utf8(out).expect("text"))
}

const ROLE: &str = r#"{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const HELLO: &str = r#"{"id":"a","choices":[{"index":0,"delta":{"content":"Hello "}}]}"#;
const END: &str = r#"{"id":"b","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

#[test]
fn a_text_continues_under_the_first_id() {
    let role = ROLE.replace("\"a\"", "\"b\"");
    let world = HELLO.replace("\"a\"", "\"b\"").replace("Hello ", "Hello world");
    let text = behind(&[ROLE, HELLO], &[&role, &world, END, "[DONE]"]).expect("a response");
    assert!(!text.contains("role") && !text.contains("\"b\""), "{text}");
    assert!(
        text.contains("Hello world") && text.ends_with("data: [DONE]\n\n"),
        "the same words again are new ones: {text}"
    );
}

#[test]
fn what_is_not_known_passes_behind_the_text() {
    let strange = r#"{"id":"b","choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[1]}}]}"#;
    let surrogate = r#"{"id":"b","choices":[{"index":0,"delta":{"content":"\ud83d"}}]}"#;
    let text = behind(&[ROLE, HELLO], &[strange, surrogate, END, "[DONE]"]).expect("a response");
    assert!(text.contains("logprobs") && text.contains("\\ud83d") && text.contains("stop"), "{text}");
    // llama.cpp's own member, in the first response and in the second.
    let timings = r#"{"id":"b","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":{"predicted_n":3}}"#;
    assert!(behind(&[ROLE, HELLO], &[timings, "[DONE]"]).expect("a response").contains("timings"));
}

#[test]
fn a_response_that_goes_on_elsewhere_is_no_end() {
    let other = r#"{"id":"b","choices":[{"index":1,"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    assert!(behind(&[ROLE, HELLO], &[other, "[DONE]"]).is_err());
    assert!(behind(&[ROLE, HELLO], &["[DONE]"]).is_err());
}

#[test]
fn an_event_without_data_says_nothing() {
    let mut splice = Splice::new(Api::Chat).expect("it can be compared");
    let mut out = Vec::new();
    splice.piece(b"data:\n\n", true, &mut out).expect("it passes");
    splice.piece(format!("data: {HELLO}\n\n").as_bytes(), true, &mut out).expect("it passes");
    assert_eq!(splice.plain_text(), Some("Hello "));
}
