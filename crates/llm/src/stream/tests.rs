use super::*;
use crate::Api;
use crate::response::{Facts, UpstreamError};
use proptest::prelude::*;

type Cut = (Vec<u8>, bool);

/// The events of `input` in pieces, each joined, with whether it is complete; the bytes that left.
fn events(input: &[u8], pieces: &[usize]) -> (Vec<Cut>, Vec<u8>, usize) {
    let mut splitter = EventSplitter::new();
    let (mut found, mut all, mut largest) = (Vec::<Cut>::new(), Vec::new(), 0);
    let mut take = |piece: Piece<'_>, buffered: bool| {
        all.extend_from_slice(piece.bytes);
        if buffered {
            largest = largest.max(piece.bytes.len());
        }
        match found.last_mut() {
            Some((event, complete)) if !piece.first => {
                assert!(!*complete, "only the first piece of an event says so");
                event.extend_from_slice(piece.bytes);
                *complete = piece.last;
            }
            _ => found.push((piece.bytes.to_vec(), piece.last)),
        }
    };
    let mut rest = input;
    let mut lengths = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
        rest = behind;
        let mut at = 0;
        while let Some(piece) = splitter.next(part, &mut at) {
            take(piece, piece.bytes.len() > part.len());
        }
        assert_eq!(at, part.len());
    }
    if let Some(piece) = splitter.finish() {
        take(piece, true);
    }
    (found, all, largest)
}

#[test]
fn every_kind_of_line_end_ends_an_event() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = format!("data: a{end}{end}event: x{end}data:b{end}{end}: comment{end}{end}");
        let (found, all, _) = events(stream.as_bytes(), &[]);
        assert_eq!(all, stream.as_bytes());
        let expected =
            [format!("data: a{end}{end}"), format!("event: x{end}data:b{end}{end}"), format!(": comment{end}{end}")];
        assert_eq!(found, expected.map(|event| (event.into_bytes(), true)));
    }
    let (found, _, _) = events(b"data: a\n\ndata: b\n", &[]);
    assert_eq!(found, [(b"data: a\n\n".to_vec(), true), (b"data: b\n".to_vec(), false)]);
}

#[test]
fn a_large_event_passes_in_pieces_and_no_more_than_64_kib_are_held() {
    let event = format!("data: {}\n\n", "x".repeat(1 << 20));
    let stream = format!("{event}data: small\n\n");
    let (found, all, largest) = events(stream.as_bytes(), &[1000; 2000]);
    assert_eq!(all, stream.as_bytes());
    assert_eq!(found, [(event.into_bytes(), true), (b"data: small\n\n".to_vec(), true)]);
    assert!(largest <= MAX_WHOLE_EVENT);
    let mut splitter = EventSplitter::new();
    for _ in 0..3000 {
        while splitter.next(&[b'x'; 1000], &mut 0).is_some_and(|piece| piece.bytes.len() != 1000) {}
        assert!(splitter.held_bytes() <= MAX_WHOLE_EVENT);
    }
    assert!(splitter.event_bytes() >= 3_000_000 && splitter.in_large_event());
}

fn streams() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::sample::select(vec![
            "data: ",
            "data:",
            "event: x",
            ": c",
            "\n",
            "\n\n",
            "\r",
            "\r\n",
            "\r\n\r\n",
            "{\"choices\":[]}",
            "[DONE]",
            "é",
            "id: 1",
            "data"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        (0usize..70_000).prop_map(|len| vec![b'y'; len]),
    ];
    prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

/// Events by the rules of the standard, in the simplest way.
fn reference(stream: &[u8]) -> Vec<Vec<u8>> {
    let (mut found, mut start, mut line, mut at) = (Vec::new(), 0, 0, 0);
    while at < stream.len() {
        let end = match &stream[at..] {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => 0,
        };
        if end == 0 {
            at += 1;
            continue;
        }
        let blank = line == at;
        at += end;
        line = at;
        if blank {
            found.push(stream[start..at].to_vec());
            start = at;
        }
    }
    if start < stream.len() {
        found.push(stream[start..].to_vec());
    }
    found
}

fn trimmed(events: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    // LF of a CRLF that was split may stand at the start of the next event
    events
        .into_iter()
        .map(|event| event.strip_prefix(b"\n").map(<[u8]>::to_vec).unwrap_or(event))
        .map(|event| {
            let end = event.len() - event.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            event[..end].to_vec()
        })
        .filter(|event| !event.is_empty())
        .collect()
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events_and_bytes(stream in streams(), pieces in prop::collection::vec(1usize..3000, 0..200)) {
        let (found, all, largest) = events(&stream, &pieces);
        prop_assert_eq!(&all, &stream);
        prop_assert!(largest <= MAX_WHOLE_EVENT);
        let found = found.into_iter().map(|(event, _)| event).collect();
        prop_assert_eq!(trimmed(found), trimmed(reference(&stream)));
    }

    #[test]
    fn any_split_of_an_event_says_the_same(event in streams(), pieces in prop::collection::vec(1usize..9, 0..60)) {
        let whole = read(Api::Chat, &event);
        let mut reader = EventReader::new(Api::Chat);
        let mut rest = event.as_slice();
        for len in pieces {
            let (part, behind) = rest.split_at(len.min(rest.len()));
            reader.read(part);
            rest = behind;
        }
        reader.read(rest);
        prop_assert_eq!(reader.finish(), whole);
    }
}

fn read(api: Api, event: &[u8]) -> Facts {
    let mut reader = EventReader::new(api);
    reader.read(event);
    reader.finish()
}

#[test]
fn fields_of_events() {
    let content = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    for event in [
        format!("data: {content}\n\n"),
        format!("data:{content}\n\n"),
        format!("id: 1\r\nevent: x\r\ndata: {content}\r\nretry: 5\r\n\r\n"),
        format!("\u{feff}data: {content}\n\n"),
        format!("data: {content}"),
        format!(": {{\ndata: {content}\r\r"),
        "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\ndata:\"a\"}}]}\n\n".to_owned(),
    ] {
        let facts = read(Api::Chat, event.as_bytes());
        assert!(facts.json && facts.content && !facts.malformed, "{event}");
    }
    for event in ["data: [DONE]\n\n", "data:[DONE]\r\n\r\n", "data: [DONE] \n\n"] {
        assert!(read(Api::Chat, event.as_bytes()).done, "{event}");
    }
    for event in ["\n", ": ping\n\n", "event: x\n\n", "data:\n\n", "data\n\n", "datas: x\n\n", "da\u{feff}ta: x\n\n"] {
        assert_eq!(read(Api::Chat, event.as_bytes()), Facts::default(), "{event}");
    }
    for event in [
        "data: [DON\n\n",
        "data: [DONE]x\n\n",
        "data: {\n\n",
        "data: <html>\n\n",
        "data: {\"choices\":[\ndata: \"a\n\n",
    ] {
        let facts = read(Api::Chat, event.as_bytes());
        assert!(facts.malformed && !facts.done, "{event}");
    }
    assert!(read(Api::Chat, b"event: error\ndata: {\"x\":1}\n\n").error.is_some());
    let mut reader = EventReader::new(Api::Chat);
    reader.read(b"event: error\ndata: {\n\n");
    reader.finish();
    reader.read(b"data: [DONE]\n\n");
    assert_eq!(reader.finish(), Facts { done: true, ..Facts::default() }, "nothing stays of the event before");
}

/// Runs a stream through splitter, reader and state; what happened to each event, and how it ended.
fn run(api: Api, choices: u64, remove_usage: bool, stream: &str, end: BodyEnd) -> (String, Outcome) {
    let mut splitter = EventSplitter::new();
    let mut reader = EventReader::new(api);
    let mut state = StreamState::new(api, choices, remove_usage);
    let mut log = String::new();
    let mut at = 0;
    while let Some(piece) = splitter.next(stream.as_bytes(), &mut at) {
        reader.read(piece.bytes);
        log.push(match state.event(&reader.finish(), piece.bytes.len() as u64) {
            Handling::Hold => 'h',
            Handling::Pass => 'p',
            Handling::Drop => 'd',
            Handling::Remove => 'r',
            Handling::Fail(_) => 'f',
        });
    }
    let in_event = splitter.finish().is_some();
    let outcome = state.end(end, in_event);
    (log, outcome)
}

const COMPLETE: Outcome = Outcome::Complete { missing: b"" };

fn chat(events: &[&str]) -> String {
    events
        .iter()
        .map(|event| match *event {
            "role" => "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n".to_owned(),
            "text" => "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n".to_owned(),
            "text1" => "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"a\"}}]}\n\n".to_owned(),
            "tool" => "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\"}}]}}]}\n\n".to_owned(),
            "stop" => "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned(),
            "stop1" => "data: {\"choices\":[{\"index\":1,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned(),
            "usage" => "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n".to_owned(),
            "error" => "data: {\"error\":{\"message\":\"m\",\"code\":500}}\n\n".to_owned(),
            "done" => "data: [DONE]\n\n".to_owned(),
            "ping" => ": ping\n\n".to_owned(),
            other => other.to_owned(),
        })
        .collect()
}

#[test]
fn states_of_a_chat_stream() {
    let error = Failure::Error(UpstreamError { code: "500".into(), message: "m".into(), ..UpstreamError::default() });
    let missing = Outcome::Complete { missing: b"data: [DONE]\n\n" };
    use BodyEnd::{Cut, Idle, Proper};
    for (events, choices, end, log, outcome) in [
        (&["role", "text", "stop", "usage", "done"][..], 1, Proper, "hpppp", COMPLETE),
        (&["ping", "role", "ping"], 1, Proper, "hhh", Outcome::Uncommitted(Failure::Cut)),
        (&["role"], 1, Idle, "h", Outcome::Uncommitted(Failure::Stalled)),
        (&["role", "stop", "done"], 1, Proper, "hpp", COMPLETE),
        // F10, F11: a cut after content
        (&["role", "text"], 1, Proper, "hp", Outcome::Failed(Failure::Cut)),
        (&["role", "text"], 1, Cut, "hp", Outcome::Failed(Failure::Cut)),
        (&["role", "text", "stop"], 1, Cut, "hpp", Outcome::Failed(Failure::Cut)),
        (&["role", "text"], 1, Idle, "hp", Outcome::Failed(Failure::Stalled)),
        // rule 4: [DONE] alone proves nothing
        (&["role", "text", "done"], 1, Proper, "hpf", Outcome::Failed(Failure::Cut)),
        (&["role", "done"], 1, Proper, "hf", Outcome::Uncommitted(Failure::Cut)),
        // every choice needs an end reason
        (&["role", "text", "text1", "stop", "done"], 2, Proper, "hpppf", Outcome::Failed(Failure::Cut)),
        (&["role", "text", "text1", "stop1", "stop", "done"], 2, Proper, "hppppp", COMPLETE),
        // F20: malformed events
        (&["role", "data: {\"x\n\n"], 1, Proper, "hf", Outcome::Uncommitted(Failure::Malformed)),
        (&["role", "text", "data: oops\n\n", "stop", "done"], 1, Proper, "hpfdd", Outcome::Failed(Failure::Malformed)),
        // F21, F22: errors before and after content; what follows is dropped
        (&["role", "error", "done"], 1, Proper, "hfd", Outcome::Uncommitted(error.clone())),
        (&["role", "text", "error", "done"], 1, Proper, "hpfd", Outcome::Failed(error.clone())),
        (&["role", "text", "stop", "error", "done"], 1, Proper, "hppfd", Outcome::Failed(error)),
        // F24: complete without [DONE]
        (&["role", "text", "stop"], 1, Proper, "hpp", missing),
        // F25: events behind the end
        (&["role", "text", "stop", "done", "done", "text"], 1, Proper, "hpppdd", COMPLETE),
        (&["role", "text", "stop", "done"], 1, Cut, "hppp", COMPLETE),
        // a piece of an event at the end
        (&["role", "text", "stop", "data: {"], 1, Proper, "hpp", Outcome::Failed(Failure::Cut)),
    ] {
        assert_eq!(run(Api::Chat, choices, false, &chat(events), end), (log.to_owned(), outcome), "{events:?}");
    }
    let (log, outcome) = run(Api::Chat, 1, true, &chat(&["role", "text", "stop", "usage", "done"]), Proper);
    assert_eq!((log.as_str(), outcome), ("hpprp", COMPLETE), "the chunk that the gateway asked for is taken out");
}

#[test]
fn states_of_the_other_streams() {
    use BodyEnd::Proper;
    let anthropic =
        |events: &[&str]| -> String { events.iter().map(|data| format!("event: x\ndata: {data}\n\n")).collect() };
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":3}}}"#;
    let text = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#;
    let stop = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#;
    let end = r#"{"type":"message_stop"}"#;
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#;
    let error = Failure::Error(UpstreamError {
        kind: "overloaded_error".into(),
        message: "m".into(),
        ..UpstreamError::default()
    });
    for (events, log, outcome) in [
        (&[start, "{\"type\":\"ping\"}", text, stop, end][..], "hhppp", COMPLETE),
        (&[start, text, end], "hpf", Outcome::Failed(Failure::Cut)),
        (
            &[start, text, stop],
            "hpp",
            Outcome::Complete { missing: b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n" },
        ),
        (&[start, overloaded], "hf", Outcome::Uncommitted(error.clone())),
        (&[start, text, overloaded, end], "hpfd", Outcome::Failed(error)),
    ] {
        assert_eq!(run(Api::Messages, 1, false, &anthropic(events), Proper), (log.to_owned(), outcome), "{events:?}");
    }

    let text = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#;
    let stop = r#"{"candidates":[{"finishReason":"STOP"}]}"#;
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#;
    for (events, log, outcome) in [
        (&[text, stop][..], "pp", COMPLETE),
        (&[text], "p", Outcome::Failed(Failure::Cut)),
        (&[blocked], "p", COMPLETE),
        (&["{\"candidates\":[]}"], "h", Outcome::Uncommitted(Failure::Cut)),
    ] {
        assert_eq!(run(Api::Gemini, 1, false, &anthropic(events), Proper), (log.to_owned(), outcome), "{events:?}");
    }

    let created = r#"{"type":"response.created","response":{"status":"in_progress"}}"#;
    let text = r#"{"type":"response.output_text.delta","delta":"a"}"#;
    let completed = r#"{"type":"response.completed","response":{"status":"completed"}}"#;
    let failed =
        r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}"#;
    let error =
        Failure::Error(UpstreamError { code: "server_error".into(), message: "m".into(), ..UpstreamError::default() });
    for (events, log, outcome) in [
        (&[created, text, completed][..], "hpp", COMPLETE),
        (&[created, text], "hp", Outcome::Failed(Failure::Cut)),
        (&[created, text, failed], "hpf", Outcome::Failed(error.clone())),
        (&[created, failed], "hf", Outcome::Uncommitted(error)),
    ] {
        assert_eq!(run(Api::Responses, 1, false, &anthropic(events), Proper), (log.to_owned(), outcome), "{events:?}");
    }
}

#[test]
fn a_cut_inside_a_tool_call_is_known() {
    let mut state = StreamState::new(Api::Chat, 1, false);
    let mut see = |events: &[&str]| {
        for event in events {
            state.event(&read(Api::Chat, chat(&[event]).as_bytes()), 1);
        }
        state.in_tool_call()
    };
    assert!(!see(&["role", "text"]));
    assert!(see(&["tool"]));
    assert!(!see(&["stop"]));
}

#[test]
fn failures_have_the_codes_of_the_error_event() {
    let codes = [Failure::Cut, Failure::Stalled, Failure::Malformed, Failure::Error(UpstreamError::default())]
        .map(|failure| failure.code());
    assert_eq!(codes, ["upstream_cut", "upstream_stalled", "upstream_malformed", "upstream_error"]);
}
