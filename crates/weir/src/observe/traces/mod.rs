//! Traces of requests: each worker decides which are recorded and encodes their spans into a buffer of its own; a thread of its own sends
//! them to a collector (OTLP over HTTP).
//!
//! A worker never waits: when more spans wait than `queue` allows, because the collector is slow or away, further ones are dropped and
//! counted. Requests carry the trace's context to upstreams whether or not it is recorded.

mod exporter;
mod recorder;
mod trace;

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use telemetry::Ratio;
use tokio::sync::{Notify, mpsc};

pub use recorder::{Finished, Recorder};
pub use trace::{Generation, Trace};

use crate::config;
use crate::upstream::Resolver;

/// Encoded spans on their way to the exporter.
#[derive(Debug)]
struct Batch {
    encoded: Vec<u8>,
    spans: usize,
}

/// Counts over the life of the process.
#[derive(Debug, Default)]
struct Stats {
    exported: AtomicU64,
    /// More waited than `queue` allows.
    dropped_queue: AtomicU64,
    /// The collector could not be reached, or failed again and again.
    dropped_failed: AtomicU64,
    /// The collector took the call and refused the spans.
    dropped_refused: AtomicU64,
    failed_calls: AtomicU64,
}

/// What workers and the exporter share.
#[derive(Debug, Default)]
struct Shared {
    stats: Stats,
    /// Spans between a worker and the collector.
    waiting: AtomicUsize,
    /// Told when the process ends.
    closing: Notify,
}

/// Traces of this process.
#[derive(Debug)]
pub struct Traces {
    shared: Arc<Shared>,
    to_exporter: mpsc::Sender<Batch>,
    ended: Mutex<Receiver<()>>,
    ratio: Ratio,
    respects_parent: bool,
    queue: usize,
    every: Duration,
}

/// Traces that are being closed.
#[derive(Debug)]
pub struct Closing {
    /// Spans that had been lost before.
    lost: u64,
}

/// Batches that may wait: spans are what is bounded, and a batch has one at least.
const BATCHES: usize = 4096;

impl Traces {
    /// Starts the thread that sends spans.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(telemetry: &config::Telemetry, traces: &config::Traces) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (to_exporter, batches) = mpsc::channel(BATCHES);
        // Nothing is ever sent: that the sender has been dropped is the news.
        let (ending, ended) = sync_channel::<()>(1);
        let exporter = exporter::Exporter::new(telemetry, traces.clone(), shared.clone(), Resolver::system());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("traces".into()).spawn(move || {
            runtime.block_on(exporter.run(batches));
            drop(ending);
        })?;
        Ok(Traces {
            shared,
            to_exporter,
            ended: Mutex::new(ended),
            ratio: Ratio::new(traces.share),
            respects_parent: traces.respects_parent,
            queue: traces.queue,
            every: traces.every,
        })
    }

    /// The recorder of one worker.
    pub fn worker(&self) -> Recorder {
        Recorder::new(self)
    }

    /// The process ends: what waits is sent, and the call in flight is shortened. [`close`](Self::close) waits for it.
    pub fn begin_close(&self) -> Closing {
        self.shared.closing.notify_one();
        Closing { lost: self.shared.stats.dropped_failed.load(Relaxed) }
    }

    /// Waits until the thread has ended; how many spans were not sent until then, or within `timeout`.
    pub fn close(&self, closing: Closing, timeout: Duration) -> u64 {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let has_ended = matches!(ended.recv_timeout(timeout), Err(RecvTimeoutError::Disconnected));
        let waiting = if has_ended { 0 } else { self.shared.waiting.load(Relaxed) as u64 };
        waiting + self.shared.stats.dropped_failed.load(Relaxed) - closing.lost
    }

    /// Spans that the collector accepted.
    pub(super) fn exported(&self) -> u64 {
        self.shared.stats.exported.load(Relaxed)
    }

    /// Spans lost, by reason.
    pub(super) fn lost(&self) -> [(&'static str, u64); 3] {
        let stats = &self.shared.stats;
        [
            ("queue_full", stats.dropped_queue.load(Relaxed)),
            ("export_failed", stats.dropped_failed.load(Relaxed)),
            ("refused", stats.dropped_refused.load(Relaxed)),
        ]
    }

    /// Calls that failed.
    pub(super) fn failed_calls(&self) -> u64 {
        self.shared.stats.failed_calls.load(Relaxed)
    }
}
