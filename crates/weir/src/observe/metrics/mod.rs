//! Metrics: each worker counts in cells of its own, the control thread adds them up at each scrape.
//!
//! [`Metrics`] belongs to the process and lives as long as it. A worker takes its [`Shard`] once and, whenever it
//! installs a configuration, resolves names to handles ([`RouteMetrics`], [`UpstreamMetrics`], ...). On the request's
//! path a handle is an array index and a few additions: no hashing, no lock, no allocation but the first time that a
//! route responds with a status of a class (an array for that class is made then).
//!
//! Counts belong to names, so they survive a reload; a name that no configuration uses any more is reported for ten
//! more minutes and then dropped. Handles are `Send` but neither `Sync` nor `Clone`: two threads that write one
//! cell would lose counts.

mod caches;
mod cells;
mod exemplars;
mod exposition;
mod handshakes;
mod headers;
mod histogram;
mod http_durations;
mod names;
mod policies;
mod process;
mod render;
mod replicas;
mod targets;
mod text;
mod totals;

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

pub use caches::{CacheSnapshot, collect_caches};
pub use cells::REDIS_FAILURES;
use cells::{
    AuthCells, CacheCells, ContractCells, FaultCells, LimitCells, MirrorCells, RedisCells, RouteCells, Statuses,
    UpstreamCells, WorkerCells,
};
pub use exposition::{Exposition, Format, Samples, Source, Value};
pub use handshakes::{HandshakeResult, HelloAwaited, collect_certificates};
pub use headers::HeaderResult;
pub use http_durations::{ClientSeries, HttpDurations, ServerSeries};
use names::Names;
use policies::BETWEEN;
pub use policies::{
    AuthMetrics, CacheMetrics, CacheTotals, ContractMetrics, FaultMetrics, LimitMetrics, MirrorMetrics, RedisMetrics,
};
pub use targets::collect_upstreams;
pub use totals::{Counts, Durations, Traffic};

use super::access_log;
use super::clock::unix_ms;
use crate::error::Reason;
use crate::observe::refused_keys::RefusedKeys;

/// Name under which requests are counted that match no route, and upstream of those that the gateway responds to itself.
pub const NONE: &str = "-";

/// Everything that the process counts; clones are the same metrics.
#[derive(Clone)]
pub struct Metrics(Arc<Process>);

struct Process {
    started: Instant,
    started_at: SystemTime,
    workers: Mutex<Vec<Arc<WorkerCells>>>,
    routes: Names<RouteCells>,
    upstreams: Names<UpstreamCells>,
    auth: Names<AuthCells>,
    /// By name of the API and of the operation, with [`BETWEEN`] between.
    contracts: Names<ContractCells>,
    /// By name of the route.
    mirrors: Names<MirrorCells>,
    faults: Names<FaultCells>,
    limits: Names<LimitCells>,
    caches: Names<CacheCells>,
    redis: Names<RedisCells>,
    http_durations: http_durations::Durations,
    reloads_applied: AtomicU64,
    reloads_refused: AtomicU64,
    /// The file on disk is not what is in force.
    last_reload_refused: AtomicBool,
    /// Milliseconds since the Unix epoch.
    last_reload: AtomicU64,
    access_log: Arc<access_log::Stats>,
    recent_failures: Arc<access_log::Recent>,
    sources: Mutex<Vec<Arc<dyn Source>>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Metrics of a process that starts now.
    pub fn new() -> Self {
        let started_at = SystemTime::now();
        Metrics(Arc::new(Process {
            started: Instant::now(),
            started_at,
            workers: Mutex::default(),
            routes: Names::default(),
            upstreams: Names::default(),
            auth: Names::default(),
            contracts: Names::default(),
            mirrors: Names::default(),
            faults: Names::default(),
            limits: Names::default(),
            caches: Names::default(),
            redis: Names::default(),
            http_durations: http_durations::Durations::default(),
            reloads_applied: AtomicU64::new(0),
            reloads_refused: AtomicU64::new(0),
            last_reload_refused: AtomicBool::new(false),
            last_reload: AtomicU64::new(unix_ms(started_at)),
            access_log: Arc::default(),
            recent_failures: Arc::default(),
            sources: Mutex::default(),
        }))
    }

    /// The cells of a worker, numbered from 0. Only one thread may hold the shard of a number at a time; a worker that
    /// is started again goes on where the one before stopped.
    pub fn shard(&self, worker: usize) -> Shard {
        let mut workers = self.0.workers.lock().unwrap_or_else(PoisonError::into_inner);
        while workers.len() <= worker {
            workers.push(Arc::default());
        }
        Shard { worker, cells: workers[worker].clone(), process: self.0.clone(), one_thread: PhantomData }
    }

    /// Adds something that has values of its own to show, such as the state of upstreams. It stays until the process
    /// ends.
    pub fn add_source(&self, source: Arc<dyn Source>) {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// A new configuration was put in force. The one of the start counts as put in force by [`Metrics::new`].
    pub fn reload_applied(&self) {
        self.0.reloads_applied.fetch_add(1, Relaxed);
        self.0.last_reload_refused.store(false, Relaxed);
        self.0.last_reload.store(unix_ms(SystemTime::now()), Relaxed);
    }

    /// A new configuration was refused; the last good one stays.
    pub fn reload_refused(&self) {
        self.0.reloads_refused.fetch_add(1, Relaxed);
        self.0.last_reload_refused.store(true, Relaxed);
    }

    /// Milliseconds since the start.
    pub fn uptime_ms(&self) -> u64 {
        self.0.started.elapsed().as_millis() as u64
    }

    /// Counts of all caches together, for `/cachez`.
    pub fn cache_totals(&self) -> CacheTotals {
        let caches = self.0.caches.snapshot(Instant::now());
        let sum = |cell: fn(&CacheCells) -> &cells::Counter| {
            caches.iter().flat_map(|(_, cells)| cells).map(|cells| cell(cells).get()).sum()
        };
        CacheTotals {
            hits: sum(|c| &c.hits),
            misses: sum(|c| &c.misses),
            coalesced: sum(|c| &c.coalesced),
            stale: sum(|c| &c.stale),
            store_errors: sum(|c| &c.store_errors),
        }
    }

    /// Counts of the access log.
    pub(super) fn access_log(&self) -> &Arc<access_log::Stats> {
        &self.0.access_log
    }

    /// The last requests that were not served.
    pub fn recent_failures(&self) -> &Arc<access_log::Recent> {
        &self.0.recent_failures
    }

    /// The whole exposition; requested by a scrape.
    pub fn render(&self, format: Format) -> String {
        render::render(&self.0, format)
    }

    /// The same for a collector.
    pub fn otlp(&self) -> telemetry::metrics::Metrics {
        render::otlp(&self.0)
    }
}

/// Makes a handle `!Sync`.
type OneThread = PhantomData<Cell<()>>;

/// The cells of one worker.
pub struct Shard {
    worker: usize,
    cells: Arc<WorkerCells>,
    process: Arc<Process>,
    one_thread: OneThread,
}

impl Shard {
    /// A client connection was accepted, or taken over from another worker: this worker serves it.
    pub fn connection_opened(&self) {
        self.cells.accepted.add(1);
    }

    /// A client connection that was counted by [`Shard::connection_opened`] ended.
    pub fn connection_closed(&self) {
        self.cells.closed.add(1);
    }

    /// A freshly accepted connection was given to a less loaded worker; that one counts it as opened.
    pub fn connection_handed_over(&self) {
        self.cells.handed_over.add(1);
    }

    /// Connections that this worker serves now.
    pub fn open_connections(&self) -> u64 {
        self.cells.accepted.get().saturating_sub(self.cells.closed.get())
    }

    /// A request was not served as requested, whether or not a response could still be sent.
    pub fn not_served(&self, reason: Reason) {
        self.cells.not_served.add(reason);
    }

    /// A client's TLS handshake ended.
    pub fn tls_handshake(&self, result: HandshakeResult) {
        self.cells.handshakes[result.position()].add(1);
    }

    /// A connection's ClientHello is waited for until what this returns is dropped.
    pub fn tls_hello_awaited(&self) -> HelloAwaited {
        HelloAwaited::new(self.cells.clone())
    }

    /// A PROXY header was read, or a connection to a listener that expects one closed.
    pub fn proxy_header(&self, result: HeaderResult) {
        self.cells.headers[result.position()].add(1);
    }

    /// Counts deadlines that fired too early; for the thread of this worker.
    pub fn early_deadline_counter(&self) -> impl Fn() + 'static {
        let cells = self.cells.clone();
        move || cells.deadlines_fired_early.add(1)
    }

    /// A response was compressed: so many bytes became so many.
    pub fn compressed(&self, coding: compress::Coding, bytes_in: u64, bytes_out: u64) {
        let (cells, index) = (&self.cells.compress, coding.index());
        cells.responses[index].add(1);
        cells.bytes_in[index].add(bytes_in);
        cells.bytes_out[index].add(bytes_out);
    }

    /// A response was not compressed, because too much memory was held for others.
    pub fn not_compressed(&self) {
        self.cells.compress.skipped.add(1);
    }

    /// A client began to speak HTTP/2.
    pub fn http2_connection_opened(&self) {
        self.cells.http2.opened.add(1);
    }

    /// A connection that was counted by [`Shard::http2_connection_opened`] ended; `budget` is what its client paid for.
    pub fn http2_connection_closed(&self, budget: &http2::Budget) {
        self.cells.http2.closed.add(1);
        for kind in http2::BudgetKind::ALL {
            self.cells.http2.abuse[kind as usize].add(budget.count(kind));
        }
    }

    /// An HTTP/2 connection ended because its client broke a rule.
    pub fn http2_connection_failed(&self) {
        self.cells.http2.failed.add(1);
    }

    /// A connection was closed at once because of those that its client had before.
    pub fn http2_connection_refused(&self) {
        self.cells.http2.refused.add(1);
    }

    /// A request came in a stream of an HTTP/2 connection.
    pub fn http2_stream(&self) {
        self.cells.http2.streams.add(1);
    }

    /// A connection to a target speaks HTTP/2.
    pub fn http2_upstream_opened(&self) {
        self.cells.http2.upstream_opened.add(1);
    }

    /// One that was counted by [`Shard::http2_upstream_opened`] ended.
    pub fn http2_upstream_closed(&self) {
        self.cells.http2.upstream_closed.add(1);
    }

    /// A request was sent to a target in a stream.
    pub fn http2_upstream_stream(&self) {
        self.cells.http2.upstream_streams.add(1);
    }

    /// A stream to a target ended before its response did.
    pub fn http2_upstream_stream_lost(&self) {
        self.cells.http2.upstream_streams_lost.add(1);
    }

    /// A panic was caught.
    pub fn panicked(&self) {
        self.cells.panics.add(1);
    }

    /// Handle of a route. `upstreams` are the names of those that may serve it: its upstream, then its fallbacks. The
    /// handle's slot 0 stands for the gateway itself, slot `i + 1` for `upstreams[i]`.
    pub fn route(&self, name: &str, upstreams: &[&str]) -> RouteMetrics {
        let cells = self.process.routes.get(name, self.worker);
        let slots = [NONE].iter().chain(upstreams).map(|upstream| cells.statuses_of(upstream)).collect();
        RouteMetrics { cells, slots, worker: self.cells.clone(), one_thread: PhantomData }
    }

    /// Handle for requests that match no route.
    pub fn unmatched(&self) -> RouteMetrics {
        self.route(NONE, &[])
    }

    /// Handle of an upstream.
    pub fn upstream(&self, name: &str) -> UpstreamMetrics {
        UpstreamMetrics { cells: self.process.upstreams.get(name, self.worker), one_thread: PhantomData }
    }

    /// Handle of an authenticator.
    pub fn auth(&self, name: &str) -> AuthMetrics {
        AuthMetrics { cells: self.process.auth.get(name, self.worker), one_thread: PhantomData }
    }

    /// Handle of an operation of a description.
    pub fn contract(&self, api: &str, operation: &str) -> ContractMetrics {
        let name = format!("{api}{BETWEEN}{operation}");
        ContractMetrics { cells: self.process.contracts.get(&name, self.worker), one_thread: PhantomData }
    }

    /// Handle of the copies of a route's requests.
    pub fn mirror(&self, route: &str) -> MirrorMetrics {
        MirrorMetrics { cells: self.process.mirrors.get(route, self.worker), one_thread: PhantomData }
    }

    /// Handle of the faults that a route injects.
    pub fn fault(&self, route: &str) -> FaultMetrics {
        FaultMetrics { cells: self.process.faults.get(route, self.worker), one_thread: PhantomData }
    }

    /// Handle of a rate limit.
    pub fn limit(&self, name: &str) -> LimitMetrics {
        LimitMetrics { cells: self.process.limits.get(name, self.worker), one_thread: PhantomData }
    }

    /// Where the worker's limits note the keys that they refuse.
    pub fn refused_keys(&self) -> Arc<RefusedKeys> {
        self.cells.refused_keys.clone()
    }

    /// Handle of a cache.
    pub fn cache(&self, name: &str) -> CacheMetrics {
        CacheMetrics { cells: self.process.caches.get(name, self.worker), one_thread: PhantomData }
    }

    /// Handle of a use of Redis. Only one may write at a time.
    pub fn redis(&self, name: &str) -> RedisMetrics {
        RedisMetrics { cells: self.process.redis.get(name, self.worker), one_thread: PhantomData }
    }
}

/// One finished request; durations in nanoseconds, sizes in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// Where the last attempt went: 0 none but the gateway itself, else 1 + the index in the names given to [`Shard::route`].
    pub upstream_slot: usize,
    /// Status that was sent, or that would have been (499, 502) when the exchange broke off before one could.
    pub status: u16,
    /// The status of a gRPC call, 0 to 16; none of other requests, and of calls that broke off.
    pub grpc_status: Option<u8>,
    /// Head and body as received.
    pub request_bytes: u64,
    /// Head and body as sent.
    pub response_bytes: u64,
    /// From the first byte of the request's head to the last byte of the response.
    pub total_ns: u64,
    /// From the start of the (last) attempt to the last byte of the upstream's response; none when no upstream was called.
    pub upstream_ns: Option<u64>,
    /// What the gateway itself added; none when that was not measured.
    pub overhead_ns: Option<u64>,
}

/// Counts of one route in one worker.
pub struct RouteMetrics {
    cells: Arc<RouteCells>,
    slots: Box<[Arc<Statuses>]>,
    worker: Arc<WorkerCells>,
    one_thread: OneThread,
}

impl RouteMetrics {
    /// Counts one finished request. A slot that the route does not have counts as slot 0.
    pub fn record(&self, request: &Record) {
        let statuses = self.slots.get(request.upstream_slot).unwrap_or(&self.slots[0]);
        statuses.add(request.status);
        if let Some(status) = request.grpc_status {
            statuses.add_grpc(status);
        }
        self.cells.request_bytes.add(request.request_bytes);
        self.cells.response_bytes.add(request.response_bytes);
        self.cells.duration.observe(&histogram::EXCHANGE, request.total_ns);
        if let Some(ns) = request.upstream_ns {
            self.cells.upstream_duration.observe(&histogram::EXCHANGE, ns);
        }
        if let Some(ns) = request.overhead_ns {
            self.worker.overhead.observe(&histogram::OVERHEAD, ns);
        }
        self.worker.requests.add(1);
    }

    /// Keeps the trace of a request, which is recorded, for whoever wants to know what such a request was about.
    pub fn keep_trace(&self, request: &Record, trace: telemetry::Parent) {
        self.cells.exemplars.put(&histogram::EXCHANGE, trace, request.total_ns, unix_ms(SystemTime::now()));
    }
}

/// Counts of one upstream in one worker.
pub struct UpstreamMetrics {
    cells: Arc<UpstreamCells>,
    one_thread: OneThread,
}

impl UpstreamMetrics {
    /// A connection was made.
    pub fn connection_opened(&self) {
        self.cells.opened.add(1);
    }

    /// An idle connection of the pool served one more request.
    pub fn connection_reused(&self) {
        self.cells.reused.add(1);
    }

    /// A connection was closed rather than kept, or found closed in the pool.
    pub fn connection_discarded(&self) {
        self.cells.discarded.add(1);
    }

    /// A further attempt was made.
    pub fn retried(&self) {
        self.cells.retries.add(1);
    }

    /// This upstream was called in place of the one that the route names first.
    pub fn fallback(&self) {
        self.cells.fallbacks.add(1);
    }

    /// An attempt failed, whether or not a further one succeeded.
    pub fn error(&self, reason: Reason) {
        self.cells.errors.add(reason);
    }
}

#[cfg(test)]
pub(crate) mod tests;
