//! Upstreams.

use std::num::NonZeroU32;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::inference::{Inference, allow_word};
use super::server::Tcp;
use super::shape::{OneOrMany, OrDefault, OrNone, Spanned};
use super::target::{HashKeyText, LimitKeyText};
use super::targets::Targets;
use super::text::{CookieName, StatusRange};
use super::units::{Share, Size, Time};
use super::word::{WordOr, word_or};

/// A group of targets that can serve the same requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an upstream: a mapping with `targets`")]
pub struct Upstream {
    /// Where requests may go: URLs, or mappings of `url` and `weight`; `{file: PATH}`, a file with such a list; or a service of Kubernetes or Consul.
    pub targets: Spanned<Targets>,
    /// How `https://` targets are connected to. Without it their certificates are verified against the authorities that the system trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Spanned<UpstreamTls>>,
    /// What targets are spoken to in.
    #[serde(default)]
    pub protocol: UpstreamProtocol,
    /// Limits of connections over HTTP/2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<Spanned<UpstreamHttp2>>,
    /// How a target is picked.
    #[serde(default)]
    pub balance: Balance,
    /// Active health checks: each target is checked at intervals, and gets no requests while it fails.
    #[serde(default)]
    pub health: OrNone<Spanned<Health>>,
    /// Passive ejection: a target that fails requests is left out for a while.
    #[serde(default = "on::<Eject>")]
    pub eject: OrNone<Eject>,
    /// How long a target that came back takes to reach its full share.
    #[serde(default)]
    pub slow_start: OrNone<Time>,
    /// Circuit breaker of each target: after too many failures none is tried for a while.
    #[serde(default)]
    pub breaker: OrNone<Breaker>,
    /// Deadlines.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Further attempts, where they are safe.
    #[serde(default = "on::<Retry>")]
    pub retry: OrNone<Retry>,
    /// Idle connections that are kept for the next request.
    #[serde(default = "on::<KeepAlive>")]
    pub keep_alive: OrNone<KeepAlive>,
    /// PROXY header that every connection to a target begins with; it names the client.
    #[serde(default)]
    pub proxy_protocol: Spanned<SentProxyProtocol>,
    /// Options of TCP connections to targets.
    #[serde(default)]
    pub tcp: Tcp,
    /// Requests in flight to one target, over the whole process.
    #[serde(default)]
    pub max_in_flight: OrNone<NonZeroU32>,
    /// Where requests wait while every target is at `max_in_flight`; when the wait ends without a target they get 503.
    #[serde(default)]
    pub queue: OrNone<Spanned<Queue>>,
}

/// On unless the file says `none`.
fn on<T: Default>() -> OrNone<T> {
    OrNone::Some(T::default())
}

impl Default for Upstream {
    /// Everything that has a default; no target.
    fn default() -> Self {
        Upstream {
            targets: Spanned::default(),
            tls: None,
            protocol: UpstreamProtocol::default(),
            http2: None,
            balance: Balance::default(),
            health: OrNone::None,
            eject: on(),
            slow_start: OrNone::None,
            breaker: OrNone::None,
            timeouts: Timeouts::default(),
            retry: on(),
            keep_alive: on(),
            proxy_protocol: Spanned::default(),
            tcp: Tcp::default(),
            max_in_flight: OrNone::None,
            queue: OrNone::None,
        }
    }
}

/// TLS towards the targets of an upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
pub struct UpstreamTls {
    /// Whose certificates are trusted: `system`, or a file of authorities in PEM form.
    pub roots: Spanned<String>,
    /// Name that the certificate must be valid for, and that is sent as SNI; absent: the host of the target's URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<Spanned<String>>,
    /// Whether certificates are verified; `false` needs `insecure: true` beside it.
    pub verify: Spanned<bool>,
    /// Says that unverified connections are meant: anyone on the way to the target can read and change them.
    pub insecure: bool,
    /// Certificate that is sent to targets which request one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<Spanned<CertificateFiles>>,
    /// Oldest version of TLS that is spoken.
    pub min_version: TlsVersion,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        UpstreamTls {
            roots: "system".to_owned().into(),
            server_name: None,
            verify: true.into(),
            insecure: false,
            client_cert: None,
            min_version: TlsVersion::default(),
        }
    }
}

/// A certificate with its key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping of `cert` and `key`")]
pub struct CertificateFiles {
    /// File of the certificate and those that lead to its authority, in PEM form.
    pub cert: String,
    /// File of the private key, in PEM form.
    pub key: String,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    Tls13,
}

impl JsonSchema for TlsVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TlsVersion".into()
    }
    /// Written by hand: a version is a number in YAML.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"description": "A version of TLS.", "enum": [1.2, 1.3, "1.2", "1.3"]})
    }
}

/// What targets are spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: over TLS by ALPN, else by prior knowledge (h2c).
    Http2,
    /// Over TLS what ALPN decides, HTTP/2 before HTTP/1.1; else HTTP/1.1.
    Auto,
}

/// Limits of connections to targets over HTTP/2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
pub struct UpstreamHttp2 {
    /// Requests of one connection at once, where the target does not allow fewer.
    pub max_concurrent_streams: Spanned<u32>,
    /// Connections to one target by each worker; further requests wait for a stream.
    #[schemars(range(min = 1))]
    pub max_connections: Spanned<u32>,
    /// Bytes of one response body that a target may send before the client takes them.
    pub stream_window: Spanned<Size>,
    /// The same for all response bodies of a connection.
    pub connection_window: Spanned<Size>,
}

impl Default for UpstreamHttp2 {
    fn default() -> Self {
        UpstreamHttp2 {
            max_concurrent_streams: 100.into(),
            max_connections: 16.into(),
            stream_window: Size(256 << 10).into(),
            connection_window: Size(4 << 20).into(),
        }
    }
}

/// PROXY header that connections to targets begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SentProxyProtocol {
    /// None.
    #[default]
    None,
    /// Version 1, a line of text.
    V1,
    /// Version 2, binary, with a checksum.
    V2,
}

/// How a target is picked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = allow_word)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// The one of two random targets that has fewer requests in flight.
    #[default]
    LeastRequest,
    /// The faster of two random targets: peak EWMA of latency times requests in flight.
    Ewma,
    /// The same target for the same value, with bounded load.
    Hash(HashKeyText),
    /// The target that served a client before, by a cookie that the gateway sets; else as `least_request`.
    Cookie(Affinity),
    /// The replica of an inference engine that has seen the start of the prompt, or the less loaded of two.
    Inference(OrDefault<Inference>),
}

/// A cookie that names the target which served a client before: its name, or a mapping with a secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Affinity {
    /// Name of the cookie.
    pub name: CookieName,
    /// Key of the values; at least 16 bytes, the same in all gateways.
    pub secret: Option<Spanned<String>>,
}

/// A cookie with a secret.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `name`")]
struct AffinityMapping {
    /// Name of the cookie.
    name: CookieName,
    /// Key of the values, at least 16 bytes, the same in all gateways. Without it whoever knows the address of a target can compute its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Spanned<String>>,
}

impl Serialize for Affinity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Affinity { name, secret } = self.clone();
        if secret.is_none() {
            return name.serialize(serializer);
        }
        AffinityMapping { name, secret }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Affinity {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(match word_or::<_, CookieName, AffinityMapping>(d, "the name of a cookie or a mapping with `name`")? {
            WordOr::Word(name) => Affinity { name, secret: None },
            WordOr::More(AffinityMapping { name, secret }) => Affinity { name, secret },
        })
    }
}

impl JsonSchema for Affinity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Affinity".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = generator.subschema_for::<CookieName>();
        let mapping = generator.subschema_for::<AffinityMapping>();
        json_schema!({"description": "A cookie that names the target which served a client before.", "anyOf": [name, mapping]})
    }
}

/// Active health checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping, or `none`")]
pub struct Health {
    /// Path of the GET request.
    pub path: Spanned<String>,
    /// Service whose health is queried by gRPC in place of a GET; `""` is the server as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Spanned<String>>,
    /// Time between two probes of one target.
    pub interval: Time,
    /// How long a probe may take.
    pub timeout: Time,
    /// Successes in a row after which a target is healthy again.
    pub healthy_after: NonZeroU32,
    /// Failures in a row after which a target is unhealthy.
    pub unhealthy_after: NonZeroU32,
    /// Statuses that count as success.
    pub status: StatusRange,
}

impl Default for Health {
    fn default() -> Self {
        Health {
            path: "/healthz".to_owned().into(),
            grpc: None,
            interval: Time(Duration::from_secs(2)),
            timeout: Time(Duration::from_secs(1)),
            healthy_after: number(2),
            unhealthy_after: number(3),
            status: StatusRange(200, 399),
        }
    }
}

/// Passive ejection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping, or `none`")]
pub struct Eject {
    /// Failures in a row after which a target is left out.
    pub after: NonZeroU32,
    /// How long it is left out.
    #[serde(rename = "for")]
    pub period: Time,
    /// Share of the targets that may be left out at once.
    pub max: Share,
}

impl Default for Eject {
    fn default() -> Self {
        Eject { after: number(5), period: Time(Duration::from_secs(10)), max: Share { percent: 50.0 } }
    }
}

/// Circuit breaker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping, or `none`")]
pub struct Breaker {
    /// Share of failures that opens it.
    pub failures: Share,
    /// The number of last requests that the share is taken of.
    pub of_last: NonZeroU32,
    /// How long it stays open before one request may try again.
    pub open_for: Time,
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker { failures: Share { percent: 50.0 }, of_last: number(20), open_for: Time(Duration::from_secs(5)) }
    }
}

/// Deadlines towards an upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of deadlines")]
pub struct Timeouts {
    /// To establish a connection.
    pub connect: OrNone<Time>,
    /// Of one attempt, to the first byte of its reply; a retry may follow.
    #[serde(rename = "try")]
    pub per_try: OrNone<Time>,
    /// From the end of the request head to the first byte of the reply; then 504.
    pub first_byte: OrNone<Time>,
    /// Between two pieces of the reply's body.
    pub idle: OrNone<Time>,
    /// Of the whole exchange, body included.
    pub total: OrNone<Time>,
    /// Of a tunnel (WebSocket) in which nothing moves.
    pub tunnel_idle: OrNone<Time>,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |seconds| OrNone::Some(Time(Duration::from_secs(seconds)));
        Timeouts {
            connect: seconds(2),
            per_try: OrNone::None,
            first_byte: seconds(60),
            idle: seconds(60),
            total: OrNone::None,
            tunnel_idle: seconds(600),
        }
    }
}

/// Further attempts after a failure. Whatever is configured, a request is sent again only where that is safe; by naming a status of gRPC, `on`
/// says that it is for calls that end with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping, or `none`")]
pub struct Retry {
    /// Attempts beyond the first.
    pub extra_attempts: u32,
    /// Retries as a share of the requests of the last ten seconds.
    pub budget: Share,
    /// What is tried again.
    pub on: Vec<RetryCause>,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            extra_attempts: 1,
            budget: Share { percent: 20.0 },
            on: vec![RetryCause::Connect, RetryCause::Reset, RetryCause::TryTimeout],
        }
    }
}

/// A failure after which another attempt may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryCause {
    /// The connection could not be made.
    Connect,
    /// The connection broke before the first byte of the reply.
    Reset,
    /// `timeouts.try` ran out.
    TryTimeout,
    /// The reply was 502.
    #[serde(rename = "502")]
    BadGateway,
    /// The reply was 503.
    #[serde(rename = "503")]
    Unavailable,
    /// The reply was 504.
    #[serde(rename = "504")]
    GatewayTimeout,
    /// A gRPC call ended with CANCELLED before a message.
    GrpcCancelled,
    /// With DEADLINE_EXCEEDED.
    GrpcDeadlineExceeded,
    /// With INTERNAL.
    GrpcInternal,
    /// With RESOURCE_EXHAUSTED.
    GrpcResourceExhausted,
    /// With UNAVAILABLE.
    GrpcUnavailable,
}

impl RetryCause {
    /// The status of gRPC that it names.
    pub const fn grpc_status(self) -> Option<u8> {
        match self {
            RetryCause::GrpcCancelled => Some(1),
            RetryCause::GrpcDeadlineExceeded => Some(4),
            RetryCause::GrpcResourceExhausted => Some(8),
            RetryCause::GrpcInternal => Some(13),
            RetryCause::GrpcUnavailable => Some(14),
            RetryCause::Connect
            | RetryCause::Reset
            | RetryCause::TryTimeout
            | RetryCause::BadGateway
            | RetryCause::Unavailable
            | RetryCause::GatewayTimeout => None,
        }
    }
}

impl JsonSchema for RetryCause {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RetryCause".into()
    }
    /// Written by hand: a status is a number in YAML.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A failure after which another attempt may follow.",
            "enum": [
                "connect", "reset", "try_timeout", 502, 503, 504, "502", "503", "504", "grpc_cancelled",
                "grpc_deadline_exceeded", "grpc_internal", "grpc_resource_exhausted", "grpc_unavailable"
            ]
        })
    }
}

/// Idle connections to an upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping, or `none`")]
pub struct KeepAlive {
    /// How long an idle connection is kept.
    pub idle: Time,
    /// How many are kept for each target by each worker.
    pub max_idle: usize,
    /// Requests of one connection; up to 10 % fewer, drawn for each.
    pub max_requests: OrNone<Spanned<u32>>,
    /// Age at which a connection gets no further request; up to 10 % less, drawn for each.
    pub max_age: OrNone<Spanned<Time>>,
}

impl Default for KeepAlive {
    fn default() -> Self {
        KeepAlive {
            idle: Time(Duration::from_secs(60)),
            max_idle: 1024,
            max_requests: OrNone::None,
            max_age: OrNone::None,
        }
    }
}

/// Waiting room in front of an upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping, or `none`")]
pub struct Queue {
    /// Requests that may wait.
    #[schemars(range(min = 1))]
    pub size: Spanned<usize>,
    /// How long a request may wait before it gets 503.
    pub timeout: Time,
    /// Who is served next. `fifo`: who came first. `fair`: classes of priority, and tenants in turn within a class (see [Fair queues](ai.md#fair-queues)).
    pub order: QueueOrder,
    /// With `order: fair`: what is one tenant, as `key` of a limit. Requests without it are one tenant together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Spanned<OneOrMany<LimitKeyText>>>,
}

/// Who is served next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`fifo` or `fair`")]
pub enum QueueOrder {
    /// Who came first.
    #[default]
    Fifo,
    /// Tenants in turn.
    Fair,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { size: 100.into(), timeout: Time(Duration::from_secs(1)), order: QueueOrder::Fifo, key: None }
    }
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}
