//! Paths as Weir's routes match them.

use std::borrow::Cow;
use std::fmt;

use crate::expression::Expression;

/// What stands between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// In normal form: as it is in a request.
    Literal(String),
    /// One segment, not empty.
    Param(String),
}

/// `/a`, `/a/{id}`, `/a/*`, or an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) segments: Vec<Segment>,
    /// A slash after the segments, and everything below.
    pub(crate) wildcard: bool,
    /// In place of all that: what the whole path matches.
    pub(crate) expression: Option<Expression>,
}

impl Path {
    /// `/*`.
    pub(crate) fn all() -> Self {
        Self { segments: Vec::new(), wildcard: true, expression: None }
    }

    /// `~REGEX`. In words, why no path matches it.
    pub(crate) fn matching(expression: Expression) -> Result<Self, String> {
        if expression.prefix().starts_with(|first| first != '/') {
            return Err("no path matches the expression: a path begins with a slash".to_owned());
        }
        Ok(Self { expression: Some(expression), wildcard: false, segments: Vec::new() })
    }

    /// Whether it matches one path only.
    pub(crate) fn is_exact(&self) -> bool {
        !self.wildcard && !self.has_param() && self.expression.is_none()
    }

    /// The path that a decoded text is, exactly. In words, why it cannot be one.
    pub(crate) fn exact(decoded: &str) -> Result<Self, String> {
        let rest = decoded.strip_prefix('/').ok_or_else(|| format!("`{decoded}` does not begin with a slash"))?;
        let segments = rest.split('/').map(literal).collect::<Result<Vec<_>, _>>()?;
        let last = segments.len() - 1;
        let empty = |(i, segment): (usize, &Segment)| i < last && *segment == Segment::Literal(String::new());
        if segments.iter().enumerate().any(empty) {
            return Err(format!("`{decoded}` has an empty segment"));
        }
        Ok(Self { segments, wildcard: false, expression: None })
    }

    /// Everything below a decoded text that ends with a slash.
    pub(crate) fn below(decoded: &str) -> Result<Self, String> {
        let trimmed = decoded.strip_suffix('/').unwrap_or(decoded);
        if trimmed.is_empty() {
            return Ok(Self::all());
        }
        Ok(Self { wildcard: true, ..Self::exact(trimmed)? })
    }

    /// Whether it has a parameter.
    pub(crate) fn has_param(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Param(_)))
    }

    /// The pattern with the names of parameters left out: two with the same shape match the same.
    pub(crate) fn shape(&self) -> String {
        if let Some(expression) = &self.expression {
            return format!("~{}", expression.text());
        }
        let mut out = String::new();
        for segment in &self.segments {
            out.push('/');
            match segment {
                Segment::Literal(text) => out.push_str(text),
                Segment::Param(_) => out.push_str("{}"),
            }
        }
        if self.wildcard { out + "/*" } else { out }
    }

    /// Whether both match exactly the same paths.
    pub(crate) fn same(&self, other: &Path) -> bool {
        let same = |(a, b): (&Segment, &Segment)| match (a, b) {
            (Segment::Literal(a), Segment::Literal(b)) => a == b,
            (Segment::Param(_), Segment::Param(_)) => true,
            _ => false,
        };
        self.wildcard == other.wildcard
            && self.expression == other.expression
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(same)
    }

    /// What every path that matches begins with.
    fn beginning(&self) -> Cow<'_, str> {
        if let Some(expression) = &self.expression {
            return expression.prefix().into();
        }
        let mut out = String::new();
        for segment in &self.segments {
            out.push('/');
            match segment {
                Segment::Literal(text) => out.push_str(text),
                Segment::Param(_) => return out.into(),
            }
        }
        if self.wildcard {
            out.push('/');
        }
        out.into()
    }

    /// Whether a path exists that both match.
    pub(crate) fn overlaps(&self, other: &Path) -> bool {
        match (&self.expression, &other.expression) {
            (Some(expression), None) if other.is_exact() => return expression.matches(&other.to_string()),
            (None, Some(expression)) if self.is_exact() => return expression.matches(&self.to_string()),
            // More than how both begin cannot be seen.
            (Some(_), _) | (_, Some(_)) => {
                let (one, another) = (self.beginning(), other.beginning());
                return one.starts_with(&*another) || another.starts_with(&*one);
            }
            (None, None) => {}
        }
        let fits = |(a, b): (&Segment, &Segment)| match (a, b) {
            (Segment::Literal(a), Segment::Literal(b)) => a == b,
            (Segment::Literal(text), Segment::Param(_)) | (Segment::Param(_), Segment::Literal(text)) => {
                !text.is_empty()
            }
            (Segment::Param(_), Segment::Param(_)) => true,
        };
        let lengths = match (self.wildcard, other.wildcard) {
            (false, false) => self.segments.len() == other.segments.len(),
            (true, false) => self.segments.len() < other.segments.len(),
            (false, true) => other.segments.len() < self.segments.len(),
            (true, true) => true,
        };
        lengths && self.segments.iter().zip(&other.segments).all(fits)
    }

    /// Whether it matches every path that the other matches.
    pub(crate) fn covers(&self, other: &Path) -> bool {
        match (&self.expression, &other.expression) {
            (Some(expression), None) => return other.is_exact() && expression.matches(&other.to_string()),
            (None, Some(_)) => return self.wildcard && self.segments.is_empty(),
            (Some(one), Some(another)) => return one == another,
            (None, None) => {}
        }
        let covered = |(a, b): (&Segment, &Segment)| match (a, b) {
            (Segment::Literal(a), Segment::Literal(b)) => a == b,
            (Segment::Param(_), Segment::Literal(b)) => !b.is_empty(),
            (Segment::Param(_), Segment::Param(_)) => true,
            (Segment::Literal(_), Segment::Param(_)) => false,
        };
        let lengths = match (self.wildcard, other.wildcard) {
            (false, false) => self.segments.len() == other.segments.len(),
            (true, false) => self.segments.len() < other.segments.len(),
            (false, true) => false,
            (true, true) => self.segments.len() <= other.segments.len(),
        };
        lengths && self.segments.iter().zip(&other.segments).all(covered)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(expression) = &self.expression {
            return write!(f, "~{}", expression.text());
        }
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{text}")?,
                Segment::Param(name) => write!(f, "/{{{name}}}")?,
            }
        }
        if self.wildcard { f.write_str("/*") } else { Ok(()) }
    }
}

/// A decoded text as one segment of a pattern.
pub(crate) fn literal(decoded: &str) -> Result<Segment, String> {
    if decoded == "." || decoded == ".." {
        return Err("dot segments are removed before routes are looked at".to_owned());
    }
    if decoded.contains('*') {
        return Err("`*` can only be the end of a pattern".to_owned());
    }
    encode(decoded).map(Segment::Literal)
}

/// A decoded text as it is in a request: what a path cannot hold is percent-encoded.
pub(crate) fn encode(decoded: &str) -> Result<String, String> {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(decoded.len());
    for byte in decoded.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'+' | b',' | b'=' | b':' | b'@'
            | b'/' => {
                out.push(char::from(byte));
            }
            b';' | b'\\' => {
                return Err(format!("Weir refuses paths with `{}`", char::from(byte)));
            }
            0..=0x1f | 0x7f => return Err("the path has a control character".to_owned()),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    Ok(out)
}

/// Undoes percent-encoding; a `%` that begins no escape stays. `None`: the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).filter(|_| bytes[i] == b'%');
        let value = hex.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match value {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

/// The paths of a prefix as most programs understand it, where a slash or the end has to follow: `/a` is `/a` and `/a/*`.
pub(crate) fn prefix(decoded: &str) -> Result<Vec<Path>, String> {
    if decoded.ends_with('/') {
        return Ok(vec![Path::below(decoded)?]);
    }
    Ok(vec![Path::exact(decoded)?, Path::below(&format!("{decoded}/"))?])
}
