//! Upstreams: targets, how one is picked, and what happens when it fails.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{ConnectionUse, Inference, LimitKey, Registry, TcpOptions};

/// A named group of targets that can serve the same requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// Name in the file; used by routes, logs and metrics.
    pub name: Arc<str>,
    /// Where requests may go. Those of a file as they were when the configuration was read.
    pub targets: Vec<Target>,
    /// File that names the targets, if one does; see [`Upstream::targets_of`].
    pub targets_file: Option<Arc<Path>>,
    /// Policy of connections to `https://` targets; there when there is any.
    pub tls: Option<Arc<TlsPolicy>>,
    /// What targets are spoken to in.
    pub protocol: UpstreamProtocol,
    /// Limits of connections over HTTP/2.
    pub http2: UpstreamHttp2,
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
    /// PROXY header that connections begin with. Idle ones are then kept for one client address each.
    pub proxy_protocol: Option<proxy_protocol::Version>,
    /// Options of TCP connections.
    pub tcp: TcpOptions,
    /// Requests in flight per target over the whole process.
    pub max_in_flight: Option<NonZeroU32>,
    /// Where requests wait when every target is at `max_in_flight`.
    pub queue: Option<Queue>,
}

/// Targets of one upstream: as many as a large cluster has, and few enough for every pick and every check.
pub const MAX_TARGETS: usize = 10_000;

/// One target of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where to connect.
    pub address: TargetAddress,
    /// For a target over TLS, the name that its certificate must be valid for.
    pub tls_name: Option<Arc<str>>,
    /// The `Host` that the target sees when the route does not rewrite it: authority of the URL, or the client's own for Unix sockets.
    pub authority: Option<Arc<str>>,
    /// Path of the URL without a trailing slash; put before every forwarded path. Usually empty.
    pub base_path: Arc<str>,
    /// Share of requests relative to the other targets; of a service its records or endpoints say it.
    pub weight: NonZeroU32,
}

/// What targets are spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: over TLS by ALPN, else by prior knowledge.
    Http2,
    /// Over TLS what ALPN decides; else HTTP/1.1.
    Auto,
}

/// Limits of connections to targets over HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamHttp2 {
    /// Requests of one connection at once.
    pub max_concurrent_streams: u32,
    /// Connections to one target by each worker.
    pub max_connections: u32,
    /// Receive window of a stream, in bytes.
    pub stream_window: u32,
    /// Receive window of a connection, in bytes.
    pub connection_window: u32,
}

impl Default for UpstreamHttp2 {
    fn default() -> Self {
        UpstreamHttp2 {
            max_concurrent_streams: 100,
            max_connections: 16,
            stream_window: 256 << 10,
            connection_window: 4 << 20,
        }
    }
}

/// How targets are connected to over TLS: files are read, names checked.
#[derive(Debug)]
pub struct TlsPolicy {
    /// Name that certificates must be valid for; `None`: the host of the target's URL.
    pub server_name: Option<Arc<str>>,
    /// Trust, certificate, versions.
    pub options: tls::client::Options,
    /// What tells policies apart.
    pub digest: [u8; 32],
}

impl PartialEq for TlsPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.server_name == other.server_name && self.digest == other.digest
    }
}

/// Where a target listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TargetAddress {
    /// An address that needs no resolution.
    Ip(SocketAddr),
    /// A name, resolved without blocking and resolved once more when its TTL ends; every address of the response is a target.
    Name {
        /// Host name.
        host: Arc<str>,
        /// TCP port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
    /// A demo upstream inside this process; its address is known once it listens.
    Demo(DemoService),
    /// A service in DNS: each address of each of its SRV records (RFC 2782) is a target, with port, weight and priority of the record.
    Service(Arc<str>),
    /// A service in a registry: each of its endpoints is a target, with port and weight of the endpoint.
    Registry(Arc<Registry>),
    /// Endpoints that somebody else finds and keeps up to date, under this name.
    Endpoints(Arc<str>),
}

/// The services that this program can play itself, so that it does something at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DemoService {
    /// The inference service, with the behaviour of its Python implementation.
    InferencePython,
    /// The inference service, with the behaviour of its Node implementation.
    InferenceNode,
    /// `/slow` and `/limited`.
    Plain,
}

impl DemoService {
    /// Every service.
    pub const ALL: [DemoService; 3] = [DemoService::InferencePython, DemoService::InferenceNode, DemoService::Plain];

    /// Name in a target, `demo:NAME`.
    pub fn name(self) -> &'static str {
        match self {
            DemoService::InferencePython => "inference-python",
            DemoService::InferenceNode => "inference-node",
            DemoService::Plain => "plain",
        }
    }
}

/// How a target is picked.
#[derive(Debug, Clone, PartialEq)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// Fewer requests in flight of two random targets (power of two choices).
    LeastRequest,
    /// Lower peak EWMA of latency times load, of two random targets.
    Ewma,
    /// Consistent hash with bounded load.
    Hash(HashKey),
    /// The target that a cookie names, else as with `LeastRequest`.
    Cookie(Affinity),
    /// By queue, KV cache and shared prefix of the replicas of an inference engine.
    Inference(Arc<Inference>),
}

/// A cookie that names the target which served a client before.
#[derive(Clone, PartialEq, Eq)]
pub struct Affinity {
    /// Name of the cookie.
    pub cookie: Arc<str>,
    /// Key of the values.
    pub secret: Option<Arc<str>>,
}

impl std::fmt::Debug for Affinity {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Affinity").field("cookie", &self.cookie).finish_non_exhaustive()
    }
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

/// Active health checks of one upstream; each target is checked on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// What targets are spoken to in.
    pub protocol: UpstreamProtocol,
    /// PROXY header that a probe begins with.
    pub proxy_protocol: Option<proxy_protocol::Version>,
    /// Path of the GET request.
    pub path: Arc<str>,
    /// Service whose health is queried by gRPC, in place of a GET; empty: the server as a whole.
    pub grpc: Option<Arc<str>>,
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
    /// A gRPC call ended with one of these before a message.
    pub grpc: GrpcStatuses,
}

/// A set of gRPC statuses, 0 to 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GrpcStatuses(u32);

impl GrpcStatuses {
    /// Whether a status is one of them.
    pub const fn has(self, status: u8) -> bool {
        status < 32 && self.0 >> status & 1 == 1
    }
}

impl FromIterator<u8> for GrpcStatuses {
    fn from_iter<I: IntoIterator<Item = u8>>(statuses: I) -> Self {
        GrpcStatuses(statuses.into_iter().filter(|status| *status < 32).fold(0, |set, status| set | 1 << status))
    }
}

/// Idle connections to an upstream, per worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamKeepAlive {
    /// How long one is kept.
    pub idle: Duration,
    /// How many are kept per target and worker.
    pub max_idle: usize,
    /// How long one is used.
    pub used_for: ConnectionUse,
}

/// Bounded waiting room in front of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Requests that may wait.
    pub size: usize,
    /// How long a request may wait before it gets 503.
    pub timeout: Duration,
    /// Tenants that take turns, by what their requests cost; `None`: first come, first served.
    pub fair: Option<FairQueue>,
}

/// What is one tenant in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FairQueue {
    /// Parts of its key.
    pub key: Arc<[LimitKey]>,
}
