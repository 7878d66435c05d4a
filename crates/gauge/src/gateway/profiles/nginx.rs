//! nginx: `global` is in `http`, `route` in each location, `upstream` where requests are passed on.

use super::{Additions, Answer, file, listens, nothing_more};
use crate::profile::secure::HttpVersion;
use crate::profile::{
    CONSUMER, Headers, KeyAuth, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, RateLimit, SET,
};

pub(in crate::gateway) fn additions(profile: &Profile) -> Answer {
    match profile {
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies => nothing_more(),
        Profile::KeyAuth(auth) => Ok(key_auth(auth)),
        Profile::Headers(headers) => Ok(edits(headers)),
        Profile::RateLimit(limit) => Ok(rate_limit(limit)),
        Profile::Cache => Ok(cache()),
        // On a listener without TLS nginx before 1.25.1 speaks nothing else then.
        Profile::Http2(_) => listens(" http2"),
        Profile::Grpc(_) => listens(" http2"),
        Profile::Tls(tls) => listens(if tls.http == HttpVersion::Http2 { " http2" } else { "" }),
        Profile::Jwt(_) => Err("tokens are checked by NGINX Plus (auth_jwt), not by nginx"),
        // Buffers may hold events back; here they did not, with nginx 1.22, but its documents promise it only without them.
        // Connections stay open while nothing moves; `Connection` of other requests stays empty, so that connections to upstreams are kept.
        Profile::WebSocket(_) => Ok(websocket()),
        Profile::Streams => Ok(upstream("proxy_buffering off;\n")),
    }
}

fn websocket() -> Additions {
    let mut added = upstream(
        "proxy_set_header Upgrade $http_upgrade;
proxy_set_header Connection $upgrade_connection;
proxy_read_timeout 3600s;
proxy_send_timeout 3600s;
",
    );
    added.global =
        "    map $http_upgrade $upgrade_connection {\n        default upgrade;\n        \"\" \"\";\n    }\n".to_owned();
    added
}

fn upstream(text: &str) -> Additions {
    Additions { upstream: text.to_owned(), ..Additions::default() }
}

fn key_auth(auth: &KeyAuth) -> Additions {
    let (header, given) = (&auth.header, variable(&auth.header));
    let lines = |consumers: bool| {
        let line = move |(key, consumer)| format!("\"{key}\" \"{}\";\n", if consumers { &consumer } else { &key });
        auth.credentials().map(line)
    };
    Additions {
        // A map ignores case, so what was found is compared with what was sent.
        global: format!(
            "    map_hash_bucket_size 128;
    map_hash_max_size {};
    map ${given} $known_key {{ include keys.map; }}
    map $known_key $consumer {{ include consumers.map; }}
",
            (auth.keys * 4).next_power_of_two().max(2048),
        ),
        route: format!(
            "            if ($known_key = \"\") {{ return 401; }}\n            if (${given} != $known_key) {{ return 401; }}\n"
        ),
        upstream: format!("proxy_set_header {header} \"\";\nproxy_set_header {CONSUMER} $consumer;\n"),
        files: vec![file("keys.map", lines(false)), file("consumers.map", lines(true))],
        ..Additions::default()
    }
}

/// The variable of a request field.
fn variable(header: &str) -> String {
    format!("http_{}", header.to_ascii_lowercase().replace('-', "_"))
}

fn edits(headers: &Headers) -> Additions {
    let mut added = upstream(&format!(
        "proxy_set_header {REQUEST_SET} {SET};
proxy_set_header {REQUEST_REMOVED} \"\";
proxy_hide_header {RESPONSE_SET};
proxy_hide_header {RESPONSE_REMOVED};
add_header {RESPONSE_SET} {SET} always;
"
    ));
    added.route = format!("            rewrite ^{}(/.*)$ $1 break;\n", headers.prefix);
    added.notes = vec!["paths reach the upstream decoded and encoded anew".to_owned()];
    added
}

fn rate_limit(limit: &RateLimit) -> Additions {
    Additions {
        global: format!(
            "    limit_req_zone ${} zone=clients:16m rate={}r/s;\n    limit_req_status 429;\n    limit_req_log_level info;\n",
            variable(&limit.header),
            limit.rate
        ),
        // The first of a burst is not counted as one of it.
        route: match limit.burst {
            1 => "            limit_req zone=clients;\n".to_owned(),
            burst => format!("            limit_req zone=clients burst={} nodelay;\n", burst - 1),
        },
        notes: vec!["requests without the field are not limited".to_owned()],
        ..Additions::default()
    }
}

fn cache() -> Additions {
    Additions {
        global: "    proxy_cache_path cache keys_zone=responses:16m max_size=256m use_temp_path=off;\n".to_owned(),
        // It stores responses to requests with credentials as any other (RFC 9111, section 3.5), unless it is told.
        upstream: "proxy_cache responses;
proxy_cache_lock on;
proxy_cache_revalidate on;
proxy_cache_bypass $http_authorization;
proxy_no_cache $http_authorization;
add_header X-Cache $upstream_cache_status always;
"
        .to_owned(),
        ..Additions::default()
    }
}
