//! What must hold for every input: shared by fuzz targets and by the test that runs their corpus.

use llm::Api;
use llm::multipart::Form;
use llm::request::{Edits, Prefill, PrefixHashes, Wanted, prefilled, scan};
use llm::splice::Splice;
use llm::stream::{BodyEnd, EventReader, EventSplitter, Outcome, StreamState};
use llm::translate::{
    CallIds, ChatToGeminiStream, ChatToMessagesStream, GeminiToChatStream, GeminiToMessagesStream,
    MessagesToChatStream, MessagesToGeminiStream, Translator, chat_response_to_gemini, chat_response_to_message,
    chat_to_gemini, chat_to_messages, gemini_response_to_chat, gemini_response_to_message, gemini_to_chat,
    gemini_to_messages, message_response_to_chat, message_response_to_gemini, messages_to_chat, messages_to_gemini,
    to_text,
};

/// Request bodies: what is accepted stays accepted, and says what is wanted, after its splices.
pub fn request(body: &[u8]) {
    let Ok(request) = scan(body) else { return };
    let wanted = Wanted { model: Some("served"), include_usage: true, max_output: Some(10) };
    let after = Edits::of(&request, body, &wanted).apply(body);
    let again = scan(&after).expect("a splice keeps a body readable");
    assert_eq!(again.model(&after).as_deref(), Some("served"));
    assert!(Edits::of(&again, &after, &wanted).is_empty());
    assert!(PrefixHashes::of(&request, body, None, 0).as_slice().len() <= body.len() / 512);
    for (api, prefill) in [
        (Api::Chat, Prefill::ContinueFinalMessage),
        (Api::Chat, Prefill::Prefix),
        (Api::Completions, Prefill::Assistant),
    ] {
        let Some(filled) = prefilled(api, body, "a \"text\"\n", prefill) else { continue };
        let after = scan(&filled).expect("a text keeps a body readable");
        assert_eq!(after.messages, request.messages + u32::from(api == Api::Chat));
        assert_eq!(after.model(&filled), request.model(body));
    }
}

/// Keys of the response cache: what has one is JSON, what means the same has the same, and what does not has another.
pub fn cache_key(body: &[u8]) {
    let key = |body: &[u8]| llm::cache_key::cache_key(llm::Api::Chat, b"team", b"/v1/chat/completions", b"m", body);
    let found = key(body);
    assert_eq!(found, key(&[b" \n", body, b"\t"].concat()), "white space around a value means nothing");
    if found.is_some() {
        assert!(llm::json::is_valid(body), "what has a key is JSON");
        assert_ne!(found, key(&[b"[", body, b"]"].concat()), "another value");
        assert_ne!(
            found,
            llm::cache_key::cache_key(llm::Api::Chat, b"other", b"/v1/chat/completions", b"m", body),
            "another partition"
        );
    }
}

/// APIs with streams; the first byte of a corpus file chooses one by its place here.
const STREAMED: [Api; 8] = [
    Api::Chat,
    Api::Completions,
    Api::Responses,
    Api::Embeddings,
    Api::Moderations,
    Api::Images,
    Api::Messages,
    Api::Gemini,
];

/// Forms: what is accepted stays accepted, and says what is wanted, after its splice. The first line is the content type.
pub fn form(input: &[u8]) {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return };
    let (content_type, body) = (&input[..end], &input[end + 1..]);
    let Ok(form) = Form::read(content_type, body) else { return };
    let edits = form.edits(body, "served");
    let after = edits.apply(body);
    assert_eq!(after.len(), edits.len_after(body));
    let again = Form::read(content_type, &after).expect("a splice keeps a form readable");
    assert_eq!(again.model_anywhere(&after), Some("served"));
    assert!(again.edits(&after, "served").is_empty());
    assert!(form.model(body).is_none() || form.model(body) == form.model_anywhere(body));
    // A form ends where it says so, and nowhere before.
    let close = if body.ends_with(b"--\r\n") { 3 } else { 1 };
    assert!(Form::read(content_type, &body[..body.len() - close]).is_err());
}

fn run(api: Api, stream: &[u8], step: usize) -> (Vec<u8>, Outcome, llm::response::Usage) {
    let (mut splitter, mut reader) = (EventSplitter::new(), EventReader::new(api));
    let mut state = StreamState::new(api, 1, true);
    let mut out = Vec::new();
    for part in stream.chunks(step) {
        let mut at = 0;
        while let Some(piece) = splitter.next(part, &mut at) {
            out.extend_from_slice(piece.bytes);
            reader.read(piece.bytes);
            if piece.last {
                state.event(&reader.finish(), piece.bytes.len() as u64);
            }
        }
    }
    let in_event = splitter.finish().is_some_and(|piece| {
        out.extend_from_slice(piece.bytes);
        !piece.bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
    });
    let usage = *state.usage();
    (out, state.end(BodyEnd::Proper, in_event), usage)
}

/// Event streams: bytes leave unchanged, and what events say does not depend on how they arrive. The first byte chooses API and split.
pub fn stream(input: &[u8]) {
    let Some((&choice, stream)) = input.split_first() else { return };
    let api = STREAMED[usize::from(choice) % STREAMED.len()];
    let whole = run(api, stream, usize::MAX);
    let split = run(api, stream, 1 + usize::from(choice) / 16);
    assert_eq!(whole.0, stream);
    assert_eq!(whole, split);
}

/// A response that breaks off and is repeated as it was: the first one passes unchanged, and the second one is no other.
pub fn splice(input: &[u8]) {
    let Some((&choice, stream)) = input.split_first() else { return };
    let api = STREAMED[usize::from(choice) % STREAMED.len()];
    let Some(mut splice) = Splice::new(api) else { return };
    let mut splitter = EventSplitter::new();
    let (mut at, mut events) = (0, Vec::new());
    while let Some(piece) = splitter.next(stream, &mut at) {
        events.push((piece.bytes.to_vec(), piece.last));
    }
    events.truncate(events.iter().rposition(|(_, last)| *last).map_or(0, |at| at + 1));
    // What is behind the end never comes here.
    if let Some(end) = events.iter().position(|(bytes, _)| bytes.windows(6).any(|six| six == b"[DONE]")) {
        events.truncate(end + 1);
        events.truncate(events.iter().rposition(|(_, last)| *last).map_or(0, |at| at + 1));
    }
    let mut out = Vec::new();
    let mut run = |splice: &mut Splice| {
        out.clear();
        events.iter().try_for_each(|(bytes, last)| splice.piece(bytes, *last, &mut out)).map(|()| out.clone())
    };
    let sent: Vec<u8> = events.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
    assert_eq!(run(&mut splice).as_ref(), Ok(&sent), "the first response passes as it is");
    if splice.can_go_on() {
        for _ in 0..2 {
            assert!(splice.has_caught_up());
            splice.restart();
            assert!(run(&mut splice).is_ok(), "the same response");
        }
    }
}

/// One request or response in every translation, or one stream in the translation that the first byte chooses, in two splits.
pub fn translate(input: &[u8]) {
    let Some((&choice, text)) = input.split_first() else { return };
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(text) {
        let mut ids = CallIds::new(u64::from(choice));
        let model = if choice.is_multiple_of(2) { "gemini-2.5-flash" } else { "gemini-3-pro" };
        let requests = [
            chat_to_messages(&value, "claude", Some(9)),
            chat_to_gemini(&value, model),
            messages_to_chat(&value, "gpt"),
            messages_to_gemini(&value, model),
            gemini_to_chat(&value, "gpt", choice > 9),
            gemini_to_messages(&value, "claude", choice > 9, Some(9)),
        ];
        for translated in requests.into_iter().flatten() {
            let written = to_text(&translated.body, text);
            let read: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
            assert_eq!(read, translated.body);
        }
        let _ = message_response_to_chat(&value, 7);
        let _ = chat_response_to_message(&value);
        let _ = gemini_response_to_chat(&value, 7, &mut ids);
        let _ = gemini_response_to_message(&value, &mut ids);
        let _ = chat_response_to_gemini(&value);
        let _ = message_response_to_gemini(&value);
    }
    let whole = translated(choice, text, usize::MAX);
    assert_eq!(translated(choice, text, 1 + usize::from(choice) / 6), whole);
}

/// What a client has of a stream that comes in steps of so many bytes, up to the event that has no meaning.
fn translated(choice: u8, stream: &[u8], step: usize) -> (Vec<u8>, bool) {
    let mut translator: Box<dyn Translator> = match choice % 6 {
        0 => Box::new(MessagesToChatStream::new(7, true)),
        1 => Box::new(ChatToMessagesStream::new(9)),
        2 => Box::new(GeminiToChatStream::new(7, true, CallIds::new(7))),
        3 => Box::new(GeminiToMessagesStream::new(9, CallIds::new(7))),
        4 => Box::new(ChatToGeminiStream::new()),
        _ => Box::new(MessagesToGeminiStream::new()),
    };
    let (mut out, mut is_good) = (Vec::new(), true);
    let (mut splitter, mut whole) = (EventSplitter::new(), Vec::new());
    for part in stream.chunks(step) {
        let mut at = 0;
        while let Some(piece) = splitter.next(part, &mut at) {
            whole.extend_from_slice(piece.bytes);
            if piece.last {
                is_good = is_good && translator.event(&std::mem::take(&mut whole), &mut out).is_ok();
            }
        }
    }
    let end = translator.finish(&[], &mut out);
    let text = String::from_utf8(out).expect("text");
    // An end is written for an end reason only.
    if text.ends_with("\ndata: [DONE]\n\n") && choice % 6 == 2 {
        assert!(text.contains("\"finish_reason\":\""), "{text}");
    }
    (text.into_bytes(), is_good && end.is_ok())
}
