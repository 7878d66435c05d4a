//! HAProxy: `global` are sections, `route` is in the frontend once route and method are known, `upstream` in each backend.

use super::{Additions, Answer, file, listens, nothing_more};
use crate::profile::secure::HttpVersion;
use crate::profile::token::{AUDIENCE, Algorithm, ISSUER, PUBLIC_PEM, SECRET};
use crate::profile::{
    CONSUMER, Headers, Jwt, KeyAuth, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, RateLimit,
    SET,
};

pub(in crate::gateway) fn additions(profile: &Profile) -> Answer {
    match profile {
        // It sees from the first bytes of a connection that they are HTTP/2.
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies | Profile::Http2(_) => nothing_more(),
        Profile::Grpc(grpc) => listens(if grpc.tls { " alpn h2,http/1.1" } else { "" }),
        Profile::Tls(tls) => listens(if tls.http == HttpVersion::Http2 { " alpn h2,http/1.1" } else { "" }),
        Profile::KeyAuth(auth) => Ok(key_auth(auth)),
        Profile::Headers(headers) => Ok(edits(headers)),
        Profile::RateLimit(limit) => Ok(rate_limit(limit)),
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

const UNAUTHORIZED: &str = "http-request return status 401 content-type text/plain string \"unauthorized\"";

fn key_auth(auth: &KeyAuth) -> Additions {
    let header = &auth.header;
    let mut added = route(format!(
        "    http-request set-var(txn.consumer) req.hdr({header}),map_str(keys.map)
    {UNAUTHORIZED} unless {{ var(txn.consumer) -m found }}
    http-request del-header {header}
    http-request set-header {CONSUMER} %[var(txn.consumer)]
"
    ));
    added.files = vec![file("keys.map", auth.credentials().map(|(key, consumer)| format!("{key} {consumer}\n")))];
    added
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

fn rate_limit(limit: &RateLimit) -> Additions {
    // Requests that pass are counted, not all: else a client above its rate would get nothing at all.
    let mut added = route(format!(
        "    stick-table type string len 64 size 1m expire 10s store gpc0,gpc0_rate(1s)
    http-request track-sc0 req.hdr({})
    http-request return status 429 content-type text/plain string \"too many requests\" if {{ sc_gpc0_rate(0) ge {} }}
    http-request sc-inc-gpc0(0)
",
        limit.header, limit.rate
    ));
    added.notes = vec!["HAProxy counts the requests of the last second, and allows no burst above the rate".to_owned()];
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
    let added = route(format!(
        "    http-request set-var(txn.bearer) http_auth_bearer
    http-request set-var(txn.alg) var(txn.bearer),jwt_header_query('$.alg')
    http-request set-var(txn.iss) var(txn.bearer),jwt_payload_query('$.iss')
    http-request set-var(txn.aud) var(txn.bearer),jwt_payload_query('$.aud')
    http-request set-var(txn.exp) var(txn.bearer),jwt_payload_query('$.exp','int')
    http-request set-var(txn.now) date()
    {UNAUTHORIZED} unless {{ var(txn.alg) -m str {} }} {{ var(txn.iss) -m str {ISSUER} }} {{ var(txn.aud) -m str {AUDIENCE} }}
    {UNAUTHORIZED} unless {{ var(txn.bearer),jwt_verify(txn.alg,\"{key}\") -m int 1 }} {{ var(txn.exp),sub(txn.now) -m int gt 0 }}
    http-request del-header Authorization
    http-request set-header {CONSUMER} %[var(txn.bearer),jwt_payload_query('$.sub')]
",
        jwt.algorithm.name()
    ));
    Additions { files, ..added }
}
