//! What clients are told, and who is counted.

use testkit::Weir;

use super::{Setup, call, chat, wait_for_calls};
use crate::rig::Provider;

#[test]
fn refusals_have_the_form_of_the_api() {
    let provider = Provider::start();
    let limits = "  tpm: {unit: tokens, algorithm: token_bucket, rate: 1/h, burst: 100, key: global}\n  \
                  budget: {unit: money, algorithm: fixed_window, quota: 0.001, window: month, key: global}";
    let openai = Setup::new(&provider, limits, "tpm").start();
    let first = call(&openai, "/v1/chat/completions", &chat("chat", false, 60), &[]);
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(first.field("x-ratelimit-limit-tokens"), Some("100"));
    let remaining: u64 = first.field("x-ratelimit-remaining-tokens").unwrap().parse().unwrap();
    assert!(remaining < 40, "{first:?}");
    assert!(first.field("x-ratelimit-reset-tokens").is_some());
    assert!(first.field("ratelimit-policy").unwrap().starts_with("\"tpm\";q=100;w="), "{first:?}");
    let refused = call(&openai, "/v1/chat/completions", &chat("chat", false, 90), &[]);
    let error = refused.json()["error"].clone();
    assert_eq!(
        (refused.status, &error["code"], &error["type"]),
        (429, &"rate_limit_exceeded".into(), &"rate_limit_error".into())
    );
    assert!(refused.field("retry-after").unwrap().parse::<u64>().unwrap() > 1, "{refused:?}");
    assert_eq!(refused.field("x-should-retry"), None);
    assert!(refused.field("ratelimit").unwrap().starts_with("\"tpm\";r="), "{refused:?}");
    // More than there ever is: nobody should try again.
    let never = call(&openai, "/v1/chat/completions", &chat("chat", true, 101), &[]);
    assert_eq!((never.status, never.field("x-should-retry"), never.field("retry-after")), (429, Some("false"), None));

    let anthropic = call(&openai, "/v1/messages", &chat("claude", false, 90), &[]);
    assert_eq!(
        (anthropic.status, &anthropic.json()["error"]["type"]),
        (429, &"rate_limit_error".into()),
        "{anthropic:?}"
    );
    let ok = call(&openai, "/v1/messages", &chat("claude", false, 20), &[]);
    assert_eq!(ok.field("anthropic-ratelimit-tokens-limit"), Some("100"), "{ok:?}");
    assert!(ok.field("anthropic-ratelimit-tokens-reset").unwrap().ends_with('Z'), "{ok:?}");
    assert_eq!(ok.field("x-ratelimit-limit-tokens"), None);

    let money = Setup::new(&provider, limits, "budget").start();
    let mut statuses = Vec::new();
    let refused = loop {
        let received = call(&money, "/v1/chat/completions", &chat("chat", false, 100), &[]);
        assert_eq!(received.field("ratelimit"), None, "nothing is told of money");
        statuses.push(received.status);
        if received.status != 200 {
            break received;
        }
    };
    assert!(statuses.len() > 2, "{statuses:?}");
    let error = refused.json()["error"].clone();
    assert_eq!(
        (refused.status, &error["code"], &error["type"]),
        (429, &"insufficient_quota".into(), &"insufficient_quota".into())
    );
    assert_eq!(refused.field("x-should-retry"), Some("false"));
    assert!(refused.field("retry-after").unwrap().parse::<u64>().unwrap() <= 31 * 86_400, "{refused:?}");
    let metrics = money.admin_get("/metrics").text().to_owned();
    assert!(metrics.contains("weir_ai_cost_millionths_total{model=\"chat\",provider=\"good\"}"), "{metrics}");
    assert!(metrics.contains("rate_limit_dropped_total{limit=\"budget\"} 1"), "{metrics}");
}

/// Whole responses of a provider that reports no tokens are not free: a client could otherwise avoid its budget by not streaming.
#[test]
fn a_whole_response_without_usage_is_charged_by_its_size() {
    let provider = Provider::start();
    let limits = "  out: {unit: output_tokens, algorithm: fixed_window, quota: 300, window: day, key: global}";
    let setup = Setup::new(&provider, limits, "out");
    let weir = setup.start_with(&setup.yaml().replace("model: sim}", "model: sim-f27-tokens80}"));
    let mut statuses = Vec::new();
    while statuses.len() < 20 && !statuses.contains(&429) {
        statuses.push(call(&weir, "/v1/chat/completions", &chat("chat", false, 80), &[]).status);
    }
    assert!((2..10).contains(&statuses.len()), "{statuses:?}");
    let lines = wait_for_calls(&weir, statuses.len());
    // Lines of two workers may come in either order.
    let ai = &lines.iter().find(|line| line["status"] == 200).expect("a served call")["ai"];
    assert_eq!(ai["estimated"], true, "{ai}");
    // The simulator's tokens are words; what surrounds them is counted too.
    let tokens = ai["tokens_out"].as_u64().unwrap();
    assert!((80..300).contains(&tokens), "{ai}");
}

#[test]
fn a_limit_that_is_not_enforced_says_what_it_would_refuse() {
    let provider = Provider::start();
    let limits = "  trial: {unit: tokens, algorithm: fixed_window, quota: 30, window: 1h, key: model, enforce: false}\n  \
                  real: {unit: tokens, algorithm: fixed_window, quota: 1000, window: 1h, key: model}";
    let weir = Setup::new(&provider, limits, "trial, real").start();
    for _ in 0..3 {
        let received = call(&weir, "/v1/chat/completions", &chat("chat", false, 20), &[]);
        assert_eq!(received.status, 200, "{received:?}");
        assert!(!received.field("ratelimit").unwrap().contains("trial"), "{received:?}");
    }
    let lines = wait_for_calls(&weir, 3);
    let would = lines.iter().filter(|line| line["would_refuse"] == "trial").count();
    assert_eq!(would, 2, "the first call fits: {lines:?}");
}

/// Keys of one consumer and one team, each with a limit of its own, beside an ordinary limit and authentication.
#[test]
fn keys_consumers_and_teams_have_counts_of_their_own() {
    let provider = Provider::start();
    let limits = "  per_key: {unit: output_tokens, algorithm: fixed_window, quota: 16, window: day, key: virtual_key}\n  \
                  per_team: {unit: output_tokens, algorithm: fixed_window, quota: 24, window: day, key: team}\n  \
                  requests: {rate: 1000/s, burst: 1000, key: consumer}";
    let setup = Setup::new(&provider, limits, "per_key, per_team, requests");
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let dir = builder.dir().to_owned();
    let file = dir.join("keys.yaml");
    let key = |name: &str| -> String {
        let command = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        let made = command.args(["keys", "create", name, "--file", file.to_str().unwrap()]).command();
        assert_eq!(made.code, Some(0), "{made:?}");
        made.stdout.trim().to_owned()
    };
    let keys = [key("ann"), key("ann"), key("bob")];
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, with_team(&text)).unwrap();
    std::fs::write(dir.join("prices.yaml"), super::PRICES).unwrap();
    let yaml = setup.yaml().replace(
        "limits:\n  per_key",
        &format!("auth: {{keys: {{api_key: {{store: {{file: {}}}}}}}}}\nlimits:\n  per_key", file.display()),
    );
    let yaml = yaml.replace("requests]}", "requests], auth: keys}");
    let weir = builder.config(yaml).start();
    let body = chat("chat", false, 8);
    let status =
        |key: &str| call(&weir, "/v1/chat/completions", &body, &[("Authorization", &format!("Bearer {key}"))]).status;
    assert_eq!([status(&keys[0]), status(&keys[0]), status(&keys[0])], [200, 200, 429], "two calls for a key");
    // The team has one left, whoever of it calls; a refusal by the team's limit is not charged to the key.
    assert_eq!([status(&keys[2]), status(&keys[1]), status(&keys[2])], [200, 429, 429]);
    assert_eq!(call(&weir, "/v1/chat/completions", &body, &[]).status, 401);
}

/// Gives every entry of a file of keys a team.
fn with_team(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        // Entries are written in flow form, one a line.
        match line.trim_end().strip_suffix('}') {
            Some(rest) => out.push_str(&format!("{rest},\"meta\":{{\"team\":\"search\"}}}}\n")),
            None => out.push_str(&format!("{line}\n")),
        }
    }
    out
}
