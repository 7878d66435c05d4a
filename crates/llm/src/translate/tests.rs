use super::*;
use crate::Api;
use crate::stream::{BodyEnd, EventReader, EventSplitter, Outcome, StreamState};
use serde_json::json;

fn to_messages(request: &Value) -> Result<Translated, Refused> {
    chat_to_messages(request, "claude", Some(100))
}

/// A chat request with every member of the table that has an equivalent.
fn full_chat() -> Value {
    json!({
        "model": "alias",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
                {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "user", "content": "And?"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": false,
        "max_completion_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["x"],
        "response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": {"type": "object"}, "strict": true}},
        "reasoning_effort": "low",
        "user": "u",
        "stream": true,
        "stream_options": {"include_usage": true}
    })
}

#[test]
fn a_chat_request_becomes_messages() {
    let translated = to_messages(&full_chat()).expect("translated");
    assert_eq!(
        translated.body,
        json!({
            "model": "claude",
            "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "What is it?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "g", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "one"}]},
                    {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "two"}]},
                    {"type": "text", "text": "And?"}]}],
            "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true}],
            "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
            "max_tokens": 50,
            "temperature": 0.5,
            "top_p": 0.9,
            "stop_sequences": ["x"],
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}, "effort": "low"},
            "metadata": {"user_id": "u"},
            "stream": true
        })
    );
    assert_eq!(translated.dropped, Vec::<String>::new());
}

#[test]
fn there_and_back_keeps_every_member_of_the_table() {
    let chat = full_chat();
    let back = messages_to_chat(&to_messages(&chat).expect("there").body, "alias").expect("back");
    assert_eq!(back, Translated { body: chat, dropped: Vec::new() });
    for (name, value) in [
        ("tool_choice", json!("auto")),
        ("tool_choice", json!("none")),
        ("tool_choice", json!("required")),
        ("reasoning_effort", json!("none")),
        ("reasoning_effort", json!("max")),
        ("temperature", json!(0)),
        ("stream", json!(false)),
    ] {
        let mut chat =
            json!({"model": "alias", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 5});
        chat[name] = value;
        let back = messages_to_chat(&to_messages(&chat).expect("there").body, "alias").expect("back");
        assert_eq!(back.body, chat);
    }
}

/// Members of a chat request that no other API can express.
pub(super) fn only_in_chat() -> [(&'static str, Value); 12] {
    [
        ("logprobs", json!(true)),
        ("top_logprobs", json!(2)),
        ("logit_bias", json!({})),
        ("audio", json!({})),
        ("prediction", json!({})),
        ("web_search_options", json!({})),
        ("functions", json!([])),
        ("store", json!(true)),
        ("moderation", json!({})),
        ("verbosity", json!("low")),
        ("service_tier", json!("flex")),
        ("new_member", json!(1)),
    ]
}

#[test]
fn what_has_no_equivalent_is_refused_by_name() {
    let user = json!({"role": "user", "content": "hi"});
    let own = [
        ("seed", json!(1)),
        ("n", json!(2)),
        ("presence_penalty", json!(0.5)),
        ("temperature", json!(1.5)),
        ("reasoning_effort", json!("minimal")),
        ("response_format", json!({"type": "json_object"})),
    ];
    for (name, value) in own.into_iter().chain(only_in_chat()) {
        let mut chat = json!({"messages": [user]});
        chat[name] = value;
        assert_eq!(to_messages(&chat).expect_err(name).member, name);
    }
    for (messages, member) in [
        (json!([user, {"role": "system", "content": "late"}]), "messages[1].role"),
        (json!([{"role": "user", "content": "a", "name": "n"}]), "messages[0].name"),
        (json!([{"role": "user", "content": [{"type": "input_audio"}]}]), "messages[0].content[0].type"),
        (
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AA"}}]}]),
            "messages[0].content[0].image_url.url",
        ),
        (
            json!([{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "[1]"}}]}]),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (json!([{"role": "assistant", "refusal": "no"}]), "messages[0].refusal"),
        (json!([{"role": "function", "content": "x"}]), "messages[0].role"),
        (json!({}), "messages"),
    ] {
        assert_eq!(to_messages(&json!({"messages": messages})).expect_err(member).member, member);
    }
    assert_eq!(
        chat_to_messages(&json!({"messages": [user]}), "m", None).expect_err("no limit").member,
        "max_completion_tokens"
    );
    for (name, value) in
        [("top_k", json!(1)), ("container", json!("c")), ("mcp_servers", json!([])), ("new_member", json!(1))]
    {
        let mut request = json!({"messages": [user], "max_tokens": 5});
        request[name] = value;
        assert_eq!(messages_to_chat(&request, "m").expect_err(name).member, name);
    }
    let tool = json!({"messages": [user], "tools": [{"type": "web_search_20250305", "name": "web_search"}]});
    assert_eq!(messages_to_chat(&tool, "m").expect_err("hosted").member, "tools[0].type");
    let document = json!({"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]});
    assert_eq!(messages_to_chat(&document, "m").expect_err("document").member, "messages[0].content[0].type");
}

/// Models fill members in the order of the schema: thoughts before the verdict.
#[test]
fn schemas_keep_the_order_of_their_members() {
    let schema = r#"{"type":"object","properties":{"thoughts":{"type":"string","description":"d"},"answer":{"items":{"type":"string","enum":["b","a"]},"type":"array"},"1":{"maximum":1.5,"minimum":-2}},"required":["thoughts"],"$defs":{"z":{},"a":null,"{":[{},{"y":1,"x":true}]}}"#;
    let chat = format!(
        r#"{{"max_tokens":5,"messages":[{{"role":"user","content":"a"}}],"response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}},
        "tools":[{{"type":"function","function":{{"parameters":{schema},"name":"f"}}}},{{"type":"function","function":{{"name":"g","parameters":{{"b":1,"a":2,"b":3}}}}}}]}}"#
    );
    let request: Value = serde_json::from_str(&chat).expect("JSON");
    let translated = to_messages(&request).expect("translated").body;
    let text = String::from_utf8(to_text(&translated, chat.as_bytes())).expect("text");
    assert_eq!(text.matches(schema).count(), 2, "{text}");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), translated, "nothing but the order is another");
    // And back.
    let back = messages_to_chat(&translated, "m").expect("translated").body;
    let text = String::from_utf8(to_text(&back, text.as_bytes())).expect("text");
    assert_eq!(text.matches(schema).count(), 2, "{text}");
    // What it cannot read it leaves to the alphabet.
    assert_eq!(to_text(&translated, b"{"), translated.to_string().into_bytes());
}

#[test]
fn hints_are_dropped_and_named() {
    let chat = json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y", "detail": "low"}}]},
        {"role": "assistant", "content": "a", "reasoning_content": "because"}], "metadata": {}, "prompt_cache_key": "k", "verbosity": "medium",
        "service_tier": "auto", "seed": null, "n": 1, "store": false});
    let mut dropped = to_messages(&chat).expect("translated").dropped;
    dropped.sort();
    assert_eq!(dropped, ["detail", "metadata", "prompt_cache_key", "reasoning_content", "service_tier", "verbosity"]);
    let messages = json!({"max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": 1024}, "system": [{"type": "text", "text": "s", "cache_control": {}}],
        "messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "a"}]}]});
    let mut dropped = messages_to_chat(&messages, "m").expect("translated").dropped;
    dropped.sort();
    assert_eq!(dropped, ["cache_control", "thinking"]);
}

#[test]
fn whole_responses_there_and_back() {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [
        {"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 5}});
    let (chat, dropped) = message_response_to_chat(&message, 7).expect("translated");
    assert_eq!(dropped, Vec::<String>::new());
    assert_eq!(chat["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(chat["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
    assert_eq!(
        chat["usage"],
        json!({"prompt_tokens": 60, "completion_tokens": 5, "total_tokens": 65,
        "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20}})
    );
    assert_eq!(chat_response_to_message(&chat).expect("back").0, message);

    for (stop, finish) in [
        ("end_turn", Some("stop")),
        ("stop_sequence", Some("stop")),
        ("max_tokens", Some("length")),
        ("model_context_window_exceeded", Some("length")),
        ("refusal", Some("content_filter")),
        ("pause_turn", None),
        ("strange", None),
    ] {
        let message = json!({"content": [], "stop_reason": stop});
        let chat =
            message_response_to_chat(&message, 0).ok().map(|(chat, _)| chat["choices"][0]["finish_reason"].clone());
        assert_eq!(chat, finish.map(Value::from), "{stop}");
    }
    for (finish, stop) in [
        ("stop", Some("end_turn")),
        ("length", Some("max_tokens")),
        ("content_filter", Some("refusal")),
        ("strange", None),
    ] {
        let chat = json!({"choices": [{"message": {"content": "a"}, "finish_reason": finish}]});
        assert_eq!(
            chat_response_to_message(&chat).ok().map(|(message, _)| message["stop_reason"].clone()),
            stop.map(Value::from),
            "{finish}"
        );
    }
    for (choice, stop) in [
        // a forced call ends with `stop`
        (
            json!({"message": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": ""}}]}, "finish_reason": "stop"}),
            Ok("tool_use"),
        ),
        (
            json!({"message": {"content": "a", "annotations": [], "refusal": null}, "finish_reason": "stop"}),
            Ok("end_turn"),
        ),
        // what has no equivalent is no empty response
        (
            json!({"message": {"content": [{"type": "text", "text": "a"}]}, "finish_reason": "stop"}),
            Err(Untranslatable),
        ),
        (json!({"message": {"audio": {"id": "a"}}, "finish_reason": "stop"}), Err(Untranslatable)),
        (
            json!({"message": {"tool_calls": [{"id": null, "function": {"name": "f", "arguments": ""}}]}, "finish_reason": "stop"}),
            Err(Untranslatable),
        ),
    ] {
        let found = chat_response_to_message(&json!({"choices": [choice]}));
        let found = found.map(|(message, _)| message["stop_reason"].as_str().unwrap_or_default().to_owned());
        assert_eq!(found, stop.map(str::to_owned), "{choice}");
    }
    let half = json!({"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": "{\"a"}}]}, "finish_reason": "tool_calls"}]});
    assert_eq!(chat_response_to_message(&half), Err(Untranslatable));
    assert_eq!(message_response_to_chat(&json!({"error": {}}), 0), Err(Untranslatable));
}

/// The golden stream: what Anthropic's documentation shows for text and a tool call, shortened.
const ANTHROPIC: &str = include_str!("golden/anthropic.sse");
const CHAT: &str = include_str!("golden/anthropic-as-chat.sse");

fn translate(stream: &str, include_usage: bool) -> Result<String, Untranslatable> {
    let (mut splitter, mut translator) = (EventSplitter::new(), MessagesToChatStream::new(7, include_usage));
    let (mut at, mut out) = (0, Vec::new());
    while let Some(piece) = splitter.next(stream.as_bytes(), &mut at) {
        translator.event(piece.bytes, &mut out)?;
    }
    Ok(String::from_utf8(out).expect("text"))
}

/// Compares streams event by event, the data as JSON: the order of members is the writer's. `UPDATE_GOLDEN=1` writes the file.
pub(super) fn golden(name: &str, expected: &str, found: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = format!("{}/src/translate/golden/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, found).expect("the golden file is written");
        return;
    }
    let read = |stream: &str| -> Vec<(String, Value)> {
        let lines = stream.lines().filter(|line| !line.is_empty());
        lines
            .map(|line| match line.strip_prefix("data: ") {
                Some(data) => ("data".to_owned(), serde_json::from_str(data).unwrap_or_else(|_| data.into())),
                None => (line.to_owned(), Value::Null),
            })
            .collect()
    };
    assert_eq!(read(found), read(expected), "{name}");
}

#[test]
fn a_stream_of_messages_becomes_chunks() {
    let chat = translate(ANTHROPIC, true).expect("translated");
    golden("anthropic-as-chat.sse", CHAT, &chat);
    let (mut splitter, mut reader, mut state) =
        (EventSplitter::new(), EventReader::new(Api::Chat), StreamState::new(Api::Chat, 1, false));
    let mut at = 0;
    while let Some(piece) = splitter.next(chat.as_bytes(), &mut at) {
        reader.read(piece.bytes);
        state.event(&reader.finish(), piece.bytes.len() as u64);
    }
    assert_eq!(state.end(BodyEnd::Proper, false), Outcome::Complete { missing: b"" });
    assert_eq!((state.usage().input, state.usage().output), (Some(475), Some(89)));
    let plain = translate(ANTHROPIC, false).expect("translated");
    assert!(!plain.contains("usage"));
    // a cut is never made complete
    let cut = &ANTHROPIC[..ANTHROPIC.find("event: message_delta").expect("an end")];
    let cut = translate(cut, true).expect("translated");
    assert!(!cut.contains("[DONE]") && !cut.contains("finish_reason\":\""));
    for event in [
        "data: {\n\n",
        "data: {\"type\":\"error\"}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"pause_turn\"}}\n\n",
    ] {
        assert_eq!(translate(event, true), Err(Untranslatable), "{event}");
    }
}

fn translate_back(stream: &str) -> Result<String, Untranslatable> {
    let (mut splitter, mut translator) = (EventSplitter::new(), ChatToMessagesStream::new(475));
    let (mut at, mut out) = (0, Vec::new());
    while let Some(piece) = splitter.next(stream.as_bytes(), &mut at) {
        translator.event(piece.bytes, &mut out)?;
    }
    Ok(String::from_utf8(out).expect("text"))
}

fn chunk(delta: Value, finish_reason: Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    format!("data: {}\n\n", json!({"id": "c", "model": "m", "choices": [choice]}))
}

fn call(index: u64, id: Option<&str>, arguments: &str) -> Value {
    let mut call = json!({"index": index, "function": {"arguments": arguments}});
    if let Some(id) = id {
        call["id"] = id.into();
        call["function"]["name"] = "f".into();
    }
    call
}

#[test]
fn a_stream_there_and_back_says_the_same() {
    let back = translate_back(CHAT).expect("translated");
    golden("chat-as-anthropic.sse", include_str!("golden/chat-as-anthropic.sse"), &back);
    let again = translate(&back, true).expect("translated");
    // pings and empty deltas are nothing that the client waits for
    let said = |stream: &str| {
        let events = stream
            .split("\n\n")
            .filter(|event| event.starts_with("data:") && !event.contains("[{\"function\":{\"arguments\":\"\"},"));
        events.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(said(&again), said(CHAT));
    let (mut splitter, mut reader) = (EventSplitter::new(), EventReader::new(Api::Messages));
    let mut state = StreamState::new(Api::Messages, 1, false);
    let mut at = 0;
    while let Some(piece) = splitter.next(back.as_bytes(), &mut at) {
        reader.read(piece.bytes);
        state.event(&reader.finish(), piece.bytes.len() as u64);
    }
    assert_eq!(state.end(BodyEnd::Proper, false), Outcome::Complete { missing: b"" });
    assert_eq!((state.usage().total_input(Api::Messages), state.usage().output), (475, Some(89)));
}

#[test]
fn one_block_is_open_at_a_time() {
    let stream = [
        chunk(json!({"content": "a"}), Value::Null),
        chunk(json!({"tool_calls": [call(0, Some("x"), "{"), call(1, Some("y"), "")]}), Value::Null),
        chunk(json!({"tool_calls": [call(1, None, "{\"b\"")]}), Value::Null),
        chunk(json!({"tool_calls": [call(0, None, "}"), call(1, None, ":1}")]}), Value::Null),
        chunk(json!({}), "tool_calls".into()),
        "data: [DONE]\n\n".to_owned(),
    ];
    let out = translate_back(&stream.concat()).expect("translated");
    let steps: Vec<String> = out
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .filter_map(|data| {
            let delta = &data["delta"]["partial_json"];
            let id = &data["content_block"]["id"];
            let index = data["index"].as_u64()?;
            let kind = data["type"].as_str()?.trim_start_matches("content_block_").to_owned();
            Some(format!("{index} {kind} {}", delta.as_str().or_else(|| id.as_str()).unwrap_or_default()))
        })
        .collect();
    assert_eq!(
        steps,
        [
            "0 start ",
            "0 delta ",
            "0 stop ",
            "1 start x",
            "1 delta {",
            "1 delta }",
            "1 stop ",
            "2 start y",
            "2 delta {\"b\":1}",
            "2 stop "
        ]
    );
}

#[test]
fn a_call_keeps_its_name_when_text_comes_between() {
    let stream = [
        chunk(json!({"tool_calls": [call(0, Some("x"), "{}"), call(1, Some("y"), "{\"b\"")]}), Value::Null),
        chunk(json!({"content": "a"}), Value::Null),
        chunk(json!({"tool_calls": [call(1, None, ":1}")]}), "stop".into()),
        "data: [DONE]\n\n".to_owned(),
    ];
    let out = translate_back(&stream.concat()).expect("translated");
    let joined: String = out
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .map(|data| match data["content_block"]["id"].as_str() {
            Some(id) => format!("{id}:"),
            None => data["delta"]["partial_json"].as_str().unwrap_or_default().to_owned(),
        })
        .collect();
    assert_eq!(joined, "x:{}y:{\"b\":1}");
    assert!(out.contains("\"stop_reason\":\"tool_use\""), "{out}");
    let nameless = chunk(json!({"tool_calls": [call(0, None, "{}")]}), Value::Null);
    assert_eq!(translate_back(&nameless), Err(Untranslatable));
    let parts = chunk(json!({"content": [{"type": "text", "text": "a"}]}), Value::Null);
    assert_eq!(translate_back(&parts), Err(Untranslatable));
}

#[test]
fn a_call_without_arguments_has_an_empty_object() {
    let start = |input: Value| json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": input}});
    let stop = json!({"type": "content_block_stop", "index": 0});
    let empty =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}});
    for (events, arguments) in [
        (vec![start(json!({})), stop.clone()], "{}"),
        (vec![start(json!({})), empty, stop.clone()], "{}"),
        (vec![start(json!({"a": 1})), stop], "{\"a\":1}"),
    ] {
        let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let out = translate(&stream, false).expect("translated");
        let joined: String = out
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
            .filter_map(|data| {
                data["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned)
            })
            .collect();
        assert_eq!(joined, arguments);
    }
}

#[test]
fn what_a_stream_leaves_out_is_named_and_what_it_lacks_is_not_made_up() {
    let mut chat = ChatToMessagesStream::new(9);
    let mut out = Vec::new();
    // Azure's first chunk has neither choice nor id.
    let azure = format!("\u{feff}data: {}\n\n", json!({"id": "", "model": "", "choices": []}));
    chat.event(azure.as_bytes(), &mut out).expect("translated");
    assert!(out.is_empty());
    chat.event(chunk(json!({"reasoning_content": "hm"}), Value::Null).as_bytes(), &mut out).expect("translated");
    chat.event(chunk(json!({"content": "a"}), "stop".into()).as_bytes(), &mut out).expect("translated");
    chat.event(b"data: [DONE]\n\n", &mut out).expect("translated");
    assert_eq!(chat.dropped(), ["reasoning_content"]);
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("\"id\":\"c\"") && !text.contains("hm"), "{text}");
    let is_end = |line: &str| line.contains("\"message_delta\"") && line.contains("\"output_tokens\":0");
    assert!(text.lines().any(is_end), "{text}");

    let mut messages = MessagesToChatStream::new(7, true);
    let mut out = Vec::new();
    for event in [
        json!({"type": "message_start", "message": {"id": "m", "model": "c"}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ] {
        messages.event(format!("data: {event}\n\n").as_bytes(), &mut out).expect("translated");
    }
    assert_eq!(messages.dropped(), ["thinking"]);
    let text = String::from_utf8(out).expect("text");
    assert!(!text.contains("prompt_tokens") && text.ends_with("data: [DONE]\n\n"), "{text}");
}

#[test]
fn a_history_with_empty_members_of_a_client_is_taken() {
    let history = json!({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "annotations": [], "audio": null, "function_call": null, "refusal": null}]});
    assert_eq!(to_messages(&history).expect("translated").dropped, Vec::<String>::new());
    let cited = json!({"messages": [{"role": "assistant", "content": "b", "annotations": [{"type": "url_citation"}]}]});
    assert_eq!(to_messages(&cited).expect("translated").dropped, ["annotations"]);
}

#[test]
fn a_chat_stream_without_an_end_reason_never_becomes_complete() {
    let text = chunk(json!({"content": "a"}), Value::Null);
    for end in ["data: [DONE]\n\n", "data: {\n\n", "data: {\"error\":{\"message\":\"m\"}}\n\n", "data: {}\n\n"] {
        assert_eq!(translate_back(&format!("{text}{end}")), Err(Untranslatable), "{end}");
    }
    assert_eq!(translate_back(&chunk(json!({}), "strange".into())), Err(Untranslatable));
    assert!(!translate_back(&text).expect("translated").contains("message_stop"));
}
