//! Sums over all workers, for the console: the same counts as the exposition, without its text.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::Metrics;
use super::cells::{CacheCells, Counter, LimitCells, UpstreamCells};
use super::histogram::{EXCHANGE, Total};
use super::policies::OUTCOMES;
use super::process::Reading;
use crate::error::Reason;
use crate::observe::refused_keys::RefusedKey;
use crate::runtime::clock;

/// Counts of requests.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// By class of status, 1xx to 5xx; whatever is above counts as 5xx.
    pub statuses: [u64; 5],
    /// From the first byte of a request to the last byte of its response.
    pub duration: Durations,
}

/// Durations in buckets with fixed bounds.
#[derive(Debug, Clone, Default)]
pub struct Durations(Vec<u64>);

impl Durations {
    /// Upper bounds of the buckets in milliseconds; the last bucket has none.
    pub fn bounds_ms() -> Vec<f64> {
        EXCHANGE.seconds().filter(|bound| bound.is_finite()).map(|bound| bound * 1e3).collect()
    }

    /// Count of each bucket, not cumulated.
    pub fn counts(&self) -> &[u64] {
        &self.0
    }

    /// The quantile of what was added since `before`, in milliseconds, linear within its bucket; none when nothing was.
    pub fn quantile_since(&self, before: &Durations, quantile: f64) -> Option<f64> {
        let added = |index: usize| self.0[index].saturating_sub(before.0.get(index).copied().unwrap_or_default());
        let all: u64 = (0..self.0.len()).map(added).sum();
        if all == 0 {
            return None;
        }
        let rank = quantile * all as f64;
        let (mut below, mut lower) = (0.0, 0.0);
        for (index, upper) in EXCHANGE.seconds().enumerate().take(self.0.len()) {
            let here = added(index) as f64;
            if here > 0.0 && below + here >= rank {
                // Nothing is known of the width of the last bucket.
                let upper = if upper.is_finite() { upper } else { lower };
                return Some((lower + (upper - lower) * ((rank - below) / here).clamp(0.0, 1.0)) * 1e3);
            }
            below += here;
            lower = upper;
        }
        Some(lower * 1e3)
    }

    fn add(&mut self, total: &Total) {
        self.0.resize(EXCHANGE.seconds().count(), 0);
        self.0.iter_mut().zip(total.buckets(&EXCHANGE)).for_each(|(sum, (_, count))| *sum += count);
    }
}

/// A counter among the cells of a worker, with its name.
type Named<C> = (&'static str, fn(&C) -> &Counter);

/// Counts by name of what was counted.
pub type Counts = Vec<(&'static str, u64)>;

impl Metrics {
    /// Requests by route, those that match none under [`NONE`](super::NONE).
    pub fn traffic_by_route(&self) -> Vec<(Arc<str>, Traffic)> {
        let routes = self.0.routes.snapshot(Instant::now());
        let all = routes.into_iter().map(|(name, cells)| {
            let mut traffic = Traffic::default();
            let mut total = Total::default();
            for cells in &cells {
                total.add(&cells.duration);
                for (status, count) in cells.statuses().iter().flat_map(|(_, statuses)| statuses.iter()) {
                    traffic.statuses[usize::from(status / 100).clamp(1, 5) - 1] += count;
                }
            }
            traffic.duration.add(&total);
            (name, traffic)
        });
        all.collect()
    }

    /// All requests.
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        let mut total = Total::default();
        for (_, cells) in self.0.routes.snapshot(Instant::now()) {
            for cells in &cells {
                total.add(&cells.duration);
                for (status, count) in cells.statuses().iter().flat_map(|(_, statuses)| statuses.iter()) {
                    sum.statuses[usize::from(status / 100).clamp(1, 5) - 1] += count;
                }
            }
        }
        sum.duration.add(&total);
        sum
    }

    /// Requests that were not served as they should be, by reason; reasons that never occurred are left out.
    pub fn not_served(&self) -> Vec<(Reason, u64)> {
        let workers = self.0.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sum = |reason: Reason| workers.iter().map(|cells| cells.not_served.get(reason)).sum();
        Reason::ALL.iter().map(|reason| (*reason, sum(*reason))).filter(|(_, count)| *count > 0).collect()
    }

    /// Counts of each rate limit.
    pub fn limit_counts(&self) -> Vec<(Arc<str>, Counts)> {
        let cells: [Named<LimitCells>; 4] = [
            ("allowed", |c| &c.allowed),
            ("refused", |c| &c.dropped),
            ("would_refuse", |c| &c.would_refuse),
            ("store_failures", |c| &c.store_failures),
        ];
        named(self.0.limits.snapshot(Instant::now()), &cells)
    }

    /// The keys that limits refused most in the last minutes, the first one most often.
    pub fn refused_keys(&self, most: usize) -> Vec<RefusedKey> {
        let workers = self.0.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut all = Vec::new();
        workers.iter().for_each(|cells| cells.refused_keys.add_to(&mut all, clock::now_ns()));
        all.sort_by(|one, other| (other.count, &one.text).cmp(&(one.count, &other.text)));
        all.truncate(most);
        all
    }

    /// Outcomes of each authenticator; those that never occurred are left out.
    pub fn auth_counts(&self) -> Vec<(Arc<str>, Counts)> {
        let all = self.0.auth.snapshot(Instant::now()).into_iter().map(|(name, cells)| {
            let sum = |index: usize| cells.iter().map(|cells| cells.outcomes[index].get()).sum::<u64>();
            let counts = OUTCOMES.iter().enumerate().map(|(index, outcome)| (*outcome, sum(index)));
            (name, counts.filter(|(_, count)| *count > 0).collect())
        });
        all.collect()
    }

    /// Counts of each cache.
    pub fn cache_counts(&self) -> Vec<(Arc<str>, Counts)> {
        let cells: [Named<CacheCells>; 8] = [
            ("hits", |c| &c.hits),
            ("misses", |c| &c.misses),
            ("coalesced", |c| &c.coalesced),
            ("stale", |c| &c.stale),
            ("bypassed", |c| &c.bypassed),
            ("stored", |c| &c.stored),
            ("uncacheable", |c| &c.uncacheable),
            ("store_errors", |c| &c.store_errors),
        ];
        named(self.0.caches.snapshot(Instant::now()), &cells)
    }

    /// Counts of the connections of each upstream.
    pub fn upstream_counts(&self) -> Vec<(Arc<str>, Counts)> {
        let cells: [Named<UpstreamCells>; 4] = [
            ("opened", |c| &c.opened),
            ("reused", |c| &c.reused),
            ("retries", |c| &c.retries),
            ("fallbacks", |c| &c.fallbacks),
        ];
        named(self.0.upstreams.snapshot(Instant::now()), &cells)
    }

    /// Configurations that were put in force and that were refused, since the start.
    pub fn reload_counts(&self) -> [u64; 2] {
        use std::sync::atomic::Ordering::Relaxed;
        [self.0.reloads_applied.load(Relaxed), self.0.reloads_refused.load(Relaxed)]
    }

    /// CPU seconds of the process since its start, and resident bytes; none where the system does not say.
    pub fn usage(&self) -> Option<(f64, u64)> {
        Reading::take().map(|reading| (reading.cpu_seconds, reading.resident_bytes))
    }
}

fn named<C>(all: Vec<(Arc<str>, Vec<Arc<C>>)>, counters: &[Named<C>]) -> Vec<(Arc<str>, Counts)> {
    let sums = |cells: &[Arc<C>]| {
        let sum = |cell: fn(&C) -> &Counter| cells.iter().map(|cells| cell(cells).get()).sum();
        counters.iter().map(|(name, cell)| (*name, sum(*cell))).collect()
    };
    all.iter().map(|(name, cells)| (name.clone(), sums(cells))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics::Record;

    #[test]
    fn quantiles_are_of_what_came_between() {
        let metrics = Metrics::new();
        let route = metrics.shard(0).route("a", &[]);
        let other = metrics.shard(1).route("b", &[]);
        let record = |status, ms: u64| Record { status, total_ns: ms * 1_000_000, ..Record::default() };
        (0..100).for_each(|_| route.record(&record(200, 900)));
        let before = metrics.traffic();
        assert_eq!(before.statuses, [0, 100, 0, 0, 0]);
        assert_eq!(before.duration.quantile_since(&before.duration, 0.5), None, "nothing came");
        (0..90).for_each(|_| route.record(&record(204, 4)));
        (0..10).for_each(|_| other.record(&record(503, 60)));
        let after = metrics.traffic();
        assert_eq!(after.statuses, [0, 190, 0, 0, 10]);
        let quantile = |q| after.duration.quantile_since(&before.duration, q).unwrap();
        assert!((3.0..=5.0).contains(&quantile(0.5)), "{}", quantile(0.5));
        assert!((50.0..=70.0).contains(&quantile(0.99)), "{}", quantile(0.99));
        let by_route = metrics.traffic_by_route();
        assert_eq!(
            by_route.iter().map(|(name, t)| (&**name, t.statuses)).collect::<Vec<_>>(),
            [("a", [0, 190, 0, 0, 0]), ("b", [0, 0, 0, 0, 10])]
        );
        assert_eq!(by_route[1].1.duration.counts().len(), Durations::bounds_ms().len() + 1);
    }

    #[test]
    fn a_duration_above_every_bound_is_no_less_than_the_last() {
        let metrics = Metrics::new();
        let route = metrics.shard(0).route("a", &[]);
        route.record(&Record { status: 200, total_ns: 900_000_000_000, ..Record::default() });
        assert_eq!(metrics.traffic().duration.quantile_since(&Durations::default(), 0.99), Some(60_000.0));
    }
}
