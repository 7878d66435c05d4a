//! The endpoints.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::console::{self, Console};
use super::{Control, ReloadError, problem, purge, targets, write_cachez, write_healthz};
use crate::observe::metrics::Format;
use crate::policy::limit::{BadQuestion, Question};

pub(super) type Shared = State<Arc<dyn Control>>;

const INDEX: &str = "\
weir, admin listener

GET  /console/   what runs, for a browser
GET  /metrics    counts for Prometheus; OpenMetrics when Accept names it
GET  /upstreams  state of every target, as JSON
POST /upstreams/NAME/targets/ADDRESS/ACTION  drain, undrain, eject?seconds=N, readmit or reset-breaker
GET  /routes     routes in the order of the file, as JSON
GET  /config     the configuration in force, as YAML, secrets blanked
GET  /limits     rate limits; with ?key=VALUE (and &limit=NAME) what that key has left. DELETE forgets what it was charged
GET  /healthz    whether this process takes requests, and the health of its targets
GET  /readyz     200 while load balancers should send requests here, 503 once this process was told to end
GET  /livez      200 while this process responds
GET  /cachez     counts of the cache
POST /cache/purge  remove responses from the caches, by url, prefix, tag or all, as a JSON body says
POST /reload     read the configuration again; the one in force stays when it is wrong
";

pub(super) fn router(control: Arc<dyn Control>, console: Arc<Console>) -> Router {
    let guarded = Router::new()
        .route("/upstreams", get(upstreams))
        .route("/upstreams/{upstream}/targets/{target}/{action}", post(targets::act))
        .route("/routes", get(routes))
        .route("/config", get(config))
        .route("/limits", get(limits).delete(reset_limits))
        .route("/cachez", get(cachez))
        .route("/cache/purge", post(purge::purge))
        .route("/reload", post(reload))
        .route_layer(middleware::from_fn_with_state(control.clone(), console::require_bearer));
    // Probes and scrapers have no token; what they read holds no secret.
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/livez", get(livez))
        .merge(guarded)
        .with_state(control)
        .merge(console::router(console))
        .fallback(async || problem::of(StatusCode::NOT_FOUND, "There is no such page; / lists what there is."))
        .method_not_allowed_fallback(async || {
            problem::of(StatusCode::METHOD_NOT_ALLOWED, "This page takes another method; / lists what there is.")
        })
        .layer(middleware::from_fn(guard))
        .layer(middleware::from_fn(harden))
}

/// Refuses what a page of another site may have caused.
async fn guard(request: Request, next: Next) -> Response {
    match admin_http::guard::check(&request) {
        Ok(()) => next.run(request).await,
        Err(refused) => problem::of(refused.status(), refused.to_string()).into_response(),
    }
}

/// Text for programs; a browser is sent to the console.
async fn index(headers: HeaderMap) -> Response {
    let wants_html = |field: &HeaderValue| field.to_str().is_ok_and(|accept| accept.contains("text/html"));
    if headers.get_all(header::ACCEPT).iter().any(wants_html) {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, "/console/")]).into_response();
    }
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], INDEX).into_response()
}

/// Every response is of this moment, is what it says, and is not part of a page of another site.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    response
}

pub(super) fn json(status: StatusCode, body: impl Into<axum::body::Body>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}

async fn metrics(State(control): Shared, headers: HeaderMap) -> Response {
    // A list may come in several fields (RFC 9110 section 5.3).
    let fields: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|field| field.to_str().ok()).collect();
    let format = Format::of_accept(&fields.join(","));
    ([(header::CONTENT_TYPE, format.content_type())], control.metrics().render(format)).into_response()
}

async fn upstreams(State(control): Shared) -> Response {
    let body = serde_json::to_vec(&control.upstreams()).expect("snapshots are plain values with string keys");
    json(StatusCode::OK, body)
}

async fn routes(State(control): Shared) -> Response {
    json(StatusCode::OK, control.routes().to_string())
}

async fn config(State(control): Shared) -> Response {
    ([(header::CONTENT_TYPE, "application/yaml")], control.config_yaml()).into_response()
}

async fn limits(State(control): Shared, RawQuery(query): RawQuery) -> Response {
    match limits_of(&*control, Question::parse(query.as_deref().unwrap_or_default())).await {
        Ok(found) => json(StatusCode::OK, found.to_string()),
        Err(error) => bad_question(&error),
    }
}

/// What limits know of a key, or why the question is none.
pub(super) async fn limits_of(
    control: &dyn Control,
    question: Result<Question, BadQuestion>,
) -> Result<serde_json::Value, BadQuestion> {
    control.limits(question?).await
}

async fn reset_limits(State(control): Shared, RawQuery(query): RawQuery) -> Response {
    reset_of(&*control, Question::parse(query.as_deref().unwrap_or_default())).await
}

/// Forgets what was charged to a key.
pub(super) async fn reset_of(control: &dyn Control, question: Result<Question, BadQuestion>) -> Response {
    let response = async { control.reset_limits(question?).await };
    match response.await {
        Ok(names) => json(StatusCode::OK, serde_json::json!({ "reset": names }).to_string()),
        Err(error) => bad_question(&error),
    }
}

fn bad_question(error: &BadQuestion) -> Response {
    problem::of(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()).into_response()
}

async fn healthz(State(control): Shared) -> Response {
    let ok = control.is_ready();
    let mut body = Vec::with_capacity(256);
    write_healthz(&mut body, ok, control.metrics().uptime_ms(), &control.upstreams(), control.redis().as_deref());
    json(if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body)
}

async fn readyz(State(control): Shared) -> Response {
    match control.is_ready() {
        true => json(StatusCode::OK, r#"{"ready":true}"#),
        false => json(StatusCode::SERVICE_UNAVAILABLE, r#"{"ready":false}"#),
    }
}

/// Whether the process responds at all: what restarts it, whatever its upstreams do.
async fn livez() -> Response {
    json(StatusCode::OK, r#"{"alive":true}"#)
}

async fn cachez(State(control): Shared) -> Response {
    match control.cachez() {
        Some(cache) => {
            let mut body = Vec::with_capacity(128);
            write_cachez(&mut body, &cache);
            json(StatusCode::OK, body)
        }
        None => problem::of(StatusCode::NOT_FOUND, "No cache is configured.").into_response(),
    }
}

async fn reload(State(control): Shared) -> Response {
    reload_of(&*control, |error| error).await
}

/// Reads the configuration again; `shown` is what the client sees of an error.
pub(super) async fn reload_of(control: &dyn Control, shown: fn(String) -> String) -> Response {
    match control.reload().await {
        Ok(reloaded) => {
            let body = serde_json::json!({ "reloaded": true, "changes": reloaded.changes });
            json(StatusCode::OK, body.to_string())
        }
        Err(error) => not_loaded(&error, shown),
    }
}

/// Why a configuration cannot be used.
pub(super) fn not_loaded(error: &ReloadError, shown: fn(String) -> String) -> Response {
    let status = match error {
        ReloadError::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ReloadError::NoFile(_) => StatusCode::CONFLICT,
        ReloadError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    problem::of(status, shown(error.to_string())).into_response()
}
