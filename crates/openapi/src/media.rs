//! Media types and ranges of them (RFC 9110, section 8.3.1).

/// A media type, or a range such as `image/*`, in lower case and without parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range(String);

impl Range {
    pub(crate) fn new(text: &str) -> Self {
        Range(essence(text))
    }

    pub(crate) fn matches(&self, essence: &str) -> bool {
        match self.0.strip_suffix("/*") {
            Some("*") => true,
            Some(kind) => essence.split_once('/').is_some_and(|(own, _)| own == kind),
            None => self.0 == essence,
        }
    }

    /// How exactly it says what it means: of several that match, the most exact counts.
    pub(crate) fn rank(&self) -> u8 {
        match self.0.as_str() {
            "*/*" => 0,
            range if range.ends_with("/*") => 1,
            _ => 2,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A media type without parameters, in lower case.
pub(crate) fn essence(text: &str) -> String {
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether it is JSON (RFC 8259, RFC 6839).
pub(crate) fn is_json(essence: &str) -> bool {
    matches!(essence, "application/json" | "text/json") || essence.ends_with("+json")
}

pub(crate) fn is_form(essence: &str) -> bool {
    essence == "application/x-www-form-urlencoded"
}

/// Whether the parameters say another character set than UTF-8, the only one of JSON (RFC 8259, section 8.1).
pub(crate) fn has_other_charset(text: &str) -> bool {
    text.split(';').skip(1).any(|parameter| {
        parameter.split_once('=').is_some_and(|(name, value)| {
            name.trim().eq_ignore_ascii_case("charset") && !value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
    })
}
