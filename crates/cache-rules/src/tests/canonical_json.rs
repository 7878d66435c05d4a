//! The canonical form of JSON.

use std::collections::{BTreeMap, HashSet};

use super::json::{NotCanonical, write_canonical};
use super::key::BodyDigest;
use proptest::prelude::*;
use serde_json::Value;

fn canonical(text: &str) -> Result<String, NotCanonical> {
    let mut out = Vec::new();
    write_canonical(text.as_bytes(), &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn order_white_space_and_escapes_mean_nothing() {
    for (text, expected) in [
        (" { \"b\" : 1 ,\n\"a\":[ true,null , {} ] }\r\n\t", r#"{"a":[true,null,{}],"b":1}"#),
        (r#"{"b":{"d":1,"c":2},"a":{"f":[],"e":""}}"#, r#"{"a":{"e":"","f":[]},"b":{"c":2,"d":1}}"#),
        (r#""\u0061\/\u00e4\ud83d\ude00""#, "\"a/\u{e4}\u{1f600}\""),
        (r#""\"\\\b\f\n\r\t\u0001\u001F\u007f""#, "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}\""),
        (r#"{"\u0061":1,"B":2,"":3}"#, r#"{"":3,"B":2,"a":1}"#),
        (r#"{"ab":1,"a":2,"a\u0000":3}"#, r#"{"a":2,"a\u0000":3,"ab":1}"#),
        ("0", "0"),
        ("[[],[[]]]", "[[],[[]]]"),
    ] {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn numbers_stay_as_they_are_written() {
    let numbers = "[1,1.0,1e0,1E+0,-0,0,-0.0e-1,9007199254740993,9007199254740992,1e999]";
    assert_eq!(canonical(numbers).as_deref(), Ok(numbers));
}

#[test]
fn large_letters_in_names_are_kept() {
    let text = r#"{"Max":1,"mAy":{"A":1,"b":2},"é":3}"#;
    assert_eq!(canonical(text).as_deref(), Ok(text));
}

#[test]
fn what_has_two_readings_is_refused() {
    for (text, reason) in [
        (r#"{"a":1,"a":1}"#, NotCanonical::DuplicateName),
        (r#"{"b":1,"a":2,"\u0061":3}"#, NotCanonical::DuplicateName),
        (r#"[{"x":{"a":1,"b":1,"a":1}}]"#, NotCanonical::DuplicateName),
        (r#"{"model":1,"Model":2}"#, NotCanonical::DuplicateName),
        (r#"{"a":[{"N":1,"k":0,"n":2}]}"#, NotCanonical::DuplicateName),
        (r#"{"\u212aey":1,"key":2}"#, NotCanonical::DuplicateName),
        (r#"{"class":1,"cla\u017fs":2}"#, NotCanonical::DuplicateName),
        (r#"{"ä":1,"Ä":2}"#, NotCanonical::DuplicateName),
        (r#""\ud800""#, NotCanonical::LoneSurrogate),
        (r#""\udc00\ud800""#, NotCanonical::LoneSurrogate),
        (r#""\ud800\u0061""#, NotCanonical::LoneSurrogate),
        (r#""\ud800x""#, NotCanonical::LoneSurrogate),
    ] {
        assert_eq!(canonical(text), Err(reason), "{text}");
    }
}

#[test]
fn what_is_no_json_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e1",
        "1e",
        "1e+",
        "0x1",
        "NaN",
        "Infinity",
        "nul",
        "True",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\t\"",
        "'a'",
        "1 2",
        "{}{}",
        "\u{feff}{}",
        "// a\n1",
        "[1]x",
        "\"\\ud800\\u\"",
    ] {
        assert!(canonical(text).is_err(), "{text}");
    }
    assert_eq!(write_canonical(b"\"\xff\"", &mut Vec::new()), Err(NotCanonical::Syntax));
}

#[test]
fn hostile_nesting_is_refused() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(canonical(&nested(64)).is_ok());
    assert_eq!(canonical(&nested(65)), Err(NotCanonical::TooComplex));
    assert_eq!(canonical(&nested(100_000)), Err(NotCanonical::TooComplex));
    // Every level unsorted, with the bulk in the innermost.
    let mut text = format!("\"{}\"", "x".repeat(100_000));
    for _ in 0..60 {
        text = format!("{{\"b\":{text},\"a\":1}}");
    }
    assert_eq!(canonical(&text), Err(NotCanonical::TooComplex));
}

#[test]
fn digests_are_of_the_canonical_form() {
    let digest = |text: &str| BodyDigest::of(text.as_bytes(), &mut Vec::new());
    assert_eq!(digest("{\"a\":1,\"b\":2}"), digest("{ \"b\": 2, \"a\": 1 }"));
    assert_ne!(digest("{\"a\":1}"), digest("{\"a\":1.0}"));
    assert!(digest("{").is_err());
}

/// An object of these members, of those whose names differ in case only the first: with both it has no canonical form.
fn object(members: BTreeMap<String, Value>) -> Value {
    let mut seen = HashSet::new();
    let folded = |name: &str| name.to_uppercase().to_lowercase();
    Value::Object(members.into_iter().filter(|(name, _)| seen.insert(folded(name))).collect())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".{0,3}", inner, 0..5).prop_map(object),
        ]
    })
}

proptest! {
    /// Against serde_json: the same value, one form however it is printed, and that form is its own.
    #[test]
    fn the_form_is_one_and_means_the_same(value in value()) {
        let compact = canonical(&value.to_string()).unwrap();
        let pretty = canonical(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
        prop_assert_eq!(&compact, &pretty);
        prop_assert_eq!(serde_json::from_str::<Value>(&compact).unwrap(), value);
        prop_assert_eq!(canonical(&compact).unwrap(), compact);
    }
}
