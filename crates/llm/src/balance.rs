//! Inference balancing: which replica of a model gets a request, by queue, KV cache and shared prefix, without a cluster.
//!
//! [`EngineMetrics`] reads what an engine says about itself, [`PrefixIndex`] stores which replica has seen which prefix, and [`choose`]
//! decides. All are pure; scraping, time and random numbers are the caller's.

mod choose;
mod metrics;
mod prefix_index;

pub use choose::{Choice, Load, Reason, Settings, choose, eligible};
pub use metrics::{Engine, EngineMetrics, MetricNames};
pub use prefix_index::{MAX_REPLICAS, PrefixIndex, PrefixMatch};

#[cfg(test)]
mod tests;
