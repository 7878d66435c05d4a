//! The entries of a key file.
//!
//! The file is a YAML list. `weir keys create` appends one line per key, in YAML's JSON form; a file of such lines alone is read line by
//! line by the JSON parser, so that 100,000 keys load in a fraction of a second.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::Priority;

/// One key of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Public name of the key, unique in the file.
    pub id: String,
    /// SHA-256 of the key, 64 hexadecimal digits; or HMAC-SHA-256 under the pepper, with `weak: true`.
    pub sha256: String,
    /// Who uses it. A consumer may have any number of keys.
    pub consumer: String,
    /// The consumer's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// What the key may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Names of the routes that it opens; empty: all that accept its authenticator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// Names of the models that it may use on AI routes; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Class of its requests in fair queues; `None`: standard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Its client may read how calls of AI models were served (`X-Weir-Explain: 1`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub explain: bool,
    /// Valid from this moment on (RFC 3339, or a date: its first second in UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// Valid until this moment, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Switched off, and kept in the file for the record.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disabled: bool,
    /// An imported key under 20 characters: `sha256` is HMAC-SHA-256 under the authenticator's `pepper`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub weak: bool,
    /// Names and values of the operator's choice, for limits and upstream fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<String, String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(truth: &bool) -> bool {
    !truth
}

/// Why a key file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct FileError {
    /// Counted from 1; 0 where it is not known.
    pub line: usize,
    /// What is wrong, without any part of a key.
    pub problem: String,
}

impl Entry {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The first entry that cannot be read, with its line.
    pub fn read_file(text: &str) -> Result<Vec<(usize, Self)>, FileError> {
        let mut entries = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.strip_prefix("- ").map(str::trim_start) {
                Some(flow) if flow.starts_with("{\"") => match serde_json::from_str(flow) {
                    Ok(entry) => entries.push((at + 1, entry)),
                    // It may still be YAML, with a comment behind it.
                    Err(_) => return Self::read_yaml(text),
                },
                _ => return Self::read_yaml(text),
            }
        }
        Ok(entries)
    }

    fn read_yaml(text: &str) -> Result<Vec<(usize, Self)>, FileError> {
        let listed: Option<Vec<serde_saphyr::Spanned<Self>>> =
            serde_saphyr::from_str(text).map_err(|error| FileError {
                line: error.location().map_or(0, |place| place.line() as usize),
                problem: error.to_string().lines().next().unwrap_or("not a list of keys").to_owned(),
            })?;
        Ok(listed.into_iter().flatten().map(|one| (one.referenced.line() as usize, one.value)).collect())
    }

    /// Whether the key has expired at this moment. A text that cannot be read as a time says nothing about that.
    #[must_use]
    pub fn expires_by(&self, moment: std::time::SystemTime) -> bool {
        let now = OffsetDateTime::from(moment).unix_timestamp();
        self.expires.as_deref().and_then(|text| seconds(text).ok()).is_some_and(|end| end <= now)
    }

    /// The line that is appended to the file.
    #[must_use]
    pub fn line(&self) -> String {
        format!("- {}\n", serde_json::to_string(self).unwrap_or_default())
    }
}

/// A moment as a key file has it, to the second.
#[must_use]
pub fn time_text(moment: std::time::SystemTime) -> String {
    let whole = OffsetDateTime::from(moment).replace_nanosecond(0);
    whole.ok().and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// A moment of a key file in seconds since 1970.
///
/// # Errors
/// A text that is neither RFC 3339 nor a date.
pub(super) fn seconds(text: &str) -> Result<i64, String> {
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    OffsetDateTime::parse(&whole, &Rfc3339)
        .map(OffsetDateTime::unix_timestamp)
        .map_err(|_| format!("`{}` is not a time such as 2027-01-31 or 2027-01-31T12:00:00Z", shown(text)))
}

/// The start of a text, which may be anything.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            id: "k7".into(),
            sha256: "ab".repeat(32),
            consumer: "shop".into(),
            tier: Some("gold".into()),
            scopes: vec!["orders:read".into()],
            meta: BTreeMap::from([("contract".into(), "17".into())]),
            ..Entry::default()
        }
    }

    #[test]
    fn an_appended_line_is_read_by_both_readers() {
        let text = format!("# keys of the shop\n\n{}{}", entry().line(), entry().line());
        assert_eq!(Entry::read_file(&text).expect("lines"), vec![(3, entry()), (4, entry())]);
        assert_eq!(Entry::read_yaml(&text).expect("yaml"), vec![(3, entry()), (4, entry())]);
    }

    #[test]
    fn a_file_by_hand_is_read_as_yaml() {
        let text = format!("- id: k7\n  sha256: {}\n  consumer: shop\n{}", "ab".repeat(32), entry().line());
        let read = Entry::read_file(&text).expect("yaml");
        assert_eq!((read[0].0, read[0].1.id.as_str()), (1, "k7"));
        assert_eq!(read[1], (4, entry()));
        assert_eq!(Entry::read_file("").expect("empty"), vec![]);
        assert_eq!(Entry::read_file("# nothing yet\n").expect("a comment"), vec![]);
    }

    #[test]
    fn an_unknown_member_is_an_error_with_its_line() {
        let text = format!(
            "{}- {{\"id\":\"k8\",\"sha256\":\"{}\",\"consumer\":\"x\",\"expire\":\"2027-01-01\"}}\n",
            entry().line(),
            "cd".repeat(32)
        );
        let error = Entry::read_file(&text).expect_err("a typing error");
        assert_eq!(error.line, 2, "{error}");
        assert!(error.problem.contains("expire"), "{error}");
    }

    #[test]
    fn moments_are_dates_or_times_with_a_zone() {
        assert_eq!(seconds("1970-01-02"), Ok(86_400));
        assert_eq!(seconds("1970-01-01T01:00:00+01:00"), Ok(0));
        assert!(seconds(&"9\n".repeat(1_000)).expect_err("no time").len() < 200, "the start of it says enough");
        for wrong in ["", "tomorrow", "2027-13-01", "2027-01-31T12:00:00", "2027-1-1"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
