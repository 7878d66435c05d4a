//! State of Redis as the whole process sees it: for `/healthz`, and for one line of log per change.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::runtime::seldom::OnceAMinute;

/// After an error reply the state is degraded for so long, though other calls may succeed.
const REFUSED_MS: u64 = 5_000;

/// What a connection is for. Each use has connections of its own, so that a large body never delays a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Rate limits.
    Limits,
    /// The cache.
    Cache,
    /// API keys.
    Keys,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 3] = [Purpose::Limits, Purpose::Cache, Purpose::Keys];

    /// Name in metrics, logs and `/healthz`.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Limits => "limits",
            Purpose::Cache => "cache",
            Purpose::Keys => "keys",
        }
    }
}

/// State of one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No connection was needed yet.
    Unused,
    /// Every connection serves, as far as is known.
    Up,
    /// At least one worker has at least one connection that does not serve.
    Degraded,
}

impl State {
    /// Name in `/healthz`.
    pub fn name(self) -> &'static str {
        match self {
            State::Unused => "unused",
            State::Up => "up",
            State::Degraded => "degraded",
        }
    }
}

/// Counts of the links of all workers that serve one purpose.
#[derive(Debug)]
pub(super) struct Health {
    purpose: Purpose,
    /// Servers, without secrets.
    servers: String,
    links: AtomicUsize,
    down: AtomicUsize,
    /// Whether the log says that it is degraded.
    announced: AtomicBool,
    started: Instant,
    /// Milliseconds since `started` of the last error reply; 0 for none.
    refused_ms: AtomicU64,
    refusals: OnceAMinute,
}

impl Health {
    pub(super) fn new(purpose: Purpose, servers: String) -> Self {
        let (links, down, announced, refused_ms, refusals) = Default::default();
        Health { purpose, servers, links, down, announced, started: Instant::now(), refused_ms, refusals }
    }

    pub(super) fn state(&self) -> State {
        match (self.links.load(Relaxed), self.down.load(Relaxed)) {
            (0, _) => State::Unused,
            (_, 0) if !self.is_refusing() => State::Up,
            _ => State::Degraded,
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX) + 1
    }

    fn is_refusing(&self) -> bool {
        let last = self.refused_ms.load(Relaxed);
        last != 0 && self.now_ms() < last + REFUSED_MS
    }

    /// Redis refused to execute a command, though it is there.
    pub(super) fn refused(&self, error: &str) {
        self.refused_ms.store(self.now_ms(), Relaxed);
        if self.refusals.pass() {
            let (purpose, servers) = (self.purpose.name(), &*self.servers);
            tracing::warn!(purpose, servers, error, "Redis refuses commands; this is logged once a minute at most");
        }
    }

    pub(super) fn link_made(&self) {
        self.links.fetch_add(1, Relaxed);
    }

    pub(super) fn link_closed(&self) {
        self.links.fetch_sub(1, Relaxed);
    }

    /// A link stopped serving; the first one is logged.
    pub(super) fn went_down(&self, why: &str) {
        self.down.fetch_add(1, Relaxed);
        if !self.announced.swap(true, Relaxed) {
            let (purpose, servers) = (self.purpose.name(), &*self.servers);
            tracing::warn!(
                purpose,
                servers,
                why,
                "Redis is unavailable; the configured behaviour for its failure applies until it responds"
            );
        }
    }

    /// A link serves again.
    pub(super) fn came_up(&self) {
        self.down.fetch_sub(1, Relaxed);
    }

    /// A link has served for a while: when all do, that is logged. Not at once, so that a Redis that comes and goes does not fill the log.
    pub(super) fn is_steady(&self) {
        if self.down.load(Relaxed) == 0 && self.announced.swap(false, Relaxed) {
            tracing::info!(purpose = self.purpose.name(), servers = &*self.servers, "Redis serves again");
        }
    }
}
