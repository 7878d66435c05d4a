//! RFC 9213: CDN-Cache-Control, and the structured fields (RFC 8941) that it is made of.

use super::sf::{NotADictionary, Value, dictionary};
use super::*;

const TAG: &str = "ETag: \"a\"\r\n";

/// RFC 9213 section 2.2. MUST use a valid, non-empty targeted field, and MUST ignore Cache-Control and Expires then.
#[test]
fn the_targeted_field_replaces_the_others() {
    let others = "Cache-Control: no-store, private, max-age=1\r\nExpires: 0\r\n";
    let freshness = freshness(&format!("{others}CDN-Cache-Control: max-age=600\r\n"));
    assert_eq!((freshness.lifetime_ms, freshness.source), (seconds(600), LifetimeSource::MaxAge));
    let expires = "Expires: Sun, 06 Nov 1994 09:49:37 GMT\r\n";
    assert_eq!(store(&format!("{TAG}{expires}CDN-Cache-Control: none\r\n")), Err(NotStored::NoFreshness));
    assert_eq!(
        store(&format!("{expires}CDN-Cache-Control: no-store\r\nCache-Control: max-age=9\r\n")),
        Err(NotStored::NoStore)
    );
}

/// RFC 9213 section 2.1. MUST ignore a targeted field that is empty or does not parse, and fall back to the others.
#[test]
fn an_invalid_targeted_field_does_not_exist() {
    for value in [
        "",
        " ",
        "max-age=",
        "max-age=600,",
        "Max-Age=600",
        "max-age =600",
        "max-age=600 no-store",
        "max-age=\"600",
        "no-store, =1",
        "max-age=600;A",
        "max-age=1234567890123456",
        "max-age=1.",
        "a=?2",
        "a=:b",
        "a=(1 2",
        "a=@1",
        "max-age=600\r\nCDN-Cache-Control: ?",
        "max-age=600\r\nCDN-Cache-Control:",
    ] {
        let fields = format!("Cache-Control: max-age=5\r\nCDN-Cache-Control: {value}\r\n");
        assert_eq!(freshness(&fields).lifetime_ms, seconds(5), "{value}");
    }
}

/// RFC 9213 section 2.1. SHOULD NOT consume values of a wrong type: none is coerced, and none makes a response more cacheable.
#[test]
fn wrong_types_are_not_coerced() {
    for value in [
        "max-age=1.5",
        "max-age=\"60\"",
        "max-age=abc",
        "max-age",
        "max-age=?1",
        "max-age=-1",
        "max-age=(60)",
        "max-age=:NjA=:",
    ] {
        let freshness = freshness(&format!("{TAG}CDN-Cache-Control: {value}\r\n"));
        assert_eq!((freshness.lifetime_ms, freshness.source), (0, LifetimeSource::MaxAge), "{value}");
    }
    assert!(!freshness("CDN-Cache-Control: max-age=60, public=1\r\n").for_authorized);
    assert_eq!(store("CDN-Cache-Control: max-age=60, private=1\r\n"), Err(NotStored::Private));
    assert_eq!(store("CDN-Cache-Control: max-age=60, no-store=\"x\"\r\n"), Err(NotStored::NoStore));
}

/// RFC 9213 section 2.1. Parameters are ignored.
#[test]
fn parameters_are_ignored() {
    assert_eq!(freshness("CDN-Cache-Control: max-age=60;a;b=1;c=\"x;y\";d=?0, foo;bar\r\n").lifetime_ms, seconds(60));
}

/// RFC 9213 section 2.2. MUST implement max-age, must-revalidate, no-store, no-cache and private; the others too.
#[test]
fn targeted_directives_mean_the_same() {
    let control = "s-maxage=60, must-revalidate, stale-while-revalidate=5, stale-if-error=6";
    let all = freshness(&format!("CDN-Cache-Control: {control}\r\n"));
    assert_eq!(all, freshness(&format!("Cache-Control: {control}\r\n")));
    assert!(all.never_stale && all.for_authorized);
    assert!(freshness(&format!("{TAG}CDN-Cache-Control: no-cache\r\n")).always_validate);
    assert_eq!(store("CDN-Cache-Control: private, max-age=60\r\n"), Err(NotStored::Private));
    assert_eq!(store("CDN-Cache-Control: no-store, max-age=60\r\n"), Err(NotStored::NoStore));
    let stored = Response::new(
        200,
        "CDN-Cache-Control: max-age=60, private=\"X-A\", no-cache=x-b\r\nX-A: 1\r\nX-B: 1\r\nX-C: 1\r\n",
    );
    assert!(stored.consider(&http(), &request_with("")).is_ok());
    let stored = stored.stored(&http());
    assert!(!text(&stored).contains("X-A:") && !text(&stored).contains("X-B:") && text(&stored).contains("X-C:"));
}

/// RFC 9213 section 2.2. MUST NOT be changed by targeted fields for others, and MUST pass them through.
#[test]
fn other_targeted_fields_change_nothing() {
    let fields = format!(
        "{DATE}Cache-Control: max-age=60\r\nSurrogate-Control: no-store\r\nOther-CDN-Cache-Control: no-store\r\n"
    );
    let response = Response::new(200, &fields);
    assert_eq!(response.consider(&http(), &request_with("")).unwrap().lifetime_ms, seconds(60));
    assert_eq!(text(&response.stored(&http())), fields);
}

/// RFC 8941 section 4.2.2. Of a key that comes twice the last value counts; lines are joined.
#[test]
fn the_last_value_of_a_key_counts() {
    assert_eq!(freshness("CDN-Cache-Control: max-age=1, max-age=60\r\n").lifetime_ms, seconds(60));
    assert_eq!(freshness("CDN-Cache-Control: max-age=1\r\nCDN-Cache-Control: max-age=60\r\n").lifetime_ms, seconds(60));
    assert!(store("CDN-Cache-Control: no-store, max-age=60, no-store=?0\r\n").is_ok());
}

/// RFC 8941 section 4.2. Dictionaries are parsed strictly.
#[test]
fn dictionaries_are_parsed_strictly() {
    let parse = |text: &'static str| {
        let mut members = Vec::new();
        dictionary(text.as_bytes(), |key, value| members.push((super::text(key), value))).map(|()| members)
    };
    let all =
        parse("  a=1 ,\tb=-15;x=1;y, c, d=?0,e=\"f\\\"g\\\\\",*h=i/j:k*, l=1.5,m=:YQ==:, n=(1 \"a\";x  b);y , o=() ");
    let expected = vec![
        ("a", Value::Integer(1)),
        ("b", Value::Integer(-15)),
        ("c", Value::Boolean(true)),
        ("d", Value::Boolean(false)),
        ("e", Value::String(b"f\\\"g\\\\")),
        ("*h", Value::Token(b"i/j:k*")),
        ("l", Value::Other),
        ("m", Value::Other),
        ("n", Value::Other),
        ("o", Value::Other),
    ];
    assert_eq!(all, Ok(expected));
    assert_eq!(parse(""), Ok(vec![]));
    assert_eq!(parse("a=999999999999999"), Ok(vec![("a", Value::Integer(999_999_999_999_999))]));
    for bad in [
        "a=1000000000000000",
        "A",
        "1",
        "-",
        "a=-",
        "a=1.",
        "a=.1",
        "a=1.2345",
        "a=1234567890123.1",
        "a,",
        ",a",
        "a,,b",
        "a b",
        "a = 1",
        "a= 1",
        "a;",
        "a;B",
        "a;b=",
        "a=\"",
        "a=\"\\n\"",
        "a=\"\u{7f}\"",
        "a=?",
        "a=?1x",
        "a=?01",
        "a=:a",
        "a=:a-:",
        "a=(",
        "a=(1",
        "a=(1,2)",
        "a=(1\"x\")",
        "a=)",
        "a=%\"x\"",
        "a=@1",
        "\ta",
        "a=\u{e4}",
    ] {
        assert_eq!(parse(bad), Err(NotADictionary), "{bad}");
    }
}
