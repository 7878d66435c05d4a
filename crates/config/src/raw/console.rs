//! The console of the admin listener.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::Spanned;

/// The console: pages for a browser on the admin listener.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `token` and `read_only`")]
pub struct Console {
    /// What people log in with; at least 16 bytes. Programs send it as `Authorization: Bearer` for every page of the admin listener but
    /// `/`, `/metrics`, `/healthz` and `/readyz`. Without it the console is served over the loopback interface only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Spanned<String>>,
    /// Whether the console only shows, and refuses every action.
    pub read_only: bool,
}

impl fmt::Debug for Console {
    /// Leaves the token out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("read_only", &self.read_only).finish_non_exhaustive()
    }
}
