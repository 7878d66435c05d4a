//! Regular expressions of other programs as Weir has them: those of the crate `regex`, held to both ends of a text.

use std::fmt;
use std::rc::Rc;

use regex::bytes::{Regex, RegexBuilder};

/// Bounds of an expression in a configuration of Weir.
const MAX_TEXT: usize = 1024;
const MAX_COMPILED: usize = 32 << 10;

/// An expression that Weir takes.
#[derive(Clone)]
pub(crate) struct Expression {
    text: String,
    regex: Rc<Regex>,
}

impl Expression {
    /// As Weir's file has it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }

    /// What every text that matches begins with.
    pub(crate) fn prefix(&self) -> &str {
        let is_special = |c: char| "\\.+*?()|[]{}^$".contains(c);
        let end = self.text.find(is_special).unwrap_or(self.text.len());
        // The last character may be there several times, or not at all.
        let is_optional = self.text[end..].starts_with(['?', '*', '{']);
        &self.text[..end - usize::from(is_optional && end > 0)]
    }

    fn new(text: String) -> Result<Self, String> {
        let compile = |text: &str| {
            let mut builder = RegexBuilder::new(text);
            builder.unicode(false).dot_matches_new_line(true).size_limit(MAX_COMPILED).build()
        };
        if text.len() > MAX_TEXT {
            return Err(format!("the expression is longer than {MAX_TEXT} bytes"));
        }
        if !text.is_ascii() {
            return Err("an expression with other than ASCII characters has no equivalent".to_owned());
        }
        // By itself first: what is unbalanced could leave the group that holds it to both ends.
        let compiled = compile(&text).and_then(|_| compile(&format!(r"\A(?:{text})\z")));
        match compiled {
            Ok(regex) => Ok(Expression { text, regex: Rc::new(regex) }),
            Err(regex::Error::CompiledTooBig(_)) => Err("the expression is too large for Weir".to_owned()),
            Err(_) => Err("the expression has a part that Weir's expressions do not have".to_owned()),
        }
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({:?})", self.text)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

/// An expression that is searched for anywhere in a text.
pub(crate) fn searched(written: &str, ignores_case: bool) -> Result<Expression, String> {
    let (body, at_start, at_end) = anchors(written)?;
    let mut text = String::new();
    if ignores_case {
        text.push_str("(?i)");
    }
    match body {
        Some(body) => {
            text.push_str(if at_start { "" } else { ".*" });
            text.push_str(body);
            text.push_str(if at_end { "" } else { ".*" });
        }
        // Its anchors belong to one alternative each.
        None => text.push_str(&format!(".*(?:{written}).*")),
    }
    Expression::new(text)
}

/// An expression that a text begins with.
pub(crate) fn at_start(written: &str) -> Result<Expression, String> {
    match anchors(written)? {
        (Some(body), _, true) => Expression::new(body.to_owned()),
        (Some(body), _, false) => Expression::new(format!("{body}.*")),
        (None, ..) => Expression::new(format!("(?:{written}).*")),
    }
}

/// One of these texts.
pub(crate) fn any_of(texts: &[String]) -> Result<Expression, String> {
    Expression::new(texts.iter().map(|text| escaped(text)).collect::<Vec<_>>().join("|"))
}

/// A text that stands for itself.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// What stands between the anchors of an expression, and whether it has them. Without a body where they are not those of the whole.
fn anchors(written: &str) -> Result<(Option<&str>, bool, bool), String> {
    let mut depth = 0_usize;
    let mut alternatives = written.starts_with("(?i") || written.starts_with("(?s") || written.starts_with("(?m");
    let mut class = false;
    let mut bytes = written.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        let rest = &written.as_bytes()[at + 1..];
        match byte {
            b'\\' => {
                bytes.next();
            }
            // The same characters, which mean a part of a set here and not there.
            b'[' if class && rest.first() != Some(&b':') => return Err(ODD_CLASS.to_owned()),
            b'&' | b'-' | b'~' if class && rest.first() == Some(&byte) => return Err(ODD_CLASS.to_owned()),
            b'[' if !class => {
                class = true;
                // A bracket that comes first is one of the characters.
                if rest.first() == Some(&b'^') {
                    bytes.next();
                }
                if rest.strip_prefix(b"^").unwrap_or(rest).first() == Some(&b']') {
                    return Err(ODD_CLASS.to_owned());
                }
            }
            b'[' => {
                // `[:alpha:]`
                while bytes.next().is_some_and(|(_, byte)| byte != b']') {}
            }
            b']' => class = false,
            _ if class => {}
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => alternatives = true,
            _ => {}
        }
    }
    if alternatives {
        return Ok((None, false, false));
    }
    let (body, at_start) = match written.strip_prefix('^').or_else(|| written.strip_prefix("\\A")) {
        Some(body) => (body, true),
        None => (written, false),
    };
    let is_anchor = |body: &str| body.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0;
    let end = ["\\z", "\\Z", "$"].iter().find_map(|end| body.strip_suffix(end)).filter(|body| is_anchor(body));
    Ok((Some(end.unwrap_or(body)), at_start, end.is_some()))
}

const ODD_CLASS: &str = "a class of characters in the expression is written in a way that Weir reads differently";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_matches_what_it_is_found_in() {
        for (written, expected, good, bad) in [
            (r"\.php$", r".*\.php", "/a/b.php", "/a.php/b"),
            ("^/v[0-9]+/", "/v[0-9]+/.*", "/v12/a", "/x/v1/"),
            ("^/a$", "/a", "/a", "/ab"),
            ("^/a|/b$", "(?:^/a|/b$)", "/x/b", "/x/a"),
            (r"/price\$", r".*/price\$.*", "/x/price$1", "/price"),
            (r"^/(?<id>\d+)$", r"/(?<id>\d+)", "/12", "/a"),
            ("(?i)^/docs", "(?:(?i)^/docs)", "/DOCS/a", "/a/docs"),
            ("a[|^$]b", "a[|^$]b", "xa|by", "ab"),
        ] {
            let found = searched(written, false).expect(written);
            assert!(found.text().contains(expected), "{written}: {}", found.text());
            assert!(found.matches(good) && !found.matches(bad), "{written}: {}", found.text());
        }
        assert!(searched(r"\.PNG$", true).expect("an expression").matches("/a.png"));
        assert!(at_start("/a/[0-9]+").expect("an expression").matches("/a/1/b"));
        assert!(!at_start("/a/[0-9]+$").expect("an expression").matches("/a/1/b"));
        let any = any_of(&["a.b".into(), "c|d".into()]).expect("an expression");
        assert!(any.matches("a.b") && any.matches("c|d") && !any.matches("axb") && !any.matches("c"));
    }

    #[test]
    fn the_beginning_of_an_expression_is_that_of_all_its_texts() {
        for (written, prefix) in [
            ("^/users/[0-9]+$", "/users/"),
            ("^/ab?c", "/a"),
            ("^/ab+c", "/ab"),
            (r"\.php$", ""),
            ("^/a|^/b", ""),
            ("^/a$", "/a"),
        ] {
            assert_eq!(searched(written, false).expect(written).prefix(), prefix, "{written}");
        }
        assert_eq!(searched("^/A", true).expect("an expression").prefix(), "");
    }

    #[test]
    fn what_weir_would_read_differently_is_refused() {
        for written in ["(a)\\1", "a(?=b)", "(?<!a)b", "[[a]", "[a--b]", "[]a]", "(", "{id}", "é", "a++b(?>c)"] {
            assert!(searched(written, false).is_err(), "{written}");
        }
    }
}
