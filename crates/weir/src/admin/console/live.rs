//! Ten minutes of traffic, one row a second. A row is made once, whoever looks; viewers poll for the rows that they do not
//! have yet, so that none of them holds anything of the process and a viewer that does not read costs nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::{Load, Shared};
use crate::admin::Control;
use crate::admin::routes::json;
use crate::error::{Fault, Reason};
use crate::observe::CacheTotals;
use crate::observe::clock::unix_ms;
use crate::observe::metrics::Traffic;

/// Between two rows.
const INTERVAL: Duration = Duration::from_secs(1);
/// Rows that are kept.
const ROWS: usize = 600;

/// What a row has, in this order. Rates are per second, durations in milliseconds, CPU in cores.
pub(super) const COLUMNS: [&str; 15] = [
    "time",
    "requests",
    "status_4xx",
    "status_5xx",
    "errors_client",
    "errors_upstream",
    "errors_gateway",
    "p50",
    "p95",
    "p99",
    "in_flight",
    "connections",
    "cpu",
    "memory",
    "hit_ratio",
];

/// What cannot be told is NaN, which JSON has as null.
type Row = [f64; COLUMNS.len()];

#[derive(Default)]
pub(super) struct Live(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    rows: VecDeque<Row>,
    /// Number of the next row.
    next: u64,
}

impl Live {
    pub(super) async fn sample(&self, control: &dyn Control) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut before = Reading::take(control);
        loop {
            ticks.tick().await;
            let now = Reading::take(control);
            self.push(now.since(&before));
            before = now;
        }
    }

    fn push(&self, row: Row) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.rows.len() == ROWS {
            rows.rows.pop_front();
        }
        rows.rows.push_back(row);
        rows.next += 1;
    }

    /// Rows from this number on; all of them when it is of another process.
    fn rows_from(&self, from: u64) -> (u64, Vec<Row>) {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = rows.next - rows.rows.len() as u64;
        let skipped = if from > rows.next { 0 } else { from.saturating_sub(first) };
        (rows.next, rows.rows.iter().skip(skipped as usize).copied().collect())
    }
}

/// Counts at one moment.
struct Reading {
    at: Instant,
    traffic: Traffic,
    not_served: Vec<(Reason, u64)>,
    cache: CacheTotals,
    load: Load,
    /// CPU seconds and bytes of memory.
    usage: Option<(f64, u64)>,
}

impl Reading {
    fn take(control: &dyn Control) -> Reading {
        let metrics = control.metrics();
        Reading {
            at: Instant::now(),
            traffic: metrics.traffic(),
            not_served: metrics.not_served(),
            cache: metrics.cache_totals(),
            load: control.load(),
            usage: metrics.usage(),
        }
    }

    fn since(&self, before: &Reading) -> Row {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let classes = |traffic: &Traffic, class: usize| traffic.statuses[class];
        let status = |class| per_second(classes(&self.traffic, class), classes(&before.traffic, class));
        let errors = |fault: Fault| {
            let sum = |list: &[(Reason, u64)]| {
                list.iter().filter(|(reason, _)| reason.fault() == fault).map(|(_, count)| count).sum()
            };
            per_second(sum(&self.not_served), sum(&before.not_served))
        };
        let quantile = |q| self.traffic.duration.quantile_since(&before.traffic.duration, q).unwrap_or(f64::NAN);
        let hits = self.cache.hits.saturating_sub(before.cache.hits) as f64;
        let misses = self.cache.misses.saturating_sub(before.cache.misses) as f64;
        let cpu = match (self.usage, before.usage) {
            (Some((now, _)), Some((then, _))) => (now - then) / seconds,
            _ => f64::NAN,
        };
        let row = [
            unix_ms(SystemTime::now()) as f64,
            (0..5).map(status).sum(),
            status(3),
            status(4),
            errors(Fault::Client),
            errors(Fault::Upstream),
            errors(Fault::Gateway),
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
            self.load.in_flight as f64,
            self.load.connections as f64,
            cpu,
            self.usage.map_or(f64::NAN, |(_, bytes)| bytes as f64),
            // 0 / 0 is NaN: nothing to tell.
            hits / (hits + misses),
        ];
        // Nobody reads more digits, and each costs its byte in 600 rows.
        row.map(|value| (value * 1e3).round() / 1e3)
    }
}

/// `?from=N`: the rows from this number on.
pub(super) async fn live(State(console): Shared, RawQuery(query): RawQuery) -> Response {
    #[derive(Serialize)]
    struct Document<'a> {
        /// Tells that another process responds now.
        instance: &'a str,
        columns: [&'static str; COLUMNS.len()],
        next: u64,
        rows: Vec<Row>,
    }
    let from = query.as_deref().and_then(|query| query.strip_prefix("from="));
    let (next, rows) = console.live.rows_from(from.and_then(|number| number.parse().ok()).unwrap_or_default());
    let document = Document { instance: console.access.instance(), columns: COLUMNS, next, rows };
    json(StatusCode::OK, serde_json::to_vec(&document).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_gets_each_row_once_and_only_the_newest_are_kept() {
        let live = Live::default();
        assert_eq!(live.rows_from(0), (0, vec![]));
        (0..700).for_each(|number| live.push([f64::from(number); COLUMNS.len()]));
        let (next, rows) = live.rows_from(0);
        assert_eq!((next, rows.len(), rows[0][0], rows[599][0]), (700, ROWS, 100.0, 699.0));
        assert_eq!(live.rows_from(next), (700, vec![]));
        live.push([1e3; COLUMNS.len()]);
        assert_eq!(live.rows_from(next), (701, vec![[1e3; COLUMNS.len()]]));
        assert_eq!(live.rows_from(5000).1.len(), ROWS, "the number of another process");
    }
}
