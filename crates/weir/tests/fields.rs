//! Header fields on their way through the gateway, with caches, limits and both kinds of peers.

use testkit::{RawClient, Upstream, Weir, answer};

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
    let upstream = Upstream::start(answer::ok("hello"));
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
    let upstream = Upstream::start(answer::ok("hello"));
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
    let upstream = Upstream::start(answer::raw(
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
fn options_about_the_gateway_itself_are_answered_by_it() {
    let upstream = Upstream::start(answer::ok("hello"));
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
    let upstream = Upstream::start(answer::ok("hello"));
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
