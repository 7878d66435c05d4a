//! `com.example.grpc.EventService`.

use std::{
    borrow::Cow,
    time::{Duration, Instant},
};

use producer_core::{
    HEALTHY, INTERNAL, STORED, UNAVAILABLE,
    check::{Body, Field, Header, Submitted, Text, Update, check},
    metrics::{Fate, Metrics},
    store::{Store, StoreError},
};
use tonic::{Code, Request, Response, Status, metadata::MetadataMap};

use crate::{
    attributes,
    pb::{EventRequest, EventResponse, HealthRequest, HealthResponse, event_service_server},
};

/// The service.
#[derive(Debug)]
pub(crate) struct EventService {
    /// The database.
    pub(crate) store: Store,
    /// Counters.
    pub(crate) metrics: Metrics,
    /// Entities that one event may have.
    pub(crate) max_entities: usize,
    /// What a call gets that has no deadline, or a later one.
    pub(crate) request_timeout: Duration,
}

#[tonic::async_trait]
impl event_service_server::EventService for EventService {
    async fn process_event(&self, request: Request<EventRequest>) -> Result<Response<EventResponse>, Status> {
        let call = Call::start(&self.metrics, "process_event");
        let count = self.metrics.begin_event();
        let arrived = request.extensions().get().map_or_else(Instant::now, |Arrival(at)| *at);
        let given = deadline(request.metadata()).unwrap_or(Duration::MAX).min(self.request_timeout);
        let end = arrived + given.saturating_sub(AHEAD);
        let work = tokio::time::timeout_at(end.into(), self.apply(request.get_ref()));
        let result = work.await.unwrap_or_else(|_| Err(out_of_time()));
        count.end(match &result {
            Ok(entities) => Fate::Stored(*entities),
            Err(status) if status.code() == Code::InvalidArgument => Fate::Refused,
            Err(_) => Fate::Failed,
        });
        call.end(result.map(|_| Response::new(EventResponse { success: true, message: STORED.to_owned() })))
    }

    async fn health_check(&self, _request: Request<HealthRequest>) -> Result<Response<HealthResponse>, Status> {
        let call = Call::start(&self.metrics, "health");
        let healthy = self.store.is_up().await;
        let message = if healthy { HEALTHY } else { UNAVAILABLE }.to_owned();
        call.end(Ok(Response::new(HealthResponse { healthy, message })))
    }
}

impl EventService {
    /// Stores the event; gives the number of its entities.
    async fn apply(&self, request: &EventRequest) -> Result<usize, Status> {
        let event = check(submitted(request), self.max_entities, true)
            .map_err(|refusal| Status::invalid_argument(refusal.0))?;
        match self.store.store(&event).await {
            Ok(()) => Ok(event.ids.len()),
            Err(StoreError::Refused(_)) => Err(Status::invalid_argument("Attributes cannot be stored as JSON")),
            Err(error @ StoreError::Unavailable(_)) => {
                tracing::warn!(%error, "event not stored");
                Err(Status::unavailable(UNAVAILABLE))
            }
            Err(error @ StoreError::Failed(_)) => {
                tracing::error!(%error, "event not stored");
                Err(Status::internal(INTERNAL))
            }
        }
    }
}

pub(crate) fn out_of_time() -> Status {
    Status::deadline_exceeded("Deadline exceeded")
}

/// When a call's head came, which is when its time begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival(pub(crate) Instant);

fn submitted(request: &EventRequest) -> Submitted<'_> {
    let header = request.event_header.as_ref().map_or(Field::Absent, |header| {
        Field::Is(Header {
            uuid: Text::from_proto(&header.uuid),
            event_name: Text::from_proto(&header.event_name),
            created_date: Text::from_proto(&header.created_date),
            saved_date: Text::from_proto(&header.saved_date),
            event_type: Text::from_proto(&header.event_type),
        })
    });
    let body = request.event_body.as_ref().map_or(Field::Absent, |body| {
        let entities = body.entities.iter().map(|entity| {
            Field::Is(Update {
                entity_type: Text::from_proto(&entity.entity_type),
                entity_id: Text::from_proto(&entity.entity_id),
                attributes: Field::Is(Cow::Owned(attributes::object(&entity.updated_attributes))),
            })
        });
        Field::Is(Body { entities: Field::Is(entities.collect()) })
    });
    Submitted { header, body }
}

/// How much earlier than its deadline a call ends here: Tonic's own timer, which runs to the deadline, says CANCELLED.
const AHEAD: Duration = Duration::from_millis(2);

/// What is left of the call's time, from `grpc-timeout`: up to eight digits and a unit (the gRPC protocol over HTTP/2,
/// "Requests").
fn deadline(metadata: &MetadataMap) -> Option<Duration> {
    let value = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

/// One call, from its arrival to its count. Tonic drops the work of a call whose client disconnected: that is counted too.
struct Call<'a> {
    metrics: &'a Metrics,
    operation: &'static str,
    start: Instant,
    code: Code,
}

impl<'a> Call<'a> {
    fn start(metrics: &'a Metrics, operation: &'static str) -> Self {
        Self { metrics, operation, start: Instant::now(), code: Code::Cancelled }
    }

    fn end<T>(mut self, result: Result<T, Status>) -> Result<T, Status> {
        self.code = result.as_ref().map_or_else(Status::code, |_| Code::Ok);
        result
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.metrics.responded(self.operation, name(self.code), self.start.elapsed());
    }
}

/// The codes that this service gives, by the names of the gRPC documents.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::Unavailable => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}
