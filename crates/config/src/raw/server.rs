//! The process itself: workers, log, what clients may take, Redis.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::{OrNone, Spanned};
use super::text::{GrpcStatusRange, StatusRange};
use super::units::{Rate, Share, Size, Time};

/// Number of worker threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workers {
    /// One for each core that the process may use.
    #[default]
    Auto,
    /// So many.
    Number(NonZeroUsize),
}

impl FromStr for Workers {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Workers::Auto);
        }
        match text.parse::<NonZeroUsize>() {
            Ok(number) if number.get() <= 1024 => Ok(Workers::Number(number)),
            _ => Err(format!("expected `auto` or a number from 1 to 1024, found `{text}`")),
        }
    }
}

impl Serialize for Workers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Workers::Auto => serializer.serialize_str("auto"),
            Workers::Number(number) => number.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Workers {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Workers {
    fn schema_name() -> Cow<'static, str> {
        "Workers".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of threads, or `auto`.",
            "anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 1024}]
        })
    }
}

/// One line for each request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `path`, or `none`")]
pub struct AccessLog {
    /// `stdout`, or a file that lines are appended to; it is opened again on SIGHUP.
    pub path: Spanned<String>,
    /// How lines are written.
    #[serde(default)]
    pub format: Spanned<LogFormat>,
    /// Fields that lines have beside the usual ones, and those that they do not have; with `format: json` or `logfmt`.
    #[serde(default)]
    pub fields: Spanned<LogFields>,
    /// Requests that are logged: those that meet at least one of the conditions.
    #[serde(default)]
    pub only: OrNone<Spanned<LogOnly>>,
    /// Share of requests that are logged, of those that `only` leaves.
    #[serde(default = "everything")]
    pub sample: Share,
}

/// Who gets `Server-Timing` with responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerTiming {
    /// Nobody.
    #[default]
    None,
    /// Peers of `trusted_proxies`.
    Trusted,
    /// Everyone.
    All,
}

/// How lines of the access log are written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// A JSON object with all fields.
    #[default]
    Json,
    /// The combined format of Apache httpd and nginx.
    Combined,
    /// `name=value` pairs with the fields of the JSON object.
    Logfmt,
    /// A line of one's own, with the names of fields in braces: `{template: '{client} {status} {duration_ms}'}`.
    Template(String),
}

/// Which fields lines of the access log have.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `add` or `drop`")]
pub struct LogFields {
    /// Fields of requests, such as `[header:X-Tenant]`, which lines have as `header_x_tenant`; at most 8, each cut after 256 bytes.
    pub add: Vec<Spanned<String>>,
    /// Names of fields that are left out, such as `[user_agent, referer]`.
    pub drop: Vec<Spanned<String>>,
}

/// Which requests are logged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `status`, `grpc_status` or `slower`, or `none`")]
pub struct LogOnly {
    /// Statuses that are logged, such as `[429, 500-599]`.
    pub status: Vec<StatusRange>,
    /// Statuses of gRPC calls that are logged, such as `[2, 13-15]`.
    pub grpc_status: Vec<GrpcStatusRange>,
    /// Duration from which on a request is logged.
    pub slower: OrNone<Time>,
}

fn everything() -> Share {
    Share { percent: 100.0 }
}

/// What clients may take: sizes, times, connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
pub struct Server {
    /// Open client connections of the whole process.
    #[schemars(range(min = 1))]
    pub max_connections: Spanned<usize>,
    /// Open connections of one client address.
    pub max_connections_per_client: OrNone<Spanned<usize>>,
    /// Size of a request line; a longer one gets 414.
    pub request_line: Spanned<Size>,
    /// Size of a whole request head; a larger one gets 431.
    pub head: Spanned<Size>,
    /// Header fields of a request; a request with more gets 431.
    pub fields: Spanned<usize>,
    /// Size of a request body where the route sets no other; a larger one gets 413.
    pub body: OrNone<Size>,
    /// From the first byte of a request head to its end; a slower one gets 408.
    pub head_timeout: OrNone<Time>,
    /// Between two pieces of a request body; a slower one gets 408.
    pub body_idle_timeout: OrNone<Time>,
    /// How long an idle client connection is kept.
    pub keep_alive: OrNone<Time>,
    /// How long requests in flight may take after SIGTERM or a take-over.
    pub drain: OrNone<Time>,
    /// How long a process that was told to end goes on serving, while its health endpoints say 503, before it drains.
    pub drain_delay: OrNone<Time>,
    /// How long a client connection is used.
    pub connection: Connection,
    /// How the limit on open files is treated at start.
    pub files: Files,
    /// Limits of connections over HTTP/2.
    pub http2: Http2,
    /// What happens to paths that servers read in different ways.
    pub path: PathPolicy,
    /// Whether a `Content-Length` with leading zeros, or with more than one blank around it, is refused.
    pub strict_content_length: bool,
    /// Whether every response carries the id of its request, in the field that `request_id` names.
    pub return_request_id: bool,
    /// Failed logins from one client address, such as `30/min`; above it requests to routes with `auth` get 429 before their credentials are
    /// looked at.
    pub auth_failures: OrNone<Spanned<Rate>>,
    /// Whether routes may have `fault`.
    pub faults: bool,
    /// Whether a worker under load lets events gather for a moment and handles them together.
    pub coalesce: bool,
}

/// How long a client connection is used. Each connection has up to 10 % less, drawn at random, so that those of one moment do not end in one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
pub struct Connection {
    /// Requests of one connection; with the last response the client is told to open another.
    pub max_requests: OrNone<Spanned<u32>>,
    /// Age at which a connection ends with its next response.
    pub max_age: OrNone<Spanned<Time>>,
}

/// How the soft limit on open files is treated at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// It is raised to the hard limit.
    #[default]
    Raise,
    /// It stays.
    Keep,
}

/// Options of TCP connections.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
pub struct Tcp {
    /// Time without a byte after which the kernel probes whether the peer is still there, and between two probes.
    pub keepalive: OrNone<Spanned<Time>>,
    /// How long sent bytes may stay unacknowledged before the kernel closes the connection.
    pub user_timeout: OrNone<Spanned<Time>>,
}

/// Limits of client connections over HTTP/2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
pub struct Http2 {
    /// Requests of one connection at once, those included whose client has cancelled them and that have not ended.
    pub max_concurrent_streams: Spanned<u32>,
    /// Requests of one connection in its life; then the client is told to open another.
    pub max_requests: OrNone<Spanned<u32>>,
    /// Bytes of one request body that a client may send before the upstream takes them.
    pub stream_window: Spanned<Size>,
    /// The same for all request bodies of a connection.
    pub connection_window: Spanned<Size>,
    /// Points of the abuse budget that all connections of one client address may lose, such as `6000/min`; above it further connections are closed at
    /// once.
    pub abuse_per_client: OrNone<Spanned<Rate>>,
}

impl Default for Http2 {
    fn default() -> Self {
        Http2 {
            max_concurrent_streams: 100.into(),
            max_requests: OrNone::None,
            stream_window: Size(64 << 10).into(),
            connection_window: Size(1 << 20).into(),
            abuse_per_client: OrNone::None,
        }
    }
}

/// What happens to paths that servers read in different ways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
pub struct PathPolicy {
    /// `//`.
    pub double_slash: RepeatedSlash,
    /// `%2f`.
    pub encoded_slash: EncodedSlash,
    /// `;`, behind which some servers see parameters and not the path.
    pub semicolon: Ambiguous,
    /// `\\` and `%5c`, which some servers take for a slash.
    pub backslash: EncodedSlash,
    /// Percent-encoded bytes that are not valid UTF-8.
    pub invalid_utf8: Ambiguous,
}

impl Default for PathPolicy {
    fn default() -> Self {
        PathPolicy {
            double_slash: RepeatedSlash::Refuse,
            encoded_slash: EncodedSlash::Refuse,
            semicolon: Ambiguous::Refuse,
            backslash: EncodedSlash::Refuse,
            invalid_utf8: Ambiguous::Refuse,
        }
    }
}

/// What happens to one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ambiguous {
    /// The response is 400.
    Refuse,
    /// It is forwarded as it came.
    Keep,
}

/// What happens to empty segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepeatedSlash {
    /// The response is 400.
    Refuse,
    /// Slashes that follow each other become one.
    Merge,
    /// They are forwarded as they came.
    Keep,
}

/// What happens to characters that some servers take for a slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EncodedSlash {
    /// The response is 400.
    Refuse,
    /// They become slashes before anything looks at the path.
    Decode,
    /// They stay encoded, as a part of their segment.
    Keep,
}

impl Default for Server {
    fn default() -> Self {
        let seconds = |seconds| OrNone::Some(Time(Duration::from_secs(seconds)));
        Server {
            max_connections: 50_000.into(),
            max_connections_per_client: OrNone::None,
            request_line: Size(8 << 10).into(),
            head: Size(64 << 10).into(),
            fields: 100.into(),
            body: OrNone::None,
            head_timeout: seconds(10),
            body_idle_timeout: seconds(30),
            keep_alive: seconds(75),
            drain: seconds(30),
            drain_delay: OrNone::None,
            connection: Connection::default(),
            files: Files::default(),
            http2: Http2::default(),
            path: PathPolicy::default(),
            strict_content_length: false,
            return_request_id: true,
            auth_failures: OrNone::None,
            faults: false,
            coalesce: true,
        }
    }
}

/// Connection to Redis or Valkey.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `url`")]
pub struct Redis {
    /// `redis://` or `rediss://` with user, password, host, port and database; `redis+cluster://a,b,c` or `redis+sentinel://host/service`.
    #[serde(default = "default_redis_url")]
    pub url: Spanned<String>,
    /// How long a limit waits for a response.
    #[serde(default = "default_redis_timeout")]
    pub timeout: Time,
    /// First part of every name in Redis: deployments with different namespaces share no counts. 1 to 32 letters, digits, `-`, `_` or `.`.
    #[serde(default = "default_redis_namespace")]
    pub namespace: Spanned<String>,
    /// Key of the hashes that stand for clients and their header fields in Redis; at least 16 bytes, the same in all gateways. Without it
    /// whoever reads Redis can find addresses by trying all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Spanned<String>>,
}

impl fmt::Debug for Redis {
    /// Leaves URL and secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

fn default_redis_url() -> Spanned<String> {
    "redis://127.0.0.1:6379/0".to_owned().into()
}

fn default_redis_namespace() -> Spanned<String> {
    "weir".to_owned().into()
}

fn default_redis_timeout() -> Time {
    Time(Duration::from_millis(5))
}
