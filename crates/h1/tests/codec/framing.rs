//! Framing: RFC 9112 sections 6.1 to 6.3; rules 7 to 11, both roles.

use h1::BodyKind;
use h1::ParseError::{self, *};

use crate::{refuse_request, refuse_response, request, response, response_with_line, with_line};

#[track_caller]
fn refuse(lines: impl AsRef<[u8]>, error: ParseError) {
    refuse_request(with_line(&lines), error);
    refuse_response(response_with_line(&lines), error);
}

/// A request and a response with these lines and this body.
fn with_body(lines: &str, body: &str) -> [Vec<u8>; 2] {
    [[with_line(lines), body.into()].concat(), [response_with_line(lines), body.into()].concat()]
}

#[track_caller]
fn accept(lines: &str, body: &str, kind: BodyKind, data: &str) {
    let [request_bytes, response_bytes] = with_body(lines, body);
    for message in [request(request_bytes), response(response_bytes)] {
        assert_eq!((message.kind, &message.body[..]), (kind, data.as_bytes()), "{lines}");
    }
}

#[test]
fn transfer_encoding_in_http_1_0_is_refused_rule_7_rfc9112_6_1() {
    for coding in ["chunked", "gzip", "identity", "", "chunked, chunked"] {
        refuse_request(
            format!("POST / HTTP/1.0\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n"),
            TransferEncodingIn10,
        );
        refuse_response(
            format!("HTTP/1.0 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n"),
            TransferEncodingIn10,
        );
    }
    refuse_request("POST / HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", TransferEncodingIn10);
}

#[test]
fn chunked_is_accepted_in_any_case_rule_8_rfc9112_7() {
    for coding in ["chunked", "Chunked", "CHUNKED", "cHuNkEd", " \tchunked\t "] {
        accept(&format!("Transfer-Encoding:{coding}"), "1\r\na\r\n0\r\n\r\n", BodyKind::Chunked, "a");
    }
    accept("tRANSFER-eNCODING: chunked", "0\r\n\r\n", BodyKind::Chunked, "");
}

#[test]
fn a_coding_that_is_not_exactly_chunked_is_refused_rule_8_rfc9112_6_3() {
    for value in [
        "",
        " ",
        ",",
        ",chunked",
        "chunked,",
        ", chunked",
        "chunked, ",
        "chunked,,",
        "chunked;q=1",
        "chunked;",
        "chunked; a=b",
        ";chunked",
        "\"chunked\"",
        "chun ked",
        "chunked chunked",
        "chunked=1",
        "(chunked)",
        "chunked\u{a0}",
        "chunk\u{e9}d",
        "'chunked' a",
        "chunked\\",
        "{chunked}",
        "chunked:",
        ":chunked",
    ] {
        refuse(format!("Transfer-Encoding: {value}"), TransferEncoding);
    }
    for lines in [
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nX: y\r\ntransfer-encoding: chunked",
        "Transfer-Encoding:\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding:",
    ] {
        refuse(lines, TransferEncoding);
    }
}

/// Where the body ends cannot be known.
#[test]
fn a_last_coding_other_than_chunked_is_a_bad_request_rule_26_rfc9112_6_3() {
    for lines in [
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunkedx",
        "Transfer-Encoding: chunke",
        "Transfer-Encoding: x-chunked",
        "Transfer-Encoding: cow",
        "Transfer-Encoding: 'chunked'",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    ] {
        refuse(lines, ChunkedNotLast);
    }
    assert_eq!(ChunkedNotLast.status(), 400);
}

#[test]
fn an_unknown_coding_before_chunked_is_not_implemented_rule_26_rfc9112_6_1() {
    for lines in [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked, gzip, chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
    ] {
        refuse(lines, UnknownCoding);
    }
    assert_eq!(UnknownCoding.status(), 501);
}

#[test]
fn a_coding_with_control_bytes_is_refused_rule_8_rfc9110_5_5() {
    for byte in [0x00, 0x01, 0x08, 0x0b, 0x0c, 0x1f, 0x7f] {
        for value in [
            [b"chunked", &[byte][..]].concat(),
            [&[byte][..], b"chunked"].concat(),
            [b"chun", &[byte][..], b"ked"].concat(),
        ] {
            refuse([b"Transfer-Encoding: ", &value[..]].concat(), FieldValue);
        }
    }
    refuse("Transfer-Encoding: chunked\r", BareCr);
    refuse("Transfer-Encoding: chun\rked", BareCr);
    refuse("Transfer-Encoding: chunked\n", BareLf);
}

#[test]
fn both_framings_are_refused_rule_9_rfc9112_6_3() {
    for lines in [
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nX: y\r\nTRANSFER-ENCODING: chunked",
        "Content-Length: 5\r\nTransfer-Encoding: identity",
        "Content-Length: 5\r\nTransfer-Encoding: ",
        "Content-Length: a\r\nTransfer-Encoding: chunked",
    ] {
        refuse(lines, BothFramings);
    }
}

#[test]
fn content_length_is_digits_that_fit_64_bits_rule_10_rfc9112_6_2() {
    accept("Content-Length: 5", "12345", BodyKind::Length(5), "12345");
    accept("content-length:\t5 ", "12345", BodyKind::Length(5), "12345");
    accept("Content-Length: 0005", "12345", BodyKind::Length(5), "12345");
    accept("Content-Length: 0", "", BodyKind::None, "");
    accept("Content-Length: 000", "", BodyKind::None, "");
    for value in [
        "",
        " ",
        "+5",
        "-5",
        "-0",
        "+0",
        "5.0",
        "5e0",
        "0x5",
        "0X5",
        "5_0",
        "5 0",
        "5 5",
        "five",
        "5a",
        "a5",
        "5;",
        "5\"",
        "\"5\"",
        "'5'",
        "\u{b2}",
        "\u{661}",
        "NaN",
        "inf",
        "18446744073709551616",
        "18446744073709551615000",
        "99999999999999999999999999999999999999",
        "-18446744073709551611",
        "5\u{a0}",
        "(5)",
        "5:",
        "=5",
        "0b1",
        "0o7",
    ] {
        refuse(format!("Content-Length: {value}"), ContentLength);
    }
    for byte in [0x00, 0x0b, 0x0c, 0x1f] {
        refuse([b"Content-Length: 5", &[byte][..]].concat(), FieldValue);
    }
}

#[test]
fn the_largest_content_length_is_counted_rule_10() {
    let outcome = crate::requests("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\nabc");
    assert_eq!(outcome.end, crate::support::feed::End::InBody);
    assert_eq!(outcome.messages[0].kind, BodyKind::Length(u64::MAX));
    assert_eq!(outcome.messages[0].body, b"abc");
}

#[test]
fn repeated_content_length_is_refused_even_if_equal_rule_10_rfc9112_6_3() {
    for lines in [
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 0\r\nContent-Length: 5",
        "Content-Length: 5\r\nX: y\r\ncontent-length: 5",
        "Content-Length: 5, 5",
        "Content-Length: 5,5",
        "Content-Length: 5,",
        "Content-Length: ,5",
        "Content-Length: 5, 6",
        "Content-Length:\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: a",
    ] {
        refuse(lines, ContentLengthRepeated);
    }
}

#[test]
fn a_request_without_framing_has_no_body_rule_11_rfc9112_6_3() {
    for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "PURGE"] {
        for version in ["1.0", "1.1"] {
            let message = request(format!("{method} / HTTP/{version}\r\nHost: a\r\n\r\n"));
            assert_eq!(message.kind, BodyKind::None);
        }
    }
}

#[test]
fn any_method_may_have_a_body_rfc9110_9_3() {
    for method in ["GET", "HEAD", "DELETE", "OPTIONS", "PURGE"] {
        let message = request(format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
        assert_eq!(message.body, b"abc");
    }
    let message = request("POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(message.body, b"abc");
}
