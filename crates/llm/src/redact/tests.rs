use proptest::prelude::*;

use super::*;
use crate::request::scan;

fn all() -> Vec<Pattern> {
    vec![Pattern::Email, Pattern::Iban, Pattern::Card, Pattern::Phone]
}

fn redacted(body: &str, patterns: &[Pattern]) -> String {
    let found = redact(body.as_bytes(), &scan(body.as_bytes()).expect("a request"), patterns).expect("readable");
    found.map_or_else(|| body.to_owned(), |redacted| String::from_utf8(redacted.body).expect("text"))
}

fn of_text(text: &str) -> String {
    let mut found = vec![0; 4];
    replaced(text, &all(), &mut found).unwrap_or_else(|| text.to_owned())
}

#[test]
fn what_is_personal_is_found() {
    for (text, expected) in [
        ("write to ann.lee+x@mail.example.com, please", "write to [EMAIL], please"),
        ("<müller@bücher.example>", "<[EMAIL]>"),
        ("a@b.co;c@d.io", "[EMAIL];[EMAIL]"),
        ("card 4111 1111 1111 1111 2026", "card [CARD] 2026"),
        ("4111-1111-1111-1111", "[CARD]"),
        ("no. 12 5500005555555559!", "no. 12 [CARD]!"),
        ("378282246310005", "[CARD]"),
        ("DE89 3704 0044 0532 0130 00 THANKS", "[IBAN] THANKS"),
        ("gb82west12345698765432", "[IBAN]"),
        ("call +49 (0)30 1234-5678 now", "call [PHONE] now"),
        ("(555) 123-4567 or 555.123.4567", "[PHONE] or [PHONE]"),
        ("030 / 12345678", "[PHONE]"),
    ] {
        assert_eq!(of_text(text), expected, "{text}");
    }
}

#[test]
fn what_only_looks_like_it_stays() {
    for text in [
        "a@b",
        "@example.com",
        "user@",
        "x @ y.com",
        "4111 1111 1111 1112",
        "41111111111111111111111",
        "x4111111111111111",
        "1234567890123",
        "DE88370400440532013000",
        "DE89 3704",
        "ZZ89370400440532013000",
        "2026-11-27 07:33:17",
        "version 1.2.3",
        "12345",
        "0.123456",
        "192.168.100.200",
        "10 000 000",
    ] {
        assert_eq!(of_text(text), text, "{text}");
    }
}

#[test]
fn only_the_strings_that_hold_it_are_written_again() {
    let body = r#"{"model":"a@b.co", "messages" : [{"role":"user","content":"a@b.co \u00e9\n\"x\""},
        {"content":"plain \u00e9","role":"a@b.co"}, {"role":"user","content":[{"type":"text","text":"c@d.io"},
        {"type":"image_url","image_url":{"url":"https://a@b.co/x.png"}}]}],"x":"a@b.co","tools":[{"description":"a@b.co"}] }"#;
    let expected = body
        .replace(r#"a@b.co \u00e9\n\"x\""#, r#"[EMAIL] é\n\"x\""#)
        .replace(r#""text":"c@d.io""#, r#""text":"[EMAIL]""#);
    assert_eq!(redacted(body, &all()), expected);
}

#[test]
fn escapes_hide_nothing() {
    let body =
        r#"{"model":"m","messages":[{"content":"a\u0040b\u002eco"}],"system":"x","prompt":"4111\u00201111 1111 1111"}"#;
    let expected = r#"{"model":"m","messages":[{"content":"[EMAIL]"}],"system":"x","prompt":"[CARD]"}"#;
    assert_eq!(redacted(body, &all()), expected);
    let hidden_name = r#"{"messages":[{"cont\u0065nt":"a@b.co","ty\u0070e":"a@b.co"}]}"#;
    assert!(!redacted(hidden_name, &all()).contains("nt\":\"a@b.co"), "{hidden_name}");
}

#[test]
fn arguments_of_calls_stay_json() {
    let arguments = r#"{"text":"Contact:\nann@example.com","id":4111111111111111,"x":"ann\u0040example.com"}"#;
    let body = serde_json::json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "a@b.co", "type": "function",
        "function": {"name": "f", "arguments": arguments}}]}, {"role": "user", "content": "a@b.co"}]});
    let after: serde_json::Value = serde_json::from_str(&redacted(&body.to_string(), &all())).expect("JSON");
    let call = &after["messages"][0]["tool_calls"][0];
    assert_eq!(call["id"], "a@b.co");
    let expected = r#"{"text":"Contact:\n[EMAIL]","id":4111111111111111,"x":"[EMAIL]"}"#;
    assert_eq!(call["function"]["arguments"], expected);
    assert_eq!(after["messages"][1]["content"], "[EMAIL]");
    // What is not JSON is text.
    let body = r#"{"messages":[{"arguments":"{ a@b.co"}]}"#;
    assert_eq!(redacted(body, &all()), r#"{"messages":[{"arguments":"{ [EMAIL]"}]}"#);
}

#[test]
fn what_tools_are_given_and_give_back_is_text_whatever_its_names_are() {
    let body = r#"{"contents":[{"parts":[{"functionResponse":{"id":"a@b.co","response":{"data":"a@b.co","l":[{"url":"a@b.co","type":"a@b.co"}]}}},
        {"inlineData":{"data":"a@b.co"}}]}],"messages":[{"content":[{"type":"tool_use","id":"a@b.co","input":{"id":"a@b.co"}},{"id":"a@b.co"}]}]}"#;
    let once = redacted(body, &all());
    assert_eq!(once.matches("[EMAIL]").count(), 4, "{once}");
    assert!(once.contains(r#""inlineData":{"data":"a@b.co"}"#) && once.contains(r#"},{"id":"a@b.co"}]"#), "{once}");
}

#[test]
fn a_string_that_cannot_be_read_is_refused() {
    let body = br#"{"messages":[{"content":"\ud800 a@b.co"}]}"#;
    let error = redact(body, &scan(body).expect("JSON"), &all()).expect_err("a lone surrogate");
    assert_eq!(error.at, 25);
}

#[test]
fn own_expressions_and_counts() {
    let own: Pattern = "/(?i)project-[a-z]*/".parse().expect("an expression");
    let body = br#"{"input":["Project-X and project-y", "a@b.co"]}"#;
    let found = redact(body, &scan(body).expect("JSON"), &[own, Pattern::Email]).expect("readable").expect("found");
    assert_eq!(found.body, br#"{"input":["[REDACTED] and [REDACTED]", "[EMAIL]"]}"#);
    assert_eq!(found.found, [2, 1]);
}

#[test]
fn patterns_are_written_as_they_are_read() {
    for text in ["email", "phone", "card", "iban", "/a+/", "/\\//"] {
        let pattern: Pattern = text.parse().expect("a pattern");
        assert_eq!((pattern.to_string().as_str(), &pattern), (text, &text.parse().expect("a pattern")));
    }
    for text in ["", "/", "//", "Email", "a", "/a", "/(/", "/x*/", "/a{1000}{1000}/"] {
        assert!(text.parse::<Pattern>().is_err(), "{text}");
    }
}

proptest! {
    /// Whatever the text is: the result is JSON that says the same, without the address, and a second pass finds nothing more.
    #[test]
    fn the_rest_of_the_text_stays(before in "[^@]{0,40}", after in "[^@]{0,40}") {
        let text = format!("{before} ann@example.com {after}");
        let body = serde_json::json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
        let once = redacted(&body, &[Pattern::Email]);
        let value: serde_json::Value = serde_json::from_str(&once).expect("JSON");
        let expected = format!("{before} [EMAIL] {after}");
        prop_assert_eq!(value["messages"][0]["content"].as_str(), Some(expected.as_str()));
        prop_assert_eq!(redacted(&once, &[Pattern::Email]), once);
    }

    /// No text makes it panic, and ranges are in order and at characters.
    #[test]
    fn any_text_can_be_searched(text in "\\PC{0,200}", digits in "[0-9 A-Z-]{0,200}") {
        for text in [text, digits] {
            for pattern in all() {
                let mut from = 0;
                for range in pattern.find(&text) {
                    prop_assert!(range.start >= from && range.end > range.start);
                    prop_assert!(text.get(range.clone()).is_some());
                    from = range.end;
                }
            }
        }
    }
}
