//! What the gateway tells its operator: metrics, the access log, and the clock that both read.
//!
//! Nothing here may slow a request down: a worker writes to cells and buffers of its own, and another thread reads or
//! writes out what it finds there.

pub mod access_log;
pub mod clock;
mod collector;
mod instance;
pub mod messages;
pub mod metrics;
mod push;
pub mod refused_keys;
pub use crate::config::redact;
pub mod traces;

pub use access_log::{AccessLog, Call, Line, Writer};
pub use instance::with_instance;
pub use metrics::{
    AuthMetrics, CacheMetrics, CacheTotals, ClientSeries, ContractMetrics, FaultMetrics, HandshakeResult, HeaderResult,
    HttpDurations, LimitMetrics, Metrics, MirrorMetrics, Record, RedisMetrics, RouteMetrics, ServerSeries, Shard,
    UpstreamMetrics,
};
pub use push::{Push, collect_exports};
pub use traces::{Recorder, Trace, Traces};
