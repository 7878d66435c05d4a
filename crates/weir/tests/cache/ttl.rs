//! Mode `ttl`: the contract's cache.

use testkit::{Gate, Upstream, responder, wait};

use crate::{DEADLINE, count, counting, gateway, gateway_with, x_cache};

const TTL: &str = "{mode: ttl, ttl: 300s}";

#[test]
fn the_second_response_comes_from_the_cache() {
    let origin = Upstream::start(counting(&[("Content-Type", "text/plain"), ("X-Own", "kept")]));
    let weir = gateway(&origin, TTL);
    let mut client = weir.connect();
    let first = client.get("/a?b=c");
    assert_eq!((first.text(), x_cache(&first), first.field("age")), ("answer 1", Some("MISS"), None));
    for _ in 0..3 {
        let hit = client.get("/a?b=c");
        assert_eq!((hit.text(), x_cache(&hit)), ("answer 1", Some("HIT")));
        assert_eq!(hit.field("x-own"), Some("kept"));
        assert_eq!(hit.field("content-length"), Some("8"));
        assert!(hit.field("cache-status").is_some_and(|status| status.starts_with("weir; hit; ttl=")));
        assert_eq!(hit.head.all("age").len(), 1);
        assert_eq!(hit.head.all("date").len(), 1);
    }
    assert_eq!(client.get("/a?b=d").text(), "answer 2");
    assert_eq!(origin.request_count(), 2);
    assert_eq!((count(&weir, "hits"), count(&weir, "misses"), count(&weir, "entries")), (3, 2, 2));
    let document = weir.admin_get("/cachez");
    assert!(document.text().starts_with(r#"{"hits":3,"misses":2,"hit_ratio":0.6,"backend":"memory","ttl":"300s""#));
}

#[test]
fn the_age_grows() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, TTL);
    weir.get("/");
    wait::until(DEADLINE, "an age above 0", || {
        weir.get("/").field("age").is_some_and(|age| age.parse::<u64>().unwrap() > 0)
    });
}

#[test]
fn what_is_too_old_is_fetched_again() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, "{mode: ttl, ttl: 50ms}");
    assert_eq!(weir.get("/").text(), "answer 1");
    wait::until(DEADLINE, "a second fetch", || weir.get("/").text() != "answer 1");
}

#[test]
fn only_what_may_be_shared_is_stored() {
    for (status, fields, stored) in [
        (200, &[][..], true),
        (200, &[("Cache-Control", "no-cache, max-age=0")][..], true),
        (200, &[("Cache-Control", "no-store")][..], false),
        (200, &[("Cache-Control", "private")][..], false),
        (200, &[("Set-Cookie", "a=b")][..], false),
        (200, &[("Vary", "*")][..], false),
        (404, &[][..], false),
        (301, &[("Location", "/b")][..], false),
        (500, &[][..], false),
        (206, &[("Content-Range", "bytes 0-1/3")][..], false),
    ] {
        let origin = Upstream::start(move |conn, _| conn.respond(status, fields, "hi"));
        let weir = gateway(&origin, TTL);
        let mut client = weir.connect();
        for _ in 0..2 {
            assert_eq!(client.get("/").status(), status);
        }
        assert_eq!(origin.request_count(), if stored { 1 } else { 2 }, "{status} {fields:?}");
        assert_eq!(count(&weir, "hits"), u64::from(stored));
    }
}

#[test]
fn a_handler_that_sets_no_status_is_cached() {
    // It sends 200, as every server does for it.
    let origin = Upstream::start(responder::raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    let weir = gateway(&origin, TTL);
    assert_eq!(x_cache(&weir.get("/")), Some("MISS"));
    assert_eq!(x_cache(&weir.get("/")), Some("HIT"));
}

#[test]
fn requests_with_credentials_or_no_store_go_around_it() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, TTL);
    let mut client = weir.connect();
    assert_eq!(client.get("/").text(), "answer 1");
    for (name, value) in [("Authorization", "Bearer x"), ("Cookie", "a=b"), ("Cache-Control", "no-store")] {
        let before = origin.request_count();
        client.request("GET", "/", &[(name, value)], "");
        let response = client.read_response();
        assert_eq!((response.status(), x_cache(&response)), (200, None), "{name}");
        assert_eq!(origin.request_count(), before + 1, "{name}");
    }
    assert_eq!(client.get("/").text(), "answer 1", "nothing of theirs was stored");
    assert_eq!(x_cache(&client.get("/")), Some("HIT"));
}

#[test]
fn a_header_that_a_limit_keys_on_goes_around_unless_it_partitions() {
    let limits = "limits: {t: {key: 'header:X-Tenant', rate: 1000/s, burst: 1000, missing_key: skip}}";
    let route = "    limits: [t]\n";
    for partitions in [false, true] {
        let origin = Upstream::start(counting(&[]));
        let by = if partitions { ", partition_by: ['header:X-Tenant']" } else { "" };
        let weir = gateway_with(&origin, &format!("{{mode: ttl{by}}}"), limits, route);
        let mut client = weir.connect();
        let mut get = |tenant: &str| {
            let fields = [("X-Tenant", tenant)];
            client.request("GET", "/", if tenant.is_empty() { &[] } else { &fields }, "");
            let response = client.read_response();
            (response.text().to_owned(), x_cache(&response).map(str::to_owned))
        };
        let (nobody, a, b) = (get("").0, get("a"), get("b"));
        assert!(nobody != a.0 && a.0 != b.0);
        assert_eq!(
            get(""),
            (nobody, Some("HIT".to_owned())),
            "who names no tenant shares with those who do not either"
        );
        let (again_a, again_b) = (get("a"), get("b"));
        if partitions {
            assert_eq!((again_a, again_b), ((a.0, Some("HIT".to_owned())), (b.0, Some("HIT".to_owned()))));
        } else {
            assert_eq!((a.1, again_a.1), (None, None));
            assert_ne!(again_a.0, a.0, "it went to the origin");
        }
    }
}

/// Upstreams that read `_` as `-` (CGI and its heirs) would respond to one tenant, and the response be stored for all.
#[test]
fn another_spelling_of_a_field_that_decides_does_not_reach_the_upstream() {
    let limits = "limits: {t: {key: 'header:X-API-Key', rate: 1000/s, burst: 1000, missing_key: skip}}";
    for (cache, spelling) in [
        ("{mode: ttl, partition_by: ['header:X-Tenant']}", "X_Tenant"),
        ("{mode: ttl, partition_by: ['header:X-Tenant']}", "x.tenant"),
        ("{mode: ttl}", "X_API_Key"),
        ("{mode: ttl}", "X-API_key"),
    ] {
        let origin = Upstream::start(counting(&[]));
        let weir = gateway_with(&origin, cache, limits, "    limits: [t]\n");
        let mut client = weir.connect();
        client.request("GET", "/", &[(spelling, "acme"), ("X-Other", "stays")], "");
        assert_eq!(client.read_response().text(), "answer 1");
        let seen = &origin.requests()[0].head;
        assert_eq!((seen.field(spelling), seen.field("X-Other")), (None, Some("stays")), "{spelling}");
    }
}

#[test]
fn head_is_served_from_get() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, TTL);
    let mut client = weir.connect();
    client.request("HEAD", "/", &[], "");
    assert_eq!(x_cache(&client.read_response_to("HEAD")), Some("MISS"));
    assert_eq!(x_cache(&client.get("/")), Some("MISS"), "an answer to HEAD has no body to give");
    client.request("HEAD", "/", &[], "");
    let head = client.read_response_to("HEAD");
    assert_eq!((x_cache(&head), head.field("content-length")), (Some("HIT"), Some("8")));
    assert_eq!(x_cache(&client.get("/")), Some("HIT"));
    assert_eq!(origin.request_count(), 2);
}

#[test]
fn a_response_streams_to_the_client_that_caused_its_fetch() {
    let gate = Gate::new();
    let origin = Upstream::start(responder::sse(["one", "two", "three"], &gate));
    let weir = gateway(&origin, TTL);
    let mut client = weir.connect();
    client.request("GET", "/events", &[], "");
    for expected in ["one", "two", "three"] {
        gate.release();
        if expected == "one" {
            assert_eq!(client.read_head().status(), 200);
        }
        let piece = client.read_piece().expect("a piece before the next is released");
        assert!(String::from_utf8_lossy(&piece.data).contains(expected));
    }
    gate.open();
    while client.read_piece().is_some() {}
    let hit = client.get("/events");
    assert_eq!(x_cache(&hit), Some("HIT"));
    assert!(hit.text().contains("one") && hit.text().contains("three"));
    assert!(hit.field("content-length").is_some(), "a whole answer says its length");
}

#[test]
fn a_body_over_the_cap_goes_through_uncached() {
    for chunked in [false, true] {
        let origin = Upstream::start(move |conn, _| {
            if !chunked {
                return conn.respond(200, &[], vec![b'x'; 5000]);
            }
            conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for _ in 0..50 {
                conn.write_chunk([b'x'; 100])?;
            }
            conn.write("0\r\n\r\n")
        });
        let weir = gateway(&origin, "{mode: ttl, max_body: 1KiB}");
        let mut client = weir.connect();
        for _ in 0..3 {
            assert_eq!(client.get("/").body.len(), 5000);
        }
        assert_eq!((origin.request_count(), count(&weir, "entries") <= 1), (3, true));
        assert_eq!(count(&weir, "hits"), 0);
    }
}

#[test]
fn a_response_that_breaks_off_is_not_stored() {
    let origin = Upstream::start(responder::in_order([responder::close_after(10, 100), responder::ok("whole")]));
    let weir = gateway(&origin, TTL);
    let mut client = weir.connect();
    client.request("GET", "/", &[], "");
    assert!(client.try_read_response().is_err(), "a truncated reply must not look whole");
    assert_eq!(weir.get("/").text(), "whole");
    assert_eq!(x_cache(&weir.get("/")), Some("HIT"));
}

#[test]
fn an_empty_response_is_a_response() {
    let origin = Upstream::start(responder::raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    let weir = gateway(&origin, TTL);
    let mut client = weir.connect();
    for expected in ["MISS", "HIT", "HIT"] {
        let response = client.get("/");
        assert_eq!((x_cache(&response), response.body.len()), (Some(expected), 0));
    }
}

#[test]
fn an_old_client_is_served_too() {
    let origin = Upstream::start(responder::chunked(["one", "two"]));
    let weir = gateway(&origin, TTL);
    for _ in 0..2 {
        let mut old = weir.connect();
        old.send("GET / HTTP/1.0\r\nHost: test\r\n\r\n");
        let text = String::from_utf8(old.read_to_close()).unwrap();
        assert!(text.ends_with("\r\n\r\nonetwo") && !text.to_lowercase().contains("transfer-encoding"), "{text}");
    }
    assert_eq!(weir.get("/").text(), "onetwo");
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn the_body_of_a_request_that_hits_is_never_a_request() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, "{mode: ttl, post: json}");
    let mut client = weir.connect();
    let smuggled = "{\"a\": 1}";
    let post = format!(
        "POST /p HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{smuggled}",
        smuggled.len()
    );
    client.send(&post);
    assert_eq!(client.read_response().text(), "answer 1");
    client.send(format!("{post}GET /second HTTP/1.1\r\nHost: test\r\n\r\n{post}"));
    let hit = client.read_response();
    assert_eq!((hit.text(), x_cache(&hit)), ("answer 1", Some("HIT")));
    assert_eq!(client.read_response().text(), "answer 2");
    assert_eq!(client.read_response().text(), "answer 1");

    // A GET with content bypasses the cache: the key does not hold it, and some origins read it.
    let evil = "GET /evil HTTP/1.1\r\nHost: test\r\n\r\n";
    client.get("/g");
    let get = format!("GET /g HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{evil}", evil.len());
    client.send(format!("{get}GET /after HTTP/1.1\r\nHost: test\r\n\r\n"));
    assert_eq!(x_cache(&client.read_response()), None);
    assert_eq!(client.read_response().status(), 200);
    assert!(origin.requests().iter().all(|request| request.head.target() != "/evil"));
    assert_eq!(origin.requests().last().unwrap().head.target(), "/after");
}

#[test]
fn routes_edits_are_in_the_responses_of_the_cache_too() {
    let origin = Upstream::start(counting(&[("X-Secret", "s"), ("X-Name", "old")]));
    let more = "    headers: {response: {set: {X-Name: new}, add: {X-More: m}, remove: [X-Secret]}}\n";
    let weir = gateway_with(&origin, TTL, "", more);
    for _ in 0..2 {
        let response = weir.get("/");
        assert_eq!(
            (response.field("x-secret"), response.field("x-name"), response.field("x-more")),
            (None, Some("new"), Some("m"))
        );
    }
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn the_fallbacks_responses_are_not_stored() {
    let origin = Upstream::start(counting(&[]));
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nupstreams:\n  dead: {{targets: ['http://127.0.0.1:1']}}\n  u: {{targets: [{}]}}\n\
         caches:\n  c: {TTL}\nroutes:\n  - match: {{path: /*}}\n    upstream: dead\n    fallback: [u]\n    cache: c\n",
        origin.url()
    );
    let weir = testkit::Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    for expected in ["answer 1", "answer 2"] {
        let response = weir.get("/");
        assert_eq!((response.text(), response.field("x-fallback")), (expected, Some("u")));
    }
}
