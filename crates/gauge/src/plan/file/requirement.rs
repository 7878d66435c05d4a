//! What must be seen of a system: that it responds as it should, that a treatment is in effect, and the figures that are good enough.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::value::share;
use crate::load::units;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreatmentFile {
    pub(crate) name: String,
    pub(crate) header: String,
    #[serde(default)]
    pub(crate) value: Option<String>,
    #[serde(default, deserialize_with = "share")]
    pub(crate) at_least: Option<f64>,
    #[serde(default, deserialize_with = "share")]
    pub(crate) at_most: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ConformanceFile {
    /// Headers of responses that must be those of `direct` (default: content-type).
    pub(crate) headers: Option<Vec<String>>,
    /// JSON pointers of values that differ by nature, by operation; `*` for all of them.
    pub(crate) differs: BTreeMap<String, Spanned<Vec<String>>>,
    /// Request headers that a gateway must add or pass on, each with the JSON pointer at which the operation's response shows it.
    pub(crate) forwarded: Option<Spanned<ForwardedFile>>,
    /// Whether an unknown path must be refused (default yes).
    pub(crate) unknown_path: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForwardedFile {
    /// The operation that echoes.
    pub(crate) operation: String,
    /// Header to JSON pointer.
    pub(crate) headers: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SloFile {
    #[serde(with = "units::serde_duration::option")]
    pub(crate) p50: Option<Duration>,
    #[serde(with = "units::serde_duration::option")]
    pub(crate) p95: Option<Duration>,
    #[serde(with = "units::serde_duration::option")]
    pub(crate) p99: Option<Duration>,
    #[serde(deserialize_with = "share")]
    pub(crate) errors: Option<f64>,
}
