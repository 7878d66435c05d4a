//! What a JSON text holds that a parser lets pass and PostgreSQL's `jsonb` does not.

#[cfg(test)]
mod tests;

/// Levels of arrays and objects that a whole request body may have.
pub const BODY_DEPTH: usize = 256;
/// Levels that the attributes of one entity may have, the object of attributes itself not counted.
pub const ATTRIBUTE_DEPTH: usize = 64;

/// The findings of [`scan`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The deepest nesting of arrays and objects.
    pub depth: usize,
    /// A string holds `\u0000`, which `jsonb` cannot store.
    pub nul: bool,
    /// A string holds half of a surrogate pair, which is no Unicode text (RFC 8259 §8.2).
    pub lone_surrogate: bool,
}

/// Reads `text` once, as a lexer would. It is total: what is not JSON gives findings that mean nothing, and a parser says so.
pub fn scan(text: &[u8]) -> Scan {
    let mut found = Scan::default();
    let (mut depth, mut at) = (0usize, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => at = string(text, at, &mut found),
            b'{' | b'[' => {
                depth += 1;
                found.depth = found.depth.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

/// Reads the string whose first byte is at `at`; gives the place after its closing quote.
fn string(text: &[u8], mut at: usize, found: &mut Scan) -> usize {
    while let Some(step) = memchr::memchr2(b'"', b'\\', &text[at..]) {
        at += step;
        if text[at] == b'"' {
            return at + 1;
        }
        if text.get(at + 1) != Some(&b'u') {
            at = (at + 2).min(text.len());
            continue;
        }
        let unit = code_unit(text, at);
        at = (at + 6).min(text.len());
        match unit {
            Some(0) => found.nul = true,
            Some(0xD800..=0xDBFF) if matches!(code_unit(text, at), Some(0xDC00..=0xDFFF)) => {
                at += 6;
            }
            Some(0xD800..=0xDFFF) => found.lone_surrogate = true,
            _ => {}
        }
    }
    text.len()
}

/// The UTF-16 unit that `\uXXXX` at `at` names.
fn code_unit(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
}

/// Writes `text` as a JSON string.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0'..='\x1f' => {
                let digit = |n: u32| char::from_digit(n, 16).unwrap_or('0');
                out.push_str("\\u00");
                out.extend([digit(c as u32 >> 4), digit(c as u32 & 15)]);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
