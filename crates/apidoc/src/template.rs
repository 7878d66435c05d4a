//! Path templates: `{name}` of OpenAPI and RAML, and RFC 6570 as API Blueprint uses it, become one form.

/// A path with its variables found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    /// Starts with a slash; variables are `{name}` and nothing else in braces.
    pub(crate) path: String,
    /// Names of the variables, in order, each once.
    pub(crate) names: Vec<String>,
    /// Variables of `{?a,b*}` and `{&c}`: name, and whether it is exploded (`*`).
    pub(crate) query: Vec<(String, bool)>,
    /// A query string that is written out: name and value.
    pub(crate) fixed_query: Vec<(String, String)>,
    /// Regular expressions of `{name:regex}`, as some frameworks write.
    pub(crate) patterns: Vec<(String, String)>,
    /// What was dropped or changed, for warnings.
    pub(crate) remarks: Vec<String>,
}

/// Variables of one path, at most: far more than a URL has room for.
const MOST_VARIABLES: usize = 500;

/// Reads a template.
///
/// # Errors
/// A sentence about what is wrong with it: braces that do not match, a variable without name, a name used twice.
pub(crate) fn parse(text: &str) -> Result<Template, String> {
    let mut out = Template::default();
    let (mut text, fragment) = split_outside_braces(text, '#');
    if fragment.is_some() {
        out.remarks.push("the fragment of the path is dropped: it is never sent".to_owned());
    }
    if let (path, Some(query)) = split_outside_braces(text, '?') {
        text = path;
        for pair in query.split('&').filter(|p| !p.is_empty() && !p.contains(['{', '}'])) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            out.fixed_query.push((crate::source::percent_decode(name), crate::source::percent_decode(value)));
        }
        if query.contains('{') {
            for name in query.split(['{', '}']).skip(1).step_by(2).filter(|n| !n.is_empty()) {
                let name = name.trim_start_matches(['?', '&']);
                out.query.push((name.to_owned(), false));
            }
        }
        out.remarks.push("the query string in the path is read as query parameters".to_owned());
    }
    if !text.starts_with('/') {
        if !text.is_empty() && !text.starts_with("{/") && !text.starts_with("{?") {
            out.remarks.push("the path does not start with a slash; one is added".to_owned());
        }
        if !text.starts_with("{/") {
            out.path.push('/');
        }
    }
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        out.path.push_str(&rest[..open]);
        if rest.as_bytes()[open] == b'}' {
            return Err(format!("the path '{text}' has a '}}' without '{{'"));
        }
        let inside = &rest[open + 1..];
        let end = closing(inside).ok_or_else(|| format!("the path '{text}' has a '{{' without '}}'"))?;
        out.expression(&inside[..end], text)?;
        rest = &inside[end + 1..];
    }
    out.path.push_str(rest);
    Ok(out)
}

impl Template {
    /// One `{…}`, operators of RFC 6570 included.
    fn expression(&mut self, body: &str, whole: &str) -> Result<(), String> {
        if self.query.len() >= MOST_VARIABLES {
            return Err(format!("a path has more than {MOST_VARIABLES} variables"));
        }
        let operator = body.chars().next().filter(|c| "+#./;?&".contains(*c));
        let names = operator.map_or(body, |o| &body[o.len_utf8()..]);
        if let Some((name, regex)) = names.split_once(':')
            && operator.is_none()
            && !regex.is_empty()
            && !regex.bytes().all(|b| b.is_ascii_digit())
        {
            self.patterns.push((name.trim().to_owned(), regex.to_owned()));
            return self.variable(name.trim(), "", whole);
        }
        for (i, name) in names.split(',').enumerate() {
            let exploded = name.trim().ends_with('*');
            let name = name.trim().trim_end_matches('*');
            let name = name.split_once(':').map_or(name, |(name, _length)| name); // `{name:3}`, a prefix of the value
            match operator {
                Some('?' | '&') => self.query.push((checked(name, whole)?, exploded)),
                Some('#') => self.remarks.push(format!("the fragment variable '{name}' is dropped: it is never sent")),
                Some('/') => self.variable(name, "/", whole)?,
                Some('.') => self.variable(name, ".", whole)?,
                Some(';') => self.variable(name, &format!(";{name}="), whole)?,
                _ => self.variable(name, if i == 0 { "" } else { "," }, whole)?,
            }
        }
        Ok(())
    }

    fn variable(&mut self, name: &str, before: &str, whole: &str) -> Result<(), String> {
        let name = checked(name, whole)?;
        if self.names.len() >= MOST_VARIABLES {
            return Err(format!("a path has more than {MOST_VARIABLES} variables"));
        }
        if self.names.contains(&name) {
            return Err(format!("the path '{whole}' has the variable '{name}' twice"));
        }
        self.path.push_str(before);
        self.path.push('{');
        self.path.push_str(&name);
        self.path.push('}');
        self.names.push(name);
        Ok(())
    }
}

fn checked(name: &str, whole: &str) -> Result<String, String> {
    if name.is_empty() || name.contains(['/', '{', '}', '?', '#']) {
        return Err(format!("the path '{whole}' has a variable without a proper name"));
    }
    Ok(name.to_owned())
}

/// Splits at the first `at` that stands outside of braces.
fn split_outside_braces(text: &str, at: char) -> (&str, Option<&str>) {
    let mut depth = 0u32;
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            c if c == at && depth == 0 => return (&text[..i], Some(&text[i + 1..])),
            _ => {}
        }
    }
    (text, None)
}

/// Where the brace that is already open closes; a regular expression may hold braces of its own.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0u32;
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(i),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The template with every variable's name taken out: two paths that are equal then match the same requests.
pub(crate) fn anonymous(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '{' => inside = true,
            '}' => {
                inside = false;
                out.push_str("{}");
            }
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests;
