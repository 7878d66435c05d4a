//! `Cache-Control` of requests and of responses (RFC 9111 section 5.2, RFC 5861).
//!
//! The parser is kind where kindness is safe and strict where a guess could make a response more cacheable than it is: names in any
//! case, quoted arguments and unknown directives are accepted; a restriction holds also with an argument that makes no sense; a lifetime
//! that is not a number, or that is given twice with different values, is zero.

use h1::Known;

use super::lines::Lines;
use super::list::{self, is_tchar, quoted_length, trim};

/// Argument of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument<'a> {
    /// There is none.
    Absent,
    /// A token.
    Token(&'a [u8]),
    /// What stands between the quotes, escapes as they came.
    Quoted(&'a [u8]),
    /// A number of seconds, as structured fields have it.
    Seconds(u32),
    /// Something else.
    Malformed,
}

impl<'a> Argument<'a> {
    /// As seconds; both forms are accepted, whichever is required for generation (section 5.2).
    pub fn seconds(self) -> Option<u32> {
        match self {
            Argument::Token(digits) | Argument::Quoted(digits) => list::delta_seconds(digits),
            Argument::Seconds(seconds) => Some(seconds),
            Argument::Absent | Argument::Malformed => None,
        }
    }

    /// As field names; `None` if it is not a list of them with at least one.
    fn names(self) -> Option<&'a [u8]> {
        let (Argument::Token(names) | Argument::Quoted(names)) = self else { return None };
        let mut any = false;
        let valid = list::elements(names).all(|name| {
            any = true;
            list::is_token(name)
        });
        (valid && any).then_some(names)
    }
}

/// Directives of one field value, in order: name and argument.
pub fn directives(value: &[u8]) -> impl Iterator<Item = (&[u8], Argument<'_>)> {
    let mut rest = value;
    std::iter::from_fn(move || {
        loop {
            while let [b' ' | b'\t' | b',', after @ ..] = rest {
                rest = after;
            }
            if rest.is_empty() {
                return None;
            }
            let name_length = rest.iter().position(|&byte| !is_tchar(byte)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(name_length);
            let (argument, after) = argument(after);
            rest = after;
            if !name.is_empty() {
                return Some((name, argument));
            }
        }
    })
}

/// What follows a name, up to the comma that ends the directive, and the rest. A quoted string that does not end ends at the next comma,
/// so that restrictions that follow are still seen.
fn argument(rest: &[u8]) -> (Argument<'_>, &[u8]) {
    let to_comma = |bytes: &[u8]| memchr::memchr(b',', bytes).unwrap_or(bytes.len());
    if let [b'=', quoted @ ..] = rest
        && let Some(length) = quoted_length(quoted)
    {
        let (string, after) = quoted.split_at(length);
        let end = to_comma(after);
        let argument =
            if trim(&after[..end]).is_empty() { Argument::Quoted(&string[1..length - 1]) } else { Argument::Malformed };
        return (argument, &after[end..]);
    }
    let (text, after) = rest.split_at(to_comma(rest));
    let argument = match trim(text) {
        [] => Argument::Absent,
        [b'=', token @ ..] if text.first() == Some(&b'=') && list::is_token(token) => Argument::Token(token),
        _ => Argument::Malformed,
    };
    (argument, after)
}

/// Cache directives of a request (RFC 9111 section 5.2.1); times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestControl {
    /// `no-cache`: not without validation.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `only-if-cached`: from here, or 504.
    pub only_if_cached: bool,
    /// `max-age`.
    pub max_age: Option<u32>,
    /// `max-stale`; without a value every age is good.
    pub max_stale: Option<u32>,
    /// `min-fresh`.
    pub min_fresh: Option<u32>,
    /// `stale-if-error` (RFC 5861 section 4).
    pub stale_if_error: Option<u32>,
}

impl RequestControl {
    /// Takes one field value into account. Twice the same directive: the stricter one.
    pub fn add(&mut self, value: &[u8]) {
        for (name, argument) in directives(value) {
            // What cannot be understood counts as the strictest: zero for an age, endless for freshness to come.
            match name.len() {
                7 if is(name, "max-age") => least(&mut self.max_age, argument.seconds().unwrap_or(0)),
                8 if is(name, "no-cache") => self.no_cache = true,
                8 if is(name, "no-store") => self.no_store = true,
                9 if is(name, "max-stale") => match argument {
                    Argument::Absent => least(&mut self.max_stale, u32::MAX),
                    _ => least(&mut self.max_stale, argument.seconds().unwrap_or(0)),
                },
                9 if is(name, "min-fresh") => {
                    let seconds = argument.seconds().unwrap_or(list::INFINITE_SECONDS);
                    self.min_fresh = Some(self.min_fresh.map_or(seconds, |before| before.max(seconds)));
                }
                14 if is(name, "only-if-cached") => self.only_if_cached = true,
                14 if is(name, "stale-if-error") => least(&mut self.stale_if_error, argument.seconds().unwrap_or(0)),
                _ => {}
            }
        }
    }
}

/// What a response says to caches (RFC 9111 section 5.2.2); times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseControl {
    /// `no-store`.
    pub no_store: bool,
    /// `no-cache` without field names.
    pub no_cache: bool,
    /// `private` without field names.
    pub private: bool,
    /// `no-cache` or `private` with field names: [`withheld`] says which.
    pub has_field_names: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `max-age`.
    pub max_age: Option<u32>,
    /// `s-maxage`.
    pub s_maxage: Option<u32>,
    /// `stale-while-revalidate` (RFC 5861 section 3).
    pub stale_while_revalidate: Option<u32>,
    /// `stale-if-error` (RFC 5861 section 4).
    pub stale_if_error: Option<u32>,
    /// Part of the field could not be read: the response counts as stale.
    pub malformed: bool,
}

impl ResponseControl {
    /// Reads all `Cache-Control` lines of a head.
    pub fn read<'a>(lines: impl Lines<'a>) -> Self {
        let mut control = ResponseControl::default();
        lines.values(Known::CacheControl).for_each(|value| control.add(value));
        control
    }

    /// Takes one field value into account.
    pub fn add(&mut self, value: &[u8]) {
        for (name, argument) in directives(value) {
            self.malformed |= argument == Argument::Malformed;
            self.apply(name, argument);
        }
    }

    /// Takes one directive into account.
    pub(super) fn apply(&mut self, name: &[u8], argument: Argument<'_>) {
        match name.len() {
            // What widens the use of a response must be written as it is defined.
            6 if is(name, "public") => self.public |= argument == Argument::Absent,
            7 if is(name, "max-age") => lifetime(&mut self.max_age, argument),
            7 if is(name, "private") => match useful_names(argument) {
                Some(_) => self.has_field_names = true,
                None => self.private = true,
            },
            8 if is(name, "no-store") => self.no_store = true,
            8 if is(name, "no-cache") => match useful_names(argument) {
                Some(_) => self.has_field_names = true,
                None => self.no_cache = true,
            },
            8 if is(name, "s-maxage") => lifetime(&mut self.s_maxage, argument),
            14 if is(name, "stale-if-error") => lifetime(&mut self.stale_if_error, argument),
            15 if is(name, "must-revalidate") => self.must_revalidate = true,
            15 if is(name, "must-understand") => self.must_understand |= argument == Argument::Absent,
            16 if is(name, "proxy-revalidate") => self.proxy_revalidate = true,
            22 if is(name, "stale-while-revalidate") => lifetime(&mut self.stale_while_revalidate, argument),
            _ => {}
        }
    }

    /// Whether a shared cache may respond to a request with `Authorization` from it (RFC 9111 section 3.5).
    pub fn allows_authorized(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }

    /// Whether the origin says expressly that all clients may share it. `must-revalidate` says no such thing about cookies.
    pub fn is_for_all(&self) -> bool {
        self.public || self.s_maxage.is_some()
    }

    /// Whether it must not be used stale (RFC 9111 sections 5.2.2.2, 5.2.2.8 and 5.2.2.10).
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.s_maxage.is_some()
    }
}

/// Names in the argument of `no-cache` or `private`, if it makes sense to leave out these fields. Without the fields that say how the content
/// is to be read the rest is no use: the directive is then taken as if it had no argument, which is always allowed.
fn useful_names(argument: Argument<'_>) -> Option<&[u8]> {
    let names = argument.names()?;
    let needed = |name: &[u8]| {
        matches!(
            Known::of(name),
            Known::ContentEncoding
                | Known::ContentType
                | Known::ContentLength
                | Known::ContentRange
                | Known::TransferEncoding
                | Known::Vary
                | Known::CacheControl
                | Known::CdnCacheControl
                | Known::Date
                | Known::Expires
                | Known::Age
                | Known::Etag
                | Known::LastModified
                | Known::Location
        )
    };
    (!list::elements(names).any(needed)).then_some(names)
}

/// Whether `no-cache` or `private` in this value withholds a field of that name (RFC 9111 sections 5.2.2.4 and 5.2.2.7).
pub fn withheld(value: &[u8], field: &[u8]) -> bool {
    directives(value).any(|(name, argument)| withholds(name, argument, field))
}

/// The same, of one directive.
pub(super) fn withholds(name: &[u8], argument: Argument<'_>, field: &[u8]) -> bool {
    (is(name, "no-cache") || is(name, "private"))
        && useful_names(argument)
            .is_some_and(|names| list::elements(names).any(|name| name.eq_ignore_ascii_case(field)))
}

fn is(name: &[u8], directive: &str) -> bool {
    name.eq_ignore_ascii_case(directive.as_bytes())
}

fn least(slot: &mut Option<u32>, seconds: u32) {
    *slot = Some(slot.map_or(seconds, |before| before.min(seconds)));
}

/// RFC 9111 section 4.2.1: what is given twice, or is not a number, makes the response stale.
fn lifetime(slot: &mut Option<u32>, argument: Argument<'_>) {
    let seconds = argument.seconds().unwrap_or(0);
    *slot = Some(match *slot {
        Some(before) if before != seconds => 0,
        _ => seconds,
    });
}
