//! The JSON that pages are rendered from. Reading it takes no lock that a worker waits for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::{Console, ProcessState, Shared, without_excerpts};
use crate::admin::routes::{json as response, limits_of, not_loaded};
use crate::admin::{problem, write_cachez};
use crate::error::Reason;
use crate::observe::clock::unix_ms;
use crate::observe::metrics::{Counts, Durations, NONE, Traffic};
use crate::observe::refused_keys::RefusedKey;
use crate::policy::limit::{Key, Question};
use crate::redis::Purpose;
use crate::upstream::TargetCondition;

/// Certificates that end sooner are a problem.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// Keys of limits that are shown.
const MOST_REFUSED: usize = 20;

fn document(value: &Value) -> Response {
    response(StatusCode::OK, value.to_string())
}

pub(super) async fn overview(State(console): Shared) -> Response {
    let control = &*console.control;
    let state = control.process_state();
    let metrics = control.metrics();
    let [applied, refused] = metrics.reload_counts();
    let errors = metrics.not_served().into_iter().map(|(reason, count)| {
        json!({ "reason": reason.label(), "fault": reason.fault().label(), "title": reason.title(), "count": count })
    });
    let problems = problems(&console, &state);
    document(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "file": state.file,
        "workers": state.workers,
        "ready": control.is_ready(),
        "started_ms": unix_ms(SystemTime::now()).saturating_sub(metrics.uptime_ms()),
        "listeners": state.listeners,
        "reloads": { "applied": applied, "refused": refused },
        "last_reload": state.reloads.first().map(|last| json!({ "at_ms": last.at_ms, "refused": last.error.is_some() })),
        "digest": console.digest(),
        "problems": problems,
        "errors": errors.collect::<Vec<_>>(),
    }))
}

/// What somebody should look at: a sentence each, with the page that has more.
fn problems(console: &Console, state: &ProcessState) -> Vec<Value> {
    let mut found = Vec::new();
    let mut add = |page: &str, text: String| {
        found.push(json!({ "page": page, "text": text }));
    };
    let control = &*console.control;
    if !control.is_ready() {
        add("overview", "This process was told to end: its health endpoints respond with 503.".to_owned());
    }
    if let Some(error) = state.reloads.first().and_then(|last| last.error.as_ref()) {
        let first = error.lines().next().unwrap_or_default();
        add("config", format!("The last reload was refused, the configuration before it stays in force: {first}"));
    }
    for upstream in control.upstreams() {
        let not_ready: Vec<_> =
            upstream.targets.iter().filter(|target| target.state != TargetCondition::Ready).collect();
        let (bad, all) = (not_ready.len(), upstream.targets.len());
        match not_ready.first() {
            None if all == 0 => add("upstreams", format!("Upstream {} has no target with an address.", upstream.name)),
            None => {}
            Some(first) if bad == 1 => {
                let state = condition(first.state);
                add(
                    "upstreams",
                    format!("Upstream {}: {} {state} (1 of {all} targets).", upstream.name, first.address),
                );
            }
            Some(_) => add("upstreams", format!("Upstream {}: {bad} of {all} targets get no requests.", upstream.name)),
        }
        for source in &upstream.sources {
            let Some(why) = source.error.as_ref().and_then(|error| error.lines().next()) else { continue };
            let text =
                format!("Upstream {}: {} is not read, its last good targets stay: {why}", upstream.name, source.source);
            add("upstreams", text);
        }
    }
    for certificate in &state.certificates {
        let days = certificate.seconds_left / 86_400;
        if certificate.seconds_left < 0 {
            add("tls", format!("The certificate for {} has expired.", certificate.host));
        } else if certificate.seconds_left < SOON.as_secs() as i64 {
            add("tls", format!("The certificate for {} expires in {days} days.", certificate.host));
        }
    }
    if let Some(redis) = control.redis() {
        for purpose in Purpose::ALL.into_iter().filter(|purpose| redis.state(*purpose).name() == "degraded") {
            add("limits", format!("Redis does not serve {} on every connection.", purpose.name()));
        }
    }
    found
}

fn condition(condition: TargetCondition) -> &'static str {
    match condition {
        TargetCondition::Ready => "is ready",
        TargetCondition::Full => "is at max_in_flight",
        TargetCondition::Drained => "is drained by an operator",
        TargetCondition::Unhealthy => "is unhealthy",
        TargetCondition::BreakerOpen => "has an open breaker",
        TargetCondition::Ejected => "is ejected",
    }
}

pub(super) async fn routes(State(console): Shared) -> Response {
    let traffic = console.control.metrics().traffic_by_route();
    let of = |name: &str| {
        let found = traffic.binary_search_by(|(known, _)| (**known).cmp(name));
        found.map(|index| with_traffic(&traffic[index].1)).unwrap_or_default()
    };
    let mut routes = console.control.routes();
    for route in routes.as_array_mut().into_iter().flatten() {
        let counts = of(route["name"].as_str().unwrap_or_default());
        route["traffic"] = counts;
    }
    document(&json!({ "bounds_ms": Durations::bounds_ms(), "routes": routes, "unmatched": of(NONE) }))
}

fn with_traffic(traffic: &Traffic) -> Value {
    json!({ "statuses": traffic.statuses, "durations": traffic.duration.counts() })
}

pub(super) async fn upstreams(State(console): Shared) -> Response {
    let counts = by_name(console.control.metrics().upstream_counts());
    document(&json!({ "upstreams": console.control.upstreams(), "counts": counts }))
}

/// What operators keep requests away from: shown on every page, so that nobody forgets it.
pub(super) async fn drained(State(console): Shared) -> Response {
    document(&json!({ "drained": console.control.drained() }))
}

/// The last requests that were not served, as the access log has them, and what their reasons mean.
pub(super) async fn errors(State(console): Shared) -> Response {
    let lines = console.control.metrics().recent_failures().lines();
    let errors: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let met = Reason::ALL.iter().filter(|reason| errors.iter().any(|error| error["reason"] == reason.label()));
    let reasons = met.map(|reason| {
        let meaning = json!({ "title": reason.title(), "advice": reason.advice() });
        (reason.label().to_owned(), meaning)
    });
    document(&json!({ "errors": errors, "reasons": reasons.collect::<Map<_, _>>() }))
}

fn by_name(counts: Vec<(Arc<str>, Counts)>) -> Value {
    let object = |counts: Counts| counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
    counts
        .into_iter()
        .map(|(name, counts)| (name.to_string(), Value::Object(object(counts))))
        .collect::<Map<String, Value>>()
        .into()
}

/// Authenticators with their outcomes.
pub(super) async fn auth(State(console): Shared) -> Response {
    let policies = console.control.authenticators().await;
    document(&json!({ "policies": policies, "counts": by_name(console.control.metrics().auth_counts()) }))
}

/// All limits; with `?key=VALUE` (and `&limit=NAME`) what is left for that key, as on `/limits`.
pub(super) async fn limits(State(console): Shared, RawQuery(query): RawQuery) -> Response {
    let response = limits_of(&*console.control, Question::parse(query.as_deref().unwrap_or_default())).await;
    match response {
        Ok(mut found) => {
            let metrics = console.control.metrics();
            let key = |one: RefusedKey| {
                let hash = Key(one.hash).short();
                json!({ "limit": &*one.limit, "key": one.text, "hash": hash, "count": one.count, "error": one.error })
            };
            found["counts"] = by_name(metrics.limit_counts());
            found["refused"] = metrics.refused_keys(MOST_REFUSED).into_iter().map(key).collect();
            found["store"] = console.control.redis().map_or(
                Value::Null,
                |redis| json!({ "servers": redis.servers(), "state": redis.state(Purpose::Limits).name() }),
            );
            document(&found)
        }
        Err(error) => problem::of(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()).into_response(),
    }
}

pub(super) async fn caches(State(console): Shared) -> Response {
    let control = &*console.control;
    let totals = control.cachez().map(|cache| {
        let mut text = Vec::with_capacity(128);
        write_cachez(&mut text, &cache);
        serde_json::from_slice::<Value>(&text).unwrap_or_default()
    });
    document(&json!({ "totals": totals, "counts": by_name(control.metrics().cache_counts()) }))
}

pub(super) async fn ai(State(console): Shared) -> Response {
    let state = console.control.process_state();
    document(&json!({ "providers": state.providers, "models": state.models }))
}

pub(super) async fn tls(State(console): Shared) -> Response {
    let state = console.control.process_state();
    document(&json!({ "listeners": state.listeners, "certificates": state.certificates }))
}

pub(super) async fn config(State(console): Shared) -> Response {
    let mut state = console.control.process_state();
    for error in state.reloads.iter_mut().filter_map(|reload| reload.error.as_mut()) {
        *error = without_excerpts(error);
    }
    let yaml = console.control.config_yaml();
    document(&json!({ "file": state.file, "digest": console.digest(), "yaml": yaml, "reloads": state.reloads }))
}

/// By what the file differs from the configuration in force.
pub(super) async fn difference(State(console): Shared) -> Response {
    match console.control.difference().await {
        Ok(difference) => document(&serde_json::to_value(difference).unwrap_or_default()),
        Err(error) => not_loaded(&error, |error| without_excerpts(&error)),
    }
}
