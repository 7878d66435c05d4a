//! Mode `http`: what RFC 9111 and its neighbours require of a shared cache, against an origin that says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::http::Message;
use testkit::{Gate, Upstream, Weir, responder, wait};

use crate::{DEADLINE, count, counting, gateway, x_cache};

const HTTP: &str = "{mode: http}";

fn get(weir: &Weir, fields: &[(&str, &str)]) -> Message {
    weir.request("GET", "/", fields, "")
}

/// An origin that responds with 304 to anyone who names its current tag, and counts both responses.
struct Tagged {
    upstream: Upstream,
    version: Arc<AtomicUsize>,
    confirmed: Arc<AtomicUsize>,
}

fn tagged(control: &'static str) -> Tagged {
    let version = Arc::new(AtomicUsize::new(1));
    let confirmed = Arc::new(AtomicUsize::new(0));
    let (now, count) = (version.clone(), confirmed.clone());
    let upstream = Upstream::start(move |conn, request| {
        let tag = format!("\"v{}\"", now.load(Ordering::SeqCst));
        let fields = [("ETag", &*tag), ("Cache-Control", control), ("X-Seen", &*request.head.raw.len().to_string())];
        if request.head.field("if-none-match") == Some(&tag) {
            count.fetch_add(1, Ordering::SeqCst);
            return conn.respond(304, &fields, "");
        }
        conn.respond(200, &fields, format!("body {tag}"))
    });
    Tagged { upstream, version, confirmed }
}

#[test]
fn freshness_is_the_origins() {
    for (control, hits) in [
        ("max-age=100", true),
        ("s-maxage=100, max-age=0", true),
        ("max-age=0", false),
        ("no-store", false),
        ("private, max-age=100", false),
        ("public", false),
    ] {
        let fields: &'static [(&str, &str)] = Box::leak(Box::new([("Cache-Control", control)]));
        let origin = Upstream::start(counting(fields));
        let weir = gateway(&origin, HTTP);
        get(&weir, &[]);
        assert_eq!(x_cache(&get(&weir, &[])) == Some("HIT"), hits, "{control}");
    }
}

#[test]
fn an_age_from_further_up_counts() {
    let origin = Upstream::start(counting(&[("Cache-Control", "max-age=100"), ("Age", "60")]));
    let weir = gateway(&origin, HTTP);
    get(&weir, &[]);
    let hit = get(&weir, &[]);
    assert_eq!(x_cache(&hit), Some("HIT"));
    assert!(hit.field("age").unwrap().parse::<u64>().unwrap() >= 60);
    assert_eq!(hit.head.all("age").len(), 1);
}

#[test]
fn a_stale_response_is_confirmed_and_its_head_renewed() {
    let origin = tagged("no-cache");
    let weir = gateway(&origin.upstream, HTTP);
    assert_eq!(get(&weir, &[]).text(), "body \"v1\"");
    let confirmed = get(&weir, &[]);
    assert_eq!((confirmed.status(), confirmed.text()), (200, "body \"v1\""));
    assert_eq!(origin.confirmed.load(Ordering::SeqCst), 1);
    assert!(confirmed.field("cache-status").unwrap().contains("fwd-status=304"));
    let seen = origin.upstream.requests().last().unwrap().head.raw.len().to_string();
    assert_eq!(confirmed.field("x-seen"), Some(&*seen), "fields of the 304 replace the stored ones");
    origin.version.store(2, Ordering::SeqCst);
    assert_eq!(get(&weir, &[]).text(), "body \"v2\"");
}

#[test]
fn conditions_of_the_client_are_evaluated_by_the_cache() {
    let origin = tagged("max-age=100");
    let weir = gateway(&origin.upstream, HTTP);
    get(&weir, &[]);
    let response = get(&weir, &[("If-None-Match", "\"v0\", W/\"v1\"")]);
    assert_eq!((response.status(), response.body.len(), response.field("etag")), (304, 0, Some("\"v1\"")));
    assert_eq!(get(&weir, &[("If-None-Match", "\"other\"")]).text(), "body \"v1\"");
    assert_eq!(origin.upstream.request_count(), 1);
}

#[test]
fn a_clients_condition_does_not_keep_the_cache_from_confirming_its_own_copy() {
    let origin = tagged("no-cache");
    let weir = gateway(&origin.upstream, HTTP);
    get(&weir, &[]);
    let response = get(&weir, &[("If-None-Match", "\"mine\"")]);
    assert_eq!((response.status(), response.text()), (200, "body \"v1\""));
    assert_eq!(origin.upstream.requests().last().unwrap().head.all("if-none-match"), ["\"v1\""]);
    assert_eq!(get(&weir, &[("If-None-Match", "\"v1\"")]).status(), 304);
}

#[test]
fn ranges_are_cut_from_whole_entries() {
    let origin = Upstream::start(|conn, _| {
        conn.respond(200, &[("Cache-Control", "max-age=100"), ("ETag", "\"a\"")], "0123456789")
    });
    let weir = gateway(&origin, HTTP);
    get(&weir, &[]);
    for (range, status, body, content_range) in [
        ("bytes=0-3", 206, "0123", Some("bytes 0-3/10")),
        ("bytes=-2", 206, "89", Some("bytes 8-9/10")),
        ("bytes=7-", 206, "789", Some("bytes 7-9/10")),
        ("bytes=20-", 416, "", Some("bytes */10")),
        ("lines=1-2", 200, "0123456789", None),
    ] {
        let response = get(&weir, &[("Range", range)]);
        assert_eq!(
            (response.status(), response.text(), response.field("content-range")),
            (status, body, content_range),
            "{range}"
        );
    }
    assert_eq!(get(&weir, &[("Range", "bytes=0-3"), ("If-Range", "\"b\"")]).status(), 200);
    assert_eq!(get(&weir, &[("Range", "bytes=0-3"), ("If-Range", "\"a\"")]).status(), 206);
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn a_range_for_which_the_origin_sends_the_whole_is_served_so() {
    let origin = Upstream::start(|conn, _| conn.respond(200, &[("Cache-Control", "max-age=100")], "0123456789"));
    let weir = gateway(&origin, HTTP);
    let response = get(&weir, &[("Range", "bytes=0-3")]);
    assert_eq!((response.status(), response.text(), x_cache(&response)), (200, "0123456789", Some("MISS")));
    let response = get(&weir, &[("Range", "bytes=0-3")]);
    assert_eq!((response.status(), response.text(), x_cache(&response)), (206, "0123", Some("HIT")));
}

/// The body may come with the head, after it, or in part.
#[test]
fn a_response_is_the_same_however_its_bytes_come() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Upstream::start(move |conn, request| {
            let early: usize = request.head.target().trim_start_matches('/').parse().unwrap();
            let (head, body) =
                ("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 10\r\n\r\n", "0123456789");
            conn.write([head, &body[..early]].concat())?;
            if early < 10 {
                conn.pass(&gate)?;
            }
            conn.write(&body[early..])
        })
    };
    let weir = gateway(&origin, HTTP);
    for (number, early) in [10, 0, 4].into_iter().enumerate() {
        let target = format!("/{early}");
        let mut client = weir.connect();
        client.request("GET", &target, &[], "");
        origin.wait_for_requests(number + 1);
        if early < 10 {
            assert_eq!(client.read_head().status(), 200);
            gate.release();
            assert_eq!(client.read_body(), b"0123456789");
        } else {
            let response = client.read_response();
            assert_eq!((response.text(), response.field("content-length")), ("0123456789", Some("10")));
            assert!(
                response.field("cache-status").is_some_and(|status| status.contains("; stored; ttl=")),
                "{response:?}"
            );
        }
        let response = weir.get(&target);
        assert_eq!((response.text(), x_cache(&response)), ("0123456789", Some("HIT")), "{early}");
    }
    assert_eq!((count(&weir, "hits"), count(&weir, "misses")), (3, 3));
    assert!(origin.accepted() <= 2, "each of two workers uses its connection again");
}

#[test]
fn a_range_that_misses_is_the_origins_affair() {
    let origin = Upstream::start(|conn, request| {
        assert_eq!(request.head.field("range"), Some("bytes=0-1"));
        conn.respond(206, &[("Cache-Control", "max-age=100"), ("Content-Range", "bytes 0-1/10")], "01")
    });
    let weir = gateway(&origin, HTTP);
    for _ in 0..2 {
        let response = get(&weir, &[("Range", "bytes=0-1")]);
        assert_eq!((response.status(), response.text()), (206, "01"));
    }
    assert_eq!(origin.request_count(), 2);
}

#[test]
fn directives_of_the_client_count() {
    let origin = Upstream::start(counting(&[("Cache-Control", "max-age=100")]));
    let weir = gateway(&origin, HTTP);
    get(&weir, &[]);
    assert_eq!(x_cache(&get(&weir, &[("Cache-Control", "max-age=50")])), Some("HIT"));
    assert_eq!(x_cache(&get(&weir, &[("Cache-Control", "no-cache")])), Some("MISS"));
    assert_eq!(x_cache(&get(&weir, &[("Cache-Control", "min-fresh=1000")])), Some("MISS"));
    let response = weir.request("GET", "/elsewhere", &[("Cache-Control", "only-if-cached")], "");
    assert_eq!(response.status(), 504);
    assert!(response.text().contains("not_cached"));
    assert_eq!(get(&weir, &[("Cache-Control", "only-if-cached")]).status(), 200);
}

#[test]
fn authorized_requests_share_only_what_is_expressly_for_all() {
    for (control, shared) in [("max-age=100", false), ("public, max-age=100", true), ("s-maxage=100", true)] {
        let fields: &'static [(&str, &str)] = Box::leak(Box::new([("Cache-Control", control)]));
        let origin = Upstream::start(counting(fields));
        let weir = gateway(&origin, HTTP);
        let a = get(&weir, &[("Authorization", "a")]).text().to_owned();
        let b = get(&weir, &[("Authorization", "b")]).text().to_owned();
        assert_eq!(a == b, shared, "{control}");
    }
}

#[test]
fn a_change_invalidates_what_is_stored_of_its_url() {
    let origin = Upstream::start(counting(&[("Cache-Control", "max-age=100"), ("Vary", "X-V")]));
    let weir = gateway(&origin, HTTP);
    let text = |value: &str| get(&weir, &[("X-V", value)]).text().to_owned();
    let (a, b) = (text("a"), text("b"));
    assert_eq!((text("a"), text("b")), (a.clone(), b.clone()));
    weir.request("POST", "/", &[], "change");
    assert_ne!(text("a"), a);
    assert_ne!(text("b"), b);
    let again = text("a");
    origin.set_responder(responder::status(500));
    weir.request("DELETE", "/", &[], "");
    assert_eq!(text("a"), again, "an error changed nothing");
}

#[test]
fn a_stale_response_is_given_while_it_is_fetched_again() {
    let gate = Gate::new();
    let first: responder::Responder =
        Box::new(|conn, _| conn.respond(200, &[("Cache-Control", "max-age=0, stale-while-revalidate=100")], "old"));
    let second: responder::Responder =
        Box::new(|conn, _| conn.respond(200, &[("Cache-Control", "max-age=100")], "new"));
    let origin = Upstream::start(responder::in_order([first, responder::gated(&gate, second)]));
    let weir = gateway(&origin, HTTP);
    get(&weir, &[]);
    for _ in 0..10 {
        let response = get(&weir, &[]);
        assert_eq!((response.text(), x_cache(&response)), ("old", Some("HIT")));
    }
    origin.wait_for_requests(2);
    gate.open();
    wait::until(DEADLINE, "the new answer", || get(&weir, &[]).text() == "new");
    assert_eq!(origin.request_count(), 2, "one fetch behind all their backs");
    assert!(count(&weir, "stale") >= 10);
}

#[test]
fn a_stale_response_is_served_for_an_error() {
    let first: responder::Responder =
        Box::new(|conn, _| conn.respond(200, &[("Cache-Control", "max-age=0, stale-if-error=100")], "old"));
    let origin = Upstream::start(responder::in_order([first, responder::status(503), responder::close()]));
    let weir = gateway(&origin, HTTP);
    for _ in 0..4 {
        let response = get(&weir, &[]);
        assert_eq!((response.status(), response.text()), (200, "old"));
    }
    origin.stop();
    assert_eq!(get(&weir, &[]).text(), "old");
}

#[test]
fn must_revalidate_forbids_it() {
    let first: responder::Responder = Box::new(|conn, _| {
        conn.respond(
            200,
            &[("Cache-Control", "max-age=0, must-revalidate, stale-if-error=100"), ("ETag", "\"a\"")],
            "old",
        )
    });
    let origin = Upstream::start(responder::in_order([first, responder::status(503)]));
    let weir = gateway(&origin, HTTP);
    get(&weir, &[]);
    assert_eq!(get(&weir, &[]).status(), 503);
}

#[test]
fn a_304_about_another_response_leads_to_a_whole_fetch() {
    let origin = Upstream::start(|conn, request| {
        if request.head.field("if-none-match").is_some() {
            return conn.respond(304, &[("ETag", "\"another\"")], "");
        }
        conn.respond(200, &[("ETag", "\"a\""), ("Cache-Control", "no-cache")], "whole")
    });
    let weir = gateway(&origin, HTTP);
    for _ in 0..2 {
        let response = get(&weir, &[]);
        assert_eq!((response.status(), response.text()), (200, "whole"));
    }
    assert_eq!(origin.request_count(), 3);
}

#[test]
fn errors_and_redirects_are_stored_where_that_is_allowed() {
    for (status, stored) in [(404, true), (301, true), (410, true), (503, true), (401, false), (429, false)] {
        let origin = Upstream::start(move |conn, _| {
            conn.respond(status, &[("Cache-Control", "max-age=100"), ("Location", "/b")], "x")
        });
        let weir = gateway(&origin, HTTP);
        for _ in 0..2 {
            assert_eq!(get(&weir, &[]).status(), status);
        }
        assert_eq!(origin.request_count() == 1, stored, "{status}");
    }
}

#[test]
fn cdn_cache_control_goes_before_cache_control() {
    let origin =
        Upstream::start(counting(&[("CDN-Cache-Control", "max-age=100"), ("Cache-Control", "no-store, private")]));
    let weir = gateway(&origin, HTTP);
    get(&weir, &[]);
    assert_eq!(x_cache(&get(&weir, &[])), Some("HIT"));
}

#[test]
fn cookies_are_stripped_on_request_for_the_first_client_too() {
    let origin = Upstream::start(counting(&[("Cache-Control", "max-age=100"), ("Set-Cookie", "a=b")]));
    let weir = gateway(&origin, "{mode: http, set_cookie: strip}");
    for cache in ["MISS", "HIT"] {
        let response = weir.get("/");
        assert_eq!(
            (response.text(), response.field("set-cookie"), x_cache(&response)),
            ("answer 1", None, Some(cache))
        );
    }
    let weir = gateway(&origin, "{mode: http}");
    assert_eq!(weir.get("/").field("set-cookie"), Some("a=b"));
    assert_eq!(weir.get("/").text(), "answer 3", "not stored");
}
