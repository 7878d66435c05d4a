//! Traefik: `global` are middlewares, `route` are their names, in the order in which requests pass them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::model::{Model, PathEntry};
use super::super::policies::{By, CORS_FIELDS, GO_SENDS_AGAIN, Limit, MAX_AGE, RETRIED};
use super::super::text::quoted;
use super::{Adapted, Additions, nothing_more, spellings};
use crate::profile::{CONSUMER, Headers, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, SET};

pub(in crate::gateway) fn additions(profile: &Profile) -> Adapted {
    match profile {
        // It passes event streams on event by event, and upgrades, of itself, and takes HTTP/2 with prior knowledge and by ALPN.
        Profile::PassThrough
        | Profile::Life(_)
        | Profile::LargeBodies
        | Profile::Streams
        | Profile::Http2(_)
        | Profile::Tls(_)
        | Profile::Grpc(_)
        | Profile::WebSocket(_) => nothing_more(),
        Profile::KeyAuth(_) => Err("API keys are a part of Traefik Hub, not of Traefik Proxy"),
        Profile::Headers(headers) => Ok(edits(headers)),
        Profile::RateLimit(limit) => Ok(rate_limit(&limit.into())),
        Profile::Cache => Err("caches are a part of Traefik Hub, not of Traefik Proxy"),
        Profile::Jwt(_) => Err("tokens are checked by Traefik Hub, not by Traefik Proxy"),
    }
}

fn edits(headers: &Headers) -> Additions {
    let global = format!(
        "    strip: {{stripPrefix: {{prefixes: [{}]}}}}
    edits:
      headers:
        customRequestHeaders: {{{REQUEST_SET}: {SET}, {REQUEST_REMOVED}: \"\"}}
        customResponseHeaders: {{{RESPONSE_SET}: {SET}, {RESPONSE_REMOVED}: \"\"}}
",
        headers.prefix
    );
    Additions { global, route: "strip, edits".to_owned(), ..Additions::default() }
}

fn rate_limit(limit: &Limit<'_>) -> Additions {
    let by = match limit.by {
        By::Header(header) => format!(", sourceCriterion: {{requestHeaderName: {header}}}"),
        // Its default.
        By::Consumer | By::Address => String::new(),
    };
    let global = format!(
        "    limit: {{rateLimit: {{average: {}, period: {}s, burst: {}{by}}}}}\n",
        limit.rate.requests, limit.rate.seconds, limit.burst
    );
    Additions { global, route: "limit".to_owned(), ..Additions::default() }
}

/// What `gauge convert` is told beyond the description.
pub(in crate::gateway) fn policies(model: &Model) -> Additions {
    let mut all = model.limit(false).map_or(Additions::default(), |limit| rate_limit(&limit));
    if !all.route.is_empty() {
        // Each router would have a limit of its own: it is that of the router above them.
        all.route.clear();
        all.server = "    all: {rule: \"PathPrefix(`/`)\", priority: 1, middlewares: [limit]}\n".to_owned();
        all.notes.push(
            "the limit is that of a router above the others, which needs Traefik 3.6 or newer; requests that get 404 are counted too, and 429 has no CORS fields"
                .to_owned(),
        );
    }
    let clean = clean(model);
    all.global.push_str(&clean);
    if let Some(cors) = model.cors() {
        let removed: Vec<String> = CORS_FIELDS.iter().map(|name| format!("{name}: \"\"")).collect();
        let removed = removed.join(", ");
        let origins: Vec<String> = cors.origins.iter().map(|origin| quoted(origin)).collect();
        let origins = if cors.any { "\"*\"".to_owned() } else { origins.join(", ") };
        let headers: Vec<String> = cors.headers.split(", ").filter(|name| !name.is_empty()).map(quoted).collect();
        let named: BTreeMap<String, &PathEntry> = model.paths.iter().map(|path| (cors_name(path), path)).collect();
        for (name, path) in named {
            let methods: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
            let _ = write!(
                all.global,
                "    {name}:
      headers:
        customResponseHeaders: {{{removed}}}
        accessControlAllowOriginList: [{origins}]
        accessControlAllowMethods: [{}]
        accessControlAllowHeaders: [{}]
        accessControlMaxAge: {MAX_AGE}
        addVaryHeader: {}
",
                methods.join(", "),
                headers.join(", "),
                !cors.any
            );
        }
    }
    if model.settings.policies.retries.is_some() {
        all.notes.push(GO_SENDS_AGAIN.to_owned());
    }
    if let Some(retries) = model.settings.policies.retries.filter(|retries| *retries > 0) {
        let (first, last) = (RETRIED[0], RETRIED[RETRIED.len() - 1]);
        let _ = writeln!(
            all.global,
            "    retry: {{retry: {{attempts: {}, initialInterval: 50ms, status: [\"{first}-{last}\"]}}}}",
            retries + 1
        );
        all.route =
            [all.route.as_str(), "retry"].into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
        all.notes.push("a large body is not sent again (one of 3 MB was not when it was tried, one of 1 MB was); a response that takes longer than 60 s is a failure, after which the request is sent again".to_owned());
        all.notes
            .push("retries after a status were tried with Traefik 3.7.15: older versions may not know them".to_owned());
    }
    all
}

/// The middleware of the entry point: nothing but WebSocket is upgraded, since what follows an upgrade would pass without a look at it, and a client does
/// not say who it is.
fn clean(model: &Model) -> String {
    let mut names = vec!["HTTP2-Settings".to_owned()];
    names.extend((!matches!(model.settings.profile, Profile::WebSocket(_))).then(|| "Upgrade".to_owned()));
    if model.checks() {
        names.extend(spellings(CONSUMER));
    }
    let names: Vec<String> = names.iter().map(|name| format!("{name}: \"\"")).collect();
    format!("    clean: {{headers: {{customRequestHeaders: {{{}}}}}}}\n", names.join(", "))
}

/// A key of routers below the one that has the limit.
pub(in crate::gateway) fn below(model: &Model) -> &'static str {
    if model.limit(false).is_some() { "      parentRefs: [all]\n" } else { "" }
}

/// The name of the middleware for the methods of a path.
fn cors_name(path: &PathEntry) -> String {
    let methods: Vec<String> = path.methods().map(|method| method.as_str().to_ascii_lowercase()).collect();
    format!("cors-{}", methods.join("-"))
}

/// The middleware that a path has of its own; empty if there is none.
pub(in crate::gateway) fn cors(model: &Model, path: &PathEntry) -> String {
    if model.cors().is_some() { cors_name(path) } else { String::new() }
}

/// A router for preflights of a path, which the middleware responds to.
pub(in crate::gateway) fn preflight(
    model: &Model,
    path: &PathEntry,
    matcher: &str,
    i: usize,
    priority: usize,
) -> String {
    if model.cors().is_none() {
        return String::new();
    }
    let rule = format!(
        "{matcher} && Method(`OPTIONS`) && HeaderRegexp(`Origin`, `.`) && HeaderRegexp(`Access-Control-Request-Method`, `.`)"
    );
    format!(
        "    p{i}:\n      rule: {}\n      service: noop@internal\n      priority: {priority}\n      middlewares: [{}]\n",
        quoted(&rule),
        cors_name(path)
    )
}
