//! What the operator sees of a running gateway: metrics, access log, admin pages.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use testkit::{DEADLINE, Gate, RawClient, Signal, Upstream, Weir, ports::Port, responder, wait};

/// One route to an upstream that responds, one to an upstream that is not there, one that the gateway serves itself.
fn yaml(upstream: &Upstream, dead: &Port, more: &str) -> String {
    format!(
        "listen: 127.0.0.1:0
admin: 127.0.0.1:0
workers: 1
{more}
upstreams:
  live: {{targets: [{live}]}}
  dead: {{targets: [\"http://{dead}\"], retry: {{extra_attempts: 0}}}}
routes:
  - {{name: proxied, match: {{path: /p/*}}, upstream: live, headers: {{request: {{set: {{X-Api-Token: hush}}}}}}}}
  - {{name: broken, match: {{path: /b}}, upstream: dead}}
  - {{name: local, match: {{path: /l}}, respond: {{status: 200, body: ok}}}}
",
        live = upstream.url(),
        dead = dead.address()
    )
}

fn start(upstream: &Upstream, dead: &Port, more: &str) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml(upstream, dead, more)).start()
}

/// Value of a sample of the classic format.
fn sample(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[test]
fn metrics_tell_what_was_served_by_whom_and_what_was_not() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let weir = start(&upstream, &dead, "");
    let mut client = weir.connect();
    for _ in 0..5 {
        assert_eq!(client.get("/p/a").status(), 200);
    }
    assert_eq!(client.get("/l").status(), 200);
    assert_eq!(client.get("/b").status(), 502);
    assert_eq!(client.get("/nothing").status(), 404);
    // A request is counted when its response was written, so the last one may not be yet.
    wait::until(DEADLINE, "all requests are counted", || {
        sample(weir.admin_get("/metrics").text(), r#"worker_requests_total{worker="0"}"#) == Some(8.0)
    });
    let metrics = weir.admin_get("/metrics").text().to_owned();
    let target = upstream.address();
    for (name, value) in [
        (r#"http_requests_total{route="proxied",upstream="live",status="200"}"#.to_owned(), 5.0),
        (r#"http_requests_total{route="local",upstream="-",status="200"}"#.into(), 1.0),
        (r#"http_requests_total{route="broken",upstream="dead",status="502"}"#.into(), 1.0),
        (r#"http_requests_total{route="-",upstream="-",status="404"}"#.into(), 1.0),
        (r#"request_duration_seconds_count{route="proxied"}"#.into(), 5.0),
        (r#"upstream_duration_seconds_count{route="proxied"}"#.into(), 5.0),
        ("gateway_overhead_seconds_count".into(), 5.0),
        (r#"upstream_connections_opened_total{upstream="live"}"#.into(), 1.0),
        (r#"upstream_connections_reused_total{upstream="live"}"#.into(), 4.0),
        (r#"upstream_errors_total{upstream="dead",reason="connect_failed"}"#.into(), 1.0),
        (r#"request_errors_total{fault="upstream",reason="connect_failed"}"#.into(), 1.0),
        (r#"request_errors_total{fault="client",reason="not_found"}"#.into(), 1.0),
        (r#"client_connections_accepted_total{worker="0"}"#.into(), 1.0),
        (r#"client_connections_open{worker="0"}"#.into(), 1.0),
        (r#"worker_requests_total{worker="0"}"#.into(), 8.0),
        (format!(r#"upstream_target_attempts_total{{upstream="live",target="{target}"}}"#), 5.0),
        (format!(r#"upstream_target_in_flight{{upstream="live",target="{target}"}}"#), 0.0),
        ("weir_panics_total".into(), 0.0),
    ] {
        assert_eq!(sample(&metrics, &name), Some(value), "{name}");
    }
    let response_bytes = sample(&metrics, r#"http_response_bytes_total{route="proxied"}"#).unwrap();
    assert!(response_bytes > 5.0 * 40.0, "heads count too: {response_bytes}");
}

#[test]
fn admin_pages_show_what_is_in_force() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let weir = start(&upstream, &dead, "");
    let parsed = |page| serde_json::from_str::<Value>(weir.admin_get(page).text()).unwrap();
    let health = parsed("/healthz");
    assert_eq!((&health["ok"], &health["service"]), (&Value::Bool(true), &Value::from("weir")));
    assert_eq!(health["targets"]["live"]["url"], upstream.url().as_str());
    assert_eq!(parsed("/upstreams")[1]["name"], "dead");
    let route = &parsed("/routes")[0];
    assert!(route["name"] == "proxied" && route["path"].is_string() && route["to"] == "live", "{route}");
    let shown = weir.admin_get("/config");
    assert!(shown.text().contains("name: proxied") && !shown.text().contains("hush"), "{}", shown.text());
    assert_eq!(weir.admin_get("/cachez").status(), 404);
}

/// The lines of a log once it has `count` of them.
fn lines(path: &Path, count: usize) -> Vec<Value> {
    wait::some(DEADLINE, &format!("{count} lines in {}", path.display()), || {
        let text = fs::read_to_string(path).ok()?;
        (text.lines().count() >= count && text.ends_with('\n')).then_some(text)
    })
    .lines()
    .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
    .collect()
}

#[test]
fn the_access_log_has_a_line_for_each_request_and_follows_rotation() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let (path, rotated) = (builder.dir().join("access.log"), builder.dir().join("access.log.1"));
    let more = format!("access_log: {{path: \"{}\"}}", path.display());
    let weir = builder.config(yaml(&upstream, &dead, &more)).start();
    let agent = [("Host", "api.example"), ("User-Agent", "tést \"\t")];
    assert_eq!(weir.request("GET", "/p/a?b=\"c\"", &agent, "").status(), 200);
    assert_eq!(weir.get("/b").status(), 502);
    assert_eq!(weir.get("/l").status(), 200);
    // Nothing else happens now: they are written when they are a second old.
    let logged = lines(&path, 3);
    let proxied = logged.iter().find(|line| line["route"] == "proxied").unwrap();
    for (key, value) in [
        ("client", Value::from("127.0.0.1")),
        ("method", "GET".into()),
        ("host", "api.example".into()),
        ("path", "/p/a".into()),
        ("query", "b=\"c\"".into()),
        ("status", 200.into()),
        ("upstream", "live".into()),
        ("target", upstream.address().to_string().into()),
        ("user_agent", "tést \"\t".trim_end().into()),
        ("attempts", 1.into()),
    ] {
        assert_eq!(proxied[key], value, "{key}");
    }
    assert!(proxied["duration_ms"].as_f64() >= proxied["upstream_ms"].as_f64(), "{proxied}");
    assert!(proxied.get("reason").is_none() && proxied["request_id"].as_str().is_some_and(|id| id.len() == 32));
    let broken = logged.iter().find(|line| line["route"] == "broken").unwrap();
    assert_eq!(
        (&broken["status"], &broken["reason"], &broken["fault"]),
        (&502.into(), &"connect_failed".into(), &"upstream".into())
    );
    let local = logged.iter().find(|line| line["route"] == "local").unwrap();
    assert!(local.get("upstream").is_none() && local.get("attempts").is_none());

    fs::rename(&path, &rotated).unwrap();
    weir.signal(Signal::HUP);
    wait::until(DEADLINE, "the log is opened again", || path.exists());
    assert_eq!(weir.get("/l").status(), 200);
    assert_eq!(lines(&path, 1).len(), 1);
    assert_eq!(lines(&rotated, 3).len(), 3);
}

/// A log in one of the formats that are not JSON, for the requests of the conditions.
#[test]
fn the_access_log_has_the_configured_format_and_requests() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    for (format, shown) in [
        ("combined", "\"GET /b?token=[redacted] HTTP/1.1\" 502 "),
        ("logfmt", " path=/b query=\"token=[redacted]\" status=502 route=broken upstream=dead "),
    ] {
        let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        let path = builder.dir().join("access.log");
        let more = format!(
            "access_log: {{path: '{}', format: {format}, only: {{status: [404, 500-599], slower: 1h}}}}",
            path.display()
        );
        let weir = builder.config(yaml(&upstream, &dead, &more)).start();
        assert_eq!(weir.get("/p/a").status(), 200);
        assert_eq!(weir.get("/b?token=canary").status(), 502);
        assert_eq!(weir.get("/l").status(), 200);
        assert_eq!(weir.get("/nothing").status(), 404);
        let text = wait::some(DEADLINE, "both lines", || {
            let text = fs::read_to_string(&path).ok()?;
            (text.lines().count() >= 2 && text.ends_with('\n')).then_some(text)
        });
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains(shown) && text.contains("/nothing"), "{text}");
    }
}

/// Fields of requests are added, and cannot end their line or their string; others are left out.
#[test]
fn the_access_log_has_the_configured_fields() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    for format in ["json", "logfmt"] {
        let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        let path = builder.dir().join("access.log");
        let fields =
            "{add: [header:Referer, header:X-Tenant, header:x-none], drop: [time, user_agent, request_id, reason]}";
        let more = format!("access_log: {{path: '{}', format: {format}, fields: {fields}}}", path.display());
        let weir = builder.config(yaml(&upstream, &dead, &more)).start();
        let tenant = format!("a\"b\tc{}", "x".repeat(300));
        let sent = [
            ("Host", "a"),
            ("User-Agent", "curl"),
            ("x-TENANT", &tenant),
            ("Referer", "http://u:canary@b/?a=1&token=canary"),
        ];
        assert_eq!(weir.request("GET", "/p/a", &sent, "").status(), 200);
        assert_eq!(weir.get("/b").status(), 502);
        let text = wait::some(DEADLINE, "both lines", || {
            let text = fs::read_to_string(&path).ok()?;
            (text.lines().count() >= 2 && text.ends_with('\n')).then_some(text)
        });
        let shown = format!("a\\\"b\\tc{}…", "x".repeat(251));
        let (first, second) = text.trim_end().split_once('\n').unwrap();
        match format {
            "json" => {
                assert!(
                    first.starts_with("{\"client\":")
                        && first.ends_with(&format!(",\"header_x_tenant\":\"{shown}\"}}")),
                    "{first}"
                );
                let value: Value = serde_json::from_str(first).unwrap();
                assert_eq!(value["header_x_tenant"].as_str().unwrap().len(), 256 + "…".len());
            }
            _ => assert!(
                first.starts_with("client=127.0.0.1 ") && first.ends_with(&format!(" header_x_tenant=\"{shown}\"")),
                "{first}"
            ),
        }
        let referer = "http://[redacted]@b/?a=1&token=[redacted]";
        assert_eq!(first.matches(referer).count(), 2, "referer, header_referer: {first}");
        for gone in ["canary", "user_agent", "request_id", "reason", "header_x_none", "curl"] {
            assert!(!text.contains(gone), "{gone}: {text}");
        }
        assert!(!second.contains("header_") && second.contains("fault"), "{second}");
    }
}

/// The log's fields are those of the start; a later configuration may say that one of them is a credential.
#[test]
fn a_field_that_became_a_credential_is_logged_no_more() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let path = builder.dir().join("access.log");
    let log = |fields: &str| format!("access_log: {{path: '{}'{fields}}}", path.display());
    let before = yaml(&upstream, &dead, &log(", fields: {add: [header:X-Partner-Token, header:X-Tenant]}"));
    let weir = builder.config(before).start();
    let fields = [("Host", "a"), ("X-Partner-Token", "hush"), ("X-Tenant", "t")];
    assert_eq!(weir.request("GET", "/l", &fields, "").status(), 200);
    let after = yaml(&upstream, &dead, &log("")).replace("X-Api-Token: hush", "X-Partner-Token: hush");
    weir.rewrite_config(&after);
    let admin = weir.admin_addr();
    let mut client = RawClient::connect(admin);
    client.request("POST", "/reload", &[("Host", &admin.to_string())], "");
    assert_eq!(client.read_response().status(), 200);
    assert_eq!(weir.request("GET", "/l", &fields, "").status(), 200);
    let lines = lines(&path, 2);
    assert_eq!((&lines[0]["header_x_partner_token"], &lines[0]["header_x_tenant"]), (&"hush".into(), &"t".into()));
    assert_eq!((&lines[1]["header_x_partner_token"], &lines[1]["header_x_tenant"]), (&Value::Null, &"t".into()));
}

/// The process ends first, for each of the reasons that it has to.
#[test]
fn exchanges_that_are_cut_off_have_a_line() {
    for (server, signals) in [
        ("drain: 100ms", &[Signal::TERM][..]),
        ("drain: 1h", &[Signal::TERM, Signal::TERM]),
        ("drain: 1h, drain_delay: 1h", &[Signal::TERM, Signal::TERM]),
    ] {
        let upstream = Upstream::start(|conn, request| {
            if request.head.start.contains("/done") {
                return conn.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
            if request.head.start.contains("/begun") {
                conn.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n")?;
            }
            conn.stall()
        });
        let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        let path = builder.dir().join("access.log");
        let weir = builder
            .config(format!(
                "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nserver: {{{server}}}\naccess_log: {{path: {}}}\n\
                 upstreams: {{u: {{targets: [{}]}}}}\ncaches: {{c: {{mode: ttl}}}}\nlimits: {{l: {{algorithm: concurrency, key: global, quota: 10}}}}\nroutes:\n\
                 - {{match: {{path: /cached/*}}, upstream: u, cache: c}}\n- {{match: {{path: /*}}, upstream: u, limits: [l]}}\n",
                path.display(),
                upstream.url()
            ))
            .start();
        let waiting = ["/waits", "/cached/waits"].map(|path| {
            let mut client = weir.connect();
            client.request("GET", path, &[], "");
            client
        });
        let begun = ["/begun", "/cached/begun"].map(|path| {
            let mut client = weir.connect();
            client.request("GET", path, &[], "");
            assert_eq!(client.try_read_head("GET").unwrap().0.status(), 200);
            client
        });
        let mut done = weir.connect();
        assert_eq!(done.get("/done").status(), 200);
        upstream.wait_for_requests(5);
        for (index, signal) in signals.iter().enumerate() {
            // Two signals that are not followed yet are one.
            if index > 0 {
                wait::until(DEADLINE, "the first signal to be followed", || weir.admin_get("/readyz").status() == 503);
            }
            weir.signal(*signal);
        }
        assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
        drop((waiting, begun));
        let logged = lines(&path, 5);
        let of = |path: &str| {
            logged.iter().find(|line| line["path"] == path).unwrap_or_else(|| panic!("{path}: {logged:?}"))
        };
        for (path, status) in [("/waits", 503), ("/cached/waits", 503), ("/begun", 200), ("/cached/begun", 200)] {
            let line = of(path);
            let expected = (&status.into(), &"shutdown".into(), &"gateway".into());
            assert_eq!((&line["status"], &line["reason"], &line["fault"]), expected, "{server}: {line}");
        }
        assert!(of("/done").get("reason").is_none());
        assert_eq!(logged.len(), 5);
    }
}

#[test]
fn what_was_logged_last_is_written_before_the_end() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let weir = start(&upstream, &dead, "access_log: {path: stdout}");
    for _ in 0..10 {
        assert_eq!(weir.get("/l").status(), 200);
    }
    weir.stop(DEADLINE);
    assert_eq!(weir.stdout().lines().filter(|line| line.contains("\"route\":\"local\"")).count(), 10);
}

#[test]
fn a_full_disk_costs_lines_and_no_requests() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let weir = start(&upstream, &dead, "access_log: {path: /dev/full}");
    wait::until(DEADLINE, "a failed write is counted", || {
        assert_eq!(weir.get("/p/a").status(), 200);
        let metrics = weir.admin_get("/metrics").text().to_owned();
        let lost = sample(&metrics, r#"access_log_dropped_lines_total{reason="write_error"}"#).unwrap();
        let errors = sample(&metrics, "access_log_write_errors_total").unwrap();
        assert_eq!(sample(&metrics, "access_log_lines_total"), Some(0.0));
        lost > 0.0 && errors > 0.0
    });
    let said = weir.stderr();
    assert_eq!(said.matches("access log").count(), 1, "once a minute: {said}");
}

/// Requests that cannot be understood have a line too, with the id that their response names.
#[test]
fn the_access_log_has_a_line_for_what_is_no_request() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let log = builder.dir().join("access.log");
    let more = format!("server: {{head_timeout: 100ms, fields: 5}}\naccess_log: {{path: {}}}\n", log.display());
    let weir = builder.config(yaml(&upstream, &dead, &more)).start();
    let many = "A: b\r\n".repeat(6);
    let mut ids = Vec::new();
    let cases = [
        ("GET /p/a?b=c HTTP/1.1\r\nBad Name: x\r\n\r\n".to_owned(), 400, "bad_request"),
        (format!("GET /p/a?b=c HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431, "head_too_large"),
        ("GET /p/a?b=c HTTP/1.1\r\nHost: a\r\nX: y".to_owned(), 408, "head_timeout"),
    ];
    for (request, status, _) in &cases {
        let mut client = weir.connect();
        client.send(request);
        let response = client.read_response();
        assert_eq!(response.status(), *status);
        ids.push(response.field("x-request-id").unwrap().to_owned());
    }
    for (line, ((_, status, reason), id)) in lines(&log, cases.len()).iter().zip(cases.iter().zip(&ids)) {
        assert_eq!((line["status"].as_u64(), line["reason"].as_str()), (Some(u64::from(*status)), Some(*reason)));
        assert_eq!(
            (line["method"].as_str(), line["path"].as_str(), line["query"].as_str()),
            (Some("GET"), Some("/p/a"), Some("b=c"))
        );
        assert_eq!((line["request_id"].as_str(), line["client"].as_str()), (Some(&**id), Some("127.0.0.1")));
    }
    let metrics = weir.admin_get("/metrics").text().to_owned();
    for (_, status, _) in cases {
        let name = format!(r#"http_requests_total{{route="-",upstream="-",status="{status}"}}"#);
        assert_eq!(sample(&metrics, &name), Some(1.0), "{name}");
    }
}

/// Peers outside of `trusted_proxies` do not learn whether a response was cached, or how long the upstream took.
#[test]
fn server_timing_says_where_the_time_went_to_those_who_may_know() {
    let response = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nhello";
    let slow = Upstream::start(responder::raw(response));
    let start = |who: &str, trusted: &str| {
        let yaml = format!(
            "listen: 127.0.0.1:0\nworkers: 1\nserver_timing: {who}\ntrusted_proxies: [{trusted}]\n\
             upstreams: {{app: {{targets: [{}]}}}}\ncaches: {{c: {{mode: http}}}}\n\
             routes:\n  - {{match: {{path: /l}}, respond: {{body: x}}}}\n  - {{match: {{path: /c/*}}, upstream: app, cache: c}}\n  - {{match: {{path: /*}}, upstream: app}}\n",
            slow.url()
        );
        Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
    };
    let timing = |weir: &Weir, path: &str| weir.get(path).field("server-timing").map(str::to_owned);
    let milliseconds = |text: &str, name: &str| -> Option<f64> {
        let entry = text.split(", ").find_map(|entry| entry.strip_prefix(name)?.strip_prefix(";dur="));
        entry.map(|number| number.parse().expect("a number"))
    };
    for (who, trusted, is_told) in
        [("none", "127.0.0.1", false), ("trusted", "", false), ("trusted", "127.0.0.1", true), ("all", "", true)]
    {
        let weir = start(who, trusted);
        let told = timing(&weir, "/x");
        assert_eq!(told.is_some(), is_told, "{who} {trusted}");
        let Some(told) = told else { continue };
        assert!(milliseconds(&told, "gw").is_some() && milliseconds(&told, "upstream").is_some(), "{told}");
        // What the upstream takes is its own, and all together is no more than the client waits.
        let gate = Gate::new();
        slow.set_responder(responder::gated(&gate, responder::raw(response)));
        slow.forget();
        let mut client = weir.connect();
        let began = Instant::now();
        client.request("GET", "/x", &[], "");
        slow.wait_for_requests(1);
        let held = Instant::now();
        (0..20).for_each(|_| drop(weir.get("/l")));
        let held = held.elapsed().as_secs_f64() * 1e3;
        gate.open();
        let told = client.read_response().field("server-timing").expect("a field").to_owned();
        let waited = began.elapsed().as_secs_f64() * 1e3;
        let (own, upstream) =
            (milliseconds(&told, "gw").expect("gw"), milliseconds(&told, "upstream").expect("upstream"));
        assert!(upstream + 0.001 >= held && own + upstream <= waited + 0.001, "{told} {held} {waited}");
        let miss = timing(&weir, "/c/x").expect("a field");
        assert!(miss.ends_with(", cache;desc=miss") && milliseconds(&miss, "upstream").is_some(), "{miss}");
        let hit = timing(&weir, "/c/x").expect("a field");
        assert!(hit.ends_with(", cache;desc=hit") && milliseconds(&hit, "upstream").is_none(), "{hit}");
    }
}

/// No exchange saw them; the access log has them, and so has the console.
#[test]
fn requests_that_cannot_be_parsed_are_among_the_last_failures() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let weir = start(&upstream, &dead, "");
    let cases = [
        ("BAD\u{1} /a HTTP/1.1\r\nHost: a\r\n\r\n", "/a", "bad_request"),
        ("GET /b HTTP/3.9\r\nHost: a\r\n\r\n", "/b", "unsupported_version"),
        ("POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x, chunked\r\n\r\n", "/c", "unknown_coding"),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "a:443", "connect_not_supported"),
        (
            "GET http://user:canary@a/d?access%5Ftoken=canary HTTP/1.1\r\nHost: a\r\n\r\n",
            "http://[redacted]@a/d",
            "bad_request",
        ),
    ];
    for (bytes, _, reason) in cases {
        let mut client = weir.connect();
        client.send(bytes);
        assert!(client.read_response().text().contains(reason), "{reason}");
    }
    let shown = weir.admin_get("/console/api/errors");
    assert!(!shown.text().contains("canary"), "{}", shown.text());
    let shown: Value = serde_json::from_str(shown.text()).unwrap();
    let errors = shown["errors"].as_array().unwrap();
    assert_eq!(errors.len(), cases.len(), "{errors:?}");
    for (_, path, reason) in cases {
        assert!(errors.iter().any(|error| error["path"] == path && error["reason"] == reason), "{path}: {errors:?}");
    }
}

#[test]
fn actions_on_targets_that_cannot_be_read_are_problems() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let weir = start(&upstream, &dead, "");
    let target = upstream.address();
    for path in [
        "/upstreams/live/targets/%FF/drain".to_owned(),
        "/upstreams/%FF/targets/a/drain".to_owned(),
        format!("/upstreams/live/targets/{target}/eject?seconds=+5"),
        format!("/upstreams/live/targets/{target}/eject?seconds="),
    ] {
        let mut client = RawClient::connect(weir.admin_addr());
        client.request("POST", &path, &[("Host", &weir.admin_addr().to_string())], "");
        let refused = client.read_response();
        assert_eq!(refused.status(), 400, "{path}");
        assert_eq!(refused.head.field("content-type"), Some("application/problem+json"), "{path}");
        assert!(refused.text().contains("Actions are drain"), "{path}: {}", refused.text());
    }
}

/// The console, `format: json` and a template have the sentence; it has nothing of the request.
#[test]
fn the_access_log_says_what_decided() {
    let (upstream, dead) = (Upstream::start(responder::ok("hello")), Port::free());
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let path = builder.dir().join("access.log");
    let keys = builder.dir().join("keys.yaml");
    fs::write(&keys, "[]\n").unwrap();
    let yaml = format!(
        "listen: 127.0.0.1:0
workers: 1
access_log: {{path: '{log}'}}
upstreams:
  live: {{targets: ['{live}']}}
  dead: {{targets: ['http://{dead}'], retry: {{extra_attempts: 0}}}}
limits: {{few: {{algorithm: fixed_window, key: global, quota: 1, window: 24h}}}}
caches: {{c: {{mode: ttl, ttl: 1h}}}}
auth: {{keys: {{api_key: {{in: [header:X-API-Key], store: {{file: '{keys}'}}}}}}}}
routes:
  - {{name: plain, match: {{path: /plain}}, upstream: live}}
  - {{name: broken, match: {{path: /broken}}, upstream: dead}}
  - {{name: backed, match: {{path: /backed}}, upstream: dead, fallback: [live]}}
  - {{name: cached, match: {{path: /cached}}, upstream: live, cache: c}}
  - {{name: limited, match: {{path: /limited}}, upstream: live, limits: [few]}}
  - {{name: closed, match: {{path: /closed}}, upstream: live, auth: [keys]}}
  - {{name: fixed, match: {{path: /fixed}}, respond: {{status: 200}}}}
  - {{name: moved, match: {{path: /moved}}, redirect: {{to: /plain}}}}
",
        log = path.display(),
        live = upstream.url(),
        dead = dead.address(),
        keys = keys.display(),
    );
    let weir = builder.config(yaml).start();
    let mut client = weir.connect();
    let failed = format!("The upstream cannot be reached (upstream dead, target {})", dead.address());
    let expected = [
        ("/plain", 200, None),
        ("/broken?canary=1", 502, Some(&*failed)),
        ("/backed", 200, Some("A fallback responded (upstream live)")),
        ("/cached", 200, None),
        ("/cached", 200, Some("The cache has the response")),
        ("/limited", 200, None),
        ("/limited", 429, Some("Too many requests (limit few)")),
        ("/closed", 401, Some("The request needs valid credentials (missing)")),
        ("/fixed", 200, Some("The route has a fixed response")),
        ("/moved", 308, Some("The route redirects")),
        ("/canary", 404, Some("No route matches this request")),
    ];
    for (target, status, _) in &expected {
        assert_eq!(client.get(target).status(), *status, "{target}");
    }
    let bad_key = [("X-API-Key", "canary")];
    assert_eq!(weir.request("GET", "/closed", &bad_key, "").status(), 401);
    let lines = lines(&path, expected.len() + 1);
    for ((target, _, why), line) in expected.iter().zip(&lines) {
        assert_eq!(line.get("why").and_then(Value::as_str), *why, "{target}: {line}");
    }
    let why = lines[expected.len()]["why"].as_str().unwrap().to_owned();
    assert!(why.starts_with("The request needs valid credentials (authenticator keys, invalid"), "{why}");
    assert!(!why.contains("canary"));
}
