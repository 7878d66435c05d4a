//! Request targets and authorities (RFC 9112 section 3.2).

use crate::request::RawTarget;
use crate::{ParseError, Span};

/// Form of the request target (RFC 9112 section 3.2); authority form belongs to CONNECT and is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `*`
    Asterisk,
}

/// A request target in its parts.
pub(crate) struct Target {
    pub(crate) form: TargetForm,
    /// `host[:port]` of an absolute form.
    pub(crate) authority: Option<Span>,
    pub(crate) path: Span,
    pub(crate) query: Option<Span>,
}

impl Target {
    /// Takes a target apart that holds nothing but visible ASCII without `#`.
    pub(crate) fn read(head: &[u8], raw: RawTarget) -> Result<Target, ParseError> {
        let RawTarget { start, query, end } = raw;
        let path_end = query.unwrap_or(end);
        let target = |form, authority, path| Target {
            form,
            authority,
            path: Span::new(path, path_end),
            query: query.map(|mark| Span::new(mark + 1, end)),
        };
        let before_query = head.get(start..path_end).unwrap_or_default();
        match before_query {
            [b'/', ..] => Ok(target(TargetForm::Origin, None, start)),
            [b'*'] if query.is_none() => Ok(target(TargetForm::Asterisk, None, start)),
            _ => {
                let scheme = scheme_length(before_query).ok_or(ParseError::Target)?;
                let rest = &before_query[scheme..];
                let length = memchr::memchr(b'/', rest).unwrap_or(rest.len());
                if !is_authority(&rest[..length]) {
                    return Err(ParseError::HostInvalid);
                }
                let authority = start + scheme;
                let path = authority + length;
                Ok(target(TargetForm::Absolute, Some(Span::new(authority, path)), path))
            }
        }
    }
}

/// Length of `http://` or `https://`, in any case (RFC 9110 section 4.2).
fn scheme_length(target: &[u8]) -> Option<usize> {
    [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
        .map(<[u8]>::len)
}

/// `host [":" port]` without userinfo (RFC 9110 sections 4.2.4 and 7.2). The host must be there, and be a name as the DNS has them or an
/// IPv6 address in brackets: of what else RFC 3986 section 3.2.2 allows (escapes, `!$&'()*+,;=`, IPvFuture) no server is reached by.
pub(crate) fn is_authority(bytes: &[u8]) -> bool {
    match bytes {
        [b'[', rest @ ..] => {
            let Some(close) = memchr::memchr(b']', rest) else { return false };
            let is_address =
                std::str::from_utf8(&rest[..close]).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok());
            is_address && is_port(&rest[close + 1..])
        }
        _ => {
            let (name, port) = bytes.split_at(memchr::memchr(b':', bytes).unwrap_or(bytes.len()));
            is_name(name) && is_port(port)
        }
    }
}

/// Labels with one dot between them, and perhaps one at the end. Empty labels are refused: `..` means something to file systems, which
/// servers that keep a folder a host have been led astray by.
fn is_name(name: &[u8]) -> bool {
    let mut last = b'.';
    for &byte in name {
        let is_ok = match byte {
            b'.' => last != b'.',
            _ => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~'),
        };
        if !is_ok {
            return false;
        }
        last = byte;
    }
    !name.is_empty()
}

/// Nothing, or a colon with a number of 16 bits, which may be left out (RFC 3986 section 3.2.3).
fn is_port(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [b':', digits @ ..] => {
            digits.len() <= 5
                && digits.iter().all(u8::is_ascii_digit)
                && digits.iter().fold(0, |port, digit| port * 10 + u32::from(digit - b'0')) <= 65_535
        }
        _ => false,
    }
}
