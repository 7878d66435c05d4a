//! Guards: a service reads prompts before anybody else does, and responses before the client does.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Conn, DEADLINE, Gate, Message, Upstream, Weir, WireError, wait};

use crate::client::{Received, post};

const CHAT: &str = "/v1/chat/completions";
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

/// What the guard does.
#[derive(Debug, Clone, PartialEq)]
enum Says {
    Allow,
    /// Refuses what has this text.
    RefuseText(&'static str),
    Status(u16),
    Body(String),
    Close,
    Silence,
}

struct Rig {
    weir: Weir,
    guard: Upstream,
    provider: Upstream,
    says: Arc<Mutex<Says>>,
}

fn respond(conn: &mut Conn, message: &Message) -> Result<(), WireError> {
    let target = message.head.target().to_owned();
    let requested: Value = serde_json::from_slice(&message.body).unwrap();
    let text = "the model's words";
    if target.contains(":generateContent") {
        let body = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}]});
        return conn.respond(200, &JSON, body.to_string());
    }
    if target.ends_with("/messages") {
        let body = json!({"id": "x", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 5, "output_tokens": 1}});
        return conn.respond(200, &JSON, body.to_string());
    }
    if target.ends_with("/responses") {
        let body = json!({"id": "x", "status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]});
        return conn.respond(200, &JSON, body.to_string());
    }
    if requested["stream"] != true {
        let body = json!({"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 3}});
        return conn.respond(200, &JSON, body.to_string());
    }
    conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for event in stream() {
        conn.write_chunk(event)?;
    }
    conn.write("0\r\n\r\n")
}

fn stream() -> Vec<String> {
    let piece =
        |text: &str| json!({"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]});
    let end = json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 3}});
    let events = [piece("the model's "), piece("words"), end].map(|event| format!("data: {event}\n\n"));
    events.into_iter().chain(["data: [DONE]\n\n".to_owned()]).collect()
}

impl Rig {
    /// `route`: what the guard has beside its URL; `more`: what the route has.
    fn start(top: &str, route: &str, more: &str) -> Self {
        Self::start_with(top, route, "", more)
    }

    /// `ai`: what `ai` has beside the guard.
    fn start_with(top: &str, route: &str, ai: &str, more: &str) -> Self {
        let says = Arc::new(Mutex::new(Says::Allow));
        let guard = {
            let says = says.clone();
            Upstream::builder().record_limit(1 << 20).start(move |conn, message: &Message| {
                let says = says.lock().unwrap().clone();
                let body = String::from_utf8_lossy(&message.body);
                match says {
                    Says::RefuseText(text) if body.contains(text) => conn.respond(
                        200,
                        &JSON,
                        json!({"allow": false, "code": "no_secrets", "message": "No secrets, please"}).to_string(),
                    ),
                    Says::Allow | Says::RefuseText(_) => conn.respond(200, &JSON, r#"{"allow": true}"#),
                    Says::Status(status) => conn.respond(status, &JSON, r#"{"allow": true}"#),
                    Says::Body(body) => conn.respond(200, &JSON, body),
                    Says::Close => conn.close(),
                    Says::Silence => conn.stall(),
                }
            })
        };
        let provider = Upstream::builder().record_limit(1 << 20).start(respond);
        let ai = format!("{ai}guard: {{url: \"{}/check?for=weir\", {route}}}", guard.url());
        let yaml = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\n{top}\
             upstreams: {{u: {{targets: [\"{}\"], eject: none}}}}\n\
             providers:\n  o: {{api: openai, upstream: u}}\n  a: {{api: anthropic, upstream: u}}\n  g: {{api: gemini, upstream: u}}\n\
             limits: {{tpm: {{unit: tokens, algorithm: token_bucket, rate: 1/h, burst: 2000, key: global}}}}\n\
             models:\n  chat: {{candidates: [{{provider: o, model: served}}]}}\n  short: {{candidates: [{{provider: o, model: served}}], timeouts: {{total: 500ms}}}}\n  claude: {{candidates: [{{provider: a, model: served, max_output: 9}}]}}\n  \
             g: {{candidates: [{{provider: g, model: served}}]}}\n\
             routes:\n  - {{name: ai, match: {{path: /*}}, limits: [tpm], ai: {{redact: [email], {ai}}}{more}}}\n",
            provider.url()
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        Rig { weir, guard, provider, says }
    }

    fn says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn chat(&self, text: &str, streams: bool) -> Received {
        post(self.weir.addr(), CHAT, &chat(text, streams))
    }

    /// What the guard was sent.
    fn questions(&self) -> Vec<Value> {
        self.guard.requests().into_iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
    }

    fn metric(&self, name: &str) -> f64 {
        let metrics = self.weir.admin_get("/metrics").text().to_owned();
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        line.unwrap_or(0.0)
    }

    fn last_line(&self, count: usize) -> Value {
        let lines = || -> Vec<Value> {
            self.weir
                .stdout()
                .lines()
                .filter(|line| line.contains("\"status\":"))
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        wait::until(DEADLINE, "the line", || lines().len() == count);
        lines().pop().unwrap()
    }
}

fn chat(text: &str, streams: bool) -> String {
    json!({"model": "chat", "stream": streams, "temperature": 0, "max_tokens": 10, "messages": [{"role": "user", "content": text}]}).to_string()
}

const BOTH: &str = "when: [before, after], hold_streams: true";

#[test]
fn it_reads_what_the_provider_would() {
    let rig = Rig::start("", "when: [before]", "");
    let received = rig.chat("mail ann@example.com", false);
    assert_eq!(received.status, 200, "{received:?}");
    let [question] = &rig.questions()[..] else { panic!("one question") };
    assert_eq!(
        (&question["when"], &question["api"], &question["route"], &question["model"], &question["stream"]),
        (&json!("before"), &json!("chat"), &json!("ai"), &json!("chat"), &json!(false)),
        "{question}"
    );
    assert!(question["key"].is_null() && question["team"].is_null() && question["consumer"].is_null(), "{question}");
    assert_eq!(question["body"]["messages"][0]["content"], "mail [EMAIL]", "what was redacted stays so");
    let head = rig.guard.requests()[0].head.clone();
    assert_eq!((head.method(), head.target()), ("POST", "/check?for=weir"));
    assert_eq!(rig.metric("weir_ai_guard_total{when=\"before\",verdict=\"allowed\"}"), 1.0);
}

/// In the form of each API; no provider sees it and no tokens are taken.
#[test]
fn a_refused_prompt_goes_nowhere() {
    let rig = Rig::start("", "when: [before]", "");
    rig.says(Says::RefuseText("secret"));
    let messages = json!([{"role": "user", "content": "a secret"}]);
    let calls = [
        (CHAT, json!({"model": "chat", "messages": messages}), "/error/code"),
        (CHAT, json!({"model": "chat", "messages": messages, "stream": true}), "/error/code"),
        ("/v1/responses", json!({"model": "chat", "input": "a secret"}), "/error/code"),
        ("/v1/messages", json!({"model": "claude", "max_tokens": 5, "messages": messages}), ""),
        ("/v1beta/models/g:generateContent", json!({"contents": [{"parts": [{"text": "a secret"}]}]}), ""),
    ];
    for (number, (path, body, code)) in calls.iter().enumerate() {
        let received = post(rig.weir.addr(), path, &body.to_string());
        assert_eq!(received.status, 400, "{path} {received:?}");
        assert!(received.text().contains("No secrets, please"), "{path} {}", received.text());
        assert!(received.field("content-type").unwrap().starts_with("application/json"), "{received:?}");
        if !code.is_empty() {
            assert_eq!(received.json().pointer(code), Some(&json!("no_secrets")), "{path}");
        }
        let line = rig.last_line(number + 1);
        assert_eq!(line["reason"], "ai_request", "{line}");
        assert!(!line.to_string().contains("secrets"), "nothing that the guard wrote: {line}");
    }
    assert_eq!(rig.provider.request_count(), 0);
    assert_eq!(rig.metric("weir_ai_guard_total{when=\"before\",verdict=\"refused\"}"), 5.0);
    // The whole burst is there still.
    let received =
        post(rig.weir.addr(), CHAT, &json!({"model": "chat", "max_tokens": 1900, "messages": []}).to_string());
    assert_eq!(received.status, 200, "{received:?}");
}

#[test]
fn a_response_is_held_until_it_was_read() {
    let plain = Rig::start("", "when: [before]", "");
    let rig = Rig::start("", "when: [after], hold_streams: true", "");
    for streams in [false, true] {
        assert_eq!(rig.chat("hi", streams).body, plain.chat("hi", streams).body, "as without a guard");
    }
    let questions = rig.questions();
    assert_eq!(questions.iter().map(|question| &question["when"]).collect::<Vec<_>>(), ["after", "after"]);
    assert_eq!(questions[0]["body"]["choices"][0]["message"]["content"], "the model's words");
    assert_eq!(questions[1]["body"].as_str().unwrap(), stream().concat());

    rig.says(Says::RefuseText("words"));
    for (number, streams) in [false, true].into_iter().enumerate() {
        let received = rig.chat("hi", streams);
        assert_eq!(
            (received.status, received.json()["error"]["code"].clone()),
            (400, json!("no_secrets")),
            "{received:?}"
        );
        assert!(!received.text().contains("words"), "{}", received.text());
        let line = rig.last_line(3 + number);
        assert_eq!((&line["reason"], &line["ai"]["end"]), (&json!("ai_request"), &json!("error")), "{line}");
        assert_eq!(line["ai"]["tokens_out"], 3, "the provider was paid for them: {line}");
    }
    assert_eq!(rig.provider.request_count(), 4);
    assert_eq!(rig.metric("weir_ai_guard_total{when=\"after\",verdict=\"refused\"}"), 2.0);
}

/// A cache holds what the provider said: the guard reads each delivery, as its rules may have changed.
#[test]
fn hits_are_read_too() {
    let rig = Rig::start("caches: {answers: {mode: llm, ttl: 1h, shared: true}}\n", BOTH, ", cache: answers");
    for streams in [false, true] {
        rig.says(Says::Allow);
        let first = rig.chat("hi", streams);
        let again = rig.chat("hi", streams);
        assert_eq!((first.status, &first.body), (200, &again.body), "{first:?}");
        assert!(again.field("cache-status").unwrap().contains("hit"), "{again:?}");
        rig.says(Says::RefuseText("words"));
        let refused = rig.chat("hi", streams);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(!refused.text().contains("words"), "{}", refused.text());
    }
    assert_eq!(rig.provider.request_count(), 2);
}

#[test]
fn behind_heartbeats_a_refusal_is_an_error_event() {
    let rig = Rig::start_with("", "when: [after], hold_streams: true", "heartbeat: 50ms, ", "");
    rig.says(Says::RefuseText("words"));
    let gate = Gate::new();
    {
        let gate = gate.clone();
        rig.provider.set_responder(move |conn, message| {
            conn.pass(&gate)?;
            respond(conn, message)
        });
    }
    let mut client = rig.weir.connect();
    client.request("POST", CHAT, &JSON, chat("hi", true));
    assert_eq!(client.read_head().status(), 200);
    let mut text = String::from_utf8(client.read_piece().expect("a comment").data).unwrap();
    gate.open();
    while let Some(piece) = client.read_piece() {
        text.push_str(&String::from_utf8(piece.data).unwrap());
    }
    assert!(text.starts_with(": weir-heartbeat") && !text.contains("words"), "{text}");
    assert!(text.contains("no_secrets") && text.contains("No secrets, please"), "{text}");
    assert!(text.contains("\"type\":\"invalid_request_error\""), "as before the first comment: {text}");
}

#[test]
fn without_a_verdict_calls_fail_or_pass_as_the_route_says() {
    let faults = [
        Says::Status(500),
        Says::Status(204),
        Says::Status(302),
        Says::Body(String::new()),
        Says::Body("[]".to_owned()),
        Says::Body("[true]".to_owned()),
        Says::Body("{\"allow\": true, \"allow\": true}".to_owned()),
        Says::Body("{\"allow\": \"yes\"}".to_owned()),
        Says::Body(format!("{{\"allow\": true, \"message\": \"{}\"}}", "x".repeat(100_000))),
        Says::Close,
        Says::Silence,
    ];
    for (on_failure, status) in [("deny", 503), ("allow", 200)] {
        for when in ["before", "after"] {
            let rig = Rig::start(
                "",
                &format!("when: [{when}], hold_streams: true, timeout: 300ms, on_failure: {on_failure}"),
                "",
            );
            for (number, fault) in faults.iter().enumerate() {
                rig.says(fault.clone());
                let received = rig.chat("hi", number % 2 == 0);
                assert_eq!(received.status, status, "{when} {on_failure} {fault:?} {received:?}");
                assert!(received.is_whole, "{when} {fault:?}");
                if status == 503 {
                    assert_eq!(received.json()["error"]["code"], "ai_guard", "{}", received.text());
                    assert_eq!(received.field("retry-after"), Some("1"), "{received:?}");
                    assert!(!received.text().contains("words"));
                }
            }
            let verdict = if status == 200 { "failed_open" } else { "failed" };
            let name = format!("weir_ai_guard_total{{when=\"{when}\",verdict=\"{verdict}\"}}");
            assert_eq!(rig.metric(&name), faults.len() as f64, "{name}");
            // One that is dead.
            rig.guard.stop();
            assert_eq!(rig.chat("hi", false).status, status, "{when} {on_failure}");
        }
    }
}

/// The verdict is not needed then.
#[test]
fn a_client_that_leaves_ends_the_question() {
    for when in ["before", "after"] {
        let rig = Rig::start("", &format!("when: [{when}], hold_streams: true, timeout: 60s"), "");
        rig.says(Says::Silence);
        let mut client = rig.weir.connect();
        client.request("POST", CHAT, &JSON, chat("hi", true));
        rig.guard.wait_for_requests(1);
        drop(client);
        rig.guard.wait_for_open(0);
        let line = rig.last_line(1);
        assert_eq!(line["reason"], "client_disconnected", "{when}: {line}");
        assert_eq!(rig.provider.request_count(), usize::from(when == "after"), "{when}");
        // Nothing is held of it.
        wait::until(DEADLINE, "no body held", || rig.metric("weir_ai_held_bytes") == 0.0);
    }
}

/// Memory for what is held is that of `ai: {held}`.
#[test]
fn a_response_too_large_to_be_held_is_an_error() {
    let rig = Rig::start("ai: {held: 100KiB}\n", "when: [after], hold_streams: true", "");
    rig.provider.set_responder(|conn, _| {
        let text = "x".repeat(200_000);
        let body = json!({"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]});
        conn.respond(200, &JSON, body.to_string())
    });
    let received = rig.chat("hi", false);
    assert_eq!((received.status, received.json()["error"]["code"].clone()), (503, json!("ai_held")), "{received:?}");
    assert_eq!(rig.guard.request_count(), 0);
    wait::until(DEADLINE, "no body held", || rig.metric("weir_ai_held_bytes") == 0.0);
}

/// What one parser reads and another one does not would pass the guard unread.
#[test]
fn a_prompt_with_two_readings_is_refused() {
    let rig = Rig::start("", "when: [before], on_failure: allow", "");
    for body in [
        r#"{"model": "chat", "messages": [{"role": "user", "content": "bad", "content": "good"}]}"#,
        r#"{"model": "chat", "messages": [{"role": "user", "content": "bad", "cont\u0065nt": "good"}]}"#,
        r#"{"model": "chat", "messages": [{"role": "user", "content": [{"type": "text", "text": "bad", "text": "good"}]}]}"#,
        r#"{"model": "chat", "messages": [], "suffix": "bad", "suffix": "good"}"#,
        r#"{"model": "chat", "messages": [], "user": "\ud800"}"#,
        r#"{"model": "chat", "messages": [], "seed": 1e999}"#,
    ] {
        let received = post(rig.weir.addr(), CHAT, body);
        assert_eq!(received.status, 400, "{body} {}", received.text());
        assert_eq!(received.json()["error"]["code"], "invalid_request", "{}", received.text());
    }
    assert_eq!((rig.guard.request_count(), rig.provider.request_count()), (0, 0));
}

/// It says no, whatever else it says; and what comes before a verdict is none.
#[test]
fn a_verdict_is_read_as_far_as_it_goes() {
    let rig = Rig::start("", "when: [before], on_failure: allow", "");
    for body in [
        r#"{"allow": false, "code": 451}"#,
        r#"{"allow": false, "message": ["x"], "more": {"allow": true}}"#,
        r#"{"allow": false, "code": "a b\r\nX-Evil: 1", "message": "x\r\nX-Evil: 1"}"#,
    ] {
        rig.says(Says::Body(body.to_owned()));
        let received = rig.chat("hi", false);
        assert_eq!(received.status, 400, "{body} {}", received.text());
        assert_eq!(received.json()["error"]["code"], "content_filter", "{}", received.text());
        assert_eq!(received.field("x-evil"), None);
    }
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    rig.guard.set_responder(move |conn, _| {
        conn.write(early)?;
        conn.respond(200, &JSON, r#"{"allow": false}"#)
    });
    assert_eq!(rig.chat("hi", false).status, 400);
    assert_eq!(rig.provider.request_count(), 0);
}

/// A kept connection may be closed at any moment, which does not count as a failure of the guard.
#[test]
fn a_guard_that_closes_its_connections_is_called_again() {
    let rig = Rig::start("", "when: [before], timeout: 20s", "");
    rig.guard.set_responder(|conn, _| {
        conn.respond(200, &JSON, r#"{"allow": true}"#)?;
        conn.close()
    });
    for number in 0..200 {
        assert_eq!(rig.chat("hi", false).status, 200, "call {number}");
    }
}

/// The response is far from its end when there is no more memory for it.
#[test]
fn a_stream_too_large_to_be_held_is_an_error() {
    let rig = Rig::start("ai: {held: 200KiB}\n", "when: [after], hold_streams: true", "");
    rig.provider.set_responder(|conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        let event = json!({"id": "c", "choices": [{"index": 0, "delta": {"content": "x".repeat(10_000)}}]});
        for _ in 0..1000 {
            conn.write_chunk(format!("data: {event}\n\n"))?;
        }
        conn.stall()
    });
    for number in 1..=3 {
        let received = rig.chat("hi", true);
        assert_eq!(
            (received.status, received.json()["error"]["code"].clone()),
            (503, json!("ai_held")),
            "{received:?}"
        );
        assert_eq!(rig.last_line(number)["reason"], "ai_held");
    }
    wait::until(DEADLINE, "no body held", || rig.metric("weir_ai_held_bytes") == 0.0);
}

/// Hits that wait for the guard take memory as responses do.
#[test]
fn hits_that_wait_are_within_the_memory() {
    let rig = Rig::start(
        "ai: {held: 100KiB}\ncaches: {answers: {mode: llm, ttl: 1h, shared: true}}\n",
        "when: [after], hold_streams: true, timeout: 60s",
        ", cache: answers",
    );
    let text = "x".repeat(20_000);
    rig.provider.set_responder(move |conn, _| {
        let body = json!({"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]});
        conn.respond(200, &JSON, body.to_string())
    });
    let first = rig.chat("hi", false);
    assert_eq!(first.status, 200, "{first:?}");
    // Its client has the response a moment before its memory is free.
    wait::until(DEADLINE, "no body held", || rig.metric("weir_ai_held_bytes") == 0.0);
    rig.says(Says::Silence);
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = rig.weir.connect();
            client.request("POST", CHAT, &JSON, chat("hi", false));
            client
        })
        .collect();
    // Each has, twice, what the guard is sent: two have room at most.
    let refused = || rig.metric("request_errors_total{fault=\"gateway\",reason=\"ai_held\"}");
    wait::until(DEADLINE, "two without room", || refused() >= 2.0);
    let held = rig.metric("weir_ai_held_bytes");
    assert!(held > 40_000.0 && held <= 102_400.0, "{held}");
    drop(clients);
    wait::until(DEADLINE, "no body held", || rig.metric("weir_ai_held_bytes") == 0.0);
}

/// The time of the guard is part of the time for the call, and what passes late is told as on other routes.
#[test]
fn the_time_for_the_call_ends_at_the_guard_too() {
    for when in ["before", "after"] {
        let rig = Rig::start("", &format!("when: [{when}], hold_streams: true, timeout: 60s"), "");
        rig.says(Says::Silence);
        let received = post(rig.weir.addr(), CHAT, &chat("hi", false).replace("\"chat\"", "\"short\""));
        assert!(matches!(received.status, 408 | 504), "{when} {received:?}");
        assert_eq!(rig.last_line(1)["reason"], "total_timeout", "{when}");
    }
}
