//! Texts with values in them: `/active/{auctionID}?page={page}`.

/// A text with values in it, ready to be filled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Literal(Box<[u8]>),
    /// Index of the value.
    Value(usize),
}

/// A part of a text before it is ready: `V` says which value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Piece<'t, V> {
    Literal(&'t str),
    Value(V),
}

impl<'t, V> Piece<'t, V> {
    /// Cuts a text at each `{name}` with a name that `known` knows; other braces are literal, as JSON has plenty.
    pub(crate) fn all(text: &'t str, mut known: impl FnMut(&'t str) -> Option<V>) -> Vec<Self> {
        let mut pieces = Vec::new();
        let (mut literal, mut at) = (0, 0);
        while let Some(open) = text[at..].find('{').map(|open| at + open) {
            let name = text[open + 1..].find('}').map(|length| &text[open + 1..open + 1 + length]);
            match name.and_then(|name| Some((known(name)?, name.len()))) {
                Some((value, length)) => {
                    if literal < open {
                        pieces.push(Piece::Literal(&text[literal..open]));
                    }
                    pieces.push(Piece::Value(value));
                    at = open + length + 2;
                    literal = at;
                }
                None => at = open + 1,
            }
        }
        if literal < text.len() {
            pieces.push(Piece::Literal(&text[literal..]));
        }
        pieces
    }
}

/// A JSON value as it is in a text: strings without their quotes.
pub(crate) fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What is done to a value so that it cannot end the place where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Percent-encoding of all but unreserved characters (RFC 3986 section 2.3): paths and queries.
    Percent,
    /// As inside of a JSON string (RFC 8259 section 7), without the quotes.
    Json,
    /// Line ends and NUL are left out: fields.
    Field,
    /// Nothing.
    None,
}

impl Template {
    /// Cuts a text at each `{name}` with a name that `index` knows: see [`Piece::all`].
    pub(crate) fn parse(text: &str, index: impl FnMut(&str) -> Option<usize>) -> Self {
        let part = |piece| match piece {
            Piece::Literal(text) => Part::Literal(str::as_bytes(text).into()),
            Piece::Value(index) => Part::Value(index),
        };
        Template { parts: Piece::all(text, index).into_iter().map(part).collect() }
    }

    /// Whether no value is in it.
    pub(crate) fn is_fixed(&self) -> bool {
        !self.parts.iter().any(|part| matches!(part, Part::Value(_)))
    }

    /// Names in braces that look like a value's: letters, digits, `_`, `-` and `.`.
    pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
        text.split('{').skip(1).filter_map(|after| after.split_once('}')).map(|(name, _)| name).filter(|name| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        })
    }

    /// Appends the text with its values.
    pub(crate) fn fill(&self, out: &mut Vec<u8>, values: &[Vec<u8>], escape: Escape) {
        for part in &self.parts {
            match part {
                Part::Literal(bytes) => out.extend_from_slice(bytes),
                Part::Value(index) => escape.append(out, &values[*index]),
            }
        }
    }
}

impl Escape {
    fn append(self, out: &mut Vec<u8>, value: &[u8]) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        match self {
            Escape::None => out.extend_from_slice(value),
            Escape::Field => out.extend(value.iter().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0))),
            Escape::Percent => {
                for &byte in value {
                    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
                        out.push(byte);
                    } else {
                        out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                    }
                }
            }
            Escape::Json => {
                for &byte in value {
                    match byte {
                        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                        0..0x20 => {
                            out.extend_from_slice(b"\\u00");
                            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                        }
                        _ => out.push(byte),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, escape: Escape) -> String {
        let values = [b"7".to_vec(), b"a b/\"c\"\n".to_vec()];
        let template = Template::parse(text, |name| ["id", "name"].iter().position(|known| *known == name));
        let mut out = Vec::new();
        template.fill(&mut out, &values, escape);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn values_are_escaped_for_where_they_stand() {
        assert_eq!(filled("/a/{id}?n={name}", Escape::Percent), "/a/7?n=a%20b%2F%22c%22%0A");
        assert_eq!(
            filled("{\"id\":{id},\"name\":\"{name}\"}", Escape::Json),
            "{\"id\":7,\"name\":\"a b/\\\"c\\\"\\u000A\"}"
        );
        assert_eq!(filled("Bearer {name}", Escape::Field), "Bearer a b/\"c\"");
        assert_eq!(filled("{name}{id}{name}", Escape::None), "a b/\"c\"\n7a b/\"c\"\n");
    }

    #[test]
    fn braces_without_a_known_name_are_literal() {
        for text in ["{}", "{", "}{", "{{\"a\": {\"b\": 1}}", "{unknown}", "{id", ""] {
            assert_eq!(filled(text, Escape::None), text);
        }
        assert_eq!(filled("{{id}}", Escape::None), "{7}");
        assert_eq!(Template::names("/a/{x}/{y-z}?{\"a\"}={}").collect::<Vec<_>>(), ["x", "y-z"]);
    }
}
