//! Gemini's API: the path has the model and the method, and nothing else names them.

use serde_json::{Value, json};
use testkit::{DEADLINE, Upstream, Weir, responder, wait};

use crate::client::{Received, send};
use crate::judge::{TEXT, Verdict, judge};
use crate::rig::Provider;

const PROMPT: &str = r#" {"unknown":  [1.0, 1e5, "\u00e9"], "contents":[{"role":"user","parts":[{"text":"hi"}]}]}
"#;

fn configuration(url: &str, top: &str, route: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\n{top}\
         upstreams: {{u: {{targets: [\"{url}\"]}}}}\n\
         providers:\n  google: {{api: gemini, upstream: u, keys: [google-canary-of-the-key]}}\n  \
         openai: {{api: openai, upstream: u, keys: [sk-openai-0123456789]}}\n\
         models:\n  pro: {{aliases: [\"gemini-*\"], candidates: [{{provider: google, model: sim}}]}}\n  \
         odd: {{candidates: [{{provider: google, model: \"real?key#model\"}}]}}\n  \
         chat: {{candidates: [{{provider: openai, model: sim}}]}}\n\
         routes: [{{name: ai, match: {{path: /v1beta/*}}, ai: {{}}{route}}}, {{match: {{path: /v1/*}}, ai: {{}}}}]\n"
    )
}

fn gateway(url: &str, top: &str, route: &str) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(configuration(url, top, route)).start()
}

fn call(weir: &Weir, model: &str, method: &str) -> Received {
    let path = format!("/v1beta/models/{model}:{method}");
    send(weir.addr(), "POST", &path, &[("x-goog-api-key", "client-secret")], PROMPT)
}

#[test]
fn each_operation_reaches_its_provider_and_comes_back() {
    let provider = Provider::start();
    let weir = gateway(&format!("http://{}", provider.address()), "", "");
    for model in ["pro", "gemini-2.5-flash"] {
        let whole = call(&weir, model, "generateContent");
        assert_eq!(judge("/v1beta/", false, &whole), Verdict::Complete, "{whole:?}");
        assert_eq!(whole.field("x-weir-model"), Some("google/sim"));
        let stream = call(&weir, model, "streamGenerateContent?alt=sse");
        assert_eq!(judge("/v1beta/", true, &stream), Verdict::Complete, "{stream:?}");
        let array = call(&weir, model, "streamGenerateContent");
        assert_eq!(array.json()[0]["candidates"][0]["content"]["parts"][0]["text"], TEXT, "{array:?}");
        let count = call(&weir, model, "countTokens");
        assert!(count.status == 200 && count.json()["totalTokens"].is_u64(), "{count:?}");
    }
    let lines = || -> Vec<Value> {
        let lines = weir.stdout();
        lines
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .map(|line| line["ai"].clone())
            .collect()
    };
    wait::until(DEADLINE, "all calls are logged", || lines().len() == 8);
    for ai in lines() {
        // A count uses no tokens, so none are reported or charged.
        let is_count = ai["tokens_in"].is_null();
        assert!(is_count || (ai["estimated"] == false && ai["tokens_out"] == 8), "{ai}");
        assert_eq!((&ai["api"], &ai["end"], &ai["provider"]), (&json!("gemini"), &json!("complete"), &json!("google")));
    }
    assert_eq!(lines().iter().filter(|ai| ai["tokens_in"].is_null()).count(), 2);
}

/// A provider gets its own key, in a field; the client's is neither forwarded nor logged, wherever it was.
#[test]
fn keys_stay_where_they_belong() {
    let body = r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"odd":1.50}"#;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let upstream = Upstream::start(responder::raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())));
    let weir = gateway(&format!("{}/base", upstream.url()), "", "");
    let fields = [("x-goog-api-key", "client-secret"), ("x-goog-user-project", "client-secret"), ("x-kept", "yes")];
    let path = "/v1beta/models/odd:generateContent?key=client-secret&%6bey=escaped-secret&prettyPrint=false";
    let received = send(weir.addr(), "POST", path, &fields, PROMPT);
    assert_eq!((received.status, received.text().as_str()), (200, body), "{received:?}");
    let seen = upstream.requests().pop().unwrap();
    assert_eq!(String::from_utf8(seen.body.clone()).unwrap(), PROMPT, "the body has no model, and passes as it came");
    let head = String::from_utf8(seen.head.raw).unwrap();
    let line = "POST /base/v1beta/models/real%3Fkey%23model:generateContent?prettyPrint=false HTTP/1.1\r\n";
    assert!(head.starts_with(line), "{head}");
    let lower = head.to_ascii_lowercase();
    assert!(lower.contains("x-goog-api-key: google-canary-of-the-key\r\n") && lower.contains("x-kept: yes"), "{head}");
    assert!(!lower.contains("-secret") && !lower.contains("authorization"), "{head}");
    wait::until(DEADLINE, "the call is logged", || weir.stdout().contains("google"));
    for output in [weir.stdout(), weir.stderr(), weir.admin_get("/metrics").text().to_owned()] {
        assert!(!output.contains("client-secret") && !output.contains("canary-of-the-key"), "{output}");
    }
}

#[test]
fn what_cannot_be_served_is_refused_in_the_form_of_the_api() {
    let provider = Provider::start();
    let weir = gateway(&format!("http://{}", provider.address()), "", ", body: 64KiB");
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(70_000));
    for (path, body, status, name) in [
        ("/v1beta/models/other:generateContent", PROMPT, 404, "NOT_FOUND"),
        ("/v1beta/models/pro:generateContent", "{", 400, "INVALID_ARGUMENT"),
        ("/v1beta/models/pro:generateContent", large.as_str(), 413, "INVALID_ARGUMENT"),
        ("/v1beta/models/pro:embedContent", PROMPT, 405, "INVALID_ARGUMENT"),
        ("/v1beta/models/chat:generateContent", PROMPT, 400, "INVALID_ARGUMENT"),
        ("/v1beta/files", PROMPT, 404, "NOT_FOUND"),
    ] {
        let received = send(weir.addr(), "POST", path, &[], body);
        assert_eq!(received.status, status, "{path} {received:?}");
        let error = &received.json()["error"];
        assert_eq!((&error["code"], &error["status"]), (&json!(status), &json!(name)), "{path} {error}");
    }
    assert_eq!(send(weir.addr(), "GET", "/v1beta/models/pro:generateContent", &[], "").status, 405);
    // What only OpenAI has.
    let prompt = json!({"model": "pro", "prompt": "a"}).to_string();
    let received = send(weir.addr(), "POST", "/v1/completions", &[], &prompt);
    assert_eq!((received.status, &received.json()["error"]["code"]), (400, &json!("unsupported_api")));
    assert_eq!(provider.ledger()["calls"], json!({}), "no provider was called");
}

#[test]
fn models_are_listed_for_the_api_that_reaches_them() {
    let provider = Provider::start();
    let weir = gateway(&format!("http://{}", provider.address()), "", "");
    let get = |path| send(weir.addr(), "GET", path, &[], "");
    let list = get("/v1beta/models").json();
    let names: Vec<&Value> = list["models"].as_array().unwrap().iter().map(|model| &model["name"]).collect();
    assert_eq!(names, [&json!("models/pro"), &json!("models/odd"), &json!("models/chat")]);
    assert_eq!(get("/v1beta/models/gemini-x").json()["name"], "models/gemini-x");
    assert_eq!(get("/v1beta/models/other").json()["error"]["status"], "NOT_FOUND");
    // Google's client uses both versions, and says by its credential what it is.
    let list = send(weir.addr(), "GET", "/v1/models", &[("x-goog-api-key", "client-secret")], "").json();
    assert_eq!(list["models"].as_array().unwrap().len(), 3, "{list}");
    let whole = send(weir.addr(), "POST", "/v1/models/pro:generateContent", &[], PROMPT);
    assert_eq!(judge("/v1beta/", false, &whole), Verdict::Complete, "{whole:?}");
    let list = get("/v1/models").json();
    assert_eq!((list["data"].as_array().unwrap().len(), &list["data"][2]["id"]), (3, &json!("chat")));
}

/// An array is a stream that ends with its bracket, whether or not the model has finished.
#[test]
fn an_array_without_an_end_reason_is_no_response() {
    let body = r#"[{"candidates":[{"content":{"parts":[{"text":"half of it"}]}}]}]"#;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let upstream = Upstream::start(responder::raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())));
    let weir = gateway(&upstream.url(), "", "");
    let received = call(&weir, "pro", "streamGenerateContent");
    assert_eq!((received.status, &received.json()["error"]["status"]), (502, &json!("INTERNAL")), "{received:?}");
}

/// Limits of tokens are charged what the provider reports; counting tokens is free.
#[test]
fn tokens_are_settled() {
    let provider = Provider::start();
    let top = "limits: {all: {unit: output_tokens, algorithm: fixed_window, quota: 1050, window: 1h, key: route}}\n";
    let weir = gateway(&format!("http://{}", provider.address()), top, ", limits: [all]");
    // 1024 tokens are reserved for an output, 8 are used: the fifth call finds 1018 left.
    let methods = ["generateContent", "streamGenerateContent?alt=sse", "streamGenerateContent", "generateContent"];
    for (served, method) in methods.into_iter().enumerate() {
        assert_eq!(call(&weir, "pro", method).status, 200, "{method}");
        assert_eq!(call(&weir, "pro", "countTokens").status, 200);
        let settled = || weir.stdout().matches("\"tokens_out\":8").count() == served + 1;
        wait::until(DEADLINE, "the call is settled", settled);
    }
    let refused = call(&weir, "pro", "generateContent");
    let expected = (429, json!("RESOURCE_EXHAUSTED"));
    assert_eq!((refused.status, refused.json()["error"]["status"].clone()), expected, "{refused:?}");
}
