//! What the two Rust event-ingestion services share.
//!
//! A protocol turns its bytes into a [`check::Submitted`] event, [`check::check`] says why it is refused or makes it an
//! [`check::Event`], and [`store::Store`] writes it in one transaction. The rules are those of
//! `services/producer/README.md`, which all six services follow.

pub mod check;
pub mod connection;
pub mod date;
pub mod json;
pub mod metrics;
pub mod process;
pub mod settings;
pub mod store;

/// The response to an event that was stored.
pub const STORED: &str = "Event processed successfully";
/// The response while the database does not respond.
pub const UNAVAILABLE: &str = "Database is unavailable";
/// The response to a failure that the caller cannot fix; the log says more.
pub const INTERNAL: &str = "Internal server error";
/// The response to a request that took longer than it may.
pub const TIMED_OUT: &str = "Request timed out";
/// The response of a health check while the database responds.
pub const HEALTHY: &str = "Producer API is healthy";
