//! Copies of requests: whole, marked, counted, and never in the way of the request that they are made of.

use testkit::{DEADLINE, Gate, Upstream, Weir, ports::Port, responder, wait};

use super::{metric, wrong};

fn config(upstream: &Upstream, shadow: &str, mirror: &str, route: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\ncaches: {{c: {{mode: ttl}}}}\nupstreams:\n  u: {{targets: [{}]}}\n  shadow: {{targets: [\"{shadow}\"], retry: none, eject: none}}\nroutes:\n  - name: r\n    match: {{path: /*}}\n    upstream: u\n    mirror: {mirror}\n{route}",
        upstream.url()
    )
}

fn gateway(upstream: &Upstream, shadow: &str, mirror: &str, route: &str) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(config(upstream, shadow, mirror, route)).start()
}

fn outcome(weir: &Weir, outcome: &str) -> usize {
    metric(weir, &format!("mirrored_requests_total{{route=\"r\",outcome=\"{outcome}\"}}"))
}

#[test]
fn a_copy_has_what_the_request_has_and_a_mark() {
    let (upstream, shadow) = (Upstream::start(responder::ok("real")), Upstream::start(responder::status(500)));
    let route = "    rewrite: {prefix: /v2}\n    headers: {request: {set: {X-Set: \"1\", X-From: '{client_ip}', X-By: '{request_id}'}}}\n    cache: c\n";
    let weir = gateway(&upstream, &shadow.url(), "{upstream: shadow}", route);
    for _ in 0..2 {
        let response = weir.request("GET", "/a?q=1", &[("X-Mine", "2"), ("X-Weir-Mirror", "forged")], "");
        assert_eq!((response.status(), response.text()), (200, "real"));
    }
    shadow.wait_for_requests(2);
    assert_eq!(upstream.request_count(), 1, "the second one was a hit, and is copied all the same");
    for copy in shadow.requests() {
        assert_eq!((copy.head.method(), copy.head.target()), ("GET", "/v2/a?q=1"));
        assert_eq!((copy.head.field("x-mine"), copy.head.field("x-set")), (Some("2"), Some("1")));
        assert_eq!(copy.head.all("x-weir-mirror"), ["r"]);
        assert_eq!(copy.head.field("x-from"), Some("127.0.0.1"));
    }
    let ids = |seen: &Upstream| seen.requests()[0].head.field("x-by").unwrap().to_owned();
    assert_eq!(ids(&shadow), ids(&upstream), "the copy has the id of its request");
    wait::until(DEADLINE, "both counted", || outcome(&weir, "sent") == 2);
}

#[test]
fn methods_that_change_something_are_copied_only_if_named_and_with_their_body() {
    let (upstream, shadow) = (Upstream::start(responder::echo()), Upstream::start(responder::ok("")));
    for (mirror, copied) in [("{upstream: shadow}", 0), ("{upstream: shadow, methods: [POST], body: 10B}", 2)] {
        shadow.forget();
        let weir = gateway(&upstream, &shadow.url(), mirror, "");
        let mut client = weir.connect();
        client.request("POST", "/x", &[("Host", "a")], "0123456789");
        assert!(client.read_response().body.ends_with(b"0123456789"));
        client
            .send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
        assert!(client.read_response().body.ends_with(b"abcde"));
        // Too large, whether its length is said or not.
        client.request("POST", "/x", &[("Host", "a")], "0123456789a");
        assert!(client.read_response().body.ends_with(b"0123456789a"));
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n");
        assert!(client.read_response().body.ends_with(b"0123456789a"));
        wait::until(DEADLINE, "the copies", || outcome(&weir, "sent") == copied && outcome(&weir, "skipped") == copied);
        let bodies: Vec<Vec<u8>> = shadow.requests().iter().map(|seen| seen.body.clone()).collect();
        let expected: [&[u8]; 2] = [b"0123456789", b"abcde"];
        assert_eq!(bodies, expected[..copied], "{mirror}");
    }
}

#[test]
fn a_shadow_that_never_responds_delays_nobody_and_is_bounded() {
    let gate = Gate::new();
    let (upstream, shadow) =
        (Upstream::start(responder::ok("real")), Upstream::start(responder::gated(&gate, responder::ok(""))));
    let weir = gateway(&upstream, &shadow.url(), "{upstream: shadow, timeout: 1h}", "");
    let mut client = weir.connect();
    for _ in 0..120 {
        assert_eq!(client.get("/x").text(), "real");
    }
    wait::until(DEADLINE, "the bound", || outcome(&weir, "skipped") == 20);
    wait::until(DEADLINE, "the copies at the shadow", || shadow.open() == 100);
    gate.open();
    wait::until(DEADLINE, "their responses", || outcome(&weir, "sent") == 100);
    assert_eq!(client.get("/x").text(), "real");
    wait::until(DEADLINE, "room for another", || outcome(&weir, "sent") == 101);
}

#[test]
fn a_dead_shadow_fails_no_request() {
    let (upstream, dead) = (Upstream::start(responder::ok("real")), Port::free());
    let weir = gateway(&upstream, &format!("http://{}", dead.address()), "{upstream: shadow}", "");
    let mut client = weir.connect();
    for _ in 0..10 {
        assert_eq!(client.get("/x").text(), "real");
    }
    wait::until(DEADLINE, "the failures", || outcome(&weir, "failed") == 10);
    assert_eq!(upstream.request_count(), 10);
}

#[test]
fn refused_requests_are_not_copied_and_none_of_a_share_of_nothing() {
    let (upstream, shadow) = (Upstream::start(responder::ok("real")), Upstream::start(responder::ok("")));
    let yaml = config(&upstream, &shadow.url(), "{upstream: shadow}", "    limits: [few]\n");
    let yaml = format!("limits: {{few: {{algorithm: fixed_window, quota: 1, window: 1h}}}}\n{yaml}");
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let statuses: Vec<u16> = (0..3).map(|_| weir.get("/x").status()).collect();
    assert_eq!(statuses, [200, 429, 429]);
    wait::until(DEADLINE, "the copy", || outcome(&weir, "sent") == 1);
    assert_eq!(shadow.request_count(), 1);
    let weir = gateway(&upstream, &shadow.url(), "{upstream: shadow, share: 0%}", "");
    (0..5).for_each(|_| assert_eq!(weir.get("/x").status(), 200));
    assert_eq!((outcome(&weir, "sent"), outcome(&weir, "skipped")), (0, 0));
}

#[test]
fn nonsense_is_refused() {
    let upstream = Upstream::start(responder::ok("x"));
    for (mirror, message) in [
        ("{upstream: u}", "serves the route already"),
        ("{upstream: nobody}", "there is no upstream `nobody`"),
        ("{upstream: shadow, methods: []}", "`methods` is empty"),
        ("{upstream: shadow, share: 101%}", "more than 100%"),
    ] {
        let said = wrong(&config(&upstream, "http://127.0.0.1:1", mirror, ""));
        assert!(said.contains(message), "{mirror}: {said}");
    }
}

#[test]
fn a_copy_whose_response_has_no_end_is_read_for_a_bounded_part() {
    let upstream = Upstream::start(responder::ok("real"));
    let shadow = Upstream::start(|conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        loop {
            conn.write(format!("10000\r\n{}\r\n", "x".repeat(0x10000)))?;
        }
    });
    let weir = gateway(&upstream, &shadow.url(), "{upstream: shadow, timeout: 1h}", "");
    assert_eq!(weir.get("/").text(), "real");
    wait::until(DEADLINE, "the copy has ended", || outcome(&weir, "sent") == 1);
}
