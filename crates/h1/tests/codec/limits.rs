//! Limits: rule 6. Each is tried at its edge, however the bytes arrive.

use h1::ParseError::*;
use h1::{HeadScanner, Limits, ParseError, RequestHead};

use crate::support::feed::{End, Role, feed, outcome_with};

fn end(limits: &Limits, raw: impl AsRef<[u8]>) -> End {
    outcome_with(&Role::Requests, limits, raw.as_ref()).end
}

fn end_of_response(limits: &Limits, raw: impl AsRef<[u8]>) -> End {
    outcome_with(&Role::Responses(Vec::new()), limits, raw.as_ref()).end
}

fn limits(start_line: usize, head: usize, fields: usize) -> Limits {
    Limits { start_line, head, fields }
}

#[test]
fn the_start_line_is_bounded_with_414() {
    let line = "GET /aaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n";
    let head = format!("{line}Host: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(end(&limits(line.len(), 1000, 10), &head), End::Clean);
    assert_eq!(end(&limits(line.len() - 1, 1000, 10), &head), End::Refused(StartLineTooLong));
    assert_eq!(end(&limits(10, 1000, 10), "G".repeat(11)), End::Refused(StartLineTooLong));
    assert_eq!(end(&limits(10, 1000, 10), "G".repeat(10)), End::InHead(10));
    assert_eq!(StartLineTooLong.status(), 414);
}

#[test]
fn the_head_is_bounded_with_431() {
    let head = "GET / HTTP/1.1\r\nHost: a\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(end(&limits(100, head.len(), 10), head), End::Clean);
    assert_eq!(end(&limits(100, head.len() - 1, 10), head), End::Refused(HeadTooLarge));
    assert_eq!(end(&limits(100, 40, 10), head), End::Refused(HeadTooLarge));
    assert_eq!(HeadTooLarge.status(), 431);
    // The smaller of the two is the one that is exceeded first.
    assert_eq!(end(&limits(100, 30, 10), "G".repeat(200)), End::Refused(HeadTooLarge));
    assert_eq!(end(&limits(30, 100, 10), "G".repeat(200)), End::Refused(StartLineTooLong));
}

#[test]
fn what_comes_first_in_the_message_is_what_is_named() {
    let long = "a".repeat(200);
    for (raw, error) in [
        (format!("GET /{long}\nx HTTP/1.1\r\n\r\n"), StartLineTooLong),
        (format!("GET /\n{long} HTTP/1.1\r\n\r\n"), BareLf),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\nY: z\r\n\r\n"), HeadTooLarge),
        (format!("GET / HTTP/1.1\r\nHost: a\nX: {long}\r\n\r\n"), BareLf),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), HeadTooLarge),
    ] {
        assert_eq!(end(&limits(100, 150, 10), &raw), End::Refused(error), "{raw}");
    }
}

#[test]
fn fields_are_bounded_in_number_with_431() {
    let head = |count: usize| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "Content-Length: 0\r\n".to_owned() + &"X: y\r\n".repeat(count - 2)
        )
    };
    assert_eq!(end(&limits(100, 10_000, 20), head(20)), End::Clean);
    assert_eq!(end(&limits(100, 10_000, 20), head(21)), End::Refused(TooManyFields));
    assert_eq!(end(&limits(100, 10_000, usize::MAX), head(Limits::MAX_FIELDS)), End::Clean);
    assert_eq!(end(&limits(100, 10_000, usize::MAX), head(Limits::MAX_FIELDS + 1)), End::Refused(TooManyFields));
    assert_eq!(end(&limits(100, 10_000, 0), "GET / HTTP/1.0\r\nX: y\r\n\r\n"), End::Refused(TooManyFields));
    assert_eq!(TooManyFields.status(), 431);
}

#[test]
fn the_defaults_are_those_of_the_gateway() {
    assert_eq!(Limits::default(), limits(8 * 1024, 64 * 1024, 100));
    let default = Limits::default();
    let head = |path: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(path));
    assert_eq!(end(&default, head(8 * 1024 - 16)), End::Clean);
    assert_eq!(end(&default, head(8 * 1024 - 15)), End::Refused(StartLineTooLong));
    let value = "v".repeat(64 * 1024);
    assert_eq!(end(&default, format!("GET / HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n")), End::Refused(HeadTooLarge));
}

#[test]
fn responses_have_the_same_limits_rule_21() {
    let line = "HTTP/1.1 200 A reason that takes room\r\n";
    let head = format!("{line}Content-Length: 0\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n\r\n");
    assert_eq!(end_of_response(&limits(line.len(), head.len(), 2), &head), End::Clean);
    assert_eq!(end_of_response(&limits(line.len() - 1, head.len(), 2), &head), End::Refused(StartLineTooLong));
    assert_eq!(end_of_response(&limits(line.len(), head.len() - 1, 2), &head), End::Refused(HeadTooLarge));
    assert_eq!(end_of_response(&limits(line.len(), head.len(), 1), &head), End::Refused(TooManyFields));
}

/// An empty line before a request is not counted.
#[test]
fn limits_count_from_the_start_line() {
    let head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let exact = limits(16, head.len(), 1);
    let outcome = outcome_with(&Role::Requests, &exact, format!("\r\n{head}").as_bytes());
    assert_eq!(outcome.end, End::Clean);
    let outcome = outcome_with(&Role::Requests, &limits(15, head.len(), 1), format!("\r\n{head}").as_bytes());
    assert_eq!(outcome.end, End::Refused(StartLineTooLong));
    let outcome = outcome_with(&Role::Requests, &limits(16, head.len() - 1, 1), format!("\r\n{head}").as_bytes());
    assert_eq!(outcome.end, End::Refused(HeadTooLarge));
}

/// Bytes of the next message are not counted for this one.
#[test]
fn limits_do_not_see_what_is_pipelined() {
    let head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let outcome = outcome_with(&Role::Requests, &limits(16, head.len(), 1), head.repeat(50).as_bytes());
    assert_eq!((outcome.end, outcome.messages.len()), (End::Clean, 50));
}

#[test]
fn an_endless_head_is_refused_as_soon_as_it_is_too_large() {
    let limits = Limits::default();
    let pieces = std::iter::once(&b"GET / HTTP/1.1\r\n"[..])
        .chain(std::iter::repeat_n(&b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"[..], 1 << 20));
    assert_eq!(feed(&Role::Requests, &limits, pieces, true).end, End::Refused(HeadTooLarge));
}

/// A caller that names another range than the scanner did gets an error, not a panic.
#[test]
fn any_range_is_served() {
    let buf = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n";
    let limits = Limits::default();
    let mut head = RequestHead::default();
    for start in 0..buf.len() + 2 {
        for end in 0..buf.len() + 2 {
            let result = head.parse(buf, start, end, &limits);
            let is_head = (start, end) == (0, 27) || (start, end) == (27, 54);
            // A method may begin later; only what lies between must be one head.
            assert!(result.is_err() || is_head || (end == 27 && start < 3) || (end == 54 && (27..30).contains(&start)));
        }
    }
    let mut scanner = HeadScanner::new();
    assert_eq!(scanner.scan(b"GET / HTTP/1.1\r\nHost: a", &limits), Ok(None));
    assert_eq!(scanner.scan(b"GET", &limits), Ok(None), "a buffer that shrank");
}

#[test]
fn every_rule_has_a_status_and_words() {
    for &rule in ParseError::ALL {
        assert!((400..=505).contains(&rule.status()), "{rule:?}");
        let text = rule.to_string();
        assert!(
            text.ends_with(')') && text.contains('.')
                || text.contains("(3)")
                || text.contains("(4)")
                || text.contains("(5)")
                || text.contains("(8)"),
            "{text} names a section"
        );
        assert!(
            text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' || byte == b' '),
            "fit for a header or JSON"
        );
    }
}
