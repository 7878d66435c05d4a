//! Events of messages.

use super::{cut, data_of, joined};
use crate::Api;
use crate::splice::{Differs, Splice};
use proptest::prelude::*;
use serde_json::{Value, json};

fn event(mut data: Value, kind: &str) -> String {
    data["type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n")
}

/// Blocks: texts, and the input of calls.
fn response(id: &str, blocks: &[(bool, Vec<String>)]) -> Vec<String> {
    let mut events = vec![
        event(json!({"message": {"id": id, "content": [], "usage": {"input_tokens": 3}}}), "message_start"),
        event(json!({}), "ping"),
    ];
    for (index, (is_call, parts)) in blocks.iter().enumerate() {
        let start = match is_call {
            true => json!({"type": "tool_use", "id": format!("{id}{index}"), "name": "f", "input": {}}),
            false => json!({"type": "text", "text": ""}),
        };
        events.push(event(json!({"index": index, "content_block": start}), "content_block_start"));
        events.extend(parts.iter().map(|part| {
            let delta = match is_call {
                true => json!({"type": "input_json_delta", "partial_json": part}),
                false => json!({"type": "text_delta", "text": part}),
            };
            event(json!({"index": index, "delta": delta}), "content_block_delta")
        }));
        events.push(event(json!({"index": index}), "content_block_stop"));
    }
    events.push(event(json!({"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}), "message_delta"));
    events.push(event(json!({}), "message_stop"));
    events
}

/// What a client makes of a stream, as strict as one could be.
fn read(stream: &str) -> Vec<String> {
    let (mut blocks, mut open, mut ends) = (Vec::new(), None, 0);
    for event in data_of(stream) {
        match event["type"].as_str().expect("a type") {
            "message_start" => assert!(blocks.is_empty() && ends == 0, "{stream}"),
            "ping" => {}
            "content_block_start" => {
                assert!(open.is_none() && event["index"] == blocks.len() && ends == 0, "{stream}");
                open = Some(blocks.len());
                blocks.push(format!("{}:", event["content_block"]["type"]));
            }
            "content_block_delta" => {
                assert!(open.is_some_and(|open| event["index"] == open), "{stream}");
                let text = event["delta"]["text"].as_str().or(event["delta"]["partial_json"].as_str());
                blocks.last_mut().expect("a block").push_str(text.expect("text"));
            }
            "content_block_stop" => assert!(open.take().is_some_and(|open| event["index"] == open), "{stream}"),
            "message_delta" => {
                assert!(open.is_none() && ends == 0, "{stream}");
                ends = 1;
            }
            "message_stop" => {
                assert_eq!(ends, 1, "{stream}");
                ends = 2;
            }
            kind => panic!("{kind}"),
        }
    }
    assert_eq!(ends, 2, "{stream}");
    blocks
}

#[test]
fn blocks_are_compared_and_ids_are_not() {
    let text = |text: &str| vec![(false, cut(text, &[3])), (true, cut("{\"a\": 1}", &[2]))];
    let first = response("a", &text("words of it"));
    let second = response("b", &text("words of it"));
    for kept in 0..first.len() {
        let stream = joined(Api::Messages, &first[..kept], &second).expect("the same");
        assert_eq!(read(&stream), ["\"text\":words of it", "\"tool_use\":{\"a\": 1}"], "{kept}");
    }
    let differs =
        |kept: usize, second: &[String]| assert_eq!(joined(Api::Messages, &first[..kept], second), Err(Differs));
    differs(5, &response("b", &text("worth")));
    differs(6, &response("b", &text("words of it and more")));
    differs(6, &response("b", &text("words")));
    differs(7, &response("b", &[(false, cut("words of it", &[])), (false, cut("", &[]))]));
    differs(7, &response("b", &[(false, cut("words of it", &[]))]));
    differs(4, &[event(json!({}), "message_stop")]);
    // Half a response is none, whoever says so.
    differs(6, &second[..4]);
}

#[test]
fn what_cannot_be_compared_cannot_be_continued() {
    let citation = json!({"index": 0, "delta": {"type": "citations_delta", "citation": {}}});
    for unknown in [event(citation, "content_block_delta"), event(json!({}), "content_block_unknown")] {
        let mut splice = Splice::new(Api::Messages).expect("messages");
        let mut out = Vec::new();
        for event in response("a", &[(false, cut("ab", &[]))])[..4].iter().chain([&unknown]) {
            splice.piece(event.as_bytes(), true, &mut out).expect("passed as it is");
        }
        assert!(out.ends_with(unknown.as_bytes()));
        assert!(!splice.can_go_on(), "{unknown}");
    }
}

#[test]
fn a_block_before_the_one_before_is_repeated_is_a_difference() {
    let block = |text: &str| (false, cut(text, &[]));
    let first = &response("a", &[block("abc")])[..5];
    let second = response("b", &[block("abc"), block("SECOND")]);
    // The second block begins before the first one is repeated.
    let early = [&second[..3], &second[5..7], &second[3..5]].concat();
    assert_eq!(joined(Api::Messages, first, &early), Err(Differs));
}

proptest! {
    #[test]
    fn the_client_has_one_message(
        blocks in prop::collection::vec((any::<bool>(), "[a-c€𝄞\"]{0,8}"), 0..4),
        cuts in prop::array::uniform3(prop::collection::vec(0_usize..8, 0..4)),
        at in prop::array::uniform2(any::<prop::sample::Index>()),
    ) {
        let of = |id: &str, cuts: &[usize]| {
            let blocks: Vec<_> = blocks.iter().map(|(is_call, text)| (*is_call, cut(text, cuts))).collect();
            response(id, &blocks)
        };
        let [first, second, third] = [of("a", &cuts[0]), of("b", &cuts[1]), of("c", &cuts[2])];
        let whole = read(&first.concat());
        // Broken off twice.
        let mut splice = Splice::new(Api::Messages).expect("messages");
        let mut out = Vec::new();
        for (response, at) in [(&first, at[0].index(first.len())), (&second, at[1].index(second.len())), (&third, third.len())] {
            if !std::ptr::eq(response, &first) {
                splice.restart();
            }
            for event in &response[..at] {
                splice.piece(event.as_bytes(), true, &mut out).expect("the same");
            }
        }
        prop_assert!(splice.has_caught_up());
        prop_assert_eq!(read(std::str::from_utf8(&out).expect("text")), whole);
    }
}
