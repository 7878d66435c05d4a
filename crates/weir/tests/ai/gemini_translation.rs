//! Gemini's API at one side, OpenAI's or Anthropic's at the other: what providers get, and what clients get, whole and event by event.

use serde_json::{Value, json};
use testkit::{DEADLINE, Gate, wait};

use crate::client::{Received, send};
use crate::judge::{TEXT, Verdict, judge};
use crate::rig::Provider;
use crate::scripted::{CHAT, GEMINI, MESSAGES, Scripted, chunk, events, named};

const SIGNATURE: &str = "CiIBVKhc7vB+vaaq6rA/KC79Ts7iXagIOA4EBOyBFDpl+pxPCg==";

fn chat(streams: bool) -> Value {
    json!({"model": "gemini", "stream": streams, "messages": [{"role": "user", "content": "a"}]})
}

fn messages(streams: bool) -> Value {
    json!({"model": "gemini", "stream": streams, "max_tokens": 50, "messages": [{"role": "user", "content": "a"}]})
}

/// A client of Gemini's API at a model of another one.
fn generate(rig: &Scripted, model: &str, method: &str, body: &Value) -> Received {
    send(
        rig.weir.addr(),
        "POST",
        &format!("{GEMINI}{model}:{method}"),
        &[("x-goog-api-key", "client")],
        &body.to_string(),
    )
}

fn prompt() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "a"}]}], "generationConfig": {"maxOutputTokens": 50}})
}

fn response(parts: Value, end: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(reason) = end {
        candidate["finishReason"] = reason.into();
    }
    json!({"candidates": [candidate], "modelVersion": "gemini-3-real", "responseId": "r1",
        "usageMetadata": {"promptTokenCount": 6, "candidatesTokenCount": 4, "thoughtsTokenCount": 1, "cachedContentTokenCount": 2, "totalTokenCount": 11}})
}

fn calls() -> Value {
    json!([{"text": "hm", "thought": true}, {"text": "Both."},
        {"functionCall": {"name": "look", "args": {"at": "y"}}, "thoughtSignature": SIGNATURE}, {"functionCall": {"id": "fc2", "name": "now"}}])
}

/// Thoughts, text in two parts, calls, and an end.
fn gemini_events() -> Vec<String> {
    let parts = calls();
    let said = |part: Value| chunk(response(json!([part]), None));
    vec![
        said(parts[0].clone()),
        said(json!({"text": "Hällo"})),
        said(json!({"text": " you"})),
        chunk(response(json!([parts[2], parts[3]]), None)),
        chunk(response(json!([{"text": ""}]), Some("STOP"))),
    ]
}

#[test]
fn a_client_of_chat_at_a_provider_of_gemini() {
    let rig = Scripted::start();
    rig.says(200, &response(calls(), Some("STOP")));
    let first = rig.call(CHAT, &chat(false));
    let (target, head, sent) = rig.api_saw(GEMINI);
    assert_eq!(target, "/v1beta/models/gemini-3-real:generateContent");
    assert!(
        head.contains("x-goog-api-key: goog-0123456789\r\n") && head.contains("content-type: application/json\r\n"),
        "{head}"
    );
    assert!(!head.contains("authorization") && !head.contains("bearer"), "{head}");
    assert_eq!(sent, json!({"contents": [{"role": "user", "parts": [{"text": "a"}]}]}));

    assert_eq!((first.status, first.field("x-weir-model")), (200, Some("google/gemini-3-real")), "{first:?}");
    assert_eq!(first.field("x-weir-dropped"), Some("thought"));
    let body = first.json();
    assert!(body["created"].as_u64() > Some(1_700_000_000));
    assert_eq!(
        (&body["id"], &body["model"], &body["choices"][0]["finish_reason"]),
        (&json!("r1"), &json!("gemini-3-real"), &json!("tool_calls"))
    );
    let usage = json!({"prompt_tokens": 6, "completion_tokens": 5, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1}});
    assert_eq!(body["usage"], usage);
    let said = &body["choices"][0]["message"];
    assert_eq!(said["content"], "Both.");
    let ids: Vec<&str> = (0..2).map(|i| said["tool_calls"][i]["id"].as_str().unwrap()).collect();
    assert!(ids[0].starts_with("wg1_") && ids[1] == "fc2", "{ids:?}");
    assert_eq!(said["tool_calls"][0]["function"], json!({"name": "look", "arguments": "{\"at\":\"y\"}"}));

    // The next request: the signature is where it was, and the results have their names.
    let mut next = chat(false);
    let history = next["messages"].as_array_mut().unwrap();
    history.push(said.clone());
    history.push(json!({"role": "tool", "tool_call_id": ids[0], "content": "a cat"}));
    history.push(json!({"role": "tool", "tool_call_id": ids[1], "content": "noon"}));
    next["user"] = "u1".into();
    next["tool_choice"] = "required".into();
    rig.says(200, &response(json!([{"text": "A cat at noon."}]), Some("STOP")));
    let second = rig.call(CHAT, &next);
    assert_eq!(second.json()["choices"][0]["message"]["content"], "A cat at noon.", "{second:?}");
    assert_eq!(second.field("x-weir-dropped"), Some("user"));
    let (.., sent) = rig.api_saw(GEMINI);
    let made = &sent["contents"][1]["parts"][1]["functionCall"]["id"];
    assert!(made.as_str().unwrap().starts_with("call_"), "{sent}");
    assert_eq!(
        sent,
        json!({"contents": [{"role": "user", "parts": [{"text": "a"}]},
            {"role": "model", "parts": [{"text": "Both."}, {"functionCall": {"id": made, "name": "look", "args": {"at": "y"}}, "thoughtSignature": SIGNATURE},
                {"functionCall": {"id": "fc2", "name": "now", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": made, "name": "look", "response": {"result": "a cat"}}},
                {"functionResponse": {"id": "fc2", "name": "now", "response": {"result": "noon"}}}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}})
    );
}

#[test]
fn a_client_of_messages_at_a_provider_of_gemini() {
    let rig = Scripted::start();
    rig.says(200, &response(calls(), Some("STOP")));
    let first = rig.call(MESSAGES, &messages(false));
    let (target, head, sent) = rig.api_saw(GEMINI);
    assert_eq!(target, "/v1beta/models/gemini-3-real:generateContent");
    assert!(head.contains("x-goog-api-key: goog-0123456789\r\n") && !head.contains("anthropic-version"), "{head}");
    assert_eq!(sent, prompt());
    assert_eq!((first.status, first.field("x-weir-dropped")), (200, Some("thought")), "{first:?}");
    let body = first.json();
    let id = body["content"][1]["id"].clone();
    assert!(id.as_str().unwrap().starts_with("wg1_"), "{body}");
    assert_eq!(
        body,
        json!({"id": "r1", "type": "message", "role": "assistant", "model": "gemini-3-real", "content": [
            {"type": "text", "text": "Both."}, {"type": "tool_use", "id": id, "name": "look", "input": {"at": "y"}},
            {"type": "tool_use", "id": "fc2", "name": "now", "input": {}}], "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {"input_tokens": 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2, "output_tokens": 5}})
    );
    let mut next = messages(false);
    let history = next["messages"].as_array_mut().unwrap();
    history.push(json!({"role": "assistant", "content": body["content"]}));
    history.push(json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": id, "content": "no cat", "is_error": true}, {"type": "tool_result", "tool_use_id": "fc2", "content": "noon"},
        {"type": "text", "text": "Well?"}]}));
    assert_eq!(rig.call(MESSAGES, &next).status, 200);
    let (.., sent) = rig.api_saw(GEMINI);
    assert_eq!(sent["contents"][1]["parts"][1]["thoughtSignature"], SIGNATURE);
    assert_eq!(sent["contents"][2]["parts"][0]["functionResponse"]["response"], json!({"error": "no cat"}));
    assert_eq!(sent["contents"][3], json!({"role": "user", "parts": [{"text": "Well?"}]}));
}

#[test]
fn a_stream_of_gemini_reaches_clients_event_by_event() {
    let rig = Scripted::start();
    for usage in [false, true] {
        rig.streams(gemini_events(), None);
        let mut call = chat(true);
        if usage {
            call["stream_options"] = json!({"include_usage": true});
        }
        let received = rig.call(CHAT, &call);
        assert!(received.is_whole && received.status == 200, "{received:?}");
        assert_eq!(rig.api_saw(GEMINI).0, "/v1beta/models/gemini-3-real:streamGenerateContent?alt=sse");
        assert_eq!(received.field("x-weir-dropped"), Some("thought"));
        let events = events(&received.text());
        let deltas: Vec<&Value> = events.iter().map(|event| &event["choices"][0]["delta"]).collect();
        assert_eq!(
            (&deltas[0]["role"], &deltas[1]["content"], &deltas[2]["content"]),
            (&json!("assistant"), &json!("Hällo"), &json!(" you"))
        );
        let call = |i: usize| &deltas[i]["tool_calls"][0];
        assert!(call(3)["id"].as_str().unwrap().starts_with("wg1_"), "{events:?}");
        assert_eq!(
            call(4),
            &json!({"index": 1, "id": "fc2", "type": "function", "function": {"name": "now", "arguments": "{}"}})
        );
        assert_eq!(events[5]["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(events.last(), Some(&json!("[DONE]")));
        assert_eq!(events.len(), if usage { 8 } else { 7 });
        if usage {
            assert_eq!((&events[6]["choices"], &events[6]["usage"]["completion_tokens"]), (&json!([]), &json!(5)));
        }
    }
    rig.streams(gemini_events(), None);
    let received = rig.call(MESSAGES, &messages(true));
    assert!(received.is_whole && received.status == 200, "{received:?}");
    let events = events(&received.text());
    let kinds: Vec<&str> =
        events.iter().map(|event| event["type"].as_str().unwrap().trim_start_matches("content_block_")).collect();
    let expected = [
        "message_start",
        "start",
        "delta",
        "delta",
        "stop",
        "start",
        "delta",
        "stop",
        "start",
        "delta",
        "stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(events[6]["delta"]["partial_json"], "{\"at\":\"y\"}");
    assert_eq!(
        (&events[11]["delta"]["stop_reason"], &events[11]["usage"]["output_tokens"]),
        (&json!("tool_use"), &json!(5))
    );
}

/// Each event leaves as it comes: nothing but the end waits for the end.
#[test]
fn text_does_not_wait_for_more() {
    use std::io::{Read, Write};
    let rig = Scripted::start();
    for (path, body) in [(CHAT, chat(true)), (MESSAGES, messages(true))] {
        let gate = Gate::new();
        rig.streams(gemini_events(), Some(gate.clone()));
        let body = body.to_string();
        let mut stream = std::net::TcpStream::connect(rig.weir.addr()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut seen = String::new();
        for (event, wanted) in ["", "Hällo", " you", "fc2"].into_iter().enumerate() {
            gate.release();
            while event > 0 && !seen.contains(wanted) {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).unwrap();
                assert!(read > 0, "{seen}");
                seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        }
        assert!(!seen.contains("[DONE]") && !seen.contains("message_stop"), "{seen}");
        gate.open();
    }
}

/// Cut behind any event, properly or not: the client has an error, or a stream that is complete, never one that only looks so.
#[test]
fn a_cut_behind_any_event_never_passes_for_an_end() {
    let rig = Scripted::start();
    let gemini = |model: &str| format!("{GEMINI}{model}:streamGenerateContent?alt=sse");
    for (path, call, all, last) in [
        (CHAT.to_owned(), chat(true), gemini_events(), "[DONE]"),
        (MESSAGES.to_owned(), messages(true), gemini_events(), "message_stop"),
        (gemini("gpt"), prompt(), openai_events(), "finishReason"),
        (gemini("claude"), prompt(), anthropic_events(), "finishReason"),
    ] {
        for cut in 0..all.len() {
            let mut sent = all[..cut].to_vec();
            // Half of the next event, sometimes.
            if cut % 2 == 1 {
                sent.push(all[cut][..all[cut].len() / 2].to_owned());
            }
            rig.streams(sent, None);
            let received = rig.call(&path, &call);
            let text = received.text();
            let is_complete = cut % 2 == 0
                && all[..cut].iter().any(|event| {
                    ["\"finishReason\":\"", "\"finish_reason\":\"", "\"stop_reason\":\"e"]
                        .iter()
                        .any(|end| event.contains(end))
                });
            if received.status == 200 {
                assert_eq!(
                    (text.contains(last), text.contains("\"error\"")),
                    (is_complete, !is_complete),
                    "{path} cut behind {cut}: {text}"
                );
                assert!(received.is_whole, "{path} cut behind {cut}");
            } else {
                assert!(received.status == 502 && !is_complete, "{path} cut behind {cut}: {text}");
            }
        }
    }
}

/// The first event that is content has no meaning for the client: nothing has been sent, so the attempt fails like any other.
#[test]
fn a_first_event_without_a_meaning_is_a_bad_gateway() {
    let rig = Scripted::start();
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search"}});
    let image = response(json!([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]), None);
    for (model, first) in
        [("claude", named(block)), ("gemini", chunk(image)), ("gemini", chunk(response(json!([]), Some("OTHER"))))]
    {
        rig.streams(vec![first], None);
        let mut call = chat(true);
        call["model"] = model.into();
        let received = rig.call(CHAT, &call);
        assert_eq!(
            (received.status, &received.json()["error"]["code"]),
            (502, &json!("upstream_malformed")),
            "{model}"
        );
    }
}

/// A prompt that Gemini refuses is a 200 there, and a 400 in the other APIs.
#[test]
fn a_refused_prompt_is_a_bad_request() {
    let rig = Scripted::start();
    let refused = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 3}, "modelVersion": "m"});
    for streams in [false, true] {
        if streams {
            rig.streams(vec![chunk(refused.clone())], None);
        } else {
            rig.says(200, &refused);
        }
        let received = rig.call(CHAT, &chat(streams));
        let error = received.json()["error"].clone();
        assert_eq!(
            (received.status, &error["code"], &error["type"]),
            (400, &json!("content_filter"), &json!("invalid_request_error"))
        );
        assert_eq!(received.field("x-should-retry"), Some("false"), "{received:?}");
        let received = rig.call(MESSAGES, &messages(streams));
        assert_eq!((received.status, &received.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    }
    // What the model said until then was said.
    let mut late = gemini_events()[..2].to_vec();
    late.push(chunk(refused));
    rig.streams(late, None);
    let text = rig.call(CHAT, &chat(true)).text();
    assert!(text.contains("\"finish_reason\":\"content_filter\"") && text.contains("[DONE]"), "{text}");
}

#[test]
fn end_reasons_and_what_is_none() {
    let rig = Scripted::start();
    for (reason, finish, stop) in [
        ("STOP", Some("stop"), "end_turn"),
        ("MAX_TOKENS", Some("length"), "max_tokens"),
        ("SAFETY", Some("content_filter"), "refusal"),
        ("MALFORMED_FUNCTION_CALL", None, ""),
        ("strange", None, ""),
    ] {
        rig.says(200, &response(json!([{"text": "a"}]), Some(reason)));
        let (chat, messages) = (rig.call(CHAT, &chat(false)), rig.call(MESSAGES, &messages(false)));
        match finish {
            Some(finish) => {
                assert_eq!(chat.json()["choices"][0]["finish_reason"], finish, "{reason}");
                assert_eq!(messages.json()["stop_reason"], stop, "{reason}");
            }
            None => assert_eq!((chat.status, messages.status), (502, 502), "{reason}"),
        }
    }
}

/// What a provider refuses is refused in the client's form, with the provider's status and words; its account stays unseen.
#[test]
fn errors_have_the_form_of_the_client() {
    for (status, name, words, openai, anthropic) in [
        (
            400,
            "INVALID_ARGUMENT",
            Some("temperature: too hot"),
            (400, "invalid_request_error"),
            (400, "invalid_request_error"),
        ),
        (401, "UNAUTHENTICATED", None, (502, "server_error"), (502, "api_error")),
        (403, "PERMISSION_DENIED", None, (502, "server_error"), (502, "api_error")),
        (404, "NOT_FOUND", None, (502, "server_error"), (502, "api_error")),
        (429, "RESOURCE_EXHAUSTED", None, (429, "rate_limit_error"), (429, "rate_limit_error")),
        (500, "INTERNAL", Some("it broke"), (500, "server_error"), (500, "api_error")),
        (503, "UNAVAILABLE", None, (503, "server_error"), (529, "overloaded_error")),
    ] {
        let said = words.unwrap_or("org-of-the-account");
        for streams in [false, true] {
            for (path, body, expected) in [(CHAT, chat(streams), openai), (MESSAGES, messages(streams), anthropic)] {
                // A fault rests keys.
                let rig = Scripted::start();
                rig.says(status, &json!({"error": {"code": status, "message": said, "status": name}}));
                let received = rig.call(path, &body);
                let error = received.json()["error"].clone();
                assert_eq!((received.status, error["type"].as_str().unwrap()), expected, "{status} {received:?}");
                assert_eq!(error["message"].as_str().unwrap().contains(said), words.is_some(), "{status} {error}");
            }
        }
    }
    // The other way round.
    let rig = Scripted::start();
    rig.says(
        400,
        &json!({"error": {"message": "too hot", "type": "invalid_request_error", "param": null, "code": null}}),
    );
    let received = generate(&rig, "gpt", "generateContent", &prompt());
    assert_eq!(received.json()["error"], json!({"code": 400, "message": "too hot", "status": "INVALID_ARGUMENT"}));
    rig.says(529, &json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}));
    let received = generate(&rig, "claude", "generateContent", &prompt());
    assert_eq!((received.status, &received.json()["error"]["status"]), (503, &json!("UNAVAILABLE")));
}

#[test]
fn what_has_no_equivalent_is_refused_and_named() {
    let rig = Scripted::start();
    for (name, value) in [
        ("logprobs", json!(true)),
        ("logit_bias", json!({"1": 1})),
        ("store", json!(true)),
        ("reasoning_effort", json!("max")),
        ("member_of_tomorrow", json!(1)),
    ] {
        for streams in [false, true] {
            let mut body = chat(streams);
            body[name] = value.clone();
            let received = rig.call(CHAT, &body);
            let error = received.json()["error"].clone();
            assert_eq!(
                (received.status, received.field("x-should-retry")),
                (400, Some("false")),
                "{name} {received:?}"
            );
            assert_eq!((&error["param"], &error["code"]), (&json!(name), &json!("unsupported_member")));
        }
    }
    let mut several = chat(true);
    several["n"] = 2.into();
    assert_eq!(rig.call(CHAT, &several).json()["error"]["param"], "n");
    let mut body = messages(false);
    body["top_k"] = 5.into();
    assert!(rig.call(MESSAGES, &body).json()["error"]["message"].as_str().unwrap().contains("'top_k'"));
    let unsafe_prompt = json!({"contents": [], "safetySettings": []});
    for (method, body, member) in [
        ("generateContent", &unsafe_prompt, "'safetySettings'"),
        // An array is passed as bytes only.
        ("streamGenerateContent", &prompt(), "alt=sse"),
    ] {
        for model in ["gpt", "claude"] {
            let received = generate(&rig, model, method, body);
            let error = received.json()["error"].clone();
            assert_eq!((received.status, &error["status"]), (400, &json!("INVALID_ARGUMENT")), "{received:?}");
            assert!(error["message"].as_str().unwrap().contains(member), "{error}");
        }
    }
    for path in ["/v1/completions", "/v1/embeddings", "/v1/responses"] {
        let received = rig.call(path, &json!({"model": "gemini", "prompt": "a", "input": "a"}));
        assert_eq!((received.status, &received.json()["error"]["code"]), (400, &json!("unsupported_api")), "{path}");
    }
    assert_eq!(rig.count(), 0, "no provider was called");
}

/// Text, a call in pieces, and an end, as OpenAI sends them.
fn openai_events() -> Vec<String> {
    let frame = |delta: Value, reason: Value| {
        chunk(json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "real-gpt",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))
    };
    let call = |id: Value, name: Value, arguments: &str| json!({"tool_calls": [{"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]});
    vec![
        frame(json!({"role": "assistant", "content": ""}), Value::Null),
        frame(json!({"content": "Hällo"}), Value::Null),
        frame(call("t1".into(), "look".into(), ""), Value::Null),
        frame(call(Value::Null, Value::Null, "{\"at\":\"x\"}"), Value::Null),
        frame(json!({}), "tool_calls".into()),
        chunk(
            json!({"id": "chatcmpl-1", "model": "real-gpt", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}}),
        ),
        "data: [DONE]\n\n".to_owned(),
    ]
}

/// Text and an end, as Anthropic sends them.
fn anthropic_events() -> Vec<String> {
    vec![
        named(
            json!({"type": "message_start", "message": {"id": "msg_1", "model": "real-claude", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}}),
        ),
        named(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})),
        named(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hällo"}})),
        named(json!({"type": "content_block_stop", "index": 0})),
        named(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}})),
        named(json!({"type": "message_stop"})),
    ]
}

#[test]
fn a_client_of_gemini_at_other_providers() {
    let rig = Scripted::start();
    let call = json!({"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":\"x\"}"}});
    rig.says(
        200,
        &json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "real-gpt", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": "Hällo", "tool_calls": [call], "refusal": null}, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}}),
    );
    let received = generate(&rig, "gpt", "generateContent", &prompt());
    let (target, head, sent) = rig.api_saw(CHAT);
    assert_eq!(target, "/v1/chat/completions");
    assert!(
        head.contains("authorization: bearer sk-openai-0123456789\r\n") && !head.contains("x-goog-api-key"),
        "{head}"
    );
    assert_eq!(
        sent,
        json!({"model": "real-gpt", "messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 50})
    );
    let whole = json!({"candidates": [{"content": {"parts": [{"text": "Hällo"}, {"functionCall": {"id": "t1", "name": "look", "args": {"at": "x"}}}], "role": "model"},
        "finishReason": "STOP", "index": 0}], "modelVersion": "real-gpt", "responseId": "chatcmpl-1",
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 9, "totalTokenCount": 14}});
    assert_eq!((received.status, received.json()), (200, whole.clone()), "{received:?}");

    rig.streams(openai_events(), None);
    let received = generate(&rig, "gpt", "streamGenerateContent?alt=sse", &prompt());
    let (.., sent) = rig.api_saw(CHAT);
    assert_eq!((&sent["stream"], &sent["stream_options"]["include_usage"]), (&json!(true), &json!(true)));
    let events = events(&received.text());
    assert!(received.is_whole && events.len() == 3, "{events:?}");
    let part = |i: usize| &events[i]["candidates"][0]["content"]["parts"][0];
    assert_eq!((part(0), part(1)), (&json!({"text": "Hällo"}), &whole["candidates"][0]["content"]["parts"][1]));
    assert_eq!(
        (&events[2]["candidates"][0]["finishReason"], &events[2]["usageMetadata"]),
        (&json!("STOP"), &whole["usageMetadata"])
    );

    rig.says(
        200,
        &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "real-claude", "content": [{"type": "text", "text": "Hällo"}],
            "stop_reason": "max_tokens", "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 9}}),
    );
    let received = generate(&rig, "claude", "generateContent", &prompt());
    let (target, head, sent) = rig.api_saw(MESSAGES);
    assert_eq!((target.as_str(), &sent["max_tokens"]), ("/v1/messages", &json!(50)));
    assert!(head.contains("x-api-key: sk-ant-0123456789\r\n") && head.contains("anthropic-version: "), "{head}");
    let body = received.json();
    assert_eq!(
        (&body["candidates"][0]["finishReason"], &body["usageMetadata"]["totalTokenCount"]),
        (&json!("MAX_TOKENS"), &json!(14))
    );
    rig.streams(anthropic_events(), None);
    let received = generate(&rig, "claude", "streamGenerateContent?alt=sse", &prompt());
    let events = crate::scripted::events(&received.text());
    assert_eq!((events.len(), &events[1]["usageMetadata"]["candidatesTokenCount"]), (2, &json!(9)), "{events:?}");
}

/// A provider of OpenAI's API fails before content, one of Gemini's takes its place, with a limit of tokens, keys, health checks and log
/// around: the client sees one response, and is charged for it.
#[test]
fn fallback_to_gemini_before_content() {
    let provider = Provider::start();
    let url = format!("http://{}", provider.address());
    let mut models = String::new();
    // A 500, overloaded, a reset, no content within the timeout, an empty response, an error event before content.
    let faults = [5, 6, 7, 9, 18, 21];
    for fault in faults {
        models.push_str(&format!(
            "  m{fault}: {{candidates: [{{provider: openai, model: sim-f{fault}}}, {{provider: google, model: sim, tier: 2}}], timeouts: {{first_token: 1s}}}}\n"
        ));
    }
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\n\
         limits: {{all: {{unit: output_tokens, algorithm: fixed_window, quota: 1000000, window: 1h, key: global}}, each: {{rate: 1000/s, burst: 1000, key: global}}}}\n\
         upstreams:\n  o: {{targets: [\"{url}\"], eject: none}}\n  g: {{targets: [\"{url}\"], health: {{path: /health, interval: 1s}}}}\n\
         providers:\n  openai: {{api: openai, upstream: o, keys: [sk-openai-0123456789]}}\n  google: {{api: gemini, upstream: g, keys: [goog-0123456789]}}\n\
         models:\n{models}routes: [{{name: ai, match: {{path: /v1/*}}, ai: {{}}, limits: [all, each]}}]\n"
    );
    let weir = testkit::Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let mut served = 0;
    for fault in faults {
        for path in [CHAT, MESSAGES] {
            for streams in [false, true] {
                let mut body = if path == CHAT { chat(streams) } else { messages(streams) };
                body["model"] = format!("m{fault}").into();
                let received =
                    send(weir.addr(), "POST", path, &[("Authorization", "Bearer client")], &body.to_string());
                assert_eq!(judge(path, streams, &received), Verdict::Complete, "F{fault} {path} {received:?}");
                assert_eq!(
                    (received.field("x-weir-model"), received.field("x-fallback")),
                    (Some("google/sim"), Some("google"))
                );
                assert!(received.text().contains(TEXT.split(' ').next().unwrap()));
                served += 1;
            }
        }
    }
    let lines = || -> Vec<Value> {
        let log = weir.stdout();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.map(|line| line["ai"].clone()).filter(Value::is_object).collect()
    };
    wait::until(DEADLINE, "all calls are logged", || lines().len() == served);
    for ai in lines() {
        assert_eq!(
            (&ai["provider"], &ai["tokens_out"], &ai["estimated"]),
            (&json!("google"), &json!(8), &json!(false)),
            "{ai}"
        );
        assert!(ai["tokens_in"].as_u64() > Some(0) && ai["tried"].as_str().unwrap().ends_with("google/sim:ok"), "{ai}");
    }
    // Reserved were 1,024 tokens or 50 each; what remains charged is what Gemini reported.
    let used = || {
        let page: Value = serde_json::from_str(weir.admin_get("/limits?limit=all").text()).unwrap();
        page["limits"][0]["state"]["remaining"].as_u64().map(|remaining| 1_000_000 - remaining)
    };
    wait::until(DEADLINE, "all is settled", || used() == Some(8 * served as u64));
}
