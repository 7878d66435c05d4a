//! Every error response, in its forms: OpenAI's below `/v1/`, a short one elsewhere.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use super::inference::Flavour;
use super::settings::BadSetting;

/// A response that is not a success.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    message: String,
    kind: &'static str,
    param: Option<&'static str>,
    code: Option<&'static str>,
    retry_after: bool,
    /// Body of the short form, where it is not the message.
    short: Option<Value>,
}

impl Refusal {
    fn new(status: u16, message: impl Into<String>) -> Refusal {
        Refusal {
            status,
            message: message.into(),
            kind: "invalid_request_error",
            param: None,
            code: None,
            retry_after: false,
            short: None,
        }
    }

    /// A body, or a member of it, that cannot be used.
    pub(super) fn bad_body(param: Option<&'static str>, wanted: &str) -> Refusal {
        let message = format!("{}: {wanted}", param.unwrap_or("body"));
        Refusal { param, ..Refusal::new(400, message) }
    }

    /// A body of `/infer` that cannot be used. `kind`, `at` and `message` are pydantic's, `at` being where below
    /// `body`.
    pub(super) fn bad_prompt(flavour: Flavour, kind: &str, at: Option<&str>, message: &str) -> Refusal {
        match flavour {
            Flavour::Node => Refusal::new(400, "prompt required"),
            Flavour::Python => {
                let loc: Vec<&str> = ["body"].into_iter().chain(at).collect();
                let detail = json!({ "detail": [{ "type": kind, "loc": loc, "msg": message }] });
                Refusal { short: Some(detail), ..Refusal::new(422, message) }
            }
        }
    }

    pub(super) fn too_large(limit: usize) -> Refusal {
        Refusal::new(413, format!("body larger than {limit} bytes"))
    }

    pub(super) fn overloaded() -> Refusal {
        let server_error = Refusal::new(503, "overloaded");
        Refusal { kind: "server_error", code: Some("overloaded"), retry_after: true, ..server_error }
    }

    pub(super) fn simulated(status: u16) -> Refusal {
        let server_error = Refusal::new(status, "simulated error");
        Refusal { kind: "server_error", code: Some("simulated_error"), ..server_error }
    }

    /// 404 and 405, which each framework words in its own way.
    pub(super) fn by_router(flavour: Flavour, status: StatusCode) -> Refusal {
        let reason = status.canonical_reason().unwrap_or_default();
        match flavour {
            Flavour::Python => {
                Refusal { short: Some(json!({ "detail": reason })), ..Refusal::new(status.as_u16(), reason) }
            }
            Flavour::Node => Refusal::new(status.as_u16(), reason.to_ascii_lowercase()),
        }
    }

    /// The response to a request for `path`.
    pub(super) fn into_response(self, path: &str) -> Response {
        let Refusal { status, message, kind, param, code, .. } = self;
        let body = if path.starts_with("/v1/") {
            to_json(&Errors { error: OpenAi { message: &message, kind, param, code } })
        } else {
            self.short.map_or_else(|| to_json(&Errors { error: &message }), |short| short.to_string())
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        if self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[derive(Serialize)]
struct Errors<E> {
    error: E,
}

#[derive(Serialize)]
struct OpenAi<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'static str>,
    code: Option<&'static str>,
}

fn to_json(errors: &impl Serialize) -> String {
    serde_json::to_string(errors).expect("plain values with string keys")
}

impl From<BadSetting> for Refusal {
    fn from(bad: BadSetting) -> Self {
        Refusal { param: Some(bad.name), ..Refusal::new(400, bad.to_string()) }
    }
}
