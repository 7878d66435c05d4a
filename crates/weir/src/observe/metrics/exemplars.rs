//! Exemplars: of each bucket of a histogram the last request in it whose trace was recorded.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use telemetry::{Parent, SpanId, TraceId};

use super::histogram::{BUCKETS, Bounds};

/// A request with its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exemplar {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    /// What the histogram counted.
    pub(super) ns: u64,
    /// When, in milliseconds since 1970.
    pub(super) unix_ms: u64,
}

type ByBucket = [Option<Exemplar>; BUCKETS];

/// Those of one histogram. They take memory with the first trace.
#[derive(Debug, Default)]
pub(super) struct Exemplars(OnceLock<Box<Mutex<ByBucket>>>);

impl Exemplars {
    /// Locks for a moment; only for requests whose trace is recorded.
    pub(super) fn put(&self, bounds: &Bounds, of: Parent, ns: u64, unix_ms: u64) {
        let all = self.0.get_or_init(|| Box::new(Mutex::new([None; BUCKETS])));
        lock(all)[bounds.bucket(ns)] = Some(Exemplar { trace: of.trace, span: of.span, ns, unix_ms });
    }

    /// Those that there are, with the places of their buckets; the newest of several histograms.
    pub(super) fn newest<'e>(several: impl IntoIterator<Item = &'e Exemplars>) -> Vec<(usize, Exemplar)> {
        let mut newest: ByBucket = [None; BUCKETS];
        for exemplars in several.into_iter().filter_map(|exemplars| exemplars.0.get()) {
            for (newest, own) in newest.iter_mut().zip(*lock(exemplars)) {
                *newest = [*newest, own].into_iter().flatten().max_by_key(|exemplar| exemplar.unix_ms);
            }
        }
        newest.into_iter().enumerate().filter_map(|(place, exemplar)| Some((place, exemplar?))).collect()
    }
}

fn lock(all: &Mutex<ByBucket>) -> MutexGuard<'_, ByBucket> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
