//! What is wrong with a configuration, and where it says so.

use std::error::Error;
use std::fmt;

/// Problems listed before the rest is only counted.
const SHOWN: usize = 20;

/// Where a value was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// A place in a file; both count from 1, columns in characters.
    File {
        /// Line.
        line: u32,
        /// Column.
        column: u32,
    },
    /// An environment variable.
    Variable(&'static str),
    /// Nowhere: a default, or a value made by the program.
    #[default]
    Nowhere,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// What, and what to do about it.
    pub message: String,
}

impl Problem {
    /// A problem with what stands at `origin`. The message stays on one line, whatever values it quotes.
    pub fn new(origin: Origin, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if message.contains(char::is_control) {
            message = message.replace(char::is_control, "\u{fffd}");
        }
        Problem { origin, message }
    }
}

/// Everything that is wrong with one configuration; never empty.
#[derive(Debug, Clone)]
pub struct Problems {
    /// Name of the file; unused for the environment.
    source: String,
    /// Text of the file, for excerpts.
    text: String,
    /// In the order of the file.
    list: Vec<Problem>,
}

impl Problems {
    /// Problems of a file named `source` that holds `text`.
    pub fn in_file(source: &str, text: &str, mut list: Vec<Problem>) -> Self {
        // Stable: problems of one place keep the order in which they were found.
        list.sort_by_key(|problem| match problem.origin {
            Origin::File { line, column } => (line, column),
            Origin::Variable(_) | Origin::Nowhere => (u32::MAX, 0),
        });
        Problems { source: source.to_owned(), text: text.to_owned(), list }
    }

    /// Problems of the environment.
    pub fn in_environment(list: Vec<Problem>) -> Self {
        Problems { source: "environment".to_owned(), text: String::new(), list }
    }

    /// The lines of a file that have problems, with what is wrong.
    pub fn lines(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        self.list().iter().filter_map(|problem| match problem.origin {
            Origin::File { line, .. } => Some((line as usize, problem.message.clone())),
            Origin::Variable(_) | Origin::Nowhere => None,
        })
    }

    /// Each problem, in the order of the file.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
}

impl Error for Problems {}

impl fmt::Display for Problems {
    /// One line a problem, `FILE:LINE:COLUMN: message`, and below it the line of the file with a mark under the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.list.iter().take(SHOWN).enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            match problem.origin {
                Origin::File { line, column } => {
                    write!(f, "{}:{line}:{column}: {}", self.source, problem.message)?;
                    if let Some(text) = excerpt(&self.text, line) {
                        let gutter = line.to_string();
                        let blank = " ".repeat(gutter.len());
                        let mark = indent_like(text, column);
                        let text = without_secrets(text);
                        write!(f, "\n  {gutter} | {text}\n  {blank} | {mark}^")?;
                    }
                }
                Origin::Variable(name) => write!(f, "{name}: {}", problem.message)?,
                Origin::Nowhere => write!(f, "{}: {}", self.source, problem.message)?,
            }
        }
        if self.list.len() > SHOWN {
            write!(f, "\n... and {} more", self.list.len() - SHOWN)?;
        }
        Ok(())
    }
}

/// The line, unless it is too long to help.
fn excerpt(text: &str, line: u32) -> Option<&str> {
    let line = text.lines().nth(line.checked_sub(1)? as usize)?;
    (!line.trim().is_empty() && line.len() <= 200).then_some(line)
}

/// Keys whose values are not shown: errors of a reload end up in logs.
const SECRETS: [&str; 3] = ["secret:", "pepper:", "password:"];

/// The line with a blank of the same length in place of each secret, so that marks stay right.
fn without_secrets(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((at, key)) = SECRETS.iter().filter_map(|key| Some((rest.find(key)?, key))).min() {
        let value = at + key.len();
        let end = rest[value..].find([',', '}']).map_or(rest.len(), |end| value + end);
        out.push_str(&rest[..value]);
        out.extend(rest[value..end].chars().map(|letter| if letter == ' ' { ' ' } else { '*' }));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Blanks that reach as far as column `column` of `text`; tabs stay tabs, so that the mark stands right on any terminal.
fn indent_like(text: &str, column: u32) -> String {
    let before = (column as usize).saturating_sub(1);
    text.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn an_excerpt_shows_no_secret() {
        assert_eq!(
            without_secrets("  a: {jwt: {secret: hunter2, issuer: me}}"),
            "  a: {jwt: {secret: *******, issuer: me}}"
        );
        assert_eq!(without_secrets("pepper: x y"), "pepper: * *");
        assert_eq!(without_secrets("limits: {a: 1}"), "limits: {a: 1}");
    }
}
