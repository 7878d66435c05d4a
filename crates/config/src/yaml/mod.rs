//! YAML in and out. Nothing else in the program knows the YAML libraries.
//!
//! Reading takes three steps: the events of the parser become a small tree that stores lines and columns (`tree`); `${VAR}` is
//! replaced in its scalars (`interpolate`), where it cannot change the structure any more; and serde reads the raw types out of the
//! tree (`de`). A scalar has no type of its own: the type that the configuration wants decides how it is read, so that a version
//! number stays a text, `on` stays a word and a quoted `"${PORT}"` may stand where a number is wanted.
//!
//! A problem does not end the reading. The entry that has it is cut off, and the rest is read again, until nothing new is found; so
//! one run of `weir check` names everything that is wrong with the form of a file.

mod de;
mod error;
mod interpolate;
mod tree;

use std::collections::HashSet;

pub(crate) use error::nearest;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::problem::{Origin, Problem};

/// Reads environment variables: name to value.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Problems after which the reading stops: each costs another pass.
const MAX_PROBLEMS: usize = 100;

/// Reads a document.
///
/// # Errors
/// Everything that is wrong with its syntax or, if that is right, with its form: unknown keys, values of the wrong kind, variables that are not set.
pub fn parse<T: DeserializeOwned>(text: &str, environment: Environment<'_>) -> Result<T, Vec<Problem>> {
    let tree = tree::Tree::build(text, environment)?;
    let mut cut = HashSet::new();
    let mut problems = Vec::new();
    loop {
        match T::deserialize(de::Value::root(&tree, &cut)) {
            Ok(value) if problems.is_empty() => return Ok(value),
            Ok(_) => return Err(problems),
            Err(error) => {
                let (line, column) = error.place.unwrap_or((1, 1));
                if !error.follows_from_another {
                    problems.push(Problem::new(Origin::File { line, column }, error.message));
                }
                // Each pass cuts off one entry more, so this ends.
                let go_on = error.slot.is_some_and(|slot| cut.insert(slot));
                if !go_on || problems.len() >= MAX_PROBLEMS {
                    return Err(problems);
                }
            }
        }
    }
}

/// Reads a document with the entries of `more` behind its own: nothing where something is wrong, which [`parse`] of the same as a text can say.
pub fn parse_with<T: DeserializeOwned>(text: &str, environment: Environment<'_>, more: &Value) -> Option<T> {
    let tree = tree::Tree::with_more(text, environment, more)?;
    T::deserialize(de::Value::root(&tree, &HashSet::new())).ok()
}

/// Writes a value as a YAML document.
pub fn to_string<T: Serialize>(value: &T) -> String {
    let options = serde_saphyr::ser_options! { compact_list_indent: false, yaml_12: true, no_lang_directive: true };
    serde_saphyr::to_string_with_options(value, options)
        .expect("raw types hold only texts, numbers, lists and mappings with text keys")
}

#[cfg(test)]
mod tests;
