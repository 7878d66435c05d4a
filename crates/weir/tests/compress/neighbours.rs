//! Compression beside authentication, cookies, limits, cross-origin rules, the access log, metrics and reloads.

use std::fs;

use testkit::{DEADLINE, RawClient, Upstream, Weir, wait};

use super::{coding, config, decode, gateway_with, get, text};

fn upstream() -> Upstream {
    Upstream::start(|conn, _| conn.respond(200, &[("Content-Type", "text/plain"), ("Set-Cookie", "a=b")], text(4096)))
}

const ACCEPT: (&str, &str) = ("Accept-Encoding", "gzip");

#[test]
fn what_may_hold_secrets_is_compressed_only_where_that_is_said() {
    let upstream = Upstream::start(|conn, request| {
        let cookie = if request.head.target() == "/c" { ("Set-Cookie", "a=b") } else { ("X-None", "1") };
        conn.respond(200, &[("Content-Type", "text/plain"), cookie], text(4096))
    });
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let password = bcrypt::hash("secret", 4).unwrap();
    fs::write(builder.dir().join("htpasswd"), format!("ada:{password}\n")).unwrap();
    let file = builder.dir().join("htpasswd");
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 1\nauth: {{users: {{basic: {{file: {}}}}}}}\ndefaults: {{compress: [gzip]}}\nupstreams: {{u: {{targets: [{}]}}}}\nroutes:\n  - {{match: {{path: /closed}}, upstream: u, auth: users}}\n  - {{match: {{path: /named}}, upstream: u, auth: users, compress: {{also: [auth]}}}}\n  - {{match: {{path: /off}}, upstream: u, compress: none}}\n  - {{match: {{path: /c}}, upstream: u}}\n  - {{match: {{path: /o}}, upstream: u}}\n  - {{match: {{path: /r}}, respond: {{body: hello}}}}\n",
        file.display(),
        upstream.url()
    );
    let weir = builder.config(yaml).start();
    let sender = ("Authorization", "Basic YWRhOnNlY3JldA==");
    for (path, expected) in
        [("/closed", None), ("/named", Some("gzip")), ("/off", None), ("/c", None), ("/o", Some("gzip")), ("/r", None)]
    {
        let response = weir.request("GET", path, &[ACCEPT, sender], "");
        assert_eq!((response.status(), coding(&response)), (200, expected), "{path}");
    }
}

#[test]
fn cookies_have_different_names() {
    let upstream = upstream();
    let weir = gateway_with(&upstream, "", "    compress: {also: [set_cookie]}\n");
    let response = get(&weir, &[ACCEPT]);
    assert_eq!((coding(&response), response.field("set-cookie")), (Some("gzip"), Some("a=b")));
    assert_eq!(decode(coding(&response), &response.body), text(4096));
}

#[test]
fn cross_origin_rules_limits_and_edits_hold_beside_it() {
    let upstream = upstream();
    let top = "limits: {few: {algorithm: fixed_window, quota: 1, window: 1h}}\n";
    let route = "    compress: {also: [set_cookie]}\n    limits: [few]\n    cors: {origins: [\"https://a.example\"]}\n    headers: {response: {set: {X-Mine: \"1\", Vary: X-Mine}, remove: [ETag]}}\n";
    let weir = gateway_with(&upstream, top, route);
    let fields = [ACCEPT, ("Origin", "https://a.example")];
    let response = get(&weir, &fields);
    assert_eq!(coding(&response), Some("gzip"));
    assert_eq!(response.field("access-control-allow-origin"), Some("https://a.example"));
    assert_eq!((response.field("x-mine"), response.field("etag")), (Some("1"), None));
    let vary = response.head.all("vary").join(", ");
    assert!(["X-Mine", "Accept-Encoding", "Origin"].iter().all(|name| vary.contains(name)), "{vary}");
    let refused = get(&weir, &fields);
    assert_eq!((refused.status(), coding(&refused)), (429, None));
}

#[test]
fn log_and_metrics_count_the_bytes_that_were_sent() {
    let upstream = upstream();
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let log = builder.dir().join("access.log");
    let top = format!("access_log: {{path: {}}}\n", log.display());
    let weir = builder.config(config(&upstream, &top, "    compress: {codings: [gzip], also: [set_cookie]}\n")).start();
    let response = get(&weir, &[ACCEPT]);
    // The client has the last byte before the exchange is recorded.
    let mut metrics = String::new();
    wait::until(DEADLINE, "the counts", || {
        metrics = weir.admin_get("/metrics").text().to_owned();
        metrics.contains("compressed_responses_total{coding=\"gzip\"}")
    });
    let count = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(&format!("{name}{{coding=\"gzip\"}}"))).expect(name);
        line.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    assert_eq!(count("compressed_responses_total"), 1);
    assert_eq!((count("compressed_bytes_in_total"), count("compressed_bytes_out_total")), (4096, response.body.len()));
    wait::until(DEADLINE, "the line of the log", || fs::read_to_string(&log).is_ok_and(|text| text.ends_with("}\n")));
    let line: serde_json::Value = serde_json::from_str(fs::read_to_string(&log).unwrap().trim()).unwrap();
    let logged = usize::try_from(line["bytes_out"].as_u64().unwrap()).unwrap();
    assert!((response.body.len()..response.body.len() + 1000).contains(&logged), "{line}");
}

#[test]
fn a_reload_switches_it() {
    let upstream = upstream();
    let weir = gateway_with(&upstream, "", "");
    let mut client = weir.connect();
    let mut codings = Vec::new();
    for route in ["", "    compress: {codings: [gzip], also: [set_cookie]}\n", "    compress: none\n"] {
        weir.rewrite_config(&config(&upstream, "", route));
        let mut admin = RawClient::connect(weir.admin_addr());
        admin.request("POST", "/reload", &[("Host", &weir.admin_addr().to_string())], "");
        assert_eq!(admin.read_response().status(), 200);
        client.send("GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        codings.push(coding(&client.read_response()).map(str::to_owned));
    }
    assert_eq!(codings, [None, Some("gzip".to_owned()), None]);
}
