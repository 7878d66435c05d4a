//! Field lines of forms: the content type of the body, and the heads of its parts.

use super::{FormDefect, FormError, fail};

/// Largest head of a part.
const LARGEST_HEAD: usize = 8 * 1024;
/// RFC 2046 section 5.1.1.
const LONGEST_BOUNDARY: usize = 70;

/// What the head of a part says.
pub(super) struct PartHead<'b> {
    /// Name of the field.
    pub(super) name: &'b [u8],
    /// The content is text as it stands: not a file, not encoded, in UTF-8.
    pub(super) is_plain: bool,
}

/// The boundary that a content type names. Beside it only a `charset` that changes nothing may stand: parsers of forms decode names by it, and some look
/// for `boundary` anywhere in the value.
pub(super) fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let (kind, rest) = split(content_type, b';');
    if !kind.trim_ascii().eq_ignore_ascii_case(b"multipart/form-data") {
        return None;
    }
    let mut boundary = None;
    parameters(rest?, |name, value| {
        if name.eq_ignore_ascii_case(b"boundary") {
            // RFC 2045 section 5: a parameter occurs once.
            boundary.replace(value).is_none()
        } else {
            name.eq_ignore_ascii_case(b"charset") && is_utf8(value)
        }
    })?;
    // Without the space that RFC 2046 allows: behind it a parser may see another parameter.
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(byte);
    boundary.filter(|boundary| (1..=LONGEST_BOUNDARY).contains(&boundary.len()) && boundary.iter().all(is_allowed))
}

/// Reads the head of a part, with the empty line behind it.
pub(super) fn part_head<'b>(body: &'b [u8], at: &mut usize) -> Result<PartHead<'b>, FormError> {
    let begin = *at;
    let head = &body[begin..body.len().min(begin + LARGEST_HEAD)];
    let mut lines = Lines { head, at: 0 };
    let mut name = None;
    let mut is_plain = true;
    let mut has_type = false;
    loop {
        let from = begin + lines.at;
        let Some(line) = lines.next() else { return fail(FormDefect::PartHead, from) };
        if line.is_empty() {
            break;
        }
        let (field, Some(value)) = split(line, b':') else { return fail(FormDefect::PartHead, from) };
        // A line that begins with a space would be folded onto the one before.
        if !is_token(field) {
            return fail(FormDefect::PartHead, from);
        }
        if field.eq_ignore_ascii_case(b"content-disposition") {
            let disposition = disposition(value).filter(|_| name.is_none());
            let Some((own, is_file)) = disposition else { return fail(FormDefect::Disposition, from) };
            name = Some(own);
            is_plain &= !is_file;
        } else if field.eq_ignore_ascii_case(b"content-type") {
            is_plain &= is_plain_type(value) && !std::mem::replace(&mut has_type, true);
        } else if field.eq_ignore_ascii_case(b"content-transfer-encoding") {
            is_plain = false;
        }
    }
    *at = begin + lines.at;
    match name {
        Some(name) => Ok(PartHead { name, is_plain }),
        None => fail(FormDefect::Disposition, begin),
    }
}

/// Lines that end with CRLF and have no other control characters than tabs.
struct Lines<'b> {
    head: &'b [u8],
    at: usize,
}

impl<'b> Iterator for Lines<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let rest = &self.head[self.at..];
        let end = memchr::memchr(b'\n', rest)?;
        let line = rest[..end].strip_suffix(b"\r")?;
        let is_text = line.iter().all(|byte| !byte.is_ascii_control() || *byte == b'\t');
        self.at += end + 1;
        is_text.then_some(line)
    }
}

/// The name in `form-data; name="..."`, and whether it is of a file.
fn disposition(value: &[u8]) -> Option<(&[u8], bool)> {
    let (kind, rest) = split(value, b';');
    if !kind.trim_ascii().eq_ignore_ascii_case(b"form-data") {
        return None;
    }
    let (mut name, mut is_file) = (None, false);
    parameters(rest?, |parameter, value| {
        if parameter.eq_ignore_ascii_case(b"name") {
            return name.replace(value).is_none();
        }
        is_file |= parameter.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"filename"));
        // RFC 7578 section 4.2 forbids the forms of RFC 5987; of file names clients use them all the same.
        !is_continued(parameter, b"name")
    })?;
    // A backslash escapes for some parsers, and not for others, and so do `%` (browsers) and `=?` (RFC 2047).
    let is_plain =
        |name: &&[u8]| !name.iter().any(|byte| b"\\%".contains(byte)) && !name.windows(2).any(|two| two == b"=?");
    name.filter(is_plain).map(|name| (name, is_file))
}

/// Whether a parameter is another form of this one: `name*`, `name*0`.
fn is_continued(parameter: &[u8], name: &[u8]) -> bool {
    parameter.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        && parameter.get(name.len()) == Some(&b'*')
}

/// `text/plain` in UTF-8.
fn is_plain_type(value: &[u8]) -> bool {
    let (kind, rest) = split(value, b';');
    let is_plain = |name: &[u8], value: &[u8]| {
        !name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"charset"))
            || (name.len() == 7 && is_utf8(value))
    };
    kind.trim_ascii().eq_ignore_ascii_case(b"text/plain")
        && rest.is_none_or(|rest| parameters(rest, is_plain).is_some())
}

/// Whether text of this character set is read alike as UTF-8.
fn is_utf8(charset: &[u8]) -> bool {
    charset.eq_ignore_ascii_case(b"utf-8") || charset.eq_ignore_ascii_case(b"us-ascii")
}

/// Reads `name=value; name="value"`; `None` if that is not what it is, or `take` does not accept one.
fn parameters<'b>(mut rest: &'b [u8], mut take: impl FnMut(&'b [u8], &'b [u8]) -> bool) -> Option<()> {
    loop {
        let (name, behind) = split(rest.trim_ascii_start(), b'=');
        let behind = behind.filter(|_| is_token(name))?;
        let (value, behind) = match behind.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = memchr::memchr(b'"', quoted)?;
                let value = &quoted[..end];
                // Some parsers would read on.
                (!value.ends_with(b"\\")).then_some(())?;
                (value, &quoted[end + 1..])
            }
            None => {
                let end = behind.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t')).unwrap_or(behind.len());
                (Some(&behind[..end]).filter(|value| is_token(value))?, &behind[end..])
            }
        };
        if !take(name, value) {
            return None;
        }
        match behind.trim_ascii_start().split_first() {
            None => return Some(()),
            Some((b';', more)) => rest = more,
            Some(_) => return None,
        }
    }
}

/// What stands before the first separator, and what behind it.
fn split(bytes: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(separator, bytes) {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}
