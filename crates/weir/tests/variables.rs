//! Header fields with variables, in requests and responses, with their neighbours: cache, limits, retries, HTTP/2 over TLS, trusted proxies.

use std::process::Command;

use testkit::{Certificates, Upstream, Weir, answer};

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
    let upstream = Upstream::start(answer::ok("x"));
    let weir = gateway(&upstream, "", REQUEST);
    let fields = [("X-Real-IP", "6.6.6.6"), ("X-A", "one"), ("X-A", "two"), ("X-None", "forged"), ("X-Added", "own")];
    let reply = weir.request("GET", "/a/../b%7e?c=d", &fields, "");
    let seen = upstream.requests().remove(0).head;
    assert_eq!(seen.field("x-real-ip"), Some("127.0.0.1"));
    let what = format!("GET http://{}/b~?c=d by shop", seen.field("host").unwrap());
    assert_eq!(seen.field("x-what"), Some(&*what));
    assert_eq!(seen.field("x-id"), reply.field("x-request-id"));
    assert_eq!(seen.field("x-copy"), Some("<one, two>"));
    assert_eq!((seen.field("x-none"), seen.field("x-fixed")), (None, Some("a")), "an empty value is no field");
    assert_eq!(seen.all("x-added"), ["own", "of 127.0.0.1"]);
}

#[test]
fn the_client_is_the_one_behind_trusted_proxies_and_every_request_has_its_own_values() {
    let upstream = Upstream::start(answer::ok("x"));
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
    let upstream = Upstream::start(answer::ok("x"));
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
        let reply = client.get(&format!("/a?n={number}"));
        assert_eq!((reply.status(), reply.field("x-path")), (status, Some(&*format!("/a?n={number}"))));
        assert_eq!(reply.field("x-id"), reply.field("x-request-id"));
        assert_eq!(reply.head.all("x-path").len(), 1);
    }
    assert_eq!(upstream.requests().len(), 1, "the others came from the cache");
}

#[test]
fn a_retry_sends_the_values_once() {
    let upstream = Upstream::start(answer::reset());
    let weir = gateway(&upstream, "", REQUEST);
    assert_eq!(weir.get("/").status(), 502);
    let seen = upstream.requests();
    assert!(seen.len() > 1);
    assert!(seen.iter().all(|one| one.head.all("x-real-ip").len() == 1 && one.head.all("x-added").len() == 1));
}

#[test]
fn http2_over_tls_has_the_variables_of_the_handshake() {
    let upstream = Upstream::start(answer::ok("x"));
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
