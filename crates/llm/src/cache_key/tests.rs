use super::*;
use crate::request::scan;
use proptest::prelude::*;

fn key(body: &str) -> Option<CacheKey> {
    cache_key(b"team", "/v1/chat/completions", "m", body.as_bytes())
}

#[test]
fn bodies_that_mean_the_same_share_a_key() {
    let body = r#"{"model":"m","temperature":0,"messages":[{"role":"user","content":"é/"}],"n":10}"#;
    for same in [
        " { \"n\" : 10, \"temperature\":0 ,\n\"messages\":[{\"content\":\"\\u00e9\\/\",\"role\":\"user\"}],\"model\":\"m\" } ",
        r#"{"model":"m","temperature":-0.0,"messages":[{"role":"user","content":"é/"}],"n":1e1}"#,
        r#"{"model":"m","temperature":0e5,"messages":[{"role":"user","content":"é/"}],"n":1.0E+1,"user":"u","metadata":{},"service_tier":"auto"}"#,
        r#"{"safety_identifier":1,"prompt_cache_key":2,"prompt_cache_options":3,"prompt_cache_retention":4,"model":"m","temperature":0,"messages":[{"role":"user","content":"é/"}],"n":100e-1}"#,
    ] {
        assert_eq!(key(body), key(same), "{same}");
    }
}

#[test]
fn bodies_that_differ_do_not() {
    let bodies = [
        r#"{"a":[1,2]}"#,
        r#"{"a":[2,1]}"#,
        r#"{"a":["1",2]}"#,
        r#"{"a":[12]}"#,
        r#"{"a":null}"#,
        r#"{}"#,
        r#"{"a":{}}"#,
        r#"{"a":[]}"#,
        r#"{"a":true}"#,
        r#"{"a":-1}"#,
        r#"{"a":1}"#,
        r#"{"a":10}"#,
        r#"{"a":0.1}"#,
        r#"{"a":12345678901234567890}"#,
        r#"{"a":12345678901234567891}"#,
        r#"{"a":"A"}"#,
        r#"{"a":"a"}"#,
        r#"{"a":"\u0000"}"#,
        r#"{"a":{"user":"u"}}"#,
        r#"{"a":{"user":"v"}}"#,
        r#"{"stream":true}"#,
        r#"{"stream":false}"#,
        r#"{"new_member":1}"#,
        r#"{"a":"b\",\"c"}"#,
        r#"{"a":"b","c":""}"#,
    ];
    let keys: std::collections::HashSet<_> = bodies.iter().map(|body| key(body).expect(body)).collect();
    assert_eq!(keys.len(), bodies.len());
    let of = |partition: &str, path: &str, model: &str| cache_key(partition.as_bytes(), path, model, b"{}");
    let parts = [of("a", "b", "c"), of("b", "b", "c"), of("a", "bc", ""), of("ab", "", "c"), of("a", "b", "d")];
    assert_eq!(
        parts.iter().collect::<std::collections::HashSet<_>>().len(),
        parts.len(),
        "a tenant never sees another's"
    );
}

#[test]
fn a_body_without_one_meaning_has_no_key() {
    for body in [
        "",
        "{",
        "{} {}",
        r#"{"a":1,"a":2}"#,
        r#"{"x":{"a":1,"\u0061":2}}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":1e99999999999999999999}"#,
    ] {
        assert_eq!(key(body), None, "{body}");
    }
}

#[test]
fn what_is_not_looked_up() {
    for (api, body, any_temperature, expected) in [
        (Api::Chat, r#"{"temperature":0}"#, false, None),
        (Api::Chat, r#"{"temperature":0.0,"n":1}"#, false, None),
        (Api::Chat, r#"{"seed":4}"#, false, None),
        (Api::Chat, r#"{"temperature":1}"#, false, Some(Bypass::Random)),
        (Api::Chat, r#"{"temperature":null,"seed":null}"#, false, Some(Bypass::Random)),
        (Api::Chat, "{}", true, None),
        (Api::Chat, r#"{"n":2}"#, true, Some(Bypass::Choices)),
        (Api::Chat, r#"{"tools":[{"type":"function","function":{}}]}"#, true, None),
        (Api::Chat, r#"{"tools":[{"type":"web_search"}]}"#, true, Some(Bypass::HostedTools)),
        (Api::Messages, r#"{"tools":[{"name":"f"},{"type":"custom","name":"g"}]}"#, true, None),
        (Api::Messages, r#"{"tools":[{"type":"web_search_20250305","name":"w"}]}"#, true, Some(Bypass::HostedTools)),
        (Api::Gemini, r#"{"tools":[{"functionDeclarations":[]}],"generationConfig":{"temperature":0}}"#, false, None),
        (Api::Gemini, r#"{"tools":[{"googleSearch":{}}]}"#, true, Some(Bypass::HostedTools)),
        (Api::Gemini, r#"{"generationConfig":{"candidateCount":2}}"#, true, Some(Bypass::Choices)),
        (Api::Responses, r#"{"temperature":0}"#, false, Some(Bypass::State)),
        (Api::Responses, r#"{"temperature":0,"store":true}"#, false, Some(Bypass::State)),
        (Api::Responses, r#"{"temperature":0,"store":false}"#, false, None),
        (Api::Responses, r#"{"temperature":0,"store":false,"previous_response_id":"r"}"#, false, Some(Bypass::State)),
        (Api::Embeddings, r#"{"input":"a"}"#, false, None),
    ] {
        let request = scan(body.as_bytes()).expect(body);
        assert_eq!(bypass(api, &request, body.as_bytes(), any_temperature), expected, "{body}");
    }
}

proptest! {
    #[test]
    fn numbers_are_equal_by_value(value in any::<i32>(), zeros in 0usize..5, shift in 0i32..5) {
        let plain = number(value.to_string().as_bytes());
        let fraction = format!("{value}.{}", "0".repeat(zeros + 1));
        let scaled = format!("{value}{}e-{shift}", "0".repeat(shift as usize));
        prop_assert_eq!(&plain, &number(fraction.as_bytes()));
        prop_assert_eq!(&plain, &number(scaled.as_bytes()));
        prop_assert_ne!(plain, number((i64::from(value) + 1).to_string().as_bytes()));
    }
}
