//! What the tests of this repository share: the real program in a process of its own, upstreams that misbehave on
//! command, a client that speaks raw bytes, and real Redis, PostgreSQL and nginx.
//!
//! Everything blocks and runs on plain threads, so that a test reads from top to bottom and shares no runtime with what
//! it tests. Nothing sleeps for a fixed time: whatever waits has a deadline ([`DEADLINE`] unless told otherwise) and
//! returns as soon as it can; whatever must happen in an order is held by a [`Gate`]. What goes wrong panics, with what
//! was received or logged so far.
//!
//! ```no_run
//! use testkit::{Upstream, Weir, responder};
//!
//! let upstream = Upstream::start(responder::ok("hello"));
//! let weir = Weir::builder("target/debug/weir") // in crates/weir: env!("CARGO_BIN_EXE_weir")
//!     .config(format!(
//!         "listen: 127.0.0.1:0\nupstreams: {{a: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: a}}]\n",
//!         upstream.url()
//!     ))
//!     .start();
//! assert_eq!(weir.get("/x").text(), "hello");
//! assert_eq!(upstream.requests()[0].head.target(), "/x");
//! ```

mod black_hole;
mod certificates;
mod command;
mod dirs;
mod gate;
pub mod http;
pub mod manual;
mod name_server;
mod nginx;
pub mod pattern;
pub mod ports;
mod postgres;
mod process;
mod raw;
mod redis;
mod service;
pub mod tls;
mod upstream;
pub mod wait;
mod weir;
mod wire;

pub use black_hole::BlackHole;
pub use certificates::Certificates;
pub use gate::Gate;
pub use http::{Framing, Head, Message, Piece};
pub use name_server::{NameServer, Srv};
pub use nginx::Nginx;
pub use postgres::Postgres;
pub use process::{Mark, Process, ProcessBuilder, Signal, Usage};
pub use raw::RawClient;
pub use redis::{Redis, RedisBuilder, RedisCluster, RedisSentinel};
pub use upstream::{Conn, Recorded, Upstream, UpstreamBuilder, responder};
pub use weir::{Finished, Weir, WeirBuilder};
pub use wire::{Address, WireError};

use std::time::Duration;

/// How long anything may take before a test gives up on it. Generous, since a loaded two-core machine is slow, and free,
/// since only a failing test waits that long.
pub const DEADLINE: Duration = Duration::from_secs(20);
