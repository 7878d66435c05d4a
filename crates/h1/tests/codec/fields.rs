//! Field lines: RFC 9112 section 5, RFC 9110 section 5; rules 1 to 3, both roles.

use h1::ParseError::{self, *};

use crate::{refuse_request, refuse_response, request, response, response_with_line, with_line};

/// Both roles refuse a head with this line for the same reason.
#[track_caller]
fn refuse(line: impl AsRef<[u8]>, error: ParseError) {
    refuse_request(with_line(&line), error);
    refuse_response(response_with_line(&line), error);
    // Behind and in front of other fields too.
    refuse_request(with_line([line.as_ref(), b"\r\nA: b"].concat()), error);
    refuse_response(response_with_line([b"A: b\r\n", line.as_ref(), b"\r\nC: d"].concat()), error);
}

#[track_caller]
fn value(line: impl AsRef<[u8]>) -> Vec<u8> {
    let from_request = request(with_line([line.as_ref(), b"\r\nAfter: it"].concat()));
    let from_response = response(response_with_line([line.as_ref(), b"\r\nContent-Length: 0"].concat()));
    assert_eq!(from_request.fields[1].value, from_response.fields[0].value);
    assert_eq!(from_request.value("after"), Some(&b"it"[..]));
    from_request.fields[1].value.clone()
}

#[test]
fn white_space_around_a_value_is_not_part_of_it_rfc9112_5_1() {
    assert_eq!(value("X:y"), b"y");
    assert_eq!(value("X: y"), b"y");
    assert_eq!(value("X: \t y z \t "), b"y z");
    assert_eq!(value("X:"), b"");
    assert_eq!(value("X: "), b"");
    assert_eq!(value("X:\t\t \t"), b"");
    assert_eq!(value("X: :"), b":");
    assert_eq!(value("X::y"), b":y");
    assert_eq!(value(format!("X: {}", "y".repeat(1000))), vec![b'y'; 1000]);
    assert_eq!(value("X: a\tb"), b"a\tb");
}

#[test]
fn space_between_name_and_colon_is_refused_rule_1_rfc9112_5_1() {
    for line in ["X : y", "X\t: y", "X  : y", "Content-Length : 0", "Transfer-Encoding : chunked", "Host : b"] {
        refuse(line, FieldName);
    }
    refuse_request("GET / HTTP/1.1\r\nHost : a\r\n\r\n", FieldName);
}

#[test]
fn a_name_is_a_token_and_there_is_a_colon_rule_1_rfc9110_5_1() {
    for line in [
        ": y", ":", "X", "X y", "X;y: z", "(X): y", "X@: y", "\"X\": y", "X,: y", "X/Y: z", "X=: y", "X{: y",
        "X\x0b: y", "X\x7f: y", "=", "[X]: y", "X\\: y",
    ] {
        refuse(line, FieldName);
    }
    for byte in 0..=255u8 {
        let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if is_token || matches!(byte, b'\r' | b'\n' | b':') {
            continue;
        }
        // At the front of a block of the scanner, within it, and behind it.
        for place in [1, 7, 15, 16, 30] {
            let mut name = [b'n'; 40];
            name[place] = byte;
            refuse([&name[..], b": value"].concat(), FieldName);
        }
    }
    assert_eq!(value("!#$%&'*+-.^_`|~0aZ: y"), b"y");
}

#[test]
fn obs_fold_is_refused_rule_2_rfc9112_5_2() {
    for line in [
        "X: y\r\n z",
        "X: y\r\n\tz",
        "X: y\r\n ",
        "X:\r\n y",
        "X: y\r\n : z",
        "Transfer-Encoding:\r\n chunked",
        "X: y\r\n Content-Length: 5",
    ] {
        refuse(line, ObsFold);
    }
}

#[test]
fn white_space_before_the_first_field_is_refused_rule_2_rfc9112_2_2() {
    for line in [" X: y", "\tX: y", " ", "  ", " : y"] {
        refuse_request(
            [b"GET / HTTP/1.1\r\n", line.as_bytes(), b"\r\nHost: a\r\n\r\n"].concat(),
            SpaceBeforeFirstField,
        );
        refuse_response([b"HTTP/1.1 200 OK\r\n", line.as_bytes(), b"\r\n\r\n"].concat(), SpaceBeforeFirstField);
    }
}

#[test]
fn bare_cr_and_bare_lf_are_refused_in_fields_rule_3_rfc9112_2_2() {
    for line in [
        "X: y\rZ: z",
        "X: y\r",
        "X: \r y",
        "X:\ry",
        "X: y\r\rZ: z",
        "\rX: y",
        "X\r: y",
        "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\ry",
    ] {
        refuse(line, BareCr);
    }
    for line in [
        "X: y\nZ: z",
        "X: y\n",
        "X:\n y",
        "\nX: y",
        "X\n: y",
        "X: y\n\r",
        "X: y\r\n\n",
        "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\ny",
        "X: y\n\nGET / HTTP/1.1",
    ] {
        refuse(line, BareLf);
    }
    refuse_request("GET / HTTP/1.1\r\nHost: a\n\r\n", BareLf);
    refuse_request("GET / HTTP/1.1\r\nHost: a\r\n\n", BareLf);
    refuse_request("GET / HTTP/1.1\r\nHost: a\r\n\r\rX: y\r\n\r\n", BareCr);
    refuse_response("HTTP/1.1 200 OK\nContent-Length: 0\n\n", BareLf);
    refuse_response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n", BareLf);
}

#[test]
fn nul_and_other_controls_are_refused_in_values_rule_3_rfc9110_5_5() {
    for byte in (0..0x20).chain([0x7f]).filter(|byte| !matches!(byte, b'\t' | b'\r' | b'\n')) {
        for place in [0, 1, 15, 16, 31, 49] {
            let mut value = [b'v'; 50];
            value[place] = byte;
            refuse([b"X: ", &value[..]].concat(), FieldValue);
        }
        refuse([b"X:", &[byte][..]].concat(), FieldValue);
    }
}

#[test]
fn obs_text_is_carried_in_values_and_refused_in_names_rfc9110_5_5() {
    assert_eq!(value(b"X: caf\xc3\xa9 \x80\xff"), b"caf\xc3\xa9 \x80\xff");
    refuse(b"caf\xc3\xa9: x", FieldName);
}

#[test]
fn lines_are_spans_that_can_be_forwarded_as_they_are() {
    let message = request("GET / HTTP/1.1\r\nHost: a\r\nX:  y \r\nEmpty:\r\nLast: z\r\n\r\n");
    let lines: Vec<_> = message.fields.iter().map(|field| String::from_utf8_lossy(&field.line).into_owned()).collect();
    assert_eq!(lines, ["Host: a\r\n", "X:  y \r\n", "Empty:\r\n", "Last: z\r\n"]);
}

#[test]
fn a_head_without_fields_is_whole() {
    assert!(request("GET / HTTP/1.0\r\n\r\n").fields.is_empty());
    assert!(response("HTTP/1.1 204 No Content\r\n\r\n").fields.is_empty());
}
