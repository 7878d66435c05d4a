//! Header fields on their way through the gateway, with caches, limits and both kinds of peers.

use testkit::{RawClient, Upstream, Weir, responder};

/// A gateway before `upstream`; `top` are further lines of the file, `route` further lines of its one route.
fn gateway(upstream: &Upstream, top: &str, route: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 1\n{top}upstreams:\n  u: {{targets: [{}], retry: {{extra_attempts: 0}}}}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n{route}",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

const TRUSTED: &str = "trusted_proxies: [127.0.0.0/8]\n";
const CACHE: &str = "caches: {c: {mode: ttl, ttl: 1m}}\ndefaults: {cache: c}\n";
const FORGED: &str = "X-Real-IP: 6.6.6.6\r\nx_real_ip: 6.6.6.7\r\nTrue.Client.IP: 6.6.6.8\r\nX-Forwarded-Port: 81\r\nX-FORWARDED_PREFIX: /evil\r\n\
    Forwarded: for=6.6.6.9\r\nX-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\nX-HTTP-Method-Override: DELETE\r\nRemote-User: root\r\nX-Envoy-Internal: true\r\nProxy: http://evil/\r\n";

/// What of [`FORGED`] is in the newest request that the upstream saw.
fn seen(upstream: &Upstream) -> Vec<String> {
    let request = upstream.requests().pop().unwrap();
    let head = String::from_utf8(request.head.raw).unwrap();
    FORGED.split_inclusive("\r\n").filter(|line| head.contains(line)).map(str::to_owned).collect()
}

fn send(client: &mut RawClient, request: &str) -> u16 {
    client.send(request);
    client.read_response().status()
}

/// Rule 28, for every kind of request that reaches an upstream.
#[test]
fn fields_that_identify_reach_the_upstream_from_trusted_peers_only() {
    let upstream = Upstream::start(responder::ok("hello"));
    for (top, count) in [("", 0), (TRUSTED, FORGED.lines().count())] {
        for cache in ["", CACHE] {
            let weir = gateway(&upstream, &format!("{top}{cache}"), "");
            let mut client = weir.connect();
            for request in [
                format!("GET /a HTTP/1.1\r\nHost: a\r\n{FORGED}\r\n"),
                format!("POST /a HTTP/1.1\r\nHost: a\r\n{FORGED}Content-Length: 2\r\n\r\nhi"),
                format!("GET /b HTTP/1.0\r\n{FORGED}Connection: keep-alive\r\n\r\n"),
                format!("GET /c HTTP/1.1\r\nHost: a\r\nConnection: X-Hop\r\n{FORGED}X-Hop: 1\r\n\r\n"),
            ] {
                assert_eq!(send(&mut client, &request), 200);
                assert_eq!(seen(&upstream).len(), count, "{:?} of {request:?} with {top:?} {cache:?}", seen(&upstream));
            }
            // Pipelined: each head is judged alone.
            client.send(format!(
                "GET /d HTTP/1.1\r\nHost: a\r\n{FORGED}\r\nGET /e HTTP/1.1\r\nHost: a\r\nX-Api-Key: 1\r\n\r\n"
            ));
            assert_eq!((client.read_response().status(), client.read_response().status()), (200, 200));
            let requests = upstream.requests();
            assert!(requests.iter().rev().take(2).any(|request| request.head.field("x-api-key") == Some("1")));
        }
    }
}

#[test]
fn what_the_operator_keeps_passes_from_everyone() {
    let upstream = Upstream::start(responder::ok("hello"));
    let request = format!("GET /a HTTP/1.1\r\nHost: a\r\n{FORGED}\r\n");
    let weir = gateway(&upstream, "untrusted_headers: {keep: [x-http-method-override]}\n", "");
    assert_eq!(send(&mut weir.connect(), &request), 200);
    assert_eq!(seen(&upstream), ["X-HTTP-Method-Override: DELETE\r\n"]);
    let weir = gateway(&upstream, "untrusted_headers: {strip: false}\n", "");
    assert_eq!(send(&mut weir.connect(), &request), 200);
    assert_eq!(seen(&upstream).len(), FORGED.lines().count());
}

/// Browsers refuse a response with two `Access-Control-Allow-Origin`; also when it comes from the cache.
#[test]
fn the_upstream_s_cross_origin_fields_give_way_to_the_gateway_s() {
    let upstream = Upstream::start(responder::raw(
        "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://other.example\r\naccess-control-allow-credentials: true\r\n\
         Access-Control-Expose-Headers: X-A\r\nContent-Length: 2\r\n\r\nok",
    ));
    for cache in ["", CACHE] {
        let weir = gateway(&upstream, cache, "    cors: {origins: [\"https://a.example\"]}\n");
        let mut client = weir.connect();
        for _ in 0..2 {
            client.send("GET /a HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n\r\n");
            let response = client.read_response();
            assert_eq!(response.head.all("access-control-allow-origin"), ["https://a.example"], "{cache:?}");
            assert_eq!(response.field("access-control-allow-credentials"), None);
            assert_eq!(response.field("access-control-expose-headers"), Some("X-A"));
        }
    }
}

/// RFC 9110 section 9.3.7; under the gateway's own limits as every request without a route.
#[test]
fn options_about_the_gateway_itself_are_handled_by_it() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(
        &upstream,
        "limits: {l: {algorithm: fixed_window, quota: 2, window: 1h}}\ndefaults: {limits: [l]}\n",
        "",
    );
    let mut client = weir.connect();
    for target in ["*", "http://a"] {
        client.send(format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let response = client.read_response();
        assert_eq!((response.status(), response.field("allow").is_some()), (204, true), "{target}");
    }
    assert_eq!(send(&mut client, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), 429);
    assert_eq!(upstream.request_count(), 0);
}

#[test]
fn paths_that_are_not_utf8_are_refused_unless_configured() {
    let upstream = Upstream::start(responder::ok("hello"));
    let request = "GET /%c0%ae%c0%ae/ HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(send(&mut gateway(&upstream, "", "").connect(), request), 400);
    assert_eq!(upstream.request_count(), 0);
    assert_eq!(send(&mut gateway(&upstream, "server: {path: {invalid_utf8: keep}}\n", "").connect(), request), 200);
    assert_eq!(upstream.requests()[0].head.start, "GET /%C0%AE%C0%AE/ HTTP/1.1");
}

#[test]
fn edits_of_responses_hold_for_those_of_the_gateway_too() {
    let edits = "headers: {response: {set: {X-Frame-Options: DENY}, add: {X-B: c}}}";
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nroutes:\n  - {{match: {{path: /r}}, redirect: {{to: /s}}, {edits}}}\n  - {{match: {{path: /s}}, respond: {{body: hi}}, {edits}}}\n  - {{match: {{path: /h}}, respond: {{builtin: healthz}}, {edits}}}\n"
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let mut client = weir.connect();
    for (path, status) in [("/r", 308), ("/s", 200), ("/h", 200)] {
        let response = client.get(path);
        assert_eq!(
            (response.status(), response.field("x-frame-options"), response.field("x-b")),
            (status, Some("DENY"), Some("c")),
            "{path}"
        );
        assert_eq!(response.field("location").is_some(), status == 308);
    }
}

/// What is stripped before the upstream is stripped before limits, routes and caches look: a client cannot choose by forged fields.
#[test]
fn policies_do_not_see_what_only_proxies_may_say() {
    let upstream = Upstream::start(responder::ok("hello"));
    let yaml = |top: &str| {
        format!(
            "listen: [127.0.0.1:0]
workers: 1
{top}limits:
  ip: {{algorithm: fixed_window, key: 'header:X-Real-IP', quota: 2, window: 24h}}
  id: {{algorithm: fixed_window, key: 'header:X-Request-Id', quota: 2, window: 24h}}
  hop: {{algorithm: fixed_window, key: 'header:X-Key', quota: 2, window: 24h}}
caches: {{c: {{mode: ttl, ttl: 1h, partition_by: ['header:X-Client-IP']}}}}
upstreams: {{u: {{targets: [{}], retry: {{extra_attempts: 0}}}}}}
routes:
  - {{match: {{path: /vip, headers: {{X-Auth-Request-User: root}}}}, respond: {{status: 200, body: vip}}}}
  - {{match: {{path: /vip}}, respond: {{status: 403, body: no}}}}
  - {{match: {{path: /hop, headers: {{X-Tier: gold}}}}, respond: {{status: 200, body: gold}}}}
  - {{match: {{path: /hop}}, respond: {{status: 403, body: no}}}}
  - {{match: {{path: /ip}}, limits: [ip], respond: {{status: 200, body: x}}}}
  - {{match: {{path: /id}}, limits: [id], respond: {{status: 200, body: x}}}}
  - {{match: {{path: /key}}, limits: [hop], respond: {{status: 200, body: x}}}}
  - {{match: {{path: /cached}}, cache: c, upstream: u}}
",
            upstream.url()
        )
    };
    for (top, is_trusted) in [("", false), (TRUSTED, true)] {
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml(top)).start();
        let mut client = weir.connect();
        let vip = "GET /vip HTTP/1.1\r\nHost: a\r\nX-Auth-Request-User: root\r\n\r\n";
        assert_eq!(send(&mut client, vip), if is_trusted { 200 } else { 403 });
        for (path, field) in [("/ip", "X-Real-IP"), ("/id", "X-Request-Id")] {
            let statuses: Vec<u16> = (0..5)
                .map(|n| send(&mut client, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n{field}: 10.0.0.{n}\r\n\r\n")))
                .collect();
            let expected = if is_trusted { [200; 5] } else { [200, 200, 429, 429, 429] };
            assert_eq!(statuses, expected, "{field}");
        }
        let before = upstream.request_count();
        for n in 0..4 {
            assert_eq!(
                send(&mut client, &format!("GET /cached HTTP/1.1\r\nHost: a\r\nX-Client-IP: 10.0.0.{n}\r\n\r\n")),
                200
            );
        }
        assert_eq!(upstream.request_count() - before, if is_trusted { 4 } else { 1 });
        // Named by Connection: the upstream would not see it, so nothing here does, whoever the peer is.
        let hop = "GET /hop HTTP/1.1\r\nHost: a\r\nConnection: X-Tier\r\nX-Tier: gold\r\n\r\n";
        assert_eq!(send(&mut client, hop), 403);
        assert_eq!(send(&mut client, "GET /hop HTTP/1.1\r\nHost: a\r\nX-Tier: gold\r\n\r\n"), 200);
        let statuses: Vec<u16> = (0..3)
            .map(|n| {
                send(&mut client, &format!("GET /key HTTP/1.1\r\nHost: a\r\nConnection: X-Key\r\nX-Key: {n}\r\n\r\n"))
            })
            .collect();
        assert_eq!(statuses, [200, 200, 429], "a key that nobody else sees");
    }
}

/// RFC 9110 section 9.3.8.
#[test]
fn trace_passes_only_where_a_route_names_it_and_never_with_content() {
    let upstream = Upstream::start(responder::ok("hello"));
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nupstreams: {{u: {{targets: [{}], retry: {{extra_attempts: 0}}}}}}\nroutes:\n  - {{match: {{path: /any}}, upstream: u}}\n  - {{match: {{path: /named, methods: [TRACE, GET]}}, upstream: u}}\n",
        upstream.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    for (path, more, status) in [
        ("/any", "\r\n", 405),
        ("/any", "Content-Length: 2\r\n\r\nhi", 405),
        ("/named", "\r\n", 200),
        ("/named", "Content-Length: 0\r\n\r\n", 200),
        ("/named", "Content-Length: 2\r\n\r\nhi", 400),
        ("/named", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ] {
        let mut client = weir.connect();
        client.send(format!("TRACE {path} HTTP/1.1\r\nHost: a\r\n{more}"));
        let response = client.read_response();
        assert_eq!(response.status(), status, "{path} {more:?}");
        assert_eq!(response.field("allow").is_some(), status == 405);
    }
    assert_eq!(upstream.request_count(), 2);
}

/// Review A18: the grammar allows it, the strictest servers do not.
#[test]
fn a_content_length_is_forwarded_in_its_one_form_and_odd_ones_are_refused_on_demand() {
    let upstream = Upstream::start(responder::ok("hello"));
    for (top, is_strict) in [("", false), ("server: {strict_content_length: true}\n", true)] {
        let weir = gateway(&upstream, top, "");
        for (written, is_plain) in [
            (" 3", true),
            ("3", true),
            (" 003", false),
            ("03", false),
            ("  3", false),
            ("\t3", false),
            (" 3 ", false),
            (" 3\t", false),
        ] {
            let before = upstream.request_count();
            let mut client = weir.connect();
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\ncontent-length:{written}\r\n\r\nabc"));
            let response = client.read_response();
            if is_strict && !is_plain {
                assert_eq!((response.status(), response.field("connection")), (400, Some("close")), "{written:?}");
                assert_eq!(upstream.request_count(), before);
            } else {
                assert_eq!(response.status(), 200, "{written:?}");
                let head = String::from_utf8(upstream.requests().pop().unwrap().head.raw).unwrap();
                assert!(head.contains("\r\nContent-Length: 3\r\n"), "{head}");
            }
        }
        let mut client = weir.connect();
        assert_eq!(send(&mut client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"), 200);
    }
}

/// RFC 9112 section 9.6: closing with unread bytes would reset the connection, and the response could be lost.
#[test]
fn requests_behind_the_last_one_do_not_cost_its_response() {
    let large = "x".repeat(400_000);
    let upstream = Upstream::start(responder::ok(large.clone()));
    let weir = gateway(&upstream, "", "");
    for round in 0..10 {
        let mut stream = std::net::TcpStream::connect(weir.addr()).unwrap();
        let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec();
        bytes.extend(b"GET /more HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2_000));
        std::io::Write::write_all(&mut stream, &bytes).unwrap();
        let mut received = Vec::new();
        let result = std::io::Read::read_to_end(&mut stream, &mut received);
        assert!(result.is_ok(), "round {round}: {result:?} after {} bytes", received.len());
        assert!(received.ends_with(large.as_bytes()), "round {round}: {} bytes", received.len());
    }
    assert_eq!(upstream.requests().iter().filter(|request| request.head.target() == "/more").count(), 0);
}
