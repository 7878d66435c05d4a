//! The services as they listen, called in raw bytes. `services/contract` sends the same requests to the other
//! implementations; here is what must hold without it.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::{Message, RawClient};

use super::chat::{Chat, Completion};
use super::tokens::{Crc32, Draws};
use super::*;

/// A running service; it runs until the test program ends.
fn started(service: DemoService, settings: Settings) -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tell.send(start(service, settings).await.unwrap()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    told.recv().unwrap()
}

/// Without waits.
fn quick() -> Settings {
    Settings { latency_ms: Some(0), token_interval_ms: 0, ..Settings::default() }
}

fn post(at: SocketAddr, path: &str, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Message {
    let mut client = RawClient::connect(at);
    send(&mut client, path, fields, body);
    client.read_response()
}

fn send(client: &mut RawClient, path: &str, fields: &[(&str, &str)], body: impl AsRef<[u8]>) {
    let mut all = vec![("Content-Type", "application/json")];
    all.extend(fields);
    client.request("POST", path, &all, body);
}

fn get(at: SocketAddr, path: &str) -> Message {
    RawClient::connect(at).get(path)
}

fn parsed(message: &Message) -> Value {
    serde_json::from_str(message.text()).unwrap()
}

/// Waits until `/sim` says so: what a client's disconnecting does is not in step with the client.
fn until_sim(at: SocketAddr, expected: &Value) {
    let start = Instant::now();
    loop {
        let now = parsed(&get(at, "/sim"));
        if now == *expected {
            return;
        }
        assert!(start.elapsed() < testkit::DEADLINE, "{now}, not {expected}");
        std::thread::yield_now();
    }
}

#[test]
fn crc_32_is_that_of_gzip() {
    assert_eq!(Crc32::new().update(b"123456789").finish(), 0xCBF4_3926);
    assert_eq!(Crc32::new().update(b"1234").update(b"").update(b"56789").finish(), 0xCBF4_3926);
}

#[test]
fn tokens_and_latencies_are_those_of_the_other_implementations() {
    let latency = |seed, prompt: &str| Draws::of(seed, Crc32::new().update(prompt.as_bytes())).latency_ms();
    assert_eq!((latency(0, "hello"), latency(7, "hello"), latency(u32::MAX, "Grüße, 水 🌊")), (41, 30, 41));
    let completion = |seed, tokens, messages: Value| {
        let settings = Settings { seed, tokens, latency_ms: None, ..Settings::default() };
        let body = json!({ "model": "m", "messages": messages }).to_string();
        let (_, bytes) = Completion::new(Chat::parse(&body).unwrap(), &settings).plain();
        let response: Value = serde_json::from_slice(&bytes).unwrap();
        let content = response["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        (response["id"].as_str().unwrap().to_owned(), response["usage"]["prompt_tokens"].as_u64().unwrap(), content)
    };
    let expected = |id: &str, prompt_tokens, content: &str| (id.to_owned(), prompt_tokens, content.to_owned());
    assert_eq!(
        completion(7, 8, json!([{ "role": "user", "content": "hello" }])),
        expected("chatcmpl-5e5cac79", 2, "weir ferry 🌊 pool source otter stream вода")
    );
    assert_eq!(
        completion(
            u32::MAX,
            8,
            json!([{ "role": "user", "content": [
                { "type": "text", "text": "Grüße, " }, { "type": "image_url", "image_url": {} }, { "type": "text", "text": "水 🌊" },
            ]}])
        ),
        expected("chatcmpl-b530e8c3", 5, "pool reed level source río źródło delta mouth")
    );
    assert_eq!(
        completion(0, 2, json!([{ "role": "assistant", "content": null }, { "role": "user" }])),
        expected("chatcmpl-3d9ec329", 1, "lock mouth")
    );
}

#[test]
fn settings_come_from_the_environment() {
    let read = |pairs: &[(&str, &str)]| {
        let env: HashMap<String, String> = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        Settings::from_env(|name| env.get(name).map(Into::into)).map_err(|error| error.to_string())
    };
    assert_eq!(read(&[]), Ok(Settings::default()));
    let all = [
        ("SIM_LATENCY_MS", "0"),
        ("SIM_TOKENS", "100000"),
        ("SIM_TOKEN_INTERVAL_MS", "7"),
        ("SIM_ERROR_RATE", "0.25"),
        ("SIM_ERROR_STATUS", "429"),
        ("SIM_CONCURRENCY", "4"),
        ("SIM_SEED", "4294967295"),
    ];
    let expected = Settings {
        latency_ms: Some(0),
        tokens: 100_000,
        token_interval_ms: 7,
        error_rate: 250_000,
        error_status: 429,
        concurrency: 4,
        seed: u32::MAX,
    };
    assert_eq!(read(&all), Ok(expected));
    for text in ["", "+1", "-1", " 1", "1 ", "1.0", "1e1", "0x1", "99999999999", "4294967296", "¼"] {
        assert_eq!(read(&[("SIM_SEED", text)]), Err("SIM_SEED must be a whole number from 0 to 4294967295".into()));
    }
    for (text, rate) in [("0", 0), ("1", 1_000_000), ("1.000000", 1_000_000), ("0.000001", 1), ("0.5", 500_000)] {
        assert_eq!(read(&[("SIM_ERROR_RATE", text)]).unwrap().error_rate, rate, "{text}");
    }
    for text in ["", ".", "1.", "0.", ".5", "1.000001", "2", "0.0000001", "-0", "1e-1", "0.+1"] {
        let wanted = "SIM_ERROR_RATE must be a number from 0 to 1 with at most 6 decimals";
        assert_eq!(read(&[("SIM_ERROR_RATE", text)]), Err(wanted.into()), "{text}");
    }
}

#[test]
fn infer_echoes_in_both_flavours() {
    for (service, model) in [(DemoService::InferencePython, "dummy-v0"), (DemoService::InferenceNode, "node-dummy-v0")]
    {
        let at = started(service, quick());
        let response = post(at, "/infer", &[], r#"{"prompt":"a \u0000\u007f\"水","more":[1]}"#);
        let body = format!("{{\"result\":\"echo: a \\u0000\u{7f}\\\"水\",\"latency_ms\":0,\"model\":\"{model}\"}}");
        assert_eq!((response.status(), response.text()), (200, &*body));
        assert_eq!(response.field("Content-Type"), Some("application/json"));
        assert_eq!(response.field("Content-Length"), Some(&*body.len().to_string()));
        assert_eq!(parsed(&post(at, "/infer", &[("X-Sim-Latency-Ms", "7")], r#"{"prompt":"a"}"#))["latency_ms"], 7);
    }
}

#[test]
fn a_bad_prompt_is_refused_in_each_ones_words() {
    let (python, node) = (started(DemoService::InferencePython, quick()), started(DemoService::InferenceNode, quick()));
    let here = json!(["body", "prompt"]);
    for (body, kind, loc) in [
        (&br#"{}"#[..], "missing", &here),
        (br#"{"prompt":""}"#, "string_too_short", &here),
        (br#"{"prompt":null}"#, "string_type", &here),
        (br#"{"prompt":5}"#, "string_type", &here),
        (br#"{"prompt":["a"]}"#, "string_type", &here),
        (br#"{"prompt":"\ud800"}"#, "value_error", &here),
        (br#""hello""#, "model_attributes_type", &json!(["body"])),
        (br#"["hello"]"#, "model_attributes_type", &json!(["body"])),
        (br#"{"prompt":"#, "json_invalid", &json!(["body"])),
        (br#"{"prompt":NaN}"#, "json_invalid", &json!(["body"])),
        (b"{\"prompt\":\"\xff\"}", "model_attributes_type", &json!(["body"])),
        (b"", "missing", &json!(["body"])),
    ] {
        let response = post(python, "/infer", &[], body);
        let detail = &parsed(&response)["detail"][0];
        assert_eq!(
            (response.status(), &detail["type"], &detail["loc"]),
            (422, &json!(kind), loc),
            "{}",
            body.escape_ascii()
        );
        assert!(detail["msg"].is_string());
        let response = post(node, "/infer", &[], body);
        assert_eq!((response.status(), response.text()), (400, r#"{"error":"prompt required"}"#));
    }
    let mut client = RawClient::connect(python);
    client.request("POST", "/infer", &[("Content-Type", "text/plain")], r#"{"prompt":"a"}"#);
    assert_eq!(client.read_response().status(), 422);
    let large = vec![b' '; 10 * 1024 * 1024 + 1];
    let response = post(node, "/infer", &[], large);
    assert_eq!((response.status(), response.text()), (413, r#"{"error":"body larger than 10485760 bytes"}"#));
}

const HELLO: &str = r#""messages":[{"role":"user","content":"hello"}]"#;

#[test]
fn a_completion_to_the_byte() {
    let at = started(DemoService::InferencePython, Settings { tokens: 8, ..quick() });
    let response = post(at, "/v1/chat/completions", &[], format!(r#"{{"model":"any/model",{HELLO}}}"#));
    assert_eq!(
        response.text(),
        concat!(
            r#"{"id":"chatcmpl-78854a9c","object":"chat.completion","created":1735689600,"model":"any/model","choices":[{"index":0,"#,
            r#""message":{"role":"assistant","content":"trout weir sluice weir stone źródło gate río"},"finish_reason":"stop"}],"#,
            r#""usage":{"prompt_tokens":2,"completion_tokens":8,"total_tokens":10}}"#
        )
    );
    for fewer in
        [r#""max_tokens":3.0"#, r#""max_tokens":1,"max_completion_tokens":3"#, r#""max_tokens":9,"max_tokens":3"#]
    {
        let response = post(at, "/v1/chat/completions", &[], format!(r#"{{"model":"m",{HELLO},{fewer}}}"#));
        let choice = parsed(&response)["choices"][0].take();
        let shown = (choice["message"]["content"].as_str(), choice["finish_reason"].as_str());
        assert_eq!(shown, (Some("trout weir sluice"), Some("length")), "{fewer}");
    }
}

#[test]
fn a_stream_to_the_byte() {
    let at = started(DemoService::InferenceNode, quick());
    let body =
        format!(r#"{{"model":"水\"",{HELLO},"stream":true,"stream_options":{{"include_usage":true}},"max_tokens":2}}"#);
    let response = post(at, "/v1/chat/completions", &[], body);
    assert_eq!(response.field("Content-Type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(response.field("Cache-Control"), Some("no-cache"));
    assert_eq!(response.field("Content-Length"), None);
    let head = r#"data: {"id":"chatcmpl-78854a9c","object":"chat.completion.chunk","created":1735689600,"model":"水\"","choices":"#;
    let events = [
        r#"[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#,
        r#"[{"index":0,"delta":{"content":"trout"},"finish_reason":null}],"usage":null}"#,
        r#"[{"index":0,"delta":{"content":" weir"},"finish_reason":null}],"usage":null}"#,
        r#"[{"index":0,"delta":{},"finish_reason":"length"}],"usage":null}"#,
        r#"[],"usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4}}"#,
    ];
    let expected: String = events.iter().map(|event| format!("{head}{event}\n\n")).collect();
    assert_eq!(response.text(), expected + "data: [DONE]\n\n");
}

#[test]
fn events_are_due_every_interval_and_the_last_ones_together() {
    let settings = Settings { latency_ms: Some(100), tokens: 3, token_interval_ms: 20, ..Settings::default() };
    let chat =
        |more: &str| Completion::new(Chat::parse(&format!(r#"{{"model":"m",{HELLO}{more}}}"#)).unwrap(), &settings);
    let due = |more: &str| chat(more).events().map(|(due, _)| due.as_millis()).collect::<Vec<_>>();
    assert_eq!(due(r#","stream":true"#), [100, 100, 120, 140, 140, 140]);
    assert_eq!(due(r#","stream":true,"stream_options":{"include_usage":true}"#), [100, 100, 120, 140, 140, 140, 140]);
    assert_eq!(chat("").plain().0.as_millis(), 140);
}

#[test]
fn a_wrong_member_is_named() {
    let at = started(DemoService::InferencePython, quick());
    for (body, param) in [
        (format!("{{{HELLO}}}"), json!("model")),
        (r#"{"model":5,"messages":[],"n":3}"#.into(), json!("model")),
        (r#"{"model":"m"}"#.into(), json!("messages")),
        (r#"{"model":"m","messages":[]}"#.into(), json!("messages")),
        (r#"{"model":"m","messages":["a"]}"#.into(), json!("messages")),
        (r#"{"model":"m","messages":[["user","a"]]}"#.into(), json!("messages")),
        (r#"{"model":"m","messages":[{"role":"","content":"a"}]}"#.into(), json!("messages")),
        (r#"{"model":"m","messages":[{"role":"user","content":5}]}"#.into(), json!("messages")),
        (r#"{"model":"m","messages":[{"role":"user","content":[{"text":"a"}]}]}"#.into(), json!("messages")),
        (r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}"#.into(), json!("messages")),
        (r#"{"model":"m","messages":[{"role":"user","content":"\udc00"}]}"#.into(), json!("messages")),
        (format!(r#"{{"model":"m",{HELLO},"stream":"true"}}"#), json!("stream")),
        (format!(r#"{{"model":"m",{HELLO},"stream":true,"stream_options":[true]}}"#), json!("stream_options")),
        (
            format!(r#"{{"model":"m",{HELLO},"stream":true,"stream_options":{{"include_usage":1}}}}"#),
            json!("stream_options"),
        ),
        (format!(r#"{{"model":"m",{HELLO},"stream_options":{{}}}}"#), json!("stream_options")),
        (format!(r#"{{"model":"m",{HELLO},"max_completion_tokens":1.5}}"#), json!("max_completion_tokens")),
        (format!(r#"{{"model":"m",{HELLO},"max_tokens":0}}"#), json!("max_tokens")),
        (format!(r#"{{"model":"m",{HELLO},"max_tokens":-1}}"#), json!("max_tokens")),
        (format!(r#"{{"model":"m",{HELLO},"max_tokens":true}}"#), json!("max_tokens")),
        (format!(r#"{{"model":"m",{HELLO},"n":2}}"#), json!("n")),
        ("[]".into(), Value::Null),
        ("hello".into(), Value::Null),
    ] {
        let response = post(at, "/v1/chat/completions", &[], &body);
        let error = &parsed(&response)["error"];
        assert_eq!((response.status(), &error["param"]), (400, &param), "{body}: {}", response.text());
        assert_eq!((&error["type"], &error["code"]), (&json!("invalid_request_error"), &Value::Null));
    }
    let nulls = r#""stream":null,"stream_options":null,"max_tokens":null,"max_completion_tokens":null,"n":null"#;
    let response = post(at, "/v1/chat/completions", &[], format!(r#"{{"model":"m",{HELLO},{nulls}}}"#));
    assert_eq!(response.status(), 200, "{}", response.text());
}

#[test]
fn a_bad_field_is_named_after_a_good_body() {
    let at = started(DemoService::InferencePython, quick());
    let fields = [("X-Sim-Concurrency", "many"), ("X-Sim-Tokens", "0")];
    let response = post(at, "/infer", &fields, r#"{"prompt":"a"}"#);
    let wanted = "X-Sim-Tokens must be a whole number from 1 to 100000";
    assert_eq!((response.status(), parsed(&response)), (400, json!({ "error": wanted })));
    assert_eq!(post(at, "/infer", &fields, "{}").status(), 422);
    let response = post(at, "/v1/chat/completions", &fields, format!(r#"{{"model":"m",{HELLO}}}"#));
    assert_eq!(parsed(&response)["error"]["param"], "X-Sim-Tokens");
}

#[test]
fn events_are_passed_on_as_they_are_due_and_a_client_that_leaves_is_counted() {
    // The second token is not due for a minute: what is seen of the first was not held back.
    let at = started(DemoService::InferencePython, Settings { token_interval_ms: 60_000, ..quick() });
    let mut client = RawClient::connect(at);
    send(&mut client, "/v1/chat/completions", &[], format!(r#"{{"model":"m",{HELLO},"stream":true}}"#));
    assert_eq!(client.read_head().status(), 200);
    let mut text = String::new();
    while !text.contains("trout") {
        text.push_str(std::str::from_utf8(&client.read_piece().expect("more").data).unwrap());
    }
    let counts = |in_flight: u64, cancelled: u64, admitted: u64| {
        let (failed, refused) = (0, 0);
        json!({ "in_flight": in_flight, "admitted": admitted, "failed": failed, "refused": refused, "cancelled": cancelled })
    };
    until_sim(at, &counts(1, 0, 1));
    drop(client);
    until_sim(at, &counts(0, 1, 1));
    // A plain response is given up too.
    let mut client = RawClient::connect(at);
    send(&mut client, "/infer", &[("X-Sim-Latency-Ms", "600000")], r#"{"prompt":"a"}"#);
    until_sim(at, &counts(1, 1, 2));
    drop(client);
    until_sim(at, &counts(0, 2, 2));
    assert_eq!(post(at, "/infer", &[], r#"{"prompt":"a"}"#).status(), 200);
    until_sim(at, &counts(0, 2, 3));
}

#[test]
fn failures_are_kept_by_count() {
    let at = started(DemoService::InferenceNode, Settings { error_rate: 250_000, error_status: 503, ..quick() });
    let statuses: Vec<u16> = (0..12).map(|_| post(at, "/infer", &[], r#"{"prompt":"a"}"#).status()).collect();
    assert_eq!(statuses, [200, 200, 200, 503].repeat(3));
    let response =
        post(at, "/v1/chat/completions", &[("X-Sim-Error-Rate", "1")], format!(r#"{{"model":"m",{HELLO}}}"#));
    let error =
        r#"{"error":{"message":"simulated error","type":"server_error","param":null,"code":"simulated_error"}}"#;
    assert_eq!(response.text(), error);
}

#[test]
fn more_than_the_limit_in_flight_are_refused() {
    let at = started(DemoService::InferencePython, Settings { concurrency: 1, token_interval_ms: 60_000, ..quick() });
    let mut held = RawClient::connect(at);
    let chat = format!(r#"{{"model":"m",{HELLO},"stream":true}}"#);
    send(&mut held, "/v1/chat/completions", &[], &chat);
    assert_eq!(held.read_head().status(), 200);
    let response = post(at, "/infer", &[], r#"{"prompt":"a"}"#);
    assert_eq!((response.status(), response.text()), (503, r#"{"error":"overloaded"}"#));
    assert_eq!(response.field("Retry-After"), Some("1"));
    let response = post(at, "/v1/chat/completions", &[], &chat);
    let error = r#"{"error":{"message":"overloaded","type":"server_error","param":null,"code":"overloaded"}}"#;
    assert_eq!(response.text(), error);
    assert_eq!(post(at, "/infer", &[("X-Sim-Concurrency", "0")], r#"{"prompt":"a"}"#).status(), 200);
}

#[test]
fn what_else_there_is() {
    let (python, node) = (started(DemoService::InferencePython, quick()), started(DemoService::InferenceNode, quick()));
    assert_eq!(get(python, "/healthz").text(), r#"{"ok":true,"service":"inference-python"}"#);
    assert_eq!(get(node, "/healthz").text(), r#"{"ok":true,"service":"inference-node"}"#);
    assert!(get(node, "/metrics").text().starts_with(r#"{"ok":true,"uptime_s":"#));
    assert_eq!(get(python, "/metrics").status(), 404);
    assert_eq!(
        get(node, "/v1/models").text(),
        r#"{"object":"list","data":[{"id":"node-dummy-v0","object":"model","created":1735689600,"owned_by":"weir"}]}"#
    );
    for (at, path, text) in [
        (python, "/nothing", r#"{"detail":"Not Found"}"#),
        (node, "/nothing", r#"{"error":"not found"}"#),
        (
            python,
            "/v1/x",
            r#"{"error":{"message":"Not Found","type":"invalid_request_error","param":null,"code":null}}"#,
        ),
    ] {
        let response = get(at, path);
        assert_eq!((response.status(), response.text()), (404, text));
    }
    for path in ["/infer", "/v1/chat/completions"] {
        let response = get(node, path);
        assert_eq!((response.status(), response.field("Allow")), (405, Some("POST")), "{path}");
    }
}

#[test]
fn the_plain_service_is_slow_where_it_should_be() {
    let at = started(DemoService::Plain, Settings::default());
    let before = Instant::now();
    let slow = get(at, "/slow");
    assert_eq!((slow.status(), slow.text()), (200, r#"{"ok":true,"path":"/slow"}"#));
    assert!(before.elapsed() >= Duration::from_millis(120));
    assert_eq!(slow.field("Content-Type"), Some("application/json"));
    assert_eq!(get(at, "/limited").text(), r#"{"ok":true}"#);
    assert_eq!(get(at, "/healthz").text(), r#"{"ok":true,"service":"plain"}"#);
}
