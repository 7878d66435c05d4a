//! Caddy: `server` are global options, `route` is before the paths are compared, `global` before a request is passed on, `upstream` in `reverse_proxy`,
//! `end` are snippets and further sites.

use std::fmt::Write as _;

use super::super::model::{Model, PathEntry};
use super::super::policies::{CORS_FIELDS, GO_SENDS_AGAIN, IDEMPOTENT, Keys, MAX_AGE, RETRIED};
use super::super::security::Guard;
use super::{Adapted, Additions, listens, nothing_more};
use crate::profile::secure::HttpVersion;
use crate::profile::{CONSUMER, Headers, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, SET};

pub(in crate::gateway) fn additions(profile: &Profile) -> Adapted {
    match profile {
        // It passes event streams on event by event, and upgrades, of itself.
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies | Profile::Streams | Profile::WebSocket(_) => {
            nothing_more()
        }
        Profile::KeyAuth(auth) => Ok(Additions { route: key_auth(&auth.into()), ..Additions::default() }),
        Profile::Headers(headers) => Ok(edits(headers)),
        Profile::RateLimit(_) => Err("rate limits are a module that Caddy's own builds do not have"),
        Profile::Cache => Err("caches are a module that Caddy's own builds do not have"),
        Profile::Http2(_) => listens(" h2c"),
        Profile::Grpc(grpc) => listens(if grpc.tls { " h2" } else { " h2c" }),
        Profile::Tls(tls) => listens(if tls.http == HttpVersion::Http2 { " h2" } else { "" }),
        Profile::Jwt(_) => Err("tokens are checked by a module that Caddy's own builds do not have"),
    }
}

/// Directives in this order.
fn key_auth(keys: &Keys) -> String {
    let header = &keys.header;
    let mut route = format!("\t\tmap {{header.{header}}} {{consumer}} {{\n");
    for (key, consumer) in &keys.credentials {
        let _ = writeln!(route, "\t\t\t{key} {consumer}");
    }
    // The map is looked up where it is used, so the key goes last.
    let _ = write!(
        route,
        "\t\t\tdefault \"\"
\t\t}}
\t\t@anonymous vars {{consumer}} \"\"
\t\trespond @anonymous 401
\t\trequest_header {CONSUMER} {{consumer}}
\t\trequest_header -{header}
"
    );
    route
}

fn edits(headers: &Headers) -> Additions {
    Additions {
        global: format!("\turi strip_prefix {}\n", headers.prefix),
        upstream: format!(
            "\t\theader_up {REQUEST_SET} {SET}
\t\theader_up -{REQUEST_REMOVED}
\t\theader_down {RESPONSE_SET} {SET}
\t\theader_down -{RESPONSE_REMOVED}
"
        ),
        ..Additions::default()
    }
}

/// What `gauge convert` is told beyond the description.
pub(in crate::gateway) fn policies(model: &Model) -> Additions {
    let policies = &model.settings.policies;
    let mut all = Additions::default();
    if let Some(cors) = model.cors() {
        all.route.push_str(match cors.any {
            true => "\t\t@cors header Origin *\n\t\theader @cors Access-Control-Allow-Origin *\n",
            false => "\t\theader +Vary Origin\n\t\t@cors {\n",
        });
        if !cors.any {
            all.route.extend(cors.origins.iter().map(|origin| format!("\t\t\theader Origin {origin}\n")));
            all.route.push_str("\t\t}\n\t\theader @cors Access-Control-Allow-Origin {header.Origin}\n");
        }
        all.upstream.extend(CORS_FIELDS.map(|name| format!("\t\theader_down -{name}\n")));
    }
    if let Some(keys) = model.keys() {
        let _ = write!(all.end, "(authenticated) {{\n\troute {{\n{}\t}}\n}}\n", key_auth(&keys));
    }
    if model.checks() {
        let _ = writeln!(all.route, "\t\trequest_header -{CONSUMER}");
    }
    if policies.retries.is_some() {
        all.notes.push(GO_SENDS_AGAIN.to_owned());
    }
    if let Some(retries) = policies.retries.filter(|retries| *retries > 0) {
        let methods: Vec<String> = IDEMPOTENT.iter().map(|method| format!("method('{method}')")).collect();
        let methods = methods.join(" || ");
        let statuses = RETRIED.map(|status| format!("{{rp.status_code}} == {status}")).join(" || ");
        // A body can be read once only.
        all.route.push_str(
            "\t\t@chunked header Transfer-Encoding *
\t\tvars @chunked content yes
\t\t@content {
\t\t\theader Content-Length *
\t\t\tnot header Content-Length 0
\t\t}
\t\tvars @content content yes
",
        );
        let _ = write!(
            all.upstream,
            "\t\tlb_retries {retries}
\t\tlb_try_interval 50ms
\t\tlb_retry_match {{
\t\t\texpression `{{rp.is_transport_error}} == true && {{http.vars.content}} != \"yes\" && ({methods})`
\t\t}}
\t\tlb_retry_match {{
\t\t\texpression `({statuses}) && {{http.vars.content}} != \"yes\" && ({methods})`
\t\t}}
"
        );
        all.notes.push("a request with a body is not sent again once a part of it was sent; a response that takes longer than 60 s is a failure, after which a request without one is sent again".to_owned());
        all.notes.push("retries were tried with Caddy 2.11.7: older versions may not know the conditions".to_owned());
    }
    if let Some(address) = policies.metrics {
        all.server = "\tmetrics\n".to_owned();
        let (ip, port) = (address.ip(), address.port());
        let _ = write!(
            all.end,
            "http://:{port} {{\n\tbind {ip}\n\troute {{\n\t\tmetrics /metrics\n\t\trespond 404\n\t}}\n}}\n"
        );
    }
    all
}

/// A handler of preflights of a path with this matcher.
pub(in crate::gateway) fn preflight(model: &Model, path: &PathEntry, matcher: &str, i: usize) -> String {
    let Some(cors) = model.cors() else { return String::new() };
    let methods: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
    let headers = if cors.headers.is_empty() {
        String::new()
    } else {
        format!("\t\t\theader Access-Control-Allow-Headers \"{}\"\n", cors.headers)
    };
    format!(
        "\t\t@p{i} {{
\t\t\tmethod OPTIONS
\t\t\theader Origin *
\t\t\theader Access-Control-Request-Method *
\t\t\t{matcher}
\t\t}}
\t\thandle @p{i} {{
\t\t\theader Access-Control-Allow-Methods \"{}\"
{headers}\t\t\theader Access-Control-Max-Age {MAX_AGE}
\t\t\trespond 204
\t\t}}
",
        methods.join(", ")
    )
}

/// What a handler does before it passes a request on.
pub(in crate::gateway) fn check(model: &Model, guard: Guard) -> &'static str {
    let guarded = model.keys().is_some() && guard.within(true, false) == Guard::Key;
    if guarded { "\t\t\timport authenticated\n" } else { "" }
}
