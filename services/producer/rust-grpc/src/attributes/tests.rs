use super::*;

fn one(value: &str) -> String {
    object(&HashMap::from([("k".to_owned(), value.to_owned())]))
}

#[test]
fn what_parses_as_json_is_stored_as_such() {
    for json in ["0", "-1.50", "1e5", "true", "false", "null", "{}", r#"{"a":[1,"x"]}"#, "[]"] {
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
fn what_nests_deeper_than_a_body_may_is_not_parsed() {
    let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(one(&nested(256)), format!("{{\"k\":{}}}", nested(256)));
    assert_eq!(one(&nested(257)), format!("{{\"k\":\"{}\"}}", nested(257)));
    assert_eq!(one(&nested(400_000)).len(), 800_008);
}
