//! Routes and responses.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, HttpBody},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http_body_util::BodyExt;
use producer_core::{
    HEALTHY, INTERNAL, STORED, TIMED_OUT, UNAVAILABLE,
    check::{Field, Submitted, check},
    metrics::{Fate, Metrics},
    settings::Settings,
    store::{Store, StoreError},
};
use serde::Serialize;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use crate::body::{self, Malformed, Parsed};

/// What every request needs.
#[derive(Debug)]
pub(crate) struct App {
    /// The database.
    pub(crate) store: Store,
    /// Counters.
    pub(crate) metrics: Metrics,
    /// Limits.
    pub(crate) settings: Settings,
}

/// The routes of the contract, and `/metrics`.
pub(crate) fn router(app: Arc<App>) -> Router {
    let metrics = app.metrics.router(&app.store);
    Router::new()
        .route("/api/v1/events", post(process_event))
        .route("/api/v1/events/bulk", post(process_events))
        .route("/api/v1/events/health", get(health))
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed").into_response()
        })
        .with_state(app)
        .merge(metrics)
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "Not found").into_response() })
}

/// Any response that is not a success.
#[derive(Debug, Serialize)]
struct Problem {
    error: String,
    status: u16,
    /// The code under which `/metrics` counts it.
    #[serde(skip)]
    code: u16,
}

/// The code of a request whose client disconnected before its response (nginx's, there is no registered one).
const CLIENT_DISCONNECTED: u16 = 499;

impl Problem {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { error: error.into(), status: status.as_u16(), code: status.as_u16() }
    }

    fn content(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self)).into_response();
        if self.status == StatusCode::REQUEST_TIMEOUT.as_u16() {
            // What is left of the body may still be on its way.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<Malformed> for Problem {
    fn from(malformed: Malformed) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            match malformed {
                Malformed::Json => "Malformed JSON",
                Malformed::Depth => "JSON must not be nested deeper than 256 levels",
            },
        )
    }
}

#[derive(Serialize)]
struct Stored {
    success: bool,
    message: &'static str,
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
    message: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bulk {
    success: bool,
    message: String,
    processed_count: usize,
    failed_count: usize,
    batch_id: Uuid,
    processing_time_ms: u128,
    errors: Vec<BulkError>,
}

#[derive(Serialize)]
struct BulkError {
    index: usize,
    error: String,
}

/// Gives a request its response and counts it.
async fn respond<T: IntoResponse>(
    app: &App,
    operation: &'static str,
    work: impl Future<Output = Result<T, Problem>>,
) -> Response {
    let mut exchange = Exchange { app, operation, start: Instant::now(), code: None };
    let result = work.await;
    let code = result.as_ref().err().map(|problem| problem.code);
    let response = result.into_response();
    exchange.code = Some(code.unwrap_or(response.status().as_u16()));
    response
}

/// One request, from its arrival to its count. Hyper drops the work of a request whose client disconnected: that is counted too, and
/// logged in one line.
struct Exchange<'a> {
    app: &'a App,
    operation: &'static str,
    start: Instant,
    code: Option<u16>,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(CLIENT_DISCONNECTED);
        if code == CLIENT_DISCONNECTED {
            tracing::warn!(operation = self.operation, "request aborted");
        }
        self.app.metrics.responded(self.operation, &code.to_string(), self.start.elapsed());
    }
}

async fn process_event(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    let work = async {
        let bytes = read(&app, &headers, body).await?;
        let Parsed { value, scan_attributes } = body::event(&bytes)?;
        let applied = timeout(app.settings.request_timeout, apply(&app, value, scan_attributes)).await;
        applied.unwrap_or(Err(Failure::TimedOut)).map_err(|failure| match failure {
            Failure::Refused(error) => Problem::content(error),
            Failure::Unavailable => Problem::new(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE),
            Failure::TimedOut => Problem::new(StatusCode::SERVICE_UNAVAILABLE, TIMED_OUT),
            Failure::Internal => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL),
        })?;
        Ok(Json(Stored { success: true, message: STORED }))
    };
    respond(&app, "process_event", work).await
}

async fn process_events(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    let work = async {
        let start = Instant::now();
        let bytes = read(&app, &headers, body).await?;
        let Parsed { value, scan_attributes } = body::events(&bytes)?;
        let Field::Is(events) = value else {
            return Err(Problem::content("Request body must be an array of events"));
        };
        if events.is_empty() {
            return Err(Problem::content("Request body must contain at least one event"));
        }
        if events.len() > app.settings.max_events {
            return Err(Problem::content(format!(
                "Request body must not contain more than {} events",
                app.settings.max_events
            )));
        }
        let count = events.len();
        let (errors, stopped_by) = apply_all(&app, events, scan_attributes).await;
        if let Some(reason) = stopped_by
            && errors.len() == count
        {
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason));
        }
        Ok(Json(Bulk {
            success: errors.is_empty(),
            message: if errors.is_empty() {
                "All events processed successfully".to_owned()
            } else {
                format!("{} of {count} events failed", errors.len())
            },
            processed_count: count - errors.len(),
            failed_count: errors.len(),
            batch_id: Uuid::new_v4(),
            processing_time_ms: start.elapsed().as_micros().div_ceil(1000),
            errors,
        }))
    };
    respond(&app, "process_events", work).await
}

/// Applies events one after the other, so that a later one wins where two name the same attribute. Once the database is
/// away, or the time is over, the rest is not tried: each would only wait for the same response.
async fn apply_all(
    app: &App,
    events: Vec<Field<Submitted<'_>>>,
    scan_attributes: bool,
) -> (Vec<BulkError>, Option<&'static str>) {
    let deadline = Instant::now() + app.settings.request_timeout;
    let (mut errors, mut stopped_by) = (Vec::new(), None);
    for (index, event) in events.into_iter().enumerate() {
        if let Some(reason) = stopped_by {
            app.metrics.event(Fate::Failed);
            errors.push(BulkError { index, error: String::from(reason) });
            continue;
        }
        let result = timeout_at(deadline, apply(app, event, scan_attributes)).await;
        let error = match result.unwrap_or(Err(Failure::TimedOut)) {
            Ok(()) => continue,
            Err(Failure::Refused(error)) => error,
            Err(Failure::Unavailable) => stopped_by.insert(UNAVAILABLE).to_owned(),
            Err(Failure::TimedOut) => stopped_by.insert(TIMED_OUT).to_owned(),
            Err(Failure::Internal) => INTERNAL.to_owned(),
        };
        errors.push(BulkError { index, error });
    }
    (errors, stopped_by)
}

/// Why one event was not stored.
enum Failure {
    Refused(String),
    Unavailable,
    TimedOut,
    Internal,
}

async fn apply(app: &App, event: Field<Submitted<'_>>, scan_attributes: bool) -> Result<(), Failure> {
    let count = app.metrics.begin_event();
    let checked = match event {
        Field::Is(event) => {
            check(event, app.settings.max_entities, scan_attributes).map_err(|refusal| refusal.to_string())
        }
        Field::Absent | Field::Other => Err("Event must be an object".to_owned()),
    };
    let result = match checked {
        Err(refusal) => Err(Failure::Refused(refusal)),
        Ok(event) => match app.store.store(&event).await {
            Ok(()) => Ok(event.ids.len()),
            Err(StoreError::Refused(_)) => Err(Failure::Refused("Attributes cannot be stored as JSON".to_owned())),
            Err(error @ StoreError::Unavailable(_)) => {
                tracing::warn!(%error, "event not stored");
                Err(Failure::Unavailable)
            }
            Err(error @ StoreError::Failed(_)) => {
                tracing::error!(%error, "event not stored");
                Err(Failure::Internal)
            }
        },
    };
    count.end(match &result {
        Ok(entities) => Fate::Stored(*entities),
        Err(Failure::Refused(_)) => Fate::Refused,
        Err(_) => Fate::Failed,
    });
    result.map(drop)
}

/// How many times the limit is read, and dropped, of a body that is too large, before the connection is given up.
const DRAIN_FACTOR: usize = 8;

/// Reads a body up to the limit, which says that it is JSON, or says nothing. It is read also where it will not be used: a
/// response while the body is still on its way is one that a client may never see.
async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    timeout(app.settings.body_timeout, read_body(app, headers, body)).await.unwrap_or_else(|_| {
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "Request body did not arrive before the timeout"))
    })
}

async fn read_body(app: &App, headers: &HeaderMap, mut body: Body) -> Result<Vec<u8>, Problem> {
    let limit = app.settings.max_body_bytes;
    let declared = body.size_hint().exact().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let mut bytes = Vec::with_capacity(declared.min(limit));
    let mut seen = 0;
    while seen <= limit.saturating_mul(DRAIN_FACTOR)
        && let Some(frame) = body.frame().await
    {
        // Nobody may be left to see this.
        let frame = frame.map_err(|_| Problem { code: CLIENT_DISCONNECTED, ..Malformed::Json.into() })?;
        let Ok(data) = frame.into_data() else { continue };
        seen += data.len();
        if seen <= limit {
            bytes.extend_from_slice(&data);
        }
    }
    if seen > limit {
        let error = format!("Request body must not be larger than {limit} bytes");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, error));
    }
    if !is_json(headers) {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json"));
    }
    Ok(bytes)
}

/// `application/json`, `application/*+json`, with or without parameters, an empty type, or none.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return true;
    };
    let essence = value.to_str().unwrap_or("?").split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.is_empty()
        || essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

async fn health(State(app): State<Arc<App>>) -> Response {
    let work = async {
        Ok(if app.store.is_up().await {
            (StatusCode::OK, Json(Health { status: "healthy", message: HEALTHY }))
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "unhealthy", message: UNAVAILABLE }))
        })
    };
    respond(&app, "health", work).await
}
