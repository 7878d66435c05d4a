use std::time::Duration;

use super::*;

fn head(fields: &str) -> (RequestHead, Vec<u8>) {
    let text = format!("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
    let mut head = RequestHead::default();
    head.parse(&text, 0, text.len(), &h1::Limits::default()).expect("a head");
    (head, text)
}

fn calls(identities: Vec<LimitKey>) -> CallCache {
    CallCache { ttl: Duration::from_secs(1), any_temperature: false, is_paced: false, identities }
}

fn who(team: &str, id: &str) -> Identity {
    Identity {
        consumer: Some("c".into()),
        key_id: Some(id.into()),
        meta: [("team".into(), team.into())].into(),
        ..Identity::default()
    }
}

fn of(fields: &str, names: &[&str], identities: Vec<LimitKey>, who: Option<&Identity>) -> Option<Vec<u8>> {
    let (head, text) = head(fields);
    partition(names.iter().copied(), (&head, &text), false, &calls(identities), who)
}

#[test]
fn tenants_have_partitions_of_their_own() {
    let by_team = || vec![LimitKey::Team];
    let one = of("", &[], by_team(), Some(&who("one", "a")));
    assert!(one.is_some());
    assert_eq!(one, of("", &[], by_team(), Some(&who("one", "b"))), "keys of one team share");
    assert_ne!(one, of("", &[], by_team(), Some(&who("two", "a"))));
    let by_key = || vec![LimitKey::VirtualKey];
    let keys = ["a", "b"].map(|id| of("", &[], by_key(), Some(&who("one", id))));
    assert_ne!(keys[0], keys[1], "keys do not");
    assert_ne!(
        of("", &[], by_team(), Some(&who("x", "y"))),
        of("", &[], by_key(), Some(&who("y", "x"))),
        "a value of one part does not stand for another part"
    );
    let both = |team, id| of("", &[], vec![LimitKey::Team, LimitKey::VirtualKey], Some(&who(team, id)));
    assert_ne!(both("ab", "c"), both("a", "bc"));
}

#[test]
fn claims_of_another_type_are_other_claims() {
    let by_claim = |value: serde_json::Value| {
        let claims = [("org".to_owned(), value)].into_iter().collect();
        of("", &[], vec![LimitKey::Claim("org".into())], Some(&Identity { claims, ..Identity::default() }))
    };
    assert_ne!(by_claim(1.into()), by_claim("1".into()));
    assert_ne!(by_claim(true.into()), by_claim("true".into()));
    assert_eq!(by_claim("1".into()), by_claim("1".into()));
}

/// Senders whom nobody names cannot be distinguished.
#[test]
fn who_lacks_a_part_of_the_identity_has_no_partition() {
    assert_eq!(of("", &[], vec![LimitKey::Team], None), None);
    assert_eq!(of("", &[], vec![LimitKey::Team], Some(&Identity::default())), None);
    assert_eq!(of("", &[], vec![LimitKey::Team], Some(&who("", "a"))), None, "an empty name is none");
    assert_eq!(of("", &[], vec![LimitKey::Claim("org".into())], Some(&who("one", "a"))), None);
}

#[test]
fn fields_separate_by_all_their_values() {
    let by = |fields: &str| of(fields, &["x-tenant"], Vec::new(), None).expect("a partition");
    let all = [by("X-Tenant: a\r\n"), by("X-Tenant: b\r\n"), by("X-Tenant: a, b\r\n")];
    for (index, one) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| other != one), "{index}");
    }
    assert_eq!(by("x-tenant: a\r\nX-Other: 1\r\n"), by("X-Tenant: a\r\n"));
    for none in ["", "X-Tenant: \r\n", "X-Tenant: a\r\nX-Tenant: b\r\n"] {
        assert_eq!(of(none, &["x-tenant"], Vec::new(), None), None, "{none:?}");
    }
}

#[test]
fn versions_and_features_of_an_api_belong_to_the_key_and_credentials_do_not() {
    let of = |fields: &str| {
        let (head, text) = head(fields);
        let mut out = Vec::new();
        write_fields(&head, &text, &mut out);
        out
    };
    assert_eq!(of("Authorization: Bearer a\r\nOpenAI-Organization: o\r\nUser-Agent: x\r\nX-Api-Key: k\r\n"), b"");
    let one = of("anthropic-version: 2023-06-01\r\nanthropic-beta: a\r\n");
    assert_eq!(one, of("Anthropic-Beta: a\r\nUser-Agent: y\r\nAnthropic-Version: 2023-06-01\r\n"), "in any order");
    assert_ne!(one, of("anthropic-version: 2023-06-01\r\n"));
    assert_ne!(one, of("anthropic-version: 2023-06-01\r\nanthropic-beta: b\r\n"));
    assert_ne!(of(""), of("OpenAI-Beta: assistants=v2\r\n"));
}

#[test]
fn a_client_may_forbid_storing() {
    let forbids = |fields: &str| {
        let (head, text) = head(fields);
        forbids_storing(&head, &text)
    };
    assert!(forbids("Cache-Control: max-age=1, No-Store\r\n"));
    assert!(!forbids("Cache-Control: no-cache\r\n"));
    assert!(!forbids(""));
}

/// Whoever else may serve the model, its responses are others.
#[test]
fn who_serves_a_model_belongs_to_the_key() {
    let of = |candidates: &str, more: &str| {
        let yaml = format!(
            "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: ['http://127.0.0.1:1']}}}}\n\
             providers:\n  p: {{api: openai, upstream: u{more}}}\n  q: {{api: anthropic, upstream: u}}\n\
             models: {{m: {{candidates: [{candidates}]}}}}\nroutes: [{{match: {{path: /v1/*}}, ai: {{}}}}]\n"
        );
        let config = crate::config::load_text("test", &yaml, &|_: &str| None).expect("a configuration").config;
        served_by(&config, &config.models[0], b"route")
    };
    let one = of("{provider: p, model: a}", "");
    let same = of("{provider: p, model: a, weight: 2}", ", keys: [sk-0123456789abcdef]");
    assert_eq!(one, same, "keys and weights do not");
    for (candidates, more) in [
        ("{provider: p, model: b}", ""),
        ("{provider: q, model: a}", ""),
        ("{provider: p, model: a, max_output: 9}", ""),
        ("{provider: p, model: a}, {provider: q, model: a, max_output: 9, tier: 2}", ""),
        ("{provider: p, model: a}", ", base: /other"),
        ("{provider: p, model: a}", ", headers: {X-Version: '2'}"),
    ] {
        assert_ne!(one, of(candidates, more), "{candidates} {more}");
    }
}
