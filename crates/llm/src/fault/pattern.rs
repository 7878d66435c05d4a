//! Texts by which providers say what is wrong.

use super::Fault;
use crate::response::UpstreamError;
use std::sync::LazyLock;

/// Where a pattern is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchedPart {
    Code,
    Type,
    Message,
}

/// One line of `patterns.txt`.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) fault: Fault,
    /// `None`: any status.
    pub(super) status: Option<u16>,
    pub(super) place: SearchedPart,
    /// In lower case; `*` stands for any text. Messages contain it, codes and types are equal to it.
    pub(super) text: &'static str,
    /// A real text that it matches.
    #[cfg(test)]
    pub(super) example: &'static str,
}

pub(super) static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    include_str!("patterns.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| {
            let mut parts = line.split(" | ").map(str::trim);
            Some(Pattern {
                fault: Fault(parts.next()?.strip_prefix('F')?.parse().ok()?),
                status: parts.next()?.parse().ok(),
                place: match parts.next()? {
                    "code" => SearchedPart::Code,
                    "type" => SearchedPart::Type,
                    _ => SearchedPart::Message,
                },
                text: parts.next()?,
                #[cfg(test)]
                example: parts.next()?,
            })
        })
        .collect()
});

/// The fault of the first pattern that fits.
pub(super) fn find(status: u16, error: &UpstreamError) -> Option<Fault> {
    let message = error.message.to_ascii_lowercase();
    PATTERNS
        .iter()
        .filter(|pattern| pattern.status.is_none_or(|expected| expected == status))
        .find(|pattern| match pattern.place {
            SearchedPart::Code => error.code.eq_ignore_ascii_case(pattern.text),
            SearchedPart::Type => error.kind.eq_ignore_ascii_case(pattern.text),
            SearchedPart::Message => contains(&message, pattern.text),
        })
        .map(|pattern| pattern.fault)
}

/// Whether `text` has the parts of `pattern` between `*`, in order.
fn contains(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}
