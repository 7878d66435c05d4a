//! Event streams.

use super::*;

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
    let golden = crate::translate::tests::golden;
    let chat = as_chat(GEMINI, true).expect("translated");
    golden("gemini-as-chat.sse", include_str!("../../golden/gemini-as-chat.sse"), &chat);
    assert_eq!(read(Api::Chat, &chat), (complete.clone(), 92, 100));
    let messages = as_messages_in(GEMINI, usize::MAX).expect("translated");
    golden("gemini-as-anthropic.sse", include_str!("../../golden/gemini-as-anthropic.sse"), &messages);
    assert_eq!(read(Api::Messages, &messages), (complete.clone(), 92, 100));
    let plain = as_chat(GEMINI, false).expect("translated");
    assert!(!plain.contains("usage"), "{plain}");

    let back = chat_as_gemini(&chat, usize::MAX).expect("back");
    golden("chat-as-gemini.sse", include_str!("../../golden/chat-as-gemini.sse"), &back);
    assert_eq!(read(Api::Gemini, &back), (complete.clone(), 92, 100));
    let back = messages_as_gemini(&messages, usize::MAX).expect("back");
    golden("anthropic-as-gemini.sse", include_str!("../../golden/anthropic-as-gemini.sse"), &back);
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
