//! Every fault of the simulator, read back with the classification of `llm`: two independent readings of one table.

use llm::Api;
use llm::fault::{Fault, Head, notes, of_response, of_stream, retry_hint};
use llm::response;
use llm::stream::{BodyEnd, EventReader, EventSplitter, StreamState};
use simulator::Simulator;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// After which silence a response counts as stalled: short for those that stall, else a deadline that nothing reaches.
fn idle(body_or_path: &str) -> Duration {
    let stalls = ["sim-f8\"", "sim-f9\"", "sim-f11\"", "sim-f8:", "sim-f9:", "sim-f11:"];
    if stalls.iter().any(|name| body_or_path.contains(name)) {
        Duration::from_millis(300)
    } else {
        Duration::from_secs(60)
    }
}

#[derive(Debug)]
struct Received {
    status: u16,
    head: String,
    body: Vec<u8>,
    end: BodyEnd,
}

fn request(api: Api, model: &str, stream: bool) -> (String, String) {
    match api {
        Api::Chat => (
            "/v1/chat/completions".into(),
            format!(
                r#"{{"model":"{model}","stream":{stream},"stream_options":{{"include_usage":true}},"messages":[{{"role":"user","content":"hi"}}]}}"#
            ),
        ),
        Api::Completions => (
            "/v1/completions".into(),
            format!(
                r#"{{"model":"{model}","stream":{stream},"stream_options":{{"include_usage":true}},"prompt":"hi"}}"#
            ),
        ),
        Api::Responses => ("/v1/responses".into(), format!(r#"{{"model":"{model}","stream":{stream},"input":"hi"}}"#)),
        Api::Moderations => ("/v1/moderations".into(), format!(r#"{{"model":"{model}","input":"hi"}}"#)),
        Api::Images => ("/v1/images/generations".into(), format!(r#"{{"model":"{model}","prompt":"hi"}}"#)),
        // Nobody here reads what they send.
        Api::ImageEdits | Api::ImageVariations | Api::Speech | Api::Transcriptions | Api::Translations => {
            unreachable!("{api:?} is not called")
        }
        Api::Embeddings => ("/v1/embeddings".into(), format!(r#"{{"model":"{model}","input":"hi"}}"#)),
        Api::Messages => (
            "/v1/messages".into(),
            format!(
                r#"{{"model":"{model}","stream":{stream},"max_tokens":9,"messages":[{{"role":"user","content":"hi"}}]}}"#
            ),
        ),
        Api::Gemini => {
            let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
            (
                format!("/v1beta/models/{model}:{method}"),
                r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#.into(),
            )
        }
    }
}

/// Sends a request on a connection of its own; `None` if the connection ends before a head.
async fn call(simulator: &Simulator, method: &str, path: &str, body: &str) -> Option<Received> {
    let mut stream = TcpStream::connect(simulator.address()).await.expect("a connection");
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).await.expect("sent");
    let mut bytes = Vec::new();
    let mut end = BodyEnd::Cut;
    let stall = idle(&format!("{path}{body}"));
    let find = |bytes: &[u8]| bytes.windows(4).position(|four| four == b"\r\n\r\n");
    loop {
        if let Some(at) = find(&bytes)
            && is_whole(&bytes, at + 4)
        {
            end = BodyEnd::Proper;
            break;
        }
        match tokio::time::timeout(stall, stream.read_buf(&mut bytes)).await {
            Err(_) => {
                end = BodyEnd::Idle;
                break;
            }
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(_)) => {}
        }
    }
    let at = find(&bytes)?;
    let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
    let mut body = bytes[at + 4..].to_vec();
    if head.contains("chunked") {
        body = unchunk(&body).0;
    }
    Some(Received { status: head.split(' ').nth(1)?.parse().ok()?, head, body, end })
}

fn is_whole(bytes: &[u8], body: usize) -> bool {
    let head = String::from_utf8_lossy(&bytes[..body]);
    match head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        Some(length) => bytes.len() - body >= length.parse::<usize>().expect("a length"),
        None => unchunk(&bytes[body..]).1,
    }
}

fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).expect("text"), 16).expect("a size");
        if size == 0 {
            return (body, true);
        }
        let Some(data) = rest.get(end + 2..end + 2 + size) else { break };
        body.extend_from_slice(data);
        rest = rest.get(end + 4 + size..).unwrap_or_default();
    }
    (body, false)
}

/// The fault that a gateway would see.
async fn seen(simulator: &Simulator, api: Api, fault: u8, stream: bool) -> Option<u8> {
    let (path, body) = request(api, &format!("sim-f{fault}"), stream);
    let Some(received) = call(simulator, "POST", &path, &body).await else {
        // reset and silence end without a head
        return Some(if fault == 8 { 8 } else { 7 });
    };
    let field = |name: &str| received.head.lines().find_map(|line| line.strip_prefix(name)).map(str::as_bytes);
    let head =
        Head { status: received.status, retry_after: retry_hint(field("retry-after-ms: "), field("retry-after: ")) };
    if !received.head.contains("text/event-stream") {
        let facts = response::read(api, &received.body);
        let found = match received.end {
            BodyEnd::Idle if received.body.is_empty() => Some(Fault::NO_CONTENT_IN_TIME),
            end => of_response(head, &facts, end != BodyEnd::Proper),
        };
        let has_usage = !facts.usage.is_empty() || api == Api::Embeddings;
        return found.or_else(|| notes(facts.end_reason, has_usage).next()).map(Fault::number);
    }
    let (mut splitter, mut reader, mut state) =
        (EventSplitter::new(), EventReader::new(api), StreamState::new(api, 1, false));
    let mut at = 0;
    while let Some(piece) = splitter.next(&received.body, &mut at) {
        reader.read(piece.bytes);
        if piece.last {
            state.event(&reader.finish(), piece.bytes.len() as u64);
        }
    }
    let in_event = splitter.finish().is_some();
    let outcome = state.end(received.end, in_event);
    let found = of_stream(&outcome, state.in_tool_call(), state.dropped_bytes());
    found.or_else(|| notes(state.end_reason(), !state.usage().is_empty()).next()).map(Fault::number)
}

/// What a gateway sees of fault `fault`, if that is not the fault itself.
fn expected(api: Api, fault: u8, stream: bool) -> Option<u8> {
    let complete = None;
    match (fault, stream) {
        // the simulator resets in place of refusing
        (1, _) => Some(7),
        // a filter is a response without text for Gemini, and an error for the others
        (13, _) => Some(13),
        // a length that a stream does not have
        (19, true) => complete,
        // a whole body: cut, or not JSON, or an error inside a 200
        (10 | 11 | 23, false) => Some(19),
        (20, false) => Some(17),
        (21 | 22, false) => Some(5),
        (15 | 26 | 27, _) if api == Api::Embeddings => complete,
        (24 | 25 | 28 | 29, false) => complete,
        // the APIs without a last event miss none, and do not know what is behind it
        (24, true) if matches!(api, Api::Gemini | Api::Responses) => complete,
        (25, true) if api == Api::Gemini => complete,
        // an event stream without a tool call in pieces
        (23, true) if api == Api::Completions => Some(10),
        (21, true) if api == Api::Messages => Some(6),
        (21, true) => Some(5),
        (28 | 29, true) => complete,
        (0 | 30 | 31 | 33 | 35, _) => complete,
        (fault, _) => Some(fault),
    }
}

#[tokio::test]
async fn a_gateway_sees_the_fault_that_the_model_names() {
    let simulator = Arc::new(Simulator::start().await.expect("a simulator"));
    let mut cases = JoinSet::new();
    // Of documents that are no text, nobody counts tokens.
    for api in Api::ALL.into_iter().filter(|api| api.generates_text() || *api == Api::Embeddings) {
        for stream in [false, true] {
            // F32 depends on the calls before
            for fault in (0..=35).filter(|fault| *fault != 32) {
                if !(stream && api == Api::Embeddings) {
                    let simulator = simulator.clone();
                    cases.spawn(async move { (api, fault, stream, seen(&simulator, api, fault, stream).await) });
                }
            }
        }
    }
    let mut wrong = Vec::new();
    for (api, fault, stream, found) in cases.join_all().await {
        if found != expected(api, fault, stream) {
            wrong.push(format!("{api:?} F{fault} stream {stream}: {found:?}, not {:?}", expected(api, fault, stream)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_fault_may_happen_once_and_a_flapping_provider_recovers() {
    let simulator = Simulator::start().await.expect("a simulator");
    let (path, body) = request(Api::Chat, "sim-f5-once", false);
    let mut statuses = Vec::new();
    for _ in 0..2 {
        statuses.push(call(&simulator, "POST", &path, &body).await.expect("a response").status);
    }
    let (path, body) = request(Api::Messages, "sim-f32", false);
    for _ in 0..4 {
        statuses.push(call(&simulator, "POST", &path, &body).await.expect("a response").status);
    }
    assert_eq!(statuses, [500, 200, 529, 529, 529, 200]);
}

#[tokio::test]
async fn tools_counts_models_and_metrics() {
    let simulator = Simulator::start().await.expect("a simulator");
    let get = async |method, path, body| {
        let received: Received = call(&simulator, method, path, body).await.expect("a response");
        (received.status, String::from_utf8(received.body).expect("text"))
    };
    let tools = r#"{"model":"sim","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]}"#;
    assert!(get("POST", "/v1/chat/completions", tools).await.1.contains("\"finish_reason\":\"tool_calls\""));
    let result = tools.replace("}],\"tools\"", "},{\"role\":\"tool\",\"content\":\"1\"}],\"tools\"");
    assert!(get("POST", "/v1/chat/completions", &result).await.1.contains("\"finish_reason\":\"stop\""));
    let count = get("POST", "/v1/messages/count_tokens", r#"{"model":"sim","messages":[]}"#).await;
    assert_eq!(count, (200, "{\"input_tokens\":1}".to_owned()));
    assert!(get("GET", "/v1/models", "").await.1.contains("\"id\":\"sim\""));
    assert!(get("GET", "/v1beta/models", "").await.1.contains("models/sim"));
    assert_eq!(get("PUT", "/simulator/metrics", "vllm:num_requests_waiting 7\n").await.0, 200);
    assert_eq!(get("GET", "/metrics", "").await.1, "vllm:num_requests_waiting 7\n");
    assert_eq!(get("POST", "/v1/chat/completions", "{").await.0, 400);
    assert_eq!(get("POST", "/v1/nothing", "{}").await.0, 404);
    assert_eq!(simulator.ledger().to_json()["calls"]["sim"], 3);
}

#[tokio::test]
async fn a_client_that_disconnects_is_counted() {
    let simulator = Simulator::start().await.expect("a simulator");
    let (path, body) = request(Api::Chat, "sim-f8", true);
    assert!(call(&simulator, "POST", &path, &body).await.is_none());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while simulator.ledger().to_json()["cancelled"] != 1 {
        assert!(tokio::time::Instant::now() < deadline, "the disconnect is not counted");
        tokio::task::yield_now().await;
    }
}
