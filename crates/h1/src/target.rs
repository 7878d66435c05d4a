//! Request targets and authorities (RFC 9112 section 3.2).

use crate::request::RawTarget;
use crate::{ParseError, Span, TargetForm};
use message::validate::is_authority;

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
