//! What the configuration means: resolved, checked and immutable.
//!
//! Names have become indices, units have become numbers, every default is filled in and every text is checked: nothing is left to parse
//! while requests are served.
//!
//! Indices ([`UpstreamId`], [`LimitId`], [`CacheId`]) point into the vectors of the same `Config` and mean nothing in another one;
//! state that outlives a reload is matched by name.

mod ai;
mod auth;
mod authorizer;
mod budget;
mod cache;
mod compress;
mod condition;
mod console;
mod credential;
mod decisive;
mod errors;
mod inference;
mod limit;
mod listen;
mod log_fields;
mod log_template;
mod registry;
mod route;
mod split;
mod telemetry;
mod template;
mod trust;
mod upstream;

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::redact::Redaction;
use crate::spoofable;

pub use ai::*;
pub use auth::*;
pub use authorizer::*;
pub use budget::*;
pub use cache::*;
pub use compress::*;
pub use condition::*;
pub use console::*;
pub use errors::*;
pub use inference::*;
pub use limit::*;
pub use listen::*;
pub use log_fields::{FieldSet, LogFields, LoggedHeader};
pub use log_template::{LOG_FIELDS, LogPart, log_template};
pub use registry::*;
pub use route::*;
pub use split::*;
pub use telemetry::*;
pub use template::*;
pub use trust::*;
pub use upstream::*;

/// A whole gateway: what it listens on, what it stands in front of, what it does in between.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// File or environment only; decides the built-in public paths.
    pub mode: Mode,
    /// Public listeners.
    pub listen: Vec<Listen>,
    /// Files that TLS needs, which were read with the configuration.
    pub tls_files: Vec<PathBuf>,
    /// Address of the admin listener.
    pub admin: Option<SocketAddr>,
    /// Who may use the console of the admin listener.
    pub console: Console,
    /// Unix socket over which a new process receives the listening sockets of the old one.
    pub takeover: Option<PathBuf>,
    /// Worker threads; `None`: one per core that this process may use.
    pub workers: Option<NonZeroUsize>,
    /// Peers whose `X-Forwarded-*` and request id are believed.
    pub trusted_proxies: TrustedProxies,
    /// Which fields of other peers are removed.
    pub untrusted_headers: UntrustedHeaders,
    /// Name of the request id field, as it is written to upstreams.
    pub request_id: Arc<str>,
    /// Who gets `Server-Timing` with responses.
    pub server_timing: ServerTiming,
    /// Where request lines go, if anywhere.
    pub access_log: Option<AccessLog>,
    /// What collectors of telemetry are told.
    pub telemetry: Telemetry,
    /// Names whose values are not shown.
    pub redaction: Redaction,
    /// Sizes and times that bound a client.
    pub server: Server,
    /// The Redis that limits and caches with `store: redis` share.
    pub redis: Option<Redis>,
    /// Groups of targets, in the order of the file; indexed by [`UpstreamId`].
    pub upstreams: Vec<Upstream>,
    /// Authenticators; indexed by [`AuthId`].
    pub auth: Vec<Authenticator>,
    /// What requests that match no route have to show: `defaults.auth`.
    pub gateway_auth: RouteAuth,
    /// Rate limits; indexed by [`LimitId`].
    pub limits: Vec<Limit>,
    /// Limits of tokens and money; indexed by [`BudgetId`].
    pub budgets: Vec<Budget>,
    /// Currency of prices, where there is a file of them.
    pub currency: Option<Arc<str>>,
    /// Caches; indexed by [`CacheId`].
    pub caches: Vec<Cache>,
    /// Providers of AI models; indexed by [`ProviderId`].
    pub providers: Vec<Provider>,
    /// AI models; indexed by [`ModelId`].
    pub models: Vec<Model>,
    /// What holds for AI traffic of the whole process.
    pub ai: Ai,
    /// Limits that also count requests which match no route (404, 405): those of `defaults`.
    pub gateway_limits: Vec<LimitId>,
    /// Pages for errors of requests that match no route.
    pub gateway_errors: Option<Arc<ErrorPages>>,
    /// Routes in the order of the file, then those of APIs; indexed by [`RouteId`].
    pub routes: Vec<Route>,
    /// APIs whose descriptions made routes.
    pub apis: Vec<Api>,
}

/// An API whose description made routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// Name in the file.
    pub name: Arc<str>,
    /// File of the description.
    pub spec: PathBuf,
    /// Operations that are routes, or would be if no route of the file took their requests.
    pub operations: usize,
    /// What is not checked, a sentence each with its place in the description.
    pub notes: Vec<String>,
}

/// Which fields of peers that are not trusted are removed; see [`spoofable`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedHeaders {
    /// Whether any are.
    pub strip: bool,
    /// Those that pass nevertheless.
    pub keep: Vec<Arc<str>>,
}

impl UntrustedHeaders {
    /// Whether a field of this name is removed.
    #[inline]
    pub fn removes(&self, name: &[u8]) -> bool {
        self.strip
            && spoofable::find(name).is_some()
            && !self.keep.iter().any(|kept| h1::Known::is_alias(name, kept.as_bytes()))
    }
}

/// Where the configuration came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A file: no public path is reserved.
    File,
    /// Environment variables only: `/healthz`, `/cachez` and `/gates` exist and are exempt from limits and cache.
    Environment,
    /// A controller, which makes the configuration from objects: there may be no listener and no route, and routes are in order of precedence.
    Managed,
}

/// Index of an upstream in [`Config::upstreams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct UpstreamId(pub usize);
/// Index of a limit in [`Config::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitId(pub usize);
/// Index of a cache in [`Config::caches`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheId(pub usize);
/// Index of a route in [`Config::routes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteId(pub usize);

/// Who gets `Server-Timing` with responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTiming {
    /// Nobody.
    None,
    /// Peers that are trusted.
    Trusted,
    /// Everyone.
    All,
}

/// The access log.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    /// Where lines go.
    pub to: AccessLogTarget,
    /// How they are written.
    pub format: LogFormat,
    /// Which fields they have, in the formats that have names.
    pub fields: LogFields,
    /// Which requests are logged; none: all.
    pub only: Option<LogOnly>,
    /// Share of requests that are logged, 0.0 to 1.0.
    pub sample: f64,
}

/// How lines of the access log are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object.
    Json,
    /// The combined format of Apache httpd.
    Combined,
    /// `name=value` pairs.
    Logfmt,
    /// The operator's own.
    Template(Arc<[LogPart]>),
}

/// Which requests the access log has: those that meet at least one of the conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOnly {
    /// Ranges of statuses, inclusive.
    pub statuses: Vec<(u16, u16)>,
    /// Statuses of gRPC calls.
    pub grpc: GrpcStatuses,
    /// Duration, in nanoseconds, from which on a request is slow.
    pub slower_ns: Option<u64>,
}

impl LogOnly {
    /// Whether a request with this status, and that of its gRPC call, and this duration in nanoseconds is logged.
    pub fn takes(&self, status: u16, grpc_status: Option<u8>, duration_ns: u64) -> bool {
        self.statuses.iter().any(|(first, last)| (*first..=*last).contains(&status))
            || grpc_status.is_some_and(|status| self.grpc.has(status))
            || self.slower_ns.is_some_and(|slow| duration_ns >= slow)
    }
}

/// Destination of the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Standard output.
    Stdout,
    /// A file, appended to; reopened on SIGHUP so that it can be rotated.
    File(PathBuf),
    /// The socket of a syslog service (RFC 3164), one datagram for each line.
    Syslog(PathBuf),
}

/// Bounds on clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Open client connections of the whole process.
    pub max_connections: usize,
    /// Open connections of one client address.
    pub max_connections_per_client: Option<usize>,
    /// Bytes of the request line (414 above).
    pub request_line_bytes: usize,
    /// Bytes of the whole head (431 above).
    pub head_bytes: usize,
    /// Header fields (431 above).
    pub fields: usize,
    /// Bytes of a body where the route says nothing (413 above).
    pub body_bytes: Option<u64>,
    /// From the first byte of a head to its end (408); `None`: no deadline, as for every other deadline.
    pub head_timeout: Option<Duration>,
    /// Between two pieces of a request body (408).
    pub body_idle_timeout: Option<Duration>,
    /// How long an idle client connection is kept; `None`: until the client closes it.
    pub keep_alive: Option<Duration>,
    /// How long requests in flight may take after SIGTERM or a take-over.
    pub drain: Option<Duration>,
    /// How long the process goes on serving after SIGTERM, while its health endpoints say 503.
    pub drain_delay: Duration,
    /// How long a client connection is used.
    pub connection: ConnectionUse,
    /// Whether the soft limit on open files is raised to the hard one.
    pub raises_files: bool,
    /// Limits of connections over HTTP/2.
    pub http2: Http2,
    /// How paths that servers read in two ways are treated.
    pub path: message::path::Policy,
    /// Whether a `Content-Length` that is not written in the one usual way is refused (400).
    pub is_content_length_strict: bool,
    /// Whether every response carries the id of its request.
    pub returns_request_id: bool,
    /// Whether workers under load rest before they wait for events (`runtime::wakeups`).
    pub coalesce: bool,
    /// Failed logins that one client address may have: a token bucket.
    pub auth_failures: Option<LimitAlgorithm>,
}

/// How long a connection is used; each has up to 10 % less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionUse {
    /// Requests of one connection.
    pub max_requests: Option<u32>,
    /// Age at which it gets no further request.
    pub max_age: Option<Duration>,
}

/// Options of TCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Time without a byte after which the peer is probed, and between two probes.
    pub keepalive: Option<Duration>,
    /// How long sent bytes may stay unacknowledged.
    pub user_timeout: Option<Duration>,
}

/// Limits of client connections over HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Http2 {
    /// Requests of one connection at once.
    pub max_concurrent_streams: u32,
    /// Requests of one connection in its life.
    pub max_requests: Option<u32>,
    /// Receive window of a stream, in bytes.
    pub stream_window: u32,
    /// Receive window of a connection, in bytes.
    pub connection_window: u32,
    /// Points of the abuse budget that all connections of one client address may lose.
    pub abuse_per_client: Option<LimitAlgorithm>,
}

impl Default for Http2 {
    fn default() -> Self {
        Http2 {
            max_concurrent_streams: 100,
            max_requests: None,
            stream_window: 64 << 10,
            connection_window: 1 << 20,
            abuse_per_client: None,
        }
    }
}

/// Connection to Redis.
#[derive(Clone, PartialEq, Eq)]
pub struct Redis {
    /// URL as configured, password included: never print it.
    pub url: String,
    /// Hard deadline of one round trip of a limit.
    pub timeout: Duration,
    /// First part of every name in Redis.
    pub namespace: String,
    /// Key of the hashes in names: never print it.
    pub secret: Option<String>,
}

impl Redis {
    /// What a namespace is.
    pub const NAMESPACE: &str = "`namespace` is 1 to 32 letters, digits, `-`, `_` or `.`";

    /// Whether a text can be a namespace.
    pub fn is_namespace(text: &str) -> bool {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=32).contains(&text.len()) && text.bytes().all(is_fit)
    }

    /// Key of the hash of what clients send, for names in Redis. Without a secret it is the namespace, which keeps deployments apart and hides nothing.
    pub fn hash_key(&self) -> &[u8] {
        self.secret.as_ref().unwrap_or(&self.namespace).as_bytes()
    }
}

impl fmt::Debug for Redis {
    /// Leaves URL and secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
