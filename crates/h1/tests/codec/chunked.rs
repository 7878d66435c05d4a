//! The chunked coding: RFC 9112 section 7.1; rules 3, 12 and 13, both roles.

use h1::Limits;
use h1::ParseError::{self, *};

use crate::support::feed::{End, Message};
use crate::{refuse_request, refuse_response, request, requests, response};

fn in_request(body: impl AsRef<[u8]>) -> Vec<u8> {
    [b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", body.as_ref()].concat()
}

fn in_response(body: impl AsRef<[u8]>) -> Vec<u8> {
    [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body.as_ref()].concat()
}

#[track_caller]
fn refuse(body: impl AsRef<[u8]>, error: ParseError) {
    refuse_request(in_request(&body), error);
    refuse_response(in_response(&body), error);
}

#[track_caller]
fn accept(body: impl AsRef<[u8]>, data: &str) -> Message {
    assert_eq!(response(in_response(&body)).body, data.as_bytes());
    let message = request(in_request(&body));
    assert_eq!(message.body, data.as_bytes());
    message
}

#[test]
fn chunks_are_joined_rfc9112_7_1() {
    accept("0\r\n\r\n", "");
    accept("3\r\nabc\r\n0\r\n\r\n", "abc");
    accept("3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", "abcd");
    accept("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789");
    accept("4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n");
    accept("5\r\n0\r\n\r\n\r\n0\r\n\r\n", "0\r\n\r\n");
    accept("1F\r\n0123456789012345678901234567890\r\n0\r\n\r\n", "0123456789012345678901234567890");
}

#[test]
fn zeros_in_front_of_a_size_are_bounded_rule_12_rfc9112_7_1() {
    accept("03\r\nabc\r\n00\r\n\r\n", "abc");
    accept("0000000000000003\r\nabc\r\n0000000000000000\r\n\r\n", "abc");
    refuse("00000000000000003\r\nabc\r\n0\r\n\r\n", ChunkSize);
    refuse("00000000000000000\r\n\r\n", ChunkSize);
}

#[test]
fn the_size_is_hexadecimal_digits_and_nothing_else_rule_12_rfc9112_7_1() {
    for size in [
        "", " ", " 3", "\t3", "0x3", "0X3", "x3", "+3", "-3", "-0", "+0", "3_0", "_3", "3 ", "3\t", "3  ", "3 \t",
        "0 ", "3h", "g", "3.0", "3,3", "3 3", "$3", "h'3'", "\"3\"", "3=", "3\u{b2}", "\u{ff13}", "3\0", "\x003",
        "3\x0b", "3\x0c", "3\x7f", "3:", "3\"", "3#", "{3}", "&h3", "3L", "3h;a",
    ] {
        refuse(format!("{size}\r\nabc\r\n0\r\n\r\n"), ChunkSize);
        refuse(format!("1\r\na\r\n{size}\r\nabc\r\n0\r\n\r\n"), ChunkSize);
    }
}

#[test]
fn a_size_that_overflows_is_refused_rule_12() {
    for size in [
        "10000000000000000",
        "10000000000000003",
        "ffffffffffffffff0",
        "fffffffffffffffff",
        "100000000000000000000000000000003",
    ] {
        refuse(format!("{size}\r\nabc\r\n0\r\n\r\n"), ChunkSize);
    }
    refuse("f".repeat(300), ChunkSize);
    // The largest size is one that never ends.
    let outcome = requests(in_request("FFFFFFFFFFFFFFFF\r\nabc"));
    assert_eq!((outcome.end, &outcome.messages[0].body[..]), (End::InBody, &b"abc"[..]));
}

#[test]
fn bare_cr_bare_lf_and_nul_are_refused_between_data_rule_3_rfc9112_2_2() {
    for (body, error) in [
        (&b"3\nabc\r\n0\r\n\r\n"[..], ChunkSize),
        (b"3\r\nabc\r\n0\n\r\n", ChunkSize),
        (b"3\r\nabc\r\n0\n", ChunkSize),
        (b"0\n\n", ChunkSize),
        (b"\n", ChunkSize),
        (b"\r\n", ChunkSize),
        (b"\r\n3\r\nabc", ChunkSize),
        (b"3\rabc", ChunkSize),
        (b"3\r\r\nabc", ChunkSize),
        (b"3\r3\r\nabc", ChunkSize),
        (b"3\r\0abc", ChunkSize),
        (b"0\r\0\n", ChunkSize),
        (b"3;a\nabc\r\n0\r\n\r\n", ChunkExtension),
        (b"3;\nabc\r\n0\r\n\r\n", ChunkExtension),
        (b"3;a=b\nabc\r\n0\r\n\r\n", ChunkExtension),
        (b"3;a\0\r\nabc", ChunkExtension),
        (b"3;a\rb\r\nabc", ChunkSize),
        (b"0\r\n\n", Trailer),
        (b"0\r\n\r\r\n", Trailer),
        (b"0\r\n\rX", Trailer),
        (b"0\r\nX: y\n\r\n", Trailer),
        (b"0\r\nX: y\r\n\n", Trailer),
        (b"0\r\nX: y\rZ: z\r\n\r\n", Trailer),
        (b"0\r\nX: \0\r\n\r\n", Trailer),
        (b"0\r\nX\n: y\r\n\r\n", Trailer),
    ] {
        refuse(body, error);
    }
}

#[test]
fn crlf_stands_exactly_behind_the_data_rule_12_rfc9112_7_1() {
    for behind in ["\n", "\r", "\r\r\n", "", "x\r\n", " \r\n", "\n\r\n", "\0\r\n", "\rX\n", "0\r\n", "\r\n"] {
        let body = format!("3\r\nabc{behind}0\r\n\r\n");
        if behind == "\r\n" {
            accept(body, "abc");
        } else {
            refuse(body, ChunkEnd);
        }
    }
    // A size that is too small or too large for its data.
    refuse("2\r\nabc\r\n0\r\n\r\n", ChunkEnd);
    refuse("4\r\nabc\r\n0\r\n\r\n", ChunkEnd);
    refuse("5\r\nabc\r\n0\r\n\r\n", ChunkEnd);
}

#[test]
fn extensions_are_checked_and_dropped_rule_12_rfc9112_7_1_1() {
    for extension in [
        ";a",
        ";a=b",
        ";a=b;c",
        ";a;b;c=d",
        ";chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        ";a=\"\"",
        ";a=\"b\"",
        ";a=\"b c\td\"",
        ";a=\"b;c=d\"",
        ";a=\"\\\"\"",
        ";a=\"\\\\\"",
        ";a=\"\\b\";c",
        ";!#$%&'*+-.^_`|~=1",
        ";0=0",
        ";a=\"=\"",
        ";ieof",
    ] {
        accept(format!("3{extension}\r\nabc\r\n0{extension}\r\n\r\n"), "abc");
    }
}

#[test]
fn an_extension_that_is_not_one_is_refused_rule_12_rfc9112_7_1_1() {
    for extension in [
        // Nothing between or behind semicolons.
        ";",
        ";;",
        ";a;",
        ";;a",
        ";a;;b",
        "; ",
        ";\t",
        ";a; ",
        // Names and values that are none.
        ";=",
        ";=b",
        ";a=",
        ";a==b",
        ";a=b=c",
        ";a=;b",
        ";a=b c",
        ";a b",
        ";a=b,c",
        ";a:b",
        ";(a)",
        ";a=(b)",
        ";a=[b]",
        ";a/b",
        ";\"a\"",
        ";\"a\"=b",
        ";a=b\"c\"",
        ";a@b",
        ";{a}",
        // Quotes that are not closed, or closed too early: a parser that reads on would find the next CRLF within the text.
        ";a=\"",
        ";a=\"b",
        ";a=\"b\\\"",
        ";a=\"\\",
        ";a=\"b\"c",
        ";a=\"b\" ",
        ";a=\"b\"\"c\"",
        ";a=\"b\"=c",
        // White space that no sender may write.
        "; a",
        ";a ",
        ";a =b",
        ";a= b",
        ";a=b ",
        ";\ta",
        ";a\t",
        " ;a",
        // Control bytes, and bytes beyond ASCII.
        ";a\x01",
        ";a=\x0b",
        ";a=\"\x01\"",
        ";a=\"\x7f\"",
        ";a=\x7f",
        ";\u{e9}",
        ";a=\u{e9}",
        ";a=\"\u{e9}\"",
        ";a=\"\\\x01\"",
    ] {
        let error = if extension.starts_with(' ') { ChunkSize } else { ChunkExtension };
        refuse(format!("3{extension}\r\nabc\r\n0\r\n\r\n"), error);
        refuse(format!("3\r\nabc\r\n0{extension}\r\n\r\n"), error);
    }
    // A line end within quotes.
    refuse("3;a=\"\r\nabc\r\n0;\"\r\n\r\n", ChunkExtension);
    refuse("0;a=\"\r\n\r\n\"\r\n\r\n", ChunkExtension);
}

#[test]
fn extensions_are_bounded_rules_6_and_12() {
    let fits = format!("3;{}\r\nabc\r\n0\r\n\r\n", "a".repeat(Limits::CHUNK_LINE - 2));
    accept(&fits, "abc");
    refuse(format!("3;{}\r\nabc\r\n0\r\n\r\n", "a".repeat(Limits::CHUNK_LINE - 1)), ChunkExtensionTooLong);
    refuse(format!("3;{}", "a".repeat(100_000)), ChunkExtensionTooLong);
    refuse(format!("3;a=\"{}", ";".repeat(100_000)), ChunkExtensionTooLong);

    // All extensions of a body together.
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(127));
    let most = Limits::CHUNK_EXTENSIONS / 128;
    accept(chunk.repeat(most) + "0\r\n\r\n", &"x".repeat(most));
    refuse(chunk.repeat(most) + "0;a\r\n\r\n", ChunkExtensionTooLong);
    // Each body has its own account.
    let twice = [in_request(chunk.repeat(most) + "0\r\n\r\n"), in_request(chunk.repeat(most) + "0\r\n\r\n")].concat();
    assert_eq!(requests(twice).end, End::Clean);
}

#[test]
fn trailers_are_read_and_dropped_rule_13_rfc9112_7_1_2() {
    for trailer in [
        "X: y\r\n",
        "X:y\r\nZ:\r\n",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Host: evil\r\n",
        "Authorization: x\r\n",
        "X-Forwarded-For: 1.2.3.4\r\n",
        "Grpc-Status: 0\r\n",
        "X: caf\u{e9}\t \r\n",
        "x: \r\n",
    ] {
        let message = accept(format!("3\r\nabc\r\n0\r\n{trailer}\r\n"), "abc");
        let names: Vec<_> = message.fields.iter().map(|field| field.name.to_ascii_lowercase()).collect();
        assert_eq!(names, [&b"host"[..], b"transfer-encoding"], "trailers are not merged into the fields");
    }
}

#[test]
fn a_trailer_section_keeps_the_rules_of_fields_rules_1_to_3_rfc9112_7_1_2() {
    for trailer in [
        "X : y\r\n",
        "X\r\n",
        ": y\r\n",
        " X: y\r\n",
        "\tX: y\r\n",
        "X: y\r\n z\r\n",
        "X: y\r\n\tz\r\n",
        "X y: z\r\n",
        "X: \x01\r\n",
        "X: \x7f\r\n",
        "caf\u{e9}: x\r\n",
        "(X): y\r\n",
        "GET / HTTP/1.1\r\n",
        "0\r\n",
        ":\r\n",
        " \r\n",
    ] {
        refuse(format!("3\r\nabc\r\n0\r\n{trailer}\r\n"), Trailer);
        refuse(format!("0\r\nA: b\r\n{trailer}\r\n"), Trailer);
    }
}

#[test]
fn a_trailer_section_is_bounded_rule_6() {
    let value = "v".repeat(Limits::TRAILER - 5);
    accept(format!("0\r\nX: {value}\r\n\r\n"), "");
    refuse(format!("0\r\nX: v{value}\r\n\r\n"), TrailerTooLarge);
    refuse(format!("0\r\n{}", "x".repeat(100_000)), TrailerTooLarge);
    refuse(format!("0\r\n{}", "x:\r\n".repeat(10_000)), TrailerTooLarge);
    assert_eq!(TrailerTooLarge.status(), 431);
}

#[test]
fn what_follows_the_body_is_the_next_message_rfc9112_7_1() {
    let outcome = requests(
        [in_request("3\r\nabc\r\n0\r\n\r\n"), in_request("0\r\nX: y\r\n\r\n"), b"GET / HTTP/1.0\r\n\r\n".to_vec()]
            .concat(),
    );
    assert_eq!((outcome.end, outcome.messages.len()), (End::Clean, 3));
    let bodies: Vec<_> = outcome.messages.iter().map(|message| &message.body[..]).collect();
    assert_eq!(bodies, [&b"abc"[..], b"", b""]);
}

#[test]
fn a_body_that_breaks_off_is_not_complete_rule_21_rfc9112_8() {
    let whole = "3;a=\"b\"\r\nabc\r\n0\r\nX: y\r\n\r\n";
    for length in 0..whole.len() {
        let outcome = requests(in_request(&whole[..length]));
        assert_eq!(outcome.end, End::InBody, "after {:?}", &whole[..length]);
        assert!(!outcome.messages[0].is_complete);
    }
    accept(whole, "abc");
}
