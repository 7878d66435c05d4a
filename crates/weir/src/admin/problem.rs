//! Errors of the admin listener, as problem documents (RFC 9457).

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A problem document: the status says what, `detail` says more for people.
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
}

pub(super) fn of(status: StatusCode, detail: impl Into<String>) -> Problem {
    Problem { status, detail: detail.into() }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        (self.status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
    }
}
