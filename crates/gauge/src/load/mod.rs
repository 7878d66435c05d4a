//! The load generator: it sends requests at a stated pace and records what came back.

pub mod report;

pub use report::Report;
