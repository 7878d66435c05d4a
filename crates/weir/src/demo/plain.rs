//! `/slow`, which takes its time, and `/limited`, which is there to be limited.

use std::time::Duration;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

const WAIT: Duration = Duration::from_millis(120);

pub(super) fn router() -> Router {
    Router::new()
        .route(
            "/slow",
            get(async || {
                tokio::time::sleep(WAIT).await;
                json(r#"{"ok":true,"path":"/slow"}"#)
            }),
        )
        .route("/limited", get(async || json(r#"{"ok":true}"#)))
        .route("/healthz", get(async || json(r#"{"ok":true,"service":"plain"}"#)))
}

fn json(body: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], body)
}
