//! Same API on both sides: bytes pass, but for the name of the model.

use std::sync::Arc;

use serde_json::{Value, json};
use testkit::tls::TlsRelay;
use testkit::{Certificates, DEADLINE, Upstream, Weir, responder, wait};
use tls::names::Entry;
use tls::server::{Listener, Options, Tickets};
use tls::{Certificate, Names};

use crate::client::{post, send};
use crate::judge::{Verdict, judge};
use crate::rig::{Provider, gateway};

const MODELS: &str = "  chat:\n    aliases: [\"gpt-4*\", exact]\n    candidates: [{provider: openai, model: sim}]\n  \
                      claude:\n    candidates: [{provider: claude, model: sim}]\n";

fn chat(model: &str, streams: bool) -> String {
    json!({"model": model, "stream": streams, "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]})
        .to_string()
}

#[test]
fn each_operation_reaches_its_provider_and_comes_back() {
    let provider = Provider::start();
    let weir = gateway(&provider, "", MODELS, "");
    for streams in [false, true] {
        for (path, model) in
            [("/v1/chat/completions", "chat"), ("/v1/messages", "claude"), ("/v1/chat/completions", "gpt-4o-mini")]
        {
            let received = post(weir.addr(), path, &chat(model, streams));
            assert_eq!(judge(path, streams, &received), Verdict::Complete, "{received:?}");
            assert_eq!(received.field("x-upstream-request-id"), Some("req_sim"), "{received:?}");
        }
    }
    let whole = post(weir.addr(), "/v1/completions", &json!({"model": "exact", "prompt": "hi"}).to_string());
    assert_eq!((whole.status, &whole.json()["choices"][0]["finish_reason"]), (200, &json!("stop")), "{whole:?}");
    let whole = post(weir.addr(), "/v1/responses", &json!({"model": "chat", "input": "hi"}).to_string());
    assert_eq!((whole.status, &whole.json()["status"]), (200, &json!("completed")), "{whole:?}");
    let stream =
        post(weir.addr(), "/v1/responses", &json!({"model": "chat", "input": "hi", "stream": true}).to_string());
    assert!(stream.is_whole && stream.text().contains("response.completed"), "{stream:?}");
    let whole = post(weir.addr(), "/v1/embeddings", &json!({"model": "chat", "input": "hi"}).to_string());
    assert!(whole.json()["data"][0]["embedding"].is_array(), "{whole:?}");
}

#[test]
fn models_are_listed_in_the_form_of_the_api() {
    let provider = Provider::start();
    let weir = gateway(&provider, "", MODELS, "");
    let list = send(weir.addr(), "GET", "/v1/models", &[], "").json();
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((ids, &list["object"]), (vec!["chat", "exact", "claude"], &json!("list")));
    let list = send(weir.addr(), "GET", "/v1/models", &[("anthropic-version", "2023-06-01")], "").json();
    assert_eq!((&list["data"][0]["type"], &list["has_more"]), (&json!("model"), &json!(false)));
    assert_eq!(send(weir.addr(), "GET", "/v1/models/exact", &[], "").json()["id"], "exact");
    let missing = send(weir.addr(), "GET", "/v1/models/other", &[], "");
    assert_eq!((missing.status, &missing.json()["error"]["code"]), (404, &json!("model_not_found")));
}

#[test]
fn what_cannot_be_served_is_refused_in_the_form_of_the_api() {
    let provider = Provider::start();
    let weir = gateway(&provider, "", MODELS, ", body: 64KiB");
    for (path, body, status, code, param) in [
        ("/v1/chat/completions", chat("other", false), 404, "model_not_found", json!("model")),
        ("/v1/chat/completions", "{".into(), 400, "invalid_request", Value::Null),
        (
            "/v1/chat/completions",
            "{\"model\":\"chat\",\"model\":\"chat\"}".into(),
            400,
            "invalid_request",
            json!("model"),
        ),
        ("/v1/chat/completions", "{}".into(), 400, "missing_model", json!("model")),
        (
            "/v1/embeddings",
            json!({"model": "claude", "input": "x"}).to_string(),
            400,
            "unsupported_api",
            json!("model"),
        ),
        (
            "/v1/chat/completions",
            format!("{{\"model\":\"chat\",\"x\":\"{}\"}}", "y".repeat(70_000)),
            413,
            "body_too_large",
            Value::Null,
        ),
        ("/v1/files", String::new(), 404, "not_found", Value::Null),
    ] {
        let received = post(weir.addr(), path, &body);
        assert_eq!(received.status, status, "{path} {received:?}");
        let error = received.json()["error"].clone();
        assert_eq!((&error["code"], &error["param"]), (&json!(code), &param), "{path} {error}");
        assert_eq!(received.field("x-should-retry"), Some("false"), "{received:?}");
    }
    let received = post(weir.addr(), "/v1/messages", &chat("other", false));
    assert_eq!((received.status, &received.json()["type"]), (404, &json!("error")), "{received:?}");
    assert_eq!(received.json()["error"]["type"], "not_found_error");
    assert_eq!(send(weir.addr(), "GET", "/v1/chat/completions", &[], "").status, 405);
    assert_eq!(provider.ledger()["calls"], json!({}), "no provider was called");
}

/// What a provider sees: its own credentials and none of the client's, the body but for the model, and nothing of the client's network.
#[test]
fn a_provider_sees_its_key_and_the_bytes_of_the_body() {
    let response = r#"{"id":"x","model":"real","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"odd":1.50}"#;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: a=b\r\nx-ratelimit-remaining-requests: 5\r\n\
                openai-organization: secret-org\r\n";
    let upstream =
        Upstream::start(responder::raw(format!("{head}Content-Length: {}\r\n\r\n{response}", response.len())));
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 1\nupstreams: {{u: {{targets: [\"{}/base\"]}}}}\n\
         providers: {{p: {{api: openai, upstream: u, keys: [sk-provider-key-abcdef], headers: {{X-Own: yes}}}}}}\n\
         models: {{chat: {{candidates: [{{provider: p, model: real/model}}]}}}}\n\
         routes: [{{match: {{path: /v1/*}}, ai: {{models: [chat]}}}}]\n",
        upstream.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let body = " {\"unknown\":  [1.0, 1e5, \"\\u00e9\"],\"model\" : \"chat\", \"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}\n";
    let fields = [
        ("Authorization", "Bearer client-secret"),
        ("X-API-Key", "client-secret"),
        ("api_key", "client-secret"),
        ("Cookie", "client-secret"),
        ("OpenAI-Organization", "client-secret"),
        ("X-Weir-Anything", "client-secret"),
        ("X-Forwarded-For", "client-secret"),
        ("Accept-Encoding", "gzip"),
        ("OpenAI-Beta", "kept"),
    ];
    let received = send(weir.addr(), "POST", "/v1/chat/completions?key=client-secret&beta=true", &fields, body);
    assert_eq!((received.status, received.text().as_str()), (200, response), "{received:?}");
    for gone in ["set-cookie", "x-ratelimit-remaining-requests", "openai-organization"] {
        assert_eq!(received.field(gone), None, "{received:?}");
    }
    assert_eq!(received.field("x-weir-model"), Some("p/real/model"));
    let seen = upstream.requests().pop().unwrap();
    let head = String::from_utf8(seen.head.raw.clone()).unwrap();
    assert!(head.starts_with("POST /base/v1/chat/completions?beta=true HTTP/1.1\r\n"), "{head}");
    let lower = head.to_ascii_lowercase();
    assert!(!lower.contains("client-secret") && !lower.contains("x-forwarded") && !lower.contains("gzip"), "{head}");
    for line in ["authorization: bearer sk-provider-key-abcdef\r\n", "openai-beta: kept\r\n", "x-own: yes\r\n"] {
        assert!(lower.contains(line), "{head}");
    }
    assert_eq!(String::from_utf8(seen.body).unwrap(), body.replace("\"chat\"", "\"real/model\""));
}

#[test]
fn bodies_are_held_within_the_bound_of_the_process() {
    let provider = Provider::start();
    let weir = gateway(&provider, "ai: {held: 64KiB}\n", MODELS, "");
    let large = json!({"model": "chat", "messages": [{"role": "user", "content": "x".repeat(40 * 1024)}]}).to_string();
    let refused = post(weir.addr(), "/v1/chat/completions", &large);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("ai_held")), "{refused:?}");
    assert_eq!(post(weir.addr(), "/v1/chat/completions", &chat("chat", false)).status, 200);
    wait::until(DEADLINE, "what was held is free", || {
        weir.admin_get("/metrics").text().contains("weir_ai_held_bytes 0")
    });
}

/// A prompt that is too large for the buffers of sockets, on its way to a provider that stops reading in the middle: the next one gets all of it,
/// in clear text, over TLS and over HTTP/2.
#[test]
fn a_long_prompt_is_whole_at_the_next_provider_when_one_stops_in_the_middle() {
    let response =
        json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]});
    let json = [("Content-Type", "application/json")];
    let whole =
        Upstream::builder().record_limit(32 << 20).start(move |conn, _| conn.respond(200, &json, response.to_string()));
    let broken = Upstream::connections(|conn| {
        conn.read_head()?;
        for _ in 0..4 {
            conn.read_piece()?;
        }
        conn.close()
    });
    let certificates = Certificates::localhost();
    let certificate = Certificate::load(&certificates.certificate(), &certificates.key()).unwrap();
    let entry = Entry { certificate, names: Vec::new(), is_default: true, policy: 0 };
    let options = Options::new(Arc::new(Names::new(vec![entry]).unwrap()));
    let secure = TlsRelay::terminate(Listener::new(&options, &Tickets::default()).unwrap(), whole.socket_addr());
    let http2 = Weir::builder(env!("CARGO_BIN_EXE_weir"))
        .config(format!(
            "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nupstreams: {{u: {{targets: [\"{}\"]}}}}\n\
             routes: [{{match: {{path: /*}}, body: 32MiB, upstream: u}}]\n",
            whole.url()
        ))
        .start();
    let roots = format!("tls: {{roots: {}}}", certificates.authority().display());
    for (name, target) in [
        ("clear text", format!("targets: [\"{}\"]", whole.url())),
        ("TLS", format!("targets: [\"{}\"], {roots}", secure.url())),
        ("HTTP/2", format!("targets: [\"http://{}\"], protocol: http2", http2.addr())),
    ] {
        let yaml = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\n\
             upstreams: {{broken: {{targets: [\"{}\"]}}, whole: {{{target}}}}}\n\
             providers: {{broken: {{api: openai, upstream: broken}}, whole: {{api: openai, upstream: whole}}}}\n\
             models:\n  chat:\n    candidates: [{{provider: broken, model: a}}, {{provider: whole, model: another, tier: 2}}]\n\
             routes: [{{match: {{path: /v1/*}}, ai: {{}}}}]\n",
            broken.url()
        );
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
        let prompt: String =
            (0..24 << 20).map(|n: u32| char::from(b'a' + (n % 23) as u8 + (n / 4099 % 3) as u8)).collect();
        let body = json!({"messages": [{"role": "user", "content": prompt}], "model": "chat"}).to_string();
        // The model lies in front and behind: nearly all is written from where it lies, or nearly all is copied.
        for body in [body.clone(), format!("{{\"model\":\"chat\",{}", body[1..].replace(",\"model\":\"chat\"", ""))] {
            whole.forget();
            let received = post(weir.addr(), "/v1/chat/completions", &body);
            assert_eq!((received.status, received.field("x-fallback")), (200, Some("whole")), "{name}: {received:?}");
            let seen = whole.requests();
            let expected = body.replace("\"chat\"", "\"another\"");
            assert!(seen.len() == 1 && seen[0].complete && seen[0].body == expected.as_bytes(), "{name}");
        }
        wait::until(DEADLINE, "what was held is free", || {
            weir.admin_get("/metrics").text().contains("weir_ai_held_bytes 0")
        });
    }
}
