//! APIs that are published from their descriptions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pattern::Host;
use super::route::{Cors, HeaderEdits, RouteTimeouts};
use super::shape::{Map, OrNone, Spanned};
use super::split::Split;
use super::units::Size;

/// An API whose routes are the operations of its description.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `spec`, and `upstream` or `split`")]
pub struct Api {
    /// File of the description: OpenAPI 3.0, OpenAPI 3.1 or Swagger 2.0. A relative path starts at the folder of this file.
    pub spec: Spanned<String>,
    /// Upstream that requests go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Spanned<String>>,
    /// Upstreams that share the requests by weight, in place of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Spanned<Split>>,
    /// Path under which the API is published: `from_spec` is that of the description's first server.
    #[serde(default = "from_spec")]
    pub base: Spanned<String>,
    /// Path under which the upstream has the API; absent: the same as `base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_base: Option<Spanned<String>>,
    /// Host of all its routes; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Authenticator for each security scheme that an operation names.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub auth: Map<Spanned<String>>,
    /// What is checked.
    #[serde(default)]
    pub validate: Spanned<Validate>,
    /// Operations that are left out, by `operationId`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<Spanned<String>>,
    /// Upstreams to try, in order, when the one before has no usable target or failed in a way that may be retried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<Spanned<String>>,
    /// Limits of every operation, in place of those of `defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<Spanned<String>>>,
    /// Cache of every operation, in place of that of `defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Spanned<OrNone<Spanned<String>>>>,
    /// Deadlines of every operation, in place of those of the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Spanned<RouteTimeouts>>,
    /// Header fields to set, add and remove.
    #[serde(default, skip_serializing_if = "HeaderEdits::is_empty")]
    pub headers: HeaderEdits,
    /// Which pages of other origins may use the API.
    #[serde(default, skip_serializing_if = "OrNone::is_none")]
    pub cors: OrNone<Spanned<Cors>>,
}

fn from_spec() -> Spanned<String> {
    "from_spec".to_owned().into()
}

/// What is checked of the traffic of an API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `request`, `body`, `unknown_query` and `patterns`")]
pub struct Validate {
    /// What happens to requests that do not match the description.
    pub request: Validation,
    /// What happens to responses that do not match the description; not supported yet.
    pub response: Spanned<Validation>,
    /// Size of a request body that is checked.
    pub body: Size,
    /// What happens to query parameters that are not described.
    pub unknown_query: UnknownQuery,
    /// What happens to patterns that cannot be matched in linear time.
    pub patterns: Patterns,
}

impl Default for Validate {
    fn default() -> Self {
        Validate {
            request: Validation::Enforce,
            response: Validation::None.into(),
            body: Size(1 << 20),
            unknown_query: UnknownQuery::Allow,
            patterns: Patterns::Refuse,
        }
    }
}

/// What happens to messages that do not match a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// Nothing is checked.
    None,
    /// They pass, are logged and counted.
    Report,
    /// They are refused.
    Enforce,
}

/// What happens to query parameters that are not described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownQuery {
    /// They pass.
    Allow,
    /// They break the description.
    Refuse,
}

/// What happens to patterns that cannot be matched in linear time: look-around, back references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Patterns {
    /// The configuration is refused.
    Refuse,
    /// They are not checked.
    Skip,
}

/// What an operation says about itself in its `x-weir`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `limits`, `cache` and `timeouts`")]
pub struct OperationExtension {
    /// Limits, in place of those of the API.
    pub limits: Option<Vec<Spanned<String>>>,
    /// Cache, in place of that of the API.
    pub cache: Option<Spanned<OrNone<Spanned<String>>>>,
    /// Deadlines, in place of those of the API.
    pub timeouts: Option<Spanned<RouteTimeouts>>,
}
