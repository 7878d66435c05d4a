//! The console of the admin listener, tested with raw requests; how its pages look and work in a browser is tested in `tests/browser`.

mod questions;

use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::{DEADLINE, Message, RawClient, Signal, Upstream, Weir, responder, wait};

const TOKEN: &str = "canary-console-token-0123456789";

fn weir() -> testkit::WeirBuilder {
    Weir::builder(env!("CARGO_BIN_EXE_weir"))
}

/// A client of the console, as a browser is one.
struct Viewer {
    address: SocketAddr,
    cookie: String,
    csrf: String,
}

impl Viewer {
    fn of(weir: &Weir) -> Viewer {
        let mut viewer = Viewer { address: weir.admin_addr(), cookie: String::new(), csrf: String::new() };
        viewer.read_session();
        viewer
    }

    fn read_session(&mut self) {
        self.csrf = self.json("session")["csrf"].as_str().unwrap_or_default().to_owned();
    }

    fn send(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Message {
        let host = self.address.to_string();
        let mut all = vec![("Host", &*host)];
        if !self.cookie.is_empty() {
            all.push(("Cookie", &self.cookie));
        }
        all.extend(fields);
        let mut client = RawClient::connect(self.address);
        client.request(method, target, &all, body);
        client.read_response_to(method)
    }

    fn get(&self, target: &str) -> Message {
        self.send("GET", target, &[], "")
    }

    fn json(&self, name: &str) -> Value {
        let response = self.get(&format!("/console/api/{name}"));
        assert_eq!(
            (response.status(), response.field("Content-Type")),
            (200, Some("application/json")),
            "{}",
            response.text()
        );
        serde_json::from_str(response.text()).unwrap()
    }

    fn act(&self, name: &str, body: Value) -> Message {
        self.send("POST", &format!("/console/api/{name}"), &[("X-Weir-CSRF", &self.csrf)], &body.to_string())
    }

    /// Logs in; the status.
    fn log_in(&mut self, token: &str) -> u16 {
        let response = self.act("login", json!({ "token": token }));
        if let Some(cookie) = response.field("Set-Cookie") {
            assert!(cookie.ends_with("; Path=/console/; Max-Age=43200; HttpOnly; SameSite=Strict"), "{cookie}");
            self.cookie = cookie.split(';').next().unwrap().to_owned();
            self.read_session();
        }
        response.status()
    }
}

/// A configuration with everything that the pages show; `more` stands behind the admin address.
fn everything(upstream: &str, more: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\n\
         admin: 127.0.0.1:0\n\
         {more}\n\
         redis: {{url: 'redis://user:canary-redis@127.0.0.1:1/0', secret: canary-redis-secret-0123}}\n\
         telemetry: {{traces: {{endpoint: 'http://127.0.0.1:1/v1/traces', headers: {{X-Auth: canary-collector}}}}}}\n\
         upstreams:\n\
         \x20 app: {{targets: [{upstream}], breaker: {{failures: 50%, of_last: 20}}}}\n\
         auth:\n\
         \x20 tokens: {{jwt: {{issuer: 'https://id.example.com/', audience: [a], algorithms: [HS256], secret: canary-jwt-secret-0123456789abcdef}}}}\n\
         limits:\n\
         \x20 per_client: {{key: client_ip, algorithm: fixed_window, quota: 2, window: 1h}}\n\
         caches:\n\
         \x20 pages: {{mode: ttl, ttl: 60s}}\n\
         providers:\n\
         \x20 openai: {{api: openai, upstream: app, keys: [sk-canary-provider-0123456789], headers: {{X-Secret: canary-provider-header}}}}\n\
         models:\n\
         \x20 assistant: {{candidates: [{{provider: openai, model: gpt-5}}]}}\n\
         routes:\n\
         \x20 - {{name: cached, match: {{path: /cached/*}}, upstream: app, cache: pages}}\n\
         \x20 - {{name: limited, match: {{path: /limited}}, upstream: app, limits: [per_client]}}\n\
         \x20 - {{name: secret, match: {{path: /secret, headers: {{X-Api-Key: canary-match}}}}, upstream: app,\n\
         \x20    headers: {{request: {{set: {{Authorization: Bearer canary-edit}}}}}}}}\n\
         \x20 - {{name: chat, match: {{path: /v1/chat/completions}}, ai: {{models: [assistant]}}}}\n\
         \x20 - {{name: plain, match: {{path: /*}}, upstream: app}}\n"
    )
}

const DATA: [&str; 12] =
    ["live", "overview", "errors", "routes", "upstreams", "drained", "auth", "limits", "caches", "ai", "tls", "config"];

fn start(more: &str) -> (Upstream, Weir, Viewer) {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = weir().config(everything(&upstream.url(), more)).start();
    let viewer = Viewer::of(&weir);
    (upstream, weir, viewer)
}

#[test]
fn pages_and_data_are_there_and_everything_else_is_a_problem() {
    let (_upstream, weir, viewer) = start("");
    weir.wait_for_line("the console's address", |line| line.contains("console on http").then_some(()));
    let to_console = viewer.send("GET", "/", &[("Accept", "text/html,*/*;q=0.8")], "");
    assert_eq!((to_console.status(), to_console.field("Location")), (303, Some("/console/")));
    assert!(viewer.get("/").text().contains("/console/"), "programs get the list");
    assert_eq!(viewer.get("/console").status(), 303);
    let page = viewer.get("/console/");
    assert_eq!((page.status(), page.field("Content-Type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(viewer.get("/console/main.js").field("Content-Type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(viewer.get("/console/console.css").field("Content-Type"), Some("text/css; charset=utf-8"));
    assert_eq!(viewer.send("HEAD", "/console/", &[], "").body.len(), 0);
    for name in DATA {
        assert!(viewer.json(name).is_object(), "{name}");
    }
    for (status, method, target) in [
        (404, "GET", "/console/nothing.js"),
        (404, "GET", "/console/..%2f..%2fetc%2fpasswd"),
        (404, "GET", "/console/api/nothing"),
        (404, "GET", "/console/api/"),
        (405, "POST", "/console/"),
        (405, "DELETE", "/console/api/overview"),
    ] {
        let response = viewer.send(method, target, &[], "");
        assert_eq!(response.status(), status, "{method} {target}: {}", response.text());
        assert_eq!(response.field("Content-Type"), Some("application/problem+json"), "{method} {target}");
    }
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                  base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
    for target in ["/console/", "/console/main.js", "/console/api/overview", "/console/api/nothing", "/console/nothing"]
    {
        let response = viewer.get(target);
        assert_eq!(response.field("Content-Security-Policy"), Some(policy), "{target}");
        assert_eq!(response.field("Referrer-Policy"), Some("no-referrer"), "{target}");
        assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{target}");
        assert_eq!(response.field("Cache-Control"), Some("no-store"), "{target}");
    }
}

#[test]
fn no_secret_is_on_any_page() {
    let (_upstream, weir, mut viewer) = start(&format!("console: {{token: {TOKEN}}}"));
    assert_eq!(viewer.log_in(TOKEN), 204);
    assert!(!weir.stdout().contains("canary") && !weir.stderr().contains("canary"), "the log");
    // Errors and refused reloads are shown too.
    weir.rewrite_config(&everything("http://127.0.0.1:1", "console: {token: short-canary}"));
    let refused = viewer.act("reload", json!({}));
    assert!(refused.status() == 422 && refused.text().contains("at least 16 bytes"), "{}", refused.text());
    assert!(!refused.text().contains("canary"), "{}", refused.text());
    for name in DATA {
        let text = viewer.get(&format!("/console/api/{name}")).text().to_owned();
        assert!(!text.contains("canary"), "{name}: {text}");
    }
    let bearer = format!("Bearer {TOKEN}");
    for target in ["/", "/routes", "/config", "/upstreams", "/limits", "/metrics", "/healthz"] {
        let response = viewer.send("GET", target, &[("Authorization", &bearer)], "");
        assert_eq!(response.status(), 200, "{target}");
        assert!(!response.text().contains("canary"), "{target}: {}", response.text());
    }
}

#[test]
fn what_happens_is_shown() {
    let (upstream, weir, viewer) = start("");
    // Rows tell what has changed since the first reading, which is later than the first request may be.
    wait::until(DEADLINE, "a row", || viewer.json("live")["rows"].as_array().is_some_and(|rows| !rows.is_empty()));
    let statuses =
        ["/cached/a", "/cached/a", "/limited", "/limited", "/limited", "/plain"].map(|t| weir.get(t).status());
    assert_eq!(statuses, [200, 200, 200, 200, 429, 200]);
    // A row is of the second that has just ended: the sum over rows is what was sent.
    let rows = || {
        let live = viewer.json("live");
        let column = live["columns"].as_array().unwrap().iter().position(|name| name == "requests").unwrap();
        let rows = live["rows"].as_array().unwrap();
        rows.iter().map(|row| row[column].as_f64().unwrap()).sum::<f64>()
    };
    wait::until(DEADLINE, "rows with the requests", || rows() > 0.5);
    let next = viewer.json("live")["next"].as_u64().unwrap();
    assert!(viewer.json(&format!("live?from={next}"))["rows"].as_array().unwrap().len() <= 1, "only newer rows");

    let routes = viewer.json("routes");
    let route = |name: &str| routes["routes"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap().clone();
    assert_eq!(route("cached")["traffic"]["statuses"], json!([0, 2, 0, 0, 0]));
    assert_eq!(route("limited")["traffic"]["statuses"], json!([0, 2, 0, 1, 0]));
    assert_eq!(route("secret")["headers"], json!({ "x-api-key": "***" }));
    assert_eq!(viewer.json("upstreams")["upstreams"][0]["targets"][0]["requests"], 4);
    assert_eq!(viewer.json("limits")["counts"]["per_client"]["refused"], 1);
    assert_eq!(viewer.json("caches")["counts"]["pages"]["hits"], 1);
    assert_eq!(viewer.json("overview")["errors"][0]["reason"], "rate_limited");
    let ai = viewer.json("ai");
    assert_eq!(
        (&ai["providers"][0]["keys"][0]["shown"], &ai["models"][0]["name"]),
        (&json!("...6789"), &json!("assistant"))
    );

    let key = viewer.json("limits?key=127.0.0.1&limit=per_client");
    assert_eq!(key["limits"][0]["state"]["remaining"], 0);
    let reset = viewer.act("limits/reset", json!({ "limit": "per_client", "key": ["127.0.0.1"] }));
    assert_eq!(reset.text(), r#"{"reset":["per_client"]}"#);
    assert_eq!(weir.get("/limited").status(), 200);
    assert_eq!(viewer.act("limits/reset", json!({ "limit": "unknown", "key": ["127.0.0.1"] })).status(), 422);
    assert_eq!(viewer.act("limits/reset", json!({ "key": "no list" })).status(), 400);

    let before = upstream.request_count();
    assert_eq!(viewer.act("purge", json!({ "all": true })).text(), r#"{"purged":1}"#);
    weir.get("/cached/a");
    assert_eq!(upstream.request_count(), before + 1, "purged");
    assert_eq!(viewer.act("purge", json!({ "everything": true })).status(), 400);
    assert_eq!(viewer.act("purge", json!({ "all": true, "cache": "unknown" })).status(), 422);
}

#[test]
fn a_reload_says_what_changed_or_what_is_wrong_and_both_are_kept() {
    let (upstream, weir, viewer) = start("");
    weir.rewrite_config("listen: 127.0.0.1:0\nroutes: [{match: {path: /}, upstream: missing}]\n");
    let refused = viewer.act("reload", json!({}));
    assert_eq!(refused.status(), 422);
    assert!(refused.text().contains("weir.yaml:2:"), "{}", refused.text());
    let problems = viewer.json("overview")["problems"].to_string();
    assert!(
        problems.contains("The last reload was refused") && problems.contains("there is no upstream"),
        "{problems}"
    );
    weir.rewrite_config(&everything(&upstream.url(), "server: {fields: 50}"));
    let response = viewer.act("reload", json!({}));
    assert!(
        response.text().contains("server changed") || response.text().contains("\"changes\":[]"),
        "{}",
        response.text()
    );
    let config = viewer.json("config");
    let reloads = config["reloads"].as_array().unwrap();
    assert_eq!(reloads[0]["error"], Value::Null, "the newest comes first");
    assert!(reloads.iter().any(|reload| reload["error"].as_str().is_some_and(|error| error.contains("missing"))));
    assert!(config["yaml"].as_str().unwrap().contains("fields: 50"));
    assert!(!viewer.json("overview")["problems"].to_string().contains("reload"));
}

#[test]
fn only_a_page_of_the_console_can_act() {
    let (_upstream, _weir, viewer) = start("");
    let reload = |fields: &[(&str, &str)]| viewer.send("POST", "/console/api/reload", fields, "{}").status();
    let csrf = ("X-Weir-CSRF", &*viewer.csrf);
    assert_eq!(viewer.csrf.len(), 64);
    for (fields, why) in [
        (&[][..], "no secret: a form, or a page of another origin without CORS"),
        (&[("X-Weir-CSRF", "")], "empty"),
        (&[("X-Weir-CSRF", &viewer.csrf[1..])], "a part"),
        (&[csrf, ("Origin", "http://evil.example")], "another origin"),
        (&[csrf, ("Origin", "null")], "a sandboxed page"),
        (&[csrf, ("Sec-Fetch-Site", "cross-site")], "another site"),
        (&[csrf, ("Sec-Fetch-Site", "same-site")], "another port of this machine"),
    ] {
        assert_eq!(reload(fields), 403, "{why}");
    }
    assert_eq!(viewer.send("OPTIONS", "/console/api/reload", &[], "").field("Access-Control-Allow-Origin"), None);
    assert_eq!(viewer.json("overview")["reloads"], json!({ "applied": 0, "refused": 0 }));
    let own = format!("http://{}", viewer.address);
    assert_eq!(reload(&[csrf, ("Origin", &own), ("Sec-Fetch-Site", "same-origin")]), 200);
    assert_eq!(viewer.get("/console/api/reload").status(), 405, "an action is no GET");
    assert_eq!(viewer.send("POST", "/console/api/purge", &[csrf], &"x".repeat(100_000)).status(), 413);
    for host in ["evil.example", "weir.example:9901"] {
        let mut client = RawClient::connect(viewer.address);
        client.request("GET", "/console/api/session", &[("Host", host)], "");
        assert_eq!(client.read_response().status(), 421, "DNS rebinding");
    }
}

#[test]
fn a_read_only_console_shows_and_refuses_every_action() {
    let (_upstream, weir, viewer) = start("console: {read_only: true}");
    assert_eq!(viewer.json("session")["read_only"], true);
    for (action, body) in
        [("reload", json!({})), ("purge", json!({ "all": true })), ("limits/reset", json!({ "key": ["127.0.0.1"] }))]
    {
        let response = viewer.act(action, body);
        assert_eq!(response.status(), 403, "{action}");
        assert!(response.text().contains("read-only"), "{}", response.text());
    }
    // What changes nothing is for everybody who may look.
    assert_eq!(viewer.act("routes/test", json!({ "path": "/plain" })).status(), 200);
    assert_eq!(viewer.act("auth/token", json!({ "token": "a.b.c" })).status(), 200);
    assert_eq!(viewer.act("caches/look-up", json!({ "url": "http://a/cached/a" })).status(), 200);
    assert_eq!(weir.admin_get("/routes").status(), 200);
}

#[test]
fn with_a_token_one_logs_in() {
    let (upstream, weir, mut viewer) = start(&format!("console: {{token: {TOKEN}}}"));
    assert_eq!(viewer.get("/console/").status(), 200, "the page that asks for the token");
    assert_eq!(viewer.json("session")["csrf"], Value::Null);
    for name in DATA {
        assert_eq!(viewer.get(&format!("/console/api/{name}")).status(), 401, "{name}");
    }
    assert_eq!(viewer.act("reload", json!({})).status(), 401);
    // Programs: probes and scrapers as ever, the rest with the token.
    for target in ["/", "/metrics", "/healthz", "/readyz", "/livez"] {
        assert_eq!(weir.admin_get(target).status(), 200, "{target}");
    }
    let wrong = format!("Bearer {TOKEN}0");
    let right = format!("bearer {TOKEN}");
    for (method, target) in [
        ("GET", "/config"),
        ("GET", "/routes"),
        ("GET", "/upstreams"),
        ("GET", "/limits"),
        ("GET", "/cachez"),
        ("POST", "/reload"),
        ("POST", "/cache/purge"),
    ] {
        let refused = viewer.send(method, target, &[], "");
        assert_eq!(
            (refused.status(), refused.field("WWW-Authenticate")),
            (401, Some("Bearer realm=\"weir admin\"")),
            "{target}"
        );
        assert_eq!(viewer.send(method, target, &[("Authorization", &wrong)], "").status(), 401, "{target}");
        assert_eq!(
            viewer.send(method, target, &[("Authorization", &right), ("Authorization", &wrong)], "").status(),
            401
        );
        let status = viewer.send(method, target, &[("Authorization", &right)], "").status();
        assert!([200, 400].contains(&status), "{target}: {status}");
    }

    // The console's own data likewise. No page can make a browser send the token, so actions need no other secret then.
    for (token, data, action) in [(&wrong, 401, 401), (&right, 200, 200)] {
        let fields = [("Authorization", token.as_str())];
        assert_eq!(viewer.send("GET", "/console/api/overview", &fields, "").status(), data);
        assert_eq!(viewer.send("POST", "/console/api/reload", &fields, "{}").status(), action);
    }
    let (_upstream, _read_only, other) = start(&format!("console: {{token: {TOKEN}, read_only: true}}"));
    let refused = other.send("POST", "/console/api/reload", &[("Authorization", &right)], "{}");
    assert_eq!(refused.status(), 403);
    assert!(refused.text().contains("read-only"), "{}", refused.text());

    assert_eq!(viewer.log_in(""), 401);
    assert_eq!(viewer.log_in(TOKEN), 204);
    assert!(viewer.json("overview").is_object());
    assert_eq!(viewer.act("reload", json!({})).status(), 200);
    let other = Viewer { address: viewer.address, cookie: viewer.cookie.clone(), csrf: "0".repeat(64) };
    assert_eq!(other.act("reload", json!({})).status(), 403, "the cookie alone is not enough");

    // Another token ends the session.
    weir.rewrite_config(&everything(&upstream.url(), "console: {token: another-token-0123456789}"));
    weir.signal(Signal::HUP);
    wait::until(DEADLINE, "the new token", || viewer.get("/console/api/overview").status() == 401);
    assert_eq!(viewer.log_in("another-token-0123456789"), 204);
    assert_eq!(viewer.act("logout", json!({})).status(), 204);
    assert_eq!(viewer.get("/console/api/overview").status(), 401);

    // Guessing ends after five wrong ones, one of which was above.
    for _ in 0..4 {
        assert_eq!(viewer.log_in("guess"), 401);
    }
    let response = viewer.act("login", json!({ "token": "another-token-0123456789" }));
    assert_eq!(response.status(), 429);
    assert!(response.field("Retry-After").is_some());
}

/// Whoever does not read holds a connection of the admin listener, and nothing else.
#[test]
fn many_viewers_and_some_that_do_not_read() {
    let (_upstream, weir, viewer) = start("");
    let host = viewer.address.to_string();
    let fields = [("Host", &*host)];
    let idle: Vec<RawClient> = (0..10)
        .map(|_| {
            let mut client = RawClient::connect(viewer.address);
            for _ in 0..200 {
                // Further requests of one connection wait until it reads.
                if client.try_send(format!("GET /console/api/config HTTP/1.1\r\nHost: {host}\r\n\r\n")).is_err() {
                    break;
                }
            }
            client
        })
        .collect();
    let mut viewers: Vec<RawClient> = (0..40).map(|_| RawClient::connect(viewer.address)).collect();
    for _ in 0..5 {
        for client in &mut viewers {
            client.request("GET", "/console/api/live", &fields, "");
        }
        for client in &mut viewers {
            assert_eq!(client.read_response().status(), 200);
        }
        assert_eq!(weir.get("/plain").status(), 200);
    }
    assert_eq!(weir.admin_get("/metrics").status(), 200, "a scraper has a connection too");
    drop(idle);
}

/// Worker threads are stopped by nothing that the console reads, and it waits for none of them.
#[test]
fn a_draining_process_is_still_shown() {
    let upstream = Upstream::start(responder::stall());
    let config = everything(&upstream.url(), "server: {drain: 30s, drain_delay: 5s}");
    let weir = weir().config(config).start();
    let viewer = Viewer::of(&weir);
    let mut waiting = weir.connect();
    waiting.request("GET", "/plain", &[], "");
    upstream.wait_for_requests(1);
    wait::until(DEADLINE, "a row with the request in flight", || {
        let live = viewer.json("live");
        let column = live["columns"].as_array().unwrap().iter().position(|name| name == "in_flight").unwrap();
        live["rows"].as_array().unwrap().last().is_some_and(|row| row[column] == 1.0)
    });
    weir.signal(Signal::TERM);
    wait::until(DEADLINE, "it is told to end", || viewer.json("overview")["ready"] == false);
    let problems = viewer.json("overview")["problems"].to_string();
    assert!(problems.contains("was told to end"), "{problems}");
}

#[test]
fn a_console_that_others_could_reach_needs_a_token() {
    let file = |console: &str| {
        format!(
            "listen: 127.0.0.1:0\nadmin: 0.0.0.0:0\n{console}\nroutes: [{{match: {{path: /}}, respond: {{body: a}}}}]\n"
        )
    };
    let refused = weir().config(file("console: {}")).run();
    assert_eq!(refused.code, Some(64));
    assert!(refused.stderr.contains("weir.yaml:3:") && refused.stderr.contains("console.token"), "{}", refused.stderr);
    let refused = weir().config(file("console: {token: short}")).run();
    assert!(refused.code == Some(64) && refused.stderr.contains("at least 16 bytes"), "{}", refused.stderr);
    // Who says nothing about the console has the admin listener as ever.
    let weir = weir().config(file("")).start();
    assert_eq!(weir.admin_get("/metrics").status(), 200);
}

/// Two targets, the first of which a test drains.
fn two() -> ([Upstream; 2], Weir, Viewer) {
    let upstreams = [Upstream::start(responder::ok("one")), Upstream::start(responder::ok("two"))];
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\nupstreams:\n  app: {{targets: [{}, {}], retry: none}}\n\
         routes:\n  - {{name: all, match: {{path: /*}}, upstream: app}}\n",
        upstreams[0].url(),
        upstreams[1].url()
    );
    let weir = weir().config(config).start();
    let viewer = Viewer::of(&weir);
    (upstreams, weir, viewer)
}

#[test]
fn a_target_is_drained_and_undrained_while_requests_come() {
    let (upstreams, weir, viewer) = two();
    let target = upstreams[0].socket_addr().to_string();
    let act = |action: &str| viewer.act("targets", json!({ "upstream": "app", "target": target, "action": action }));
    let drained = act("drain");
    assert_eq!(drained.status(), 200, "{}", drained.text());
    let drained: Value = serde_json::from_str(drained.text()).unwrap();
    assert_eq!(drained, json!({ "upstream": "app", "target": target, "action": "drain", "state": "drained" }));
    // Requests that workers had picked before may still arrive; from now on there are none.
    let served: Vec<String> = (0..40).map(|_| weir.get("/x").text().to_owned()).collect();
    assert!(served.iter().all(|body| body == "two"), "{served:?}");
    let noted = viewer.json("drained");
    assert_eq!((&noted["drained"][0]["target"], noted["drained"].as_array().unwrap().len()), (&json!(target), 1));
    assert!(viewer.json("overview")["problems"].to_string().contains("is drained by an operator"));
    let metrics = weir.admin_get("/metrics");
    let line = format!("upstream_target_drained{{upstream=\"app\",target=\"{target}\"}} 1");
    assert!(metrics.text().lines().any(|found| found == line), "{}", metrics.text());
    // A reload does not undo it.
    assert_eq!(viewer.act("reload", json!({})).status(), 200);
    assert_eq!(viewer.json("drained")["drained"].as_array().unwrap().len(), 1);
    // Nothing is left: refused, not sent to a target that somebody works on.
    let other = upstreams[1].socket_addr().to_string();
    assert_eq!(viewer.send("POST", &format!("/upstreams/app/targets/{other}/drain"), &[], "").status(), 200);
    assert_eq!(weir.get("/x").status(), 503);
    assert_eq!(viewer.send("POST", &format!("/upstreams/app/targets/{other}/undrain"), &[], "").status(), 200);
    assert_eq!(act("undrain").status(), 200);
    wait::until(DEADLINE, "both serve", || weir.get("/x").text() == "one");
    assert_eq!(viewer.json("drained")["drained"], json!([]));
}

#[test]
fn actions_on_targets_that_make_no_sense_change_nothing() {
    let (upstreams, weir, viewer) = two();
    let target = upstreams[0].socket_addr().to_string();
    for (status, path, says) in [
        (404, format!("/upstreams/nobody/targets/{target}/drain"), "No upstream is named `nobody`."),
        (404, "/upstreams/app/targets/127.0.0.1:1/drain".into(), "no target with the address"),
        (404, "/upstreams/app/targets/unix:%2Fx/drain".into(), "unix:/x"),
        (400, format!("/upstreams/app/targets/{target}/kill"), "There is no action `kill`"),
        (400, format!("/upstreams/app/targets/{target}/eject"), "a number from 1 to 86400"),
        (400, format!("/upstreams/app/targets/{target}/eject?seconds=0"), "a number from 1 to 86400"),
        (400, format!("/upstreams/app/targets/{target}/eject?seconds=1h"), "no query of an action"),
        (400, format!("/upstreams/app/targets/{target}/drain?seconds=5"), "has no `seconds`"),
        (409, format!("/upstreams/app/targets/{target}/reset-breaker"), "has no breaker"),
    ] {
        let refused = viewer.send("POST", &path, &[], "");
        assert_eq!(refused.status(), status, "{path}: {}", refused.text());
        assert!(refused.text().contains(says), "{path}: {}", refused.text());
    }
    assert_eq!(viewer.get(&format!("/upstreams/app/targets/{target}/drain")).status(), 405);
    assert_eq!(viewer.act("targets", json!({ "upstream": "app" })).status(), 400);
    let forged =
        viewer.send("POST", &format!("/upstreams/app/targets/{target}/drain"), &[("Origin", "http://evil")], "");
    assert_eq!(forged.status(), 403, "{}", forged.text());
    assert_eq!(viewer.json("drained")["drained"], json!([]));
    let eject = viewer.send("POST", &format!("/upstreams/app/targets/{target}/eject?seconds=600"), &[], "");
    assert!(eject.text().contains("\"state\":\"ejected\""), "{}", eject.text());
    assert_eq!(viewer.send("POST", &format!("/upstreams/app/targets/{target}/readmit"), &[], "").status(), 200);
    let log =
        weir.wait_for_line("the log", |line| line.contains("an operator acted on a target").then(|| line.to_owned()));
    assert!(log.contains(&target), "{log}");
}

#[test]
fn the_last_failures_are_shown_by_fault_and_without_secrets() {
    let dead = "http://127.0.0.1:1";
    let weir = weir()
        .config(format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstreams:\n  dead: {{targets: [{dead}], retry: none}}\n\
             routes:\n  - {{name: all, match: {{path: /dead}}, upstream: dead}}\n"
        ))
        .start();
    let viewer = Viewer::of(&weir);
    assert_eq!(viewer.json("errors"), json!({ "errors": [], "reasons": {} }));
    assert_eq!(weir.get("/dead?token=canary-query&x=1").status(), 502);
    // A flood of what clients do wrong does not push it out.
    for number in 0..300 {
        assert_eq!(weir.get(&format!("/nothing/{number}")).status(), 404);
    }
    let shown = viewer.json("errors");
    let errors = shown["errors"].as_array().unwrap();
    let of = |fault: &str| errors.iter().filter(|error| error["fault"] == fault).collect::<Vec<_>>();
    let [upstream] = *of("upstream") else { panic!("{errors:?}") };
    assert_eq!((&upstream["reason"], &upstream["route"]), (&json!("connect_failed"), &json!("all")));
    assert_eq!((&upstream["path"], &upstream["attempts"]), (&json!("/dead"), &json!(1)));
    let meaning = &shown["reasons"]["connect_failed"];
    assert_eq!(meaning["title"], "The upstream cannot be reached");
    assert!(
        meaning["advice"].as_str().is_some_and(|advice| advice.contains("Check that the service runs")),
        "{meaning}"
    );
    assert!(!of("client").is_empty() && of("client").len() <= 100, "{}", errors.len());
    assert!(!shown.to_string().contains("canary"), "{shown}");
}

/// A Unix target, a client with a sticky session there, and the process that takes over.
#[test]
fn a_drain_holds_for_sticky_clients_and_for_this_process_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.sock");
    let (one, two) =
        (Upstream::builder().unix(&path).start(responder::ok("one")), Upstream::start(responder::ok("two")));
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ntakeover: {}\nupstreams:\n  app: {{targets: ['{}', '{}'], balance: {{cookie: at}}}}\n\
         routes:\n  - {{match: {{path: /*}}, upstream: app}}\n",
        folder.path().join("takeover.sock").display(),
        one.url(),
        two.url()
    );
    let first = weir().config(&config).start();
    let cookie = wait::some(DEADLINE, "a session at the Unix target", || {
        let served = first.get("/");
        let cookie = served.field("Set-Cookie").map(|cookie| cookie.split(';').next().unwrap().to_owned());
        (served.text() == "one").then_some(cookie).flatten()
    });
    let stick = |weir: &Weir| {
        let mut client = weir.connect();
        client.request("GET", "/", &[("Host", "a.test"), ("Cookie", &cookie)], "");
        client.read_response().text().to_owned()
    };
    assert_eq!(stick(&first), "one");
    let target = format!("unix:{}", path.display().to_string().replace('/', "%2F"));
    let drained = Viewer::of(&first).send("POST", &format!("/upstreams/app/targets/{target}/drain"), &[], "");
    assert_eq!(drained.status(), 200, "{}", drained.text());
    assert!((0..10).all(|_| stick(&first) == "two"));
    let next = weir().config(&config).start();
    assert_eq!(first.wait_for_exit(DEADLINE).code(), Some(0), "{}", first.tail());
    assert_eq!(Viewer::of(&next).json("drained")["drained"], json!([]));
    assert_eq!(stick(&next), "one");
}
