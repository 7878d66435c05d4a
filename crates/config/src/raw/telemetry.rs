//! What the gateway tells collectors of telemetry.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{Map, OrNone, Spanned};
use super::text::FieldValue;
use super::units::{Share, Time};

/// What the gateway tells collectors of telemetry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `resource`, `traces` and `metrics`")]
pub struct Telemetry {
    /// Attributes of this gateway, such as `service.name` (`weir` where it is left out), `service.instance.id` (random for each process where it is
    /// left out) and `deployment.environment.name`.
    pub resource: Map<String>,
    /// Traces of requests, over OTLP.
    pub traces: OrNone<Spanned<Traces>>,
    /// Metrics, over OTLP; `/metrics` of the admin listener has them anyway.
    pub metrics: OrNone<Spanned<PushedMetrics>>,
}

/// Metrics over OTLP (HTTP, Protocol Buffers).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping, or `none`")]
pub struct PushedMetrics {
    /// URL that metrics are sent to, such as `http://127.0.0.1:4318/v1/metrics`. A key that is left out is filled by the variables of OpenTelemetry,
    /// as are `timeout`, `headers` and `compression`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Spanned<String>>,
    /// Time between two calls.
    #[serde(default = "default_interval")]
    pub every: Time,
    /// How long a call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10s"))]
    pub timeout: Option<Time>,
    /// Fields of each call, such as `Authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Map<FieldValue>>,
    /// Whether calls are compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "none"))]
    pub compression: Option<CallCompression>,
}

/// Traces of requests, over OTLP (HTTP, Protocol Buffers).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping, or `none`")]
pub struct Traces {
    /// URL that spans are sent to, such as `http://127.0.0.1:4318/v1/traces`. A key that is left out is filled by the variables of OpenTelemetry, as
    /// are `sample`, `timeout`, `headers` and `compression`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Spanned<String>>,
    /// Share of traces that are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10%"))]
    pub sample: Option<Share>,
    /// What the `traceparent` of a request means.
    #[serde(default)]
    pub parent: TraceParent,
    /// Spans that wait to be sent; more are dropped and counted.
    #[serde(default = "default_queue")]
    #[schemars(range(min = 1))]
    pub queue: Spanned<usize>,
    /// Spans of one call.
    #[serde(default = "default_batch")]
    pub batch: Spanned<usize>,
    /// How long spans wait for more.
    #[serde(default = "default_every")]
    pub every: Time,
    /// How long a call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10s"))]
    pub timeout: Option<Time>,
    /// Fields of each call, such as `Authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Map<FieldValue>>,
    /// Whether calls are compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "none"))]
    pub compression: Option<CallCompression>,
}

/// Whether calls of a collector are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallCompression {
    /// They are sent as they are.
    #[default]
    None,
    /// Gzip: fewer bytes for more CPU time.
    Gzip,
}

/// What the `traceparent` of a request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceParent {
    /// The request belongs to that trace. Of a trusted proxy it also says whether the trace is recorded.
    #[default]
    Respect,
    /// The request begins a trace, which is linked to that one.
    Ignore,
}

impl Traces {
    /// `sample` where neither the file nor a variable says it.
    pub(crate) const SAMPLE: Share = Share { percent: 10.0 };
}

/// `timeout` where neither the file nor a variable says it.
pub(crate) const TIMEOUT: Time = Time(Duration::from_secs(10));

fn default_queue() -> Spanned<usize> {
    8192.into()
}

fn default_batch() -> Spanned<usize> {
    512.into()
}

fn default_every() -> Time {
    Time(Duration::from_secs(5))
}

fn default_interval() -> Time {
    Time(Duration::from_secs(30))
}
