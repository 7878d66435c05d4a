//! Comments on streams without content: they commit to a status, to no attempt, and every failure behind them is an error event.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Conn, DEADLINE, Gate, Message, RawClient, Upstream, Weir, WireError, wait};

use crate::client::{Received, send};
use crate::judge::{TEXT, Verdict, judge};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const GEMINI: &str = "/v1beta/models/google:streamGenerateContent?alt=sse";
const COMMENT: &str = ": weir-heartbeat\n\n";

/// What a provider does once the gate is open.
#[derive(Debug, Clone, Copy)]
enum Does {
    Stream,
    /// A head, silence, and then the events.
    LateEvents,
    Status(u16),
    /// A stream that breaks off before content.
    Empty,
    /// A stream that breaks off after content.
    Cut,
    /// One that breaks off in the middle of a large event.
    Half,
    /// 422 in a form of its own.
    Detail,
}

struct Rig {
    weir: Weir,
    first: Upstream,
    second: Upstream,
    gate: Gate,
    does: Arc<Mutex<Does>>,
}

fn events(path: &str) -> Vec<String> {
    let named = |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    match path {
        CHAT => vec![
            format!("data: {}\n\n", json!({"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": TEXT}}]})),
            format!("data: {}\n\n", json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 8}})),
            "data: [DONE]\n\n".to_owned(),
        ],
        MESSAGES => [
            json!({"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 8}}),
            json!({"type": "message_stop"}),
        ]
        .map(named)
        .to_vec(),
        RESPONSES => [
            json!({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}),
            json!({"type": "response.output_text.delta", "delta": TEXT}),
            json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "usage": {"input_tokens": 1, "output_tokens": 8}}}),
        ]
        .map(named)
        .to_vec(),
        _ => vec![format!(
            "data: {}\n\n",
            json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": TEXT}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 8, "totalTokenCount": 9}})
        )],
    }
}

fn respond(conn: &mut Conn, message: &Message, does: Does, gate: &Gate) -> Result<(), WireError> {
    let path = match message.head.target() {
        target if target.contains(":streamGenerateContent") => GEMINI,
        CHAT => CHAT,
        MESSAGES => MESSAGES,
        _ => RESPONSES,
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Own: yes\r\nTransfer-Encoding: chunked\r\n\r\n";
    if let Does::LateEvents = does {
        conn.write(head)?;
    }
    conn.pass(gate)?;
    if let Does::Status(status) = does {
        let body =
            "{\"type\": \"error\",\n \"error\": {\"type\": \"invalid_request_error\", \"message\": \"own words\"}}";
        return conn.respond(status, &[("Content-Type", "application/json")], body);
    }
    if let Does::Detail = does {
        return conn.respond(422, &[("Content-Type", "application/json")], r#"{"detail": "own words"}"#);
    }
    if !matches!(does, Does::LateEvents) {
        conn.write(head)?;
    }
    let all = events(path);
    let count = match does {
        Does::Empty => 0,
        Does::Cut | Does::Half => 3.min(all.len() - 1),
        _ => all.len(),
    };
    for event in &all[..count] {
        conn.write_chunk(event)?;
    }
    match does {
        Does::Half => {
            conn.write_chunk(format!("data: {{\"text\": \"{}", "y".repeat(200_000)))?;
            conn.close()
        }
        Does::Empty | Does::Cut => conn.close(),
        _ => conn.write("0\r\n\r\n"),
    }
}

impl Rig {
    /// The first candidate waits at the gate and does what `does` says; the second one of the model `pair` serves at once.
    fn start(top: &str, route: &str, beat: &str) -> Self {
        let (gate, does) = (Gate::new(), Arc::new(Mutex::new(Does::Stream)));
        let first = {
            let (gate, does) = (gate.clone(), does.clone());
            Upstream::start(move |conn, message: &Message| {
                let does = *does.lock().unwrap();
                respond(conn, message, does, &gate)
            })
        };
        let open = Gate::new();
        open.open();
        let second = Upstream::start(move |conn, message: &Message| respond(conn, message, Does::Stream, &open));
        let timeouts = "timeouts: {first_token: 20s, token_idle: 5s, total: 30s}";
        let yaml = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\n{top}\
             upstreams:\n  u: {{targets: [\"{}\"], eject: none}}\n  v: {{targets: [\"{}\"], eject: none}}\n\
             providers:\n  p: {{api: openai, upstream: u, keys: [sk-0123456789]}}\n  q: {{api: openai, upstream: v, keys: [sk-0123456789]}}\n  \
             a: {{api: anthropic, upstream: u, keys: [sk-ant-0123456789]}}\n  g: {{api: gemini, upstream: u, keys: [goog-0123456789]}}\n\
             models:\n  chat: {{candidates: [{{provider: p, model: real}}], attempts: 1, {timeouts}}}\n  \
             short: {{candidates: [{{provider: p, model: real}}], timeouts: {{total: 700ms}}}}\n  \
             pair: {{candidates: [{{provider: p, model: real}}, {{provider: q, model: real, tier: 2}}], attempts: 3, {timeouts}}}\n  \
             claude: {{candidates: [{{provider: a, model: real, max_output: 9}}], attempts: 1, {timeouts}}}\n  \
             google: {{candidates: [{{provider: g, model: real}}], attempts: 1, {timeouts}}}\n\
             routes:\n  - {{name: ai, match: {{path: /v1/*}}, ai: {{heartbeat: {beat}}}{route}}}\n  \
             - {{name: google, match: {{path: /v1beta/*}}, ai: {{heartbeat: {beat}}}{route}}}\n",
            first.url(),
            second.url()
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        Rig { weir, first, second, gate, does }
    }

    fn usual() -> Self {
        Self::start("", "", "50ms")
    }

    fn does(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }

    /// Sends a call and waits until it has had two comments.
    fn wait_for_comments(&self, path: &str, model: &str) -> (RawClient, String) {
        let mut client = self.weir.connect();
        client.set_deadline(DEADLINE);
        client.request("POST", path, &FIELDS, body(path, model, true));
        let head = client.read_head();
        assert_eq!(head.status(), 200, "{head:?}");
        assert!(head.field("content-type").unwrap().starts_with("text/event-stream"), "{head:?}");
        let mut text = String::new();
        while text.matches(COMMENT).count() < 2 {
            text.push_str(&String::from_utf8(client.read_piece().expect("more").data).unwrap());
        }
        assert_eq!(text.replace(COMMENT, ""), "", "nothing but comments");
        (client, text)
    }

    /// Sends a call; the provider goes on when the client has had two comments.
    fn call(&self, path: &str, model: &str) -> Received {
        let (mut client, mut text) = self.wait_for_comments(path, model);
        // One for each attempt.
        (0..if model == "pair" { 2 } else { 1 }).for_each(|_| self.gate.release());
        let mut is_whole = true;
        loop {
            match client.try_read_piece() {
                Ok(Some(piece)) => text.push_str(&String::from_utf8(piece.data).unwrap()),
                Ok(None) => break,
                Err(_) => {
                    is_whole = false;
                    break;
                }
            }
        }
        let fields = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        Received { status: 200, fields, bytes: text.len(), body: text.into_bytes(), is_whole }
    }

    fn last_line(&self, count: usize) -> Value {
        let lines = || -> Vec<Value> {
            let stdout = self.weir.stdout();
            let lines = stdout.lines().filter(|line| line.contains("\"ai\":"));
            lines.map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        wait::until(DEADLINE, "the line", || lines().len() == count);
        lines().pop().unwrap()
    }
}

const FIELDS: [(&str, &str); 1] = [("Content-Type", "application/json")];

fn body(path: &str, model: &str, streams: bool) -> String {
    let messages = json!([{"role": "user", "content": "hi"}]);
    match path {
        CHAT | MESSAGES => {
            json!({"model": model, "stream": streams, "temperature": 0, "max_tokens": 50, "messages": messages})
        }
        RESPONSES => json!({"model": model, "stream": streams, "input": "hi"}),
        _ => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
    }
    .to_string()
}

/// Of every API, whether the provider sends its head at once or with the first event.
#[test]
fn comments_come_until_there_is_content() {
    let rig = Rig::usual();
    let mut count = 0;
    for (path, model) in [(CHAT, "chat"), (MESSAGES, "claude"), (RESPONSES, "chat"), (GEMINI, "google")] {
        for does in [Does::Stream, Does::LateEvents] {
            rig.does(does);
            let received = rig.call(path, model);
            let text = received.text();
            assert!(received.is_whole, "{path} {does:?}: {text}");
            assert_eq!(text.replace(COMMENT, ""), events(path).concat(), "{path} {does:?}");
            count += 1;
            let line = rig.last_line(count);
            assert_eq!((&line["ai"]["end"], &line["status"]), (&"complete".into(), &200.into()), "{line}");
            assert!(line["ai"]["tokens_out"].is_u64(), "{line}");
        }
    }
}

#[test]
fn a_failure_behind_a_comment_is_an_error_event() {
    for (path, model) in [(CHAT, "chat"), (MESSAGES, "claude"), (GEMINI, "google")] {
        for does in [Does::Status(500), Does::Status(429), Does::Status(400), Does::Status(401), Does::Empty] {
            let rig = Rig::usual();
            rig.does(does);
            let received = rig.call(path, model);
            assert_eq!(judge(path, true, &received), Verdict::ErrorEvent, "{path} {does:?}: {}", received.text());
            if let Does::Status(400) = does {
                assert!(received.text().contains("own words"), "{}", received.text());
            }
            let line = rig.last_line(1);
            assert_eq!((&line["ai"]["end"], &line["status"]), (&"error".into(), &200.into()), "{line}");
        }
    }
    for (path, model) in [(CHAT, "chat"), (MESSAGES, "claude"), (RESPONSES, "chat")] {
        let rig = Rig::usual();
        rig.does(Does::Detail);
        let received = rig.call(path, model);
        assert!(received.is_whole && received.text().contains("own words"), "{path}: {}", received.text());
        assert!(
            received.text().contains("\"error\"") && !received.text().contains("detail"),
            "{path}: {}",
            received.text()
        );
    }
    let rig = Rig::usual();
    rig.does(Does::Status(503));
    let received = rig.call(RESPONSES, "chat");
    assert!(received.text().contains("event: error\n") && received.is_whole, "{}", received.text());
}

/// A comment commits to no attempt.
#[test]
fn another_candidate_serves_behind_a_comment() {
    for does in [Does::Status(500), Does::Status(429), Does::Empty] {
        let rig = Rig::usual();
        rig.does(does);
        let received = rig.call(CHAT, "pair");
        assert_eq!(judge(CHAT, true, &received), Verdict::Complete, "{does:?}: {}", received.text());
        assert_eq!(rig.second.request_count(), 1);
    }
}

#[test]
fn what_is_cut_after_content_ends_as_without_heartbeats() {
    let rig = Rig::usual();
    rig.does(Does::Cut);
    for (path, model) in [(CHAT, "chat"), (MESSAGES, "claude")] {
        let received = rig.call(path, model);
        assert_eq!(judge(path, true, &received), Verdict::ErrorEvent, "{path}: {}", received.text());
    }
}

/// The time for the whole call ends comments as it ends everything else.
#[test]
fn the_end_of_the_time_is_told() {
    for beat in ["50ms", "20s"] {
        let rig = Rig::start("", "", beat);
        let received = send(rig.weir.addr(), "POST", CHAT, &FIELDS, &body(CHAT, "short", true));
        let line = rig.last_line(1);
        assert!(received.text().contains("\"total_timeout\"") && received.is_whole, "{beat}: {}", received.text());
        assert_eq!(received.status, if beat == "50ms" { 200 } else { 504 }, "{received:?}");
        assert!(line["ai"]["end"] == "error" && line["ai"]["cost"].is_null(), "{line}");
        rig.first.wait_for_open(0);
        rig.gate.open();
    }
}

/// Nothing may follow half an event.
#[test]
fn an_event_that_breaks_off_ends_without_an_end() {
    let rig = Rig::usual();
    rig.does(Does::Half);
    let received = rig.call(CHAT, "chat");
    assert!(!received.is_whole && received.text().ends_with('y'), "{}", received.text().len());
}

/// Before the first comment everything is as on other routes, and whole responses have none.
#[test]
fn without_a_comment_nothing_is_different() {
    let rig = Rig::start("", "", "20s");
    rig.gate.open();
    let call = |streams| send(rig.weir.addr(), "POST", CHAT, &FIELDS, &body(CHAT, "chat", streams));
    let received = call(true);
    assert_eq!(received.text(), events(CHAT).concat());
    assert_eq!(
        (received.field("x-own"), received.field("x-weir-model")),
        (Some("yes"), Some("p/real")),
        "{received:?}"
    );
    rig.does(Does::Status(400));
    for streams in [true, false] {
        let received = call(streams);
        assert_eq!(received.status, 400, "{received:?}");
        assert!(received.text().contains("own words"), "{received:?}");
    }
    rig.does(Does::Status(503));
    assert_eq!(call(true).status, 503);
    rig.does(Does::Empty);
    assert_eq!(call(true).status, 502);
}

#[test]
fn a_client_that_disconnects_ends_the_call() {
    let rig = Rig::usual();
    let (client, _) = rig.wait_for_comments(CHAT, "chat");
    assert_eq!(rig.first.open(), 1);
    drop(client);
    rig.first.wait_for_open(0);
    assert_eq!(rig.last_line(1)["ai"]["end"], "client_disconnected");
    rig.gate.open();
}

/// Limits refuse with their own status: nothing is committed before them.
#[test]
fn limits_come_first() {
    let limits = "limits: {out: {unit: output_tokens, algorithm: fixed_window, quota: 60, window: day, key: global}}\n";
    let rig = Rig::start(limits, ", limits: [out]", "50ms");
    let received = rig.call(CHAT, "chat");
    assert_eq!(judge(CHAT, true, &received), Verdict::Complete, "{}", received.text());
    // What was reserved for a call that fails is given back.
    rig.does(Does::Status(500));
    for _ in 0..3 {
        let received = rig.call(CHAT, "chat");
        assert_eq!(judge(CHAT, true, &received), Verdict::ErrorEvent, "{}", received.text());
    }
    rig.does(Does::Stream);
    rig.call(CHAT, "chat");
    let refused = send(rig.weir.addr(), "POST", CHAT, &FIELDS, &body(CHAT, "chat", true));
    assert_eq!(refused.status, 429, "{refused:?}");
}

/// Everybody who waits for a call has comments of its own, and none is stored.
#[test]
fn clients_that_share_a_call_have_comments_each() {
    let cache = "caches: {answers: {mode: llm, ttl: 1h, shared: true}}\n";
    let rig = Rig::start(cache, ", cache: answers", "50ms");
    let waiting: Vec<(RawClient, String)> = (0..3).map(|_| rig.wait_for_comments(CHAT, "chat")).collect();
    assert_eq!(rig.first.request_count(), 1);
    rig.gate.release();
    for (mut client, _) in waiting {
        let text = String::from_utf8(client.read_body()).unwrap();
        assert_eq!(text.replace(COMMENT, ""), events(CHAT).concat());
    }
    let stored = send(rig.weir.addr(), "POST", CHAT, &FIELDS, &body(CHAT, "chat", true));
    assert_eq!(stored.text(), events(CHAT).concat());
    assert_eq!(rig.first.request_count(), 1);
    // A failure is one for all of them.
    rig.does(Does::Status(500));
    let other = body(CHAT, "chat", true).replace("hi", "other");
    let mut clients: Vec<RawClient> = (0..3)
        .map(|_| {
            let mut client = rig.weir.connect();
            client.set_deadline(DEADLINE);
            client.request("POST", CHAT, &FIELDS, &other);
            client.read_head();
            client
        })
        .collect();
    rig.gate.open();
    for client in &mut clients {
        let text = String::from_utf8(client.read_body()).unwrap();
        assert!(text.contains("\"error\"") && !text.contains("[DONE]"), "{text}");
    }
}
