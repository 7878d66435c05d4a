use super::*;
use crate::Api;
use crate::response;
use pattern::{PATTERNS, SearchedPart};

const OK: Head = Head { status: 200, retry_after: None };

fn whole(api: Api, status: u16, body: &str) -> Option<Fault> {
    of_response(Head { status, retry_after: None }, &response::read(api, body.as_bytes()), false)
}

#[test]
fn every_pattern_matches_its_example() {
    let lines = include_str!("patterns.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    assert_eq!(PATTERNS.len(), lines, "every line is a pattern");
    for pattern in PATTERNS.iter() {
        assert_eq!(pattern.text, pattern.text.to_ascii_lowercase());
        let mut error = UpstreamError::default();
        let text = pattern.example.to_owned();
        match pattern.place {
            SearchedPart::Code => error.code = text,
            SearchedPart::Type => error.kind = text,
            SearchedPart::Message => error.message = text,
        }
        assert_eq!(of_error(&error, Some(pattern.status.unwrap_or(400)), None), pattern.fault, "{pattern:?}");
    }
}

#[test]
fn statuses() {
    let body = r#"{"error":{"message":"m"}}"#;
    for (status, fault) in [
        (400, 16),
        (401, 14),
        (402, 4),
        (403, 14),
        (404, 14),
        (408, 16),
        (409, 16),
        (413, 12),
        (422, 16),
        (429, 3),
        (500, 5),
        (501, 5),
        (502, 5),
        (503, 6),
        (504, 5),
        (529, 6),
        (301, 34),
        (307, 34),
    ] {
        assert_eq!(whole(Api::Chat, status, body), Some(Fault(fault)), "{status}");
        assert_eq!(whole(Api::Messages, status, "<html>"), Some(Fault(fault)), "{status} without JSON");
    }
    let hint = Head { status: 429, retry_after: Some(Duration::from_secs(1)) };
    assert_eq!(of_response(hint, &Facts::default(), false), Some(Fault::RATE_LIMITED_UNTIL));
    let quota = response::read(Api::Chat, br#"{"error":{"code":"insufficient_quota","message":"m"}}"#);
    assert_eq!(of_response(hint, &quota, false), Some(Fault::QUOTA), "a time does not help against a used-up quota");
}

#[test]
fn bodies_of_a_200() {
    for (api, body, fault) in [
        (Api::Chat, r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#, None),
        (Api::Chat, r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}"#, None),
        (Api::Chat, r#"{"choices":[]}"#, Some(18)),
        (Api::Chat, "{}", Some(18)),
        (Api::Chat, "<html>busy</html>", Some(17)),
        (Api::Chat, "", Some(17)),
        (Api::Chat, r#"{"choices":[{"message":{"content":"a"#, Some(17)),
        (Api::Chat, r#"{"error":{"code":429,"message":"m"}}"#, Some(3)),
        (
            Api::Chat,
            r#"{"error":{"message":"This model's maximum context length is 10 tokens","type":"BadRequestError","code":400}}"#,
            Some(12),
        ),
        (Api::Chat, r#"{"error":{"message":"m"}}"#, Some(5)),
        (Api::Messages, r#"{"type":"message","content":[],"stop_reason":"end_turn"}"#, None),
        (Api::Messages, r#"{"type":"message","content":[]}"#, Some(18)),
        (Api::Messages, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Some(6)),
        (Api::Gemini, r#"{"candidates":[]}"#, Some(18)),
        (Api::Gemini, r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, None),
        (Api::Gemini, r#"{"error":{"code":500,"status":"INTERNAL","message":"m"}}"#, Some(5)),
        (Api::Responses, r#"{"status":"failed","error":{"code":"server_error","message":"m"},"output":[]}"#, Some(5)),
        (Api::Embeddings, r#"{"data":[{"embedding":[1]}]}"#, None),
    ] {
        assert_eq!(whole(api, 200, body), fault.map(Fault), "{body}");
    }
    let complete = response::read(Api::Chat, br#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#);
    assert_eq!(of_response(OK, &complete, true), Some(Fault::TRUNCATED));
}

#[test]
fn ends_of_streams() {
    let error = |kind: &str| Failure::Error(UpstreamError { kind: kind.into(), ..UpstreamError::default() });
    let complete = Outcome::Complete { missing: b"" };
    for (outcome, in_tool_call, dropped, fault) in [
        (complete.clone(), false, 0, None),
        (complete, false, 14, Some(Fault::EVENTS_AFTER_END)),
        (Outcome::Complete { missing: b"x" }, false, 0, Some(Fault::NO_LAST_EVENT)),
        (Outcome::Uncommitted(Failure::Cut), false, 0, Some(Fault::EMPTY)),
        (Outcome::Uncommitted(Failure::Stalled), false, 0, Some(Fault::NO_CONTENT_IN_TIME)),
        (Outcome::Uncommitted(Failure::Malformed), false, 0, Some(Fault::MALFORMED_EVENT)),
        (Outcome::Uncommitted(error("overloaded_error")), false, 0, Some(Fault::OVERLOADED)),
        (Outcome::Uncommitted(error("rate_limit_error")), false, 0, Some(Fault::RATE_LIMITED)),
        (Outcome::Uncommitted(error("")), false, 0, Some(Fault::SERVER_ERROR)),
        (Outcome::Failed(Failure::Cut), false, 0, Some(Fault::CUT)),
        (Outcome::Failed(Failure::Cut), true, 0, Some(Fault::TOOL_CALL_CUT)),
        (Outcome::Failed(Failure::Stalled), false, 0, Some(Fault::STALLED)),
        (Outcome::Failed(Failure::Malformed), false, 0, Some(Fault::MALFORMED_EVENT)),
        (Outcome::Failed(error("overloaded_error")), false, 9, Some(Fault::ERROR_AFTER_CONTENT)),
    ] {
        assert_eq!(of_stream(&outcome, in_tool_call, dropped), fault, "{outcome:?}");
    }
}

#[test]
fn notes_on_responses_that_pass() {
    let of = |end, usage| notes(end, usage).collect::<Vec<_>>();
    assert_eq!(of(Some(EndReason::Stop), true), []);
    assert_eq!(of(Some(EndReason::Length), false), [Fault::LENGTH, Fault::NO_USAGE]);
    assert_eq!(of(Some(EndReason::ContentFilter), true), [Fault::CONTENT_FILTER]);
    assert_eq!(of(Some(EndReason::Unknown), true), [Fault::UNKNOWN_END_REASON]);
}

#[test]
fn names_of_errors_within_a_200() {
    for (name, status) in [
        ("rate_limit_exceeded", 429),
        ("overloaded_error", 529),
        ("UNAVAILABLE", 503),
        ("DEADLINE_EXCEEDED", 504),
        ("invalid_api_key", 401),
        ("billing_error", 402),
        ("PERMISSION_DENIED", 403),
        ("NOT_FOUND", 404),
        ("request_too_large", 413),
        ("INVALID_ARGUMENT", 400),
        ("server_error", 500),
        ("never heard of", 500),
    ] {
        for error in [
            UpstreamError { code: name.into(), ..UpstreamError::default() },
            UpstreamError { kind: name.into(), ..UpstreamError::default() },
        ] {
            assert_eq!(status_of(&error), status, "{name}");
        }
    }
    assert_eq!(
        status_of(&UpstreamError { code: "503".into(), kind: "api_error".into(), ..UpstreamError::default() }),
        503
    );
}

#[test]
fn a_refusal_for_content_and_a_bad_request_are_never_repeated() {
    for fault in [Fault::CONTENT_FILTER, Fault::BAD_REQUEST, Fault::LENGTH, Fault::UNKNOWN_END_REASON] {
        let rule = fault.rule();
        assert_eq!((rule.repeat, rule.next, rule.status), (Repeat::Never, Next::Nothing, 0), "{fault}");
        assert!(!rule.cacheable);
    }
    for fault in Fault::all() {
        let rule = fault.rule();
        assert_eq!(
            rule.next == Next::Nothing && rule.status == 0,
            rule.code.is_empty(),
            "{fault}: who fails has a code"
        );
        assert!(rule.status == 0 || rule.status >= 400);
        assert_eq!(fault.to_string(), format!("F{}", fault.number()));
    }
    assert_eq!(Fault::UNAUTHORIZED.rule().status, 502, "a provider's 401 is not the client's");
    assert_eq!(Fault::CONTEXT_LENGTH.rule().next, Next::LargerContext);
    assert_eq!(Fault::SILENT.rule().repeat, Repeat::Never, "the silent route is not tried again");
}

#[test]
fn times_of_retries() {
    let ms = |value: u64| Some(Duration::from_millis(value));
    for (in_ms, seconds, expected) in [
        (None, None, None),
        (None, Some("2"), ms(2000)),
        (None, Some("0.5"), ms(500)),
        (Some("20"), Some("2"), ms(20)),
        (Some("x"), Some("2"), ms(2000)),
        (None, Some("-1"), None),
        (None, Some("Wed, 21 Oct 2026 07:28:00 GMT"), None),
        (None, Some("inf"), None),
    ] {
        assert_eq!(retry_hint(in_ms.map(str::as_bytes), seconds.map(str::as_bytes)), expected);
    }
}
