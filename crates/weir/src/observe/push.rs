//! Metrics for a collector, beside `/metrics`: the same values, sent at intervals from the control thread.
//!
//! Values are cumulative, so nothing is queued or sent again: after a failed call the next one says everything.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use telemetry::export::Envelope;
use tokio::time::sleep;

use super::collector::Collector;
use super::metrics::Exposition;
use super::{Metrics, Traces};
use crate::config;
use crate::upstream::Resolver;

/// What the last call may take when the process ends.
const LAST: Duration = Duration::from_secs(2);

/// Metrics on their way to a collector.
pub struct Push {
    envelope: Envelope,
    collector: Collector,
    every: Duration,
    stats: Stats,
}

/// Counts over the life of the process.
#[derive(Debug, Default)]
struct Stats {
    /// The collector took the call and refused these points.
    refused: AtomicU64,
    failed_calls: AtomicU64,
    /// 1 while the last call failed, which was said in the log.
    failing: AtomicU64,
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push").field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl Push {
    /// Metrics of a process with these attributes.
    pub fn new(telemetry: &config::Telemetry, metrics: &config::PushedMetrics) -> Self {
        let resource = telemetry.resource.iter().map(|(key, value)| (&**key, &**value));
        Push {
            envelope: Envelope::new(resource, "weir", env!("CARGO_PKG_VERSION")),
            collector: Collector::new(metrics.collector.clone(), Resolver::system()),
            every: metrics.every,
            stats: Stats::default(),
        }
    }

    /// Sends at intervals, for as long as it is polled.
    pub async fn run(&self, metrics: &Metrics) {
        loop {
            sleep(self.every).await;
            self.send(metrics, self.collector.spec.timeout).await;
        }
    }

    /// Sends once more, when the process ends.
    pub async fn send_last(&self, metrics: &Metrics) {
        self.send(metrics, LAST.min(self.collector.spec.timeout)).await;
    }

    async fn send(&self, metrics: &Metrics, limit: Duration) {
        let values = metrics.otlp();
        let content = self.collector.content(self.envelope.request([values.bytes()]));
        match self.collector.call(content, limit).await {
            Ok(refused) => {
                self.stats.refused.fetch_add(refused.min(values.count()), Relaxed);
                if self.stats.failing.swap(0, Relaxed) == 1 {
                    tracing::info!("the collector takes metrics again");
                }
            }
            Err(failure) => {
                self.stats.failed_calls.fetch_add(1, Relaxed);
                if self.stats.failing.swap(1, Relaxed) == 0 {
                    tracing::warn!(error = %failure.why, "cannot send metrics to the collector");
                }
            }
        }
    }
}

/// Writes how the export of both signals does.
///
/// # Errors
/// Those of the writer.
pub fn collect_exports(traces: Option<&Traces>, push: Option<&Push>, out: &mut Exposition<'_>) -> fmt::Result {
    if traces.is_none() && push.is_none() {
        return Ok(());
    }
    if let Some(traces) = traces {
        out.counter("telemetry_spans", "Spans that the collector accepted", |s| s.add(&[], traces.exported()))?;
    }
    let help = "Spans and values of metrics lost: too many waited, calls failed, or the collector refused them";
    out.counter("telemetry_dropped", help, |s| {
        for (reason, count) in traces.iter().flat_map(|traces| traces.lost()) {
            s.add(&[("signal", "traces"), ("reason", reason)], count)?;
        }
        push.map_or(Ok(()), |push| {
            s.add(&[("signal", "metrics"), ("reason", "refused")], push.stats.refused.load(Relaxed))
        })
    })?;
    out.counter("telemetry_export_failures", "Calls of the collector that failed, repeated ones included", |s| {
        if let Some(traces) = traces {
            s.add(&[("signal", "traces")], traces.failed_calls())?;
        }
        push.map_or(Ok(()), |push| s.add(&[("signal", "metrics")], push.stats.failed_calls.load(Relaxed)))
    })
}
