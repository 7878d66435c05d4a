//! Kong: `global` are plugins of all services, and sections; `upstream` are keys of each service, `end` is of `kong.conf`.

use std::fmt::Write as _;

use super::super::model::{Model, PathEntry};
use super::super::policies::{By, Keys, Limit, MAX_AGE, RETRIED};
use super::super::security::Guard;
use super::super::text::quoted;
use super::{Adapted, Additions, NOT_YET, nothing_more};
use crate::profile::{CONSUMER, Profile};

pub(in crate::gateway) fn additions(profile: &Profile) -> Adapted {
    match profile {
        // A route of the protocols `http` and `https` passes upgrades on of itself; `ws` and `wss` are of Kong Gateway Enterprise.
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies | Profile::WebSocket(_) => nothing_more(),
        Profile::KeyAuth(auth) => {
            let keys = auth.into();
            let global = format!("  - name: key-auth\n    config: {}\n", key_auth(&keys)) + &consumers(&keys);
            Ok(Additions { global, ..Additions::default() })
        }
        Profile::RateLimit(limit) => Ok(rate_limit(&limit.into())),
        Profile::Jwt(_) => Err("its plugin jwt knows tokens by their issuer, and tells the upstream no subject"),
        Profile::Headers(_)
        | Profile::Cache
        | Profile::Streams
        | Profile::Http2(_)
        | Profile::Tls(_)
        | Profile::Grpc(_) => Err(NOT_YET),
    }
}

/// Configuration of the plugin `key-auth`.
fn key_auth(keys: &Keys) -> String {
    format!("{{key_names: [{}], key_in_query: false, hide_credentials: true}}", quoted(&keys.header))
}

fn consumers(keys: &Keys) -> String {
    let mut text = String::from("\nconsumers:\n");
    for (consumer, keys) in by_consumer(keys) {
        let keys: Vec<String> = keys.iter().map(|key| format!("{{key: {}}}", quoted(key))).collect();
        let _ = writeln!(text, "  - {{username: {}, keyauth_credentials: [{}]}}", quoted(consumer), keys.join(", "));
    }
    text
}

/// A consumer may have several keys, and is one object.
fn by_consumer(keys: &Keys) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (key, consumer) in &keys.credentials {
        match all.iter_mut().find(|(name, _)| name == consumer) {
            Some((_, keys)) => keys.push(key),
            None => all.push((consumer, vec![key])),
        }
    }
    all
}

fn rate_limit(limit: &Limit<'_>) -> Additions {
    let time = if limit.rate.seconds == 1 { "second" } else { "minute" };
    let by = match limit.by {
        By::Header(header) => format!("limit_by: header, header_name: {}", quoted(header)),
        // Without a consumer it takes the address.
        By::Consumer => "limit_by: consumer".to_owned(),
        By::Address => "limit_by: ip".to_owned(),
    };
    let global =
        format!("  - name: rate-limiting\n    config: {{{time}: {}, policy: local, {by}}}\n", limit.rate.requests);
    let notes = vec![format!("Kong counts requests in each {time} of the clock, and allows no burst above the rate")];
    Additions { global, notes, ..Additions::default() }
}

/// What `gauge convert` is told beyond the description.
pub(in crate::gateway) fn policies(model: &Model) -> Additions {
    let policies = &model.settings.policies;
    let keys = model.keys();
    let mut all = model.limit(keys.is_some()).map_or(Additions::default(), |limit| rate_limit(&limit));
    if policies.metrics.is_some() {
        all.global.push_str("  - name: prometheus\n    config: {status_code_metrics: true, latency_metrics: true}\n");
        all.notes.push(
            "the address of the metrics is Kong's status listener: it also shows /status, and must not be public"
                .to_owned(),
        );
    }
    if let Some(keys) = keys {
        all.global.push_str(&consumers(&keys));
    }
    if model.checks() {
        all.notes
            .push(format!("other spellings of {CONSUMER}, such as with underscores, pass as the client sent them"));
    }
    if policies.retries.is_some_and(|retries| retries > 0) {
        let statuses = RETRIED.map(|status| format!("http_{status}")).join(" ");
        all.end = format!("nginx_proxy_proxy_next_upstream = error timeout {statuses}\n");
        all.notes.push("a body that does not fit a buffer (client_body_buffer_size) is not sent again once a part of it was sent; a response that takes longer than 60 s is a failure, after which the request is sent again".to_owned());
    }
    all
}

/// Plugins of a route.
pub(in crate::gateway) fn plugins(model: &Model, path: &PathEntry, guard: Guard) -> String {
    let mut plugins = Vec::new();
    plugins.extend(cors(model, path));
    match model.keys().filter(|_| guard.within(true, false) == Guard::Key) {
        Some(keys) => plugins.push(format!("{{name: key-auth, config: {}}}", key_auth(&keys))),
        None if model.checks() => {
            plugins.push(format!("{{name: request-transformer, config: {{remove: {{headers: [{CONSUMER}]}}}}}}"));
        }
        None => {}
    }
    let lines: String = plugins.iter().map(|plugin| format!("          - {plugin}\n")).collect();
    if lines.is_empty() { lines } else { format!("        plugins:\n{lines}") }
}

fn cors(model: &Model, path: &PathEntry) -> Option<String> {
    let cors = model.cors()?;
    let origins: Vec<String> = cors.origins.iter().map(|origin| quoted(origin)).collect();
    let origins = if cors.any { "\"*\"".to_owned() } else { origins.join(", ") };
    let methods: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
    let headers = if cors.headers.is_empty() { String::new() } else { format!(", headers: [{}]", cors.headers) };
    Some(format!(
        "{{name: cors, config: {{origins: [{origins}], methods: [{}]{headers}, max_age: {MAX_AGE}, credentials: false}}}}",
        methods.join(", ")
    ))
}

/// A route for preflights of a path, which the plugin responds to.
pub(in crate::gateway) fn preflight(
    model: &Model,
    path: &PathEntry,
    expression: &str,
    i: usize,
    priority: usize,
) -> String {
    let Some(cors) = cors(model, path) else { return String::new() };
    format!(
        "      - name: preflight-{i}
        methods: [OPTIONS]
        headers: {{Origin: [\"~*.+\"], Access-Control-Request-Method: [\"~*.+\"]}}
        paths: [{}]
        regex_priority: {priority}
        strip_path: false
        protocols: [http]
        plugins:
          - {cors}
",
        quoted(expression)
    )
}
