//! Filters that are keys of a route of the configuration by themselves.

use serde_json::{Value, json};

use super::status::Condition;
use super::{World, backend};
use crate::objects::{Cors, RequestMirror};

/// Methods that the Gateway API has and Weir copies.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Copies of requests: `mirror`, if any are to be made, and why the backend cannot be used.
pub(super) fn mirror(
    world: &mut World<'_>,
    from: (&str, &str),
    filter: &RequestMirror,
) -> (Option<Value>, Option<Condition>) {
    let upstream = match backend::resolve(world, from, &filter.backend_ref, false) {
        Ok(upstream) => upstream,
        Err(why) => return (None, Some(why)),
    };
    let share = match (&filter.fraction, filter.percent) {
        (Some(fraction), _) => f64::from(fraction.numerator) * 100.0 / f64::from(fraction.denominator.max(1)),
        (None, percent) => f64::from(percent.unwrap_or(100)),
    };
    let mirror = json!({"upstream": upstream, "share": format!("{}%", share.min(100.0)), "methods": METHODS});
    ((share > 0.0).then_some(mirror), None)
}

/// Cross-origin rules: `cors`, and the fields that pages may read.
///
/// # Errors
/// What is not supported.
pub(super) fn cors(filter: &Cors) -> Result<(Value, Option<String>), String> {
    let credentials = filter.allow_credentials.unwrap_or(false);
    let is_any = |list: &[String]| list.iter().any(|one| one == "*");
    if filter.allow_origins.iter().any(|origin| origin != "*" && origin.contains('*')) {
        return Err("an origin of CORS with a wildcard in it is not supported; `*` alone is".to_owned());
    }
    if credentials && (is_any(&filter.allow_origins) || is_any(&filter.allow_headers)) {
        return Err("`*` in CORS with allowCredentials is not supported: any page could act for the user".to_owned());
    }
    let mut cors = json!({
        "origins": filter.allow_origins,
        "max_age": format!("{}s", filter.max_age.unwrap_or(5)),
        "credentials": credentials,
    });
    if is_any(&filter.allow_methods) {
        cors["methods"] = json!(METHODS);
    } else if !filter.allow_methods.is_empty() {
        cors["methods"] = json!(filter.allow_methods);
    }
    if !filter.allow_headers.is_empty() {
        cors["headers"] = json!(filter.allow_headers);
    }
    Ok((cors, (!filter.expose_headers.is_empty()).then(|| filter.expose_headers.join(", "))))
}
