//! What `/metrics` shows; names and labels are equal in all six services.

use std::{sync::Arc, time::Duration};

use axum::{Router, http::header, response::IntoResponse, routing::get};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::store::Store;

/// Upper bounds of the duration buckets, seconds.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseKey {
    operation: &'static str,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

/// The counters of one service.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    requests: Family<ResponseKey, Counter>,
    durations: Family<Operation, Histogram, fn() -> Histogram>,
    events: Family<Outcome, Counter>,
    entities: Counter,
    connections: Family<State, Gauge>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// Committed, with this many entities.
    Stored(usize),
    /// It broke a rule.
    Refused,
    /// The database was away, or something broke.
    Failed,
}

/// An event that is being applied. Dropped, it is counted: its client may disconnect, or its time be over, at any moment.
#[derive(Debug)]
pub struct EventCount<'a> {
    metrics: &'a Metrics,
    fate: Fate,
}

impl EventCount<'_> {
    /// The event came to its end.
    pub fn end(mut self, fate: Fate) {
        self.fate = fate;
    }
}

impl Drop for EventCount<'_> {
    fn drop(&mut self) {
        self.metrics.event(self.fate);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let requests = Family::default();
        let durations = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        let events = Family::default();
        let entities = Counter::default();
        let connections = Family::default();

        let mut registry = Registry::with_prefix("producer");
        registry.register("requests", "Completed requests, by operation and status", requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from the request to its response",
            Unit::Seconds,
            durations.clone(),
        );
        registry.register("events", "Events, by what became of them", events.clone());
        registry.register("entities", "Entity updates committed", entities.clone());
        registry.register("database_connections", "Open connections to PostgreSQL", connections.clone());
        Self { registry: Arc::new(registry), requests, durations, events, entities, connections }
    }
}

impl Metrics {
    /// Counts one completed request; `code` is the HTTP status or the gRPC code's name.
    pub fn responded(&self, operation: &'static str, code: &str, took: Duration) {
        self.requests.get_or_create(&ResponseKey { operation, code: code.to_owned() }).inc();
        self.durations.get_or_create(&Operation { operation }).observe(took.as_secs_f64());
    }

    /// Counts one event, as [`Fate::Failed`] until its [`EventCount::end`].
    #[must_use]
    pub fn begin_event(&self) -> EventCount<'_> {
        EventCount { metrics: self, fate: Fate::Failed }
    }

    /// Counts one event.
    pub fn event(&self, fate: Fate) {
        let outcome = match fate {
            Fate::Stored(entities) => {
                self.entities.inc_by(entities as u64);
                "stored"
            }
            Fate::Refused => "refused",
            Fate::Failed => "failed",
        };
        self.events.get_or_create(&Outcome { outcome }).inc();
    }

    /// `GET /metrics`.
    pub fn router(&self, store: &Store) -> Router {
        let (metrics, store) = (self.clone(), store.clone());
        let show = move || {
            let (metrics, store) = (metrics.clone(), store.clone());
            async move {
                let (used, idle) = store.connections();
                metrics.connections.get_or_create(&State { state: "used" }).set(used as i64);
                metrics.connections.get_or_create(&State { state: "idle" }).set(idle as i64);
                let mut text = String::new();
                match encode(&mut text, &metrics.registry) {
                    Ok(()) => {
                        ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
                            .into_response()
                    }
                    Err(_) => axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
                }
            }
        };
        Router::new().route("/metrics", get(show))
    }
}
