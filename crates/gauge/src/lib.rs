//! Gauge: the instrument that evaluates API gateways and services.
//!
//! [`load`] sends requests at a stated pace and records what came back; [`results`] reads what other generators recorded.

pub mod load;
pub mod results;
