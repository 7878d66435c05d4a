//! Responses: RFC 9112 sections 4 and 6.3; rules 11 and 21.

use h1::ParseError::*;
use h1::{BodyKind, Method, ResponseHead, Version};

use crate::support::feed::{End, Start};
use crate::{refuse_response, refused, response, response_to, responses_to};

fn status_line(line: impl AsRef<[u8]>) -> (u16, Vec<u8>) {
    let message = response([line.as_ref(), b"\r\nContent-Length: 0\r\n\r\n"].concat());
    let Start::Response { status, reason, .. } = message.start else { panic!() };
    (status, reason)
}

#[test]
fn status_and_reason_are_found_rfc9112_4() {
    assert_eq!(status_line("HTTP/1.1 200 OK"), (200, b"OK".to_vec()));
    assert_eq!(status_line("HTTP/1.0 404 Not Found"), (404, b"Not Found".to_vec()));
    assert_eq!(status_line("HTTP/1.1 999 x"), (999, b"x".to_vec()));
    assert_eq!(status_line(b"HTTP/1.1 200 Tr\xc3\xa8s bien\t:)"), (200, b"Tr\xc3\xa8s bien\t:)".to_vec()));
    assert_eq!(status_line(b"HTTP/1.1 200 \x80"), (200, b"\x80".to_vec()));
}

#[test]
fn a_reason_may_be_empty_with_or_without_its_space_rfc9112_4() {
    assert_eq!(status_line("HTTP/1.1 200 "), (200, b"".to_vec()));
    assert_eq!(status_line("HTTP/1.1 200"), (200, b"".to_vec()));
    assert_eq!(status_line("HTTP/1.1 200  \t "), (200, b"".to_vec()));
    assert_eq!(status_line("HTTP/1.1 200  OK "), (200, b"OK".to_vec()));
}

#[test]
fn a_status_line_that_is_none_is_refused_rule_21_rfc9112_4() {
    for line in [
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.1 20",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 200OK",
        "HTTP/1.1  200 OK",
        " HTTP/1.1 200 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1 000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 -20 OK",
        "HTTP/1.1 +20 OK",
        "HTTP/1.1 2 0 OK",
        "HTTP/1.1 2xx OK",
        "HTTP/1.1 0x1 OK",
        "HTTP/1.1 200,OK",
        "http/1.1 200 OK",
        "HTTP/1 200 OK",
        "HTTP/11 200 OK",
        "HTTP/1.10 200 OK",
        "HTTP/1.x 200 OK",
        "HTTP/1,1 200 OK",
        "ICY 200 OK",
        "200 OK",
        "GET / HTTP/1.1",
        "HTTP/1.1 20\u{b2} OK",
        "HTTPS/1.1 200 OK",
        "<html>",
        "SSH-2.0-OpenSSH_9.2",
        "HTTP/1.1 200 O\x01K",
        "HTTP/1.1 200 \0",
        "HTTP/1.1 200 \x7f",
        "HTTP/1.1 \x00200 OK",
    ] {
        refuse_response(format!("{line}\r\nContent-Length: 0\r\n\r\n"), StatusLine);
    }
    refuse_response("HTTP/1.1 200 O\rK\r\n\r\n", BareCr);
    refuse_response("HTTP/1.1 200 OK\r\r\n\r\n", BareCr);
    refuse_response("HTTP/1.1 200 OK\n\r\n", BareLf);
    assert_eq!(StatusLine.status(), 502);
}

#[test]
fn another_version_is_refused_rule_21_rfc9112_2_3() {
    for version in ["2.0", "0.9", "1.2", "3.0", "9.9"] {
        refuse_response(format!("HTTP/{version} 200 OK\r\n\r\n"), Version);
    }
    assert_eq!(response("HTTP/1.0 200 OK\r\n\r\n").version, Version::Http10);
}

/// Only a server passes over an empty line (section 2.2). From an upstream it is a byte too many behind the response before.
#[test]
fn nothing_may_precede_a_response_rule_16_rfc9112_2_2() {
    for front in ["\r\n", "\r\n\r\n", "0\r\n\r\n"] {
        refuse_response(format!("{front}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), StatusLine);
    }
    refuse_response("\nHTTP/1.1 200 OK\r\n\r\n", BareLf);
    refuse_response("\r\n", StatusLine);
}

#[test]
fn without_framing_a_response_ends_with_the_connection_rule_11_rfc9112_6_3() {
    for version in ["1.0", "1.1"] {
        let message = response(format!(
            "HTTP/{version} 200 OK\r\nConnection: keep-alive\r\n\r\nabc\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
        ));
        assert_eq!((message.kind, message.body.len()), (BodyKind::UntilClose, 29));
        assert!(!message.keep_alive);
    }
    let outcome = responses_to(Method::Get, "HTTP/1.1 200 OK\r\n\r\n");
    assert!(outcome.messages[0].is_complete, "an empty one too");
}

#[test]
fn head_has_no_body_whatever_the_fields_say_rule_11_rfc9112_6_3() {
    for line in ["Content-Length: 5", "Transfer-Encoding: chunked", "X: y", "Content-Length: 0"] {
        for status in ["200", "404", "500"] {
            let message = response_to(Method::Head, format!("HTTP/1.1 {status} x\r\n{line}\r\n\r\n"));
            assert_eq!(message.kind, BodyKind::None);
            assert!(message.keep_alive, "what GET would have had is said rightly here");
        }
    }
    let message = response_to(Method::Head, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    assert!(matches!(message.start, Start::Response { content_length: Some(5), .. }));
    // What follows it is not a body but the next response, or a byte too many.
    let outcome = responses_to(Method::Head, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde\r\n\r\n");
    assert_eq!(outcome.end, End::Refused(StatusLine));
    assert_eq!(outcome.messages.len(), 1);
}

#[test]
fn interim_responses_and_204_and_304_have_no_body_rule_11_rfc9112_6_3() {
    for (status, line) in [
        ("204", "X: y"),
        ("304", "X: y"),
        ("304", "Content-Length: 5"),
        ("304", "Transfer-Encoding: chunked"),
        ("204", "Content-Length: 0"),
    ] {
        let message = response(format!("HTTP/1.1 {status} x\r\n{line}\r\n\r\n"));
        assert_eq!(message.kind, BodyKind::None, "{status} {line}");
        assert!(message.keep_alive, "{status} {line}");
    }
    let outcome = responses_to(
        Method::Get,
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
    );
    assert_eq!((outcome.end, outcome.messages.len()), (End::Clean, 2));
    assert_eq!((outcome.messages[0].kind, outcome.messages[1].kind), (BodyKind::None, BodyKind::Length(1)));
}

/// A server that puts a body behind a 204 must not have it taken for the next response.
#[test]
fn a_204_that_speaks_of_a_body_ends_the_connection_rule_16_rfc9110_8_6() {
    for line in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let message = response(format!("HTTP/1.1 204 No Content\r\n{line}\r\n\r\n"));
        assert_eq!(message.kind, BodyKind::None);
        assert!(!message.keep_alive, "{line}");
    }
}

#[test]
fn an_interim_response_with_framing_is_refused_rule_21_rfc9112_6_1() {
    for status in ["100", "101", "102", "103", "199"] {
        for line in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            refuse_response(format!("HTTP/1.1 {status} x\r\n{line}\r\n\r\n"), FramingForbidden);
        }
        // Senders mean well by it.
        let outcome = responses_to(Method::Get, format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(outcome.messages[0].kind, BodyKind::None);
    }
}

#[test]
fn framing_is_judged_also_where_it_frames_nothing_rule_21() {
    for (line, error) in [
        ("Content-Length: 5, 5", ContentLengthRepeated),
        ("Content-Length: x", ContentLength),
        ("Transfer-Encoding: gzip", ChunkedNotLast),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", BothFramings),
    ] {
        for status in ["100", "204", "304", "200"] {
            refuse_response(format!("HTTP/1.1 {status} x\r\n{line}\r\n\r\n"), error);
            let raw = format!("HTTP/1.1 {status} x\r\n{line}\r\n\r\n");
            refused(responses_to(Method::Head, &raw), raw.as_bytes(), error);
        }
    }
}

#[test]
fn other_statuses_are_framed_as_200_is_rfc9112_6_3() {
    for status in ["200", "201", "205", "206", "301", "400", "401", "416", "500", "599", "999"] {
        let message = response(format!("HTTP/1.1 {status} x\r\nContent-Length: 3\r\n\r\nabc"));
        assert_eq!(message.body, b"abc", "{status}");
        let message =
            response(format!("HTTP/1.1 {status} x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
        assert_eq!(message.body, b"abc", "{status}");
    }
}

#[test]
fn a_short_body_is_never_complete_rule_21_rfc9112_8() {
    let outcome = responses_to(Method::Get, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd");
    assert_eq!(outcome.end, End::InBody);
    assert!(!outcome.messages[0].is_complete);
    assert_eq!(outcome.messages[0].body, b"abcd");
}

#[test]
fn interim_is_all_of_1xx_but_101_rfc9110_15_2() {
    let interim = |status| ResponseHead { status, ..ResponseHead::default() }.is_interim();
    assert!(interim(100) && interim(102) && interim(103) && interim(199));
    assert!(!interim(101) && !interim(200) && !interim(204));
}
