//! Envoy: `global` are filters before the router's, `route` is of all routes together (the virtual host).

use std::fmt::Write as _;

use super::{Additions, Answer, listens, nothing_more};
use crate::profile::secure::HttpVersion;
use crate::profile::token::{AUDIENCE, ISSUER};
use crate::profile::{
    CONSUMER, Jwt, KeyAuth, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, RateLimit, SET,
};

pub(in crate::gateway) fn additions(profile: &Profile) -> Answer {
    match profile {
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies => nothing_more(),
        Profile::KeyAuth(auth) => Ok(key_auth(auth)),
        Profile::Headers(_) => Ok(headers()),
        Profile::RateLimit(limit) => Ok(rate_limit(limit)),
        Profile::Cache => Err("its cache filter is marked as work in progress by its documents"),
        Profile::Jwt(jwt) => Ok(tokens(jwt)),
        Profile::Http2(_) | Profile::Grpc(_) => listens("HTTP2"),
        // By ALPN.
        Profile::Tls(tls) => listens(if tls.http == HttpVersion::Http2 { "AUTO" } else { "" }),
        Profile::WebSocket(_) => nothing_more(),
        Profile::Streams => {
            let notes = vec!["a stream ends after 60 s, as every response does (the timeout of its routes)".to_owned()];
            Ok(Additions { notes, ..Additions::default() })
        }
    }
}

/// A filter with lines of its configuration.
fn filter(name: &str, package: &str, kind: &str, lines: &str) -> Additions {
    let mut global = format!(
        "                  - name: envoy.filters.http.{name}
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.{package}.v3.{kind}
"
    );
    for line in lines.lines() {
        let _ = writeln!(global, "                      {line}");
    }
    Additions { global, ..Additions::default() }
}

fn key_auth(auth: &KeyAuth) -> Additions {
    let mut lines = format!(
        "key_sources: [{{header: {}}}]\nforwarding: {{header: {CONSUMER}, hide_credentials: true}}\ncredentials:\n",
        auth.header
    );
    for (key, consumer) in auth.credentials() {
        let _ = writeln!(lines, "  - {{key: {key}, client: {consumer}}}");
    }
    filter("api_key_auth", "api_key_auth", "ApiKeyAuth", &lines)
}

fn headers() -> Additions {
    let at = " ".repeat(22);
    let set =
        |name: &str| format!("[{{header: {{key: {name}, value: {SET}}}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}}]");
    let route = format!(
        "{at}request_headers_to_add: {}
{at}request_headers_to_remove: [{REQUEST_REMOVED}]
{at}response_headers_to_add: {}
{at}response_headers_to_remove: [{RESPONSE_REMOVED}]
",
        set(REQUEST_SET),
        set(RESPONSE_SET)
    );
    Additions { route, ..Additions::default() }
}

fn rate_limit(limit: &RateLimit) -> Additions {
    let all = "{default_value: {numerator: 100, denominator: HUNDRED}}";
    // Tokens come back as often as the rate can be divided, every 50 ms at most.
    let fills = (1..=20).rev().find(|fills| limit.rate.is_multiple_of(*fills) && 1000 % fills == 0).unwrap_or(1);
    let bucket = format!(
        "{{max_tokens: {}, tokens_per_fill: {}, fill_interval: {:.3}s}}",
        limit.burst,
        limit.rate / fills,
        1.0 / f64::from(fills)
    );
    let lines = format!(
        "stat_prefix: clients
filter_enabled: {all}
filter_enforced: {all}
# For requests without the field.
token_bucket: {bucket}
always_consume_default_token_bucket: false
max_dynamic_descriptors: 100000
descriptors: [{{entries: [{{key: client}}], token_bucket: {bucket}}}]
rate_limits: [{{actions: [{{request_headers: {{header_name: {}, descriptor_key: client}}}}]}}]
",
        limit.header
    );
    filter("local_ratelimit", "local_ratelimit", "LocalRateLimit", &lines)
}

fn tokens(jwt: &Jwt) -> Additions {
    let lines = format!(
        "providers:
  tokens:
    issuer: {ISSUER}
    audiences: [{AUDIENCE}]
    require_expiration: true
    claim_to_headers: [{{header_name: {CONSUMER}, claim_name: sub}}]
    local_jwks: {{inline_string: '{}'}}
rules: [{{match: {{prefix: /}}, requires: {{provider_name: tokens}}}}]
",
        jwt.key_set()
    );
    filter("jwt_authn", "jwt_authn", "JwtAuthentication", &lines)
}
