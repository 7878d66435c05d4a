//! Media types whose bodies are worth compressing.

/// Types that are compressed where nothing is said: text in its many forms, and binary formats that compress well.
pub const DEFAULT_TYPES: [&str; 11] = [
    "text/*",
    "application/json",
    "application/*+json",
    "application/javascript",
    "application/xml",
    "application/*+xml",
    "application/x-ndjson",
    "application/wasm",
    "image/svg+xml",
    "font/ttf",
    "font/otf",
];

/// A list of media types: `text/html`, `text/*`, `application/*+json`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MediaTypes(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Exact(Box<str>),
    /// What stands before and behind the `*`.
    Between(Box<str>, Box<str>),
}

impl MediaTypes {
    /// Adds a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let is_token = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
        };
        let wrong = || {
            format!(
                "`{text}` is not a media type; write `text/html`, `text/*` or `application/*+json`, without parameters"
            )
        };
        let lower = text.to_ascii_lowercase();
        let (kind, rest) = lower.split_once('/').ok_or_else(wrong)?;
        let pattern = match rest.split_once('*') {
            None if is_token(kind) && is_token(rest) => Pattern::Exact(lower.as_str().into()),
            Some(("", "")) if is_token(kind) => Pattern::Between(format!("{kind}/").into(), "".into()),
            Some(("", suffix)) if is_token(kind) && suffix.starts_with('+') && is_token(suffix) => {
                Pattern::Between(format!("{kind}/").into(), suffix.into())
            }
            _ => return Err(wrong()),
        };
        self.0.push(pattern);
        Ok(())
    }

    /// Whether a `Content-Type` is one of them; its parameters do not matter.
    pub fn contain(&self, content_type: &[u8]) -> bool {
        let name = essence(content_type);
        let is = |text: &str, part: &[u8]| part.eq_ignore_ascii_case(text.as_bytes());
        self.0.iter().any(|pattern| match pattern {
            Pattern::Exact(text) => is(text, name),
            Pattern::Between(start, end) => {
                name.len() > start.len() + end.len()
                    && is(start, &name[..start.len()])
                    && is(end, &name[name.len() - end.len()..])
            }
        })
    }
}

/// Type and subtype, without parameters.
fn essence(content_type: &[u8]) -> &[u8] {
    content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Whether a body is a stream of events, whose readers act on every piece of it.
pub fn is_event_stream(content_type: &[u8]) -> bool {
    essence(content_type).eq_ignore_ascii_case(b"text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_types_without_regard_to_parameters_and_case() {
        let mut types = MediaTypes::default();
        DEFAULT_TYPES.iter().for_each(|text| types.add(text).unwrap());
        for yes in [
            "text/html",
            "Text/HTML; charset=utf-8",
            "application/problem+json",
            "application/json ;x=y",
            "image/svg+xml",
        ] {
            assert!(types.contain(yes.as_bytes()), "{yes}");
        }
        for no in [
            "",
            "text",
            "text/",
            "image/png",
            "application/octet-stream",
            "application/grpc+proto",
            "application/+json",
            "xtext/html",
        ] {
            assert!(!types.contain(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn what_is_no_media_type_is_refused() {
        for wrong in
            ["", "text", "*/*", "text/", "/html", "text/h*", "text/html; charset=utf-8", "application/*json", "a b/c"]
        {
            assert!(MediaTypes::default().add(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn streams_of_events_are_known() {
        assert!(is_event_stream(b"text/event-stream; charset=utf-8"));
        assert!(!is_event_stream(b"text/plain"));
    }
}
