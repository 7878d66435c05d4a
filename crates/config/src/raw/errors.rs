//! Pages for errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{Map, Spanned};

/// Pages by status: `502`, or `5xx` for all of a class that are not named.
pub type ErrorPages = Map<Spanned<ErrorPage>>;

/// What a browser gets for an error: a file, or a page that an upstream makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `file` or `upstream`")]
pub struct ErrorPage {
    /// File of the page (`.html`, `.txt`, `.json` or `.xml`), looked for from the configuration's folder; read at start and at reload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Spanned<String>>,
    /// Upstream that makes the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Spanned<String>>,
    /// Path of the page at the upstream; `{status}` stands for the status.
    pub path: Spanned<String>,
    /// Whose errors get the page.
    pub of: ErrorsOf,
}

impl Default for ErrorPage {
    fn default() -> Self {
        ErrorPage { file: None, upstream: None, path: "/{status}.html".to_owned().into(), of: ErrorsOf::Gateway }
    }
}

/// Whose errors get a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorsOf {
    /// Those of the gateway itself.
    #[default]
    Gateway,
    /// Those of the gateway and of the upstream.
    Upstream,
}
