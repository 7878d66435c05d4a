//! gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md): which requests are calls, their deadline, and errors of the gateway as a status.

use h1::{BodyKind, Known, Method, RequestHead, ResponseHead, encode, trailer_fields};
use message::list_elements;

use crate::error::{Error, Reason};
use crate::http::response::Framing;
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
    encode::begin_field(out, b"grpc-timeout");
    encode::decimal(out, left_ns / scale);
    out.push(unit);
    encode::end_field(out);
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

/// When a target wants its call made again (gRFC A6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushback {
    /// It does not say.
    None,
    /// Never.
    Never,
    /// After so many nanoseconds.
    After(u64),
}

/// What the head of a target's response says of the call.
#[derive(Debug, Clone, Copy)]
pub struct CallHead {
    /// Its status, where it is among the fields.
    told: Option<u8>,
    /// There is nothing behind it ("Trailers-Only").
    is_last: bool,
    /// The status of HTTP.
    http: u16,
    /// When the call may be made again.
    pub pushback: Pushback,
}

impl CallHead {
    /// Reads a head.
    pub fn read(head: &ResponseHead, buf: &[u8]) -> Self {
        let told = head.fields.first(Known::GrpcStatus, buf).map(parse_status);
        let is_last = matches!(head.body, BodyKind::None | BodyKind::Length(0));
        let pushback = match (is_last, told) {
            (true, Some(1..)) => pushback(head, buf),
            _ => Pushback::None,
        };
        CallHead { told, is_last, http: head.status, pushback }
    }

    /// The status of a call that the target ended with the head.
    pub fn last_status(&self) -> Option<u8> {
        self.told.filter(|_| self.is_last)
    }

    /// The status of the whole response: of its trailers, else of its head.
    pub fn end(&self, trailers: &[u8]) -> CallEnd {
        let of_trailers = trailer_fields(trailers).find(|(known, ..)| *known == Known::GrpcStatus);
        match of_trailers.map(|(_, _, value)| parse_status(value)).or(self.told) {
            Some(status) => CallEnd { status, is_told: true },
            None => CallEnd { status: status_of_http(self.http), is_told: false },
        }
    }
}

/// How a target ended a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEnd {
    /// Status, 0 to 16.
    pub status: u8,
    /// The target said so; else it is what a client makes of a response without a status.
    pub is_told: bool,
}

/// Reads a status as clients do: what is none is UNKNOWN.
fn parse_status(value: &[u8]) -> u8 {
    match *value {
        [digit @ b'0'..=b'9'] => digit - b'0',
        [b'1', digit @ b'0'..=b'6'] => 10 + digit - b'0',
        _ => UNKNOWN,
    }
}

/// What a client takes for the status of a response without one (grpc/doc/http-grpc-status-mapping.md).
fn status_of_http(status: u16) -> u8 {
    match status {
        400 => INTERNAL,
        401 => UNAUTHENTICATED,
        403 => PERMISSION_DENIED,
        404 => UNIMPLEMENTED,
        429 | 502 | 503 | 504 => UNAVAILABLE,
        _ => UNKNOWN,
    }
}

/// `grpc-retry-pushback-ms`: what cannot be read means never, as a negative number does.
fn pushback(head: &ResponseHead, buf: &[u8]) -> Pushback {
    let named = |name: &[u8]| name.eq_ignore_ascii_case(b"grpc-retry-pushback-ms");
    let mut values = head.fields.iter().filter(|field| field.known == Known::Other && named(field.name.of_buf(buf)));
    let Some(first) = values.next() else { return Pushback::None };
    let value = first.value.of_buf(buf);
    let is_number = (1..=10).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    if !is_number || values.next().is_some() {
        return Pushback::Never;
    }
    let ms = value.iter().fold(0, |number: u64, digit| number * 10 + u64::from(digit - b'0'));
    Pushback::After(ms * 1_000_000)
}

/// Name of the field with the number of calls that were made before this one.
pub const PREVIOUS_ATTEMPTS: &[u8] = b"grpc-previous-rpc-attempts";

/// The calls that a client says to have made before.
pub fn previous_attempts(head: &RequestHead, buf: &[u8]) -> u32 {
    let mut others = head.fields.iter().filter(|field| field.known == Known::Other);
    let field = others.find(|field| field.name.of_buf(buf).eq_ignore_ascii_case(PREVIOUS_ATTEMPTS));
    field.and_then(|field| std::str::from_utf8(field.value.of_buf(buf)).ok()?.parse().ok()).unwrap_or(0)
}

const UNKNOWN: u8 = 2;
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
    encode::end_head(out);
}

/// Appends the end of a body in chunks that broke off, with the status of the call in its trailers.
pub fn write_trailers(out: &mut Vec<u8>, error: Error) {
    encode::begin_trailers(out);
    write_status(out, error);
    encode::end_head(out);
}

fn write_status(out: &mut Vec<u8>, error: Error) {
    encode::number(out, b"grpc-status", u64::from(status_of(error.reason)));
    encode::begin_field(out, b"grpc-message");
    write_message(out, error.reason.title());
    if !error.detail.is_empty() {
        write_message(out, ": ");
        write_message(out, error.detail);
    }
    encode::end_field(out);
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

    fn head(status: u16, body: &str, fields: &str) -> CallHead {
        let text = format!("HTTP/1.1 {status} X\r\n{body}\r\n{fields}\r\n");
        let mut head = ResponseHead::default();
        head.parse(text.as_bytes(), 0, text.len(), Method::Post, &h1::Limits::default()).unwrap();
        CallHead::read(&head, text.as_bytes())
    }

    const LAST: &str = "Content-Length: 0";
    const CHUNKED: &str = "Transfer-Encoding: chunked";

    #[test]
    fn the_status_of_a_call_is_in_its_trailers_or_its_head() {
        let told = |status| CallEnd { status, is_told: true };
        assert_eq!(head(200, CHUNKED, "").end(b"grpc-status: 14\r\ngrpc-message: x\r\n"), told(14));
        assert_eq!(head(200, LAST, "grpc-status: 7\r\n").end(b""), told(7));
        assert_eq!(head(200, CHUNKED, "grpc-status: 0\r\n").end(b"x: y\r\nGrpc-Status:13\r\n"), told(13));
        assert_eq!(head(200, CHUNKED, "grpc-status: 5\r\n").end(b""), told(5));
        for (value, status) in [("0", 0), ("9", 9), ("16", 16), ("17", 2), ("014", 2), ("", 2), ("-1", 2), ("x", 2)] {
            assert_eq!(parse_status(value.as_bytes()), status, "{value}");
        }
        for (http, status) in [(200, 2), (400, 13), (401, 16), (403, 7), (404, 12), (429, 14), (503, 14), (500, 2)] {
            assert_eq!(head(http, LAST, "").end(b""), CallEnd { status, is_told: false }, "{http}");
        }
    }

    #[test]
    fn only_a_head_with_nothing_behind_it_ends_a_call() {
        assert_eq!(head(200, LAST, "grpc-status: 14\r\n").last_status(), Some(14));
        assert_eq!(head(200, CHUNKED, "grpc-status: 14\r\n").last_status(), None);
        assert_eq!(head(503, LAST, "").last_status(), None);
    }

    #[test]
    fn a_pushback_that_cannot_be_read_means_never() {
        let of = |fields: &str| head(200, LAST, &format!("grpc-status: 14\r\n{fields}")).pushback;
        assert_eq!(of(""), Pushback::None);
        assert_eq!(of("grpc-retry-pushback-ms: 0\r\n"), Pushback::After(0));
        assert_eq!(of("Grpc-Retry-Pushback-Ms: 250\r\n"), Pushback::After(250_000_000));
        for value in ["-1", "", "x", "1.5", "12345678901", "1, 2", "+1"] {
            assert_eq!(of(&format!("grpc-retry-pushback-ms: {value}\r\n")), Pushback::Never, "{value}");
        }
        assert_eq!(of("grpc-retry-pushback-ms: 1\r\ngrpc-retry-pushback-ms: 1\r\n"), Pushback::Never);
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
