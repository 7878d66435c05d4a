//! Routes. Those for gRPC and those for HTTP differ in their matches only.

use serde::Deserialize;

use super::{Meta, Status, object};

/// Routes requests over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HTTPRoute {
    /// `metadata`.
    pub metadata: Meta,
    /// `spec`.
    pub spec: RouteSpec<HttpMatch>,
    /// `status`, as it is.
    pub status: Status,
}

/// Routes calls over gRPC.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GRPCRoute {
    /// `metadata`.
    pub metadata: Meta,
    /// `spec`.
    pub spec: RouteSpec<GrpcMatch>,
    /// `status`, as it is.
    pub status: Status,
}

/// `spec` of a route.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteSpec<M: Default> {
    /// What it attaches to.
    #[serde(bound = "")]
    pub parent_refs: Vec<ParentRef>,
    /// Hosts; those of the listener without any.
    pub hostnames: Vec<String>,
    /// Rules.
    #[serde(bound = "M: Deserialize<'de>")]
    pub rules: Vec<Rule<M>>,
}

impl<M: Default> Default for RouteSpec<M> {
    fn default() -> Self {
        RouteSpec { parent_refs: Vec::new(), hostnames: Vec::new(), rules: Vec::new() }
    }
}

/// What a route attaches to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParentRef {
    /// Group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace, if another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Name of a listener; all without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// Port of listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A rule of a route.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule<M: Default> {
    /// Name.
    pub name: Option<String>,
    /// Any of them; every request without one.
    #[serde(bound = "M: Deserialize<'de>")]
    pub matches: Vec<M>,
    /// What is done on the way.
    pub filters: Vec<Filter>,
    /// Where requests go.
    pub backend_refs: Vec<BackendRef>,
    /// Deadlines.
    pub timeouts: Option<Timeouts>,
}

impl<M: Default> Default for Rule<M> {
    fn default() -> Self {
        Rule { name: None, matches: Vec::new(), filters: Vec::new(), backend_refs: Vec::new(), timeouts: None }
    }
}

/// What a request over HTTP has to be.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpMatch {
    /// Its path.
    pub path: Option<ValueMatch>,
    /// Its fields.
    pub headers: Vec<ValueMatch>,
    /// Its query parameters.
    pub query_params: Vec<ValueMatch>,
    /// Its method.
    pub method: Option<String>,
}

/// What a call has to be.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GrpcMatch {
    /// Its method.
    pub method: Option<MethodMatch>,
    /// Its metadata.
    pub headers: Vec<ValueMatch>,
}

/// A method of gRPC.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MethodMatch {
    /// `Exact` or `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Service with its package.
    pub service: Option<String>,
    /// Method.
    pub method: Option<String>,
}

/// A match of a path, a field or a query parameter.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ValueMatch {
    /// How it is matched.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Name of the field or parameter.
    pub name: String,
    /// Value.
    pub value: Option<String>,
}

/// Where requests go.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct BackendRef {
    /// Group; that of Kubernetes itself is empty.
    pub group: Option<String>,
    /// Kind; a Service where nothing is said.
    pub kind: Option<String>,
    /// Name.
    pub name: String,
    /// Namespace, if another one.
    pub namespace: Option<String>,
    /// Port of the service.
    pub port: Option<u16>,
    /// Share of the requests.
    pub weight: Option<u32>,
    /// What is done on the way to it.
    pub filters: Vec<Filter>,
}

/// What is done on the way.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Filter {
    /// Which of the others is meant.
    #[serde(rename = "type")]
    pub kind: String,
    /// Edits of the request.
    pub request_header_modifier: Option<HeaderModifier>,
    /// Edits of the response.
    pub response_header_modifier: Option<HeaderModifier>,
    /// A redirect in place of a response of the backend.
    pub request_redirect: Option<Redirect>,
    /// Change of host and path.
    pub url_rewrite: Option<UrlRewrite>,
    /// Cross-origin rules.
    pub cors: Option<Cors>,
    /// Copies of requests.
    pub request_mirror: Option<RequestMirror>,
}

/// Copies of requests to another backend.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RequestMirror {
    /// The backend.
    pub backend_ref: BackendRef,
    /// Share of requests in per cent; all without it.
    pub percent: Option<u32>,
    /// Share of requests.
    pub fraction: Option<Fraction>,
}

/// A part of a whole.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Fraction {
    /// How many.
    pub numerator: u32,
    /// Of how many.
    pub denominator: u32,
}

impl Default for Fraction {
    fn default() -> Self {
        Fraction { numerator: 0, denominator: 100 }
    }
}

/// Edits of fields.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HeaderModifier {
    /// Replaced.
    pub set: Vec<Header>,
    /// Added.
    pub add: Vec<Header>,
    /// Removed.
    pub remove: Vec<String>,
}

/// A field.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// A redirect; what is not said is as in the request.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Redirect {
    /// Scheme.
    pub scheme: Option<String>,
    /// Host.
    pub hostname: Option<String>,
    /// Path.
    pub path: Option<PathModifier>,
    /// Port.
    pub port: Option<u16>,
    /// Status, 302 if nothing is said.
    pub status_code: Option<u16>,
}

/// Change of host and path.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct UrlRewrite {
    /// Host.
    pub hostname: Option<String>,
    /// Path.
    pub path: Option<PathModifier>,
}

/// Change of a path.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PathModifier {
    /// `ReplaceFullPath` or `ReplacePrefixMatch`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The whole path.
    pub replace_full_path: Option<String>,
    /// In place of the prefix that matched.
    pub replace_prefix_match: Option<String>,
}

/// Cross-origin rules.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cors {
    /// Origins.
    pub allow_origins: Vec<String>,
    /// Methods.
    pub allow_methods: Vec<String>,
    /// Request fields.
    pub allow_headers: Vec<String>,
    /// Response fields that a page may read.
    pub expose_headers: Vec<String>,
    /// Whether credentials may be sent.
    pub allow_credentials: Option<bool>,
    /// Seconds that a permission holds.
    pub max_age: Option<u32>,
}

/// Deadlines of a rule.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Timeouts {
    /// Of the whole exchange.
    pub request: Option<String>,
    /// Of an attempt.
    pub backend_request: Option<String>,
}

object!(HTTPRoute, "/apis/gateway.networking.k8s.io/v1/httproutes");
object!(GRPCRoute, "/apis/gateway.networking.k8s.io/v1/grpcroutes");
