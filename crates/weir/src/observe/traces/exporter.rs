//! The thread that sends spans to the collector.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::Duration;

use telemetry::export::Envelope;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Batch, Shared};
use crate::config;
use crate::observe::collector::{Collector, Content, Failure};
use crate::upstream::Resolver;

/// Calls for one batch, repeated ones included.
const ATTEMPTS: u32 = 5;
/// Wait before the first repetition; each further one waits twice as long.
const BACKOFF: Duration = Duration::from_secs(1);
/// Longest wait, whatever the collector requests.
const LONGEST: Duration = Duration::from_secs(30);
/// What all calls may take once the process ends.
const LAST: Duration = Duration::from_secs(2);

pub(super) struct Exporter {
    envelope: Envelope,
    traces: config::Traces,
    collector: Collector,
    shared: Arc<Shared>,
    /// The last call failed, which was said in the log.
    is_failing: bool,
    /// The process ends: until when calls may be made.
    ends: Option<Instant>,
}

impl Exporter {
    pub(super) fn new(
        telemetry: &config::Telemetry,
        traces: config::Traces,
        shared: Arc<Shared>,
        resolver: Resolver,
    ) -> Self {
        let resource = telemetry.resource.iter().map(|(key, value)| (&**key, &**value));
        let envelope = Envelope::new(resource, "weir", env!("CARGO_PKG_VERSION"));
        let collector = Collector::new(traces.collector.clone(), resolver);
        Exporter { envelope, traces, collector, shared, is_failing: false, ends: None }
    }

    /// Sends what comes until the process ends.
    pub(super) async fn run(mut self, mut batches: Receiver<Batch>) {
        let shared = self.shared.clone();
        loop {
            let first = if self.ends.is_some() {
                batches.try_recv().ok()
            } else {
                tokio::select! {
                    biased;
                    first = batches.recv() => first,
                    () = shared.closing.notified() => { self.end(); continue }
                }
            };
            let Some(first) = first else { return };
            let mut waiting = vec![first];
            let due = Instant::now() + self.traces.every;
            let mut spans: usize = waiting.iter().map(|batch| batch.spans).sum();
            while spans < self.traces.batch {
                let next = if self.ends.is_some() {
                    batches.try_recv().ok()
                } else {
                    tokio::select! {
                        biased;
                        next = timeout_at(due, batches.recv()) => next.ok().flatten(),
                        () = shared.closing.notified() => { self.end(); continue }
                    }
                };
                let Some(next) = next else { break };
                spans += next.spans;
                waiting.push(next);
            }
            self.send(&waiting, spans as u64).await;
            shared.waiting.fetch_sub(spans, AcqRel);
        }
    }

    async fn send(&mut self, batches: &[Batch], spans: u64) {
        let content = self.collector.content(self.envelope.request(batches.iter().map(|batch| &*batch.encoded)));
        let shared = self.shared.clone();
        let stats = &shared.stats;
        let mut backoff = BACKOFF;
        for attempt in 1..=ATTEMPTS {
            let failure = match self.call(content.clone()).await {
                Ok(refused) => {
                    let refused = refused.min(spans);
                    stats.exported.fetch_add(spans - refused, Relaxed);
                    stats.dropped_refused.fetch_add(refused, Relaxed);
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!("the collector takes spans again");
                    }
                    return;
                }
                Err(failure) => failure,
            };
            stats.failed_calls.fetch_add(1, Relaxed);
            if !std::mem::replace(&mut self.is_failing, true) {
                tracing::warn!(error = %failure.why, "cannot send spans to the collector");
            }
            let Some(wait) = failure.retry.filter(|_| attempt < ATTEMPTS && self.ends.is_none()) else { break };
            tokio::select! {
                () = sleep(wait.unwrap_or(backoff).min(LONGEST)) => {}
                // Once more, then the process ends.
                () = shared.closing.notified() => self.end(),
            }
            backoff *= 2;
        }
        stats.dropped_failed.fetch_add(spans, Relaxed);
    }

    fn end(&mut self) {
        self.ends = Some(Instant::now() + LAST);
    }

    /// One call. The end of the process shortens it, also while it is in flight.
    async fn call(&mut self, content: Content) -> Result<u64, Failure> {
        let mut limit = self.traces.collector.timeout;
        if let Some(ends) = self.ends {
            limit = limit.min(ends.saturating_duration_since(Instant::now()));
        }
        let call = self.collector.call(content, limit);
        tokio::pin!(call);
        tokio::select! {
            biased;
            done = &mut call => return done,
            () = self.shared.closing.notified() => {}
        }
        let ends = Instant::now() + LAST;
        self.ends = Some(ends);
        let late = |_| Failure { why: "no response before the process ended".to_owned(), retry: None };
        timeout_at(ends, call).await.map_err(late)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(address: &str, timeout: Duration) -> config::Traces {
        config::Traces {
            collector: config::Collector {
                endpoint: format!("http://{address}/"),
                timeout,
                headers: Vec::new(),
                is_compressed: false,
            },
            share: 1.0,
            respects_parent: true,
            queue: 512,
            batch: 512,
            every: Duration::from_secs(3600),
        }
    }

    /// The end of the process may come while spans are gathered, while they are sent, or between.
    #[tokio::test]
    async fn the_exporter_ends_whenever_it_is_told() {
        for gathers in [true, false] {
            let traces = to("127.0.0.1:9", Duration::from_secs(1));
            let shared = Arc::new(Shared::default());
            let exporter = Exporter::new(&config::Telemetry::default(), traces, shared.clone(), Resolver::system());
            let (sender, batches) = tokio::sync::mpsc::channel(4);
            let running = tokio::spawn(exporter.run(batches));
            if gathers {
                shared.waiting.fetch_add(1, AcqRel);
                sender.send(Batch { encoded: Vec::new(), spans: 1 }).await.unwrap();
                while sender.capacity() < sender.max_capacity() {
                    tokio::task::yield_now().await;
                }
            }
            shared.closing.notify_one();
            tokio::time::timeout(Duration::from_secs(30), running).await.expect("the exporter ends").unwrap();
            assert_eq!(shared.waiting.load(Relaxed), 0);
        }
    }

    /// With the clock of the test, which goes on when nothing else does.
    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_process_shortens_the_call_in_flight_and_bounds_all_further_ones() {
        let collector = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let traces = config::Traces {
            batch: 1,
            every: Duration::ZERO,
            ..to(&collector.local_addr().unwrap().to_string(), Duration::from_secs(3600))
        };
        let shared = Arc::new(Shared::default());
        let exporter = Exporter::new(&config::Telemetry::default(), traces, shared.clone(), Resolver::system());
        let (sender, batches) = tokio::sync::mpsc::channel(4);
        for _ in 0..3 {
            shared.waiting.fetch_add(1, AcqRel);
            sender.send(Batch { encoded: Vec::new(), spans: 1 }).await.unwrap();
        }
        let running = tokio::spawn(exporter.run(batches));
        let (_in_flight, _) = collector.accept().await.unwrap();
        let told = Instant::now();
        shared.closing.notify_one();
        running.await.unwrap();
        assert!(told.elapsed() <= LAST + Duration::from_millis(10), "{:?}", told.elapsed());
        assert_eq!((shared.waiting.load(Relaxed), shared.stats.dropped_failed.load(Relaxed)), (0, 3));
    }
}
