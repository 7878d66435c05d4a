//! Life of the process: workers, listeners, signals, reload, drain, take-over.

pub mod clock;
pub mod control;
pub mod deadline;
pub mod descriptors;
pub mod error;
pub mod fingerprint;
pub mod handshake;
pub mod history;
pub mod inherited;
pub mod listen;
pub mod listeners;
pub mod listening;
pub mod managed;
pub mod notify;
pub mod process;
mod proxied;
pub mod reload;
pub mod run;
pub mod seldom;
pub mod self_signed;
pub mod shared;
pub mod snapshot;
pub mod socket_file;
pub mod state;
pub mod takeover;
pub mod wakeups;
pub mod worker;
pub mod workers;

pub use error::ServeError;
pub use process::{Options, serve};
pub use reload::Source;
