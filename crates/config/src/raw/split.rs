//! Weighted splits of a route.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{Map, Spanned};
use super::text::{is_token, text_type};
use crate::SplitKey;

/// Upstreams that share the requests of a route by weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `upstreams`: names with their weights")]
pub struct Split {
    /// Weight of each upstream, relative to the others; 0 gives it nothing.
    pub upstreams: Map<u32>,
    /// What keeps requests with the same upstream: `client_ip`, `consumer`, `header:NAME` or `cookie:NAME`; absent: each request is drawn on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Spanned<SplitKeyText>>,
}

/// `client_ip`, `consumer`, `header:NAME` or `cookie:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitKeyText(pub SplitKey);

text_type!(
    SplitKeyText,
    "SplitKey",
    r"^(client_ip|consumer|(header|cookie):\S+)$",
    "what keeps requests with the same upstream: `client_ip`, `consumer`, `header:NAME` or `cookie:NAME`"
);

impl FromStr for SplitKeyText {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(SplitKeyText(match (text, text.split_once(':')) {
            ("client_ip", _) => SplitKey::ClientIp,
            ("consumer", _) => SplitKey::Consumer,
            (_, Some(("header", name))) if is_token(name) => SplitKey::Header(name.to_ascii_lowercase().into()),
            (_, Some(("cookie", name))) if is_token(name) => SplitKey::Cookie(name.into()),
            _ => {
                let expected = "expected `client_ip`, `consumer`, `header:NAME` or `cookie:NAME`";
                return Err(format!("{expected}, found `{text}`"));
            }
        }))
    }
}

impl fmt::Display for SplitKeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
