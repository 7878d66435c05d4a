//! Gauge: the instrument that evaluates API gateways and services.
//!
//! [`load`] sends requests at a stated pace and records what came back.

pub mod load;
