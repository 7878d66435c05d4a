//! The load generator: it sends requests at a stated pace and records what came back.
//!
//! [`workload`] says what to send; [`Prepared::new`] checks it and reads its files; [`Generator::run`] sends it and gives a [`crate::results::Report`].

pub mod chat;
pub(crate) mod engine;
pub(crate) mod grpc;
pub mod payload;
mod prepare;
mod schedule;
pub mod targets;
mod template;
pub mod units;
mod websocket;
pub mod workload;

pub use engine::{Counts, Exchange, Fetched, Generator, Options, RunError, TransportError, Watch};
pub(crate) use engine::{Incoming, Lost, Opening, Socket, add_phases};
pub use prepare::{PrepareError, Prepared, Url};
pub(crate) use template::{Piece, plain};
pub(crate) use websocket::Messages;
pub use workload::Workload;
