//! Envoy: `global` are filters before the router's, `route` is of all routes together (the virtual host), `server` are further listeners, `end` is behind
//! the clusters.

use std::fmt::Write as _;

use super::super::model::{Model, PathEntry};
use super::super::policies::{By, CORS_FIELDS, IDEMPOTENT, Keys, Limit, MAX_AGE, RETRIED};
use super::super::security::Guard;
use super::super::text::{quoted, regex};
use super::{Adapted, Additions, listens, nothing_more, spellings};
use crate::profile::secure::HttpVersion;
use crate::profile::token::{AUDIENCE, ISSUER};
use crate::profile::{CONSUMER, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, SET};

pub(in crate::gateway) fn additions(profile: &Profile) -> Adapted {
    match profile {
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies => nothing_more(),
        Profile::KeyAuth(auth) => Ok(key_auth(&auth.into())),
        Profile::Headers(_) => Ok(headers()),
        Profile::RateLimit(limit) => Ok(rate_limit(&limit.into())),
        Profile::Cache => Err("its cache filter is marked as work in progress by its documents"),
        Profile::Jwt(jwt) => {
            let rules = "rules: [{match: {prefix: /}, requires: {provider_name: tokens}}]";
            Ok(tokens(ISSUER, AUDIENCE, &jwt.key_set(), rules))
        }
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

fn key_auth(keys: &Keys) -> Additions {
    let mut lines = format!(
        "key_sources: [{{header: {}}}]\nforwarding: {{header: {CONSUMER}, hide_credentials: true}}\ncredentials:\n",
        quoted(&keys.header)
    );
    for (key, consumer) in &keys.credentials {
        let _ = writeln!(lines, "  - {{key: {}, client: {}}}", quoted(key), quoted(consumer));
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

fn rate_limit(limit: &Limit<'_>) -> Additions {
    let all = "{default_value: {numerator: 100, denominator: HUNDRED}}";
    let (rate, milliseconds) = (limit.rate.requests, limit.rate.seconds * 1000);
    // Tokens come back as often as the rate can be divided, every 50 ms at most.
    let fills =
        (1..=20 * limit.rate.seconds).rev().find(|n| rate.is_multiple_of(*n) && milliseconds.is_multiple_of(*n));
    let fills = fills.unwrap_or(1);
    let bucket = format!(
        "{{max_tokens: {}, tokens_per_fill: {}, fill_interval: {:.3}s}}",
        limit.burst,
        rate / fills,
        f64::from(milliseconds / fills) / 1000.0
    );
    let (keys, actions): (&[&str], String) = match limit.by {
        By::Header(header) => (&["client"], format!("rate_limits: [{{actions: [{}]}}]\n", by_header(header, "client"))),
        // Each route says what its clients are counted by.
        By::Address => (&["remote_address"], String::new()),
        // Each kind of name has its own buckets.
        By::Consumer => (&["key", "token", "remote_address"], String::new()),
    };
    let descriptors: Vec<String> =
        keys.iter().map(|key| format!("{{entries: [{{key: {key}}}], token_bucket: {bucket}}}")).collect();
    let lines = format!(
        "stat_prefix: clients
filter_enabled: {all}
filter_enforced: {all}
# For requests without the field.
token_bucket: {bucket}
always_consume_default_token_bucket: false
max_dynamic_descriptors: 100000
descriptors: [{}]
{actions}",
        descriptors.join(", ")
    );
    filter("local_ratelimit", "local_ratelimit", "LocalRateLimit", &lines)
}

/// Counts by the value of a field.
fn by_header(header: &str, descriptor: &str) -> String {
    format!("{{request_headers: {{header_name: {}, descriptor_key: {descriptor}}}}}", quoted(header))
}

fn tokens(issuer: &str, audience: &str, key_set: &str, rules: &str) -> Additions {
    let lines = format!(
        "providers:
  tokens:
    issuer: {}
    audiences: [{}]
    require_expiration: true
    # 0 would be a minute.
    clock_skew_seconds: 1
    from_headers: [{{name: Authorization, value_prefix: \"Bearer \"}}]
    subjects: {{safe_regex: {{regex: \".+\"}}}}
    claim_to_headers: [{{header_name: {CONSUMER}, claim_name: sub}}]
    local_jwks: {{inline_string: {}}}
{rules}
",
        quoted(issuer),
        quoted(audience),
        quoted(key_set)
    );
    filter("jwt_authn", "jwt_authn", "JwtAuthentication", &lines)
}

const AT: &str = "                          ";

/// What `gauge convert` is told beyond the description. Filters are disabled but on the routes that enable them: a path that is not
/// described gets 404.
pub(in crate::gateway) fn policies(model: &Model) -> Additions {
    let policies = &model.settings.policies;
    let mut all = Additions::default();
    if model.cors().is_some() {
        all.global.push_str(&filter("cors", "cors", "Cors", "").global);
        all.route = format!(
            "                      response_headers_to_remove: [{}]
                      response_headers_to_add: [{{header: {{key: Vary, value: Origin}}, append_action: APPEND_IF_EXISTS_OR_ADD}}]
",
            CORS_FIELDS.join(", ")
        );
    }
    let keys = model.keys().map(|keys| key_auth(&keys));
    let rules = "requirement_map: {tokens: {provider_name: tokens}}";
    let tokens = policies.tokens.as_ref().map(|of| tokens(&of.issuer, &of.audience, &of.key_set, rules));
    let limit = model.limit(model.checks()).map(|limit| rate_limit(&limit));
    for more in keys.into_iter().chain(tokens).chain(limit) {
        all.global.push_str(&more.global.replacen(
            "                    typed_config:",
            "                    disabled: true\n                    typed_config:",
            1,
        ));
    }
    if policies.tokens.is_some() {
        all.notes.push("a token for another audience gets 403 in place of 401".to_owned());
    }
    if let Some(address) = policies.metrics {
        all.server =
            METRICS.replace("HOST", &quoted(&address.ip().to_string())).replace("PORT", &address.port().to_string());
        all.end = ADMIN.to_owned();
    }
    if policies.retries.is_some_and(|retries| retries > 0) {
        all.notes.push("a body of more than 1 MiB is not sent again".to_owned());
        all.notes.push("POST and PATCH are not sent again, even if the connection failed before".to_owned());
    }
    all
}

/// A listener that passes on nothing but the metrics: the admin interface itself could stop Envoy.
const METRICS: &str = "    - name: metrics
      address: {socket_address: {address: HOST, port_value: PORT}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: metrics
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: [\"*\"]
                      routes: [{match: {path: /metrics}, route: {cluster: admin, prefix_rewrite: /stats/prometheus}}]
";

const ADMIN: &str = "    - name: admin
      load_assignment:
        cluster_name: admin
        endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: admin.sock}}}}]}]
admin: {address: {pipe: {path: admin.sock, mode: 384}}}
";

/// A way in which requests of a route are checked.
pub(in crate::gateway) struct Variant {
    /// Further conditions of the match.
    pub condition: String,
    /// Further keys of the action.
    pub action: String,
    /// Lines below the action.
    pub lines: String,
}

/// The ways in which requests of a path with a guard are checked, in the order in which they are tried.
pub(in crate::gateway) fn variants(model: &Model, path: &PathEntry, guard: Guard) -> Vec<Variant> {
    let variant = |condition: String, key: bool, token: bool| {
        let mut filters = cors(model, path);
        filters.extend(key.then(|| on("api_key_auth")));
        let named = "{\"@type\": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.PerRouteConfig, requirement_name: tokens}";
        filters.extend(token.then(|| format!("envoy.filters.http.jwt_authn: {named}")));
        let mut action = retries(model);
        if model.settings.policies.limit.is_some() {
            filters.push(on("local_ratelimit"));
            let by = match (key, token) {
                (_, true) => by_header(CONSUMER, "token"),
                (true, false) => by_header(CONSUMER, "key"),
                (false, false) => "{remote_address: {}}".to_owned(),
            };
            let _ = write!(action, ", rate_limits: [{{actions: [{by}]}}]");
        }
        let own = match model.checks() {
            true => {
                let names = spellings(CONSUMER);
                let names = if key || token { &names[1..] } else { &names };
                format!("{AT}request_headers_to_remove: [{}]\n", names.join(", "))
            }
            false => String::new(),
        };
        Variant { condition, action, lines: own + &per_filter(&filters) }
    };
    let with_key = format!(", {{name: {}, present_match: true}}", quoted(&model.key_header));
    match guard {
        Guard::Open => vec![variant(String::new(), false, false)],
        Guard::Key => vec![variant(String::new(), true, false)],
        Guard::Token => vec![variant(String::new(), false, true)],
        Guard::Either => vec![variant(with_key, true, false), variant(String::new(), false, true)],
        Guard::Both => vec![variant(String::new(), true, true)],
    }
}

/// A route for preflights of allowed origins to a path, to which the filter responds: it leaves alone what has no upstream.
pub(in crate::gateway) fn preflight(model: &Model, path: &PathEntry, matcher: &str) -> String {
    let Some(cors) = model.cors() else { return String::new() };
    let origins: Vec<String> = cors.origins.iter().map(|origin| regex(origin)).collect();
    let origins = if cors.any { ".+".to_owned() } else { origins.join("|") };
    format!(
        "                        - match: {{{matcher}, headers: [{{name: \":method\", string_match: {{exact: OPTIONS}}}}, {{name: origin, string_match: {{safe_regex: {{regex: {}}}}}}}, {{name: access-control-request-method, string_match: {{safe_regex: {{regex: \".+\"}}}}}}]}}
                          route: {{cluster: {}}}\n{}",
        quoted(&origins),
        model.upstreams[path.targets[0].upstream].name,
        per_filter(&self::cors(model, path))
    )
}

fn per_filter(filters: &[String]) -> String {
    if filters.is_empty() {
        return String::new();
    }
    let lines: String = filters.iter().map(|filter| format!("{AT}  {filter}\n")).collect();
    format!("{AT}typed_per_filter_config:\n{lines}")
}

/// A filter as it is configured for all.
fn on(filter: &str) -> String {
    format!(
        "envoy.filters.http.{filter}: {{\"@type\": type.googleapis.com/envoy.config.route.v3.FilterConfig, config: {{}}}}"
    )
}

fn cors(model: &Model, path: &PathEntry) -> Vec<String> {
    let Some(cors) = model.cors() else { return Vec::new() };
    let origins: Vec<String> = match cors.any {
        true => vec!["{safe_regex: {regex: \".+\"}}".to_owned()],
        false => cors.origins.iter().map(|origin| format!("{{exact: {}}}", quoted(origin))).collect(),
    };
    let methods: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
    let headers =
        if cors.headers.is_empty() { String::new() } else { format!(", allow_headers: {}", quoted(&cors.headers)) };
    vec![format!(
        "envoy.filters.http.cors: {{\"@type\": type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy, allow_origin_string_match: [{}], allow_methods: \"{}\"{headers}, max_age: \"{MAX_AGE}\"}}",
        origins.join(", "),
        methods.join(", ")
    )]
}

fn retries(model: &Model) -> String {
    match model.settings.policies.retries {
        None | Some(0) => String::new(),
        Some(retries) => format!(
            ", retry_policy: {{retry_on: \"connect-failure,refused-stream,reset,retriable-status-codes\", retriable_status_codes: [{}], num_retries: {retries}, retriable_request_headers: [{{name: \":method\", string_match: {{safe_regex: {{regex: \"{}\"}}}}}}]}}",
            RETRIED.map(|status| status.to_string()).join(", "),
            IDEMPOTENT.join("|")
        ),
    }
}
