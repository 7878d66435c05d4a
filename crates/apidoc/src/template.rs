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
    /// Variables in the values of a query string that is written out, `?q={term}`: the variable, and the name in `query` under which it is sent.
    pub(crate) sent_as: Vec<(String, String)>,
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
    let whole = text;
    let (mut text, fragment) = split_outside_braces(text, '#');
    if fragment.is_some() {
        out.remarks.push("the fragment of the path is dropped: it is never sent".to_owned());
    }
    if let (path, Some(query)) = split_outside_braces(text, '?') {
        text = path;
        out.query_string(query, whole)?;
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
    while let Some((before, body, after)) = next_expression(rest, text)? {
        out.path.push_str(before);
        out.expression(body, text)?;
        rest = after;
    }
    out.path.push_str(rest);
    Ok(out)
}

/// What stands before the first `{…}`, in it and behind it; null where there is none.
fn next_expression<'t>(text: &'t str, whole: &str) -> Result<Option<(&'t str, &'t str, &'t str)>, String> {
    let Some(open) = text.find(['{', '}']) else { return Ok(None) };
    if text.as_bytes()[open] == b'}' {
        return Err(format!("the path '{whole}' has a '}}' without '{{'"));
    }
    let inside = &text[open + 1..];
    let end = closing(inside).ok_or_else(|| format!("the path '{whole}' has a '{{' without '}}'"))?;
    Ok(Some((&text[..open], &inside[..end], &inside[end + 1..])))
}

impl Template {
    /// The name under which a variable is sent: its own, but in `?q={term}`. One that is in the path too is described as that.
    pub(crate) fn sent_as<'n>(&'n self, variable: &'n str) -> &'n str {
        if self.names.iter().any(|name| name == variable) {
            return variable;
        }
        self.sent_as.iter().find(|(own, _)| own == variable).map_or(variable, |(_, name)| name)
    }

    /// A query string that is in the path. `{?a}` and `{&a}` (RFC 6570, sections 3.2.8 and 3.2.9) have their own separators, so that what is
    /// left are pairs.
    fn query_string(&mut self, query: &str, whole: &str) -> Result<(), String> {
        let mut pairs = String::new();
        let mut rest = query;
        while let Some((before, body, after)) = next_expression(rest, whole)? {
            pairs.push_str(before);
            if body.starts_with(['?', '&', '#']) {
                self.expression(body, whole)?;
                pairs.push('&');
            } else {
                pairs.extend(["{", body, "}"]);
            }
            rest = after;
        }
        pairs.push_str(rest);
        let mut rest = Some(pairs.as_str());
        while let Some(text) = rest {
            let (pair, after) = split_outside_braces(text, '&');
            rest = after;
            if !pair.is_empty() {
                self.pair(pair, whole)?;
            }
        }
        Ok(())
    }

    /// One pair of a query string: fixed, or with variables in its value.
    fn pair(&mut self, pair: &str, whole: &str) -> Result<(), String> {
        let (name, value) = split_outside_braces(pair, '=');
        let value = value.unwrap_or("");
        if !pair.contains('{') {
            self.fixed_query.push((crate::source::percent_decode(name), crate::source::percent_decode(value)));
            return Ok(());
        }
        if let Some((before, body, after)) = next_expression(name, whole)? {
            if before.is_empty() && after.is_empty() && value.is_empty() {
                // `?{a}`, of which nobody but the author knows how it is to be sent.
                return self.expression(&format!("&{}", body.trim_start_matches(OPERATORS)), whole);
            }
            self.remarks.push(format!("'{pair}' of the query is dropped: its name is a variable"));
            return Ok(());
        }
        let name = crate::source::percent_decode(name);
        let mut rest = value;
        while let Some((_, body, after)) = next_expression(rest, whole)? {
            for variable in body.trim_start_matches(OPERATORS).split(',') {
                let variable = checked(plain(variable).0, whole)?;
                if self.sent_as.len() >= MOST_VARIABLES {
                    return Err(format!("a path has more than {MOST_VARIABLES} variables"));
                }
                self.sent_as.push((variable, name.clone()));
            }
            rest = after;
        }
        self.query.push((name, false));
        Ok(())
    }

    /// One `{…}`, operators of RFC 6570 included.
    fn expression(&mut self, body: &str, whole: &str) -> Result<(), String> {
        if self.query.len() >= MOST_VARIABLES {
            return Err(format!("a path has more than {MOST_VARIABLES} variables"));
        }
        let operator = body.chars().next().filter(|c| OPERATORS.contains(c));
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
            let (name, exploded) = plain(name);
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

/// What may stand before the names of an expression (RFC 6570, section 2.2).
const OPERATORS: [char; 7] = ['+', '#', '.', '/', ';', '?', '&'];

/// The name of a variable without its modifiers (RFC 6570, section 2.4), and whether it is exploded.
fn plain(variable: &str) -> (&str, bool) {
    let exploded = variable.trim().ends_with('*');
    let name = variable.trim().trim_end_matches('*');
    // `{name:3}`, a prefix of the value.
    (name.split_once(':').map_or(name, |(name, _length)| name), exploded)
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
