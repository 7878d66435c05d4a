//! Weir: `global` are sections of the file, `route` are keys of each route, `upstream` those of each upstream.

use super::super::File;
use super::super::model::{Model, Target};
use super::super::policies::{By, Keys, Limit, MAX_AGE, RETRIED, Tokens};
use super::super::security::Guard;
use super::super::text::quoted;
use super::{Adapted, Additions, file, listens, nothing_more};
use crate::profile::token::{AUDIENCE, Algorithm, ISSUER, SECRET};
use crate::profile::{CONSUMER, Jwt, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, SET};

pub(in crate::gateway) fn additions(profile: &Profile) -> Adapted {
    match profile {
        // With TLS it takes HTTP/2 by ALPN by itself.
        Profile::PassThrough | Profile::Life(_) | Profile::Streams | Profile::LargeBodies | Profile::Tls(_) => {
            nothing_more()
        }
        Profile::KeyAuth(auth) => {
            let (keys, files) = key_auth(&auth.into());
            Ok(Additions { files, ..section(&format!("auth:\n{keys}defaults: {{auth: keys}}")) })
        }
        Profile::Headers(_) => Ok(headers()),
        Profile::RateLimit(limit) => {
            Ok(section(&format!("limits:\n{}defaults: {{limits: [clients]}}", limits("clients", &limit.into()))))
        }
        Profile::Cache => Ok(section("caches: {responses: {mode: http}}\ndefaults: {cache: responses}")),
        Profile::Jwt(jwt) => Ok(tokens(jwt)),
        Profile::WebSocket(_) => Ok(Additions {
            route: "\n    upgrade: [websocket]\n    timeouts: {tunnel_idle: 1h}".to_owned(),
            ..Additions::default()
        }),
        Profile::Http2(_) => listens(", http2: prior_knowledge"),
        Profile::Grpc(grpc) => listens(if grpc.tls { "" } else { ", http2: prior_knowledge" }),
    }
}

fn section(text: &str) -> Additions {
    Additions { global: format!("\n{text}\n"), ..Additions::default() }
}

/// The authenticator `keys`, and its files.
fn key_auth(keys: &Keys) -> (String, Vec<File>) {
    let entry = |(n, (key, consumer)): (usize, &(String, String))| {
        format!("- {{\"id\": \"k{}\", \"sha256\": \"{}\", \"consumer\": \"{consumer}\"}}\n", n, sha256(key))
    };
    let text = format!(
        "  keys:\n    api_key:\n      in: [header:{}]\n      store: {{file: keys.yaml}}\n      headers: {{{CONSUMER}: consumer}}\n",
        keys.header
    );
    (text, vec![file("keys.yaml", keys.credentials.iter().enumerate().map(entry))])
}

fn sha256(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn headers() -> Additions {
    let route = format!(
        "\n    headers:\n      request: {{set: {{{REQUEST_SET}: {SET}}}, remove: [{REQUEST_REMOVED}]}}\n      \
         response: {{set: {{{RESPONSE_SET}: {SET}}}, remove: [{RESPONSE_REMOVED}]}}"
    );
    Additions { route, ..Additions::default() }
}

/// A limit with a name.
fn limits(name: &str, limit: &Limit<'_>) -> String {
    let key = match limit.by {
        By::Header(header) => format!("header:{header}"),
        By::Consumer => "consumer".to_owned(),
        By::Address => "client_ip".to_owned(),
    };
    let unit = if limit.rate.seconds == 1 { "s" } else { "min" };
    format!("  {name}: {{key: {key}, rate: {}/{unit}, burst: {}}}\n", limit.rate.requests, limit.burst)
}

fn tokens(jwt: &Jwt) -> Additions {
    let (key, files) = match jwt.algorithm {
        Algorithm::HS256 => (format!("secret: {SECRET}"), Vec::new()),
        Algorithm::RS256 => {
            ("jwks: {file: jwks.json}".to_owned(), vec![file("jwks.json", std::iter::once(jwt.key_set()))])
        }
    };
    let section = section(&format!("auth:\n{}defaults: {{auth: tokens}}", authenticator(ISSUER, AUDIENCE, &key)));
    Additions { files, ..section }
}

/// The authenticator `tokens`.
fn authenticator(issuer: &str, audience: &str, key: &str) -> String {
    let (issuer, audience) = (quoted(issuer), quoted(audience));
    format!(
        "  tokens:\n    jwt:\n      issuer: {issuer}\n      audience: {audience}\n      {key}\n      headers: {{{CONSUMER}: sub}}\n"
    )
}

/// What `gauge convert` is told beyond the description.
pub(in crate::gateway) fn policies(model: &Model) -> Additions {
    let policies = &model.settings.policies;
    let (mut global, mut files) = (String::new(), Vec::new());
    let keys = model.keys().map(|keys| key_auth(&keys));
    let tokens = policies.tokens.as_ref().map(accepted);
    if keys.is_some() || tokens.is_some() {
        global.push_str("\nauth:\n");
    }
    for (text, more) in keys.into_iter().chain(tokens) {
        global.push_str(&text);
        files.extend(more);
    }
    if let Some(keys) = model
        .keys()
        .filter(|_| model.paths.iter().flat_map(|path| &path.targets).any(|target| target.guard == Guard::Both))
    {
        // Where both are needed the token says who it is: two cannot write one field.
        global.push_str(&format!(
            "  keys_beside: {{api_key: {{in: [header:{}], store: {{file: keys.yaml}}}}}}\n",
            keys.header
        ));
    }
    if let Some(limit) = model.limit(false) {
        global = global + "\nlimits:\n" + &limits("addresses", &limit);
    }
    if let Some(limit) = model.limit(true).filter(|_| model.checks()) {
        global.push_str(&limits("consumers", &limit));
    }
    let mut notes = Vec::new();
    if policies.limit.is_some() && policies.keys.is_some() && policies.tokens.is_some() {
        notes.push(
            "a limit counts the consumer of a key and the `sub` of a token as one client if their names are equal"
                .to_owned(),
        );
    }
    if let Some(address) = policies.metrics {
        global.push_str(&format!("\nadmin: {}\n", quoted(&address.to_string())));
        notes.push("the address of the metrics is Weir's admin listener: it also shows the configuration and reloads it, and must not be public".to_owned());
    }
    let upstream = policies.retries.map_or(String::new(), |retries| {
        let statuses = RETRIED.map(|status| status.to_string()).join(", ");
        format!("    retry: {{extra_attempts: {retries}, on: [connect, reset, {statuses}]}}\n")
    });
    if policies.retries.is_some_and(|retries| retries > 0) {
        notes.push("a body of more than 16 KiB is not sent again; a connection that was kept open and ends before a response is one more attempt".to_owned());
        notes.push("retries are at most 20 % of the requests of the last ten seconds, with a few more where there are few requests (upstreams.*.retry.budget)".to_owned());
    }
    Additions { global, upstream, files, notes, ..Additions::default() }
}

/// The authenticator of an issuer's tokens.
fn accepted(tokens: &Tokens) -> (String, Vec<File>) {
    let mut algorithms: Vec<&str> = tokens.keys.iter().map(|key| key.algorithm.as_str()).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    let key = format!("jwks: {{file: jwks.json}}\n      algorithms: [{}]", algorithms.join(", "));
    let text = authenticator(&tokens.issuer, &tokens.audience, &key);
    (text, vec![file("jwks.json", std::iter::once(tokens.key_set.clone()))])
}

/// Keys of a route.
pub(in crate::gateway) fn route(model: &Model, target: &Target) -> String {
    let mut text = String::new();
    text.push_str(match target.guard {
        Guard::Open => "",
        Guard::Key => "\n    auth: keys",
        Guard::Token => "\n    auth: tokens",
        Guard::Either => "\n    auth: [keys, tokens]",
        Guard::Both => "\n    auth: [[keys_beside, tokens]]",
    });
    if model.settings.policies.limit.is_some() {
        let name = if target.guard == Guard::Open { "addresses" } else { "consumers" };
        text.push_str(&format!("\n    limits: [{name}]"));
    }
    if let Some(cors) = model.cors() {
        let origins: Vec<String> = cors.origins.iter().map(|origin| quoted(origin)).collect();
        let origins = if cors.any { "\"*\"".to_owned() } else { origins.join(", ") };
        let methods: Vec<&str> = target.methods.iter().map(|method| method.as_str()).collect();
        text.push_str(&format!(
            "\n    cors: {{origins: [{origins}], methods: [{}], headers: [{}], max_age: {MAX_AGE}s}}",
            methods.join(", "),
            cors.headers
        ));
    }
    text
}
