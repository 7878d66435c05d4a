//! Calls at providers that speak the other API: what they get, and what the client gets, whole and event by event.

use serde_json::{Value, json};

use crate::scripted::{CHAT, MESSAGES, Scripted};

/// An exchange of messages with all that has an equivalent, as a client of OpenAI's chat writes it.
fn as_chat() -> Value {
    json!({"model": "claude",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}]},
            {"role": "assistant", "content": "I look.", "annotations": [], "refusal": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":\"x\"}"}},
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": ""}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "a dog"}]},
            {"role": "user", "content": "Which?"}],
        "tools": [{"type": "function", "function": {"name": "look", "description": "looks", "parameters": {"type": "object"}}}],
        "tool_choice": "required", "parallel_tool_calls": false, "max_completion_tokens": 9, "temperature": 0.5, "stop": "END",
        "user": "u1", "metadata": {"a": "b"}})
}

/// The same as a client of Anthropic's writes it.
fn as_messages() -> Value {
    json!({"model": "gpt", "max_tokens": 9, "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is it?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}}, {"type": "tool_use", "id": "c2", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a cat"}]},
                {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "a dog"}]}, {"type": "text", "text": "Which?"}]}],
        "tools": [{"name": "look", "description": "looks", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true}, "temperature": 0.5, "stop_sequences": ["END"],
        "metadata": {"user_id": "u1"}})
}

fn as_message(content: Value, stop_reason: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "real-claude", "content": content, "stop_reason": stop_reason,
        "stop_sequence": null, "usage": {"input_tokens": 3, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 5}})
}

fn as_completion(message: Value, finish_reason: &str) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "real-gpt",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 6, "completion_tokens": 5, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1}}})
}

#[test]
fn a_client_of_chat_at_a_provider_of_messages() {
    let rig = Scripted::start();
    let blocks = json!([{"type": "text", "text": "Both."}, {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "y"}},
        {"type": "tool_use", "id": "t2", "name": "look", "input": {}}]);
    rig.says(200, &as_message(blocks, "tool_use"));
    let received = rig.call(CHAT, &as_chat());
    let (target, head, sent) = rig.provider_saw(CHAT);
    let mut expected = as_messages();
    expected["model"] = "real-claude".into();
    assert_eq!((target.as_str(), sent), ("/v1/messages", expected));
    assert!(
        head.contains("x-api-key: sk-ant-0123456789\r\n") && head.contains("anthropic-version: 2023-06-01\r\n"),
        "{head}"
    );
    assert!(!head.contains("authorization") && !head.contains("client"), "{head}");

    assert_eq!(received.status, 200, "{received:?}");
    assert_eq!(received.field("x-weir-model"), Some("anthropic/real-claude"));
    let mut dropped: Vec<&str> = received.field("x-weir-dropped").unwrap_or_default().split(", ").collect();
    dropped.sort_unstable();
    assert_eq!(dropped, ["detail", "metadata"]);
    let mut body = received.json();
    assert!(body["created"].take().as_u64() > Some(1_700_000_000));
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}});
    let message = json!({"role": "assistant", "content": "Both.", "refusal": null,
        "tool_calls": [call("t1", "{\"at\":\"y\"}"), call("t2", "{}")]});
    let mut expected = as_completion(message, "tool_calls");
    (expected["id"], expected["model"], expected["created"]) = ("msg_1".into(), "real-claude".into(), Value::Null);
    assert_eq!(body, expected);
}

#[test]
fn a_client_of_messages_at_a_provider_of_chat() {
    let rig = Scripted::start();
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}});
    let message = json!({"role": "assistant", "content": "Both.", "refusal": null, "annotations": [],
        "tool_calls": [call("t1", "{\"at\":\"y\"}"), call("t2", "{}")]});
    // OpenAI says `stop` where a call was forced.
    rig.says(200, &as_completion(message, "stop"));
    let received = rig.call(MESSAGES, &as_messages());
    let (target, head, sent) = rig.provider_saw(MESSAGES);
    let mut expected = as_chat();
    for (name, value) in [("model", json!("real-gpt")), ("stop", json!(["END"]))] {
        expected[name] = value;
    }
    let members = expected.as_object_mut().unwrap();
    members.remove("metadata");
    let messages = members["messages"].as_array_mut().unwrap();
    messages[1]["content"][1]["image_url"].as_object_mut().unwrap().remove("detail");
    messages[2] = json!({"role": "assistant", "content": "I look.", "tool_calls": [call("c1", "{\"at\":\"x\"}"), call("c2", "{}")]});
    messages[2]["tool_calls"][0]["function"]["name"] = "look".into();
    messages[4]["content"] = "a dog".into();
    assert_eq!((target.as_str(), &sent), ("/v1/chat/completions", &expected));
    assert!(head.contains("authorization: bearer sk-openai-0123456789\r\n"), "{head}");
    assert!(!head.contains("anthropic-version") && !head.contains("bearer client"), "{head}");

    assert_eq!((received.status, received.field("x-weir-dropped")), (200, None), "{received:?}");
    let blocks = json!([{"type": "text", "text": "Both."}, {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "y"}},
        {"type": "tool_use", "id": "t2", "name": "look", "input": {}}]);
    let mut expected = as_message(blocks, "tool_use");
    (expected["id"], expected["model"]) = ("chatcmpl-1".into(), "real-gpt".into());
    assert_eq!(received.json(), expected);
}

/// Models fill members in the order of the schema.
#[test]
fn schemas_keep_the_order_of_their_members() {
    let rig = Scripted::start();
    rig.says(200, &as_completion(json!({"role": "assistant", "content": "{}"}), "stop"));
    let schema = r#"{"type":"object","properties":{"thoughts":{"type":"string"},"answer":{"type":"string"}}}"#;
    let body = format!(
        r#"{{"model":"gpt","max_tokens":5,"messages":[{{"role":"user","content":"a"}}],"tools":[{{"name":"f","input_schema":{schema}}}],
        "output_config":{{"format":{{"type":"json_schema","schema":{schema}}}}}}}"#
    );
    assert_eq!(crate::client::post(rig.weir.addr(), MESSAGES, &body).status, 200);
    let sent = rig.openai_bytes();
    assert_eq!(sent.matches(schema).count(), 2, "{sent}");
}

#[test]
fn end_reasons_and_what_is_none() {
    let rig = Scripted::start();
    let text = || json!([{"type": "text", "text": "a"}]);
    for (stop_reason, finish_reason) in [
        ("end_turn", Some("stop")),
        ("stop_sequence", Some("stop")),
        ("max_tokens", Some("length")),
        ("model_context_window_exceeded", Some("length")),
        ("refusal", Some("content_filter")),
        ("pause_turn", None),
        ("strange", None),
    ] {
        rig.says(200, &as_message(text(), stop_reason));
        let received = rig.call(CHAT, &json!({"model": "claude", "messages": [{"role": "user", "content": "a"}]}));
        match finish_reason {
            Some(reason) => assert_eq!(received.json()["choices"][0]["finish_reason"], reason, "{stop_reason}"),
            None => assert_eq!(
                (received.status, &received.json()["error"]["code"]),
                (502, &json!("upstream_malformed")),
                "{stop_reason}"
            ),
        }
        assert_eq!(rig.provider_saw(CHAT).2["max_tokens"], 512, "the candidate's limit");
    }
    let message = || json!({"role": "assistant", "content": "a"});
    for (finish_reason, stop_reason) in [
        ("stop", Some("end_turn")),
        ("length", Some("max_tokens")),
        ("content_filter", Some("refusal")),
        ("strange", None),
    ] {
        rig.says(200, &as_completion(message(), finish_reason));
        let received = rig
            .call(MESSAGES, &json!({"model": "gpt", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}]}));
        match stop_reason {
            Some(reason) => assert_eq!(received.json()["stop_reason"], reason, "{finish_reason}"),
            None => assert_eq!(
                (received.status, &received.json()["error"]["type"]),
                (502, &json!("api_error")),
                "{finish_reason}"
            ),
        }
    }
}

/// What a provider refuses is refused in the client's form, with the provider's status and words; its account stays unseen.
#[test]
fn errors_have_the_form_of_the_client() {
    let rig = Scripted::start();
    let chat = json!({"model": "claude", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}]});
    let messages = json!({"model": "gpt", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}]});
    for (status, words, openai, anthropic) in [
        (400, Some("temperature: too hot"), (400, "invalid_request_error"), (400, "invalid_request_error")),
        (422, Some("a member is wrong"), (422, "invalid_request_error"), (422, "invalid_request_error")),
        (
            400,
            Some("prompt is too long: 9 tokens > 8 maximum"),
            (400, "invalid_request_error"),
            (400, "invalid_request_error"),
        ),
        (413, Some("too large"), (413, "invalid_request_error"), (413, "request_too_large")),
        (401, None, (502, "server_error"), (502, "api_error")),
        (403, None, (502, "server_error"), (502, "api_error")),
        (404, None, (502, "server_error"), (502, "api_error")),
        (429, None, (429, "rate_limit_error"), (429, "rate_limit_error")),
        (500, Some("it broke"), (500, "server_error"), (500, "api_error")),
        (503, None, (503, "server_error"), (529, "overloaded_error")),
        (529, None, (503, "server_error"), (529, "overloaded_error")),
    ] {
        let said = words.unwrap_or("org-of-the-account");
        for streams in [false, true] {
            // The client's weir is new: a fault rests keys.
            let rig = if status < 500 && words.is_some() { &rig } else { &Scripted::start() };
            let with = |call: &Value| {
                let mut call = call.clone();
                call["stream"] = streams.into();
                call
            };
            rig.says(
                status,
                &json!({"type": "error", "error": {"type": "some_error", "message": said}, "request_id": "req_1"}),
            );
            let received = rig.call(CHAT, &with(&chat));
            let error = received.json()["error"].clone();
            assert_eq!((received.status, error["type"].as_str().unwrap()), openai, "{status} {received:?}");
            assert_eq!(error["message"].as_str().unwrap().contains(said), words.is_some(), "{status} {error}");
            rig.says(status, &json!({"error": {"type": "some_error", "message": said, "param": null, "code": null}}));
            let received = rig.call(MESSAGES, &with(&messages));
            let body = received.json();
            assert_eq!((received.status, body["error"]["type"].as_str().unwrap()), anthropic, "{status} {received:?}");
            assert_eq!(body["type"], "error", "{body}");
            assert_eq!(body["error"]["message"].as_str().unwrap().contains(said), words.is_some(), "{status} {body}");
        }
    }
}

#[test]
fn what_has_no_equivalent_is_refused_and_named() {
    let rig = Scripted::start();
    let user = json!({"role": "user", "content": "a"});
    let mut cases: Vec<(&str, String, Value)> = Vec::new();
    for (name, value) in [
        ("n", json!(2)),
        ("seed", json!(1)),
        ("logprobs", json!(true)),
        ("frequency_penalty", json!(0.5)),
        ("logit_bias", json!({"1": 1})),
        ("temperature", json!(1.5)),
        ("response_format", json!({"type": "json_object"})),
        ("store", json!(true)),
        ("member_of_tomorrow", json!(1)),
    ] {
        let mut body = json!({"model": "claude", "messages": [user]});
        body[name] = value;
        cases.push((CHAT, name.to_owned(), body));
    }
    let audio =
        json!({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]});
    cases.push((CHAT, "messages[0].content[0].type".into(), json!({"model": "claude", "messages": [audio]})));
    for (name, value) in [("top_k", json!(5)), ("container", json!("c")), ("member_of_tomorrow", json!(1))] {
        let mut body = json!({"model": "gpt", "max_tokens": 5, "messages": [user]});
        body[name] = value;
        cases.push((MESSAGES, name.to_owned(), body));
    }
    let hosted = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    cases.push((
        MESSAGES,
        "tools[0].type".into(),
        json!({"model": "gpt", "max_tokens": 5, "messages": [user], "tools": hosted}),
    ));
    let document = json!({"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "x"}}]});
    cases.push((
        MESSAGES,
        "messages[0].content[0].type".into(),
        json!({"model": "gpt", "max_tokens": 5, "messages": [document]}),
    ));
    for (path, member, mut body) in cases {
        for streams in [false, true] {
            body["stream"] = streams.into();
            let received = rig.call(path, &body);
            assert_eq!(
                (received.status, received.field("x-should-retry")),
                (400, Some("false")),
                "{member} {received:?}"
            );
            let error = received.json()["error"].clone();
            assert!(error["message"].as_str().unwrap().contains(&format!("'{member}'")), "{member} {error}");
            if path == CHAT {
                assert_eq!((&error["param"], &error["code"]), (&json!(member), &json!("unsupported_member")));
            }
        }
    }
    for path in ["/v1/completions", "/v1/embeddings", "/v1/responses"] {
        let received = rig.call(path, &json!({"model": "claude", "prompt": "a", "input": "a"}));
        assert_eq!((received.status, &received.json()["error"]["code"]), (400, &json!("unsupported_api")), "{path}");
    }
    assert_eq!(rig.count(), 0, "no provider was called");
}
