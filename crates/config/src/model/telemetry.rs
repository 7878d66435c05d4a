//! What the gateway tells collectors of telemetry.

use std::fmt;
use std::time::Duration;

/// Which telemetry is exported, and the attributes of its source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Telemetry {
    /// Attributes of this gateway; `service.name` is among them.
    pub resource: Vec<(String, String)>,
    /// Traces of requests.
    pub traces: Option<Traces>,
    /// Metrics that are sent to a collector; `/metrics` has them anyway.
    pub metrics: Option<PushedMetrics>,
}

/// Who takes one signal, over OTLP.
#[derive(Clone, PartialEq)]
pub struct Collector {
    /// URL of the collector.
    pub endpoint: String,
    /// How long a call may take.
    pub timeout: Duration,
    /// Fields of each call: never print their values.
    pub headers: Vec<(String, String)>,
    /// Whether calls are compressed with gzip.
    pub is_compressed: bool,
}

impl fmt::Debug for Collector {
    /// Leaves the values of fields out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Where traces go, and which.
#[derive(Debug, Clone, PartialEq)]
pub struct Traces {
    /// Who takes them.
    pub collector: Collector,
    /// Share of traces that are recorded, 0.0 to 1.0.
    pub share: f64,
    /// Whether a request goes on with the trace that its `traceparent` names.
    pub respects_parent: bool,
    /// Spans that wait at most.
    pub queue: usize,
    /// Spans of one call.
    pub batch: usize,
    /// How long spans wait for more.
    pub every: Duration,
}

/// Where metrics go.
#[derive(Debug, Clone, PartialEq)]
pub struct PushedMetrics {
    /// Who takes them.
    pub collector: Collector,
    /// Time between two calls.
    pub every: Duration,
}
