//! Field sections of HTTP/1.

use crate::bytes::{find_control, name_end};
use crate::{Field, Fields, Known, Limits, ParseError, Span};

pub(crate) use message::{list_elements, trimmed};

/// Reads the field section at `head[at..]` up to its empty line (RFC 9112 section 5); returns where that ends.
pub(crate) fn parse(fields: &mut Fields, head: &[u8], mut at: usize, limits: &Limits) -> Result<usize, ParseError> {
    fields.clear();
    let most = limits.fields.min(Limits::MAX_FIELDS);
    loop {
        let colon = name_end(head, at);
        if colon == at || fields.len() == most || head.get(colon) != Some(&b':') {
            return end(fields, head, at, colon, most);
        }
        let end = find_control(head, colon + 1);
        let behind = head.get(end..).unwrap_or_default();
        if !behind.starts_with(b"\r\n") {
            return Err(fault(behind, ParseError::FieldValue));
        }
        fields.push(Field {
            name: Span::new(at, colon),
            value: trimmed(head, colon + 1, end),
            line_end: (end + 2) as u32,
            known: Known::at_start(&head[at..], colon - at),
            named_by_connection: false,
        });
        at = end + 2;
    }
}

/// What stands at `at`, where no further field can be read: token bytes until `name_end`.
fn end(fields: &Fields, head: &[u8], at: usize, name_end: usize, most: usize) -> Result<usize, ParseError> {
    let line = head.get(at..).unwrap_or_default();
    match line {
        [b'\r', b'\n', ..] => Ok(at + 2),
        _ if name_end > at && fields.len() == most => Err(ParseError::TooManyFields),
        _ if name_end > at => Err(fault(head.get(name_end..).unwrap_or_default(), ParseError::FieldName)),
        [b' ' | b'\t', ..] if fields.is_empty() => Err(ParseError::SpaceBeforeFirstField),
        [b' ' | b'\t', ..] => Err(ParseError::ObsFold),
        _ => Err(fault(line, ParseError::FieldName)),
    }
}

/// What is wrong at the front of `rest`, where the head cannot go on; `other` if nothing about lines.
#[cold]
pub(crate) fn fault(rest: &[u8], other: ParseError) -> ParseError {
    match rest {
        [] => ParseError::Truncated,
        [b'\n', ..] => ParseError::BareLf,
        [b'\r', b'\n', ..] => other,
        [b'\r', ..] => ParseError::BareCr,
        _ => other,
    }
}
