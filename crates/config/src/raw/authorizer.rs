//! Services that decide whether a request may pass.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{OrNone, Spanned};
use super::text::{FieldName, is_token, text_type};
use super::units::Time;
use crate::VerdictKey;

/// Forward authentication: a service decides about each request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `url`, or `upstream` and `path`")]
pub struct ForwardAuth {
    /// `http://` or `https://` URL of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Spanned<String>>,
    /// Upstream of the file that the service is, in place of `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Spanned<String>>,
    /// With `upstream`: path of the request to the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Spanned<String>>,
    /// Request fields that the service sees; `Authorization` and `Cookie` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<Vec<Spanned<FieldName>>>,
    /// Fields of its response that go to the route's upstream; a client's own are removed on every route.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<Spanned<FieldName>>,
    /// Fields of its response that the client of a request that passes gets, such as `Set-Cookie`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copy_to_response: Vec<Spanned<FieldName>>,
    /// Field of its response that names the consumer.
    pub consumer: OrNone<Spanned<FieldName>>,
    /// Field of its response that names the tier.
    pub tier: OrNone<Spanned<FieldName>>,
    /// How long a request waits for it, connecting included.
    pub timeout: AuthorizerTimeout,
    /// What happens to requests while it gives no response.
    pub on_failure: OnAuthorizerFailure,
    /// How its statuses are read.
    pub mode: ForwardMode,
    /// Caching of verdicts that let a request pass.
    pub cache: OrNone<Spanned<VerdictCache>>,
}

/// Envoy's `ext_authz`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `url` or `upstream`")]
pub struct ExtAuthz {
    /// URL of the service: `grpc://` or `grpcs://`, or `http://` or `https://` with a path that goes before that of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Spanned<String>>,
    /// Upstream of the file that the service is, in place of `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Spanned<String>>,
    /// Request fields that the service sees; `Authorization` and `Cookie` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<Vec<Spanned<FieldName>>>,
    /// Fields of its response that go to the route's upstream; a client's own are removed on every route.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<Spanned<FieldName>>,
    /// Fields of its response that the client of a request that passes gets, such as `Set-Cookie`; over gRPC the service says so itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copy_to_response: Vec<Spanned<FieldName>>,
    /// Field of its response that names the consumer.
    pub consumer: OrNone<Spanned<FieldName>>,
    /// Field of its response that names the tier.
    pub tier: OrNone<Spanned<FieldName>>,
    /// How long a request waits for it, connecting included.
    pub timeout: AuthorizerTimeout,
    /// What happens to requests while it gives no response, or one of 5xx.
    pub on_failure: OnAuthorizerFailure,
    /// With `upstream`: how it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Spanned<ExtAuthzMode>>,
}

/// How a service with Envoy's `ext_authz` interface is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExtAuthzMode {
    /// By an HTTP request, with method and path of the client's.
    Http,
    /// By gRPC; the upstream has `protocol: http2`.
    Grpc,
}

/// How long an authorizer may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct AuthorizerTimeout(pub Time);

impl Default for AuthorizerTimeout {
    fn default() -> Self {
        AuthorizerTimeout(Time(Duration::from_millis(500)))
    }
}

/// What happens to requests while the authorizer gives no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnAuthorizerFailure {
    /// They get 503.
    #[default]
    Deny,
    /// They pass, and are counted.
    Allow,
}

/// How the statuses of a forward authorizer are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForwardMode {
    /// 2xx passes; any other response goes to the client.
    #[default]
    Traefik,
    /// 2xx passes, 401 and 403 go to the client, anything else is 500, as with `auth_request`.
    Nginx,
}

/// Caching of verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `ttl`")]
pub struct VerdictCache {
    /// What a verdict depends on: `header:NAME`, `method`, `host`, `path`, `uri` (path and query), `client_ip`. All fields of `send`, method,
    /// host and uri by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<Spanned<VerdictKeyText>>,
    /// How long.
    pub ttl: Time,
}

/// A part of what a verdict depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictKeyText(pub VerdictKey);

text_type!(
    VerdictKeyText,
    "VerdictKey",
    r"^(method|host|path|uri|client_ip|header:\S+)$",
    "what a verdict depends on: `header:NAME`, `method`, `host`, `path`, `uri` or `client_ip`"
);

impl FromStr for VerdictKeyText {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(VerdictKeyText(match (text, text.strip_prefix("header:")) {
            ("method", _) => VerdictKey::Method,
            ("host", _) => VerdictKey::Host,
            ("path", _) => VerdictKey::Path,
            ("uri", _) => VerdictKey::Uri,
            ("client_ip", _) => VerdictKey::ClientIp,
            (_, Some(name)) if is_token(name) => VerdictKey::Header(name.to_ascii_lowercase().into()),
            _ => {
                return Err(format!(
                    "expected `header:NAME`, `method`, `host`, `path`, `uri` or `client_ip`, found `{text}`"
                ));
            }
        }))
    }
}

impl fmt::Display for VerdictKeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VerdictKey::Method => f.write_str("method"),
            VerdictKey::Host => f.write_str("host"),
            VerdictKey::Path => f.write_str("path"),
            VerdictKey::Uri => f.write_str("uri"),
            VerdictKey::ClientIp => f.write_str("client_ip"),
            VerdictKey::Header(name) => write!(f, "header:{name}"),
        }
    }
}
