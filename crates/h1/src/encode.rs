//! Writing: framing is always made here, from numbers, never copied from a peer.

use time::UtcDateTime;

use crate::bytes::{find_control, is_text_byte, is_token};

/// Digits that are put together in one word.
const SHORT: u64 = 100_000_000;

/// Appends a number in decimal.
#[inline]
pub fn decimal(out: &mut Vec<u8>, number: u64) {
    if number >= SHORT {
        return long_decimal(out, number);
    }
    // The last digit is highest, so the first one is written first.
    let (mut word, mut count, mut rest) = (0, 0, number);
    loop {
        word = word << 8 | (u64::from(b'0') + rest % 10);
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    // A copy of known length is a few instructions; one of any length is a call.
    let end = out.len() + count;
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

#[cold]
fn long_decimal(out: &mut Vec<u8>, number: u64) {
    decimal(out, number / SHORT);
    let (mut digits, mut rest) = ([b'0'; 8], number % SHORT);
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits);
}

/// The end of a line.
const LINE_END: &[u8] = b"\r\n";

/// Appends a field line. Bytes that have no place in a value (CR, LF, NUL and the other controls but HTAB; RFC 9110 section 5.5) are
/// left out, so that a generated value can never split a message. `name` is a token: the caller's own, or checked.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    begin_field(out, name);
    text(out, value);
    end_field(out);
}

/// Appends the name of a field whose value the caller appends, text without control bytes, and ends with [`end_field`]. `name` is a token.
#[inline]
pub fn begin_field(out: &mut Vec<u8>, name: &[u8]) {
    debug_assert!(is_token(name), "{}", name.escape_ascii());
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
}

/// Appends the end of a field line.
#[inline]
pub fn end_field(out: &mut Vec<u8>) {
    out.extend_from_slice(LINE_END);
}

/// Appends a field whose value is known to be text without control bytes. `name` is a token.
#[inline]
pub fn plain(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(find_control(value, 0) == value.len(), "{}", value.escape_ascii());
    begin_field(out, name);
    out.extend_from_slice(value);
    end_field(out);
}

/// Appends a field whose value is a number. `name` is a token.
#[inline]
pub fn number(out: &mut Vec<u8>, name: &[u8], value: u64) {
    begin_field(out, name);
    decimal(out, value);
    end_field(out);
}

/// The last second of the year 9999: years have four digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// The `Date` line of a time in seconds since 1970 (RFC 9110 section 5.6.7), as an array: it is kept, and appended to every response.
pub fn date_of_second(unix_seconds: u64) -> [u8; DATE_LINE] {
    let unix_seconds = unix_seconds.min(LAST_SECOND);
    let date = UtcDateTime::from_unix_timestamp(unix_seconds as i64).unwrap_or(UtcDateTime::UNIX_EPOCH);
    let weekday =
        ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][usize::from(date.weekday().number_days_from_sunday())];
    let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, second) = (date.year().unsigned_abs(), unix_seconds % 86_400);
    let mut line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    let value = &mut line[6..35];
    let two = |number: u64| [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8];
    value[0..3].copy_from_slice(weekday.as_bytes());
    value[5..7].copy_from_slice(&two(date.day().into()));
    value[8..11].copy_from_slice(month[usize::from(u8::from(date.month())) - 1].as_bytes());
    value[12..14].copy_from_slice(&two(u64::from(year) / 100));
    value[14..16].copy_from_slice(&two(u64::from(year)));
    value[17..19].copy_from_slice(&two(second / 3600));
    value[20..22].copy_from_slice(&two(second / 60 % 60));
    value[23..25].copy_from_slice(&two(second % 60));
    line
}

/// Length of a `Date` line.
pub const DATE_LINE: usize = 37;

/// Appends the empty line that ends a head, or a trailer section.
#[inline]
pub fn end_head(out: &mut Vec<u8>) {
    out.extend_from_slice(LINE_END);
}

/// Appends the start of a request line: the method, a token. The target is the caller's, visible characters only; then comes
/// [`end_request_line`].
#[inline]
pub fn begin_request_line(out: &mut Vec<u8>, method: &[u8]) {
    debug_assert!(is_token(method), "{}", method.escape_ascii());
    out.extend_from_slice(method);
    out.push(b' ');
}

/// Appends what stands behind the target, and Host, which is text without control bytes.
#[inline]
pub fn end_request_line(out: &mut Vec<u8>, host: &[u8]) {
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(host);
    out.extend_from_slice(LINE_END);
}

/// Appends what stands behind the target in a request of HTTP/1.0.
pub fn end_request_line_1_0(out: &mut Vec<u8>) {
    out.extend_from_slice(b" HTTP/1.0\r\n");
}

/// The response that requests the body (RFC 9110 section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Appends what of `value` may be in a field: without control bytes but HTAB.
pub fn text(out: &mut Vec<u8>, value: &[u8]) {
    if find_control(value, 0) == value.len() {
        out.extend_from_slice(value);
    } else {
        out.extend(value.iter().filter(|&&byte| is_text_byte(byte)));
    }
}

/// A request for a page that the gateway itself wants. All three are text without control bytes; others are left out.
pub fn get(target: &[u8], host: &[u8], accept: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    begin_request_line(&mut out, b"GET");
    out.extend(target.iter().filter(|byte| byte.is_ascii_graphic()));
    out.extend_from_slice(b" HTTP/1.1\r\n");
    field(&mut out, b"Host", host);
    field(&mut out, b"Accept", accept);
    end_head(&mut out);
    out
}

/// Appends `Content-Length`.
#[inline]
pub fn content_length(out: &mut Vec<u8>, length: u64) {
    // Name and colon in one copy: most responses have it.
    out.extend_from_slice(b"Content-Length: ");
    decimal(out, length);
    end_field(out);
}

/// Appends `Connection: close`.
#[inline]
pub fn connection_close(out: &mut Vec<u8>) {
    out.extend_from_slice(b"Connection: close\r\n");
}

/// Appends `Transfer-Encoding: chunked`.
#[inline]
pub fn chunked(out: &mut Vec<u8>) {
    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
}

/// Appends a status line in HTTP/1.1, with `status` between 100 and 999. A proxy responds with its own version, whatever its peers
/// speak (RFC 9112 section 2.3).
#[inline]
pub fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    debug_assert!((100..=999).contains(&status), "{status}");
    // What nearly all responses say.
    if status == 200 && reason == b"OK" {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    let digit = |place: u16| b'0' + (status / place % 10) as u8;
    let mut start = *b"HTTP/1.1 000 ";
    start[9..12].copy_from_slice(&[digit(100), digit(10), digit(1)]);
    out.extend_from_slice(&start);
    text(out, reason);
    out.extend_from_slice(LINE_END);
}

/// Appends the size line of a chunk with `length` bytes of data. Nothing for no data: such a chunk would end the body, and a body
/// that was not meant to end must not pass for complete.
#[inline]
pub fn chunk_size(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "an empty chunk ends the body");
    if length == 0 {
        return;
    }
    let mut line = *b"0000000000000000\r\n";
    let mut at = line.len() - 2;
    let mut rest = length;
    while rest > 0 {
        at -= 1;
        line[at] = b"0123456789abcdef"[rest & 15];
        rest >>= 4;
    }
    out.extend_from_slice(&line[at..]);
}

/// Appends a whole chunk; nothing for no data.
#[inline]
pub fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        chunk_size(out, data.len());
        out.extend_from_slice(data);
        end_chunk(out);
    }
}

/// Appends what ends the data of a chunk.
#[inline]
pub fn end_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(LINE_END);
}

/// Appends the last chunk; behind it come trailers, whole lines, and [`end_head`].
#[inline]
pub fn begin_trailers(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
}

/// Appends the last chunk and an empty trailer section.
#[inline]
pub fn last_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n\r\n");
}

/// Reason phrase of a status (RFC 9110 section 15 and the registry).
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        511 => "Network Authentication Required",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_the_rfc_and_of_leap_years() {
        for (seconds, expected) in [
            (784_111_777, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            (0, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
            (951_782_400, "Date: Tue, 29 Feb 2000 00:00:00 GMT\r\n"),
            (4_107_542_399, "Date: Sun, 28 Feb 2100 23:59:59 GMT\r\n"),
            (4_107_542_400, "Date: Mon, 01 Mar 2100 00:00:00 GMT\r\n"),
            (u64::MAX, "Date: Fri, 31 Dec 9999 23:59:59 GMT\r\n"),
        ] {
            assert_eq!(std::str::from_utf8(&date_of_second(seconds)).unwrap(), expected);
        }
    }
}
