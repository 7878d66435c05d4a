//! Traefik: `global` are middlewares, `route` are their names, in the order in which requests pass them.

use super::{Additions, Answer, nothing_more};
use crate::profile::{Headers, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, RateLimit, SET};

pub(in crate::gateway) fn additions(profile: &Profile) -> Answer {
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
        Profile::RateLimit(limit) => Ok(rate_limit(limit)),
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

fn rate_limit(limit: &RateLimit) -> Additions {
    let global = format!(
        "    limit: {{rateLimit: {{average: {}, period: 1s, burst: {}, sourceCriterion: {{requestHeaderName: {}}}}}}}\n",
        limit.rate, limit.burst, limit.header
    );
    Additions { global, route: "limit".to_owned(), ..Additions::default() }
}
