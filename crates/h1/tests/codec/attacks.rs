//! Request smuggling as it was found in the wild: every known trick, and every byte in the places where the tricks are played. Whatever the
//! codec makes of one, no request for `/smuggled` may come of it.

use h1::ParseError::{self, *};

use crate::support::checks;
use crate::support::feed::{End, Outcome, Role, Start, outcome};
use crate::{refuse_request, requests};

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

fn paths(outcome: &Outcome) -> Vec<String> {
    let path = |start: &Start| match start {
        Start::Request { path, .. } => String::from_utf8_lossy(path).into_owned(),
        Start::Response { .. } => panic!("not a request"),
    };
    outcome.messages.iter().map(|message| path(&message.start)).collect()
}

/// A POST with these lines and this body, then what would be smuggled.
fn attack(lines: impl AsRef<[u8]>, body: &str) -> Vec<u8> {
    let head = [b"POST / HTTP/1.1\r\nHost: a\r\n", lines.as_ref(), b"\r\n\r\n"].concat();
    [&head, body.as_bytes(), SMUGGLED.as_bytes()].concat()
}

#[track_caller]
fn refuse(lines: impl AsRef<[u8]>, body: &str, error: ParseError) {
    refuse_request(attack(lines, body), error);
}

#[test]
fn cl_te() {
    refuse("Content-Length: 6\r\nTransfer-Encoding: chunked", "0\r\n\r\n", BothFramings);
    refuse("Content-Length: 42\r\nTransfer-Encoding: chunked", "0\r\n\r\n", BothFramings);
}

#[test]
fn te_cl() {
    refuse("Transfer-Encoding: chunked\r\nContent-Length: 4", "5c\r\n", BothFramings);
    refuse("Transfer-Encoding: chunked\r\nContent-Length: 3", "8\r\nSMUGGLED\r\n0\r\n\r\n", BothFramings);
}

#[test]
fn te_te() {
    for (lines, error) in [
        ("Transfer-Encoding: xchunked", ChunkedNotLast),
        ("Transfer-Encoding : chunked", FieldName),
        ("Transfer-Encoding\t: chunked", FieldName),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: x", ChunkedNotLast),
        ("Transfer-Encoding: x\r\nTransfer-Encoding: chunked", UnknownCoding),
        ("Transfer-Encoding: chunked\r\nTransfer-encoding: identity", ChunkedNotLast),
        ("Transfer-Encoding: identity, chunked", UnknownCoding),
        ("Transfer-Encoding: chunked, identity", ChunkedNotLast),
        ("Transfer-Encoding: cow, chunked", UnknownCoding),
        ("X: y\r\n Transfer-Encoding: chunked", ObsFold),
        ("Transfer-Encoding:\r\n chunked", ObsFold),
        ("Transfer-Encoding\r\n: chunked", FieldName),
        ("X: y\rTransfer-Encoding: chunked", BareCr),
        ("X: y\nTransfer-Encoding: chunked", BareLf),
        ("Transfer-Encoding: chunked\x0b", FieldValue),
        ("Transfer-Encoding:\x0bchunked", FieldValue),
        ("Transfer-Encoding: \x00chunked", FieldValue),
        ("Transfer-Encoding: \"chunked\"", TransferEncoding),
        ("Transfer-Encoding: 'chunked'", ChunkedNotLast),
        ("Transfer-Encoding: chunked;", TransferEncoding),
        ("Transfer-Encoding: chunked; q=0", TransferEncoding),
        ("Transfer-Encoding: ,chunked", TransferEncoding),
        ("Transfer-Encoding: chunked,", TransferEncoding),
        ("Transfer-Encoding: chunked chunked", TransferEncoding),
        ("Transfer-Encoding: chunked, chunked", TransferEncoding),
        ("Transfer-Encoding: ch\u{fc}nked", TransferEncoding),
        ("Transfer-Encoding: chunke\u{212a}", TransferEncoding),
        ("Transfer\u{2011}Encoding: chunked", FieldName),
        ("Transfer-Encoding= chunked", FieldName),
        ("Transfer-Encoding chunked", FieldName),
        ("Transfer-Encoding", FieldName),
        ("\"Transfer-Encoding\": chunked", FieldName),
        ("Transfer-Encoding\0: chunked", FieldName),
        ("Transfer-Encoding;: chunked", FieldName),
        ("Transfer-Encoding(x): chunked", FieldName),
        (": chunked\r\nTransfer-Encoding: chunked", FieldName),
    ] {
        refuse(lines, "0\r\n\r\n", error);
        refuse(
            format!("Content-Length: 5\r\n{lines}"),
            "0\r\n\r\n",
            if first_wins(error) { error } else { BothFramings },
        );
    }
}

/// Errors of the grammar come before those of framing.
fn first_wins(error: ParseError) -> bool {
    !matches!(error, UnknownCoding | ChunkedNotLast | TransferEncoding)
}

/// The mutations of the smuggling scanners, with every byte there is.
#[test]
fn every_byte_around_transfer_encoding() {
    for byte in 0..=255u8 {
        let b = &[byte][..];
        for lines in [
            [b"Transfer-Encoding", b, b": chunked"].concat(),
            [b"Transfer-Encoding:", b, b"chunked"].concat(),
            [b"Transfer-Encoding:", b, b" chunked"].concat(),
            [b"Transfer-Encoding: chunked", b].concat(),
            [b, b"Transfer-Encoding: chunked"].concat(),
            [b"Transfer", b, b"Encoding: chunked"].concat(),
            [b"Transfer-Encoding: ", b, b"chunked"].concat(),
            [b"Transfer-Encoding: chunk", b, b"ed"].concat(),
            [b"X: y", b, b"Transfer-Encoding: chunked"].concat(),
            [b"X: y\r\n", b, b"\r\nTransfer-Encoding: chunked"].concat(),
            [b"X: y\r", b, b"Transfer-Encoding: chunked"].concat(),
            [b"Transfer-Encoding: chunked\r", b, b"X: y"].concat(),
        ] {
            let raw = attack([b"Content-Length: 5\r\n", &lines[..]].concat(), "0\r\n\r\n");
            checks::requests(&raw);
            let outcome = outcome(&Role::Requests, &raw);
            match outcome.end {
                // The framing that counts is Content-Length, as for anyone who does not see a Transfer-Encoding there; what follows
                // is then a request of its own, which the client may send.
                End::Clean => {
                    assert_eq!(outcome.messages[0].body, b"0\r\n\r\n");
                    assert!(outcome.messages[0].fields.iter().all(|field| field.known != h1::Known::TransferEncoding));
                }
                _ => assert!(outcome.messages.is_empty(), "{}", lines.escape_ascii()),
            }
        }
    }
}

#[test]
fn every_byte_around_content_length() {
    for byte in 0..=255u8 {
        let b = &[byte][..];
        for lines in [
            [b"Content-Length", b, b": 5"].concat(),
            [b"Content-Length:", b, b"5"].concat(),
            [b"Content-Length: 5", b].concat(),
            [b"Content-Length: ", b, b"5"].concat(),
            [b, b"Content-Length: 5"].concat(),
            [b"Content-Length: 0", b, b"5"].concat(),
            [b"Content", b, b"Length: 5"].concat(),
        ] {
            let raw = attack(&lines, "12345");
            checks::requests(&raw);
            let outcome = outcome(&Role::Requests, &raw);
            let digits = lines.iter().filter(|byte| byte.is_ascii_digit()).count();
            let is_plain = digits == if lines.starts_with(b"Content-Length: 0") { 2 } else { 1 };
            if let (Some(message), true) = (outcome.messages.first(), is_plain) {
                assert!(message.body == b"12345" || message.body.is_empty());
            }
            // Without a length that counts, to anyone, the body is the start of the next request's method.
            if let [first, second, ..] = &outcome.messages[..]
                && first.body.is_empty()
            {
                let Start::Request { method, .. } = &second.start else { panic!("not a request") };
                assert_eq!(method, b"12345GET", "{}", lines.escape_ascii());
            }
        }
    }
}

#[test]
fn cl_cl() {
    refuse("Content-Length: 5\r\nContent-Length: 0", "12345", ContentLengthRepeated);
    refuse("Content-Length: 0\r\nContent-Length: 5", "12345", ContentLengthRepeated);
    refuse("Content-Length: 5, 0", "12345", ContentLengthRepeated);
    refuse("Content-Length: +5", "12345", ContentLength);
    refuse("Content-Length: 0x5", "12345", ContentLength);
    refuse("Content-Length: 5\x0b", "12345", FieldValue);
    refuse("Content-Length : 5", "12345", FieldName);
}

/// TE.0: a body that servers ignore for methods that seldom have one.
#[test]
fn te_0_and_cl_0() {
    let smuggled = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    for method in ["OPTIONS", "GET", "HEAD", "DELETE", "TRACE", "PURGE"] {
        let chunked = format!("{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{smuggled}");
        assert_eq!(paths(&requests(chunked)), ["/"]);
        let sized = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{SMUGGLED}", SMUGGLED.len());
        assert_eq!(paths(&requests(sized)), ["/"]);
    }
}

/// Chunk lines that one parser ends at another place than the next (TERM.EXT, EXT.TERM, TERM.SPILL, SPILL.TERM and the like).
#[test]
fn chunk_line_tricks() {
    let te = "Transfer-Encoding: chunked";
    for (body, error) in [
        ("0\n\r\n", ChunkSize),
        ("0\r\r\n", ChunkSize),
        ("2;\nxx\r\n4c\r\n0\r\n\r\n", ChunkExtension),
        ("2;\rxx\r\n4c\r\n0\r\n\r\n", ChunkExtension),
        ("2;a\nxx\r\n4c\r\n0\r\n\r\n", ChunkExtension),
        ("2;a=\"\nxx\r\n\"\r\n0\r\n\r\n", ChunkExtension),
        ("2;a=\"\r\nxx\r\n\"\r\n0\r\n\r\n", ChunkExtension),
        (";\n\r\n", ChunkSize),
        (";a\r\n0\r\n\r\n", ChunkSize),
        ("2\nxx\r\n0\r\n\r\n", ChunkSize),
        ("2\r\nxx\n0\r\n\r\n", ChunkEnd),
        ("2\r\nxxyy\r\n0\r\n\r\n", ChunkEnd),
        ("2\r\nxx0\r\n\r\n", ChunkEnd),
        ("2\r\nxxxx0\r\n\r\n", ChunkEnd),
        ("2\r\nxx\r0\r\n\r\n", ChunkEnd),
        ("0x0\r\n\r\n", ChunkSize),
        ("0 \r\n\r\n", ChunkSize),
        (" 0\r\n\r\n", ChunkSize),
        ("+0\r\n\r\n", ChunkSize),
        ("-0\r\n\r\n", ChunkSize),
        ("0;\r\n\r\n", ChunkExtension),
        ("0_0\r\n\r\n", ChunkSize),
        ("10000000000000000\r\n\r\n", ChunkSize),
        ("0\r\nX\r\n\r\n", Trailer),
        ("0\r\n X: y\r\n\r\n", Trailer),
        ("0\r\n\n", Trailer),
        ("0\r\nX: y\n\n", Trailer),
    ] {
        refuse(te, body, error);
    }
    // A last chunk that trailers follow: what looks like a head is none.
    let outcome = requests(attack(te, "0\r\nContent-Length: 5\r\nX: y\r\n\r\n"));
    assert_eq!(outcome.messages.len(), 2);
}

/// Line ends between data, with every byte.
#[test]
fn every_byte_in_chunk_lines() {
    for byte in 0..=255u8 {
        let b = char::from(byte);
        for body in [
            format!("1{b}\r\nx\r\n0\r\n\r\n"),
            format!("{b}1\r\nx\r\n0\r\n\r\n"),
            format!("1\r{b}x\r\n0\r\n\r\n"),
            format!("1\r\nx{b}\n0\r\n\r\n"),
            format!("1\r\nx\r{b}0\r\n\r\n"),
            format!("1\r\nx\r\n0{b}\r\n\r\n"),
            format!("1\r\nx\r\n0\r{b}\r\n"),
            format!("1\r\nx\r\n0\r\n{b}\n"),
            format!("1\r\nx\r\n0\r\n\r{b}"),
            format!("1;{b}\r\nx\r\n0\r\n\r\n"),
            format!("1;a{b}\r\nx\r\n0\r\n\r\n"),
            format!("1;a={b}\r\nx\r\n0\r\n\r\n"),
            format!("1;a=\"{b}\r\nx\r\n0\r\n\r\n"),
        ] {
            let body: Vec<u8> = body.chars().map(|c| c as u8).collect();
            let raw = [&attack("Transfer-Encoding: chunked", "")[..66 - 12], &body, SMUGGLED.as_bytes()].concat();
            checks::requests(&raw);
        }
    }
}

#[test]
fn lines_in_disguise() {
    for (raw, error) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nX: y\n\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", BareLf),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\rGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", BareCr),
        ("GET / HTTP/1.1\r\nHost: a\r\n\rGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", BareCr),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", BareLf),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", BareLf),
        ("GET / HTTP/1.1\nHost: a\n\n", BareLf),
        ("GET / HTTP/1.1\rHost: a\r\r", BareCr),
        ("GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", FieldValue),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: y\0\r\n\r\n", FieldValue),
        ("GET / HTTP/1.1\0\r\nHost: a\r\n\r\n", RequestLine),
        ("GET /\u{010d}\u{010a} HTTP/1.1\r\nHost: a\r\n\r\n", Target),
    ] {
        let raw = if error == BareCr { format!("{raw}\r\n\r\n") } else { raw.to_owned() };
        refuse_request(raw, error);
    }
}

#[test]
fn two_hosts_and_targets_that_name_another() {
    for (raw, error) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", HostRepeated),
        ("GET / HTTP/1.1\r\nHost: a\r\n Host: b\r\n\r\n", ObsFold),
        ("GET / HTTP/1.1\r\n Host: a\r\nHost: b\r\n\r\n", SpaceBeforeFirstField),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a/../b\r\n\r\n", HostInvalid),
        ("GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n", HostInvalid),
        ("GET http://a#@b/ HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("GET http://a\\@b/ HTTP/1.1\r\nHost: a\r\n\r\n", HostInvalid),
        ("GET @b/ HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("GET b:80 HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("CONNECT b:80 HTTP/1.1\r\nHost: a\r\n\r\n", Connect),
    ] {
        refuse_request(raw, error);
    }
}

#[test]
fn old_versions_and_no_version() {
    for (raw, error) in [
        (format!("GET /\r\n{SMUGGLED}"), RequestLine),
        (format!("GET / HTTP/0.9\r\n\r\n{SMUGGLED}"), Version),
        (format!("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"), TransferEncodingIn10),
        (
            format!("POST / HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"),
            TransferEncodingIn10,
        ),
        (format!("GET / HTTP/1.1 HTTP/1.0\r\nHost: a\r\n\r\n{SMUGGLED}"), RequestLine),
        (format!("GET / HTTP/1.1\tHTTP/1.0\r\nHost: a\r\n\r\n{SMUGGLED}"), RequestLine),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), Version),
    ] {
        refuse_request(raw, error);
    }
}

#[test]
fn other_protocols_on_this_port() {
    for raw in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
        b"EHLO example.com\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n\r\n",
        b"\x00\x00\x00\x08\x04\xd2\x16\x2f\r\n\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ] {
        let outcome = requests(raw);
        assert!(matches!(outcome.end, End::Refused(_)), "{}", raw.escape_ascii());
        assert!(outcome.messages.is_empty());
    }
}
