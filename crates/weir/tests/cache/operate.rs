//! What operators see and do.

use std::time::{Duration, Instant};

use testkit::{Gate, Message, RawClient, Signal, Upstream, Weir, responder, wait};

use crate::{DEADLINE, count, counting, gateway, gateway_with, x_cache};

fn purge(weir: &Weir, body: &str) -> Message {
    let mut admin = RawClient::connect(weir.admin_addr());
    let host = weir.admin_addr().to_string();
    admin.request("POST", "/cache/purge", &[("Host", &host), ("Content-Type", "application/json")], body);
    admin.read_response()
}

fn text(weir: &Weir, target: &str) -> String {
    weir.get(target).text().to_owned()
}

#[test]
fn purges_take_out_what_they_name() {
    let origin = Upstream::start(counting(&[("Cache-Tag", "all, even"), ("Surrogate-Key", "s1 s2"), ("Vary", "X-V")]));
    let weir = gateway(&origin, "{mode: ttl}");
    let fill = || {
        for target in ["/a/1", "/a/1?q", "/a/2", "/b/1"] {
            weir.get(target);
        }
        weir.request("GET", "/a/1", &[("X-V", "other")], "");
    };
    for (body, purged) in [
        (r#"{"url": "http://test/a/1"}"#, 2),
        (r#"{"url": "test/a/1?q"}"#, 1),
        (r#"{"url": "http://other/a/1"}"#, 0),
        (r#"{"prefix": "http://TEST:80/a/"}"#, 4),
        (r#"{"url": "HTTP://test:/a/2"}"#, 1),
        (r#"{"prefix": "HTTP://Test:/a/"}"#, 4),
        (r#"{"tag": "even"}"#, 5),
        (r#"{"tag": "s2"}"#, 5),
        (r#"{"tag": "eve"}"#, 0),
        (r#"{"all": true}"#, 5),
        (r#"{"all": true, "cache": "c"}"#, 5),
    ] {
        fill();
        let before = text(&weir, "/b/1");
        let response = purge(&weir, body);
        assert_eq!(response.text(), format!("{{\"purged\":{purged}}}"), "{body}");
        let named_b = purged == 5;
        assert_eq!(text(&weir, "/b/1") == before, !named_b, "{body}");
    }
    assert_eq!(purge(&weir, r#"{"all": true, "cache": "other"}"#).status(), 422);
    assert_eq!(purge(&weir, r#"{"url": "no path"}"#).status(), 422);
}

#[test]
fn a_soft_purge_makes_stale_what_may_still_stand_in() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, "{mode: ttl, stale_if_error: 1h}");
    assert_eq!(text(&weir, "/"), "answer 1");
    assert_eq!(purge(&weir, r#"{"all": true, "soft": true}"#).text(), r#"{"purged":1}"#);
    assert_eq!(text(&weir, "/"), "answer 2", "the origin is asked again");
    assert_eq!(purge(&weir, r#"{"all": true, "soft": true}"#).text(), r#"{"purged":1}"#);
    // In the millisecond of the purge it would have been stale for none.
    let purged = Instant::now();
    wait::until(DEADLINE, "time that clocks of milliseconds can tell apart", || purged.elapsed().as_millis() > 3);
    origin.stop();
    let response = weir.get("/");
    assert_eq!((response.status(), response.text(), x_cache(&response)), (200, "answer 2", Some("HIT")));
    assert!(response.field("cache-status").is_some_and(|status| status.contains("ttl=-")), "{response:?}");
    assert_eq!(count(&weir, "stale"), 1);
}

#[test]
fn a_fetch_that_began_before_a_purge_does_not_bring_back_what_was_purged() {
    let gate = testkit::Gate::new();
    let origin = Upstream::start(testkit::responder::gated(&gate, testkit::responder::ok("old")));
    let weir = gateway(&origin, "{mode: ttl}");
    let mut client = weir.connect();
    client.request("GET", "/", &[], "");
    origin.wait_for_requests(1);
    purge(&weir, r#"{"all": true}"#);
    gate.open();
    assert_eq!(client.read_response().text(), "old");
    assert_eq!(x_cache(&weir.get("/")), Some("MISS"));
    assert_eq!(x_cache(&weir.get("/")), Some("HIT"));
}

#[test]
fn requests_after_a_purge_do_not_wait_for_a_fetch_that_began_before_it() {
    let gate = testkit::Gate::new();
    let old = responder::gated(&gate, responder::ok("old"));
    let origin = Upstream::start(responder::in_order([old, responder::ok("new")]));
    let weir = gateway(&origin, "{mode: ttl}");
    let mut early = weir.connect();
    early.request("GET", "/", &[], "");
    origin.wait_for_requests(1);
    purge(&weir, r#"{"all": true}"#);
    assert_eq!(text(&weir, "/"), "new");
    gate.open();
    assert_eq!(early.read_response().text(), "old");
    let response = weir.get("/");
    assert_eq!(
        (response.text(), x_cache(&response)),
        ("new", Some("HIT")),
        "the old answer took no place of the new one"
    );
}

#[test]
fn the_cache_survives_a_reload() {
    let origin = Upstream::start(counting(&[]));
    let yaml = |cache: &str| {
        format!(
            "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 2\nupstreams: {{u: {{targets: [{}]}}}}\ncaches: {{c: {cache}}}\n\
             routes:\n  - match: {{path: /*}}\n    upstream: u\n    cache: c\n",
            origin.url()
        )
    };
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml("{mode: ttl}")).start();
    assert_eq!(text(&weir, "/"), "answer 1");
    let reload = |cache: &str| {
        let mark = weir.mark();
        weir.rewrite_config(&yaml(cache));
        weir.signal(Signal::HUP);
        weir.wait_for_line_after(mark, "the reload", DEADLINE, |line| {
            line.contains("configuration reloaded").then_some(())
        });
    };
    reload("{mode: ttl, headers: [x-cache]}");
    let hit = weir.get("/");
    assert_eq!((hit.text(), x_cache(&hit), hit.field("age")), ("answer 1", Some("HIT"), None));
    assert_eq!(count(&weir, "entries"), 1);
    // Responses that were separated by nothing are not those of a tenant.
    reload("{mode: ttl, partition_by: ['header:Authorization']}");
    assert_eq!(text(&weir, "/"), "answer 2");
}

#[test]
fn metrics_and_the_access_log_tell_of_it() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway_with(&origin, "{mode: ttl}", "access_log: {path: stdout, sample: 100%}", "");
    for _ in 0..3 {
        weir.get("/");
    }
    weir.request("DELETE", "/", &[], "");
    let metrics = weir.admin_get("/metrics");
    for line in [
        "cache_hits_total{cache=\"c\"} 2",
        "cache_misses_total{cache=\"c\"} 1",
        "cache_stored_total{cache=\"c\"} 1",
        "cache_bypassed_total{cache=\"c\"} 1",
        "cache_entries{cache=\"c\"} 1",
        "cache_evictions_total{cache=\"c\"} 0",
        "cache_waiting{cache=\"c\"} 0",
    ] {
        assert!(metrics.text().lines().any(|other| other == line), "{line}\n{}", metrics.text());
    }
    wait::until(DEADLINE, "the log", || weir.stdout().matches("\"cache\":").count() == 4);
    for (state, times) in [("hit", 2), ("miss", 1), ("bypass", 1)] {
        assert_eq!(weir.stdout().matches(&format!("\"cache\":\"{state}\"")).count(), times, "{state}");
    }
}

#[test]
fn the_duration_of_a_miss_ends_with_its_client_and_not_with_the_fetch() {
    // More than the sockets take in.
    let origin = Upstream::start(responder::large(16 << 20));
    let log = "access_log: {path: stdout, sample: 100%}";
    let weir = gateway_with(&origin, "{mode: ttl, max_body: 32MiB}", log, "");
    let mut slow = weir.connect();
    slow.set_deadline(DEADLINE);
    let requested = Instant::now();
    slow.request("GET", "/", &[], "");
    wait::until(DEADLINE, "the answer to be stored", || count(&weir, "entries") == 1);
    let fetched = requested.elapsed();
    wait::until(DEADLINE, "as long again to pass", || requested.elapsed() > fetched * 2);
    assert_eq!(slow.read_response().body.len(), 16 << 20);
    let line = wait::some(DEADLINE, "the log", || {
        weir.stdout().lines().find(|line| line.contains("\"cache\":\"miss\"")).map(str::to_owned)
    });
    let duration = line.split_once("\"duration_ms\":").and_then(|(_, rest)| rest.split(',').next()).unwrap();
    let duration: f64 = duration.parse().unwrap();
    assert!(
        duration > fetched.as_secs_f64() * 1000.0,
        "{line}, although {fetched:?} passed before the first byte was read"
    );
}

/// The kernel announces space only when much of its buffer is free, which such a reader may take longer for than it may take nothing: it is not cut off,
/// neither as the first client of the fetch nor with the stored response.
#[test]
fn a_client_that_reads_slowly_gets_all_of_a_stored_response() {
    const LARGE: usize = 32 << 20;
    // The last byte waits, so that the fetch lasts as long as its first client reads slowly.
    let gate = Gate::new();
    let gated = gate.clone();
    let origin = Upstream::start(move |conn, _| {
        conn.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"))?;
        conn.write(vec![b'x'; LARGE - 1])?;
        gated.pass(DEADLINE);
        conn.write("x")
    });
    let weir = gateway_with(&origin, "{mode: ttl, max_body: 64MiB}", "server: {body_idle_timeout: 500ms}", "");
    for expected in ["MISS", "HIT"] {
        let mut slow = weir.connect();
        slow.set_deadline(DEADLINE);
        slow.request("GET", "/", &[], "");
        let head = slow.read_head();
        assert_eq!(head.field("x-cache"), Some(expected));
        // Six times as long as a client may take nothing.
        let (mut next, mut pieces, mut count) = (Instant::now(), 0, 0);
        wait::until(DEADLINE, "three seconds of slow reading", || {
            if next <= Instant::now() {
                next += Duration::from_millis(100);
                count += slow.read_piece().map_or(0, |piece| piece.data.len());
                pieces += 1;
            }
            pieces == 30
        });
        gate.open();
        assert_eq!(count + slow.read_body().len(), LARGE, "{expected}: cut off");
    }
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn the_public_cachez_of_the_environment_only_mode() {
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).env("CACHE_TTL_SECONDS", "60").start();
    let cachez = || weir.get("/cachez").text().to_owned();
    assert!(
        cachez().starts_with(r#"{"hits":0,"misses":0,"hit_ratio":0.0,"backend":"memory","ttl":"60s""#),
        "{}",
        cachez()
    );
    assert_eq!(x_cache(&weir.get("/slow")), Some("MISS"));
    assert_eq!(x_cache(&weir.get("/slow")), Some("HIT"));
    assert!(cachez().starts_with(r#"{"hits":1,"misses":1,"hit_ratio":0.5"#), "{}", cachez());
    for local in ["/gates", "/healthz", "/cachez", "/"] {
        assert_eq!(x_cache(&weir.get(local)), None, "{local}");
    }
    let off = Weir::builder(env!("CARGO_BIN_EXE_weir")).env("CACHE_ENABLED", "false").start();
    assert_eq!(off.get("/cachez").status(), 404);
    assert_eq!(x_cache(&off.get("/slow")), None);
}
