//! What the fields say about the message's length and the connection's life, for both roles.

use crate::field::{Field, Fields, Known, is_token, list_elements};
use crate::{ParseError, Span, Version};

/// Framing and connection options of one head.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Framing {
    pub(crate) content_length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade_option: bool,
    pub(crate) upgrade_field: bool,
}

impl Framing {
    /// Reads the framing fields (RFC 9112 sections 6.1 to 6.3) and the `Connection` options (9.1, 9.3; RFC 9110 section 7.6.1),
    /// and marks the fields that those options name.
    pub(crate) fn read(fields: &mut Fields, buf: &[u8], version: Version) -> Result<Self, ParseError> {
        let mut framing = Framing::default();
        let mut names_fields = false;
        let mut has_transfer_encoding = false;
        for field in &fields.list {
            match field.known {
                Known::ContentLength => {
                    if framing.content_length.is_some() {
                        return Err(ParseError::ContentLengthRepeated);
                    }
                    framing.content_length = Some(content_length(field.value.of_buf(buf))?);
                }
                Known::TransferEncoding => has_transfer_encoding = true,
                Known::Upgrade => framing.upgrade_field = true,
                Known::Connection => {
                    for option in list_elements(field.value.of_buf(buf)) {
                        if option.eq_ignore_ascii_case(b"close") {
                            framing.close = true;
                        } else if option.eq_ignore_ascii_case(b"keep-alive") {
                            framing.keep_alive = true;
                        } else if option.eq_ignore_ascii_case(b"upgrade") {
                            framing.upgrade_option = true;
                        } else if is_token(option) {
                            names_fields = true;
                        } else {
                            return Err(ParseError::FieldValue);
                        }
                    }
                }
                _ => {}
            }
        }
        if has_transfer_encoding {
            if version == Version::Http10 {
                return Err(ParseError::TransferEncodingIn10);
            }
            transfer_encoding(fields, buf)?;
            if framing.content_length.is_some() {
                return Err(ParseError::BothFramings);
            }
            framing.chunked = true;
        }
        if names_fields {
            mark_named(fields, buf);
        }
        Ok(framing)
    }

    /// Whether the connection may carry another message after this one.
    pub(crate) fn persists(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }
}

/// `1*DIGIT` that fits 64 bits; a list is refused even when its members agree.
fn content_length(value: &[u8]) -> Result<u64, ParseError> {
    if value.is_empty() {
        return Err(ParseError::ContentLength);
    }
    let mut length: u64 = 0;
    for &byte in value {
        if !byte.is_ascii_digit() {
            return Err(if byte == b',' { ParseError::ContentLengthRepeated } else { ParseError::ContentLength });
        }
        length = length
            .checked_mul(10)
            .and_then(|length| length.checked_add(u64::from(byte - b'0')))
            .ok_or(ParseError::ContentLength)?;
    }
    Ok(length)
}

/// All Transfer-Encoding lines together must say `chunked`, once, and nothing else.
fn transfer_encoding(fields: &Fields, buf: &[u8]) -> Result<(), ParseError> {
    let mut codings = 0;
    let mut unknown = false;
    for value in fields.values(Known::TransferEncoding, buf) {
        // Unlike `list_elements`, an empty element counts: a lenient parser might stop at it.
        for coding in value.split(|&byte| byte == b',').map(crate::field::trim) {
            codings += 1;
            if !is_token(coding) {
                return Err(ParseError::TransferEncoding);
            }
            unknown |= !coding.eq_ignore_ascii_case(b"chunked");
        }
    }
    match (codings, unknown) {
        (1, false) => Ok(()),
        (_, true) => Err(ParseError::UnknownCoding),
        (_, false) => Err(ParseError::TransferEncoding),
    }
}

fn mark_named(fields: &mut Fields, buf: &[u8]) {
    for index in 0..fields.list.len() {
        if fields.list[index].known != Known::Connection {
            continue;
        }
        let options = fields.list[index].value;
        for option in list_elements(options.of_buf(buf)) {
            for field in &mut fields.list {
                if !field.known.is_protected() && field.name.of_buf(buf).eq_ignore_ascii_case(option) {
                    field.named_by_connection = true;
                }
            }
        }
    }
}

/// Turns the parser's slices into fields with spans of `buf`.
pub(crate) fn collect(
    fields: &mut Fields,
    parsed: &[httparse::Header<'_>],
    buf: &[u8],
    head_end: usize,
) -> Result<(), ParseError> {
    fields.list.clear();
    for header in parsed {
        let name = Span::of(header.name.as_bytes(), buf);
        let known = Known::of(header.name.as_bytes());
        let value = match header.value {
            [] => Span { start: name.end + 1, end: name.end + 1 },
            bytes => Span::of(bytes, buf),
        };
        if let Some(last) = fields.list.last_mut() {
            last.line_end = name.start;
        }
        fields.list.push(Field { name, value, line_end: 0, known, named_by_connection: false });
    }
    if let Some(last) = fields.list.last_mut() {
        last.line_end = (head_end - 2) as u32;
    }
    Ok(())
}

/// Which rule the parser stumbled over. `head` is the message's head, complete.
pub(crate) fn explain(error: httparse::Error, head: &[u8], request: bool) -> ParseError {
    match error {
        httparse::Error::HeaderName => {
            let after_first = memchr::memchr(b'\n', head).map_or(&[][..], |lf| &head[lf + 1..]);
            if matches!(after_first.first(), Some(b' ' | b'\t')) {
                ParseError::SpaceBeforeFirstField
            } else if memchr::memmem::find(head, b"\n ").is_some() || memchr::memmem::find(head, b"\n\t").is_some() {
                ParseError::ObsFold
            } else {
                ParseError::FieldName
            }
        }
        httparse::Error::HeaderValue | httparse::Error::NewLine if has_bare_cr(head) => ParseError::BareCr,
        httparse::Error::HeaderValue => ParseError::FieldValue,
        httparse::Error::TooManyHeaders => ParseError::TooManyFields,
        httparse::Error::Version => ParseError::Version,
        httparse::Error::Status => ParseError::StatusLine,
        httparse::Error::Token if request => ParseError::RequestLine,
        httparse::Error::Token | httparse::Error::NewLine => {
            if request {
                ParseError::RequestLine
            } else {
                ParseError::StatusLine
            }
        }
    }
}

fn has_bare_cr(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\r', head).any(|cr| head.get(cr + 1) != Some(&b'\n'))
}
