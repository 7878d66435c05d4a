//! A campaign: rounds in which every system runs every workload.

pub mod results;

pub use results::Results;
