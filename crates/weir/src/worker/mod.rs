//! What one worker thread owns. Nothing here is shared between threads; what is shared is behind the `Arc`s.

pub mod handshake;
pub mod healthz;
pub mod in_flight;
pub mod proxied;
pub mod shared;
pub mod snapshot;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use ::http2::hpack::SensitiveNames;
use h1::{RequestHead, ResponseHead};

use crate::io::buffer::Buffers;
use crate::observe::access_log::Notes;
use crate::observe::{HttpDurations, Recorder, Shard, Trace, Writer};
use crate::policy::cache::lookup::KeyScratch;
use crate::policy::compress;
use crate::policy::limit::Work;
use crate::runtime::deadline::Deadlines;
use crate::runtime::seldom::Seldom;
use crate::streams::registry::Registry;
use crate::upstream::TargetId;
use crate::upstream::connect::TlsConfigs;
use crate::upstream::http2::{self, Counted, Sessions};
use crate::upstream::pool::Pool;
use handshake::Handshakes;
use in_flight::InFlight;
use proxied::HeaderLines;
use shared::{Shared, WorkerHandle};
use snapshot::Snapshot;

/// One worker: a thread with its own event loop, listener, pools and buffers.
pub struct Worker {
    me: std::rc::Weak<Worker>,
    /// Number, from 0.
    pub index: usize,
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// The configuration as this worker follows it; a request keeps the one that it began with.
    pub snapshot: RefCell<Rc<Snapshot>>,
    /// Free read buffers.
    pub buffers: Buffers,
    /// Free working memory of exchanges; boxed, because an exchange that waits holds on to it.
    #[allow(clippy::vec_box)]
    scratch: RefCell<Vec<Box<Scratch>>>,
    /// Idle upstream connections.
    pub pool: Pool,
    /// HTTP/2 connections to targets.
    pub sessions: Sessions,
    /// Deadlines of this worker's connections.
    pub deadlines: Rc<Deadlines>,
    /// TLS handshakes of clients.
    pub handshakes: Handshakes,
    /// TLS towards upstreams.
    pub tls_configs: TlsConfigs,
    /// This worker's counts.
    pub metrics: Shard,
    /// This worker's durations for a collector of metrics.
    pub durations: Option<HttpDurations>,
    /// This worker's access log.
    pub log: RefCell<Option<Writer>>,
    /// This worker's notes of failures, for the console.
    pub failures: RefCell<Notes>,
    /// This worker's recorder of traces.
    pub traces: RefCell<Option<Recorder>>,
    /// Once set, every response is its connection's last.
    pub draining: Cell<bool>,
    /// HTTP/2 connections of clients.
    pub http2: Rc<Registry>,
    /// Free slots for their streams, of a type that only `downstream` knows.
    pub http2_slots: RefCell<Option<Rc<dyn std::any::Any>>>,
    /// Connections that are being served here, and calls that those of several workers may wait for.
    pub open: Cell<usize>,
    /// What is held to compress responses.
    pub coding_memory: compress::Memory,
    /// Requests of the gateway's own that are in flight.
    pub subrequests: InFlight,
    /// Lines about connections that were closed for their PROXY header.
    pub header_lines: HeaderLines,
    /// Lines about descriptors, memory or ports that are used up.
    pub shortages: Seldom,
    /// State of the generator of request ids.
    random: Cell<u64>,
}

/// Free working memory that a worker keeps: as many exchanges as are usually in progress at once.
const KEPT_SCRATCH: usize = 256;

/// Working memory of one exchange, reused from one to the next so that none is allocated.
#[derive(Default)]
pub struct Scratch {
    /// The client's head.
    pub request: RequestHead,
    /// The upstream's head.
    pub response: ResponseHead,
    /// Normalised path.
    pub path: Vec<u8>,
    /// Path and query as the upstream is called.
    pub target: Vec<u8>,
    /// Id of the request.
    pub request_id: Vec<u8>,
    /// Key in a cache.
    pub key: KeyScratch,
    /// Field lines on their way into a cache.
    pub fields: Vec<u8>,
    /// Address of the target of the last attempt, for the access log; empty without one.
    pub logged_target: String,
    /// The trace that the request belongs to.
    pub trace: Trace,
    /// Lines that policies put into the head of the response, whatever serves it.
    pub response_lines: Vec<u8>,
    /// Lines that tell the upstream who sends the request.
    pub identity_lines: Vec<u8>,
    /// Lines of the route whose values have variables.
    pub variable_lines: Vec<u8>,
    /// Working memory of rate limits; holds the request's places among those in flight.
    pub limits: Work,
    /// Body of a response that is made for this request.
    pub body: Vec<u8>,
    /// Targets that were tried.
    pub tried: Vec<TargetId>,
    /// Bytes to the client.
    pub to_client: Vec<u8>,
    /// Bytes to the upstream.
    pub to_upstream: Vec<u8>,
}

/// Work of a worker's own that clients wait for.
pub struct KeepOpen(Rc<Worker>);

impl Drop for KeepOpen {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}

impl Worker {
    /// A worker that follows `snapshot`.
    pub fn new(index: usize, shared: Arc<Shared>, snapshot: Snapshot, metrics: Shard, seed: u64) -> Rc<Self> {
        Rc::new_cyclic(|me| Worker {
            me: me.clone(),
            index,
            log: RefCell::new(shared.access_log().map(|log| log.worker())),
            failures: RefCell::new(shared.metrics().recent_failures().worker()),
            traces: RefCell::new(shared.traces().map(|traces| traces.worker())),
            durations: shared.push().map(|_| metrics.http_durations()),
            shared,
            snapshot: RefCell::new(Rc::new(snapshot)),
            buffers: Buffers::new(),
            scratch: RefCell::new(Vec::with_capacity(KEPT_SCRATCH)),
            pool: Pool::default(),
            sessions: Sessions::default(),
            deadlines: Deadlines::new(),
            handshakes: Handshakes::default(),
            tls_configs: TlsConfigs::default(),
            metrics,
            draining: Cell::new(false),
            http2: Rc::default(),
            http2_slots: RefCell::default(),
            open: Cell::new(0),
            coding_memory: compress::Memory::default(),
            subrequests: InFlight::default(),
            header_lines: HeaderLines::default(),
            shortages: Seldom::default(),
            random: Cell::new(seed),
        })
    }

    /// This worker, for a task that outlives the exchange that starts it.
    pub fn rc(&self) -> Option<Rc<Worker>> {
        self.me.upgrade()
    }

    /// This worker as others see it.
    pub fn handle(&self) -> &WorkerHandle {
        &self.shared.workers()[self.index]
    }

    /// A drain waits for this worker as long as the result lives.
    pub fn keep_open(self: &Rc<Self>) -> KeepOpen {
        self.open.set(self.open.get() + 1);
        KeepOpen(self.clone())
    }

    /// Lends working memory.
    pub fn lend_scratch(&self) -> Box<Scratch> {
        self.scratch.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes working memory back.
    pub fn take_scratch(&self, scratch: Box<Scratch>) {
        let mut kept = self.scratch.borrow_mut();
        if kept.len() < KEPT_SCRATCH {
            kept.push(scratch);
        }
    }

    /// A random number (SplitMix64): good enough to tell requests apart, no secret.
    #[inline]
    pub fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl http2::Host for Worker {
    fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    fn deadlines(&self) -> &Rc<Deadlines> {
        &self.deadlines
    }

    fn registry(&self) -> &Rc<Registry> {
        &self.http2
    }

    fn is_draining(&self) -> bool {
        self.draining.get()
    }

    fn sensitive(&self) -> Arc<SensitiveNames> {
        self.snapshot.borrow().sensitive.clone()
    }

    fn random(&self) -> u64 {
        Worker::random(self)
    }

    fn count(&self, event: Counted) {
        match event {
            Counted::Opened => self.metrics.http2_upstream_opened(),
            Counted::Closed => self.metrics.http2_upstream_closed(),
            Counted::Stream => self.metrics.http2_upstream_stream(),
            Counted::StreamLost => self.metrics.http2_upstream_stream_lost(),
        }
    }
}
