//! The memory that workers count in.
//!
//! A cell is written by one worker only, so an increment is a relaxed load and a relaxed store: plain `mov` and `add`,
//! no locked instruction. Any other thread may read it at any time and sees some recent value. Groups of cells are
//! aligned to cache lines, so that two workers never share one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::exemplars::Exemplars;
use super::histogram::Histogram;
use crate::error::Reason;
use crate::observe::refused_keys::RefusedKeys;

/// A count with one writer.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, n: u64) {
        // Two writers would lose counts here; the handles that lead to a cell cannot be shared between threads.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One count per reason.
#[derive(Debug)]
pub(super) struct Reasons([Counter; Reason::ALL.len()]);

impl Default for Reasons {
    fn default() -> Self {
        Reasons(std::array::from_fn(|_| Counter::default()))
    }
}

impl Reasons {
    pub(super) fn add(&self, reason: Reason) {
        self.0[reason.index()].add(1);
    }

    pub(super) fn get(&self, reason: Reason) -> u64 {
        self.0[reason.index()].get()
    }
}

/// Statuses of a class lie together; a class takes memory with its first request.
type Class = Box<[Counter; 100]>;

/// Requests by status.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Statuses {
    /// 1xx to 9xx.
    classes: [OnceLock<Class>; 9],
    /// Of gRPC calls, 0 to 16; they take memory with the first call.
    grpc: OnceLock<Box<[Counter; GRPC_STATUSES]>>,
}

/// There are no others.
const GRPC_STATUSES: usize = 17;

impl Statuses {
    /// Counts one; a status outside of 100 to 999 cannot be written by HTTP/1.1 and counts as the nearest one.
    pub(super) fn add(&self, status: u16) {
        let status = usize::from(status.clamp(100, 999));
        let class = self.classes[status / 100 - 1]
            .get_or_init(|| Box::new(std::array::from_fn::<_, 100, _>(|_| Counter::default())));
        class[status % 100].add(1);
    }

    /// Counts a gRPC call.
    pub(super) fn add_grpc(&self, status: u8) {
        let counts = self.grpc.get_or_init(Box::default);
        if let Some(count) = counts.get(usize::from(status)) {
            count.add(1);
        }
    }

    /// Statuses of gRPC that occurred, ascending, with their counts.
    pub(super) fn iter_grpc(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let counts = self.grpc.get().into_iter().flat_map(|counts| counts.iter());
        counts.zip(0u16..).map(|(count, status)| (status, count.get())).filter(|(_, n)| *n > 0)
    }

    /// Statuses that occurred, ascending, with their counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.classes.iter().zip(1u16..).filter_map(|(class, n)| Some((class.get()?, n * 100))).flat_map(
            |(class, base)| {
                class.iter().zip(base..).map(|(count, status)| (status, count.get())).filter(|(_, n)| *n > 0)
            },
        )
    }
}

/// What one worker counts for one route.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct RouteCells {
    pub(super) duration: Histogram,
    /// Of `duration`.
    pub(super) exemplars: Exemplars,
    pub(super) upstream_duration: Histogram,
    pub(super) request_bytes: Counter,
    pub(super) response_bytes: Counter,
    /// By name of the upstream that responded. Locked when a configuration is installed and when metrics are read, never
    /// by a request.
    statuses: Mutex<Vec<(Arc<str>, Arc<Statuses>)>>,
}

impl RouteCells {
    pub(super) fn statuses_of(&self, upstream: &str) -> Arc<Statuses> {
        let mut list = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, statuses)) = list.iter().find(|(name, _)| **name == *upstream) {
            return statuses.clone();
        }
        let statuses = Arc::new(Statuses::default());
        list.push((upstream.into(), statuses.clone()));
        statuses
    }

    pub(super) fn statuses(&self) -> Vec<(Arc<str>, Arc<Statuses>)> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What one worker counts for one upstream.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct UpstreamCells {
    pub(super) opened: Counter,
    pub(super) reused: Counter,
    pub(super) discarded: Counter,
    pub(super) retries: Counter,
    pub(super) fallbacks: Counter,
    pub(super) errors: Reasons,
}

/// What one worker counts for one authenticator: requests by outcome, in the order of [`super::policies::OUTCOMES`].
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct AuthCells {
    pub(super) outcomes: [Counter; super::policies::OUTCOMES.len()],
    pub(super) duration: Histogram,
    pub(super) hits: Counter,
    pub(super) misses: Counter,
}

/// What one worker counts for one operation of a description: violations by rule, in the order of [`openapi::RULES`].
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct ContractCells {
    pub(super) violations: Box<[Counter]>,
}

impl Default for ContractCells {
    fn default() -> Self {
        ContractCells { violations: openapi::RULES.iter().map(|_| Counter::default()).collect() }
    }
}

/// What one worker counts for one limit.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct LimitCells {
    pub(super) allowed: Counter,
    pub(super) dropped: Counter,
    pub(super) would_refuse: Counter,
    pub(super) refused_locally: Counter,
    pub(super) store_failures: Counter,
    pub(super) store_duration: Histogram,
}

/// What one worker counts for one cache.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct CacheCells {
    pub(super) hits: Counter,
    pub(super) misses: Counter,
    pub(super) coalesced: Counter,
    pub(super) stale: Counter,
    pub(super) revalidated: Counter,
    pub(super) bypassed: Counter,
    pub(super) stored: Counter,
    pub(super) uncacheable: Counter,
    pub(super) store_errors: Counter,
    pub(super) writes_dropped: Counter,
}

/// Why a call of Redis got no response, as labels.
pub const REDIS_FAILURES: [&str; 4] = ["unavailable", "timeout", "disconnected", "refused"];

/// What one worker counts for one use of Redis.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct RedisCells {
    pub(super) duration: Histogram,
    pub(super) failures: [Counter; REDIS_FAILURES.len()],
    pub(super) connections: Counter,
    /// The difference is what is open now.
    pub(super) breakers_opened: Counter,
    pub(super) breakers_closed: Counter,
}

/// What one worker counts of HTTP/2 connections.
#[derive(Debug, Default)]
pub(super) struct Http2Cells {
    pub(super) opened: Counter,
    pub(super) closed: Counter,
    /// Ended because the client broke a rule of the connection.
    pub(super) failed: Counter,
    /// Closed at once because of the connections that the client had before.
    pub(super) refused: Counter,
    pub(super) streams: Counter,
    /// Connections to targets.
    pub(super) upstream_opened: Counter,
    pub(super) upstream_closed: Counter,
    /// Requests that were sent in their streams.
    pub(super) upstream_streams: Counter,
    /// Streams that a target ended before its response, or that broke off with their connection.
    pub(super) upstream_streams_lost: Counter,
    /// What clients paid for from their abuse budgets, by [`http2::BudgetKind`].
    pub(super) abuse: [Counter; http2::BudgetKind::COUNT],
}

/// What one worker counts of responses that it compresses, by [`compress::Coding::index`].
#[derive(Debug, Default)]
pub(super) struct CompressCells {
    pub(super) responses: [Counter; 3],
    pub(super) bytes_in: [Counter; 3],
    pub(super) bytes_out: [Counter; 3],
    /// Responses that went out as they were, because too much memory was held.
    pub(super) skipped: Counter,
}

/// What one worker counts of copies of a route's requests.
#[derive(Debug, Default)]
pub(super) struct MirrorCells {
    pub(super) sent: Counter,
    pub(super) failed: Counter,
    pub(super) skipped: Counter,
}

/// What one worker counts of faults that a route injects.
#[derive(Debug, Default)]
pub(super) struct FaultCells {
    pub(super) delayed: Counter,
    pub(super) refused: Counter,
}

/// What one worker counts for itself.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct WorkerCells {
    pub(super) accepted: Counter,
    pub(super) closed: Counter,
    pub(super) handed_over: Counter,
    pub(super) requests: Counter,
    pub(super) panics: Counter,
    pub(super) deadlines_fired_early: Counter,
    pub(super) not_served: Reasons,
    pub(super) http2: Http2Cells,
    pub(super) compress: CompressCells,
    /// By [`super::HandshakeResult::position`].
    pub(super) handshakes: [Counter; super::HandshakeResult::COUNT],
    /// Connections whose ClientHello was waited for, and those of them whose wait has ended.
    pub(super) hellos_awaited: Counter,
    pub(super) hellos_ended: Counter,
    /// By [`super::HeaderResult::position`].
    pub(super) headers: [Counter; super::HeaderResult::COUNT],
    pub(super) overhead: Histogram,
    pub(super) refused_keys: Arc<RefusedKeys>,
}
