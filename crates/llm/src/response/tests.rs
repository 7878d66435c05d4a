use super::*;

fn facts(api: Api, body: &str) -> Facts {
    let whole = read(api, body.as_bytes());
    for step in 1..4 {
        let mut reader = ResponseReader::new(api);
        body.as_bytes().chunks(step).for_each(|part| reader.read(part));
        assert_eq!(reader.finish(), whole, "{body} in parts of {step} bytes");
    }
    whole
}

/// Content, choices, ended, end reason.
type Said = (bool, u128, u128, Option<EndReason>);

fn said(api: Api, body: &str) -> Said {
    let facts = facts(api, body);
    assert!(facts.json && !facts.malformed, "{body}");
    (facts.content, facts.choices, facts.ended, facts.end_reason)
}

#[test]
fn content_of_chat_chunks() {
    for (body, expected) in [
        (
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            (false, 1, 0, None),
        ),
        (r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#, (true, 1, 0, None)),
        (r#"{"choices":[{"delta":{"content":"a"},"index":2}]}"#, (true, 4, 0, None)),
        (r#"{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":""}]}}]}"#, (false, 1, 0, None)),
        (r#"{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"}]}}]}"#, (true, 1, 0, None)),
        (r#"{"choices":[{"index":0,"delta":{"reasoning_content":"a"}}]}"#, (true, 1, 0, None)),
        (r#"{"choices":[{"index":0,"delta":{"reasoning":"a","content":null}}]}"#, (true, 1, 0, None)),
        (r#"{"choices":[{"index":0,"delta":{"refusal":"no"}}]}"#, (true, 1, 0, None)),
        (r#"{"choices":[{"index":0,"delta":{"tool_calls":[]}}]}"#, (false, 1, 0, None)),
        (
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}}]}"#,
            (true, 1, 0, None),
        ),
        (r#"{"choices":[{"index":0,"delta":{"audio":{"id":"a"}}}]}"#, (true, 1, 0, None)),
        (r#"{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#, (true, 2, 2, Some(EndReason::Stop))),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"length","index":1},{"index":0,"delta":{}}]}"#,
            (true, 3, 2, Some(EndReason::Length)),
        ),
        (r#"{"choices":[{"index":0,"delta":{},"finish_reason":"eos"}]}"#, (true, 1, 1, Some(EndReason::Unknown))),
        (
            r#"{"choices":[{"index":0,"delta":{},"finish_r\u0065ason":"st\u006fp"}]}"#,
            (true, 1, 1, Some(EndReason::Stop)),
        ),
        (r#"{"choices":[]}"#, (false, 0, 0, None)),
        (r#"{"x":{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}}"#, (false, 0, 0, None)),
    ] {
        assert_eq!(said(Api::Chat, body), expected, "{body}");
    }
    let tool = facts(Api::Chat, r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]}}]}"#);
    assert!(tool.tool_call);
    assert_eq!(
        said(Api::Completions, r#"{"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}"#),
        (true, 1, 1, Some(EndReason::Stop))
    );
    assert_eq!(
        said(Api::Completions, r#"{"choices":[{"index":0,"text":"","finish_reason":null}]}"#),
        (false, 1, 0, None)
    );
    assert_eq!(said(Api::Embeddings, r#"{"data":[{"embedding":[0.5]}]}"#), (true, 1, 1, None));
    assert_eq!(said(Api::Embeddings, r#"{"data":[]}"#), (false, 0, 0, None));
}

#[test]
fn content_of_anthropic_events() {
    for (body, expected) in [
        (
            r#"{"type":"message_start","message":{"id":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3}}}"#,
            (false, 0, 0, None),
        ),
        (r#"{"type":"ping"}"#, (false, 0, 0, None)),
        (r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#, (false, 0, 0, None)),
        (
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            (false, 0, 0, None),
        ),
        (
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"x"}}"#,
            (true, 0, 0, None),
        ),
        (
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#,
            (true, 0, 0, None),
        ),
        (r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#, (true, 0, 0, None)),
        (r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}"#, (false, 0, 0, None)),
        (
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a"}}"#,
            (true, 0, 0, None),
        ),
        (
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
            (true, 0, 0, None),
        ),
        (r#"{"type":"content_block_stop","index":0}"#, (false, 0, 0, None)),
        (
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}"#,
            (true, 1, 1, Some(EndReason::ToolCalls)),
        ),
        (
            r#"{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}"#,
            (true, 1, 1, Some(EndReason::Stop)),
        ),
        (r#"{"type":"message","content":[],"stop_reason":"refusal"}"#, (true, 1, 1, Some(EndReason::ContentFilter))),
        (r#"{"type":"message","content":[],"stop_reason":"pause_turn"}"#, (true, 1, 1, Some(EndReason::Fault))),
    ] {
        assert_eq!(said(Api::Messages, body), expected, "{body}");
    }
    assert!(facts(Api::Messages, r#"{"type":"message_stop"}"#).done);
}

#[test]
fn content_of_responses_events() {
    for (body, expected) in [
        (
            r#"{"type":"response.created","response":{"id":"r","status":"in_progress","output":[],"error":null}}"#,
            (false, 0, 0, None),
        ),
        (
            r#"{"type":"response.output_item.added","item":{"type":"message","status":"in_progress","content":[]}}"#,
            (false, 0, 0, None),
        ),
        (r#"{"type":"response.output_item.added","item":{"type":"reasoning","summary":[]}}"#, (false, 0, 0, None)),
        (r#"{"type":"response.output_item.added","item":{"type":"function_call","arguments":""}}"#, (true, 0, 0, None)),
        (r#"{"type":"response.output_text.delta","delta":"a"}"#, (true, 0, 0, None)),
        (r#"{"delta":"a","type":"response.reasoning_summary_text.delta"}"#, (true, 0, 0, None)),
        (r#"{"type":"response.output_text.delta","delta":""}"#, (false, 0, 0, None)),
        (
            r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message"}]}}"#,
            (true, 1, 1, Some(EndReason::Stop)),
        ),
        (
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}"#,
            (true, 1, 1, Some(EndReason::ContentFilter)),
        ),
        (
            r#"{"response":{"incomplete_details":{"reason":"max_output_tokens"},"status":"incomplete"},"type":"response.incomplete"}"#,
            (true, 1, 1, Some(EndReason::Length)),
        ),
        (
            r#"{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}"#,
            (true, 1, 1, Some(EndReason::Stop)),
        ),
    ] {
        assert_eq!(said(Api::Responses, body), expected, "{body}");
    }
    assert!(facts(Api::Responses, r#"{"type":"response.completed","response":{}}"#).done);
    assert!(
        facts(
            Api::Responses,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}"#
        )
        .error
        .is_some_and(|error| error.code == "server_error")
    );
}

#[test]
fn content_of_gemini_chunks() {
    for (body, expected) in [
        (r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"}}]}"#, (false, 1, 0, None)),
        (r#"{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"}}]}"#, (true, 1, 0, None)),
        (r#"{"candidates":[{"content":{"parts":[{"text":"a","thought":true}]},"index":1}]}"#, (true, 2, 0, None)),
        (
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP"}]}"#,
            (true, 1, 1, Some(EndReason::Stop)),
        ),
        (r#"{"candidates":[{"content":{"parts":[{"inlineData":{"data":"AA"}}]}}]}"#, (true, 1, 0, None)),
        (r#"{"candidates":[{"finishReason":"SAFETY"}]}"#, (true, 1, 1, Some(EndReason::ContentFilter))),
        (r#"{"candidates":[{"finishReason":"IMAGE_SAFETY"}]}"#, (true, 1, 1, Some(EndReason::ContentFilter))),
        (r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#, (true, 1, 1, Some(EndReason::Fault))),
        (r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, (true, 0, u128::MAX, Some(EndReason::ContentFilter))),
        (
            r#"[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},{"candidates":[{"finishReason":"STOP"}]}]"#,
            (true, 1, 1, Some(EndReason::Stop)),
        ),
    ] {
        assert_eq!(said(Api::Gemini, body), expected, "{body}");
    }
}

#[test]
fn usage_of_each_api() {
    let openai = facts(
        Api::Chat,
        r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":3}}}"#,
    );
    assert_eq!(
        openai.usage,
        Usage { input: Some(10), output: Some(5), cached: Some(4), cache_write: Some(2), ..Usage::default() }
    );
    assert!(openai.is_usage_chunk());
    assert!(
        !facts(Api::Chat, r#"{"choices":[],"prompt_filter_results":[{"x":1}]}"#).is_usage_chunk(),
        "the first chunk of Azure"
    );
    assert!(!facts(Api::Chat, r#"{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}"#).is_usage_chunk());
    assert!(!facts(Api::Chat, r#"{"choices":[{"delta":{}}],"usage":null}"#).is_usage_chunk());
    assert_eq!((openai.usage.total_input(Api::Chat), openai.usage.total_output()), (10, 5));

    let mut anthropic = facts(Api::Messages, r#"{"type":"message_start","message":{"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}}}"#).usage;
    anthropic.update(
        &facts(
            Api::Messages,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#,
        )
        .usage,
    );
    assert_eq!((anthropic.total_input(Api::Messages), anthropic.total_output(), anthropic.cached), (60, 7, Some(30)));

    let gemini = facts(Api::Gemini, r#"{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":2,"toolUsePromptTokenCount":3,"cachedContentTokenCount":4}}"#).usage;
    assert_eq!((gemini.total_input(Api::Gemini), gemini.total_output(), gemini.cached), (13, 7, Some(4)));

    let responses = facts(
        Api::Responses,
        r#"{"type":"response.completed","response":{"id":"r","model":"m","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":8},"output_tokens":7}}}"#,
    );
    assert_eq!(responses.usage, Usage { input: Some(9), output: Some(7), cached: Some(8), ..Usage::default() });
}

#[test]
fn errors_of_each_api() {
    for (api, body, code, kind, message) in [
        (
            Api::Chat,
            r#"{"error":{"message":"m","type":"server_error","param":null,"code":null}}"#,
            "",
            "server_error",
            "m",
        ),
        (Api::Chat, r#"{"error":{"code":"insufficient_quota","message":"m"}}"#, "insufficient_quota", "", "m"),
        (
            Api::Chat,
            r#"{"error":{"code":400,"message":"m\n\u00e9","type":"BadRequestError"}}"#,
            "400",
            "BadRequestError",
            "m\né",
        ),
        (Api::Chat, r#"{"error":"overloaded"}"#, "", "", "overloaded"),
        (Api::Chat, r#"{"object":"error","message":"m","code":404}"#, "404", "", "m"),
        (
            Api::Messages,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "",
            "overloaded_error",
            "Overloaded",
        ),
        (Api::Gemini, r#"{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}"#, "503", "UNAVAILABLE", "m"),
        (Api::Gemini, r#"[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]"#, "503", "UNAVAILABLE", "m"),
        (
            Api::Responses,
            r#"{"type":"error","code":"server_error","message":"m","param":null}"#,
            "server_error",
            "",
            "m",
        ),
        (
            Api::Responses,
            r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"m"}}}"#,
            "rate_limit_exceeded",
            "",
            "m",
        ),
    ] {
        let expected = UpstreamError { code: code.into(), kind: kind.into(), message: message.into() };
        assert_eq!(facts(api, body).error, Some(expected), "{body}");
    }
    assert_eq!(facts(Api::Chat, r#"{"error":null,"choices":[{"message":{"content":"a"}}]}"#).error, None);
}

#[test]
fn malformed_bodies() {
    for body in [
        "",
        "{",
        "<html>",
        "{\"choices\":[}",
        "null",
        "1",
        "\"text\"",
        "[]",
        "{} {}",
        "{\"choices\":[{\"delta\":{\"content\":\"a",
    ] {
        assert!(facts(Api::Chat, body).malformed, "{body}");
    }
    let long =
        format!(r#"{{"error":{{"message":"{}"}},"x":{}1{}}}"#, "é".repeat(1000), "[".repeat(100), "]".repeat(100));
    let found = facts(Api::Chat, &long);
    assert!(!found.malformed && found.error.is_some_and(|error| error.message.len() <= 512));
}

#[test]
fn a_filtered_or_cut_response_is_not_cacheable() {
    let cacheable = [EndReason::Stop, EndReason::ToolCalls];
    for reason in [
        EndReason::Stop,
        EndReason::ToolCalls,
        EndReason::Length,
        EndReason::ContentFilter,
        EndReason::Fault,
        EndReason::Unknown,
    ] {
        assert_eq!(reason.is_cacheable(), cacheable.contains(&reason), "{reason:?}");
    }
}

#[test]
fn a_response_that_can_be_read_again_has_an_id() {
    let id = |api, body: &str| facts(api, body).response_id;
    for (body, expected) in [
        (
            r#"{"id":"resp_1","object":"response","conversation":{"id":"conv_1"},"output":[{"id":"msg_1"}]}"#,
            Some("resp_1"),
        ),
        (r#"{"type":"response.created","response":{"id":"resp\u005f2","status":"queued"}}"#, Some("resp_2")),
        (r#"{"type":"response.output_item.added","item":{"id":"msg_1"}}"#, None),
        // No path may contain it, but a later request may.
        (r#"{"id":"../models"}"#, Some("../models")),
        (r#"{"id":7}"#, None),
        (r#"{"id":""}"#, None),
    ] {
        assert_eq!(id(Api::Responses, body).as_deref(), expected, "{body}");
        assert_eq!(id(Api::Chat, body), None, "{body}");
    }
    for length in [256, 257, 600] {
        let name = "r".repeat(length);
        let found = id(Api::Responses, &format!(r#"{{"id":"{name}"}}"#));
        assert_eq!(found.is_some(), length == 256, "{length}");
    }
    for (status, pending) in [("queued", true), ("in_progress", true), ("completed", false), ("cancelled", false)] {
        let body = format!(r#"{{"id":"r","status":"{status}"}}"#);
        assert_eq!(facts(Api::Responses, &body).pending, pending, "{status}");
    }
}
