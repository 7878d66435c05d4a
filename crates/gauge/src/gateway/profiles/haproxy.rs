//! HAProxy: `global` are sections, `server` is in the frontend once the route is known, `route` once route and method are known, `upstream` in each backend.

use std::fmt::Write as _;

use super::super::model::Model;
use super::super::policies::{By, Cors, IDEMPOTENT, Keys, Limit, MAX_AGE, RETRIED};
use super::super::security::Guard;
use super::{Adapted, Additions, file, listens, nothing_more};
use crate::profile::secure::HttpVersion;
use crate::profile::token::{AUDIENCE, Algorithm, ISSUER, PUBLIC_PEM, SECRET};
use crate::profile::{
    CONSUMER, Headers, Jwt, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, SET,
};

pub(in crate::gateway) fn additions(profile: &Profile) -> Adapted {
    match profile {
        // It sees from the first bytes of a connection that they are HTTP/2.
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies | Profile::Http2(_) => nothing_more(),
        Profile::Grpc(grpc) => listens(if grpc.tls { " alpn h2,http/1.1" } else { "" }),
        Profile::Tls(tls) => listens(if tls.http == HttpVersion::Http2 { " alpn h2,http/1.1" } else { "" }),
        Profile::KeyAuth(auth) => Ok(key_auth(&auth.into(), "")),
        Profile::Headers(headers) => Ok(edits(headers)),
        Profile::RateLimit(limit) => Ok(rate_limit(&limit.into())),
        Profile::Cache => Ok(cache()),
        Profile::Jwt(jwt) => Ok(tokens(jwt)),
        Profile::WebSocket(_) => Ok(websocket()),
        // Otherwise the kernel may gather small events.
        Profile::Streams => Ok(route("    option http-no-delay\n".to_owned())),
    }
}

/// Without a timeout of their own those of requests are in force in tunnels. A client that disappears in the middle of closing is not waited for as long.
fn websocket() -> Additions {
    let upstream = "    timeout tunnel 1h\n".to_owned();
    Additions { upstream, ..route("    timeout client-fin 30s\n".to_owned()) }
}

fn route(route: String) -> Additions {
    Additions { route, ..Additions::default() }
}

/// A refusal, with the scheme of the credentials that are missing.
fn unauthorized(scheme: &str) -> String {
    format!(
        "http-request return status 401 hdr WWW-Authenticate {scheme} content-type text/plain string \"unauthorized\""
    )
}

/// For requests that meet a condition such as `{ var(txn.guard) -m str key } `; empty for all.
fn key_auth(keys: &Keys, when: &str) -> Additions {
    let (header, only, refuse) = (&keys.header, only(when), unauthorized("ApiKey"));
    let mut added = route(format!(
        "    http-request set-var(txn.consumer) req.fhdr({header}),map_str(keys.map){only}
    {refuse} if {when}!{{ var(txn.consumer) -m found }}
    http-request del-header {header}{only}
    http-request set-header {CONSUMER} %[var(txn.consumer)]{only}
"
    ));
    added.files = vec![file("keys.map", keys.credentials.iter().map(|(key, consumer)| format!("{key} {consumer}\n")))];
    added
}

/// A condition as the end of a rule.
fn only(when: &str) -> String {
    if when.is_empty() { String::new() } else { format!(" if {}", when.trim_end()) }
}

fn edits(headers: &Headers) -> Additions {
    let upstream = format!(
        "    http-request replace-path {}(/.*) \\1
    http-request set-header {REQUEST_SET} {SET}
    http-request del-header {REQUEST_REMOVED}
    http-response set-header {RESPONSE_SET} {SET}
    http-response del-header {RESPONSE_REMOVED}
",
        headers.prefix
    );
    Additions { upstream, ..Additions::default() }
}

fn rate_limit(limit: &Limit<'_>) -> Additions {
    let (client, track) = match limit.by {
        By::Header(header) => ("", format!("req.hdr({header})")),
        By::Address => ("", "src".to_owned()),
        By::Consumer => (
            // Each kind of name, and addresses, have their own entries.
            "    http-request set-var(txn.client) src
    http-request set-var-fmt(txn.client) key:%[var(txn.consumer)] if { var(txn.guard) -m str key }
    http-request set-var-fmt(txn.client) token:%[var(txn.consumer)] if { var(txn.guard) -m str token both }
",
            "var(txn.client)".to_owned(),
        ),
    };
    // Requests that pass are counted, not all: else a client above its rate would get nothing at all.
    let seconds = limit.rate.seconds;
    let mut added = route(format!(
        "    stick-table type string len 256 size 1m expire {}s store gpc0,gpc0_rate({seconds}s)
{client}    http-request track-sc0 {track}
    http-request return status 429 hdr Retry-After {seconds} content-type text/plain string \"too many requests\" if {{ sc_gpc0_rate(0) ge {} }}
    http-request sc-inc-gpc0(0)
",
        seconds * 10,
        limit.rate.requests
    ));
    let time = if seconds == 1 { "second" } else { "minute" };
    added.notes = vec![format!("HAProxy counts the requests of the last {time}, and allows no burst above the rate")];
    added
}

fn cache() -> Additions {
    Additions {
        global: "
cache responses
    total-max-size 256
    max-object-size 1048576
    max-age 3600
    process-vary on
"
        .to_owned(),
        ..route(
            "    http-request cache-use responses
    http-response cache-store responses
    http-response set-header X-Cache HIT if !{ srv_id -m found }
    http-response set-header X-Cache MISS if { srv_id -m found }
"
            .to_owned(),
        )
    }
}

fn tokens(jwt: &Jwt) -> Additions {
    let (key, files) = match jwt.algorithm {
        Algorithm::HS256 => (SECRET, Vec::new()),
        Algorithm::RS256 => ("public.pem", vec![file("public.pem", std::iter::once(PUBLIC_PEM.to_owned()))]),
    };
    Additions { files, ..bearer(ISSUER, AUDIENCE, &[(None, jwt.algorithm.name(), key)], "") }
}

/// Keys with their ids, algorithms and files (or a secret), for requests that meet a condition.
fn bearer(issuer: &str, audience: &str, keys: &[(Option<&str>, &str, &str)], when: &str) -> Additions {
    let only = only(when);
    let mut text = format!(
        "    http-request set-var(txn.bearer) http_auth_bearer{only}
    http-request set-var(txn.alg) var(txn.bearer),jwt_header_query('$.alg'){only}
    http-request set-var(txn.kid) var(txn.bearer),jwt_header_query('$.kid'){only}
    http-request set-var(txn.iss) var(txn.bearer),jwt_payload_query('$.iss'){only}
    http-request set-var(txn.aud) var(txn.bearer),jwt_payload_query('$.aud'){only}
    http-request set-var(txn.exp) var(txn.bearer),jwt_payload_query('$.exp','int'){only}
    http-request set-var(txn.sub) var(txn.bearer),jwt_payload_query('$.sub'){only}
    http-request set-var(txn.claims) var(txn.bearer),field(2,.),ub64dec{only}
    http-request set-var(txn.now) date(){only}
"
    );
    for (id, algorithm, key) in keys {
        let id = id.map_or(String::new(), |id| format!(" {{ var(txn.kid) -m str -- {id} }}"));
        let _ = writeln!(
            text,
            "    http-request set-var(txn.signed) var(txn.bearer),jwt_verify(txn.alg,\"{key}\") if {when}!{{ var(txn.signed) -m int 1 }} {{ var(txn.alg) -m str {algorithm} }}{id}"
        );
    }
    for condition in [
        "var(txn.signed) -m int 1".to_owned(),
        format!("var(txn.iss) -m str -- {issuer}"),
        format!("var(txn.aud) -m str -- {audience}"),
        "var(txn.exp),sub(txn.now) -m int gt 0".to_owned(),
        // As an integer a text is its digits, and a negative number a large one.
        "var(txn.claims) -m reg '\"exp\"[[:space:]]*:[[:space:]]*[0-9]{1,11}([.][0-9]+)?[[:space:]]*[,}]'".to_owned(),
        "var(txn.sub) -m len gt 0".to_owned(),
    ] {
        let _ = writeln!(text, "    {} if {when}!{{ {condition} }}", unauthorized("Bearer"));
    }
    let _ = write!(
        text,
        "    http-request del-header Authorization{only}
    http-request set-var(txn.consumer) var(txn.sub){only}
    http-request set-header {CONSUMER} %[var(txn.consumer)]{only}
"
    );
    route(text)
}

/// What `gauge convert` is told beyond the description.
pub(in crate::gateway) fn policies(model: &Model) -> Additions {
    let policies = &model.settings.policies;
    let mut all = Additions::default();
    if let Some(cors) = model.cors() {
        all.server = preflight(&cors);
        if !cors.any {
            all.files.push(file("origins.txt", cors.origins.iter().map(|origin| format!("{origin}\n"))));
        }
    }
    if model.checks() {
        all.files.push(file("guards.map", guards(model)));
        let header = &model.key_header;
        let _ = write!(
            all.route,
            "    # What is checked, by method and route; a request with a key is taken at its key where a token would do as well.
    http-request del-header {} -m reg
    http-request set-var(txn.guard) method,concat(,txn.route),map_str(guards.map)
",
            any_spelling(CONSUMER)
        );
        if policies.keys.is_some() && policies.tokens.is_some() {
            let _ = write!(
                all.route,
                "    http-request set-var(txn.guard) str(key) if {{ var(txn.guard) -m str either }} {{ req.fhdr({header}) -m found }}
    http-request set-var(txn.guard) str(token) if {{ var(txn.guard) -m str either }}
"
            );
        }
    }
    let keys = model.keys().map(|keys| key_auth(&keys, "{ var(txn.guard) -m str key both } "));
    let tokens = policies.tokens.as_ref().map(|tokens| {
        let names: Vec<String> = (1..=tokens.keys.len()).map(|n| format!("token-{n}.pem")).collect();
        let keys = tokens.keys.iter().zip(&names);
        let files = keys.clone().map(|(key, name)| file(name, std::iter::once(key.pem.clone()))).collect();
        let keys: Vec<_> = keys.map(|(key, name)| (key.id.as_deref(), key.algorithm.as_str(), name.as_str())).collect();
        let notes = vec![
            "a token whose `aud` is a list is refused, `nbf` is not checked, and clocks may not differ".to_owned(),
        ];
        let when = "{ var(txn.guard) -m str token both } ";
        Additions { files, notes, ..bearer(&tokens.issuer, &tokens.audience, &keys, when) }
    });
    for more in keys.into_iter().chain(tokens).chain(model.limit(model.checks()).map(|limit| rate_limit(&limit))) {
        all.route.push_str(&more.route);
        all.files.extend(more.files);
        all.notes.extend(more.notes);
    }
    if let Some(retries) = policies.retries {
        let statuses = RETRIED.map(|status| status.to_string()).join(" ");
        all.upstream = format!("    retries {retries}\n");
        if retries > 0 {
            let _ = write!(
                all.upstream,
                "    retry-on conn-failure empty-response {statuses}\n    http-request disable-l7-retry unless {{ method {} }}\n",
                IDEMPOTENT.join(" ")
            );
            all.notes.push("a connection that fails is tried again after a second; a request that does not fit a buffer (16 KiB, of which 1 KiB stays free) is not sent again after a response".to_owned());
        }
    }
    if let Some(address) = policies.metrics {
        let _ = write!(
            all.global,
            "
frontend metrics
    bind {address}
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request return status 404
"
        );
        all.notes.push(
            "metrics need a HAProxy with the Prometheus exporter built in, as Debian's is (`haproxy -vv` says so)"
                .to_owned(),
        );
    }
    all
}

/// What is checked, by method and route.
fn guards(model: &Model) -> impl Iterator<Item = String> {
    model.paths.iter().enumerate().flat_map(|(i, path)| {
        let guarded = path.targets.iter().filter_map(|target| Some((target, word(target.guard)?)));
        let line = move |method: &apidoc::Method, word: &str| format!("{method}/{i} {word}\n");
        guarded.flat_map(move |(target, word)| target.methods.iter().map(move |method| line(method, word)))
    })
}

fn word(guard: Guard) -> Option<&'static str> {
    match guard {
        Guard::Open => None,
        Guard::Key => Some("key"),
        Guard::Token => Some("token"),
        Guard::Either => Some("either"),
        Guard::Both => Some("both"),
    }
}

/// Responses to preflights, and fields of all responses.
fn preflight(cors: &Cors<'_>) -> String {
    let origin = match cors.any {
        true => "    http-request set-var(txn.origin) str(*) if { req.hdr(origin) -m found }\n",
        false => {
            "    http-request set-var(txn.origin) req.fhdr(origin)
    http-request unset-var(txn.origin) unless { var(txn.origin) -m str -f origins.txt }
"
        }
    };
    let preflight = "METH_OPTIONS { req.hdr(origin) -m found } { req.hdr(access-control-request-method) -m found }";
    let headers = if cors.headers.is_empty() {
        String::new()
    } else {
        format!("hdr Access-Control-Allow-Headers \"{}\" ", cors.headers)
    };
    let vary = if cors.any { "" } else { "    http-after-response add-header Vary Origin\n" };
    format!(
        "{origin}    http-response del-header ^access-control-(allow|expose|max)- -m reg
    http-after-response set-header Access-Control-Allow-Origin %[var(txn.origin)] if {{ var(txn.origin) -m found }}
{vary}    http-request return status 204 hdr Access-Control-Allow-Methods \"%[var(txn.route),map_str(allow.map)]\" {headers}hdr Access-Control-Max-Age {MAX_AGE} if {preflight} {{ var(txn.origin) -m found }}
    http-request return status 204 if {preflight}
"
    )
}

/// A regular expression for a field, with `-` or `_` in its name: many servers take these for one. HAProxy has names in lower case.
fn any_spelling(header: &str) -> String {
    format!("^{}$", header.to_ascii_lowercase().replace('-', "[-_]"))
}
