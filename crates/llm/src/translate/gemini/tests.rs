use super::super::{Refused, Translated, Untranslatable, messages_to_chat, to_text};
use super::*;
use crate::Api;
use crate::stream::{BodyEnd, EventReader, EventSplitter, Outcome, StreamState};
use proptest::prelude::*;
use serde_json::{Value, json};

const MODEL: &str = "gemini-2.5-flash";

fn from_chat(request: &Value) -> Result<Translated, Refused> {
    chat_to_gemini(request, MODEL)
}

fn from_messages(request: &Value) -> Result<Translated, Refused> {
    messages_to_gemini(request, MODEL)
}

/// A chat request with every member of the table that has an equivalent.
fn full_chat() -> Value {
    json!({
        "model": "alias",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
                {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "user", "content": "And?"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "max_completion_tokens": 50,
        "temperature": 1.5,
        "top_p": 0.9,
        "stop": ["x"],
        "seed": 7,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "n": 2,
        "response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": {"type": "object"}, "strict": true}},
        "reasoning_effort": "low"
    })
}

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
    for (name, value) in [
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
        ("reasoning_effort", json!("max")),
        ("reasoning_effort", json!("xhigh")),
        ("response_format", json!({"type": "grammar"})),
        ("new_member", json!(1)),
    ] {
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

#[test]
fn whole_responses() {
    let response = json!({"candidates": [{"index": 0, "finishReason": "STOP", "safetyRatings": [],
            "content": {"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": "I "}, {"text": "look."},
                {"functionCall": {"name": "f", "args": {"a": 1}}}, {"functionCall": {"id": "own", "name": "g"}}, {"text": "Wait."}]},
            "citationMetadata": {"citationSources": []}}],
        "usageMetadata": {"promptTokenCount": 60, "toolUsePromptTokenCount": 4, "cachedContentTokenCount": 30, "candidatesTokenCount": 5,
            "thoughtsTokenCount": 2, "totalTokenCount": 71},
        "modelVersion": "gemini-2.5-flash", "responseId": "r1"});
    let (chat, dropped) = gemini_response_to_chat(&response, 7, &mut CallIds::new(1)).expect("translated");
    assert_eq!(dropped, ["citationMetadata", "thought"]);
    let id = chat["choices"][0]["message"]["tool_calls"][0]["id"].clone();
    let made = id.as_str().expect("an id");
    assert!(made.len() == 29 && made[5..].bytes().all(|byte| byte.is_ascii_alphabetic()), "{made}");
    let call = |id: &Value, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    assert_eq!(
        chat,
        json!({"id": "r1", "object": "chat.completion", "created": 7, "model": "gemini-2.5-flash", "choices": [{"index": 0, "logprobs": null,
            "message": {"role": "assistant", "content": "I look.Wait.", "refusal": null,
                "tool_calls": [call(&id, "f", "{\"a\":1}"), call(&"own".into(), "g", "{}")]}, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 64, "completion_tokens": 7, "total_tokens": 71, "prompt_tokens_details": {"cached_tokens": 30},
                "completion_tokens_details": {"reasoning_tokens": 2}}})
    );
    let (message, dropped) = gemini_response_to_message(&response, &mut CallIds::new(1)).expect("translated");
    assert_eq!(dropped, ["citationMetadata", "thought"]);
    assert_eq!(
        message,
        json!({"id": "r1", "type": "message", "role": "assistant", "model": "gemini-2.5-flash", "content": [
            {"type": "text", "text": "I look."}, {"type": "tool_use", "id": id, "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "own", "name": "g", "input": {}}, {"type": "text", "text": "Wait."}],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {"input_tokens": 34, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 30, "output_tokens": 7}})
    );
    // And to Gemini's clients again.
    let (back, dropped) = chat_response_to_gemini(&chat).expect("back");
    assert_eq!(dropped, Vec::<String>::new());
    let parts = |texts: [&str; 2]| {
        let calls = [
            json!({"functionCall": {"id": id, "name": "f", "args": {"a": 1}}}),
            json!({"functionCall": {"id": "own", "name": "g", "args": {}}}),
        ];
        let mut parts = vec![json!({"text": texts[0]})];
        parts.extend(calls);
        if !texts[1].is_empty() {
            parts.push(json!({"text": texts[1]}));
        }
        parts
    };
    let mut expected = json!({"candidates": [{"content": {"role": "model", "parts": parts(["I look.Wait.", ""])}, "finishReason": "STOP", "index": 0}],
        "modelVersion": "gemini-2.5-flash", "responseId": "r1", "usageMetadata": {"promptTokenCount": 64, "candidatesTokenCount": 5,
            "thoughtsTokenCount": 2, "cachedContentTokenCount": 30, "totalTokenCount": 71}});
    assert_eq!(back, expected);
    expected["candidates"][0]["content"]["parts"] = parts(["I look.", "Wait."]).into();
    expected["usageMetadata"] = json!({"promptTokenCount": 64, "candidatesTokenCount": 7, "cachedContentTokenCount": 30, "totalTokenCount": 71});
    assert_eq!(message_response_to_gemini(&message).expect("back").0, expected);
}

#[test]
fn several_choices() {
    let candidate = |index: u64, text: &str| json!({"content": {"parts": [{"text": text}]}, "finishReason": "MAX_TOKENS", "index": index});
    let response =
        json!({"candidates": [candidate(0, "a"), candidate(1, "b")], "responseId": "r", "modelVersion": "m"});
    let (chat, _) = gemini_response_to_chat(&response, 7, &mut CallIds::new(1)).expect("translated");
    let said = |i: usize| {
        (&chat["choices"][i]["index"], &chat["choices"][i]["message"]["content"], &chat["choices"][i]["finish_reason"])
    };
    assert_eq!(said(1), (&json!(1), &json!("b"), &json!("length")));
    let (back, _) = chat_response_to_gemini(&chat).expect("back");
    assert_eq!(back["candidates"][1]["content"]["parts"][0]["text"], "b");
    assert_eq!(gemini_response_to_message(&response, &mut CallIds::new(1)), Err(Untranslatable));
}

#[test]
fn end_reasons() {
    for (reason, finish, stop) in [
        ("STOP", Some("stop"), "end_turn"),
        ("MAX_TOKENS", Some("length"), "max_tokens"),
        ("SAFETY", Some("content_filter"), "refusal"),
        ("RECITATION", Some("content_filter"), "refusal"),
        ("BLOCKLIST", Some("content_filter"), "refusal"),
        ("PROHIBITED_CONTENT", Some("content_filter"), "refusal"),
        ("SPII", Some("content_filter"), "refusal"),
        ("IMAGE_SAFETY", Some("content_filter"), "refusal"),
        ("MALFORMED_FUNCTION_CALL", None, ""),
        ("UNEXPECTED_TOOL_CALL", None, ""),
        ("TOO_MANY_TOOL_CALLS", None, ""),
        ("MISSING_THOUGHT_SIGNATURE", None, ""),
        ("LANGUAGE", None, ""),
        ("OTHER", None, ""),
        ("strange", None, ""),
    ] {
        // The content of a refused response is missing.
        let response = json!({"candidates": [{"finishReason": reason}]});
        let chat = gemini_response_to_chat(&response, 0, &mut CallIds::new(1)).ok();
        let found = chat.as_ref().map(|(chat, _)| chat["choices"][0]["finish_reason"].clone());
        assert_eq!(found, finish.map(Value::from), "{reason}");
        let message = gemini_response_to_message(&response, &mut CallIds::new(1)).ok();
        let found = message.map(|(message, _)| message["stop_reason"].clone());
        assert_eq!(found, finish.map(|_| stop.into()), "{reason}");
        let stream = format!("data: {response}\n\n");
        assert_eq!(as_chat(&stream, false).is_ok(), finish.is_some(), "{reason}");
    }
    for (finish, reason) in
        [("stop", "STOP"), ("tool_calls", "STOP"), ("length", "MAX_TOKENS"), ("content_filter", "SAFETY")]
    {
        let chat = json!({"choices": [{"message": {"content": "a"}, "finish_reason": finish}]});
        assert_eq!(chat_response_to_gemini(&chat).expect("known").0["candidates"][0]["finishReason"], reason);
    }
}

#[test]
fn responses_without_a_meaning_are_faults() {
    let with_part = |part: Value| json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]});
    for response in [
        json!({}),
        json!({"candidates": []}),
        json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}]}),
        json!({"promptFeedback": {"blockReason": "SAFETY"}}),
        with_part(json!({"inlineData": {"mimeType": "image/png", "data": "AA"}})),
        with_part(json!({"executableCode": {}})),
        with_part(json!({"text": "a", "newKind": {}})),
        with_part(json!({"functionCall": {"args": {}}})),
        with_part(json!({"functionCall": {"name": "f", "args": []}})),
        with_part(json!({"functionCall": {"name": "f", "partialArgs": []}})),
        with_part(json!({"functionCall": {"name": "f", "willContinue": true}})),
        with_part(json!(1)),
        json!({"candidates": [{"content": {"parts": {"text": "a"}}, "finishReason": "STOP"}]}),
        json!({"candidates": [{"content": "a", "finishReason": "STOP"}]}),
    ] {
        assert_eq!(gemini_response_to_chat(&response, 0, &mut CallIds::new(1)), Err(Untranslatable), "{response}");
        assert_eq!(gemini_response_to_message(&response, &mut CallIds::new(1)), Err(Untranslatable), "{response}");
    }
    for choice in [
        json!({"message": {"content": "a"}}),
        json!({"message": {"content": "a"}, "finish_reason": "strange"}),
        json!({"message": {"audio": {}}, "finish_reason": "stop"}),
        json!({"message": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{\"a"}}]}, "finish_reason": "tool_calls"}),
    ] {
        assert_eq!(chat_response_to_gemini(&json!({"choices": [choice]})), Err(Untranslatable), "{choice}");
    }
    for message in [
        json!({}),
        json!({"content": [], "stop_reason": "pause_turn"}),
        json!({"content": [{"type": "server_tool_use"}], "stop_reason": "end_turn"}),
    ] {
        assert_eq!(message_response_to_gemini(&message), Err(Untranslatable), "{message}");
    }
}

const GEMINI: &str = include_str!("../golden/gemini.sse");

/// Runs a translator over a stream that comes in pieces of so many bytes.
fn run(
    stream: &[u8],
    step: usize,
    mut event: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), Untranslatable>,
) -> Result<Vec<u8>, Untranslatable> {
    let (mut splitter, mut whole, mut out) = (EventSplitter::new(), Vec::new(), Vec::new());
    for part in stream.chunks(step) {
        let mut at = 0;
        while let Some(piece) = splitter.next(part, &mut at) {
            whole.extend_from_slice(piece.bytes);
            if piece.last {
                event(&std::mem::take(&mut whole), &mut out)?;
            }
        }
    }
    Ok(out)
}

fn as_chat_in(stream: &str, step: usize, include_usage: bool) -> Result<String, Untranslatable> {
    let mut translator = GeminiToChatStream::new(7, include_usage, CallIds::new(1));
    let mut out = run(stream.as_bytes(), step, |event, out| translator.event(event, out))?;
    translator.finish(&mut out)?;
    Ok(String::from_utf8(out).expect("text"))
}

fn as_chat(stream: &str, include_usage: bool) -> Result<String, Untranslatable> {
    as_chat_in(stream, usize::MAX, include_usage)
}

fn as_messages_in(stream: &str, step: usize) -> Result<String, Untranslatable> {
    let mut translator = GeminiToMessagesStream::new(9, CallIds::new(1));
    let mut out = run(stream.as_bytes(), step, |event, out| translator.event(event, out))?;
    translator.finish(&mut out)?;
    Ok(String::from_utf8(out).expect("text"))
}

fn chat_as_gemini(stream: &str, step: usize) -> Result<String, Untranslatable> {
    let mut translator = ChatToGeminiStream::new();
    let out = run(stream.as_bytes(), step, |event, out| translator.event(event, out))?;
    Ok(String::from_utf8(out).expect("text"))
}

fn messages_as_gemini(stream: &str, step: usize) -> Result<String, Untranslatable> {
    let mut translator = MessagesToGeminiStream::new();
    let out = run(stream.as_bytes(), step, |event, out| translator.event(event, out))?;
    Ok(String::from_utf8(out).expect("text"))
}

/// What the gateway reads of a stream that it sends.
fn read(api: Api, stream: &str) -> (Outcome, u64, u64) {
    let (mut splitter, mut reader, mut state) =
        (EventSplitter::new(), EventReader::new(api), StreamState::new(api, 1, false));
    let mut at = 0;
    while let Some(piece) = splitter.next(stream.as_bytes(), &mut at) {
        reader.read(piece.bytes);
        state.event(&reader.finish(), piece.bytes.len() as u64);
    }
    let usage = *state.usage();
    (state.end(BodyEnd::Proper, false), usage.total_input(api), usage.total_output())
}

#[test]
fn golden_streams() {
    let complete = Outcome::Complete { missing: b"" };
    let golden = super::super::tests::golden;
    let chat = as_chat(GEMINI, true).expect("translated");
    golden("gemini-as-chat.sse", include_str!("../golden/gemini-as-chat.sse"), &chat);
    assert_eq!(read(Api::Chat, &chat), (complete.clone(), 92, 100));
    let messages = as_messages_in(GEMINI, usize::MAX).expect("translated");
    golden("gemini-as-anthropic.sse", include_str!("../golden/gemini-as-anthropic.sse"), &messages);
    assert_eq!(read(Api::Messages, &messages), (complete.clone(), 92, 100));
    let plain = as_chat(GEMINI, false).expect("translated");
    assert!(!plain.contains("usage"), "{plain}");

    let back = chat_as_gemini(&chat, usize::MAX).expect("back");
    golden("chat-as-gemini.sse", include_str!("../golden/chat-as-gemini.sse"), &back);
    assert_eq!(read(Api::Gemini, &back), (complete.clone(), 92, 100));
    let back = messages_as_gemini(&messages, usize::MAX).expect("back");
    golden("anthropic-as-gemini.sse", include_str!("../golden/anthropic-as-gemini.sse"), &back);
    assert_eq!(read(Api::Gemini, &back), (complete, 92, 100));
    // Once more: the same as from the provider.
    assert_eq!(as_messages_in(&back, usize::MAX).expect("again").replace("fc-7", ""), messages.replace("fc-7", ""));
}

#[test]
fn what_a_stream_leaves_out_is_named() {
    let mut translator = GeminiToChatStream::new(7, true, CallIds::new(1));
    run(GEMINI.as_bytes(), usize::MAX, |event, out| translator.event(event, out)).expect("translated");
    assert_eq!(translator.dropped(), ["thought"]);
    let signed = json!({"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "c2ln"}]}, "finishReason": "STOP"}]});
    let mut translator = GeminiToMessagesStream::new(9, CallIds::new(1));
    let mut out = Vec::new();
    translator.event(format!("data: {signed}\n\n").as_bytes(), &mut out).expect("translated");
    assert_eq!(translator.dropped(), ["thoughtSignature"]);
}

/// Calls come whole: none waits for what follows.
#[test]
fn the_block_of_a_call_ends_with_its_event() {
    let mut translator = GeminiToMessagesStream::new(9, CallIds::new(1));
    let calls = GEMINI.split_inclusive("\n\n").nth(3).expect("an event with two calls");
    let mut out = Vec::new();
    translator.event(calls.as_bytes(), &mut out).expect("translated");
    let text = String::from_utf8(out).expect("text");
    assert!(
        text.contains("London")
            && text.ends_with("event: content_block_stop\ndata: {\"index\":1,\"type\":\"content_block_stop\"}\n\n"),
        "{text}"
    );
}

/// A cut is never made complete: only [`GeminiToChatStream::finish`] writes the end, and not without an end reason.
#[test]
fn a_stream_without_an_end_reason_never_becomes_complete() {
    let events: Vec<&str> = GEMINI.split_inclusive("\n\n").collect();
    for cut in 0..events.len() - 1 {
        let stream = events[..cut].concat();
        assert_eq!(as_chat(&stream, true), Err(Untranslatable), "cut behind {cut}");
        assert_eq!(as_messages_in(&stream, usize::MAX), Err(Untranslatable), "cut behind {cut}");
    }
    let mut translator = GeminiToChatStream::new(7, true, CallIds::new(1));
    let out = run(GEMINI.as_bytes(), usize::MAX, |event, out| translator.event(event, out)).expect("translated");
    let text = String::from_utf8(out).expect("text");
    assert!(!text.contains("[DONE]") && !text.contains("finish_reason\":\""), "{text}");
    for event in ["data: {\n\n", "data: []\n\n", "data: {\"error\":{\"code\":503}}\n\n", "data: {\"candidates\":1}\n\n"]
    {
        assert_eq!(as_chat(event, true), Err(Untranslatable), "{event}");
    }
    let second = json!({"candidates": [{"index": 1, "content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]});
    assert_eq!(as_chat(&format!("data: {second}\n\n"), true), Err(Untranslatable));
    // The end of Gemini's own form comes with `[DONE]` only.
    let chat = as_chat(GEMINI, true).expect("translated");
    let cut = chat_as_gemini(&chat[..chat.find("data: [DONE]").expect("an end")], usize::MAX).expect("translated");
    assert!(!cut.contains("finishReason"), "{cut}");
    assert_eq!(chat_as_gemini("data: [DONE]\n\n", usize::MAX), Err(Untranslatable));
}

/// Models before Gemini 2 repeat the end reason in every event: what follows is no less a part of the response.
#[test]
fn an_end_reason_is_not_the_end() {
    let event = |text: &str, reason: &str| {
        let candidate = json!({"content": {"parts": [{"text": text}]}, "finishReason": reason});
        format!("data: {}\n\n", json!({"candidates": [candidate]}))
    };
    let chat = as_chat(&[event("a", "STOP"), event("b", "MAX_TOKENS")].concat(), false).expect("translated");
    assert_eq!(chat.matches("\"content\":\"").count(), 3, "the role, and two texts: {chat}");
    assert_eq!(chat.matches("\"finish_reason\":\"length\"").count(), 1, "{chat}");
    // A prompt that is refused after all.
    let refused = format!("{}data: {{\"promptFeedback\":{{\"blockReason\":\"SAFETY\"}}}}\n\n", event("a", "STOP"));
    assert!(as_chat(&refused, false).expect("translated").contains("\"finish_reason\":\"content_filter\""));
}

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
    let has_end = is_good && translator.finish(&mut out).is_ok();
    (out, has_end)
}

fn to_messages_so_far(stream: &[u8], step: usize) -> SoFar {
    let mut translator = GeminiToMessagesStream::new(9, CallIds::new(1));
    let (mut out, is_good) = so_far(stream, step, |event, out| translator.event(event, out));
    let has_end = is_good && translator.finish(&mut out).is_ok();
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
        for (turn, (asked, said, calls)) in turns.into_iter().enumerate() {
            messages.push(json!({"role": "user", "content": asked}));
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
