//! What is searched for.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::numbers::{cards, ibans};

/// A kind of personal data, or an expression of the configuration.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// Addresses of mailboxes (the part of RFC 5321 section 4.1.2 that is in use: no quoted names, no bare addresses of hosts).
    Email,
    /// Telephone numbers: international ones with their `+` (E.164, 8 to 15 digits), and national ones in groups.
    Phone,
    /// Numbers of payment cards: 13 to 19 digits with a right check digit (ISO/IEC 7812-1, annex B).
    Card,
    /// International bank account numbers of the right length and with right check digits (ISO 13616-1).
    Iban,
    /// Whatever an expression matches.
    Own(Regex),
}

static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
    expression(r"[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]+@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]*[\p{L}\p{N}])?\.)+\p{L}{2,}")
});

static PHONE: LazyLock<Regex> = LazyLock::new(|| {
    expression(concat!(
        r"\+[0-9](?:[ ().\-/]{0,2}[0-9]){7,14}",
        r"|\([0-9]{3}\) ?[0-9]{3}[ .\-][0-9]{4}\b",
        r"|\b[0-9]{3}[ .\-][0-9]{3}[ .\-][0-9]{4}\b",
        r"|\b0[0-9]{1,5}[ \-/]{1,3}[0-9]{2,8}(?:[ \-][0-9]{2,6})*\b",
    ))
});

/// An expression of this file, which the tests compile.
fn expression(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Memory that an expression of the configuration may take.
const MAX_COMPILED: usize = 1 << 20;

impl FromStr for Pattern {
    type Err = String;

    /// `email`, `phone`, `card`, `iban` or `/EXPRESSION/`.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "email" => Pattern::Email,
            "phone" => Pattern::Phone,
            "card" => Pattern::Card,
            "iban" => Pattern::Iban,
            _ => {
                let expression = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
                let expression = expression.filter(|expression| !expression.is_empty());
                let expression = expression.ok_or_else(|| {
                    format!("`{text}` cannot be searched for; write email, phone, card, iban or an expression between slashes")
                })?;
                let built = RegexBuilder::new(expression).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).build();
                let regex = built.map_err(|error| match error {
                    regex::Error::CompiledTooBig(_) => {
                        "the regular expression is too large; shorten it, or its repetitions".to_owned()
                    }
                    error => format!("the regular expression cannot be read: {error}"),
                })?;
                if regex.is_match("") {
                    return Err(format!("`{text}` finds the empty text, which is everywhere"));
                }
                Pattern::Own(regex)
            }
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Own(regex) => write!(f, "/{regex}/"),
            _ => f.write_str(self.kind()),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Pattern::Own(one), Pattern::Own(other)) => one.as_str() == other.as_str(),
            _ => self.kind() == other.kind(),
        }
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Names of the kinds, in the order of [`Pattern::index`].
    pub const KINDS: [&str; 5] = ["email", "phone", "card", "iban", "own"];

    /// Which kind it is.
    pub fn index(&self) -> usize {
        match self {
            Pattern::Email => 0,
            Pattern::Phone => 1,
            Pattern::Card => 2,
            Pattern::Iban => 3,
            Pattern::Own(_) => 4,
        }
    }

    /// The name of its kind: expressions are `own`, because they may say too much.
    pub fn kind(&self) -> &'static str {
        Self::KINDS[self.index()]
    }

    /// Where it is in `text`, in order, none overlapping, none empty.
    pub fn find(&self, text: &str) -> Vec<Range<usize>> {
        let all = |regex: &Regex| {
            let matches = regex.find_iter(text).map(|found| found.range());
            matches.filter(|range| !range.is_empty()).collect()
        };
        match self {
            // Few texts have an `@`: a look for one costs less.
            Pattern::Email if !text.contains('@') => Vec::new(),
            Pattern::Email => all(&EMAIL),
            Pattern::Phone => {
                let mut found: Vec<Range<usize>> = all(&PHONE);
                found.retain(|range| text[range.clone()].bytes().filter(u8::is_ascii_digit).count() >= 8);
                found
            }
            Pattern::Card => cards(text),
            Pattern::Iban => ibans(text),
            Pattern::Own(regex) => all(regex),
        }
    }

    /// What takes its place.
    pub fn replacement(&self) -> &'static str {
        match self {
            Pattern::Email => "[EMAIL]",
            Pattern::Phone => "[PHONE]",
            Pattern::Card => "[CARD]",
            Pattern::Iban => "[IBAN]",
            Pattern::Own(_) => "[REDACTED]",
        }
    }
}
