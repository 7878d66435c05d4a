//! One form of every path: what is routed, limited, cached and forwarded is the same text.
//!
//! The rule (RFC 3986 §6.2.2, with everything refused that servers are known to read in two ways):
//!
//! - dot segments are removed; one that would climb above the root is refused;
//! - escapes of unreserved characters (letters, digits, `-._~`) are decoded, which is never a change of meaning; every other escape is
//!   kept, with its digits in upper case;
//! - `//`, `%2f`, `;`, and `\` with `%5c`, are refused unless the [`Policy`] says otherwise; so are escaped bytes that are not valid UTF-8
//!   (overlong sequences too);
//! - always refused, with a reason: `#`, escaped control characters, an escape that is not two hexadecimal digits, and bytes that are not
//!   printable ASCII;
//! - the query is left as it came, but holds printable ASCII only.
//!
//! Normalising the result again changes nothing. It is not longer than the input, but for a `\` that is kept as `%5C`.

use std::fmt;

/// What happens to a form that servers read in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Treatment {
    /// The request is refused.
    #[default]
    Refuse,
    /// It becomes what most servers take it for: one slash.
    Slash,
    /// It stays.
    Keep,
}

/// What happens to the forms that servers read in two ways. The same everywhere: routes, limits, cache and upstream see one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// `//`.
    pub double_slash: Treatment,
    /// `%2f`.
    pub encoded_slash: Treatment,
    /// `;`; never a slash.
    pub semicolon: Treatment,
    /// `\` and `%5c`; kept as `%5C`, since the other one has no place in a URL.
    pub backslash: Treatment,
    /// Whether escapes may stand for bytes that are not valid UTF-8.
    pub keeps_invalid_utf8: bool,
}

/// A request target in the one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// Begins with `/`.
    pub path: &'a [u8],
    /// What follows the first `?`, if there is one.
    pub query: Option<&'a [u8]>,
}

/// Why a target is refused (400).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Does not begin with `/`.
    NotAPath,
    /// `//`: some servers merge the two, some do not.
    EmptySegment,
    /// `..` in the first segment.
    AboveRoot,
    /// `\`: a slash to some servers.
    Backslash,
    /// `;`: begins a parameter for some servers, which then match the path without it.
    Semicolon,
    /// `#`: ends the path for some servers.
    Fragment,
    /// `%2f`: a slash to some servers.
    EscapedSlash,
    /// `%5c`: a backslash, and then a slash, to some servers.
    EscapedBackslash,
    /// `%00` to `%1f` or `%7f`: ends the path, or a line of a log or header, for some programs.
    EscapedControl,
    /// `%` without two hexadecimal digits.
    BadEscape,
    /// Escapes that are not UTF-8: `%c0%ae` is a dot to some servers, which do not look at how long a sequence has to be.
    NotUtf8,
    /// A byte that is a control character, a space, or not ASCII.
    NotPrintable,
}

impl Refusal {
    /// One word for logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Refusal::NotAPath => "target_not_a_path",
            Refusal::EmptySegment => "path_empty_segment",
            Refusal::AboveRoot => "path_above_root",
            Refusal::Backslash => "path_backslash",
            Refusal::Semicolon => "path_semicolon",
            Refusal::Fragment => "target_fragment",
            Refusal::EscapedSlash => "path_escaped_slash",
            Refusal::EscapedBackslash => "path_escaped_backslash",
            Refusal::EscapedControl => "path_escaped_control",
            Refusal::BadEscape => "path_bad_escape",
            Refusal::NotUtf8 => "path_not_utf8",
            Refusal::NotPrintable => "target_not_printable",
        }
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// In words, for the client.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::NotAPath => "the target does not begin with `/`",
            Refusal::EmptySegment => "the path holds `//`",
            Refusal::AboveRoot => "the path climbs above the root",
            Refusal::Backslash => "the path holds a backslash",
            Refusal::Semicolon => "the path holds `;`",
            Refusal::Fragment => "the target holds `#`",
            Refusal::EscapedSlash => "the path holds an escaped slash",
            Refusal::EscapedBackslash => "the path holds an escaped backslash",
            Refusal::EscapedControl => "the path holds an escaped control character",
            Refusal::BadEscape => "the path holds `%` without two hexadecimal digits",
            Refusal::NotUtf8 => "the path holds escaped bytes that are not valid UTF-8",
            Refusal::NotPrintable => "the target holds a byte that is not printable ASCII",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// What a byte of a path means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Slash,
    Dot,
    Percent,
    Question,
    Backslash,
    Semicolon,
    Hash,
    NotPrintable,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::NotPrintable; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        classes[byte] = match byte as u8 {
            b'/' => Class::Slash,
            b'.' => Class::Dot,
            b'%' => Class::Percent,
            b'?' => Class::Question,
            b'\\' => Class::Backslash,
            b';' => Class::Semicolon,
            b'#' => Class::Hash,
            _ => Class::Plain,
        };
        byte += 1;
    }
    classes
};

/// What an escape becomes.
enum Escape {
    /// An unreserved character.
    Decoded(u8),
    /// A slash, or what stands for one.
    Slash,
    /// Stays, with these digits.
    Kept([u8; 2]),
}

/// Writes a target in origin form (RFC 9112 §3.2.1) in the one form.
///
/// A target that is already in it is returned as it is; any other is written to `scratch`, which is cleared first and can be used again
/// for the next request.
///
/// # Errors
/// The first thing from the left that has two readings.
pub fn normalise<'a>(target: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Target<'a>, Refusal> {
    normalise_by(Policy::default(), target, scratch)
}

/// The same by the policy of the configuration.
///
/// # Errors
/// As [`normalise`].
pub fn normalise_by<'a>(policy: Policy, target: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Target<'a>, Refusal> {
    let target = normalise_bytes(policy, target, scratch)?;
    if !policy.keeps_invalid_utf8 && target.path.contains(&b'%') && !is_utf8(target.path) {
        return Err(Refusal::NotUtf8);
    }
    Ok(target)
}

fn normalise_bytes<'a>(policy: Policy, target: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Target<'a>, Refusal> {
    if target.first() != Some(&b'/') {
        return Err(Refusal::NotAPath);
    }
    let mut at = 1;
    // From one byte that means something to the next: most are plain.
    while let Some(plain) = target[at..].iter().position(|&byte| CLASSES[usize::from(byte)] != Class::Plain) {
        at += plain;
        let after_slash = target[at - 1] == b'/';
        match CLASSES[usize::from(target[at])] {
            Class::Plain => {}
            Class::Question => {
                let query = check_query(&target[at + 1..])?;
                return Ok(Target { path: &target[..at], query: Some(query) });
            }
            Class::Slash if after_slash => match policy.double_slash {
                Treatment::Refuse => return Err(Refusal::EmptySegment),
                Treatment::Slash => return rewrite(policy, target, at, scratch),
                Treatment::Keep => {}
            },
            Class::Slash => {}
            Class::Dot if after_slash && may_be_dots(&target[at..]) => return rewrite(policy, target, at, scratch),
            Class::Dot => {}
            Class::Percent => match escape(policy, target, at)? {
                Escape::Kept(digits) if digits == target[at + 1..at + 3] => at += 2,
                Escape::Kept(_) | Escape::Decoded(_) | Escape::Slash => return rewrite(policy, target, at, scratch),
            },
            Class::Semicolon if policy.semicolon != Treatment::Refuse => {}
            Class::Backslash if policy.backslash != Treatment::Refuse => return rewrite(policy, target, at, scratch),
            refused => return Err(refusal(refused)),
        }
        at += 1;
    }
    Ok(Target { path: target, query: None })
}

/// Whether a segment that begins with a dot may be `.` or `..`; `.well-known` is nothing special.
fn may_be_dots(rest: &[u8]) -> bool {
    let rest = rest.strip_prefix(b"..").or(rest.strip_prefix(b".")).unwrap_or(rest);
    matches!(
        rest,
        [] | [b'/' | b'?' | b'\\', ..] | [b'%', b'2', b'e' | b'E' | b'f' | b'F', ..] | [b'%', b'5', b'c' | b'C', ..]
    )
}

/// The rest of the way for a path of which the first `clean` bytes need no change.
fn rewrite<'a>(
    policy: Policy,
    target: &'a [u8],
    clean: usize,
    scratch: &'a mut Vec<u8>,
) -> Result<Target<'a>, Refusal> {
    scratch.clear();
    scratch.extend_from_slice(&target[..clean]);
    // Where the segment that is being written begins: just behind a slash, always.
    let mut segment = scratch.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let mut at = clean;
    let mut query = None;
    while let Some(&byte) = target.get(at) {
        at += 1;
        match CLASSES[usize::from(byte)] {
            Class::Plain | Class::Dot => scratch.push(byte),
            Class::Percent => {
                match escape(policy, target, at - 1)? {
                    Escape::Decoded(character) => scratch.push(character),
                    Escape::Kept([high, low]) => scratch.extend_from_slice(&[b'%', high, low]),
                    Escape::Slash => segment = end_segment(policy, scratch, segment)?,
                }
                at += 2;
            }
            Class::Slash => segment = end_segment(policy, scratch, segment)?,
            Class::Semicolon if policy.semicolon != Treatment::Refuse => scratch.push(byte),
            Class::Backslash if policy.backslash == Treatment::Slash => {
                segment = end_segment(policy, scratch, segment)?;
            }
            Class::Backslash if policy.backslash == Treatment::Keep => scratch.extend_from_slice(b"%5C"),
            Class::Question => {
                query = Some(check_query(&target[at..])?);
                break;
            }
            refused => return Err(refusal(refused)),
        }
    }
    remove_dots(scratch, segment)?;
    Ok(Target { path: scratch, query })
}

/// A slash behind the segment that begins at `segment`; returns where the next one begins.
fn end_segment(policy: Policy, path: &mut Vec<u8>, segment: usize) -> Result<usize, Refusal> {
    if path.len() == segment {
        match policy.double_slash {
            Treatment::Refuse => return Err(Refusal::EmptySegment),
            Treatment::Slash => {}
            Treatment::Keep => path.push(b'/'),
        }
    } else if !remove_dots(path, segment)? {
        path.push(b'/');
    }
    Ok(path.len())
}

/// Removes the last segment if it is `.`, and the one before it too if it is `..`; what is left ends in a slash. Says whether it did.
fn remove_dots(path: &mut Vec<u8>, segment: usize) -> Result<bool, Refusal> {
    match &path[segment..] {
        b"." => path.truncate(segment),
        b".." => {
            // `/a/..`: the slash before `a` is the last one of `/a`, that is, before the slash at `segment - 1`.
            let parent = path[..segment - 1].iter().rposition(|&byte| byte == b'/');
            path.truncate(parent.ok_or(Refusal::AboveRoot)? + 1);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn escape(policy: Policy, target: &[u8], at: usize) -> Result<Escape, Refusal> {
    let digit = |offset: usize| {
        let byte = *target.get(at + offset).ok_or(Refusal::BadEscape)?;
        let value = char::from(byte).to_digit(16).ok_or(Refusal::BadEscape)?;
        Ok((value as u8, byte.to_ascii_uppercase()))
    };
    let (high, high_digit) = digit(1)?;
    let (low, low_digit) = digit(2)?;
    match high << 4 | low {
        slash @ (b'/' | b'\\') => {
            let (treatment, refusal) = match slash {
                b'/' => (policy.encoded_slash, Refusal::EscapedSlash),
                _ => (policy.backslash, Refusal::EscapedBackslash),
            };
            match treatment {
                Treatment::Refuse => Err(refusal),
                Treatment::Slash => Ok(Escape::Slash),
                Treatment::Keep => Ok(Escape::Kept([high_digit, low_digit])),
            }
        }
        0x00..=0x1f | 0x7f => Err(Refusal::EscapedControl),
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => Ok(Escape::Decoded(byte)),
        _ => Ok(Escape::Kept([high_digit, low_digit])),
    }
}

/// Whether the escapes of a path in the one form stand for valid UTF-8 (RFC 3629).
fn is_utf8(path: &[u8]) -> bool {
    let escaped = |at: usize| match path.get(at..at + 3) {
        Some(&[b'%', high, low]) => {
            let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
            Some(digit(high) << 4 | digit(low))
        }
        _ => None,
    };
    let mut at = 0;
    while at < path.len() {
        let Some(first) = escaped(at) else {
            at += 1;
            continue;
        };
        let length = match first {
            0..=0x7f => 1,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return false,
        };
        let mut character = [0; 4];
        for (index, byte) in character[..length].iter_mut().enumerate() {
            let Some(escaped) = escaped(at + 3 * index) else { return false };
            *byte = escaped;
        }
        if std::str::from_utf8(&character[..length]).is_err() {
            return false;
        }
        at += 3 * length;
    }
    true
}

fn check_query(query: &[u8]) -> Result<&[u8], Refusal> {
    match query.iter().find(|&&byte| !byte.is_ascii_graphic() || byte == b'#') {
        None => Ok(query),
        Some(b'#') => Err(Refusal::Fragment),
        Some(_) => Err(Refusal::NotPrintable),
    }
}

fn refusal(class: Class) -> Refusal {
    match class {
        Class::Backslash => Refusal::Backslash,
        Class::Semicolon => Refusal::Semicolon,
        Class::Hash => Refusal::Fragment,
        Class::Slash => Refusal::EmptySegment,
        Class::Percent => Refusal::BadEscape,
        Class::Plain | Class::Dot | Class::Question | Class::NotPrintable => Refusal::NotPrintable,
    }
}

#[cfg(test)]
mod tests;
