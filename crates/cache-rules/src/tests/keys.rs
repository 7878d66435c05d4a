//! Primary keys: partitions, queries, configuration.

use super::key::{Url, digest, set_class, url_of};
use super::*;

fn key_of(policy: &Policy, query: Option<&str>, fields: &str) -> Vec<u8> {
    let url = Url { scheme: b"http", authority: b"a.example", path: b"/a", query: query.map(str::as_bytes) };
    let mut key = Vec::new();
    policy.write_key(Class::Get, &url, false, get(fields).lines(), None, &mut key);
    key
}

fn url(policy: &Policy, query: Option<&str>) -> String {
    text(url_of(&key_of(policy, query, ""))).to_owned()
}

#[test]
fn the_url_stands_first_in_one_form() {
    let write = |scheme: &str, authority: &str| {
        let url = Url { scheme: scheme.as_bytes(), authority: authority.as_bytes(), path: b"/A", query: Some(b"B") };
        let mut out = Vec::new();
        http().write_url(&url, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(write("HTTP", "A.example:80"), "http://a.example/A?B");
    assert_eq!(write("http", "a.example:"), "http://a.example/A?B");
    assert_eq!(write("https", "a.example:443"), "https://a.example/A?B");
    assert_eq!(write("https", "a.example:80"), "https://a.example:80/A?B");
    assert_eq!(write("http", "[::1]:8080"), "http://[::1]:8080/A?B");
    assert_eq!(write("http", ""), "http:///A?B");
}

#[test]
fn partitions_never_meet() {
    let policy = http_with(|cache| cache.partition_by = vec!["x-tenant".into(), "authorization".into()]);
    let key = |fields: &str| key_of(&policy, None, fields);
    let all = [
        key(""),
        key("X-Tenant:\r\n"),
        key("X-Tenant: a\r\n"),
        key("X-Tenant: A\r\n"),
        key("X-Tenant: a\r\nX-Tenant: b\r\n"),
        key("X-Tenant: b\r\nX-Tenant: a\r\n"),
        key("X-Tenant: a, b\r\n"),
        key("Authorization: a\r\n"),
        key("X-Tenant: a\r\nAuthorization: a\r\n"),
        key("X-Tenant: a\r\nAuthorization: b\r\n"),
    ];
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            assert_ne!(one, other);
            assert_ne!(digest(one), digest(other));
        }
    }
    assert_eq!(key("x-tenant: a\r\nX-Other: 1\r\n"), key("X-TENANT:  a\r\n"));
}

#[test]
fn what_is_no_partition_is_in_no_key() {
    assert_eq!(key_of(&http(), None, ""), key_of(&http(), None, "X-Tenant: a\r\nCookie: b\r\nAccept: c\r\n"));
}

#[test]
fn the_configuration_is_part_of_the_key() {
    let keys = [
        http(),
        ttl(),
        http_with(|cache| cache.name = "other".into()),
        http_with(|cache| cache.query = CacheQuery::Sorted),
        http_with(|cache| cache.query = CacheQuery::Only(vec!["a".into()])),
        http_with(|cache| cache.query = CacheQuery::Only(vec!["a".into(), "b".into()])),
        http_with(|cache| cache.partition_by = vec!["x-a".into()]),
        http_with(|cache| cache.partition_by = vec!["x-b".into()]),
        Policy::new(&config(CacheMode::Http { default_ttl: None }), [], "gold"),
        Policy::new(&config(CacheMode::Http { default_ttl: None }), [&by_field("x-api-key")], ""),
        Policy::new(&config(CacheMode::Http { default_ttl: None }), [&by_field("x-other-key")], ""),
    ]
    .map(|policy| key_of(&policy, Some("a=1"), ""));
    for (index, one) in keys.iter().enumerate() {
        assert!(keys[index + 1..].iter().all(|other| one != other), "{index}");
    }
    // A lifetime is no part of it: what is stored stays good when it changes.
    assert_eq!(key_of(&guessing(), None, ""), key_of(&http(), None, ""));
}

#[test]
fn a_forwarded_host_and_a_body_are_part_of_the_key() {
    let url = Url { scheme: b"http", authority: b"a", path: b"/", query: None };
    let key = |host: Option<&str>, body: Option<&str>| {
        let fields = host.map(|host| format!("X-Forwarded-Host: {host}\r\n")).unwrap_or_default();
        let body = body.map(|body| key::BodyDigest::of(body.as_bytes(), &mut Vec::new()).unwrap());
        let mut key = Vec::new();
        http().write_key(Class::Post, &url, true, get(&fields).lines(), body.as_ref(), &mut key);
        key
    };
    let keys =
        [key(None, None), key(Some("b"), None), key(None, Some("1")), key(None, Some("2")), key(Some("b"), Some("1"))];
    for (index, one) in keys.iter().enumerate() {
        assert!(keys[index + 1..].iter().all(|other| one != other), "{index}");
    }
}

#[test]
fn all_that_a_trusted_peer_says_of_the_url_is_part_of_the_key() {
    let url = Url { scheme: b"http", authority: b"a", path: b"/", query: None };
    let key = |fields: &str, trusted: bool| {
        let mut key = Vec::new();
        http().write_key(Class::Get, &url, trusted, get(fields).lines(), None, &mut key);
        key
    };
    let all = [
        "",
        "X-Forwarded-Host: b\r\n",
        "X-Forwarded-Host: b\r\nX-Forwarded-Host: c\r\n",
        "X-Forwarded-Host: c\r\nX-Forwarded-Host: b\r\n",
        "X-Forwarded-Host: b, c\r\n",
        "X-Forwarded-Proto: http\r\nX-Forwarded-Proto: https\r\n",
        "Forwarded: host=b\r\n",
        "Forwarded: host=b\r\nX-Forwarded-Host: b\r\n",
        "Forwarded: host=c\r\n",
        "Forwarded: host=c;proto=https\r\n",
        "Forwarded: host=b, host=c\r\n",
        "Forwarded: host=b\r\nForwarded: host=c\r\n",
        "Forwarded: for=\"x;host=b\r\n",
        "Forwarded: for=\"x;host=c\r\n",
        "Forwarded: for = x, y\"host=b\"\r\n",
        "Forwarded: for=\"x\"y;host=b\r\n",
    ];
    for (index, one) in all.iter().enumerate() {
        assert!(all[index + 1..].iter().all(|other| key(one, true) != key(other, true)), "{one}");
        assert_eq!(key(one, false), key("", false), "{one}: nobody is believed who is not trusted");
    }
    assert_eq!(key("", true), key("", false));
    // The sender of a request is not part of what is requested.
    let said = |value: &str| key(&format!("Forwarded: {value}\r\n"), true);
    let one = said("for=192.0.2.60;proto=http;host=b, by=203.0.113.43");
    assert_eq!(said("For=\"[2001:db8::1]:4711\" ; proto=http;host=b,BY=\"a, b; c\\\"\""), one);
    assert_ne!(said("for=192.0.2.60;proto=http;host=c, by=203.0.113.43"), one);
}

#[test]
fn a_key_of_another_class_keeps_the_rest() {
    let mut key = key_of(&http(), None, "");
    let before = key.clone();
    set_class(&mut key, Class::Head);
    assert_ne!(key, before);
    set_class(&mut key, Class::Get);
    assert_eq!(key, before);
    set_class(&mut [], Class::Head);
    assert_eq!(url_of(b""), b"");
}

#[test]
fn the_query_counts_as_it_came() {
    assert_eq!(url(&http(), None), "http://a.example/a");
    assert_eq!(url(&http(), Some("")), "http://a.example/a?");
    assert_eq!(url(&http(), Some("b=2&a=1&&")), "http://a.example/a?b=2&a=1&&");
}

#[test]
fn the_query_can_be_sorted() {
    let sorted = http_with(|cache| cache.query = CacheQuery::Sorted);
    for (query, expected) in [
        ("b=2&a=1", "?a=1&b=2"),
        ("a=2&b&a=1", "?a=2&a=1&b"),
        ("%61=2&a=1", "?%61=2&a=1"),
        ("a=1&%61=2", "?a=1&%61=2"),
        ("", ""),
        ("&&", ""),
        ("b=1;a=2&a=3", "?b=1;a=2&a=3"),
        ("b=%zz&a+b=1&a%20b=2", "?a+b=1&a%20b=2&b=%zz"),
    ] {
        assert_eq!(url(&sorted, Some(query)), format!("http://a.example/a{expected}"), "{query}");
    }
    let many: String = (0..65).rev().map(|number| format!("p{number}&")).collect();
    assert_eq!(url(&sorted, Some(&many)), format!("http://a.example/a?{many}"), "too many to sort");
}

#[test]
fn the_query_can_be_reduced_to_names() {
    let only = http_with(|cache| cache.query = CacheQuery::Only(vec!["a".into(), "b c".into()]));
    for (query, expected) in [
        ("utm=1&a=1", "?a=1"),
        ("b%20c=1&a=1&d", "?a=1&b%20c=1"),
        ("b+c=1", "?b+c=1"),
        ("aa=1&A=1", ""),
        ("a", "?a"),
        ("a=2&x=1&a=1", "?a=2&a=1"),
        // An origin reads both as `a`: a second one cannot hide.
        ("a=1&%61=2", "?a=1&%61=2"),
        // Some origins see a parameter `a` here.
        ("utm=1;a=2", "?utm=1;a=2"),
    ] {
        assert_eq!(url(&only, Some(query)), format!("http://a.example/a{expected}"), "{query}");
    }
}

#[test]
fn digests_are_sha_256() {
    let hex: String = digest(b"abc").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
