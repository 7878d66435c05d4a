//! Configuration: what a file says, what it means, and how one becomes the other.
//!
//! A configuration goes through three forms. [`raw`] is what the file says, key for key. `resolve` turns it into the
//! [`Config`] of `model`, where names have become indices, units have become numbers and every default is filled in;
//! it is pure and opens no socket. The runtime then builds its state (listeners, pools, limiters) from a `Config` and
//! never looks at the raw form again.
//!
//! Without a file, `env` makes the raw form from environment variables; from there on nothing differs.

#![forbid(unsafe_code)]

mod client_address;
mod env;
mod forged;
mod load;
mod model;
mod otel_variables;
pub mod problem;
pub mod raw;
pub mod redact;
pub mod redis_address;
mod resolve;
pub mod schema;
pub mod spoofable;
mod target_file;
pub mod yaml;

pub use client_address::ClientAddress;
pub use forged::*;

pub use load::*;
pub use model::*;
pub use raw::target::is_host_name;
pub use resolve::api::{load as load_description, pattern as described_path};
pub use target_file::TargetFile;
