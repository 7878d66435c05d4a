//! The one Redis client, which limits, cache and API keys share.
//!
//! [`Redis`] belongs to the process: address, certificates, and how it is doing. A [`Client`] belongs to a worker and a [`Purpose`]: one connection (on a
//! cluster, one to each node), on which everything is pipelined. Calls end within their timeout whatever Redis does, and fail at once while
//! the breaker is open; connections are made by tasks of their own (see `link.rs`), never by a request.
//!
//! The library under it (redis-rs) speaks the protocol and matches responds with questions. Connecting, TLS, deadlines, breaker, Sentinel and cluster are
//! here, because its own reconnecting clients make requests wait for a connection, and one dead node of a cluster delay the others.

mod client;
pub mod cluster;
mod dial;
mod health;
mod keyed;
mod link;
mod script;
mod subscription;

use std::sync::Arc;
use std::time::Duration;

pub use crate::config::redis_address::{self as address, Address, BadUrl};
/// For building commands and reading responses.
pub use ::redis::{Cmd, Pipeline, Value};
pub use client::Client;
pub use health::{Purpose, State};
pub use keyed::KeyedHash;
pub use script::Script;
pub use subscription::{Event, follow};

use crate::config;
use dial::Dialer;
use health::Health;

/// Longest time of one attempt to connect.
const DIAL: Duration = Duration::from_secs(1);
/// Longest pause between two attempts. With [`DIAL`] it bounds how long a Redis that is back goes unnoticed.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// Least timeout of the cache, whose values are larger than the counts of limits.
const CACHE_TIMEOUT: Duration = Duration::from_millis(20);
/// Least timeout of look-ups of API keys: a limit that gets no response is counted elsewhere, a request with a new key is refused.
const KEYS_TIMEOUT: Duration = Duration::from_millis(100);

/// Why a call has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The breaker is open: nothing was sent.
    #[error("Redis does not serve")]
    Unavailable,
    /// No response before the deadline. The call may still be executed.
    #[error("Redis did not respond within the timeout")]
    TimedOut,
    /// The connection ended. The call may have been executed.
    #[error("the connection to Redis ended")]
    Disconnected,
    /// Redis responded with this error.
    #[error("Redis refused: {0}")]
    Refused(String),
}

impl Failure {
    /// Position in [`REDIS_FAILURES`](crate::observe::metrics::REDIS_FAILURES).
    pub fn index(&self) -> usize {
        match self {
            Failure::Unavailable => 0,
            Failure::TimedOut => 1,
            Failure::Disconnected => 2,
            Failure::Refused(_) => 3,
        }
    }
}

/// The Redis of a configuration, as the whole process sees it.
pub struct Redis {
    config: config::Redis,
    dialer: Arc<Dialer>,
    health: [Arc<Health>; Purpose::ALL.len()],
}

impl Redis {
    /// Opens no connection. Reads the system's certificates if the URL is for TLS.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn new(config: &config::Redis) -> Result<Arc<Self>, BadUrl> {
        let address = Address::parse(&config.url)?;
        let health = Purpose::ALL.map(|purpose| Arc::new(Health::new(purpose, address.to_string())));
        Ok(Arc::new(Redis { config: config.clone(), dialer: Arc::new(Dialer::new(address)), health }))
    }

    /// The configuration that it was made from: one that is the same after a reload keeps its connections.
    pub fn config(&self) -> &config::Redis {
        &self.config
    }

    /// How it is doing.
    pub fn state(&self, purpose: Purpose) -> State {
        self.health_of(purpose).state()
    }

    /// The servers, without secrets.
    pub fn servers(&self) -> String {
        self.dialer.address().to_string()
    }

    fn health_of(&self, purpose: Purpose) -> &Arc<Health> {
        &self.health[purpose as usize]
    }

    fn timeout_of(&self, purpose: Purpose) -> Duration {
        match purpose {
            Purpose::Limits => self.config.timeout,
            Purpose::Cache => self.config.timeout.max(CACHE_TIMEOUT),
            Purpose::Keys => self.config.timeout.max(KEYS_TIMEOUT),
        }
    }
}

#[cfg(test)]
mod tests;
