//! What the fields say about the message's length and the connection's life, for both roles.

use crate::bytes::{is_token, trim};
use crate::field::list_elements;
use crate::{Fields, Known, Limits, ParseError, Version};

/// Framing and connection options of one head.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Framing {
    pub(crate) content_length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
}

impl Framing {
    /// Reads the framing fields (RFC 9112 sections 6.1 to 6.3) and the `Connection` options (9.1, 9.3; RFC 9110 section 7.6.1),
    /// and marks the fields that those options name.
    pub(crate) fn read(fields: &mut Fields, buf: &[u8], version: Version) -> Result<Self, ParseError> {
        let mut framing = Framing::default();
        if fields.contains(Known::TransferEncoding) {
            if version == Version::Http10 {
                return Err(ParseError::TransferEncodingIn10);
            }
            if fields.contains(Known::ContentLength) {
                return Err(ParseError::BothFramings);
            }
            transfer_encoding(fields, buf)?;
            framing.chunked = true;
        }
        if fields.repeats(Known::ContentLength) {
            return Err(ParseError::ContentLengthRepeated);
        }
        if let Some(value) = fields.first(Known::ContentLength, buf) {
            framing.content_length = Some(content_length(value)?);
        }
        if fields.contains(Known::Connection) {
            framing.connection(fields, buf)?;
        }
        Ok(framing)
    }

    /// Whether the connection may carry another message after this one.
    pub(crate) fn persists(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }

    fn connection(&mut self, fields: &mut Fields, buf: &[u8]) -> Result<(), ParseError> {
        // What nearly all connections say, and it names no field.
        let is_plain =
            !fields.repeats(Known::Connection) && fields.first(Known::Connection, buf).is_some_and(is_keep_alive);
        if is_plain {
            self.keep_alive = true;
            return Ok(());
        }
        let mut options = 0;
        let mut names_fields = false;
        for option in fields.values(Known::Connection, buf).flat_map(list_elements) {
            options += 1;
            if options > Limits::CONNECTION_OPTIONS {
                return Err(ParseError::ConnectionOptions);
            }
            if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else if is_token(option) {
                self.close |= option.eq_ignore_ascii_case(b"close");
                names_fields = true;
            } else {
                return Err(ParseError::Connection);
            }
        }
        if names_fields {
            mark_named(fields, buf);
        }
        Ok(())
    }
}

/// Whether a value is `keep-alive`, in any case, by words: nearly every connection says so, with every message.
#[inline]
fn is_keep_alive(value: &[u8]) -> bool {
    const CASE: u8 = 0x20;
    let Ok([start @ .., a, b]) = <&[u8; 10]>::try_from(value) else { return false };
    // No other bytes of a value than these letters' capitals become them; the hyphen has this bit set, and its like without it is a control.
    u64::from_le_bytes(*start) | u64::from_le_bytes([CASE; 8]) == u64::from_le_bytes(*b"keep-ali")
        && [a | CASE, b | CASE] == *b"ve"
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

/// All Transfer-Encoding lines together must say `chunked`, once, and nothing else. A last coding that is not `chunked` leaves the end of a
/// request unknown (RFC 9112 section 6.3); one before it would be decoded by nobody here (6.1).
fn transfer_encoding(fields: &Fields, buf: &[u8]) -> Result<(), ParseError> {
    let mut codings = 0;
    let mut is_unknown = false;
    let mut last_is_chunked = false;
    for value in fields.values(Known::TransferEncoding, buf) {
        // Unlike `list_elements`, an empty element counts: a lenient parser might stop at it.
        for coding in value.split(|&byte| byte == b',').map(trim) {
            codings += 1;
            if !is_token(coding) {
                return Err(ParseError::TransferEncoding);
            }
            last_is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            is_unknown |= !last_is_chunked;
        }
    }
    match (codings, is_unknown) {
        (1, false) => Ok(()),
        (_, true) if !last_is_chunked => Err(ParseError::ChunkedNotLast),
        (_, true) => Err(ParseError::UnknownCoding),
        (_, false) => Err(ParseError::TransferEncoding),
    }
}

/// Marks the fields that `Connection` options name. Bounded: options times fields.
fn mark_named(fields: &mut Fields, buf: &[u8]) {
    for index in 0..fields.len() {
        let Some(options) = fields.iter().nth(index).copied() else { break };
        if options.known != Known::Connection {
            continue;
        }
        for option in list_elements(options.value.of_buf(buf)) {
            if is_vouched_for(option) {
                continue;
            }
            for field in fields.iter_mut() {
                if !field.known.is_protected() && field.name.of_buf(buf).eq_ignore_ascii_case(option) {
                    field.named_by_connection = true;
                }
            }
        }
    }
}

/// Names beyond the known ones by which proxies tell who the client is. A client that has one removed looks like another: this broke
/// access control behind several proxies.
fn is_vouched_for(name: &[u8]) -> bool {
    const FAMILY: &[u8] = b"x-forwarded-";
    name.get(..FAMILY.len()).is_some_and(|start| start.eq_ignore_ascii_case(FAMILY))
        || [&b"x-real-ip"[..], b"true-client-ip", b"x-client-ip", b"x-forwarded"]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other))
}
