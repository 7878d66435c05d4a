//! Gauge: the instrument that evaluates API gateways and services.
//!
//! [`load`] sends requests at a stated pace and records what came back; [`results`] reads what other generators recorded; [`campaign`]
//! runs systems beside each other, round by round.

pub mod campaign;
pub mod gateway;
pub mod load;
pub mod results;
