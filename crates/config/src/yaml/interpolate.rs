//! `${VAR}` and `${VAR:-default}` in a value.

use std::borrow::Cow;

use super::Environment;

/// Replaces every variable of `text`. `$${` stands for `${`; a `$` before anything else is itself. What a variable holds is not looked
/// at again. A default ends at the first `}` and is used where the variable is not set or empty, as in a shell.
///
/// # Errors
/// In words, for the first variable that is not set and has no default, or that is not written as it has to be.
pub(super) fn interpolate<'t>(text: Cow<'t, str>, environment: Environment<'_>) -> Result<Cow<'t, str>, String> {
    if !text.contains("${") {
        return Ok(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(start) = rest.find("${") {
        if let Some(escaped) = rest[..start].strip_suffix('$') {
            out.push_str(escaped);
            out.push_str("${");
            rest = &rest[start + 2..];
            continue;
        }
        out.push_str(&rest[..start]);
        let Some(end) = rest[start..].find('}') else {
            return Err("`${` without `}`; write `$${` for the characters themselves".to_owned());
        };
        let inside = &rest[start + 2..start + end];
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_name(name) {
            return Err(format!(
                "`${{{name}}}` does not name a variable; write `${{NAME}}`, `${{NAME:-default}}`, or `$${{` for the characters themselves"
            ));
        }
        match (environment(name), default) {
            (Some(value), None) => out.push_str(&value),
            (Some(value), Some(_)) if !value.is_empty() => out.push_str(&value),
            (_, Some(default)) => out.push_str(default),
            (None, None) => {
                return Err(format!(
                    "the environment variable `{name}` is not set; set it, or give a default: `${{{name}:-...}}`"
                ));
            }
        }
        rest = &rest[start + end + 1..];
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// POSIX names of variables.
fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
