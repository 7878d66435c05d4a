//! Services that decide whether a request may pass: forward authentication and Envoy's form, beside nginx' auth_request, and in trouble.

mod passes;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{DEADLINE, Message, Nginx, RawClient, Upstream, Weir, responder, wait};

struct Rig {
    weir: Weir,
    authorizer: Upstream,
    upstream: Upstream,
}

/// `sso` calls the authorizer; `more` are its further keys, `top` further sections, `route` keys of the route `/a/*`.
fn rig(kind: &str, path: &str, more: &str, top: &str, route: &str) -> Rig {
    let (authorizer, upstream) = (Upstream::start(judge), Upstream::start(responder::ok("hello")));
    let yaml = yaml(&authorizer.url(), &upstream.url(), kind, path, more, top, route);
    Rig { weir: Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start(), authorizer, upstream }
}

fn yaml(authorizer: &str, upstream: &str, kind: &str, path: &str, more: &str, top: &str, route: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\nupstreams: {{u: {{targets: ['{upstream}']}}}}\n\
         auth: {{sso: {{{kind}: {{url: '{authorizer}{path}', timeout: 5s{more}}}}}}}\n{top}routes:\n  \
         - match: {{path: /a/*}}\n    auth: sso\n{route}    upstream: u\n  - match: {{path: /open/*}}\n    upstream: u\n"
    )
}

/// Responds with the status in the cookie, 401 without one; tells who it is.
fn judge(conn: &mut testkit::Conn, request: &Message) -> Result<(), testkit::WireError> {
    let wanted = request.field("cookie").and_then(|cookie| cookie.strip_prefix("want=")?.parse().ok());
    let status: u16 = wanted.unwrap_or(401);
    let fields = [
        ("Remote-User", "ali"),
        ("Remote-Tier", "gold"),
        ("X-Internal", "secret"),
        ("Location", "https://login.example/?rd=1"),
        ("WWW-Authenticate", "Cookie realm=\"sso\""),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2; HttpOnly"),
        ("Content-Type", "text/html"),
    ];
    let body = if status == 204 || status == 304 { "" } else { "<p>who are you?</p>" };
    conn.respond(status, &fields, body)
}

impl Rig {
    fn get(&self, path: &str, fields: &[(&str, &str)]) -> Message {
        self.weir.request("GET", path, fields, "")
    }

    fn status(&self, path: &str, fields: &[(&str, &str)]) -> u16 {
        self.get(path, fields).status()
    }

    fn metric(&self, name: &str) -> u64 {
        let metrics = self.weir.admin_get("/metrics");
        let line = metrics.text().lines().find(|line| line.starts_with(name));
        line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }
}

const COPY: &str = ", copy: [Remote-User, Remote-Groups], consumer: Remote-User, tier: Remote-Tier";

#[test]
fn a_forward_authorizer_lets_requests_pass_or_responds_to_them() {
    let top = "limits: {each: {key: consumer, algorithm: fixed_window, quota: 1000, window: 1h}}\n";
    let rig = rig("forward", "/api/authz?x=1", COPY, top, "    limits: [each]\n");
    let forged = [
        ("Cookie", "want=200"),
        ("Remote-User", "root"),
        ("remote_user", "root"),
        ("Remote.Groups", "admins"),
        ("X-Forwarded-Uri", "/open"),
        ("X-Forwarded-Method", "OPTIONS"),
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Other", "1"),
        ("Authorization", "Basic eDp5"),
    ];
    assert_eq!(rig.weir.request("POST", "/a/b%20c?d=e", &forged, "body").status(), 200);
    let requested = &rig.authorizer.requests()[0];
    assert_eq!((requested.head.method(), requested.head.target()), ("GET", "/api/authz?x=1"));
    assert_eq!(requested.head.field("host"), Some(&*rig.authorizer.socket_addr().to_string()));
    for (name, value) in [
        ("x-forwarded-method", "POST"),
        ("x-forwarded-uri", "/a/b%20c?d=e"),
        ("x-forwarded-host", "test"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-for", "127.0.0.1"),
        ("cookie", "want=200"),
        ("authorization", "Basic eDp5"),
    ] {
        assert_eq!(requested.head.all(name), [value], "{name}");
    }
    for name in ["x-other", "remote-user", "remote_user", "content-length", "transfer-encoding", "forwarded"] {
        assert_eq!(requested.head.all(name), Vec::<&str>::new(), "{name}");
    }
    let seen = &rig.upstream.requests()[0];
    assert_eq!((seen.head.all("remote-user"), seen.body.as_slice()), (vec!["ali"], &b"body"[..]));
    for name in ["remote_user", "remote.groups", "remote-groups", "x-internal", "x-forwarded-uri", "remote-tier"] {
        assert_eq!(seen.head.all(name), Vec::<&str>::new(), "{name}");
    }
    // On open routes too: what upstreams believe, only the gateway says.
    assert_eq!(rig.status("/open/x", &[("Remote-User", "root"), ("REMOTE_GROUPS", "admins")]), 200);
    let seen = &rig.upstream.requests()[1];
    assert!(seen.head.all("remote-user").is_empty() && seen.head.all("remote_groups").is_empty());

    for status in [302, 401, 403, 404, 500, 503] {
        let response = rig.get("/a/x", &[("Cookie", &format!("want={status}"))]);
        assert_eq!((response.status(), response.text()), (status, "<p>who are you?</p>"));
        assert_eq!(response.field("location"), Some("https://login.example/?rd=1"), "not followed");
        assert_eq!(response.field("www-authenticate"), Some("Cookie realm=\"sso\""));
        assert_eq!(response.head.all("set-cookie"), ["a=1", "b=2; HttpOnly"]);
        assert_eq!(response.field("content-type"), Some("text/html"));
        assert!(response.field("x-internal").is_none() && response.field("x-request-id").is_some());
    }
    assert_eq!(rig.status("/a/x", &[("Cookie", "want=204")]), 200);
    assert_eq!(rig.upstream.requests().len(), 3, "nothing that was denied");
    assert_eq!(rig.metric("auth_requests_total{auth=\"sso\",outcome=\"denied\"}"), 6);
    assert_eq!(rig.metric("auth_requests_total{auth=\"sso\",outcome=\"ok\"}"), 2);
    assert_eq!(rig.metric("auth_duration_seconds_count{auth=\"sso\"}"), 8);
    let limits = rig.weir.admin_get("/limits?limit=each&key=ali");
    assert!(limits.text().contains("\"remaining\":998"), "the authorizer names the consumer: {}", limits.text());
    wait::until(DEADLINE, "the log", || {
        let log = rig.weir.stdout();
        log.contains("\"consumer\":\"ali\",\"auth\":\"ok\"")
            && log.contains("\"status\":302")
            && log.contains("\"auth\":\"denied\"")
    });
    // A HEAD gets the head of a denial.
    let mut client = rig.weir.connect();
    client.request("HEAD", "/a/x", &[], "");
    assert_eq!(client.read_response_to("HEAD").status(), 401);
    client.request("POST", "/a/x", &[("Cookie", "want=403")], "b".repeat(1000));
    assert_eq!(client.read_response().status(), 403);
    client.request("GET", "/a/x", &[("Cookie", "want=200")], "");
    assert_eq!(client.read_response().text(), "hello", "the connection lives on");
}

#[test]
fn nginx_and_weir_give_the_same_verdicts() {
    let rig = rig("forward", "/check", ", mode: nginx, send: [Cookie, X-Original-URI]", "", "");
    let nginx = Nginx::start(&format!(
        "location /a/ {{ auth_request /_auth; proxy_pass {upstream}; }}\n\
         location = /_auth {{ internal; proxy_pass {authorizer}/check; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; \
         proxy_set_header X-Forwarded-Uri $request_uri; proxy_set_header X-Forwarded-Method $request_method; }}\n",
        upstream = rig.upstream.url(),
        authorizer = rig.authorizer.url(),
    ));
    let through = |address: std::net::SocketAddr, method: &str, cookie: &str, body: &str| {
        let mut client = RawClient::connect(address);
        client.request(method, "/a/x?y=z", &[("Host", "a"), ("Cookie", cookie)], body);
        client.read_response_to(method)
    };
    for status in [200, 201, 204, 206, 299, 301, 302, 304, 400, 401, 403, 404, 405, 429, 500, 502, 503] {
        for (method, body) in [("GET", ""), ("POST", "abc"), ("HEAD", ""), ("DELETE", "")] {
            let cookie = format!("want={status}");
            let own = through(rig.weir.addr(), method, &cookie, body);
            let other = through(nginx.address(), method, &cookie, body);
            assert_eq!(own.status(), other.status(), "{status} {method}");
            if own.status() == 401 {
                assert_eq!(own.field("www-authenticate"), other.field("www-authenticate"));
            }
        }
    }
    // What nginx' users write by hand, and what a client may not say of itself.
    rig.authorizer.forget();
    let forged =
        [("X-Original-URI", "/a/public"), ("X-Real-IP", "6.6.6.6"), ("Host", "a.example"), ("Cookie", "want=200")];
    assert_eq!(rig.status("/a/x?y=z", &forged), 200);
    let requested = &rig.authorizer.requests()[0].head;
    for (name, value) in [
        ("x-original-method", "GET"),
        ("x-original-uri", "/a/x?y=z"),
        ("x-original-url", "http://a.example/a/x?y=z"),
        ("x-real-ip", "127.0.0.1"),
    ] {
        assert_eq!(requested.all(name), [value], "{name}");
    }
    // Broken authorizers let nobody pass either; nginx says 500, Weir 503 with Retry-After.
    for broken in
        [responder::close(), responder::reset(), responder::raw("nonsense\r\n\r\n"), responder::close_after(10, 100)]
    {
        rig.authorizer.set_responder(broken);
        let (own, other) =
            (through(rig.weir.addr(), "GET", "want=200", ""), through(nginx.address(), "GET", "want=200", ""));
        assert!(other.status() >= 500 || other.status() == 200, "{}", other.status());
        assert_eq!((own.status(), own.field("retry-after").is_some()), (503, true));
    }
}

#[test]
fn envoys_form_sends_method_and_path() {
    let rig = rig("ext_authz", "/check/v1/", COPY, "", "");
    assert_eq!(rig.weir.request("POST", "/a/b?c=d", &[("Cookie", "want=200")], "body").status(), 200);
    assert_eq!(rig.weir.request("DELETE", "/a/b", &[("Cookie", "want=403")], "").status(), 403);
    let requested: Vec<String> =
        rig.authorizer.requests().iter().map(|one| format!("{} {}", one.head.method(), one.head.target())).collect();
    assert_eq!(requested, ["POST /check/v1/a/b?c=d", "DELETE /check/v1/a/b"]);
    let first = &rig.authorizer.requests()[0];
    assert_eq!((first.head.field("content-length"), first.body.len()), (Some("0"), 0), "no body");
    assert!(first.head.field("x-forwarded-uri").is_none());
    assert_eq!(rig.upstream.requests()[0].head.all("remote-user"), ["ali"]);
    // Only 200 passes; 5xx is a failure.
    for (status, own) in [("204", 403), ("302", 302), ("401", 401), ("500", 503), ("503", 503)] {
        assert_eq!(rig.status("/a/x", &[("Cookie", &format!("want={status}"))]), own, "{status}");
    }
    assert_eq!(rig.upstream.requests().len(), 1);
}

#[test]
fn verdicts_are_cached_by_consumer_and_request() {
    let rig = rig("forward", "/", ", copy: [Remote-User], cache: {ttl: 2s}", "", "");
    let get = |path: &str, cookie: &str| rig.status(path, &[("Cookie", cookie)]);
    for _ in 0..3 {
        assert_eq!(get("/a/x", "want=200"), 200);
    }
    assert_eq!(rig.authorizer.request_count(), 1);
    assert!(rig.upstream.requests().iter().all(|one| one.head.all("remote-user") == ["ali"]));
    assert_eq!((get("/a/y", "want=200"), get("/a/x?1", "want=200"), get("/a/x", "want=201")), (200, 200, 200));
    assert_eq!(rig.authorizer.request_count(), 4, "another path, query or cookie is another question");
    assert_eq!((get("/a/x", "want=403"), get("/a/x", "want=403")), (403, 403));
    assert_eq!(rig.authorizer.request_count(), 6, "denials are not remembered");
    assert_eq!(rig.metric("auth_cache_total{auth=\"sso\",result=\"hit\"}"), 2);
    rig.authorizer.set_responder(responder::status(403));
    wait::until(DEADLINE, "the verdict is old", || get("/a/x", "want=200") == 403);
}

/// What fails, for requests with `want=200`.
#[test]
fn a_broken_authorizer_lets_nobody_pass_or_everybody() {
    for (more, expected) in [("", 503), (", on_failure: allow", 200)] {
        let rig = rig("forward", "/", &format!(", copy: [Remote-User]{more}"), "", "");
        let fields = [("Cookie", "want=200"), ("Remote-User", "root")];
        for broken in [
            responder::close(),
            responder::reset(),
            responder::raw_then_close("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"),
            responder::raw_then_close("HTTP/1.1 200 OK\r\nContent-Len"),
            responder::raw_then_close("garbage garbage\r\n\r\n"),
            responder::raw_then_close("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na"),
            responder::raw_then_close("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        ] {
            rig.authorizer.set_responder(broken);
            assert_eq!(rig.status("/a/x", &fields), expected);
        }
        rig.authorizer.stop();
        assert_eq!(rig.status("/a/x", &fields), expected);
        let outcome = if expected == 200 { "failed_open" } else { "unavailable" };
        assert_eq!(rig.metric(&format!("auth_requests_total{{auth=\"sso\",outcome=\"{outcome}\"}}")), 8);
        assert!(rig.upstream.requests().iter().all(|one| one.head.all("remote-user").is_empty()));
        // It comes back.
        rig.authorizer.restart();
        rig.authorizer.set_responder(judge);
        wait::until(DEADLINE, "verdicts again", || rig.status("/a/x", &[("Cookie", "want=403")]) == 403);
    }
}

#[test]
fn a_huge_response_is_a_verdict_by_its_status() {
    let rig = rig("forward", "/", "", "", "");
    for (status, expected) in [(200, 200), (403, 403)] {
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: 50000000\r\nSet-Cookie: a=1\r\n\r\n");
        rig.authorizer.set_responder(move |conn, _| {
            conn.write(&head)?;
            // It stops reading after what it keeps.
            let _ = conn.write("x".repeat(1 << 20)).and_then(|()| conn.write("x".repeat(20 << 20)));
            Ok(())
        });
        let response = rig.get("/a/x", &[]);
        assert_eq!(response.status(), expected);
        if expected == 403 {
            assert_eq!((response.text(), response.field("set-cookie")), ("", Some("a=1")), "a part of a page is none");
        }
    }
    // 64 KiB are passed on.
    let body = "y".repeat(64 * 1024);
    rig.authorizer.set_responder({
        let body = body.clone();
        move |conn, _| conn.respond(401, &[], &body)
    });
    assert!(rig.get("/a/x", &[]).text() == body);
    rig.authorizer.set_responder(|conn, _| conn.respond(401, &[], "y".repeat(64 * 1024 + 1)));
    assert_eq!(rig.get("/a/x", &[]).text(), "");
    // And an endless head is none.
    rig.authorizer.set_responder(|conn, _| {
        let _ = conn.write("HTTP/1.1 200 OK\r\n").and_then(|()| conn.write("X-A: b\r\n".repeat(100_000)));
        Ok(())
    });
    assert_eq!(rig.status("/a/x", &[]), 503);
}

#[test]
fn a_slow_authorizer_costs_the_timeout_and_a_client_that_leaves_ends_the_question() {
    let rig = rig("forward", "/", "", "", "");
    rig.authorizer.set_responder(responder::stall());
    let mut client = rig.weir.connect();
    client.request("GET", "/a/x", &[], "");
    rig.authorizer.wait_for_requests(1);
    let began = Instant::now();
    drop(client);
    rig.authorizer.wait_for_open(0);
    assert!(began.elapsed() < Duration::from_secs(4), "before the timeout of 5 s");
    let began = Instant::now();
    assert_eq!(rig.status("/a/x", &[]), 503);
    assert!(began.elapsed() >= Duration::from_secs(5));
    assert_eq!(rig.status("/open/x", &[]), 200);
    wait::until(DEADLINE, "the log", || rig.weir.stdout().contains("client_disconnected"));
}

/// 100 clients, the authorizer is killed and comes back, the configuration is read again: nobody passes who may not, and everybody who
/// may passes at the end.
#[test]
fn nobody_passes_while_the_authorizer_comes_and_goes() {
    let top = "limits: {each: {key: consumer, rate: 100000/s, burst: 100000}}\n";
    let rig = rig("forward", "/", COPY, top, "    limits: [each]\n");
    let (stop, wrong, passed, failed) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..100 {
            let (rig, stop, wrong, passed, failed) = (&rig, &stop, &wrong, &passed, &failed);
            scope.spawn(move || {
                let may = number % 2 == 0;
                let cookie = if may { "want=200" } else { "want=403" };
                let mut client = rig.weir.connect();
                while !stop.load(Ordering::Relaxed) {
                    client.request("GET", "/a/x", &[("Cookie", cookie), ("Remote-User", "root")], "");
                    let response = client.read_response();
                    match (response.status(), may) {
                        (200, true) => passed.fetch_add(1, Ordering::Relaxed),
                        (403, false) => 0,
                        (503, _) => failed.fetch_add(1, Ordering::Relaxed),
                        _ => wrong.fetch_add(1, Ordering::Relaxed),
                    };
                }
            });
        }
        let more = |count: &AtomicUsize, by: usize| {
            let before = count.load(Ordering::Relaxed);
            wait::until(DEADLINE, "more requests", || count.load(Ordering::Relaxed) >= before + by);
        };
        more(&passed, 200);
        for _ in 0..3 {
            rig.authorizer.stop();
            more(&failed, 100);
            rig.authorizer.restart();
            more(&passed, 200);
            let text = std::fs::read_to_string(rig.weir.config_path()).unwrap();
            rig.weir.rewrite_config(&format!("{text}\n"));
            rig.authorizer.reset_connections();
            more(&passed, 200);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong.into_inner(), 0);
    let seen = rig.upstream.requests();
    assert!(
        seen.iter().all(|one| one.head.all("remote-user") == ["ali"]),
        "only who was let pass, by the name that the authorizer said"
    );
}

#[test]
fn a_list_tries_credentials_first_and_challenges_then() {
    let (authorizer, upstream) = (Upstream::start(judge), Upstream::start(responder::ok("hello")));
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let keys = builder.dir().join("keys.yaml").display().to_string();
    let key =
        Weir::builder(env!("CARGO_BIN_EXE_weir")).args(["keys", "create", "shop", "--file", &keys]).command().stdout;
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstreams: {{u: {{targets: ['{}']}}, sso: {{targets: ['{}']}}}}\n\
         auth:\n  keys: {{api_key: {{in: [header:X-API-Key], store: {{file: {keys}}}}}}}\n  \
         sso: {{forward: {{upstream: sso, path: /verify, copy: [Remote-User]}}}}\nroutes:\n  \
         - match: {{path: /any}}\n    auth: [keys, sso]\n    upstream: u\n  - match: {{path: /both}}\n    auth: [[keys, sso]]\n    upstream: u\n",
        upstream.url(),
        authorizer.url()
    );
    let weir = builder.config(yaml).start();
    let status = |path: &str, fields: &[(&str, &str)]| weir.request("GET", path, fields, "").status();
    let key = key.trim();
    assert_eq!(status("/any", &[("X-API-Key", key)]), 200);
    assert_eq!(status("/any", &[("X-API-Key", "wk_no"), ("Cookie", "want=200")]), 401, "a bad key is not rescued");
    assert_eq!(authorizer.request_count(), 0);
    assert_eq!((status("/any", &[("Cookie", "want=200")]), status("/any", &[])), (200, 401));
    assert_eq!(authorizer.requests()[0].head.target(), "/verify");
    assert_eq!((status("/both", &[("X-API-Key", key)]), status("/both", &[("Cookie", "want=200")])), (401, 401));
    assert_eq!(status("/both", &[("X-API-Key", key), ("Cookie", "want=200")]), 200);
}

#[test]
fn a_verdict_is_cached_for_the_url_and_client_that_the_service_saw() {
    let rig = rig("forward", "/", ", cache: {ttl: 600s}", "trusted_proxies: [127.0.0.0/8]\n", "");
    let tell = |host, proto, client| {
        let fields = [
            ("Cookie", "want=200"),
            ("X-Forwarded-Host", host),
            ("X-Forwarded-Proto", proto),
            ("X-Forwarded-For", client),
        ];
        assert_eq!(rig.status("/a/x", &fields), 200);
        rig.authorizer.request_count()
    };
    let all = [
        ("a.test", "https", "192.0.2.1"),
        ("b.test", "https", "192.0.2.1"),
        ("a.test", "http", "192.0.2.1"),
        ("a.test", "https", "192.0.2.2"),
    ];
    for (index, (host, proto, client)) in all.into_iter().enumerate() {
        assert_eq!(tell(host, proto, client), index + 1, "{host} {proto} {client}");
        assert_eq!(tell(host, proto, client), index + 1, "remembered");
    }
}
