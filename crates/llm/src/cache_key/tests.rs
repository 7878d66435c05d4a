use super::*;
use crate::request::scan;
use proptest::prelude::*;

fn key(body: &str) -> Option<CacheKey> {
    cache_key(Api::Chat, b"team", b"/v1/chat/completions", b"m", body.as_bytes())
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
    let of = |partition: &str, path: &str, model: &str| {
        cache_key(Api::Chat, partition.as_bytes(), path.as_bytes(), model.as_bytes(), b"{}")
    };
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
        r#"{"web_search_options":{}}"#,
        r#"{"mcp_servers":[]}"#,
        r#"{"cachedContent":"c"}"#,
    ] {
        assert_eq!(key(body), None, "{body}");
    }
    assert_ne!(key(r#"{"web_search_options":null}"#), None);
    assert_ne!(key(r#"{"a":{"container":{}}}"#), None, "only at the top it is the API's member");
}

/// A worker must not be busy with one body for long.
#[test]
fn a_body_with_very_many_values_has_no_key() {
    let numbers = |count: usize| format!("{{\"input\":[{}1]}}", "1,".repeat(count));
    assert_ne!(key(&numbers(1000)), None);
    assert_eq!(key(&numbers(MOST_VALUES)), None);
    // Each level is copied at most a few times, however deep and long it is.
    let deep = format!("{}\"{}\"{}", "{\"a\":".repeat(120), "x".repeat(1 << 20), "}".repeat(120));
    assert_ne!(key(&deep), None);
}

/// A JSON value, and the ways to write it.
#[derive(Debug, Clone)]
enum Json {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
    Array(Vec<Json>),
    Object(std::collections::BTreeMap<String, Json>),
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        (-1_000_000_i64..1_000_000).prop_map(Json::Number),
        any::<String>().prop_map(Json::Text),
        "[a-z]{300,400}".prop_map(Json::Text),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::btree_map("[a-z\u{e9}\u{1f600}\"]{0,4}", inner, 0..6).prop_map(Json::Object),
        ]
    })
}

impl Json {
    /// Writes the value in a way that `random` chooses.
    fn write(&self, random: &mut u64, out: &mut String) {
        space(random, out);
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(value) => out.push_str(&match next(random) % 4 {
                _ if *value == 0 => ["0", "-0", "0.00", "0e7"][(next(random) % 4) as usize].to_owned(),
                0 => value.to_string(),
                1 => format!("{value}.000"),
                2 => format!("{value}00E-2"),
                _ => format!("{value}.0e+0"),
            }),
            Json::Text(text) => write_text(text, random, out),
            Json::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(random, out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for index in (1..members.len()).rev() {
                    members.swap(index, (next(random) % (index as u64 + 1)) as usize);
                }
                out.push('{');
                for (index, (name, value)) in members.into_iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    space(random, out);
                    write_text(name, random, out);
                    space(random, out);
                    out.push(':');
                    value.write(random, out);
                }
                out.push('}');
            }
        }
        space(random, out);
    }

    fn leaves(&self) -> usize {
        match self {
            Json::Array(items) => 1 + items.iter().map(Json::leaves).sum::<usize>(),
            Json::Object(members) => 1 + members.values().map(Json::leaves).sum::<usize>(),
            _ => 1,
        }
    }

    /// Changes the value with this number, in order of depth.
    fn change(&mut self, at: &mut usize) {
        if *at == 0 {
            *self = match self {
                Json::Null => Json::Bool(false),
                Json::Bool(value) => Json::Bool(!*value),
                Json::Number(value) => Json::Number(*value + 1),
                Json::Text(text) => Json::Text(format!("{text}x")),
                Json::Array(items) => {
                    items.push(Json::Null);
                    Json::Array(std::mem::take(items))
                }
                Json::Object(members) => {
                    members.insert("one more".to_owned(), Json::Null);
                    Json::Object(std::mem::take(members))
                }
            };
        }
        *at = at.wrapping_sub(1);
        match self {
            Json::Array(items) => items.iter_mut().for_each(|item| item.change(at)),
            Json::Object(members) => members.values_mut().for_each(|value| value.change(at)),
            _ => {}
        }
    }
}

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

fn space(random: &mut u64, out: &mut String) {
    out.push_str(["", "", " ", "\n\t", "\r\n  "][(next(random) % 5) as usize]);
}

fn write_text(text: &str, random: &mut u64, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        let must = char < ' ' || matches!(char, '"' | '\\');
        if must || next(random).is_multiple_of(3) {
            let mut units = [0; 2];
            for unit in char.encode_utf16(&mut units) {
                let hex = format!("{unit:04x}");
                out.push_str(&format!("\\u{}", if next(random).is_multiple_of(2) { hex.to_uppercase() } else { hex }));
            }
        } else if char == '/' && next(random).is_multiple_of(2) {
            out.push_str("\\/");
        } else {
            out.push(char);
        }
    }
    out.push('"');
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
        (Api::Chat, r#"{"temperature":0,"store":true}"#, true, Some(Bypass::State)),
        (Api::Chat, r#"{"temperature":0,"store":false}"#, false, None),
    ] {
        let request = scan(body.as_bytes()).expect(body);
        assert_eq!(bypass(api, &request, body.as_bytes(), any_temperature), expected, "{body}");
    }
}

proptest! {
    /// However a value is written, its key is the same; and whatever of it is changed, the key is another one.
    #[test]
    fn a_key_is_that_of_the_value(value in json(), one in any::<u64>(), other in any::<u64>(), at in any::<usize>()) {
        let written = |value: &Json, mut random: u64| {
            let mut text = String::new();
            Json::Object([("input".to_owned(), value.clone())].into()).write(&mut random, &mut text);
            text
        };
        let first = key(&written(&value, one));
        prop_assert!(first.is_some());
        prop_assert_eq!(&first, &key(&written(&value, other)));
        let mut changed = value.clone();
        changed.change(&mut (at % value.leaves()));
        prop_assert_ne!(first, key(&written(&changed, one)), "{:?} and {:?}", value, changed);
    }

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
