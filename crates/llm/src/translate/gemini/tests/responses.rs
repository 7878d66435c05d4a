//! Whole responses.

use super::*;

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
