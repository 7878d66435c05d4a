//! What the two Rust event-ingestion services share.
//!
//! A protocol turns its bytes into a [`check::Submitted`] event, [`check::check`] says why it is refused or makes it an
//! [`check::Event`], and [`store::Store`] writes it in one transaction. The rules are those of
//! `services/producer/README.md`, which all six services follow.

pub mod check;
pub mod date;
pub mod json;
pub mod metrics;
pub mod process;
pub mod settings;
pub mod store;

/// The answer to an event that was stored.
pub const STORED: &str = "Event processed successfully";
/// The answer while the database does not answer.
pub const UNAVAILABLE: &str = "Database is unavailable";
/// The answer to a failure that the caller cannot mend; the log says more.
pub const INTERNAL: &str = "Internal server error";
/// The answer of a health check while the database answers.
pub const HEALTHY: &str = "Producer API is healthy";
