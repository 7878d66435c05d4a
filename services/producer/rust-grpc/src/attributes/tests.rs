use super::*;

fn one(value: &str) -> String {
    object(&HashMap::from([("k".to_owned(), value.to_owned())]))
}

#[test]
fn what_parses_as_json_is_stored_as_such() {
    for json in [
        "0",
        "-1.50",
        "1e5",
        "true",
        "false",
        "null",
        "{}",
        r#"{"a":[1,"x"]}"#,
        "[]",
    ] {
        assert_eq!(one(json), format!("{{\"k\":{json}}}"));
    }
    assert_eq!(one(" 42\n"), r#"{"k":42}"#);
}

#[test]
fn anything_else_is_a_string() {
    for (value, stored) in [
        ("", r#""""#),
        ("red", r#""red""#),
        ("\"quoted\"", r#""\"quoted\"""#),
        ("007", r#""007""#),
        ("+1", r#""+1""#),
        ("NaN", r#""NaN""#),
        ("True", r#""True""#),
        ("1 2", r#""1 2""#),
        ("{'a':1}", r#""{'a':1}""#),
        ("\u{a0}1", "\"\u{a0}1\""),
        ("tab\t", r#""tab\u0009""#),
        (r#"["\ud800"]"#, r#""[\"\\ud800\"]""#),
    ] {
        assert_eq!(one(value), format!("{{\"k\":{stored}}}"), "{value:?}");
    }
}

#[test]
fn a_deep_value_is_read_without_recursion() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(one(&deep).len(), deep.len() + 6);
}
