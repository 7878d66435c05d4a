//! Chunks of chat and completions.

use super::{cut, data_of, joined};
use crate::Api;
use crate::splice::{Differs, Splice};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn chunk(id: &str, choices: Value) -> String {
    format!("data: {}\n\n", json!({"id": id, "object": "chat.completion.chunk", "model": "m", "choices": choices}))
}

fn delta(id: &str, delta: Value) -> String {
    chunk(id, json!([{"index": 0, "delta": delta, "finish_reason": null}]))
}

fn end(id: &str, reason: &str) -> String {
    chunk(id, json!([{"index": 0, "delta": {}, "finish_reason": reason}]))
}

const DONE: &str = "data: [DONE]\n\n";

/// Texts, and the arguments of calls, each in the parts in which they are sent.
fn response(id: &str, texts: &[Vec<String>], calls: &[Vec<String>]) -> Vec<String> {
    let mut events = vec![delta(id, json!({"role": "assistant", "content": ""}))];
    events.extend(texts.iter().flatten().map(|part| delta(id, json!({"content": part}))));
    for (index, parts) in calls.iter().enumerate() {
        let call = json!({"index": index, "id": format!("{id}-{index}"), "type": "function",
            "function": {"name": "f", "arguments": ""}});
        events.push(delta(id, json!({"tool_calls": [call]})));
        events.extend(
            parts
                .iter()
                .map(|part| delta(id, json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}))),
        );
    }
    events.push(end(id, if calls.is_empty() { "stop" } else { "tool_calls" }));
    events.push(format!("data: {}\n\n", json!({"id": id, "choices": [], "usage": {"completion_tokens": 3}})));
    events.push(DONE.to_owned());
    events
}

/// What a client makes of a stream: text, calls by index, ends.
fn read(stream: &str) -> (String, BTreeMap<u64, [String; 3]>, Vec<String>) {
    let (mut text, mut calls, mut ends) = (String::new(), BTreeMap::new(), Vec::new());
    for event in data_of(stream) {
        for choice in event["choices"].as_array().expect("choices") {
            text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                let known: &mut [String; 3] = calls.entry(call["index"].as_u64().expect("an index")).or_default();
                let parts = [&call["id"], &call["function"]["name"], &call["function"]["arguments"]];
                for (known, part) in known.iter_mut().zip(parts) {
                    known.push_str(part.as_str().unwrap_or_default());
                }
            }
            ends.extend(choice["finish_reason"].as_str().map(str::to_owned));
        }
    }
    (text, calls, ends)
}

#[test]
fn what_the_client_has_is_withheld_and_the_first_id_stays() {
    let parts = |text: &str, cuts: &[usize]| vec![cut(text, cuts)];
    let first = &response("a", &parts("Hello wörld, how are you?", &[2, 9]), &[])[..3];
    let second = response("b", &parts("Hello wörld, how are you?", &[5, 12]), &[]);
    let stream = joined(Api::Chat, first, &second).expect("the same");
    let (text, _, ends) = read(&stream);
    assert_eq!((text.as_str(), ends.as_slice()), ("Hello wörld, how are you?", &["stop".to_owned()][..]));
    assert!(data_of(&stream).iter().all(|event| event["id"] == "a"), "{stream}");
    assert_eq!(stream.matches("\"role\"").count(), 1, "{stream}");
    assert!(stream.ends_with(DONE), "{stream}");
}

#[test]
fn a_difference_is_seen_wherever_it_stands() {
    let parts = |text: &str| vec![cut(text, &[4, 8])];
    let first = response("a", &parts("one two three"), &[cut("{\"x\":1}", &[3])]);
    let differs = |kept: usize, second: &[String]| assert_eq!(joined(Api::Chat, &first[..kept], second), Err(Differs));
    // The text, its length, a call, its name, its arguments, the end reason.
    differs(3, &response("b", &parts("one too three"), &[]));
    differs(3, &response("b", &parts("one"), &[]));
    differs(3, &response("b", &parts("one"), &[cut("{}", &[])]));
    differs(6, &response("b", &parts("one two three"), &[]));
    let mut other = response("b", &parts("one two three"), &[cut("{\"x\":1}", &[])]);
    other.iter_mut().for_each(|event| *event = event.replace("\"name\":\"f\"", "\"name\":\"g\""));
    differs(5, &other);
    differs(
        6,
        &response("b", &parts("one two three"), &[cut("{\"x\":2}", &[])])
            .iter()
            .map(|event| event.replace("x\\\":", "y\\\":"))
            .collect::<Vec<_>>(),
    );
    differs(7, &[&first[..6], &[end("b", "stop"), DONE.to_owned()]].concat());
    // `[DONE]` too soon.
    differs(4, &[first[0].clone(), DONE.to_owned()]);
}

#[test]
fn nothing_comes_behind_an_end() {
    let first = &response("a", &[cut("text", &[])], &[])[..3];
    let longer = response("b", &[cut("text and more", &[])], &[]);
    assert_eq!(joined(Api::Chat, first, &longer), Err(Differs));
    // The usage and `[DONE]` are what was missing.
    let stream = joined(Api::Chat, first, &response("b", &[cut("text", &[2])], &[])).expect("the same");
    assert_eq!(read(&stream).2, ["stop"]);
    assert!(stream.contains("completion_tokens") && stream.ends_with(DONE), "{stream}");
}

#[test]
fn choices_and_completions_are_compared_by_themselves() {
    let text = |index: u64, text: &str| {
        format!("data: {}\n\n", json!({"id": "c", "choices": [{"index": index, "text": text, "finish_reason": null}]}))
    };
    let ends = |index: u64| {
        format!(
            "data: {}\n\n",
            json!({"id": "c", "choices": [{"index": index, "text": "", "finish_reason": "length"}]})
        )
    };
    let first = [text(0, "ab"), text(1, "xy")];
    let second = [text(1, "xyz"), ends(1), text(0, "a"), text(0, "bc"), ends(0)];
    let stream = joined(Api::Completions, &first, &second).expect("the same");
    let of = |index: u64| -> String {
        let events = data_of(&stream);
        let choices = events.iter().flat_map(|event| event["choices"].as_array().expect("choices"));
        choices.filter(|choice| choice["index"] == index).filter_map(|choice| choice["text"].as_str()).collect()
    };
    assert_eq!((of(0).as_str(), of(1).as_str()), ("abc", "xyz"));
}

#[test]
fn what_cannot_be_compared_cannot_be_continued() {
    for event in [
        delta("a", json!({"tool_calls": [{"id": "x", "function": {"name": "f"}}]})),
        delta("a", json!({"annotations": [{"type": "url_citation"}]})),
        delta("a", json!({"token": 7})),
        chunk("a", json!([1])),
        chunk("a", json!([{"index": 0, "delta": {"content": "a"}, "logprobs": {"content": []}}])),
        chunk("a", json!([{"index": 0, "delta": {"content": "a"}, "citations": ["https://example.com"]}])),
        format!("data: {}\n\n", json!({"id": "a", "choices": [], "citations": ["https://example.com"]})),
        format!("data: {}\n\n", json!({"id": "a", "citations": ["https://example.com"]})),
        "data: 1\n\n".to_owned(),
    ] {
        let mut splice = Splice::new(Api::Chat).expect("chat");
        let mut out = Vec::new();
        assert_eq!(splice.piece(event.as_bytes(), true, &mut out), Ok(()));
        assert_eq!(out, event.as_bytes());
        assert!(!splice.can_go_on(), "{event}");
    }
}

/// Whatever is new waits until all is repeated, also where it belongs to another member, call or choice.
#[test]
fn nothing_new_passes_before_all_is_repeated() {
    let first = [delta("a", json!({"content": "Hello wor"}))];
    let call = json!({"index": 0, "id": "x", "type": "function", "function": {"name": "rm", "arguments": "{}"}});
    let other = delta("b", json!({"content": "Different"}));
    for early in [
        delta("b", json!({"reasoning_content": "thinks"})),
        delta("b", json!({"tool_calls": [call]})),
        chunk("b", json!([{"index": 1, "delta": {"content": "of another choice"}}])),
    ] {
        assert_eq!(joined(Api::Chat, &first, &[early.clone(), other.clone()]), Err(Differs), "{early}");
        let same = joined(Api::Chat, &first, &[early, delta("b", json!({"content": "Hello world"}))]);
        assert!(same.expect("the same").ends_with(&delta("a", json!({"content": "ld"}))));
    }
}

#[test]
fn a_call_that_is_not_repeated_is_a_difference() {
    for function in [json!({}), json!({"name": "", "arguments": ""})] {
        let call = json!({"index": 0, "id": "x", "type": "function", "function": function});
        let first = [delta("a", json!({"tool_calls": [call]}))];
        assert_eq!(joined(Api::Chat, &first, &response("b", &[cut("Hi there", &[])], &[])), Err(Differs));
        let stream = joined(Api::Chat, &first, &response("b", &[], &[cut("{}", &[])])).expect("the same");
        assert_eq!(stream.matches("\"id\":\"x\"").count(), 1, "{stream}");
        assert!(!stream.contains("b-0"), "{stream}");
    }
}

/// Some servers say `message` where others say `delta`.
#[test]
fn messages_of_choices_are_content() {
    let part = |id: &str, text: &str| chunk(id, json!([{"index": 0, "message": {"content": text}}]));
    let first = [part("a", "Hello "), part("a", "wor")];
    let second = [part("b", "Hello "), part("b", "wor"), part("b", "ld"), end("b", "stop"), DONE.to_owned()];
    let stream = joined(Api::Chat, &first, &second).expect("the same");
    assert_eq!(stream.matches("Hello").count(), 1, "{stream}");
    assert!(stream.contains("\"ld\""), "{stream}");
}

#[test]
fn counts_come_once() {
    let whole = response("a", &[cut("text", &[])], &[]);
    let stream = joined(Api::Chat, &whole[..whole.len() - 1], &whole).expect("the same");
    assert_eq!(stream.matches("completion_tokens").count(), 1, "{stream}");
    assert!(stream.ends_with(DONE), "{stream}");
}

/// Clients ignore what looks like a byte order mark in the middle of a stream, and the field behind it.
#[test]
fn a_mark_in_the_middle_hides_an_event() {
    let parts = ["Hel", "lo ", "you"].map(|text| delta("a", json!({"content": text})));
    let first = [parts[0].clone(), format!("\u{feff}{}", parts[1])];
    let stream = joined(Api::Chat, &first, &parts).expect("the same");
    assert!(stream.ends_with(&parts[1..].concat()), "{stream}");
}

#[test]
fn what_is_kept_is_bounded_over_all_members() {
    let mut splice = Splice::new(Api::Chat).expect("chat");
    let text = "x".repeat(1 << 20);
    for index in 0..9 {
        assert_eq!(splice.can_go_on(), index < 8, "{index}");
        let call = json!({"index": index, "function": {"arguments": text}});
        splice.piece(delta("a", json!({"tool_calls": [call]})).as_bytes(), true, &mut Vec::new()).expect("passed");
    }
    assert!(!splice.can_go_on());
}

#[test]
fn comments_pass_and_pieces_of_an_event_are_joined() {
    let mut splice = Splice::new(Api::Chat).expect("chat");
    let mut out = Vec::new();
    let event = delta("a", json!({"content": "abc"}));
    let (head, tail) = event.split_at(20);
    splice.piece(b": ping\n\n", true, &mut out).expect("a comment");
    splice.piece(head.as_bytes(), false, &mut out).expect("a piece");
    splice.piece(tail.as_bytes(), true, &mut out).expect("its end");
    assert_eq!(out, format!(": ping\n\n{event}").as_bytes());
    splice.restart();
    assert!(!splice.has_caught_up());
    splice.piece(event.as_bytes(), true, &mut out).expect("the same");
    assert!(splice.has_caught_up());
}

proptest! {
    /// Choices that come in any order, in each response in another one, broken off twice.
    #[test]
    fn the_client_has_each_choice_once(
        texts in prop::array::uniform3("[a-b]{0,6}"),
        orders in prop::array::uniform3(prop::collection::vec(0_usize..3, 18)),
        at in prop::array::uniform2(any::<prop::sample::Index>()),
    ) {
        let of = |id: &str, order: &[usize]| {
            let mut rests: Vec<Vec<char>> = texts.iter().map(|text| text.chars().rev().collect()).collect();
            let mut events = Vec::new();
            // What the order does not name comes at the end.
            for choice in order.iter().copied().chain((0..3).flat_map(|choice| [choice; 6])) {
                if let Some(char) = rests[choice].pop() {
                    events.push(chunk(id, json!([{"index": choice, "delta": {"content": char.to_string()}}])));
                }
            }
            events.extend((0..3).map(|choice| chunk(id, json!([{"index": choice, "delta": {}, "finish_reason": "stop"}]))));
            events.push(DONE.to_owned());
            events
        };
        let [first, second, third] = [of("a", &orders[0]), of("b", &orders[1]), of("c", &orders[2])];
        let mut splice = Splice::new(Api::Chat).expect("chat");
        let mut out = Vec::new();
        let parts = [&first[..at[0].index(first.len())], &second[..at[1].index(second.len())], &third[..]];
        for (number, events) in parts.into_iter().enumerate() {
            if number > 0 {
                splice.restart();
            }
            for event in events {
                splice.piece(event.as_bytes(), true, &mut out).expect("the same");
            }
        }
        prop_assert!(splice.has_caught_up());
        let events = data_of(std::str::from_utf8(&out).expect("text"));
        for (index, text) in texts.iter().enumerate() {
            let choices = events.iter().flat_map(|event| event["choices"].as_array().expect("choices"));
            let got: String = choices.filter(|choice| choice["index"] == index).filter_map(|choice| choice["delta"]["content"].as_str()).collect();
            prop_assert_eq!(&got, text);
        }
    }

    /// Whatever breaks off where, and however the second response is cut: the client has the response once.
    #[test]
    fn the_client_has_one_response(
        text in "[a-c€𝄞\"\\\\]{0,12}",
        calls in prop::collection::vec("[a-c{}\"]{0,6}", 0..3),
        cuts in prop::array::uniform2(prop::collection::vec(0_usize..12, 0..6)),
        at in any::<prop::sample::Index>(),
        again in any::<prop::sample::Index>(),
    ) {
        let of = |id: &str, cuts: &[usize]| {
            let calls: Vec<Vec<String>> = calls.iter().map(|call| cut(call, cuts)).collect();
            response(id, &[cut(&text, cuts)], &calls)
        };
        let (first, second) = (of("a", &cuts[0]), of("b", &cuts[1]));
        let whole = read(&first.concat());
        let first = &first[..at.index(first.len())];
        let stream = joined(Api::Chat, first, &second).expect("the same");
        let (text, calls, ends) = read(&stream);
        prop_assert_eq!(&text, &whole.0);
        prop_assert_eq!(&ends, &whole.2);
        // The id is that of whichever response began the call.
        let parts = |calls: &BTreeMap<u64, [String; 3]>| -> Vec<String> { calls.values().map(|call| call[1..].concat()).collect() };
        prop_assert_eq!(parts(&calls), parts(&whole.1));
        prop_assert!(calls.values().all(|[id, ..]| id.len() == 3), "{calls:?}");

        // A character that is another one, in what the client has.
        let has = read(&first.concat()).0;
        if !has.is_empty() {
            let at = again.index(has.chars().count());
            let other: String = text.chars().enumerate().map(|(index, char)| if index == at { 'x' } else { char }).collect();
            let calls: Vec<Vec<String>> = whole.1.values().map(|call| cut(&call[2], &cuts[1])).collect();
            prop_assert_eq!(joined(Api::Chat, first, &response("b", &[cut(&other, &cuts[1])], &calls)), Err(Differs));
        }
    }
}
