//! Start line and fields.

use std::time::Instant;

use super::Framing;
use crate::WireError;
use crate::wire::Wire;

/// More than any gateway of sound mind sends.
const HEAD_LIMIT: usize = 1 << 20;

/// The head of a message. Bytes above 127 appear as the character of the same number (Latin-1), so that nothing is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Request line or status line, without CRLF.
    pub start: String,
    /// Fields in the order in which they came, names as written, values without surrounding white space.
    pub fields: Vec<(String, String)>,
    /// The bytes, with the empty line.
    pub raw: Vec<u8>,
}

impl Head {
    /// The values of all fields of this name, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of a field that must not be repeated; `None` when it is absent.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() < 2, "{name} came {} times:\n{}", values.len(), self.raw.escape_ascii());
        values.first().copied()
    }

    /// The status of a response.
    #[track_caller]
    pub fn status(&self) -> u16 {
        let code = self.start.starts_with("HTTP/").then(|| self.start.split(' ').nth(1)?.parse().ok()).flatten();
        code.unwrap_or_else(|| panic!("not a status line: {}", self.start))
    }

    /// The method of a request.
    pub fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// The target of a request, as written.
    pub fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// `HTTP/1.1` or `HTTP/1.0`.
    pub fn version(&self) -> &str {
        let mut parts = self.start.split(' ');
        if self.start.starts_with("HTTP/") { parts.next() } else { parts.nth(2) }.unwrap_or_default()
    }

    /// Whether the connection stays open after this message (RFC 9112, 9.3).
    pub fn keeps_alive(&self) -> bool {
        let names = |option: &str| {
            let options = self.all("connection").into_iter().flat_map(|value| value.split(','));
            options.map(str::trim).any(|token| token.eq_ignore_ascii_case(option))
        };
        !names("close") && (self.version() == "HTTP/1.1" || names("keep-alive"))
    }
}

/// Reads a request's head and finds its framing (RFC 9112, 6.3).
pub(crate) fn read_request_head(wire: &mut Wire, end: Instant) -> Result<(Head, Framing), WireError> {
    let head = read_head(wire, end)?;
    let refuse = |why: &str| Err(WireError::Malformed(format!("{why}: {}", head.raw.escape_ascii())));
    let parts: Vec<&str> = head.start.split(' ').collect();
    let [method, target, version] = parts[..] else {
        return refuse("not three parts in the request line");
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return refuse("method is not a token");
    }
    if target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refuse("target is not printable ASCII");
    }
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return refuse("unknown version");
    }
    let hosts = head.all("host").len();
    if hosts > 1 || (hosts == 0 && version == "HTTP/1.1") {
        return refuse("not exactly one Host");
    }
    let framing = match declared_framing(&head) {
        Ok(framing) => framing.unwrap_or(Framing::None),
        Err(why) => return refuse(why),
    };
    Ok((head, framing))
}

/// Reads a response's head and finds its framing; `method` is that of the request (RFC 9112, 6.3).
pub(crate) fn read_response_head(wire: &mut Wire, method: &str, end: Instant) -> Result<(Head, Framing), WireError> {
    let head = read_head(wire, end)?;
    let refuse = |why: &str| Err(WireError::Malformed(format!("{why}: {}", head.raw.escape_ascii())));
    let line = head.start.as_bytes();
    let version_is_known = matches!(line.get(..9), Some(b"HTTP/1.1 " | b"HTTP/1.0 "));
    let code = line.get(9..12).filter(|code| code.iter().all(u8::is_ascii_digit));
    if !version_is_known || code.is_none_or(|code| code[0] == b'0') || line.get(12) != Some(&b' ') {
        return refuse("not a status line");
    }
    let declared = match declared_framing(&head) {
        Ok(declared) => declared,
        Err(why) => return refuse(why),
    };
    let status = head.status();
    let framing = match declared {
        Some(_) if status < 200 || status == 204 => {
            return refuse("a length field where none may be");
        }
        _ if status < 200 || matches!(status, 204 | 304) || method == "HEAD" => Framing::None,
        Some(framing) => framing,
        None => Framing::UntilClose,
    };
    Ok((head, framing))
}

/// What Transfer-Encoding and Content-Length say together, if there is one of them.
fn declared_framing(head: &Head) -> Result<Option<Framing>, &'static str> {
    match (&head.all("transfer-encoding")[..], &head.all("content-length")[..]) {
        ([], []) => Ok(None),
        ([coding], []) if coding.eq_ignore_ascii_case("chunked") => match head.version() {
            "HTTP/1.1" => Ok(Some(Framing::Chunked)),
            _ => Err("Transfer-Encoding in HTTP/1.0"),
        },
        ([_, ..], []) => Err("Transfer-Encoding is not exactly chunked"),
        ([_, ..], [_, ..]) => Err("Transfer-Encoding and Content-Length"),
        ([], [length]) if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            length.parse().map(|length| Some(Framing::Length(length))).map_err(|_| "Content-Length does not fit")
        }
        ([], [_]) => Err("Content-Length is not a number"),
        ([], _) => Err("Content-Length is repeated"),
    }
}

fn read_head(wire: &mut Wire, end: Instant) -> Result<Head, WireError> {
    let mut raw = Vec::new();
    let start = read_line(wire, end, &mut raw).map_err(|error| match error {
        WireError::Truncated(_) if wire.buffered().is_empty() => WireError::Closed,
        error => error,
    })?;
    let fields = read_fields(wire, end, &mut raw)?;
    Ok(Head { start, fields, raw })
}

/// Reads fields up to and with the empty line, as they are in heads and trailers.
pub(super) fn read_fields(
    wire: &mut Wire,
    end: Instant,
    raw: &mut Vec<u8>,
) -> Result<Vec<(String, String)>, WireError> {
    let mut fields = Vec::new();
    loop {
        let line = read_line(wire, end, raw)?;
        if line.is_empty() {
            return Ok(fields);
        }
        let refuse = |why: &str| Err(WireError::Malformed(format!("{why}: {line:?} in {}", raw.escape_ascii())));
        let Some((name, value)) = line.split_once(':') else {
            return refuse("a field without a colon");
        };
        if name.is_empty() || !name.bytes().all(is_token) {
            return refuse("a field name that is not a token");
        }
        if value.chars().any(|c| (c < ' ' && c != '\t') || c == '\x7f') {
            return refuse("a control character in a field value");
        }
        fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
}

/// Reads a line that ends with CRLF, appends its bytes to `raw`, and returns it without the CRLF.
pub(super) fn read_line(wire: &mut Wire, end: Instant, raw: &mut Vec<u8>) -> Result<String, WireError> {
    let mut searched = 0;
    let length = loop {
        if let Some(at) = wire.buffered()[searched..].iter().position(|byte| *byte == b'\n') {
            break searched + at + 1;
        }
        searched = wire.buffered().len();
        if raw.len() + searched > HEAD_LIMIT {
            return Err(WireError::Malformed("a head or line of more than 1 MiB".to_owned()));
        }
        if wire.fill(end)? == 0 {
            let rest = format!("a line: {}{}", raw.escape_ascii(), wire.buffered().escape_ascii());
            return Err(WireError::Truncated(rest));
        }
    };
    let bytes = wire.consume(length);
    raw.extend_from_slice(&bytes);
    let Some(line) = bytes.strip_suffix(b"\r\n") else {
        return Err(WireError::Malformed(format!("bare LF in {}", raw.escape_ascii())));
    };
    if line.iter().any(|byte| matches!(byte, b'\r' | 0)) {
        return Err(WireError::Malformed(format!("bare CR or NUL in {}", raw.escape_ascii())));
    }
    Ok(line.iter().map(|byte| char::from(*byte)).collect())
}

/// A character of a token (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
