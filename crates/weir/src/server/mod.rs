//! Life of the process: threads of workers, listeners, signals, reload, drain, take-over.

pub mod control;
pub mod descriptors;
pub mod error;
pub mod history;
pub mod inherited;
pub mod listen;
pub mod listeners;
pub mod managed;
pub mod notify;
pub mod offers;
pub mod process;
pub mod reload;
pub mod run;
pub mod self_signed;
pub mod socket_file;
pub mod state;
pub mod takeover;
pub mod workers;

pub use error::ServeError;
pub use process::{Options, serve};
pub use reload::Source;
