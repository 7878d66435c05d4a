//! Which directives of a response count: those of `CDN-Cache-Control` (RFC 9213), else those of `Cache-Control`.

use h1::Known;

use super::cache_control::{self, Argument, ResponseControl};
use super::lines::Lines;
use super::list::INFINITE_SECONDS;
use super::sf::{self, Value};

/// The directives that count for this cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effective {
    /// What they say.
    pub control: ResponseControl,
    /// They come from `CDN-Cache-Control`: `Cache-Control` and `Expires` say nothing to this cache (RFC 9213 section 2.2).
    pub is_targeted: bool,
}

impl Effective {
    /// Reads a response.
    pub fn read<'a>(lines: impl Lines<'a>) -> Self {
        match targeted(lines) {
            Some(control) => Effective { control, is_targeted: true },
            None => Effective { control: ResponseControl::read(lines), is_targeted: false },
        }
    }

    /// Whether a field of that name is left out of what is stored, because `no-cache` or `private` names it.
    pub fn withholds<'a>(&self, lines: impl Lines<'a>, name: &[u8]) -> bool {
        if !self.control.has_field_names {
            return false;
        }
        if !self.is_targeted {
            return lines.values(Known::CacheControl).any(|value| cache_control::withheld(value, name));
        }
        let mut withheld = false;
        // Of a key that comes twice both lists are left out: more than requested does no harm.
        members(lines, |key, value| withheld |= cache_control::withholds(key, argument("", value), name));
        withheld
    }
}

/// What `CDN-Cache-Control` says; `None` if it is not there, empty, or no dictionary (RFC 9213 section 2.1).
fn targeted<'a>(lines: impl Lines<'a>) -> Option<ResponseControl> {
    lines.first(Known::CdnCacheControl)?;
    // A key that comes again replaces what it said before (RFC 8941 section 4.2.2).
    let mut last = [None; DIRECTIVES.len()];
    let mut is_empty = true;
    members(lines, |key, value| {
        is_empty = false;
        if let Some(index) = DIRECTIVES.iter().position(|directive| directive.as_bytes() == key) {
            last[index] = Some(value);
        }
    })?;
    if is_empty {
        return None;
    }
    let mut control = ResponseControl::default();
    for (name, value) in DIRECTIVES.iter().zip(last) {
        match value {
            None | Some(Value::Boolean(false)) => {}
            Some(value) => control.apply(name.as_bytes(), argument(name, value)),
        }
    }
    Some(control)
}

/// Directives that mean something here; keys of dictionaries are in lower case.
const DIRECTIVES: [&str; 11] = [
    "max-age",
    "s-maxage",
    "no-store",
    "no-cache",
    "private",
    "public",
    "must-revalidate",
    "proxy-revalidate",
    "must-understand",
    "stale-while-revalidate",
    "stale-if-error",
];

/// Hands out the members of all lines; `None` if they are no dictionary. Lines are joined by commas (RFC 8941 section 4.2), so that each must
/// be a dictionary by itself, and not an empty one beside others. (A string that began in one line and ended in the next would be
/// an exception, which no sender produces; here it is an error.)
fn members<'a>(lines: impl Lines<'a>, mut member: impl FnMut(&'a [u8], Value<'a>)) -> Option<()> {
    let mut count = 0;
    let mut has_empty = false;
    for value in lines.values(Known::CdnCacheControl) {
        count += 1;
        has_empty |= value.is_empty();
        sf::dictionary(value, &mut member).ok()?;
    }
    (count == 1 || !has_empty).then_some(())
}

/// A value as the argument of a directive. One of a type that the directive does not have is not consumed (RFC 9213 section 2.1); what
/// [`ResponseControl`] makes of a malformed argument never lets a response live longer or be shared by more.
fn argument<'a>(directive: &str, value: Value<'a>) -> Argument<'a> {
    let is_lifetime = matches!(directive, "max-age" | "s-maxage" | "stale-while-revalidate" | "stale-if-error");
    match value {
        Value::Integer(seconds) if is_lifetime => match u64::try_from(seconds) {
            Ok(seconds) => Argument::Seconds(seconds.min(u64::from(INFINITE_SECONDS)) as u32),
            Err(_) => Argument::Malformed,
        },
        _ if is_lifetime => Argument::Malformed,
        Value::Boolean(true) => Argument::Absent,
        Value::String(text) => Argument::Quoted(text),
        Value::Token(token) => Argument::Token(token),
        Value::Boolean(false) | Value::Integer(_) | Value::Other => Argument::Malformed,
    }
}
