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
fn events_are_told_apart_whatever_ends_their_lines() {
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
