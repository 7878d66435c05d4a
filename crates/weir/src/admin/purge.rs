//! `POST /cache/purge`: what an operator takes out of the caches.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::routes::{Shared, json};
use super::{Control, problem};
use crate::policy::cache::purge::{Purge, PurgeError, Which};

/// What to purge: exactly one of `url`, `prefix`, `tag` and `all`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PurgeRequest {
    url: Option<String>,
    prefix: Option<String>,
    tag: Option<String>,
    all: Option<bool>,
    cache: Option<String>,
    #[serde(default)]
    soft: bool,
}

const EXPECTED: &str = r#"write one of {"url": "http://host/path"}, {"prefix": "http://host/path"}, {"tag": "name"} and {"all": true}; "cache" and "soft" may stand beside it"#;

fn read(body: &[u8]) -> Result<Purge, String> {
    let purge: PurgeRequest = serde_json::from_slice(body).map_err(|error| format!("{error}; {EXPECTED}"))?;
    let which = match (purge.url, purge.prefix, purge.tag, purge.all) {
        (Some(url), None, None, None) => Which::Url(url),
        (None, Some(prefix), None, None) => Which::Prefix(prefix),
        (None, None, Some(tag), None) => Which::Tag(tag),
        (None, None, None, Some(true)) => Which::All,
        _ => return Err(EXPECTED.to_owned()),
    };
    Ok(Purge { cache: purge.cache, which, soft: purge.soft })
}

pub(super) async fn purge(State(control): Shared, body: Bytes) -> Response {
    purge_of(&*control, &body).await
}

/// Takes out what a body says.
pub(super) async fn purge_of(control: &dyn Control, body: &[u8]) -> Response {
    let purge = match read(body) {
        Ok(purge) => purge,
        Err(detail) => return problem::of(StatusCode::BAD_REQUEST, detail).into_response(),
    };
    match control.purge(purge).await {
        Ok(purged) => json(StatusCode::OK, serde_json::json!({ "purged": purged }).to_string()),
        Err(PurgeError::Invalid(detail)) => problem::of(StatusCode::UNPROCESSABLE_ENTITY, detail).into_response(),
        Err(PurgeError::NotShared(detail)) => problem::of(StatusCode::SERVICE_UNAVAILABLE, detail).into_response(),
    }
}
