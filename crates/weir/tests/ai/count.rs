//! Counts of tokens: by the provider with the client's API, otherwise the gateway's estimate.

use serde_json::{Value, json};
use testkit::Weir;

use crate::client::{Received, post};
use crate::rig::{Provider, gateway};

const MODELS: &str = "  claude: {candidates: [{provider: claude, model: sim-tokens5}]}\n  \
                      gpt: {candidates: [{provider: openai, model: sim-tokens3}]}\n  \
                      both: {candidates: [{provider: openai, model: sim-tokens3}, {provider: claude, model: sim-tokens5}]}\n  \
                      dead: {candidates: [{provider: claude, model: sim-f5}], attempts: 1}\n";

fn count(weir: &Weir, model: &str, words: usize) -> Received {
    let content = "word ".repeat(words);
    let body = json!({"model": model, "messages": [{"role": "user", "content": content}]});
    post(weir.addr(), "/v1/messages/count_tokens", &body.to_string())
}

fn estimate(received: &Received) -> (u64, bool) {
    assert_eq!(received.status, 200, "{}", received.text());
    let tokens = received.json()["input_tokens"].as_u64().expect("a number");
    (tokens, received.field("x-weir-estimate") == Some("true"))
}

#[test]
fn a_provider_with_the_api_counts_and_the_gateway_estimates_for_others() {
    let provider = Provider::start();
    // Counts are no use of tokens: more of them pass than the limit has tokens.
    let top = "limits: {day: {unit: tokens, algorithm: fixed_window, quota: 2000, window: day, key: global}}\n";
    let weir = gateway(&provider, top, MODELS, ", limits: [day]");
    for _ in 0..3 {
        assert!(!estimate(&count(&weir, "claude", 1000)).1);
        assert!(!estimate(&count(&weir, "both", 1000)).1, "the second candidate can count");
        let (tokens, is_estimate) = estimate(&count(&weir, "gpt", 1000));
        assert!(is_estimate && (900..=1700).contains(&tokens), "{tokens}");
    }
    assert_eq!((provider.calls("sim-tokens5"), provider.calls("sim-tokens3")), (6, 0));
    let metrics = weir.admin_get("/metrics");
    let generated = metrics.text().lines().filter(|line| line.starts_with("weir_ai_tokens_total"));
    assert_eq!(generated.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn faults_and_wrong_requests_have_the_form_of_the_api() {
    let provider = Provider::start();
    let weir = gateway(&provider, "", MODELS, "");
    let error = |received: &Received| -> (u16, Value) { (received.status, received.json()["error"]["type"].clone()) };
    assert_eq!(error(&count(&weir, "none-such", 1)), (404, json!("not_found_error")));
    let (status, _) = error(&count(&weir, "dead", 1));
    assert!((500..=503).contains(&status), "{status}");
    let wrong = post(weir.addr(), "/v1/messages/count_tokens", "{\"model\": \"claude\"");
    assert_eq!(error(&wrong), (400, json!("invalid_request_error")));
    let got = crate::client::send(weir.addr(), "GET", "/v1/messages/count_tokens", &[], "");
    assert_eq!(got.status, 405);
}

/// Documents that are no text: the provider's, byte for byte, at the price of a request and without tokens of output.
#[test]
fn moderations_and_images_are_forwarded() {
    let provider = Provider::start();
    let weir = gateway(&provider, "", MODELS, "");
    for (path, body, member) in [
        ("/v1/moderations", json!({"model": "gpt", "input": "hello", "unknown": 1.50}), "results"),
        ("/v1/images/generations", json!({"model": "gpt", "prompt": "a fox", "size": "256x256"}), "data"),
    ] {
        let received = post(weir.addr(), path, &body.to_string());
        assert_eq!(received.status, 200, "{path} {}", received.text());
        assert!(received.json()[member].is_array(), "{}", received.text());
        let mut to_claude = body.clone();
        to_claude["model"] = "claude".into();
        let refused = post(weir.addr(), path, &to_claude.to_string());
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("unsupported_api")), "{path}");
    }
    assert_eq!((provider.calls("sim-tokens3"), provider.calls("sim-tokens5")), (2, 0));
    let metrics = weir.admin_get("/metrics");
    let attempts: Vec<&str> =
        metrics.text().lines().filter(|line| line.starts_with("weir_ai_attempts_total{")).collect();
    assert!(
        attempts.len() == 1 && attempts[0].contains("fault=\"none\"") && attempts[0].ends_with(" 2"),
        "{attempts:?}"
    );
    let events = json!({"model": "gpt", "prompt": "a fox", "stream": true});
    let refused = post(weir.addr(), "/v1/images/generations", &events.to_string());
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("stream")));
}

/// The other form of Gemini's count would carry the prompt past `redact`, and the client's name of the model to the provider.
#[test]
fn a_request_within_the_request_is_refused() {
    let provider = Provider::start();
    let weir = gateway(&provider, "", MODELS, "");
    for name in ["generateContentRequest", "generate_content_request", "gen\\u0065rateContentRequest"] {
        let body = format!("{{\"{name}\": {{\"contents\": [{{\"parts\": [{{\"text\": \"hi\"}}]}}]}}}}");
        let refused = post(weir.addr(), "/v1/models/gpt:countTokens", &body);
        assert_eq!((refused.status, &refused.json()["error"]["status"]), (400, &json!("INVALID_ARGUMENT")), "{name}");
    }
    let body = json!({"contents": [{"parts": [{"text": "hi"}]}]}).to_string();
    let counted = post(weir.addr(), "/v1/models/gpt:countTokens", &body);
    assert_eq!((counted.status, counted.field("x-weir-estimate")), (200, Some("true")), "{}", counted.text());
}
