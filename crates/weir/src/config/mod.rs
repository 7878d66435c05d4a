//! What the configuration means: resolved, checked and immutable.
//!
//! A configuration goes through three forms. `raw` is what the file says, key for key. `resolve` turns it into the
//! [`Config`] of this module, where names have become indices, units have become numbers and every default is filled in;
//! it is pure and opens no socket. The runtime then builds its state (listeners, pools, limiters) from a `Config` and
//! never looks at the raw form again.
//!
//! Indices ([`UpstreamId`], [`LimitId`], [`CacheId`]) point into the vectors of the same `Config` and mean nothing in another one;
//! state that outlives a reload is matched by name.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

/// A whole gateway: what it listens on, what it stands in front of, what it does in between.
#[derive(Debug, Clone)]
pub struct Config {
    /// File or environment only; decides the built-in public paths.
    pub mode: Mode,
    /// Addresses of the public listeners; port 0 takes a free port.
    pub listen: Vec<SocketAddr>,
    /// Address of the admin listener.
    pub admin: Option<SocketAddr>,
    /// Unix socket over which a new process receives the listening sockets of the old one.
    pub takeover: Option<PathBuf>,
    /// Worker threads; `None`: one per core that this process may use.
    pub workers: Option<NonZeroUsize>,
    /// Peers whose `X-Forwarded-*` and request id are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Name of the request id field, as it is written to upstreams.
    pub request_id: Arc<str>,
    /// Where request lines go, if anywhere.
    pub access_log: Option<AccessLog>,
    /// Sizes and times that bound a client.
    pub server: Server,
    /// The Redis that limits and caches with `store: redis` share.
    pub redis: Option<Redis>,
    /// Groups of targets, in the order of the file; indexed by [`UpstreamId`].
    pub upstreams: Vec<Upstream>,
    /// Rate limits; indexed by [`LimitId`].
    pub limits: Vec<Limit>,
    /// Caches; indexed by [`CacheId`].
    pub caches: Vec<Cache>,
    /// Limits that also count requests which match no route (404, 405): those of `defaults`.
    pub gateway_limits: Vec<LimitId>,
    /// Routes in the order of the file; indexed by [`RouteId`].
    pub routes: Vec<Route>,
}

/// Where the configuration came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A file: no public path is reserved.
    File,
    /// Environment variables only: `/healthz`, `/cachez` and `/gates` exist and are exempt from limits and cache.
    Environment,
}

/// Index of an upstream in [`Config::upstreams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// The JSON access log.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    /// Where lines go.
    pub to: AccessLogTarget,
    /// Share of requests that are logged, 0.0 to 1.0.
    pub sample: f64,
}

/// Destination of the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Standard output.
    Stdout,
    /// A file, appended to; reopened on SIGHUP so that it can be rotated.
    File(PathBuf),
}

/// Bounds on clients.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// From the first byte of a head to its end (408).
    pub head_timeout: Option<Duration>,
    /// Between two pieces of a request body (408).
    pub body_idle_timeout: Option<Duration>,
    /// How long an idle client connection is kept.
    pub keep_alive: Option<Duration>,
    /// How long requests in flight may take after SIGTERM or a take-over.
    pub drain: Option<Duration>,
}

/// Connection to Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redis {
    /// URL as configured, password included: never print it.
    pub url: String,
    /// Hard deadline of one round trip of a limit.
    pub timeout: Duration,
}

/// A named group of targets that can serve the same requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// Name in the file; used by routes, logs and metrics.
    pub name: Arc<str>,
    /// Where requests may go.
    pub targets: Vec<Target>,
    /// How one is picked.
    pub balance: Balance,
    /// Active health checks.
    pub health: Option<Health>,
    /// Passive ejection of failing targets.
    pub eject: Option<Eject>,
    /// How long a target that came back takes to reach its full share.
    pub slow_start: Option<Duration>,
    /// Circuit breaker, per target.
    pub breaker: Option<Breaker>,
    /// Deadlines.
    pub timeouts: Timeouts,
    /// Further attempts.
    pub retry: Retry,
    /// Idle connections.
    pub keep_alive: UpstreamKeepAlive,
    /// Requests in flight per target over the whole process.
    pub max_in_flight: Option<NonZeroU32>,
    /// Where requests wait when every target is at `max_in_flight`.
    pub queue: Option<Queue>,
}

/// One target of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where to connect.
    pub address: TargetAddress,
    /// The `Host` that the target sees when the route does not rewrite it: authority of the URL, or the client's own for Unix sockets.
    pub authority: Option<Arc<str>>,
    /// Path of the URL without a trailing slash; put before every forwarded path. Usually empty.
    pub base_path: Arc<str>,
    /// Share of requests relative to the other targets.
    pub weight: NonZeroU32,
}

/// Where a target listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TargetAddress {
    /// An address that needs no resolution.
    Ip(SocketAddr),
    /// A name, resolved without blocking and again as its TTL ends; every address of the answer is a target.
    Name {
        /// Host name.
        host: Arc<str>,
        /// TCP port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
    /// A demo upstream inside this process; its address is known once it listens.
    Demo,
}

/// How a target is picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// Fewer requests in flight of two random targets (power of two choices).
    LeastRequest,
    /// Lower peak EWMA of latency times load, of two random targets.
    Ewma,
    /// Consistent hash with bounded load.
    Hash(HashKey),
}

/// What a consistent hash is taken of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// The client's address.
    ClientIp,
    /// A request field; requests without it are hashed by client address.
    Header(Arc<str>),
    /// The normalised path.
    Path,
}

/// Active health checks of one upstream; each target is asked on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Path that is asked with GET.
    pub path: Arc<str>,
    /// Time between two probes.
    pub interval: Duration,
    /// Deadline of one probe.
    pub timeout: Duration,
    /// Successes in a row that make an unhealthy target healthy.
    pub healthy_after: u32,
    /// Failures in a row that make a healthy target unhealthy.
    pub unhealthy_after: u32,
    /// Statuses that count as success, inclusive.
    pub status: (u16, u16),
}

/// Passive ejection.
#[derive(Debug, Clone, PartialEq)]
pub struct Eject {
    /// Consecutive failures after which a target is out.
    pub after: u32,
    /// How long it stays out.
    pub period: Duration,
    /// Share of the upstream's targets that may be out at once, 0.0 to 1.0.
    pub max_share: f64,
}

/// Circuit breaker.
#[derive(Debug, Clone, PartialEq)]
pub struct Breaker {
    /// Share of failures that opens it, 0.0 to 1.0.
    pub failures: f64,
    /// Number of last requests that the share is taken of.
    pub of_last: u32,
    /// How long it stays open before one request may probe.
    pub open_for: Duration,
}

/// Deadlines towards an upstream; `None` switches one off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// To establish a connection.
    pub connect: Option<Duration>,
    /// Of one attempt, from its start to the first byte of the reply; the retry policy decides what follows.
    pub per_try: Option<Duration>,
    /// From the end of the request head to the first byte of the reply (504).
    pub first_byte: Option<Duration>,
    /// Between two pieces of the reply's body.
    pub idle: Option<Duration>,
    /// Of the whole exchange.
    pub total: Option<Duration>,
    /// Of a tunnel without traffic.
    pub tunnel_idle: Option<Duration>,
}

/// Further attempts after a failure, where that is safe.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// Attempts beyond the first.
    pub extra_attempts: u32,
    /// Retries as a share of requests, 0.0 to 1.0, over the last ten seconds.
    pub budget: f64,
    /// What is retried.
    pub on: RetryOn,
}

/// Which failures are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryOn {
    /// The connection could not be made.
    pub connect: bool,
    /// The connection broke before the first byte of a reply.
    pub reset: bool,
    /// `timeouts.try` ran out.
    pub try_timeout: bool,
    /// The reply was 502.
    pub status_502: bool,
    /// The reply was 503.
    pub status_503: bool,
    /// The reply was 504.
    pub status_504: bool,
}

/// Idle connections to an upstream, per worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamKeepAlive {
    /// How long one is kept.
    pub idle: Duration,
    /// How many are kept per target and worker.
    pub max_idle: usize,
}

/// Bounded waiting room in front of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Requests that may wait.
    pub size: usize,
    /// How long one may wait before it is answered 503.
    pub timeout: Duration,
}

/// One rate limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Name in the file.
    pub name: Arc<str>,
    /// Algorithm with its numbers.
    pub algorithm: LimitAlgorithm,
    /// What is counted; several parts together make one key.
    pub key: Vec<LimitKey>,
    /// Where counts live.
    pub store: LimitStore,
    /// What one request takes.
    pub cost: LimitCost,
    /// Keys held by the memory store.
    pub max_keys: usize,
    /// Answer when the store fails.
    pub on_store_failure: OnStoreFailure,
    /// Divisor of the quota when `on_store_failure: local`.
    pub replicas: NonZeroU32,
    /// Tokens taken from Redis at once; 1 asks for every request.
    pub lease: NonZeroU32,
    /// What happens to a request without the key.
    pub missing_key: MissingKey,
    /// Status of a refusal.
    pub refusal_status: u16,
    /// Body of a refusal in place of problem+json.
    pub refusal_body: Option<Arc<str>>,
    /// Which header families are written.
    pub headers: LimitHeaders,
}

/// Algorithm of a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LimitAlgorithm {
    /// GCRA: `burst` at once, then `rate_per_second`.
    TokenBucket {
        /// Tokens that come back each second.
        rate_per_second: f64,
        /// Tokens that a full bucket holds.
        burst: u64,
    },
    /// `quota` per window; a window starts with the key's first request, or on multiples of `window` since the epoch when aligned.
    FixedWindow {
        /// Requests per window; 0 switches the limit off.
        quota: u64,
        /// Length.
        window: Duration,
        /// Clock-aligned.
        aligned: bool,
    },
    /// Two adjacent fixed windows, the older weighted by its overlap.
    SlidingWindow {
        /// Requests per window; 0 switches the limit off.
        quota: u64,
        /// Length.
        window: Duration,
    },
    /// Requests in flight.
    Concurrency {
        /// At most so many; 0 switches the limit off.
        quota: u64,
    },
}

/// Part of a limit's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitKey {
    /// Client address; IPv6 by /64.
    ClientIp,
    /// A request field.
    Header(Arc<str>),
    /// A query parameter.
    Query(Arc<str>),
    /// The route's name.
    Route,
    /// One bucket for all.
    Global,
}

/// Where a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitStore {
    /// This process.
    Memory,
    /// Redis, shared by replicas.
    Redis,
}

/// What a request costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitCost {
    /// A constant, at least 1.
    Fixed(u64),
    /// A field of a trusted peer's request, at least 1; anyone else pays 1.
    Header(Arc<str>),
}

/// What a failing limit store means for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// The same limit in memory, quota divided by `replicas`.
    Local,
    /// Let it pass.
    Open,
    /// 503.
    Closed,
}

/// What a request without the limit's key gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingKey {
    /// All of them share one bucket.
    Shared,
    /// They are not limited.
    Skip,
    /// They are refused.
    Refuse {
        /// Status.
        status: u16,
        /// Body, in place of problem+json.
        body: Option<Arc<str>>,
    },
}

/// Header families that a limit writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitHeaders {
    /// `RateLimit` and `RateLimit-Policy` (structured fields).
    pub ietf: bool,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset`.
    pub legacy: bool,
    /// `RateLimit-Scope`.
    pub scope: bool,
}

/// One cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Name in the file.
    pub name: Arc<str>,
    /// Fixed time or RFC 9111.
    pub mode: CacheMode,
    /// Levels, nearest first.
    pub stores: Vec<CacheStore>,
    /// Bytes held by the memory store.
    pub max_bytes: u64,
    /// Entries held by the memory store.
    pub max_entries: usize,
    /// Largest body that is stored.
    pub max_body_bytes: u64,
    /// Which of the query counts.
    pub query: CacheQuery,
    /// Request fields that separate tenants.
    pub partition_by: Vec<Arc<str>>,
    /// POST keyed by canonical JSON body.
    pub post_json: bool,
    /// RFC 5861, where the origin does not say.
    pub stale_if_error: Option<Duration>,
    /// RFC 5861, where the origin does not say.
    pub stale_while_revalidate: Option<Duration>,
    /// Response fields that carry tags.
    pub tags: Vec<Arc<str>>,
    /// Header families that are written.
    pub headers: CacheHeaders,
}

/// How freshness is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMode {
    /// Every 200 for the same time, whatever the origin says short of no-store, private or Set-Cookie.
    Ttl(Duration),
    /// RFC 9111; `default_ttl` for answers without freshness.
    Http {
        /// Freshness of answers that have none of their own.
        default_ttl: Option<Duration>,
    },
}

/// A level of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStore {
    /// This process.
    Memory,
    /// Redis.
    Redis,
}

/// Which of the query is part of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheQuery {
    /// As it came.
    All,
    /// Parameters sorted.
    Sorted,
    /// Only these, sorted.
    Only(Vec<Arc<str>>),
}

/// Header families that a cache writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheHeaders {
    /// `Age`.
    pub age: bool,
    /// `X-Cache`.
    pub x_cache: bool,
    /// `Cache-Status` (RFC 9211).
    pub cache_status: bool,
}

/// One route: what it matches and what happens then.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Name in the file, or made from the path; used in logs and metrics.
    pub name: Arc<str>,
    /// What it matches.
    pub matcher: Matcher,
    /// What happens.
    pub action: Action,
    /// Limits, in the order of the file.
    pub limits: Vec<LimitId>,
    /// Cache.
    pub cache: Option<CacheId>,
    /// Bytes of a request body (413 above).
    pub body_bytes: Option<u64>,
    /// Edits of both heads.
    pub headers: HeaderEdits,
    /// Cross-origin rules.
    pub cors: Option<Cors>,
}

/// What a route matches; every part must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// Host, lower case, without port.
    pub host: HostPattern,
    /// Normalised path.
    pub path: PathPattern,
    /// Methods; empty: any.
    pub methods: Vec<Arc<str>>,
    /// Fields that must be present with exactly this value; names in lower case.
    pub headers: Vec<(Arc<str>, Arc<str>)>,
}

/// Host part of a match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Any host.
    Any,
    /// Exactly this.
    Exact(Arc<str>),
    /// `*.example.com`: holds `example.com`; one or more labels in front of it must be there.
    Suffix(Arc<str>),
}

/// Path part of a match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathPattern {
    /// `/a`.
    Exact(Arc<str>),
    /// `/a/{id}`, with at least one parameter; may end in `*`.
    Template {
        /// Segments between slashes, without the first empty one.
        segments: Vec<Segment>,
        /// Ends in `/*`.
        wildcard: bool,
    },
    /// `/a/*`: holds `/a/`; matches that and everything below it.
    Prefix(Arc<str>),
}

/// One segment of a path template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Literal text.
    Literal(Arc<str>),
    /// `{name}`: any one non-empty segment.
    Param(Arc<str>),
}

/// What a route does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Forward to an upstream.
    Proxy(Proxy),
    /// Answer with a redirect.
    Redirect(Redirect),
    /// Answer with fixed content.
    Respond(Respond),
    /// Answer with something that the gateway knows.
    Builtin(Builtin),
}

/// Forwarding.
#[derive(Debug, Clone, PartialEq)]
pub struct Proxy {
    /// First choice.
    pub upstream: UpstreamId,
    /// Further choices, in order, when the one before has no usable target or a retryable failure is left.
    pub fallback: Vec<UpstreamId>,
    /// Change of path.
    pub rewrite: Rewrite,
    /// Replaces the `Host` that the upstream sees.
    pub host: Option<Arc<str>>,
    /// The route's own deadlines over each upstream's: `None` leaves the upstream's, `Some(None)` switches one off.
    pub timeouts: TimeoutOverrides,
    /// Protocols that may be upgraded to, lower case.
    pub upgrade: Vec<Arc<str>>,
}

/// Deadlines of a route over those of its upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeoutOverrides {
    /// See [`Timeouts::connect`].
    pub connect: Option<Option<Duration>>,
    /// See [`Timeouts::per_try`].
    pub per_try: Option<Option<Duration>>,
    /// See [`Timeouts::first_byte`].
    pub first_byte: Option<Option<Duration>>,
    /// See [`Timeouts::idle`].
    pub idle: Option<Option<Duration>>,
    /// See [`Timeouts::total`].
    pub total: Option<Option<Duration>>,
    /// See [`Timeouts::tunnel_idle`].
    pub tunnel_idle: Option<Option<Duration>>,
}

/// Change of the forwarded path; the query stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewrite {
    /// Forward as it came.
    None,
    /// Replace the whole path.
    Path(Arc<str>),
    /// Replace the fixed part that the pattern matched.
    Prefix(Arc<str>),
}

/// A redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Path or URL; a final `*` stands for what the pattern's wildcard matched.
    pub to: Arc<str>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A fixed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Respond {
    /// Status.
    pub status: u16,
    /// Media type; absent when the body is empty.
    pub content_type: Option<Arc<str>>,
    /// Body.
    pub body: Arc<[u8]>,
}

/// Answers that come from the gateway's own state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// Health of the gateway and its targets.
    Healthz,
    /// Counts of the cache.
    Cachez,
}

/// Header edits of a route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderEdits {
    /// On the request, before it goes to the upstream.
    pub request: Edits,
    /// On the response, before it goes to the client.
    pub response: Edits,
}

/// Edits of one head: removals first, then `set`, then `add`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edits {
    /// Replace every field of the name.
    pub set: Vec<(Arc<str>, Arc<str>)>,
    /// Add a field beside what is there.
    pub add: Vec<(Arc<str>, Arc<str>)>,
    /// Drop every field of the name; lower case.
    pub remove: Vec<Arc<str>>,
}

/// Cross-origin rules (Fetch standard).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Allowed origins; `*` alone allows any.
    pub origins: Vec<Arc<str>>,
    /// Allowed methods of a preflight.
    pub methods: Vec<Arc<str>>,
    /// Allowed request fields of a preflight; lower case.
    pub headers: Vec<Arc<str>>,
    /// How long a preflight may be kept.
    pub max_age: Duration,
    /// Whether credentials may be sent.
    pub credentials: bool,
}
