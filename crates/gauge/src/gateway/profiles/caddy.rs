//! Caddy: `route` is before the paths are compared, `global` before a request is passed on, `upstream` in `reverse_proxy`.

use std::fmt::Write as _;

use super::{Additions, Answer, listens, nothing_more};
use crate::profile::secure::HttpVersion;
use crate::profile::{
    CONSUMER, Headers, KeyAuth, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, SET,
};

pub(in crate::gateway) fn additions(profile: &Profile) -> Answer {
    match profile {
        // It passes event streams on event by event, and upgrades, of itself.
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies | Profile::Streams | Profile::WebSocket(_) => {
            nothing_more()
        }
        Profile::KeyAuth(auth) => Ok(key_auth(auth)),
        Profile::Headers(headers) => Ok(edits(headers)),
        Profile::RateLimit(_) => Err("rate limits are a module that Caddy's own builds do not have"),
        Profile::Cache => Err("caches are a module that Caddy's own builds do not have"),
        Profile::Http2(_) => listens(" h2c"),
        Profile::Grpc(grpc) => listens(if grpc.tls { " h2" } else { " h2c" }),
        Profile::Tls(tls) => listens(if tls.http == HttpVersion::Http2 { " h2" } else { "" }),
        Profile::Jwt(_) => Err("tokens are checked by a module that Caddy's own builds do not have"),
    }
}

fn key_auth(auth: &KeyAuth) -> Additions {
    let header = &auth.header;
    let mut route = format!("\t\tmap {{header.{header}}} {{consumer}} {{\n");
    for (key, consumer) in auth.credentials() {
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
    Additions { route, ..Additions::default() }
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
