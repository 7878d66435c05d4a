//! Whatever a request, a response or a stream is, and however it is split.

use super::*;

/// What a client has, and whether all events had a meaning.
type SoFar = (Vec<u8>, bool);

fn so_far(
    stream: &[u8],
    step: usize,
    mut event: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), Untranslatable>,
) -> SoFar {
    let mut all = Vec::new();
    let result = run(stream, step, |bytes, out| {
        let result = event(bytes, out);
        all.append(out);
        result
    });
    (all, result.is_ok())
}

fn to_chat_so_far(stream: &[u8], step: usize) -> SoFar {
    let mut translator = GeminiToChatStream::new(7, true, CallIds::new(1));
    let (mut out, is_good) = so_far(stream, step, |event, out| translator.event(event, out));
    let has_end = is_good && translator.finish(&[], &mut out).is_ok();
    (out, has_end)
}

fn to_messages_so_far(stream: &[u8], step: usize) -> SoFar {
    let mut translator = GeminiToMessagesStream::new(9, CallIds::new(1));
    let (mut out, is_good) = so_far(stream, step, |event, out| translator.event(event, out));
    let has_end = is_good && translator.finish(&[], &mut out).is_ok();
    (out, has_end)
}

fn chat_to_gemini_so_far(stream: &[u8], step: usize) -> SoFar {
    let mut translator = ChatToGeminiStream::new();
    so_far(stream, step, |event, out| translator.event(event, out))
}

fn messages_to_gemini_so_far(stream: &[u8], step: usize) -> SoFar {
    let mut translator = MessagesToGeminiStream::new();
    so_far(stream, step, |event, out| translator.event(event, out))
}

/// Replaces the node of this number, counted from the root; the number left over if there are fewer.
fn replace(value: &mut Value, number: usize, with: &Value) -> Result<(), usize> {
    if number == 0 {
        *value = with.clone();
        return Ok(());
    }
    let mut left = number - 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        match replace(child, left, with) {
            Ok(()) => return Ok(()),
            Err(rest) => left = rest,
        }
    }
    Err(left)
}

/// A request or response of one of the APIs in which one node is another.
fn damaged() -> impl Strategy<Value = Value> {
    let gemini = from_chat(&full_chat()).expect("translated").body;
    let part = json!({"functionCall": {"id": "fc-1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2lnbmVk"});
    let response = json!({"candidates": [{"content": {"parts": [{"text": "a"}, part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1}, "promptFeedback": {"blockReason": null}, "responseId": "r", "modelVersion": "m"});
    let chat = gemini_response_to_chat(&response, 7, &mut CallIds::new(1)).expect("translated").0;
    let message = gemini_response_to_message(&response, &mut CallIds::new(1)).expect("translated").0;
    let limited =
        json!({"contents": gemini["contents"], "tools": gemini["tools"], "generationConfig": {"maxOutputTokens": 5}});
    let mut request = gemini_to_messages(&limited, "m", false, None).expect("translated").body;
    request["tool_choice"] = json!({"type": "tool", "name": "f"});
    let chunk = json!({"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
        "delta": {"content": "a", "tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}]}}], "usage": {"prompt_tokens": 1}});
    let all = vec![full_chat(), gemini, request, response, chat, message, chunk];
    (prop::sample::select(all), 0..80usize, any_json()).prop_map(|(mut value, number, with)| {
        // Small documents have fewer nodes: then the rest of the number counts.
        let mut number = number;
        while let Err(rest) = replace(&mut value, number, &with) {
            number = rest;
        }
        value
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    // Names that mean something somewhere, so that trees go deep.
    let name = prop::sample::select(vec![
        "contents",
        "parts",
        "text",
        "role",
        "functionCall",
        "functionResponse",
        "name",
        "args",
        "id",
        "response",
        "inlineData",
        "mimeType",
        "data",
        "thought",
        "thoughtSignature",
        "candidates",
        "content",
        "finishReason",
        "index",
        "usageMetadata",
        "promptTokenCount",
        "promptFeedback",
        "blockReason",
        "messages",
        "tool_calls",
        "function",
        "arguments",
        "tool_call_id",
        "tools",
        "type",
        "choices",
        "message",
        "delta",
        "finish_reason",
        "stop_reason",
        "input",
        "tool_use_id",
        "generationConfig",
        "responseSchema",
        "properties",
        "functionDeclarations",
        "parameters",
        "toolConfig",
        "functionCallingConfig",
        "mode",
        "allowedFunctionNames",
        "system",
        "systemInstruction",
        "n",
        "max_tokens",
        "reasoning_effort",
        "thinkingConfig",
        "thinkingLevel",
        "error",
        "nullable",
        "anyOf",
    ]);
    let text = prop::sample::select(vec![
        "",
        "a",
        "user",
        "model",
        "assistant",
        "tool",
        "system",
        "STOP",
        "stop",
        "SAFETY",
        "tool_use",
        "tool_result",
        "text",
        "function",
        "{\"a\":1}",
        "[",
        "c1",
        "wg1_003Yzesc2ln",
        "wg1_fff",
        "data:image/png;base64,AA",
        "image/png",
        "ANY",
        "low",
        "é\u{0}",
        "application/json",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|members| {
                let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(members.collect())
            }),
        ]
    })
}

/// A conversation in the form of chat that comes back as it was.
fn conversation() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec!["a", "é \"quoted\"\n", "{}", "-", "two words"]);
    let args = prop::sample::select(vec!["{}", "{\"a\":[1,2.5,null]}", "{\"b\":{\"c\":\"é\"}}"]);
    let name = prop::sample::select(vec!["f", "look_up"]);
    let turn = (text.clone(), prop::option::of(text.clone()), prop::collection::vec((name, args, text.clone()), 0..3));
    let config = (
        prop::option::of(1..9999u64),
        prop::option::of(prop::sample::select(vec![0.0, 0.5, 2.0])),
        prop::option::of(prop::collection::vec(text, 1..3)),
        prop::option::of(any::<i32>()),
        prop::option::of(prop::sample::select(vec!["none", "low", "medium", "high"])),
        prop::option::of(prop::sample::select(vec![json!("auto"), json!("none"), json!("required")])),
        any::<bool>(),
    );
    (prop::option::of("[a-z]{1,9}"), prop::collection::vec(turn, 1..5), config).prop_map(|(system, turns, config)| {
        let mut messages = Vec::new();
        if let Some(system) = system {
            messages.push(json!({"role": "system", "content": system}));
        }
        for (turn, (requested, said, calls)) in turns.into_iter().enumerate() {
            messages.push(json!({"role": "user", "content": requested}));
            let id = |n: usize| format!("c{turn}_{n}");
            if said.is_none() && calls.is_empty() {
                continue;
            }
            let mut message = json!({"role": "assistant", "content": said});
            let made = calls.iter().enumerate().map(|(n, (name, args, _))| {
                json!({"id": id(n), "type": "function", "function": {"name": name, "arguments": args}})
            });
            let made: Vec<Value> = made.collect();
            if !made.is_empty() {
                message["tool_calls"] = made.into();
            }
            messages.push(message);
            let results = calls.iter().enumerate();
            messages.extend(
                results.map(|(n, (_, _, result))| json!({"role": "tool", "tool_call_id": id(n), "content": result})),
            );
        }
        let mut chat = json!({"model": "m", "messages": messages});
        let (limit, temperature, stop, seed, effort, choice, streams) = config;
        for (name, value) in [
            ("max_completion_tokens", limit.map(Value::from)),
            ("temperature", temperature.map(Value::from)),
            ("stop", stop.map(Value::from)),
            ("seed", seed.map(Value::from)),
            ("reasoning_effort", effort.map(Value::from)),
            ("tool_choice", choice),
            ("stream", streams.then_some(true.into())),
            ("stream_options", streams.then(|| json!({"include_usage": true}))),
        ] {
            if let Some(value) = value {
                chat[name] = value;
            }
        }
        chat
    })
}

proptest! {
    #[test]
    fn there_and_back(chat in conversation(), model in prop::sample::select(vec![MODEL, "gemini-3-pro"])) {
        let there = chat_to_gemini(&chat, model).expect("there");
        prop_assert_eq!(&there.dropped, &Vec::<String>::new());
        let back = gemini_to_chat(&there.body, "m", chat["stream"] == true).expect("back");
        prop_assert_eq!(join_users(&back.body), join_users(&chat));
    }

    #[test]
    fn any_split_gives_the_same(step in 1..200usize, cut in 0..GEMINI.len()) {
        let stream = &GEMINI.as_bytes()[..GEMINI.len() - cut];
        let chat = to_chat_so_far(stream, usize::MAX);
        prop_assert_eq!(&to_chat_so_far(stream, step), &chat);
        let messages = to_messages_so_far(stream, usize::MAX);
        prop_assert_eq!(&to_messages_so_far(stream, step), &messages);
        for (stream, translate) in [(&chat.0, chat_to_gemini_so_far as fn(&[u8], usize) -> SoFar), (&messages.0, messages_to_gemini_so_far)] {
            prop_assert_eq!(translate(stream, step), translate(stream, usize::MAX));
        }
    }

    #[test]
    fn arbitrary_json_never_panics(value in prop_oneof![any_json(), damaged()], more in prop_oneof![any_json(), damaged()]) {
        for model in [MODEL, "gemini-3-pro"] {
            let _ = chat_to_gemini(&value, model);
            let _ = messages_to_gemini(&value, model);
        }
        let _ = gemini_to_chat(&value, "m", true);
        let _ = gemini_to_messages(&value, "m", false, Some(5));
        let mut ids = CallIds::new(1);
        let _ = gemini_response_to_chat(&value, 0, &mut ids);
        let _ = gemini_response_to_message(&value, &mut ids);
        let _ = chat_response_to_gemini(&value);
        let _ = message_response_to_gemini(&value);
        let stream = format!("data: {value}\n\ndata: {more}\n\ndata: [DONE]\n\n");
        let _ = as_chat(&stream, true);
        let _ = as_messages_in(&stream, 7);
        let _ = chat_as_gemini(&stream, 7);
        let _ = messages_as_gemini(&stream, 7);
    }
}

/// Gemini joins neighbouring messages of one role: what is compared is who says what.
fn join_users(chat: &Value) -> Value {
    let mut chat = chat.clone();
    let mut messages: Vec<Value> = Vec::new();
    for mut message in chat["messages"].as_array().expect("messages").clone() {
        let content = message["content"].take();
        let texts = match content {
            Value::String(text) => vec![text],
            Value::Array(parts) => parts.iter().map(|part| part["text"].as_str().expect("text").to_owned()).collect(),
            _ => Vec::new(),
        };
        message["content"] = texts.into();
        match messages.last_mut() {
            Some(last) if last["role"] == "user" && message["role"] == "user" => {
                let more = message["content"].as_array().expect("texts").clone();
                last["content"].as_array_mut().expect("texts").extend(more);
            }
            _ => messages.push(message),
        }
    }
    chat["messages"] = messages.into();
    chat
}
