//! Personal data in prompts: no provider sees it, whichever API it speaks, and nothing else changes.

use serde_json::{Value, json};
use testkit::{Upstream, Weir, wait};

use crate::client::{post, send};

const RESPONSE: &str = r#"{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}"#;
const RESPONSES: &str = r#"{"id":"x","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}],"usage":{"input_tokens":5,"output_tokens":1}}"#;
const MESSAGE: &str = r#"{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":1}}"#;
const GENERATED: &str = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"ok"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}}"#;

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

/// The provider of model `first` fails; another one, with Anthropic's API, takes its calls.
fn provider() -> Upstream {
    Upstream::builder().record_limit(8 << 20).start(|conn, request| {
        let path = String::from_utf8_lossy(&request.head.raw).into_owned();
        if path.contains("/responses") {
            conn.respond(200, &JSON, RESPONSES)
        } else if path.contains("/messages") {
            conn.respond(200, &JSON, MESSAGE)
        } else if path.contains(":generateContent") {
            conn.respond(200, &JSON, GENERATED)
        } else if request.body.windows(7).any(|bytes| bytes == b"\"fails\"") {
            conn.respond(503, &JSON, "{}")
        } else {
            conn.respond(200, &JSON, RESPONSE)
        }
    })
}

fn gateway(upstream: &Upstream, route: &str) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml(upstream, route)).start()
}

fn yaml(upstream: &Upstream, route: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\nupstreams: {{u: {{targets: [\"{}\"], eject: none}}}}\n\
         providers:\n  o: {{api: openai, upstream: u}}\n  a: {{api: anthropic, upstream: u}}\n  g: {{api: gemini, upstream: u}}\n\
         limits: {{tpm: {{unit: tokens, algorithm: token_bucket, rate: 1000/min, burst: 200000, key: global}}}}\n\
         models:\n  chat: {{candidates: [{{provider: o, model: served}}]}}\n  g: {{candidates: [{{provider: g, model: served}}]}}\n  \
         first: {{candidates: [{{provider: o, model: fails}}, {{provider: a, model: served, max_output: 9, tier: 2}}]}}\n\
         routes:\n  - {{match: {{path: /v1/*, headers: {{X-Plain: \"1\"}}}}, ai: {{}}}}\n  - {{match: {{path: /*}}, limits: [tpm], ai: {{{route}}}}}\n",
        upstream.url()
    )
}

const ALL: &str = "redact: [email, iban, card, phone, '/(?i)project-[a-z]+/']";
const SECRETS: [&str; 5] =
    ["ann@example.com", "DE89 3704 0044 0532 0130 00", "4111 1111 1111 1111", "+49 30 1234567", "Project-Apollo"];

fn seen(upstream: &Upstream) -> Vec<String> {
    upstream.requests().into_iter().map(|request| String::from_utf8(request.body).unwrap()).collect()
}

#[test]
fn every_api_and_every_attempt_is_without_it() {
    let upstream = provider();
    let weir = gateway(&upstream, ALL);
    let text = format!("I am {}.", SECRETS.join(", "));
    let expected = "I am [EMAIL], [IBAN], [CARD], [PHONE], [REDACTED].";
    let calls = [
        ("/v1/chat/completions", json!({"model": "chat", "messages": [{"role": "user", "content": text}]}), 1),
        ("/v1/completions", json!({"model": "chat", "prompt": [text, "plain"]}), 1),
        (
            "/v1/responses",
            json!({"model": "chat", "input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}]}),
            1,
        ),
        ("/v1beta/models/g:generateContent", json!({"contents": [{"parts": [{"text": text}]}]}), 1),
        (
            "/v1/messages",
            json!({"model": "first", "max_tokens": 5, "system": text, "messages": [{"role": "user", "content": "hi"}]}),
            2,
        ),
        ("/v1/chat/completions", json!({"model": "first", "messages": [{"role": "user", "content": text}]}), 2),
    ];
    for (path, body, least) in calls {
        let before = seen(&upstream).len();
        let received = post(weir.addr(), path, &body.to_string());
        assert_eq!(received.status, 200, "{path} {received:?}");
        let bodies = seen(&upstream).split_off(before);
        assert!(bodies.len() >= least, "{path}: {bodies:?}");
        for body in bodies {
            assert!(SECRETS.iter().all(|secret| !body.contains(secret)), "{path}: {body}");
            assert!(body.contains(expected), "{path}: {body}");
        }
    }
    let metrics = weir.admin_get("/metrics").text().to_owned();
    for kind in ["email", "phone", "card", "iban", "own"] {
        assert!(metrics.contains(&format!("weir_ai_redacted_total{{kind=\"{kind}\"}} 6")), "{kind} in {metrics}");
    }
    let lines =
        || weir.stdout().lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect::<Vec<_>>();
    wait::until(testkit::DEADLINE, "every call has its line", || lines().len() >= 6);
    assert!(lines().iter().all(|line| line["ai"]["redacted"] == 5), "{:?}", lines());
    let log = weir.stdout();
    assert!(SECRETS.iter().all(|secret| !log.contains(secret)), "{log}");
}

/// Escapes, and a body whose length changes by each replacement; what nobody wrote stays to the byte.
#[test]
fn what_is_not_found_stays_to_the_byte() {
    let upstream = provider();
    let weir = gateway(&upstream, ALL);
    let body = " {\"x\": [1.0, \"ann@example.com\"], \"model\":\"chat\",\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9 ok\"},\
                {\"role\":\"user\",\"content\":\"\\u0061nn@example.com\\n\"}], \"user\":\"ann@example.com\"}\n";
    assert_eq!(post(weir.addr(), "/v1/chat/completions", body).status, 200);
    let expected = body.replace("\\u0061nn@example.com\\n", "[EMAIL]\\n").replace("\"chat\"", "\"served\"");
    assert_eq!(seen(&upstream), [expected]);
    // Another route leaves all of it.
    assert_eq!(send(weir.addr(), "POST", "/v1/chat/completions", &[("X-Plain", "1")], body).status, 200);
    assert_eq!(seen(&upstream)[1], body.replace("\"chat\"", "\"served\""));
}

#[test]
fn what_cannot_be_searched_reaches_no_provider() {
    let upstream = provider();
    let weir = gateway(&upstream, ALL);
    let body = r#"{"model":"chat","messages":[{"role":"user","content":"\ud800 ann@example.com"}]}"#;
    let received = send(weir.addr(), "POST", "/v1/chat/completions", &[], body);
    assert_eq!((received.status, &received.json()["error"]["code"]), (400, &json!("invalid_request")), "{received:?}");
    assert!(!received.text().contains("ann@"), "{received:?}");
    assert_eq!(seen(&upstream), [""; 0]);
}

/// Replacements make it longer than it was: what is held is within the bound all the same, and free afterwards.
#[test]
fn a_prompt_of_nothing_else_is_held_and_freed() {
    let upstream = provider();
    let weir = gateway(&upstream, "redact: ['/a/']");
    let prompt = |count: usize| {
        json!({"model": "chat", "messages": [{"role": "user", "content": "a".repeat(count)}]}).to_string()
    };
    assert_eq!(post(weir.addr(), "/v1/chat/completions", &prompt(50_000)).status, 200);
    assert_eq!(seen(&upstream)[0].matches("[REDACTED]").count(), 50_000);
    let is_free = |weir: &Weir| weir.admin_get("/metrics").text().contains("weir_ai_held_bytes 0");
    wait::until(testkit::DEADLINE, "what was held is free", || is_free(&weir));
    // Twice its length has room, twice ten times its length has not.
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir"))
        .config(format!("ai: {{held: 64KiB}}\n{}", yaml(&upstream, "redact: ['/a/']")))
        .start();
    assert_eq!(post(weir.addr(), "/v1/chat/completions", &prompt(1_000)).status, 200);
    let refused = post(weir.addr(), "/v1/chat/completions", &prompt(10_000));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("ai_held")), "{refused:?}");
    wait::until(testkit::DEADLINE, "what was held is free", || is_free(&weir));
}
