//! Life of the process: workers, listeners, signals, reload, drain.

pub mod clock;
pub mod deadline;
pub mod listen;
pub mod run;
pub mod shared;
pub mod snapshot;
pub mod worker;
