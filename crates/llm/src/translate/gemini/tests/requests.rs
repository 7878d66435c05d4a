//! Requests of chat and messages for Gemini, and of Gemini for the others.

use super::*;

#[test]
fn a_chat_request_becomes_generate_content() {
    let translated = from_chat(&full_chat()).expect("translated");
    assert_eq!(
        translated.body,
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "What is it?"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
                {"role": "model", "parts": [{"text": "I look."},
                    {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}},
                    {"functionCall": {"id": "c2", "name": "g", "args": {}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "c1", "name": "f", "response": {"result": "one"}}},
                    {"functionResponse": {"id": "c2", "name": "g", "response": {"result": "two"}}}]},
                {"role": "user", "parts": [{"text": "And?"}]}],
            "tools": [{"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
            "generationConfig": {"maxOutputTokens": 50, "temperature": 1.5, "topP": 0.9, "stopSequences": ["x"], "seed": 7,
                "presencePenalty": 0.5, "frequencyPenalty": -0.5, "candidateCount": 2,
                "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
                "thinkingConfig": {"thinkingBudget": 1024}}
        })
    );
    assert_eq!(translated.dropped, Vec::<String>::new());
}

#[test]
fn a_messages_request_becomes_generate_content() {
    let translated = from_messages(&json!({
        "model": "alias", "max_tokens": 50, "stream": true, "temperature": 0.5, "top_p": 0.9, "stop_sequences": ["x"],
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is it?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}, {"type": "text", "text": "I look."}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "is_error": true},
                {"type": "text", "text": "And?"}]}],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any"},
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}, "effort": "high"},
        "metadata": {"user_id": "u"}
    }))
    .expect("translated");
    assert_eq!(
        translated.body,
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "What is it?"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
                {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}}, {"text": "I look."}]},
                {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {"error": ["one", "two"]}}}]},
                {"role": "user", "parts": [{"text": "And?"}]}],
            "tools": [{"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
            "generationConfig": {"maxOutputTokens": 50, "temperature": 0.5, "topP": 0.9, "stopSequences": ["x"],
                "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
                "thinkingConfig": {"thinkingBudget": 24576}}
        })
    );
    assert_eq!(translated.dropped, ["metadata.user_id"]);
}

#[test]
fn there_and_back_keeps_every_member_of_the_table() {
    let chat = full_chat();
    let back = gemini_to_chat(&from_chat(&chat).expect("there").body, "alias", false).expect("back");
    assert_eq!(back, Translated { body: chat, dropped: Vec::new() });
    for (name, value) in [
        ("tool_choice", json!("auto")),
        ("tool_choice", json!("none")),
        ("tool_choice", json!("required")),
        ("reasoning_effort", json!("none")),
        ("reasoning_effort", json!("medium")),
        ("reasoning_effort", json!("high")),
        ("response_format", json!({"type": "json_object"})),
        ("temperature", json!(0)),
    ] {
        let mut chat =
            json!({"model": "alias", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 5});
        chat[name] = value;
        for model in [MODEL, "gemini-3-pro-preview"] {
            let there = chat_to_gemini(&chat, model).expect("there").body;
            assert_eq!(gemini_to_chat(&there, "alias", false).expect("back").body, chat, "{model}");
        }
    }
    // Gemini's own, by way of both.
    let gemini = json!({"contents": [
            {"role": "user", "parts": [{"text": "a"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {"result": "one"}}}]}],
        "generationConfig": {"maxOutputTokens": 5, "temperature": 0.5}});
    let chat = gemini_to_chat(&gemini, "m", true).expect("there").body;
    assert_eq!(from_chat(&chat).expect("back").body, gemini);
    let messages = gemini_to_messages(&gemini, "m", true, None).expect("there").body;
    assert_eq!(from_messages(&messages).expect("back").body, gemini);
    // Messages by way of Gemini are what they are by way of chat.
    let direct = gemini_to_chat(&from_messages(&messages).expect("there").body, "m", true).expect("on").body;
    let mut by_chat = messages_to_chat(&messages, "m").expect("there").body;
    by_chat["messages"][1]["tool_calls"][0]["function"]["arguments"] = "{\"a\":1}".into();
    assert_eq!(direct, by_chat);
}

#[test]
fn what_has_no_equivalent_is_refused_by_name() {
    let user = json!({"role": "user", "content": "hi"});
    let own = [
        ("reasoning_effort", json!("max")),
        ("reasoning_effort", json!("xhigh")),
        ("response_format", json!({"type": "grammar"})),
    ];
    for (name, value) in own.into_iter().chain(crate::translate::tests::only_in_chat()) {
        let mut chat = json!({"messages": [user]});
        chat[name] = value;
        assert_eq!(from_chat(&chat).expect_err(name).member, name);
    }
    for (chat, member) in [
        (json!({"messages": [user], "n": 2, "stream": true}), "n"),
        (json!({"messages": [user], "tools": [], "parallel_tool_calls": false}), "parallel_tool_calls"),
        (json!({"messages": [user], "tools": [{"type": "custom"}]}), "tools[0].type"),
        (json!({"messages": [user, {"role": "system", "content": "late"}]}), "messages[1].role"),
        (json!({"messages": [{"role": "user", "content": "a", "name": "n"}]}), "messages[0].name"),
        (json!({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}), "messages[0].content[0].type"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}]}),
            "messages[0].content[0].image_url.url",
        ),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "[1]"}}]}]}),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (json!({"messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]}), "messages[0].tool_call_id"),
        (json!({"messages": [{"role": "assistant", "refusal": "no"}]}), "messages[0].refusal"),
        (json!({"messages": [{"role": "function", "content": "x"}]}), "messages[0].role"),
    ] {
        assert_eq!(from_chat(&chat).expect_err(member).member, member);
    }
    for (name, value, member) in [
        ("top_k", json!(1), "top_k"),
        ("container", json!("c"), "container"),
        ("mcp_servers", json!([]), "mcp_servers"),
        ("new_member", json!(1), "new_member"),
        (
            "tool_choice",
            json!({"type": "auto", "disable_parallel_tool_use": true}),
            "tool_choice.disable_parallel_tool_use",
        ),
        ("output_config", json!({"effort": "max"}), "output_config.effort"),
        ("tools", json!([{"type": "web_search_20250305", "name": "web_search"}]), "tools[0].type"),
        (
            "messages",
            json!([{"role": "user", "content": [{"type": "document", "source": {}}]}]),
            "messages[0].content[0].type",
        ),
        (
            "messages",
            json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}]),
            "messages[0].content[0].tool_use_id",
        ),
        (
            "messages",
            json!([{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://x/y"}}]}]),
            "messages[0].content[0].source.url",
        ),
    ] {
        let mut request = json!({"messages": [user], "max_tokens": 5});
        request[name] = value;
        assert_eq!(from_messages(&request).expect_err(member).member, member);
    }
    let contents = json!([{"role": "user", "parts": [{"text": "a"}]}]);
    for (name, value, member) in [
        ("safetySettings", json!([]), "safetySettings"),
        ("cached_content", json!("c"), "cached_content"),
        ("newMember", json!(1), "newMember"),
        ("tools", json!([{"googleSearch": {}}]), "tools[0].googleSearch"),
        ("toolConfig", json!({"retrievalConfig": {}}), "toolConfig.retrievalConfig"),
        ("generationConfig", json!({"topK": 1}), "generationConfig.topK"),
        ("generationConfig", json!({"speech_config": {}}), "generationConfig.speech_config"),
        ("generationConfig", json!({"responseMimeType": "text/x.enum"}), "generationConfig.responseMimeType"),
        ("contents", json!([{"parts": [{"fileData": {}}]}]), "contents[0].parts[0].fileData"),
        (
            "contents",
            json!([{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": ""}}]}]),
            "contents[0].parts[0].inlineData.mimeType",
        ),
        (
            "contents",
            json!([{"parts": [{"functionResponse": {"name": "f", "response": {}}}]}]),
            "contents[0].parts[0].functionResponse",
        ),
    ] {
        let mut request = json!({"contents": contents});
        request[name] = value;
        assert_eq!(gemini_to_chat(&request, "m", false).expect_err(member).member, member);
    }
    let several = json!({"contents": contents, "generationConfig": {"candidateCount": 2}});
    assert_eq!(gemini_to_chat(&several, "m", true).expect_err("streamed").member, "generationConfig.candidateCount");
    for (config, member) in [
        (json!({}), "generationConfig.maxOutputTokens"),
        (json!({"maxOutputTokens": 5, "temperature": 1.5}), "generationConfig.temperature"),
        (json!({"maxOutputTokens": 5, "seed": 1}), "generationConfig.seed"),
    ] {
        let request = json!({"contents": contents, "generationConfig": config});
        assert_eq!(gemini_to_messages(&request, "m", false, None).expect_err(member).member, member);
    }
}

#[test]
fn hints_are_dropped_and_named() {
    let chat = json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/gif;base64,AA", "detail": "low"}}]},
        {"role": "assistant", "content": "a", "reasoning_content": "because", "annotations": [], "audio": null}],
        "tools": [{"type": "function", "function": {"name": "f", "strict": true}}, {"type": "function", "function": {"name": "g", "strict": false}}],
        "metadata": {}, "prompt_cache_key": "k", "verbosity": "medium", "service_tier": "auto", "user": "u", "n": 1, "store": false,
        "parallel_tool_calls": true});
    let mut dropped = from_chat(&chat).expect("translated").dropped;
    dropped.sort();
    let names =
        ["detail", "metadata", "prompt_cache_key", "reasoning_content", "service_tier", "strict", "user", "verbosity"];
    assert_eq!(dropped, names);
    let messages = json!({"max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": 1024}, "system": [{"type": "text", "text": "s", "cache_control": {}}],
        "messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "a"}]}]});
    let mut dropped = from_messages(&messages).expect("translated").dropped;
    dropped.sort();
    assert_eq!(dropped, ["cache_control", "thinking"]);
    let gemini = json!({"labels": {}, "generation_config": {"thinking_config": {"include_thoughts": true, "thinking_budget": 77}, "max_output_tokens": 5},
        "contents": [{"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": "a", "thoughtSignature": "cw=="}]}]});
    let translated = gemini_to_chat(&gemini, "m", false).expect("translated");
    assert_eq!(translated.body["max_completion_tokens"], 5);
    let mut dropped = translated.dropped;
    dropped.sort();
    assert_eq!(dropped, ["includeThoughts", "labels", "thinkingBudget", "thought", "thoughtSignature"]);
}

/// What Google's client sends: names in either spelling, schemas after OpenAPI, results without ids.
#[test]
fn requests_of_googles_client() {
    let request = json!({"contents": [
            {"role": "user", "parts": [{"text": "a"}, {"inline_data": {"mime_type": "image/png", "data": "-_A="}}]},
            {"role": "model", "parts": [{"function_call": {"name": "f", "args": {}}}, {"functionCall": {"name": "f", "args": {"b": 1}}}]},
            {"role": "user", "parts": [
                {"function_response": {"name": "f", "response": {"output": "one"}}},
                {"functionResponse": {"name": "f", "response": {"degrees": 7, "sky": "grey"}}}]}],
        "tools": [{"function_declarations": [{"name": "f", "parameters": {"type": "OBJECT", "properties": {
            "city": {"type": "STRING", "nullable": true, "maxLength": "9"}, "days": {"type": "ARRAY", "items": {"type": "INTEGER"}, "min_items": "1"}},
            "propertyOrdering": ["city", "days"], "required": ["city"]}}]}],
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": {"anyOf": [{"type": "STRING"}], "nullable": true}}});
    let translated = gemini_to_chat(&request, "m", false).expect("translated");
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
    assert_eq!(
        translated.body,
        json!({"model": "m", "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,+/A="}}]},
            {"role": "assistant", "content": null, "tool_calls": [call("call_1", "{}"), call("call_2", "{\"b\":1}")]},
            {"role": "tool", "tool_call_id": "call_1", "content": "one"},
            {"role": "tool", "tool_call_id": "call_2", "content": "{\"degrees\":7,\"sky\":\"grey\"}"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
                "city": {"type": ["string", "null"], "maxLength": 9}, "days": {"type": "array", "items": {"type": "integer"}, "minItems": 1}},
                "required": ["city"]}}}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "response", "strict": true,
                "schema": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}})
    );
    assert_eq!(translated.dropped, ["propertyOrdering"]);
}

/// Models fill members in the order of the schema.
#[test]
fn schemas_keep_the_order_of_their_members() {
    let schema = r#"{"type":"object","properties":{"thoughts":{"type":"string"},"answer":{"type":"string"}},"required":["thoughts"]}"#;
    let chat = format!(
        r#"{{"messages":[{{"role":"user","content":"a"}}],"response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}},
        "tools":[{{"type":"function","function":{{"parameters":{schema},"name":"f"}}}}]}}"#
    );
    let there = from_chat(&serde_json::from_str(&chat).expect("JSON")).expect("translated").body;
    let text = String::from_utf8(to_text(&there, chat.as_bytes())).expect("text");
    assert_eq!(text.matches(schema).count(), 2, "{text}");
    let back = gemini_to_chat(&there, "m", false).expect("translated").body;
    let text = String::from_utf8(to_text(&back, text.as_bytes())).expect("text");
    assert_eq!(text.matches(schema).count(), 2, "{text}");
}

/// Gemini 3 refuses a call of the current turn without a signature, and a model before it one that it has not made.
#[test]
fn calls_of_other_models_are_marked_for_gemini_3() {
    let marked = |model: &str| {
        let body = chat_to_gemini(&full_chat_with_levels(), model).expect("translated").body;
        let parts = body["contents"][1]["parts"].as_array().expect("parts").clone();
        parts.iter().map(|part| part["thoughtSignature"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(
        marked("models/gemini-3-pro-preview"),
        [None, Some("skip_thought_signature_validator".to_owned()), None]
    );
    for model in [MODEL, "gemini-flash-latest", "other"] {
        assert_eq!(marked(model), [None, None, None], "{model}");
    }
    let thinking = |model: &str, effort: &str| {
        let chat = json!({"messages": [], "reasoning_effort": effort});
        chat_to_gemini(&chat, model).map(|translated| translated.body["generationConfig"]["thinkingConfig"].clone())
    };
    assert_eq!(thinking("gemini-3.1-pro", "medium"), Ok(json!({"thinkingLevel": "MEDIUM"})));
    assert_eq!(thinking("gemini-flash-latest", "xhigh"), Ok(json!({"thinkingLevel": "XHIGH"})));
    assert_eq!(thinking(MODEL, "none"), Ok(json!({"thinkingBudget": 0})));
    assert_eq!(thinking("gemini-3.1-pro", "none"), Ok(json!({"thinkingBudget": 0})));
}

fn full_chat_with_levels() -> Value {
    let mut chat = full_chat();
    chat["reasoning_effort"] = "high".into();
    chat
}

#[test]
fn a_signature_travels_inside_the_id_of_its_call() {
    for (id, signature) in [("fc-7", "CiIBVKhc7vB+vaaq/w=="), ("", "c2ln"), ("é_", "not base64!"), ("a", "-_A=")] {
        let joined = call_id::join(id, signature).expect("short");
        assert!(joined.starts_with("wg1_"), "{joined}");
        // What Anthropic's API permits.
        assert!(joined.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{joined}");
        assert_eq!(call_id::split(&joined), (id.to_owned(), Some(signature.to_owned())));
    }
    assert_eq!(call_id::join("a", &"AAAA".repeat(3000)), None, "over 8 KiB");
    for plain in ["call_1", "wg1_", "wg1_00", "wg1_fffAA", "wg1_000x", "wg1_000sé", "wg1_é"] {
        assert_eq!(call_id::split(plain), (plain.to_owned(), None));
    }
    // There and back: the client returns the id, and Gemini gets its part again.
    let part = json!({"functionCall": {"id": "fc-1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2lnbmVk"});
    let response = json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]});
    let result = json!({"functionResponse": {"id": "fc-1", "name": "f", "response": {"result": "r"}}});
    let contents = json!([{"role": "model", "parts": [part]}, {"role": "user", "parts": [result]}]);

    let (chat, dropped) = gemini_response_to_chat(&response, 7, &mut CallIds::new(1)).expect("translated");
    assert_eq!(dropped, Vec::<String>::new());
    let message = &chat["choices"][0]["message"];
    let id = &message["tool_calls"][0]["id"];
    let history = json!({"messages": [message, {"role": "tool", "tool_call_id": id, "content": "r"}]});
    assert_eq!(from_chat(&history).expect("back").body["contents"], contents);

    let (message, dropped) = gemini_response_to_message(&response, &mut CallIds::new(1)).expect("translated");
    assert_eq!(dropped, Vec::<String>::new());
    let id = &message["content"][0]["id"];
    let result = json!([{"type": "tool_result", "tool_use_id": id, "content": "r"}]);
    let history = json!({"messages": [{"role": "assistant", "content": message["content"]}, {"role": "user", "content": result}]});
    assert_eq!(from_messages(&history).expect("back").body["contents"], contents);
}
