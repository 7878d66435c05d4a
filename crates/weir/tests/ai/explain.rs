//! `X-Weir-Explain`: keys that have it are told how a call was served; nobody else is, and no provider sees the field.

use serde_json::json;
use testkit::Weir;

use crate::client::{Received, send};
use crate::rig::{Provider, gateway};

const MODELS: &str = "  good: {candidates: [{provider: openai, model: sim}]}\n  \
                      second: {candidates: [{provider: openai, model: sim-f5}, {provider: claude, model: sim, max_output: 9, tier: 2}]}\n  \
                      odd: {candidates: [{provider: openai, model: sim-f16}]}\n  \
                      bad: {candidates: [{provider: openai, model: sim-f5}], attempts: 1}\n";

/// A key, with `explain` if `may`.
fn create(file: &str, name: &str, may: bool) -> String {
    let mut args = vec!["keys", "create", name, "--file", file];
    if may {
        args.push("--explain");
    }
    Weir::builder(env!("CARGO_BIN_EXE_weir")).args(args).command().stdout.trim().to_owned()
}

fn call(weir: &Weir, key: &str, model: &str, explain: &str) -> Received {
    let body = json!({"model": model, "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let bearer = format!("Bearer {key}");
    let fields = [("Content-Type", "application/json"), ("Authorization", &*bearer), ("X-Weir-Explain", explain)];
    send(weir.addr(), "POST", "/v1/chat/completions", &fields, &body)
}

#[test]
fn a_decision_is_for_keys_that_may_read_it() {
    let provider = Provider::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let file = file.to_str().unwrap();
    let (operator, customer) = (create(file, "operator", true), create(file, "customer", false));
    let top = format!(
        "auth: {{keys: {{api_key: {{in: [bearer], store: {{file: {file}}}}}}}}}\n\
         limits: {{tokens: {{algorithm: fixed_window, unit: tokens, key: consumer, quota: 100000, window: day}}}}\n"
    );
    let weir = gateway(&provider, &top, MODELS, ", auth: keys, limits: [tokens]");

    let decision = |model: &str| {
        let received = call(&weir, &operator, model, "1");
        let text = received.field("x-weir-decision").unwrap_or_else(|| panic!("no decision: {}", received.text()));
        (received.status, text.to_owned())
    };
    let (status, text) = decision("good");
    assert_eq!(status, 200);
    assert!(text.starts_with("model=good; tried=openai/sim:ok; estimate="), "{text}");
    assert!(text.contains("; reserved="), "{text}");

    let (status, text) = decision("second");
    assert_eq!(status, 200);
    assert!(text.starts_with("model=second; tried=openai/sim-f5:F"), "{text}");
    assert!(text.contains(">claude/sim:ok; "), "{text}");

    let (status, text) = decision("bad");
    assert!(status >= 500, "{status}");
    assert!(text.starts_with("model=bad; tried=openai/sim-f5:F") && !text.contains(":ok"), "{text}");

    // An error that is passed on.
    let (status, text) = decision("odd");
    assert_eq!(status, 422);
    assert!(text.starts_with("model=odd; tried=openai/sim-f16:422; "), "{text}");

    for model in ["good", "second", "odd", "bad"] {
        assert_eq!(call(&weir, &customer, model, "1").field("x-weir-decision"), None, "{model}");
        for other in ["0", "true", "11", ""] {
            assert_eq!(call(&weir, &operator, model, other).field("x-weir-decision"), None, "{model} {other}");
        }
    }
}
