//! What a file says, key for key.
//!
//! These types are the public interface: a key exists if it is here, its documentation is the one of the published schema, and its
//! default is the one that is filled in. Texts with a grammar (times, addresses, patterns) are checked as they are read, so that an
//! error stands at its line; what one part of a file says about another is checked by `resolve`.

mod ai;
mod api;
mod auth;
mod authorizer;
mod bind;
mod budget;
mod cache;
mod compress;
mod condition;
mod console;
mod errors;
mod inference;
mod key_store;
mod limit;
mod listen;
mod mirror;
mod mtls;
pub(crate) mod pattern;
mod route;
pub mod secrets;
mod server;
pub mod shape;
mod split;
pub mod target;
pub mod targets;
mod telemetry;
pub mod text;
pub mod units;
mod upstream;
mod word;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use ai::*;
pub use api::*;
pub use auth::*;
pub use authorizer::*;
pub use bind::*;
pub use budget::*;
pub use cache::*;
pub use compress::*;
pub use condition::*;
pub use console::*;
pub use errors::*;
pub use inference::{EngineMetricNames, Inference, InferenceEngine};
pub use key_store::*;
pub use limit::*;
pub use listen::*;
pub use mirror::*;
pub use mtls::*;
pub use pattern::{Host, Path};
pub use route::*;
pub use server::*;
pub use split::*;
pub use targets::*;
pub use telemetry::*;
pub use upstream::*;

use shape::{Map, OneOrMany, OrNone, Spanned};
use text::{Address, FieldName};

/// Configuration of Weir.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with at least `listen` and `routes`")]
pub struct File {
    /// The public listener, or a list of them: an address, the path of a Unix socket, or a mapping with `bind`. Port 0 takes a free port.
    pub listen: Spanned<OneOrMany<Spanned<Listen>>>,
    /// Address of the admin listener: metrics, upstreams, routes, configuration, reload.
    #[serde(default)]
    pub admin: OrNone<Spanned<Address>>,
    /// The console: pages for a browser on the admin listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<Spanned<Console>>,
    /// Path of the Unix socket over which a new process receives the listening sockets of the old one, which then drains.
    #[serde(default)]
    pub takeover: OrNone<Spanned<String>>,
    /// Worker threads; `auto` is one for each core that the process may use.
    #[serde(default)]
    pub workers: Workers,
    /// Networks of the proxies in front, whose `X-Forwarded-*` and request id are believed; `unix:` for those that connect to Unix sockets.
    #[serde(default)]
    pub trusted_proxies: Vec<TrustedProxy>,
    /// Request fields that only a trusted proxy may send.
    #[serde(default)]
    pub untrusted_headers: UntrustedHeaders,
    /// Header field that carries the request id.
    #[serde(default = "default_request_id")]
    pub request_id: Spanned<FieldName>,
    /// Who gets `Server-Timing` with responses: how long the gateway, the upstream and the queue took, and what the cache did.
    #[serde(default)]
    pub server_timing: ServerTiming,
    /// One line for each request.
    #[serde(default)]
    pub access_log: OrNone<AccessLog>,
    /// What the gateway tells collectors of telemetry.
    #[serde(default)]
    pub telemetry: Telemetry,
    /// Query parameters and header fields whose values are not shown, beside those that never are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<Spanned<String>>,
    /// What clients may take: sizes, times, connections.
    #[serde(default)]
    pub server: Server,
    /// The Redis that limits and caches with `store: redis` share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<Spanned<Redis>>,
    /// Groups of targets, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub upstreams: Map<Upstream>,
    /// Authenticators, by name: ways to determine who sends a request. They apply where a route, or `defaults`, names them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub auth: Map<Authenticator>,
    /// Rate limits, by name. They count where a route, or `defaults`, names them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub limits: Map<Limit>,
    /// Caches, by name. They are used where a route, or `defaults`, names them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub caches: Map<Cache>,
    /// Providers of AI models, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub providers: Map<Provider>,
    /// AI models, by the name that clients use. They are served where a route has `ai`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub models: Map<Model>,
    /// File with the prices of models, looked for from the configuration's folder; read at start and at reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Spanned<String>>,
    /// What holds for AI traffic of the whole process.
    #[serde(default)]
    pub ai: Ai,
    /// What every route starts from.
    #[serde(default)]
    pub defaults: Defaults,
    /// APIs that are published from their descriptions, by name: each operation is a route, after those of `routes`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub apis: Map<Api>,
    /// Which requests are served, and how.
    pub routes: Spanned<Vec<Spanned<Route>>>,
}

impl Default for File {
    /// Everything that has a default; no listener and no route.
    fn default() -> Self {
        File {
            listen: Spanned::default(),
            admin: OrNone::None,
            console: None,
            takeover: OrNone::None,
            workers: Workers::default(),
            trusted_proxies: Vec::new(),
            untrusted_headers: UntrustedHeaders::default(),
            request_id: default_request_id(),
            server_timing: ServerTiming::None,
            access_log: OrNone::None,
            telemetry: Telemetry::default(),
            redact: Vec::new(),
            server: Server::default(),
            redis: None,
            upstreams: Map::default(),
            auth: Map::default(),
            limits: Map::default(),
            caches: Map::default(),
            providers: Map::default(),
            models: Map::default(),
            prices: None,
            ai: Ai::default(),
            defaults: Defaults::default(),
            apis: Map::default(),
            routes: Spanned::default(),
        }
    }
}

fn default_request_id() -> Spanned<FieldName> {
    FieldName("X-Request-Id".to_owned()).into()
}

/// What happens to request fields by which proxies inform upstreams about clients, when a peer that is not trusted sends them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `strip` and `keep`")]
pub struct UntrustedHeaders {
    /// Whether they are removed.
    pub strip: bool,
    /// Names that pass nevertheless.
    pub keep: Vec<Spanned<FieldName>>,
}

impl Default for UntrustedHeaders {
    fn default() -> Self {
        UntrustedHeaders { strip: true, keep: Vec::new() }
    }
}

/// What every route starts from; a route that says something else replaces it, `limits: []` and `cache: none` clear it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `auth`, `limits`, `cache`, `compress` and `errors`")]
pub struct Defaults {
    /// Authenticators of every route, and of requests that match none: those get 401 before 404.
    #[serde(skip_serializing_if = "OrNone::is_none")]
    pub auth: RouteAuth,
    /// Limits of every route, and of requests that match none.
    pub limits: Vec<Spanned<String>>,
    /// Cache of every route that forwards.
    pub cache: OrNone<Spanned<String>>,
    /// Compression of the responses of every route that forwards, but for routes with `auth` unless `also` has `auth`.
    #[serde(skip_serializing_if = "OrNone::is_none")]
    pub compress: OrNone<Spanned<Compress>>,
    /// Pages for errors of every route, and of requests that match none.
    #[serde(skip_serializing_if = "OrNone::is_none")]
    pub errors: OrNone<ErrorPages>,
}
