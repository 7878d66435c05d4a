//! nginx: `global` is in `http`, `server` in `server`, `route` in each location, `upstream` where requests are passed on.

use super::super::model::{Model, PathEntry};
use super::super::policies::{By, CORS_FIELDS, Cors, Keys, Limit, MAX_AGE, RETRIED};
use super::super::security::Guard;
use super::{Adapted, Additions, file, listens, nothing_more, spellings};
use crate::profile::secure::HttpVersion;
use crate::profile::{CONSUMER, Headers, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, SET};

pub(in crate::gateway) fn additions(profile: &Profile) -> Adapted {
    match profile {
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies => nothing_more(),
        Profile::KeyAuth(auth) => {
            let keys = auth.into();
            Ok(Additions { route: unauthorized(&keys), ..key_auth(&keys, "consumer") })
        }
        Profile::Headers(headers) => Ok(edits(headers)),
        Profile::RateLimit(limit) => {
            let notes = vec!["requests without the field are not limited".to_owned()];
            Ok(Additions { notes, ..rate_limit(&limit.into()) })
        }
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

/// `$known_key` and `$consumer` of a request; [`unauthorized`] compares the first. The upstream gets the variable that is named.
fn key_auth(keys: &Keys, consumer: &str) -> Additions {
    let (header, given) = (&keys.header, variable(&keys.header));
    let lines = |consumers: bool| {
        let line = move |(key, consumer): &(String, String)| {
            format!("\"{key}\" \"{}\";\n", if consumers { consumer } else { key })
        };
        keys.credentials.iter().map(line)
    };
    Additions {
        // A map ignores case, so what was found is compared with what was sent.
        global: format!(
            "    map_hash_bucket_size {};
    map_hash_max_size {};
    map ${given} $known_key {{ include keys.map; }}
    map $known_key $consumer {{ include consumers.map; }}
",
            // A bucket holds at least one key.
            (keys.credentials.iter().map(|(key, _)| key.len()).max().unwrap_or(0) * 2).next_power_of_two().max(128),
            (keys.credentials.len() * 4).next_power_of_two().max(2048),
        ),
        upstream: format!("proxy_set_header {header} \"\";\nproxy_set_header {CONSUMER} ${consumer};\n"),
        files: vec![file("keys.map", lines(false)), file("consumers.map", lines(true))],
        ..Additions::default()
    }
}

/// Refuses requests without a known key.
fn unauthorized(keys: &Keys) -> String {
    let given = variable(&keys.header);
    format!(
        "            if ($known_key = \"\") {{ return 401; }}\n            if (${given} != $known_key) {{ return 401; }}\n"
    )
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

fn rate_limit(limit: &Limit<'_>) -> Additions {
    let key = match limit.by {
        By::Header(header) => variable(header),
        By::Consumer => "limited".to_owned(),
        By::Address => "binary_remote_addr".to_owned(),
    };
    Additions {
        global: format!(
            "    limit_req_zone ${key} zone=clients:16m rate={}r/{};\n    limit_req_status 429;\n    limit_req_log_level info;\n",
            limit.rate.requests,
            if limit.rate.seconds == 1 { "s" } else { "m" }
        ),
        // The first of a burst is not counted as one of it.
        route: match limit.burst {
            1 => "            limit_req zone=clients;\n".to_owned(),
            burst => format!("            limit_req zone=clients burst={} nodelay;\n", burst - 1),
        },
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

/// What `gauge convert` is told beyond the description.
pub(in crate::gateway) fn policies(model: &Model) -> Additions {
    let mut all = model.keys().map_or(Additions::default(), |keys| key_auth(&keys, "whose"));
    if model.checks() {
        // Others than its own name for it pass only where fields with an underscore do.
        let skipped = usize::from(model.keys().is_some());
        let names = if model.described_underscores() { usize::MAX } else { 1 };
        let lines = spellings(CONSUMER).into_iter().take(names).skip(skipped);
        all.upstream.extend(lines.map(|name| format!("proxy_set_header {name} \"\";\n")));
    }
    if let Some(keys) = model.keys() {
        // A map ignores case, so the key is compared once more.
        let given = variable(&keys.header);
        all.server = format!(
            "        set $whose \"\";
        if (${given} = $known_key) {{ set $whose $consumer; }}
        set $unproven $request_method;
        if ($whose) {{ set $unproven \"\"; }}
"
        );
    }
    if let Some(limit) = model.limit(model.settings.policies.keys.is_some()) {
        if let By::Consumer = limit.by {
            all.global.push_str(
                "    map $whose $limited {\n        \"\" $binary_remote_addr;\n        default key:$whose;\n    }\n",
            );
        }
        let limit = rate_limit(&limit);
        all.global.push_str(&limit.global);
        all.route.push_str(&limit.route);
    }
    if let Some(cors) = model.cors() {
        let (global, server) = origins(&cors);
        all.global.push_str(&global);
        all.server.push_str(&server);
    }
    match model.settings.policies.retries {
        None => {}
        Some(0) => all.global.push_str("    proxy_next_upstream off;\n"),
        Some(retries) => {
            let statuses = RETRIED.map(|status| format!("http_{status}")).join(" ");
            all.global.push_str(&format!(
                "    # Each upstream has its server {0} times: nginx tries none twice.\n    proxy_next_upstream error timeout {statuses};\n    proxy_next_upstream_tries {0};\n",
                retries + 1
            ));
            all.notes.push("a body of about 64 KiB and more is not sent again once a part of it was sent; a response that takes longer than 60 s is a failure, after which the request is sent again".to_owned());
        }
    }
    all
}

/// `$cors_origin`, `$preflight`, and fields of every response.
fn origins(cors: &Cors<'_>) -> (String, String) {
    let mut global = String::from("    map $http_origin $cors_origin {\n        default \"\";\n");
    match cors.any {
        true => global.push_str("        \"~.\" \"*\";\n"),
        false => global.extend(cors.origins.iter().map(|origin| format!("        \"{origin}\" \"{origin}\";\n"))),
    }
    global.push_str(
        "    }
    map \"$request_method $http_origin $http_access_control_request_method\" $preflight {
        default \"\";
        \"~^OPTIONS [^ ]+ [^ ]+$\" 1;
    }
",
    );
    let mut server = String::from("        add_header Access-Control-Allow-Origin $cors_origin always;\n");
    server.extend(CORS_FIELDS.map(|name| format!("        proxy_hide_header {name};\n")));
    // The same response for every origin.
    if !cors.any {
        server.push_str("        add_header Vary Origin always;\n");
    }
    (global, server)
}

/// What a location does before it looks at the method.
pub(in crate::gateway) fn preflight(model: &Model, path: &PathEntry) -> String {
    let Some(cors) = model.cors() else { return String::new() };
    let methods: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
    let mut lines = vec!["Access-Control-Allow-Origin $cors_origin".to_owned()];
    lines.extend((!cors.any).then(|| "Vary Origin".to_owned()));
    lines.push(format!("Access-Control-Allow-Methods \"{}\"", methods.join(", ")));
    lines.extend((!cors.headers.is_empty()).then(|| format!("Access-Control-Allow-Headers \"{}\"", cors.headers)));
    lines.push(format!("Access-Control-Max-Age {MAX_AGE}"));
    let lines: String = lines.iter().map(|line| format!("                add_header {line};\n")).collect();
    format!("            if ($preflight) {{\n{lines}                return 204;\n            }}\n")
}

/// What a location does before it passes a request on.
pub(in crate::gateway) fn check(model: &Model, path: &PathEntry) -> String {
    let guarded = path.targets.iter().filter(|target| target.guard.within(true, false) == Guard::Key);
    let methods: Vec<&str> = guarded.flat_map(|target| &target.methods).map(|method| method.as_str()).collect();
    match model.keys() {
        Some(keys) if methods.len() == path.methods().count() => unauthorized(&keys),
        Some(_) if !methods.is_empty() => {
            format!("            if ($unproven ~ \"^(?:{})$\") {{ return 401; }}\n", methods.join("|"))
        }
        _ => String::new(),
    }
}
