//! Questions whose parts may be secrets: a body has them, never a URL, and nothing logs or keeps them.

use std::net::IpAddr;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Shared;
use crate::admin::problem;
use crate::admin::routes::json;
use crate::exchange::cached::explain::CacheQuestion;
use crate::route::explain::Request;

/// Reads a body; `expected` shows one.
fn read<T: DeserializeOwned>(body: &[u8], expected: &str) -> Result<T, Box<Response>> {
    // The reader's own message may quote the body.
    serde_json::from_slice(body).map_err(|error| {
        let at = format!("line {}, column {}", error.line(), error.column());
        bad(format!("The body is not what is expected ({at}): write {expected}."))
    })
}

fn bad(detail: impl Into<String>) -> Box<Response> {
    Box::new(problem::of(StatusCode::BAD_REQUEST, detail).into_response())
}

fn document(value: &Value) -> Response {
    json(StatusCode::OK, value.to_string())
}

fn unknown() -> Response {
    let detail = "No worker responded: the gateway may be stopping or overloaded.";
    problem::of(StatusCode::SERVICE_UNAVAILABLE, detail).into_response()
}

/// A request that nobody sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    #[serde(default = "get")]
    method: String,
    #[serde(default)]
    host: String,
    path: String,
    /// `Name: value`.
    #[serde(default)]
    fields: Vec<String>,
    #[serde(default)]
    client: Option<IpAddr>,
    #[serde(default)]
    listener: String,
}

fn get() -> String {
    "GET".to_owned()
}

impl Test {
    fn request(self) -> Result<Request, String> {
        let text = format!("{} {}{}", self.method.trim(), self.host.trim(), self.path.trim());
        if self.method.trim().contains(char::is_whitespace) || self.host.trim().contains(['/', '?', ' ']) {
            return Err("A method or host has no blanks and slashes.".to_owned());
        }
        if !self.host.trim().is_empty() && !self.path.trim().starts_with('/') {
            return Err("The path must begin with `/`.".to_owned());
        }
        let mut request = Request::parse(&text, &self.fields, self.client)?;
        request.listener = Some(self.listener);
        Ok(request)
    }
}

/// Which route takes a request, and why not the others. Nothing is sent.
pub(super) async fn test_route(State(console): Shared, body: Bytes) -> Response {
    let expected = r#"{"method": "GET", "host": "api.example.com", "path": "/items/7", "fields": ["X-Tier: gold"]}"#;
    let request = match read::<Test>(&body, expected).and_then(|test| test.request().map_err(bad)) {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    match console.control.explain_route(request).await {
        Some(explained) => document(&serde_json::to_value(explained).unwrap_or_default()),
        None => unknown(),
    }
}

/// Bytes of a token that is looked at. Longer than any that is accepted, so that the reason is shown.
const TOKEN: usize = 16 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    token: String,
}

/// What a token says, and what authenticators make of it.
pub(super) async fn judge_token(State(console): Shared, body: Bytes) -> Response {
    let Token { token } = match read(&body, r#"{"token": "..."}"#) {
        Ok(token) => token,
        Err(refused) => return *refused,
    };
    let token = token.trim();
    // Pasted with its scheme.
    let token = match token.split_at_checked(7) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer ") => rest.trim(),
        _ => token,
    };
    if token.is_empty() {
        return *bad("The token is empty.");
    }
    if token.len() > TOKEN {
        let detail = "The token has more than 16 KiB; none is as long.";
        return problem::of(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response();
    }
    match console.control.judge_token(token.to_owned()).await {
        Some(judged) => document(&judged),
        None => unknown(),
    }
}

/// A request whose response may be stored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LookUp {
    #[serde(default = "get")]
    method: String,
    url: String,
    /// `Name: value`.
    #[serde(default)]
    fields: Vec<String>,
    #[serde(default)]
    consumer: String,
    #[serde(default)]
    listener: String,
}

/// What the cache of its route has for a request.
pub(super) async fn look_up_cached(State(console): Shared, body: Bytes) -> Response {
    let expected = r#"{"method": "GET", "url": "http://host/path", "fields": ["Accept-Language: en"]}"#;
    let LookUp { method, url, fields, consumer, listener } = match read(&body, expected) {
        Ok(question) => question,
        Err(refused) => return *refused,
    };
    let (method, url) = (method.trim().to_ascii_uppercase(), url.trim().to_owned());
    let consumer = Some(consumer.trim().to_owned()).filter(|name| !name.is_empty());
    match console.control.look_up_cached(CacheQuestion { method, url, fields, consumer, listener }).await {
        Some(Ok(found)) => document(&found),
        Some(Err(wrong)) => *bad(wrong),
        None => unknown(),
    }
}
