//! What routes want of a header field or a query parameter, and patterns.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};

/// Longest text of a pattern.
const MAX_TEXT: usize = 1024;
/// Memory of a compiled pattern. The time of a search is proportional to it.
const MAX_COMPILED: usize = 32 << 10;
/// Memory of what a pattern builds while it searches.
const MAX_BUILT: usize = 1 << 20;
/// Longest text that is searched, so that no request keeps a worker busy for longer than a few milliseconds.
pub const MAX_SEARCHED: usize = 8 << 10;

/// A regular expression that the whole of a text has to match. Searching takes time in proportion to its size and the length of the text.
#[derive(Clone)]
pub struct Pattern {
    text: Arc<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern; classes such as `\w` stand for ASCII, and `.` for any byte: a line break must not hide what a pattern is there to find.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > MAX_TEXT {
            return Err(format!("a regular expression has 1 to {MAX_TEXT} bytes"));
        }
        // By itself first: what is unbalanced could leave the group that holds it to both ends.
        compile(text)?;
        let regex = compile(&format!(r"\A(?:{text})\z"))?;
        Ok(Pattern { text: text.into(), regex })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a text that begins with `byte` may match; false only where none can.
    pub fn may_begin_with(&self, byte: u8) -> bool {
        let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(&self.text);
        // It was compiled by the same rules, so it can be read.
        parsed.map_or(true, |hir| begins(&hir, byte).may)
    }

    /// Whether all of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(text);
    builder.unicode(false).dot_matches_new_line(true);
    let built = builder.size_limit(MAX_COMPILED).dfa_size_limit(MAX_BUILT).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            "the regular expression is too large; shorten it, or its repetitions".to_owned()
        }
        // The last line says what is wrong; those before it draw where.
        other => {
            let shown = other.to_string();
            let reason = shown.lines().last().unwrap_or_default();
            format!("not a regular expression: {}", reason.trim_start_matches("error: "))
        }
    })
}

/// How what an expression matches may begin.
#[derive(Clone, Copy)]
struct Begins {
    /// With the byte that is looked for.
    may: bool,
    /// It may be empty, so that what follows decides.
    may_be_empty: bool,
}

fn begins(hir: &Hir, byte: u8) -> Begins {
    match hir.kind() {
        // The bytes that an assertion requires around it are not looked at.
        HirKind::Empty | HirKind::Look(_) => Begins { may: false, may_be_empty: true },
        HirKind::Literal(literal) => Begins { may: literal.0.first() == Some(&byte), may_be_empty: false },
        HirKind::Class(Class::Bytes(class)) => {
            let may = class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte));
            Begins { may, may_be_empty: false }
        }
        HirKind::Class(Class::Unicode(class)) => {
            let may = class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&char::from(byte)));
            Begins { may, may_be_empty: false }
        }
        HirKind::Repetition(repetition) => {
            let repeated = begins(&repetition.sub, byte);
            Begins {
                may: repeated.may && repetition.max != Some(0),
                may_be_empty: repeated.may_be_empty || repetition.min == 0,
            }
        }
        HirKind::Capture(capture) => begins(&capture.sub, byte),
        HirKind::Concat(parts) => {
            let mut all = Begins { may: false, may_be_empty: true };
            for part in parts {
                let part = begins(part, byte);
                all.may |= part.may;
                if !part.may_be_empty {
                    all.may_be_empty = false;
                    break;
                }
            }
            all
        }
        HirKind::Alternation(parts) => parts.iter().map(|part| begins(part, byte)).fold(
            Begins { may: false, may_be_empty: false },
            |one, other| Begins { may: one.may || other.may, may_be_empty: one.may_be_empty || other.may_be_empty },
        ),
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

/// What a route wants of the values under a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Condition {
    /// One of them is exactly this.
    Exact(Arc<str>),
    /// One of them matches.
    Matches(Pattern),
    /// There is one, whatever it is.
    Present,
    /// There is none.
    Absent,
}

impl Condition {
    /// Whether these values are what the route wants.
    pub fn holds<V: AsRef<[u8]>>(&self, mut values: impl Iterator<Item = V>) -> bool {
        match self {
            Condition::Exact(text) => values.any(|value| value.as_ref() == text.as_bytes()),
            Condition::Matches(pattern) => values.any(|value| pattern.matches(value.as_ref())),
            Condition::Present => values.next().is_some(),
            Condition::Absent => values.next().is_none(),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Exact(text) => f.write_str(text),
            Condition::Matches(pattern) => write!(f, "~{}", pattern.text),
            Condition::Present => f.write_str("(present)"),
            Condition::Absent => f.write_str("(absent)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Condition, Pattern};

    #[test]
    fn the_whole_text_has_to_match() {
        let matches = |pattern: &str, text: &str| Pattern::new(pattern).unwrap().matches(text.as_bytes());
        for (pattern, text, expected) in [
            ("/v[0-9]+/.*", "/v12/a", true),
            ("/v[0-9]+/.*", "/x/v12/a", false),
            ("/v[0-9]+", "/v12/a", false),
            // Each alternative is held to both ends.
            ("/a|/b", "/a/b", false),
            ("/a|/b", "/b", true),
            ("(?i)/Docs", "/dOCS", true),
            ("(?m)^/a$", "/a\n/b", false),
            ("delete.*", "delete\n", true),
            (r"/\w+", "/é", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn what_cannot_be_searched_in_bounds_is_refused() {
        for (pattern, reason) in [
            ("", "1 to 1024 bytes"),
            (&*"a".repeat(1025), "1 to 1024 bytes"),
            ("/a)|(/b", "unopened group"),
            ("(", "unclosed group"),
            (r"(a)\1", "backreferences are not supported"),
            ("a(?=b)", "look-around"),
            ("(?:[a-z0-9]{1000}){1000}", "too large"),
            ("(?x)/a # comment", "unclosed group"),
        ] {
            let error = Pattern::new(pattern).unwrap_err();
            assert!(error.contains(reason), "{pattern}: {error}");
        }
    }

    #[test]
    fn of_several_values_one_is_enough() {
        let holds = |condition: Condition, values: &[&str]| condition.holds(values.iter());
        assert!(holds(Condition::Exact("b".into()), &["a", "b"]));
        assert!(!holds(Condition::Exact("b".into()), &["bb"]));
        assert!(holds(Condition::Matches(Pattern::new("[bc]").unwrap()), &["a", "c"]));
        assert!(holds(Condition::Present, &[""]) && !holds(Condition::Present, &[]));
        assert!(holds(Condition::Absent, &[]) && !holds(Condition::Absent, &[""]));
    }
}
