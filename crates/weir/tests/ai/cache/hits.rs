//! What a hit is, and for whom.

use serde_json::{Value, json};
use testkit::{DEADLINE, wait};

use super::{CHAT, MESSAGES, Setup, body, is_hit, lasting};

/// Same API and translated, streams and whole responses, vectors.
#[test]
fn a_hit_is_the_miss_byte_for_byte() {
    for replay in ["fast", "paced"] {
        let cache = format!("partition_by: [team], replay: {replay}");
        let rig = Setup { cache: &cache, ..Setup::default() }.start();
        let embeddings = json!({"model": "chat", "input": ["a", "b"]}).to_string();
        let completions = json!({"model": "chat", "prompt": "a", "seed": 3}).to_string();
        let mut cases = vec![("/v1/embeddings", embeddings), ("/v1/completions", completions)];
        for streams in [true, false] {
            for model in ["chat", "claude"] {
                cases.extend([(CHAT, body(model, streams, "hello")), (MESSAGES, body(model, streams, "hello"))]);
            }
        }
        for (number, (path, body)) in cases.iter().enumerate() {
            let miss = rig.call(&rig.one, path, body);
            assert_eq!((miss.status, miss.field("x-cache")), (200, Some("MISS")), "{path} {body} {miss:?}");
            assert_eq!(rig.calls(), number + 1, "{path} {body}");
            assert!(miss.field("cache-status").unwrap().starts_with("weir; fwd=uri-miss"), "{miss:?}");
            // A response to a chat call that is translated has a time in it: only a hit can be equal.
            let hit = rig.call(&rig.one, path, body);
            assert!(is_hit(&hit), "{path} {body} {hit:?}");
            assert!(hit.field("cache-status").unwrap().starts_with("weir; hit; ttl="), "{hit:?}");
            assert!(hit.field("age").is_some(), "{hit:?}");
            assert_eq!(hit.text(), miss.text(), "{path} {body}");
            assert_eq!(lasting(&hit), lasting(&miss), "{path} {body}");
            let is_own = |(name, _): &(String, String)| name.starts_with("weir-");
            assert!(!hit.fields.iter().any(is_own), "a field of the store: {hit:?}");
            assert_eq!(rig.calls(), number + 1, "{path} {body}");
            assert!(miss.text().contains(&(number + 1).to_string()), "the response of this call: {}", miss.text());
        }
        let count = cases.len() as u64;
        assert_eq!(rig.results(), [count, count, 0, 0]);
        let lines = rig.lines(2 * cases.len());
        for what in ["hit", "miss"] {
            let of_them: Vec<&Value> = lines.iter().filter(|line| line["cache"] == what).collect();
            assert_eq!(of_them.len(), cases.len(), "{what}");
            for line in of_them {
                assert_eq!(line["ai"]["end"], "complete", "{line}");
                assert_eq!(line["ai"]["tokens_in"].is_number(), what == "miss", "a hit uses none: {line}");
            }
        }
    }
}

#[test]
fn what_is_said_in_other_words_is_the_same_and_what_is_another_is_not() {
    let rig = Setup::default().start();
    let call = |body: &str, fields: &[(&str, &str)]| is_hit(&rig.call_with(&rig.one, CHAT, body, fields));
    assert!(!call(r#"{"model":"chat","temperature":0,"messages":[{"role":"user","content":"é/"}],"user":"a"}"#, &[]));
    for same in [
        " { \"messages\" : [ { \"content\":\"\\u00e9\\/\", \"role\":\"user\" } ], \"temperature\": 0.0, \"model\":\"chat\" } ",
        r#"{"model":"chat","temperature":0e3,"messages":[{"role":"user","content":"é/"}],"user":"b","metadata":{"a":"b"},"service_tier":"flex"}"#,
        r#"{"model":"chat","temperature":-0,"messages":[{"role":"user","content":"é/"}],"prompt_cache_key":"k","safety_identifier":"s"}"#,
    ] {
        assert!(call(same, &[("User-Agent", "another")]), "{same}");
    }
    for other in [
        r#"{"model":"chat","temperature":0,"messages":[{"role":"user","content":"é/ "}]}"#,
        r#"{"model":"chat","temperature":0,"messages":[{"role":"system","content":"é/"}]}"#,
        r#"{"model":"chat","temperature":0,"seed":1,"messages":[{"role":"user","content":"é/"}]}"#,
        r#"{"model":"chat","temperature":0,"stream":false,"messages":[{"role":"user","content":"é/"}]}"#,
        r#"{"model":"chat","temperature":0,"new_member":1,"messages":[{"role":"user","content":"é/"}]}"#,
    ] {
        assert!(!call(other, &[]), "{other}");
    }
    let versioned = r#"{"model":"chat","temperature":0,"messages":[{"role":"user","content":"é/"}]}"#;
    assert!(!call(versioned, &[("OpenAI-Beta", "new=v2")]), "the client asks for another version");
    assert!(call(versioned, &[("OpenAI-Beta", "new=v2")]));
}

/// Each of these is forwarded each time, and the client is told so.
#[test]
fn what_is_not_looked_up() {
    let rig = Setup::default().start();
    let messages = json!([{"role": "user", "content": "hello"}]);
    let bodies = [
        json!({"model": "chat", "messages": messages}),
        json!({"model": "chat", "temperature": 0.1, "messages": messages}),
        json!({"model": "chat", "temperature": 0, "n": 2, "messages": messages}),
        json!({"model": "chat", "temperature": 0, "tools": [{"type": "web_search"}], "messages": messages}),
        json!({"model": "chat", "temperature": 0, "web_search_options": {}, "messages": messages}),
        json!({"model": "chat", "temperature": 0, "store": true, "messages": messages}),
    ];
    for (number, body) in bodies.iter().enumerate() {
        for _ in 0..2 {
            let received = rig.call(&rig.one, CHAT, &body.to_string());
            assert_eq!((received.status, received.field("x-cache")), (200, None), "{body} {received:?}");
            assert_eq!(received.field("cache-status"), Some("weir; fwd=bypass"), "{body}");
        }
        assert_eq!(rig.calls(), 2 * (number + 1), "{body}");
    }
    let count = 2 * bodies.len();
    let plain = super::body("chat", false, "hello");
    for _ in 0..2 {
        let received = rig.call_with(&rig.one, CHAT, &plain, &[("Cache-Control", "no-store")]);
        assert_eq!(received.field("cache-status"), Some("weir; fwd=bypass"));
    }
    assert_eq!((rig.calls(), rig.results()), (count + 2, [0, 0, 0, count as u64 + 2]));
    assert!(rig.lines(count + 2).iter().all(|line| line["cache"] == "bypass"));
}

#[test]
fn any_temperature_is_looked_up_where_that_is_said() {
    let rig = Setup { cache: "partition_by: [team], any_temperature: true", ..Setup::default() }.start();
    let body =
        json!({"model": "chat", "temperature": 0.7, "messages": [{"role": "user", "content": "hello"}]}).to_string();
    assert!(!is_hit(&rig.call(&rig.one, CHAT, &body)));
    assert!(is_hit(&rig.call(&rig.one, CHAT, &body)));
}

/// The same call of another tenant is another call, whatever the partition is made of.
#[test]
fn a_tenant_never_has_what_another_one_has() {
    let body = body("chat", true, "hello");
    for (partition, shares_team) in
        [("[team]", true), ("[virtual_key]", false), ("[consumer]", false), ("[team, 'meta:team']", true)]
    {
        let cache = format!("partition_by: {partition}");
        let rig = Setup { cache: &cache, ..Setup::default() }.start();
        let first = rig.call(&rig.one, CHAT, &body);
        let second = rig.call(&rig.two, CHAT, &body);
        assert!(!is_hit(&first) && !is_hit(&second), "{partition}");
        assert!(first.text().contains("\"c1\"") && second.text().contains("\"c2\""), "{partition}");
        assert_eq!(is_hit(&rig.call(&rig.one_more, CHAT, &body)), shares_team, "{partition}");
        for (key, id) in [(&rig.one, "\"c1\""), (&rig.two, "\"c2\"")] {
            let again = rig.call(key, CHAT, &body);
            assert!(is_hit(&again) && again.text().contains(id), "{partition} {again:?}");
        }
        assert_eq!(rig.calls(), if shares_team { 2 } else { 3 }, "{partition}");
    }
    // One without a team cannot be distinguished from others without one.
    let rig = Setup::default().start();
    for _ in 0..2 {
        let received = rig.call(&rig.none, CHAT, &body);
        assert_eq!(received.field("cache-status"), Some("weir; fwd=bypass"));
    }
    assert_eq!(rig.calls(), 2);
}

#[test]
fn what_is_shared_is_shared_by_all() {
    let rig = Setup { cache: "shared: true", ..Setup::default() }.start();
    let body = body("chat", false, "hello");
    assert!(!is_hit(&rig.call(&rig.one, CHAT, &body)));
    assert!(is_hit(&rig.call(&rig.two, CHAT, &body)) && is_hit(&rig.call(&rig.none, CHAT, &body)));
    assert_eq!(rig.calls(), 1);
}

fn remaining(rig: &super::Rig, limit: &str) -> u64 {
    let state: Value = serde_json::from_str(rig.weir.admin_get(&format!("/limits?limit={limit}")).text()).unwrap();
    state["limits"][0]["state"]["remaining"].as_u64().unwrap()
}

/// Who has used up the budget gets what is stored all the same; requests are counted.
#[test]
fn a_hit_counts_as_a_request_and_uses_no_tokens() {
    let top = "limits:\n  requests: {algorithm: fixed_window, quota: 10, window: 1h, key: global}\n  \
               tokens: {unit: tokens, algorithm: fixed_window, quota: 100, window: month, key: global}\n";
    let rig = Setup { top, route: ", limits: [requests, tokens]", ..Setup::default() }.start();
    let stream = body("chat", true, "hello");
    let miss = rig.call(&rig.one, CHAT, &stream);
    assert!(!is_hit(&miss));
    assert!(miss.field("x-ratelimit-remaining-tokens").is_some(), "{miss:?}");
    wait::until(DEADLINE, "the call is settled", || remaining(&rig, "tokens") == 85);
    // What would be reserved for another call is more than there is.
    let large = body("chat", false, "hello").replace("50", "90");
    assert_eq!(rig.call(&rig.one, CHAT, &large).status, 429);
    for _ in 0..3 {
        let hit = rig.call(&rig.one_more, CHAT, &stream);
        assert!(is_hit(&hit), "{hit:?}");
        assert_eq!(hit.text(), miss.text());
        assert_eq!(hit.field("x-ratelimit-remaining-tokens"), None, "nothing is reserved");
    }
    assert_eq!((remaining(&rig, "tokens"), remaining(&rig, "requests"), rig.calls()), (85, 5, 1));
    let lines = rig.lines(5);
    let used: u64 = lines.iter().map(|line| line["ai"]["tokens_out"].as_u64().unwrap_or(0)).sum();
    assert_eq!(used, 5, "of the one call");
}

/// The model must be one of the route, whatever is stored.
#[test]
fn a_reload_that_takes_a_model_away_or_changes_it_takes_its_responses_away() {
    let rig = Setup::default().start();
    let body = body("chat", false, "hello");
    assert!(!is_hit(&rig.call(&rig.one, CHAT, &body)));
    let reload = |yaml: &str| {
        let mark = rig.weir.mark();
        rig.weir.rewrite_config(yaml);
        rig.weir.signal(testkit::Signal::HUP);
        let is_reloaded = |line: &str| line.contains("configuration reloaded").then_some(());
        rig.weir.wait_for_line_after(mark, "the reload", DEADLINE, is_reloaded);
    };
    // A reload that changes nothing of it keeps what is stored.
    reload(&rig.yaml.replace("attempts: 1", "attempts: 2"));
    assert!(is_hit(&rig.call(&rig.one, CHAT, &body)));
    reload(&rig.yaml.replace("ai: {}", "ai: {models: [claude]}"));
    assert_eq!(rig.call(&rig.one, CHAT, &body).status, 404);
    reload(&rig.yaml.replace("model: real}", "model: newer}"));
    assert!(!is_hit(&rig.call(&rig.one, CHAT, &body)), "another model serves it");
    assert_eq!(rig.calls(), 2);
    reload(&rig.yaml);
    assert!(is_hit(&rig.call(&rig.one, CHAT, &body)), "what was stored is still there");
}

/// Whole responses and streams, of the provider, of a call in flight and from the cache: the log counts what the client received.
#[test]
fn the_log_counts_the_bytes_of_each_response() {
    let rig = Setup::default().start();
    let mut received = Vec::new();
    for streams in [false, true] {
        let mut plain: serde_json::Value = serde_json::from_str(&body("chat", streams, "plain")).unwrap();
        plain["temperature"] = 1.into();
        received.push(rig.call(&rig.one, CHAT, &plain.to_string()).bytes);
        for _ in 0..2 {
            received.push(rig.call(&rig.one, CHAT, &body("chat", streams, "hello")).bytes);
        }
    }
    // Each of the two workers writes its lines by itself.
    let mut logged: Vec<u64> = rig.lines(6).iter().map(|line| line["bytes_out"].as_u64().unwrap()).collect();
    let mut received: Vec<u64> = received.iter().map(|bytes| *bytes as u64).collect();
    logged.sort_unstable();
    received.sort_unstable();
    assert_eq!(logged, received);
}
