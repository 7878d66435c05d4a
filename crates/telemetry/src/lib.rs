//! Traces and metrics, without input or output: the context that requests carry (W3C Trace Context), the decision which of them are recorded, and
//! spans and metrics as the OpenTelemetry protocol (OTLP) encodes them.
//!
//! A worker encodes a finished span at once, from borrowed strings, into a buffer that it uses again: recording allocates nothing, and
//! whoever sends the spans wraps the bytes without looking into them ([`export`]).
#![forbid(unsafe_code)]

pub mod context;
pub mod export;
pub mod metrics;
mod protobuf;
pub mod sample;
pub mod span;

pub use context::{Parent, SpanId, TraceId, parse, write_traceparent};
pub use sample::Ratio;
pub use span::{Head, Kind, SpanWriter, Spans, Status};
