//! Header fields with variables, in requests and responses, with their neighbours: cache, limits, retries, HTTP/2 over TLS, trusted proxies.

use std::process::Command;

use testkit::{Certificates, DEADLINE, Upstream, Weir, responder, wait};

fn gateway(upstream: &Upstream, top: &str, route: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 1\n{top}upstreams: {{u: {{targets: [{}], eject: none}}}}\nroutes:\n  - name: shop\n    match: {{path: /*}}\n    upstream: u\n{route}",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

const REQUEST: &str = "    headers:\n      request:\n        set: {X-Real-IP: '{client_ip}', X-What: '{method} {scheme}://{host}{path}?{query} by {route}', X-Id: '{request_id}', X-Copy: '<{header.x-a}>', X-None: '{tls.sni}', X-Fixed: 'a'}\n        add: {X-Added: 'of {client_ip}'}\n";

#[test]
fn upstreams_see_what_the_request_has() {
    let upstream = Upstream::start(responder::ok("x"));
    let weir = gateway(&upstream, "", REQUEST);
    let fields = [("X-Real-IP", "6.6.6.6"), ("X-A", "one"), ("X-A", "two"), ("X-None", "forged"), ("X-Added", "own")];
    let response = weir.request("GET", "/a/../b%7e?c=d", &fields, "");
    let seen = upstream.requests().remove(0).head;
    assert_eq!(seen.field("x-real-ip"), Some("127.0.0.1"));
    let what = format!("GET http://{}/b~?c=d by shop", seen.field("host").unwrap());
    assert_eq!(seen.field("x-what"), Some(&*what));
    assert_eq!(seen.field("x-id"), response.field("x-request-id"));
    assert_eq!(seen.field("x-copy"), Some("<one, two>"));
    assert_eq!((seen.field("x-none"), seen.field("x-fixed")), (None, Some("a")), "an empty value is no field");
    assert_eq!(seen.all("x-added"), ["own", "of 127.0.0.1"]);
}

#[test]
fn the_client_is_the_one_behind_trusted_proxies_and_every_request_has_its_own_values() {
    let upstream = Upstream::start(responder::ok("x"));
    let weir = gateway(&upstream, "trusted_proxies: [127.0.0.0/8]\n", REQUEST);
    let mut client = weir.connect();
    for address in ["192.0.2.7", "2001:db8::1"] {
        client.request("GET", "/", &[("X-Forwarded-For", address)], "");
        assert_eq!(client.read_response().status(), 200);
    }
    let seen: Vec<String> =
        upstream.requests().iter().map(|one| one.head.field("x-real-ip").unwrap().to_owned()).collect();
    assert_eq!(seen, ["192.0.2.7", "2001:db8::1"]);
}

#[test]
fn values_of_clients_cannot_end_a_line() {
    let upstream = Upstream::start(responder::ok("x"));
    let weir = gateway(&upstream, "", REQUEST);
    for target in ["/%0d%0aX-Evil:%201", "/?a=%0d%0aX-Evil:%201", "/%00", "/a%20b"] {
        let mut client = weir.connect();
        client.request("GET", target, &[("X-A", "a\tb %0d%0aX-Evil: 1")], "");
        client.read_response();
    }
    assert!(upstream.errors().is_empty(), "{:?}", upstream.errors());
    let seen = upstream.requests();
    assert!(!seen.is_empty());
    for one in &seen {
        assert_eq!(one.head.field("x-evil"), None);
        assert_eq!(one.head.all("x-what").len(), 1);
    }
}

#[test]
fn responses_of_upstream_cache_gateway_and_errors_have_values_of_their_own_request() {
    let upstream = Upstream::start(|conn, _| conn.respond(200, &[("X-Path", "the upstream's")], "x"));
    let top = "caches: {c: {mode: ttl, ttl: 5m, query: []}}\nlimits: {l: {algorithm: fixed_window, key: client_ip, quota: 3, window: 1h}}\n";
    let route = "    cache: c\n    limits: [l]\n    headers: {response: {set: {X-Path: '{path}?{query}', X-Id: '{request_id}'}}}\n";
    let weir = gateway(&upstream, top, route);
    let mut client = weir.connect();
    for (number, status) in [(1, 200), (2, 200), (3, 200), (4, 429)] {
        let response = client.get(&format!("/a?n={number}"));
        assert_eq!((response.status(), response.field("x-path")), (status, Some(&*format!("/a?n={number}"))));
        assert_eq!(response.field("x-id"), response.field("x-request-id"));
        assert_eq!(response.head.all("x-path").len(), 1);
    }
    assert_eq!(upstream.requests().len(), 1, "the others came from the cache");
}

#[test]
fn upstream_and_trace_are_those_of_the_attempt() {
    let (first, second) = (Upstream::start(responder::reset()), Upstream::start(responder::ok("x")));
    let yaml = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 1\ntelemetry: {{traces: {{endpoint: 'http://127.0.0.1:9/v1/traces', sample: 100%}}}}\nupstreams:\n  a: {{targets: [{}], eject: none, retry: {{extra_attempts: 0}}}}\n  b: {{targets: [{}]}}\nroutes:\n  - match: {{path: /*}}\n    upstream: a\n    fallback: [b]\n    headers:\n      request: {{set: {{X-Upstream: '<{{upstream}}>', X-Trace: '{{trace_id}}'}}}}\n",
        first.url(),
        second.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    assert_eq!(weir.get("/").status(), 200);
    let (first, second) = (first.requests().remove(0).head, second.requests().remove(0).head);
    assert_eq!((first.field("x-upstream"), second.field("x-upstream")), (Some("<a>"), Some("<b>")));
    for head in [first, second] {
        // traceparent: version, trace id, span id, flags.
        let context = head.field("traceparent").unwrap().to_owned();
        assert_eq!(head.field("x-trace"), context.split('-').nth(1));
    }
}

#[test]
fn a_retry_sends_the_values_once() {
    let upstream = Upstream::start(responder::reset());
    let weir = gateway(&upstream, "", REQUEST);
    assert_eq!(weir.get("/").status(), 502);
    let seen = upstream.requests();
    assert!(seen.len() > 1);
    assert!(seen.iter().all(|one| one.head.all("x-real-ip").len() == 1 && one.head.all("x-added").len() == 1));
}

#[test]
fn http2_over_tls_has_the_variables_of_the_handshake() {
    let upstream = Upstream::start(responder::ok("x"));
    let certificates = Certificates::localhost();
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, tls: {{certificates: [{{cert: {}, key: {}}}]}}}}]\nworkers: 1\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u, headers: {{request: {{set: {{X-Tls: '{{tls.version}} {{tls.sni}} {{scheme}}'}}}}, response: {{set: {{X-Sni: '{{tls.sni}}'}}}}}}}}]\n",
        certificates.certificate().display(),
        certificates.key().display(),
        upstream.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let port = weir.addr().port();
    let output = Command::new("curl")
        .args([
            "-sS",
            "-m",
            "20",
            "--http2",
            "--tlsv1.3",
            "-D",
            "-",
            "--cacert",
            certificates.authority().to_str().unwrap(),
        ])
        .args(["--resolve", &format!("localhost:{port}:127.0.0.1"), &format!("https://localhost:{port}/")])
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: curl is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("HTTP/2 200") && text.contains("x-sni: localhost\r\n"), "{output:?}");
    assert_eq!(upstream.requests()[0].head.field("x-tls"), Some("TLSv1.3 localhost https"));
}

/// An authenticator `keys` with a key for each consumer.
fn keys(directory: &tempfile::TempDir, consumers: &[(&str, &str)]) -> String {
    let file = directory.path().join("keys.yaml");
    let lines = consumers.iter().map(|(consumer, key)| {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("- {{id: {consumer}, sha256: {digest}, consumer: {consumer}, tier: gold, meta: {{region: north}}}}\n")
    });
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    format!("auth: {{keys: {{api_key: {{store: {{file: {}}}}}}}}}\n", file.display())
}

const ALICE: &str = "a-key-of-an-earlier-gateway-1";
const BOB: &str = "a-key-of-an-earlier-gateway-2";

#[test]
fn upstreams_see_who_sends_a_request_and_nobody_else_says_so() {
    let upstream = Upstream::start(responder::ok("x"));
    let directory = tempfile::tempdir().unwrap();
    let key = "a-key-of-an-earlier-gateway-1";
    let top = keys(&directory, &[("shop", key)]);
    let route = "    auth: keys\n    headers: {request: {set: {X-Who: '{consumer}/{tier}/{meta.region}', X-Claim: '{claim.sub}'}}}\n  \
                 - {match: {path: /open}, auth: none, upstream: u, headers: {request: {set: {X-Who: '{consumer}'}}}}\n";
    let weir = gateway(&upstream, &top, route);
    let forged = [("X-API-Key", key), ("X-Who", "root"), ("X-Claim", "root"), ("x_who", "root")];
    assert_eq!(weir.request("GET", "/a", &forged, "").status(), 200);
    assert_eq!(weir.request("GET", "/open", &forged, "").status(), 200);
    let seen = upstream.requests();
    assert_eq!(seen[0].head.all("x-who"), ["shop/gold/north"]);
    for (one, name) in [(0, "x-claim"), (0, "x_who"), (1, "x-who"), (1, "x_who")] {
        assert!(seen[one].head.all(name).is_empty(), "{name}: what is not known is no field");
    }
}

#[test]
fn what_is_fetched_in_the_background_is_for_the_same_consumer() {
    let upstream = Upstream::start(|conn, request| {
        let who = request.head.field("x-who").unwrap_or("nobody").to_owned();
        conn.respond(200, &[("Cache-Control", "public, max-age=0, stale-while-revalidate=100")], &who)
    });
    let directory = tempfile::tempdir().unwrap();
    let top =
        keys(&directory, &[("alice", ALICE), ("bob", BOB)]) + "caches: {own: {mode: http, partition_by: [consumer]}}\n";
    let route = "    auth: keys\n    cache: own\n    headers: {request: {set: {X-Who: '{consumer}'}}}\n";
    let weir = gateway(&upstream, &top, route);
    for (round, (key, who)) in [(ALICE, "alice"), (BOB, "bob"), (ALICE, "alice"), (BOB, "bob")].into_iter().enumerate()
    {
        assert_eq!(weir.request("GET", "/", &[("X-API-Key", key)], "").text(), who);
        // From the third request on a stored response is there, and is fetched again behind it.
        wait::until(DEADLINE, "the fetch", || upstream.request_count() > round);
    }
    assert!(upstream.requests().iter().all(|seen| seen.head.field("x-who").is_some()), "the fetches say who asks");
}

#[test]
fn a_response_that_varies_by_what_the_gateway_writes_is_stored_for_nobody() {
    let upstream = Upstream::start(|conn, request| {
        let who = request.head.field("x-who").unwrap_or("nobody").to_owned();
        conn.respond(200, &[("Cache-Control", "public, max-age=60"), ("Vary", "X-Who")], &who)
    });
    let directory = tempfile::tempdir().unwrap();
    let top = keys(&directory, &[("alice", ALICE), ("bob", BOB)]) + "caches: {all: {mode: http, shared: true}}\n";
    let route = "    auth: keys\n    cache: all\n    headers: {request: {set: {X-Who: '{consumer}'}}}\n  \
                 - {match: {path: /lang}, upstream: u, cache: all, headers: {request: {set: {X-Who: '{header.x-lang}'}}}}\n";
    let weir = gateway(&upstream, &top, route);
    for (key, who) in [(ALICE, "alice"), (BOB, "bob"), (ALICE, "alice")] {
        assert_eq!(weir.request("GET", "/", &[("X-API-Key", key)], "").text(), who);
    }
    for language in ["en", "de", "en"] {
        assert_eq!(weir.request("GET", "/lang", &[("X-Lang", language)], "").text(), language);
    }
}
