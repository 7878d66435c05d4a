//! Life of the process: workers, listeners, signals, reload, drain, take-over.

pub mod clock;
pub mod deadline;
pub mod listen;
pub mod process;
pub mod reload;
pub mod run;
pub mod shared;
pub mod snapshot;
pub mod takeover;
pub mod wakeups;
pub mod worker;

pub use process::{StartError, serve};
pub use reload::Source;
