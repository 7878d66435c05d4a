//! Forms with a file (RFC 7578), from a body that is in memory as a whole: fields, and one file.

/// Parts of a form.
const PARTS: usize = 1_000;
/// Bytes of a field without a file.
const FIELD: usize = 64 << 10;

/// A file that was chosen in a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Upload {
    /// Its name on the machine of the visitor; never used as a path.
    pub(super) name: String,
    /// What is in it.
    pub(super) bytes: Vec<u8>,
}

/// What a form has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) fields: Vec<(String, String)>,
    /// The first file that has a name: a form without a chosen file sends one without.
    pub(super) upload: Option<Upload>,
}

/// Reads a form. `kind` is its `Content-Type`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(kind: &str, body: &[u8]) -> Result<Parts, String> {
    let boundary = parameter(kind, "boundary").ok_or("The form has no boundary.")?;
    // RFC 2046, section 5.1.1.
    if boundary.is_empty() || boundary.len() > 70 {
        return Err("The boundary of the form is not valid.".to_owned());
    }
    let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
    // The first delimiter has no line before it.
    let first = &delimiter[2..];
    let mut rest = body.strip_prefix(first).ok_or("The form does not begin with its boundary.")?;
    let mut parts = Parts::default();
    for _ in 0..PARTS {
        if rest.starts_with(b"--") {
            return Ok(parts);
        }
        let part = rest.strip_prefix(b"\r\n").ok_or("The form has a broken boundary.")?;
        let head_end = find(part, b"\r\n\r\n").ok_or("A part of the form has no end of its head.")?;
        // The body of a part may be empty, so that the end of its head is the line end of the delimiter.
        let (head, after) = (&part[..head_end], &part[head_end + 2..]);
        let end = find(after, &delimiter).ok_or("The form ends in the middle.")?;
        let content = after.get(2..end).unwrap_or_default();
        rest = &after[end + delimiter.len()..];
        take(&mut parts, head, content)?;
    }
    Err("The form has too many parts.".to_owned())
}

fn take(parts: &mut Parts, head: &[u8], content: &[u8]) -> Result<(), String> {
    let head = std::str::from_utf8(head).map_err(|_| "A head in the form is not valid UTF-8.")?;
    let is_disposition = |line: &&str| {
        line.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"))
    };
    let line = head.split("\r\n").find(is_disposition).ok_or("A part of the form has no name.")?;
    let name = parameter(line, "name").ok_or("A part of the form has no name.")?;
    match parameter(line, "filename") {
        Some(file) if file.is_empty() && content.is_empty() => {}
        Some(file) => {
            parts.upload.get_or_insert_with(|| Upload { name: file, bytes: content.to_vec() });
        }
        None if content.len() > FIELD => return Err(format!("The field `{name}` is too long.")),
        None => {
            let value = std::str::from_utf8(content).map_err(|_| format!("The field `{name}` is not valid UTF-8."))?;
            parts.fields.push((name, value.to_owned()));
        }
    }
    Ok(())
}

/// A parameter of a field, such as `boundary=x` or `name="a;b"`. Browsers write a quote as `%22`.
fn parameter(line: &str, wanted: &str) -> Option<String> {
    let mut rest = line.split_once(';')?.1;
    loop {
        let (name, value) = rest.split_once('=')?;
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value
                .split_once(';')
                .map_or((value.trim(), ""), |(value, _)| (value.trim(), &rest[rest.find(';').unwrap_or(rest.len())..])),
        };
        if name.trim().trim_start_matches(';').trim().eq_ignore_ascii_case(wanted) {
            return Some(value.to_owned());
        }
        rest = after.trim_start().strip_prefix(';').unwrap_or(after);
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests;
