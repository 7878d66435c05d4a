//! The one-line form in which API Blueprint and MSON declare things: ``name: `value` (type, required) - description``.

/// A declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) name: String,
    /// What stands behind the colon.
    pub(super) value: Option<String>,
    /// `= value` of the older form of parameters.
    pub(super) default: Option<String>,
    /// What is in parentheses, split at commas.
    pub(super) attributes: Vec<String>,
}

/// Reads a declaration. Backticks protect what they surround.
pub(super) fn parse(text: &str) -> Signature {
    let mut out = Signature::default();
    let description = [" - ", " — "].iter().filter_map(|dash| find_outside(text, dash)).min();
    let text = text[..description.unwrap_or(text.len())].trim();
    // the last parenthesis that closes at the end holds the attributes
    let (head, attributes) =
        match text.strip_suffix(')').and_then(|t| opening(t).map(|open| (&t[..open], &t[open + 1..]))) {
            Some((head, attributes)) => (head.trim(), attributes),
            None => match opening_anywhere(text) {
                // the older form goes on with text: `id (required, number) ... Identifier`
                Some((open, close)) => (text[..open].trim(), &text[open + 1..close]),
                None => (text, ""),
            },
        };
    out.attributes = split(attributes);
    let head = head.trim_end_matches("...").trim();
    let (head, default) = match find_outside(head, "=") {
        Some(at) if find_outside(head, ":").is_none_or(|colon| at < colon) => {
            (head[..at].trim(), Some(unquote(&head[at + 1..])))
        }
        _ => (head, None),
    };
    out.default = default.filter(|d| !d.is_empty());
    match find_outside(head, ":") {
        Some(at) => {
            out.name = name(&head[..at]);
            let value = head[at + 1..].trim();
            out.value = (!value.is_empty()).then(|| unquote(value));
        }
        None => out.name = name(head),
    }
    out
}

impl Signature {
    /// Whether the attribute is there.
    pub(super) fn has(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|a| a.eq_ignore_ascii_case(attribute))
    }

    /// The attribute that is a type: the first that is not a property of the declaration and no example in backticks.
    pub(super) fn kind(&self) -> Option<&str> {
        let known = ["required", "optional", "fixed", "fixed-type", "nullable", "sample", "default"];
        self.attributes
            .iter()
            .map(String::as_str)
            .find(|a| !known.iter().any(|k| a.eq_ignore_ascii_case(k)) && !a.starts_with('`') && !a.contains('='))
    }

    /// The example of the older form: ``(required, number, `1`)``.
    pub(super) fn quoted(&self) -> Option<String> {
        self.attributes.iter().find(|a| a.starts_with('`')).map(|a| unquote(a))
    }
}

/// A name without backticks and emphasis, with percent-encoding undone.
fn name(text: &str) -> String {
    crate::source::percent_decode(unquote(text).trim_matches('*').trim())
}

/// Text without the backticks around it.
pub(super) fn unquote(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('`').and_then(|t| t.strip_suffix('`')) {
        Some(inside) if !inside.contains('`') => inside.to_owned(),
        _ => text.to_owned(),
    }
}

/// Where `what` stands outside of backticks and brackets.
fn find_outside(text: &str, what: &str) -> Option<usize> {
    let mut quoted = false;
    let mut depth = 0i32;
    for (i, c) in text.char_indices() {
        if !quoted && depth == 0 && text[i..].starts_with(what) {
            return Some(i);
        }
        match c {
            '`' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    None
}

/// In a text whose last parenthesis was cut off, where it opens.
fn opening(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut open: Vec<usize> = Vec::new();
    for (i, c) in text.char_indices() {
        match c {
            '`' => quoted = !quoted,
            '(' if !quoted => open.push(i),
            ')' if !quoted => {
                open.pop();
            }
            _ => {}
        }
    }
    open.first().copied()
}

/// The first parenthesis with its end.
fn opening_anywhere(text: &str) -> Option<(usize, usize)> {
    let mut quoted = false;
    let mut open = None;
    for (i, c) in text.char_indices() {
        match c {
            '`' => quoted = !quoted,
            '(' if !quoted && open.is_none() => open = Some(i),
            ')' if !quoted => return open.map(|o| (o, i)),
            _ => {}
        }
    }
    None
}

/// Splits at commas outside of brackets and backticks.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let (mut depth, mut quoted, mut start) = (0i32, false, 0);
    for (i, c) in text.char_indices() {
        match c {
            '`' => quoted = !quoted,
            '[' | '(' if !quoted => depth += 1,
            ']' | ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                out.push(text[start..i].trim().to_owned());
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push(text[start..].trim().to_owned());
    out.retain(|part| !part.is_empty());
    out
}

#[cfg(test)]
mod tests;
