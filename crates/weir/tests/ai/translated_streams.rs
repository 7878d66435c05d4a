//! Streams of the other API, event by event: each reaches the client as it comes, and a stream that breaks off never ends well.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use testkit::{DEADLINE, Gate};

use crate::scripted::{CHAT, MESSAGES, Scripted, chunk, events, named};

fn chat(usage: bool) -> Value {
    let mut body = json!({"model": "claude", "stream": true, "messages": [{"role": "user", "content": "a"}]});
    if usage {
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

fn messages() -> Value {
    json!({"model": "gpt", "stream": true, "max_tokens": 50, "messages": [{"role": "user", "content": "a"}]})
}

/// Text, a call with arguments in two parts, one without any, and pings.
fn anthropic_events() -> Vec<String> {
    let delta =
        |index: u64, delta: Value| named(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    let start = |index: u64, block: Value| {
        named(json!({"type": "content_block_start", "index": index, "content_block": block}))
    };
    let stop = |index: u64| named(json!({"type": "content_block_stop", "index": index}));
    vec![
        named(
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "real-claude",
            "content": [], "stop_reason": null, "usage": {"input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 1}}}),
        ),
        named(json!({"type": "ping"})),
        start(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "Hällo"})),
        stop(0),
        start(1, json!({"type": "tool_use", "id": "t1", "name": "look", "input": {}})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{\"at\":"})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "\"x\"}"})),
        stop(1),
        start(2, json!({"type": "tool_use", "id": "t2", "name": "now", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": ""})),
        stop(2),
        named(
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 9}}),
        ),
        named(json!({"type": "message_stop"})),
    ]
}

/// The same as OpenAI sends it; a second call begins before the first one's end.
fn openai_events() -> Vec<String> {
    let frame = |delta: Value, reason: Value| {
        chunk(json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "real-gpt",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": null}))
    };
    let call = |index: u64, id: Value, name: Value, arguments: &str| json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    vec![
        frame(json!({"role": "assistant", "content": ""}), Value::Null),
        frame(json!({"content": "Hällo"}), Value::Null),
        frame(json!({"tool_calls": [call(0, "t1".into(), "look".into(), "")]}), Value::Null),
        frame(
            json!({"tool_calls": [call(0, Value::Null, Value::Null, "{\"at\":"), call(1, "t2".into(), "now".into(), "{}")]}),
            Value::Null,
        ),
        frame(json!({"tool_calls": [call(0, Value::Null, Value::Null, "\"x\"}")]}), Value::Null),
        frame(json!({}), "tool_calls".into()),
        chunk(
            json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "real-gpt", "choices": [],
            "usage": {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 2}}}),
        ),
        "data: [DONE]\n\n".to_owned(),
    ]
}

/// The chunks that a client of chat gets of [`anthropic_events`], as text, id of a call or arguments, end reason.
const AS_CHUNKS: [&str; 9] = [
    "role assistant",
    "text Hällo",
    "call 0 t1 look",
    "args 0 {\"at\":",
    "args 0 \"x\"}",
    "call 1 t2 now",
    "args 1 {}",
    "end tool_calls",
    "[DONE]",
];

fn as_steps(event: &Value) -> String {
    let Some(choice) = event["choices"].as_array().and_then(|choices| choices.first()) else {
        return event.as_str().map_or_else(|| format!("usage {}", event["usage"]), str::to_owned);
    };
    let delta = &choice["delta"];
    let call = &delta["tool_calls"][0];
    match (choice["finish_reason"].as_str(), call["id"].as_str(), call["function"]["arguments"].as_str()) {
        (Some(reason), ..) => format!("end {reason}"),
        (_, Some(id), _) => format!("call {} {id} {}", call["index"], call["function"]["name"].as_str().unwrap()),
        (_, _, Some(arguments)) => format!("args {} {arguments}", call["index"]),
        _ if delta["role"].is_string() => format!("role {}", delta["role"].as_str().unwrap()),
        _ => format!("text {}", delta["content"].as_str().unwrap()),
    }
}

#[test]
fn a_stream_of_messages_reaches_a_client_of_chat() {
    let rig = Scripted::start();
    for usage in [false, true] {
        rig.streams(anthropic_events(), None);
        let received = rig.call(CHAT, &chat(usage));
        assert!(received.is_whole && received.status == 200, "{received:?}");
        assert_eq!(rig.provider_saw(CHAT).2["stream"], true);
        let text = received.text();
        assert!(text.contains(": ping\n\n"), "{text}");
        let events = events(&text);
        for event in events.iter().filter(|event| event.is_object()) {
            assert_eq!(
                (&event["id"], &event["model"], &event["object"]),
                (&json!("msg_1"), &json!("real-claude"), &json!("chat.completion.chunk"))
            );
        }
        let mut steps: Vec<String> = events.iter().map(as_steps).collect();
        if usage {
            let counts = json!({"completion_tokens": 9, "prompt_tokens": 5, "total_tokens": 14,
                "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0}});
            assert_eq!(steps.remove(steps.len() - 2), format!("usage {counts}"));
        }
        assert_eq!(steps, AS_CHUNKS);
    }
}

#[test]
fn a_stream_of_chunks_reaches_a_client_of_messages() {
    let rig = Scripted::start();
    rig.streams(openai_events(), None);
    let received = rig.call(MESSAGES, &messages());
    assert!(received.is_whole && received.status == 200, "{received:?}");
    assert_eq!(rig.provider_saw(MESSAGES).2["stream_options"], json!({"include_usage": true}));
    let events = events(&received.text());
    for (line, event) in received.text().lines().filter(|line| line.starts_with("event: ")).zip(&events) {
        assert_eq!(line.strip_prefix("event: "), event["type"].as_str());
    }
    let start = json!({"type": "message_start", "message": {"id": "chatcmpl-1", "type": "message", "role": "assistant", "model": "real-gpt",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": events[0]["message"]["usage"]}});
    let block =
        |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let part = |text: &str| json!({"type": "input_json_delta", "partial_json": text});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let expected = [
        start,
        block(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "Hällo"})),
        stop(0),
        block(1, json!({"type": "tool_use", "id": "t1", "name": "look", "input": {}})),
        delta(1, part("{\"at\":")),
        delta(1, part("\"x\"}")),
        stop(1),
        block(2, json!({"type": "tool_use", "id": "t2", "name": "now", "input": {}})),
        delta(2, part("{}")),
        stop(2),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
            "usage": {"input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2, "output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(events, expected);
}

/// Cut behind any event, properly or not: the client has an error, or a stream that is complete, never one that only looks so.
#[test]
fn a_cut_behind_any_event_never_passes_for_an_end() {
    let rig = Scripted::start();
    for (path, call, all, last) in
        [(CHAT, chat(true), anthropic_events(), "[DONE]"), (MESSAGES, messages(), openai_events(), "message_stop")]
    {
        for cut in 0..all.len() {
            let mut sent = all[..cut].to_vec();
            // Half of the next event, sometimes.
            if cut % 2 == 1 {
                sent.push(all[cut][..all[cut].len() / 2].to_owned());
            }
            rig.streams(sent, None);
            let received = rig.call(path, &call);
            let text = received.text();
            let has_end = text.contains(last);
            let has_error = text.contains("\"error\"");
            // The end reason is the provider's word that it has said all.
            let is_complete = all[..cut].iter().any(|event| {
                event.contains("\"stop_reason\":\"tool_use\"") || event.contains("\"finish_reason\":\"tool_calls\"")
            }) && cut % 2 == 0;
            if received.status == 200 {
                assert_eq!((has_end, has_error), (is_complete, !is_complete), "{path} cut behind {cut}: {text}");
                assert!(received.is_whole, "{path} cut behind {cut}");
            } else {
                assert_eq!(received.status, 502, "{path} cut behind {cut}: {text}");
            }
        }
    }
}

#[test]
fn an_end_reason_that_nobody_knows_is_an_error_event() {
    let rig = Scripted::start();
    let mut strange = anthropic_events();
    for event in &mut strange {
        *event = event.replace("\"stop_reason\":\"tool_use\"", "\"stop_reason\":\"pause_turn\"");
    }
    rig.streams(strange, None);
    let text = rig.call(CHAT, &chat(false)).text();
    assert!(
        text.contains("\"code\":\"upstream_") && !text.contains("[DONE]") && !text.contains("finish_reason\":\""),
        "{text}"
    );
    let mut strange = openai_events();
    for event in &mut strange {
        *event = event.replace("\"finish_reason\":\"tool_calls\"", "\"finish_reason\":\"strange\"");
    }
    rig.streams(strange, None);
    let text = rig.call(MESSAGES, &messages()).text();
    assert!(
        text.contains("event: error\n") && !text.contains("message_stop") && !text.contains("message_delta\""),
        "{text}"
    );
}

/// The provider reports an error in its stream: the client gets one in its own form, and nothing behind it.
#[test]
fn an_error_event_changes_its_form() {
    let rig = Scripted::start();
    let mut broken = anthropic_events()[..4].to_vec();
    broken.push(named(
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "secret-of-the-account"}}),
    ));
    rig.streams(broken, None);
    let text = rig.call(CHAT, &chat(false)).text();
    let last = events(&text).pop().unwrap();
    assert_eq!(
        (&last["error"]["type"], &last["error"]["code"]),
        (&json!("server_error"), &json!("upstream_error")),
        "{text}"
    );
    assert!(!text.contains("secret-of-the-account") && !text.contains("[DONE]"), "{text}");
    let mut broken = openai_events()[..2].to_vec();
    broken.push(chunk(json!({"error": {"message": "secret-of-the-account", "type": "server_error", "code": 500}})));
    broken.push("data: [DONE]\n\n".to_owned());
    rig.streams(broken, None);
    let text = rig.call(MESSAGES, &messages()).text();
    let last = events(&text).pop().unwrap();
    assert_eq!((&last["type"], &last["error"]["type"]), (&json!("error"), &json!("api_error")), "{text}");
    assert!(!text.contains("secret-of-the-account") && !text.contains("message_stop"), "{text}");
}

/// Thinking has no equivalent: named where it comes before the head, left out in any case.
#[test]
fn reasoning_is_left_out_and_named() {
    let rig = Scripted::start();
    let mut thinking = anthropic_events();
    let block = named(
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
    );
    let delta = named(
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
    );
    thinking.splice(1..1, [block, delta, named(json!({"type": "content_block_stop", "index": 0}))]);
    rig.streams(thinking, None);
    let received = rig.call(CHAT, &chat(false));
    assert_eq!(received.field("x-weir-dropped"), Some("thinking"), "{received:?}");
    let steps: Vec<String> = events(&received.text()).iter().map(as_steps).collect();
    assert_eq!(steps, AS_CHUNKS);
}

/// Every event that has a meaning for the client leaves before the next one comes.
#[test]
fn events_are_not_held_back() {
    let rig = Scripted::start();
    for (path, call, all) in [(CHAT, chat(false), anthropic_events()), (MESSAGES, messages(), openai_events())] {
        let gate = Gate::new();
        rig.streams(all.clone(), Some(gate.clone()));
        let body = call.to_string();
        let mut stream = TcpStream::connect(rig.weir.addr()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
        let mut seen = String::new();
        let mut until = |seen: &mut String, wanted: &str| {
            let mut buffer = [0; 4096];
            while !seen.contains(wanted) {
                let read =
                    stream.read(&mut buffer).unwrap_or_else(|error| panic!("{path}: {error} before {wanted}: {seen}"));
                assert!(read > 0, "{path}: the end before {wanted}: {seen}");
                seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        };
        let wanted = ["Hällo", "\"t1\"", "{\\\"at\\\":", "\\\"x\\\"}"];
        let mut next = 0;
        for event in &all {
            gate.release();
            while next < wanted.len() && event.contains(wanted[next]) {
                until(&mut seen, wanted[next]);
                next += 1;
            }
        }
        assert_eq!(next, wanted.len());
        until(&mut seen, "0\r\n\r\n");
    }
}
