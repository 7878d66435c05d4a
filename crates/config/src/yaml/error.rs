//! What serde finds wrong, in words for whoever wrote the file.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use super::tree::Slot;

/// A problem with one value of the tree.
#[derive(Debug)]
pub(super) struct Error {
    pub(super) message: String,
    /// Line and column.
    pub(super) place: Option<(u32, u32)>,
    /// The entry to leave out so that the rest can be read.
    pub(super) slot: Option<Slot>,
    /// A key is missing (it may have been cut off).
    pub(super) missing: bool,
    /// Only there because something else was cut off.
    pub(super) follows_from_another: bool,
}

impl Error {
    pub(super) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Error { message, place: None, slot: None, missing: false, follows_from_another: false }
    }

    /// Says where, unless something nearer has said so before.
    pub(super) fn or_at(mut self, place: (u32, u32), slot: Option<Slot>) -> Self {
        if self.place.is_none() {
            self.place = Some(place);
            self.slot = slot;
        }
        self
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Keys for AI traffic that are planned: whoever writes one should not be told that it was misspelt.
const LATER: [&str; 3] = ["clients", "engine", "capture"];

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Error::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Error::new(format!("expected {}, found {}", in_words(wanted), name_of(found)))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Error::new(format!("expected {}, found {}", in_words(wanted), name_of(found)))
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        Error::new(format!("expected {}, found {}", one_of(known), name_of(Unexpected::Str(found))))
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        if LATER.contains(&key) {
            return Error::new(format!("`{key}` is not supported yet; docs/ai.md says what is"));
        }
        let hint = if key == "<<" {
            "; merge keys are not supported: put common settings of routes into `defaults`".to_owned()
        } else if let Some(near) = nearest(key, known) {
            format!("; did you mean `{near}`?")
        } else if known.is_empty() {
            "; no key is allowed here".to_owned()
        } else {
            format!("; known here: {}", known.join(", "))
        };
        Error::new(format!("unknown key `{}`{hint}", shorten(key)))
    }

    fn missing_field(key: &'static str) -> Self {
        Error { missing: true, ..Error::new(format!("`{key}` is missing")) }
    }

    fn duplicate_field(key: &'static str) -> Self {
        Error::new(format!("`{key}` is given twice"))
    }
}

/// What is wanted, without Rust's names of types.
fn in_words(wanted: &dyn Expected) -> String {
    let wanted = wanted.to_string();
    match wanted.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number".to_owned(),
        "a nonzero u32" | "a nonzero u64" | "a nonzero usize" => "a whole number above 0".to_owned(),
        "f64" => "a number".to_owned(),
        "a string" => "a text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        _ => wanted,
    }
}

/// What was found instead.
fn name_of(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Str(text) => format!("`{}`", shorten(text)),
        Unexpected::Unsigned(number) => format!("`{number}`"),
        Unexpected::Signed(number) => format!("`{number}`"),
        Unexpected::Map => "a mapping".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        other => other.to_string(),
    }
}

/// The known name that was probably meant: one or two slips away, or one that the word begins or ends with.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    let allowed = (word.len() / 3).clamp(1, 3);
    known
        .iter()
        .map(|&name| (strsim::damerau_levenshtein(&word, name), name))
        .filter(|&(slips, name)| {
            slips <= allowed || (word.len() >= 4 && (name.starts_with(&word) || word.starts_with(name)))
        })
        .min_by_key(|&(slips, _)| slips)
        .map(|(_, name)| name)
}

fn one_of(known: &[&str]) -> String {
    match known {
        [] => "nothing".to_owned(),
        [one] => format!("`{one}`"),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|name| format!("`{name}`")).collect();
            format!("{} or `{last}`", first.join(", "))
        }
    }
}

/// A text as it can be in a message: one line, not too long.
fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    let mut short: String = text.chars().take(MOST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        short.push_str("...");
    }
    short
}
