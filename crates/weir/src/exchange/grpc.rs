//! gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md): which requests are calls, their deadline, and errors of the gateway as a status.

use h1::{Known, Method, RequestHead, encode};
use message::list_elements;

use crate::error::{Error, Reason};
use crate::http::reply::Framing;
use crate::runtime::clock;

/// Whether a request is a gRPC call. gRPC-Web is not: its trailers are part of the body.
pub fn is_call(head: &RequestHead, buf: &[u8]) -> bool {
    head.method == Method::Post && head.fields.first(Known::ContentType, buf).is_some_and(is_type)
}

fn is_type(value: &[u8]) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    let Some((start, rest)) = value.split_at_checked(TYPE.len()) else { return false };
    start.eq_ignore_ascii_case(TYPE) && matches!(rest, [] | [b'+' | b';' | b' ' | b'\t', ..])
}

/// Whether the client says that it takes trailers (RFC 9110 section 10.1.4).
pub fn accepts_trailers(head: &RequestHead, buf: &[u8]) -> bool {
    let mut codings = head.fields.values(Known::Te, buf).flat_map(list_elements);
    head.fields.contains(Known::Te) && codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}

/// How long the client waits for the end of the call, in nanoseconds: `grpc-timeout`, of at most 8 digits and a unit. One that cannot be read
/// is the upstream's to refuse.
pub fn timeout_ns(head: &RequestHead, buf: &[u8]) -> Option<u64> {
    head.fields.first(Known::GrpcTimeout, buf).and_then(parse_timeout)
}

fn parse_timeout(value: &[u8]) -> Option<u64> {
    let (unit, digits) = value.split_last()?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number: u64, digit| number * 10 + u64::from(digit - b'0'));
    let scale: u64 = match unit {
        b'H' => 3_600_000_000_000,
        b'M' => 60_000_000_000,
        b'S' => 1_000_000_000,
        b'm' => 1_000_000,
        b'u' => 1_000,
        b'n' => 1,
        _ => return None,
    };
    Some(number.saturating_mul(scale))
}

/// Appends `grpc-timeout` with what is left, in the finest unit that has room for it.
pub fn write_timeout(out: &mut Vec<u8>, left_ns: u64) {
    let units = [(1, b'n'), (1_000, b'u'), (1_000_000, b'm'), (1_000_000_000, b'S'), (60_000_000_000, b'M')];
    let fits = |&&(scale, _): &&(u64, u8)| left_ns / scale <= 99_999_999;
    let &(scale, unit) = units.iter().find(fits).unwrap_or(&(3_600_000_000_000, b'H'));
    out.extend_from_slice(b"grpc-timeout: ");
    encode::decimal(out, left_ns / scale);
    out.push(unit);
    out.extend_from_slice(b"\r\n");
}

/// The status of a call that the gateway does not serve.
pub fn status_of(reason: Reason) -> u8 {
    match (reason, reason.status()) {
        (Reason::TotalTimeout | Reason::BodyTimeout, _) | (_, 504) => DEADLINE_EXCEEDED,
        (_, 401) => UNAUTHENTICATED,
        (_, 403) => PERMISSION_DENIED,
        (_, 404 | 405) => UNIMPLEMENTED,
        (_, 413 | 429 | 431) => RESOURCE_EXHAUSTED,
        (_, 502 | 503) => UNAVAILABLE,
        _ => INTERNAL,
    }
}

const DEADLINE_EXCEEDED: u8 = 4;
const PERMISSION_DENIED: u8 = 7;
const RESOURCE_EXHAUSTED: u8 = 8;
const UNIMPLEMENTED: u8 = 12;
const INTERNAL: u8 = 13;
const UNAVAILABLE: u8 = 14;
const UNAUTHENTICATED: u8 = 16;

/// Appends a response that is a head only ("Trailers-Only"): the status of the call is among its fields. `fields` are whole lines.
pub fn write_error(out: &mut Vec<u8>, error: Error, fields: &[u8], framing: Framing) {
    encode::status_line(out, 200, encode::reason(200).as_bytes());
    encode::field(out, b"Content-Type", b"application/grpc");
    write_status(out, error);
    out.extend_from_slice(fields);
    encode::content_length(out, 0);
    clock::date_line(out);
    crate::http::edits::write_connection(out, framing.version, framing.close);
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a body in chunks that broke off, with the status of the call in its trailers.
pub fn write_trailers(out: &mut Vec<u8>, error: Error) {
    out.extend_from_slice(b"0\r\n");
    write_status(out, error);
    out.extend_from_slice(b"\r\n");
}

fn write_status(out: &mut Vec<u8>, error: Error) {
    out.extend_from_slice(b"grpc-status: ");
    encode::decimal(out, u64::from(status_of(error.reason)));
    out.extend_from_slice(b"\r\ngrpc-message: ");
    write_message(out, error.reason.title());
    if !error.detail.is_empty() {
        write_message(out, ": ");
        write_message(out, error.detail);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends text as gRPC writes it: percent-encoded but for visible ASCII and blanks.
fn write_message(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(byte),
            _ => {
                let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
                out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_grpc_is_grpc() {
        for value in
            ["application/grpc", "application/grpc+proto", "Application/gRPC;charset=x", "application/grpc ; a=b"]
        {
            assert!(is_type(value.as_bytes()), "{value}");
        }
        for value in ["application/grpc-web", "application/grpc-web+proto", "application/json", "application/grp", ""] {
            assert!(!is_type(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn timeouts_have_at_most_eight_digits_and_a_unit() {
        for (text, ns) in [
            ("1H", Some(3_600_000_000_000)),
            ("2M", Some(120_000_000_000)),
            ("99999999n", Some(99_999_999)),
            ("10m", Some(10_000_000)),
            ("0S", Some(0)),
            ("5u", Some(5_000)),
            ("123456789n", None),
            ("m", None),
            ("1", None),
            ("1s", None),
            ("-1S", None),
            ("1 S", None),
            ("", None),
        ] {
            assert_eq!(parse_timeout(text.as_bytes()), ns, "{text}");
        }
    }

    #[test]
    fn what_is_left_of_a_timeout_is_never_written_longer() {
        for left in [0, 1, 99_999_999, 100_000_000, 123_456_789_012, 86_400_000_000_000, u64::MAX / 2] {
            let mut out = Vec::new();
            write_timeout(&mut out, left);
            let value = out.strip_prefix(b"grpc-timeout: ").and_then(|rest| rest.strip_suffix(b"\r\n")).unwrap();
            let read = parse_timeout(value).unwrap_or_else(|| panic!("{}", value.escape_ascii()));
            assert!(read <= left && left - read <= left / 1_000_000 + 60_000_000_000, "{left}: {read}");
        }
    }

    #[test]
    fn a_message_is_one_line_of_ascii() {
        let mut out = Vec::new();
        write_message(&mut out, "100 %\r\nü");
        assert_eq!(out, b"100 %25%0D%0A%C3%BC");
    }
}
