//! RFC 9111 section 3: what is stored.

use testkit::{Upstream, responder};

use super::Rig;
use crate::{gateway, x_cache};

#[test]
fn s3_only_methods_that_are_understood_are_stored() {
    let rig = Rig::http();
    for method in ["OPTIONS", "PUT", "PATCH", "DELETE", "POST", "PROPFIND"] {
        let path = rig.path();
        for _ in 0..2 {
            let before = rig.origin.request_count();
            let response = rig.send(method, &path, "200|Cache-Control: max-age=100", &[]);
            assert_eq!((response.status(), x_cache(&response)), (200, None), "{method}");
            assert_eq!(rig.origin.request_count(), before + 1, "{method}");
        }
    }
}

#[test]
fn s3_only_final_responses_are_stored() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nCache-Control: max-age=9\r\nContent-Length: 2\r\n\r\nok";
    let origin = Upstream::start(responder::raw(hints));
    let weir = gateway(&origin, "{mode: http}");
    assert_eq!((weir.get("/").interim.len(), weir.get("/").interim.len()), (1, 0));
    let hit = weir.get("/");
    assert_eq!((hit.status(), hit.text(), x_cache(&hit)), (200, "ok", Some("HIT")));
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn s3_a_304_to_a_clients_condition_is_no_response_to_store() {
    let rig = Rig::http();
    let path = rig.path();
    let response = rig.get(&path, "304|Cache-Control: max-age=9|ETag: \"a\"", &[("If-None-Match", "\"a\"")]);
    assert_eq!(response.status(), 304);
    let whole = rig.get(&path, "200|Cache-Control: max-age=9", &[]);
    assert_eq!((whole.status(), x_cache(&whole)), (200, Some("MISS")));
}

#[test]
fn s3_statuses_are_stored_where_their_meaning_allows() {
    let rig = Rig::http();
    for status in [200, 203, 204, 300, 301, 302, 307, 308, 404, 405, 410, 414, 500, 501, 503] {
        assert!(rig.stores(&format!("{status}|Cache-Control: max-age=9")), "{status}");
    }
    for status in [206, 401, 407, 408, 412, 416, 421, 425, 428, 429, 431, 511] {
        assert!(!rig.stores(&format!("{status}|Cache-Control: max-age=9")), "{status}");
    }
}

#[test]
fn s3_no_store_and_private_are_not_stored() {
    let rig = Rig::http();
    for control in ["no-store", "no-store, max-age=9", "private", "private, max-age=9, public", "max-age=9, NO-STORE"] {
        assert!(!rig.stores(&format!("200|Cache-Control: {control}")), "{control}");
    }
}

#[test]
fn s3_something_must_make_a_response_cacheable() {
    let rig = Rig::http();
    for (response, stored) in [
        ("200", false),
        ("200|ETag: \"a\"", false),
        ("200|Cache-Control: max-age=9", true),
        ("200|Cache-Control: s-maxage=9", true),
        ("200|Expires: @+100", true),
        ("200|Expires: @-1", false),
        ("299", false),
        ("299|Cache-Control: max-age=9", true),
    ] {
        assert_eq!(rig.stores(response), stored, "{response}");
    }
}

#[test]
fn s3_1_all_fields_are_stored_but_those_of_one_connection() {
    let rig = Rig::http();
    let path = rig.path();
    let response = "200|Cache-Control: max-age=9|X-Unknown: kept|X-Twice: 1|X-Twice: 2|Connection: X-Hop|X-Hop: h|Keep-Alive: timeout=5|Proxy-Authenticate: Basic|\
                 Proxy-Authentication-Info: i|Cache-Status: inner; hit";
    for _ in 0..2 {
        let response = rig.get(&path, response, &[]);
        assert_eq!(response.field("x-unknown"), Some("kept"));
        assert_eq!(response.head.all("x-twice"), ["1", "2"]);
        assert_eq!((response.field("x-hop"), response.field("keep-alive")), (None, None));
        assert_eq!(response.head.all("cache-control"), ["max-age=9"], "RFC 9111 section 5.2: directives are passed on");
        assert_eq!(response.head.all("cache-status")[0], "inner; hit", "RFC 9211 section 2: earlier members stay");
    }
    let hit = rig.get(&path, response, &[]);
    assert_eq!((hit.field("proxy-authenticate"), hit.field("proxy-authentication-info")), (None, None));
}

#[test]
fn s3_1_a_response_without_a_date_gets_one() {
    let rig = Rig::http();
    let path = rig.path();
    rig.get(&path, "200|Cache-Control: max-age=9", &[]);
    assert_eq!(rig.get(&path, "200", &[]).head.all("date").len(), 1);
}

#[test]
fn s3_3_parts_are_not_stored_and_do_not_replace_the_whole() {
    let rig = Rig::http();
    assert!(!rig.stores("206|Cache-Control: max-age=9|Content-Range: bytes 0-3/10|=0123"));
    let path = rig.path();
    rig.get(&path, "200|Cache-Control: max-age=9|=0123456789", &[]);
    let requested = [("Range", "bytes=0-3"), ("Cache-Control", "no-cache")];
    let part = rig.get(&path, "206|Cache-Control: max-age=9|Content-Range: bytes 0-3/10|=0123", &requested);
    assert_eq!((part.status(), part.text()), (206, "0123"));
    assert_ne!(rig.get(&path, "200|=fetched again", &[]).text(), "0123");
}

#[test]
fn s3_4_a_part_that_is_everything_is_the_whole() {
    let rig = Rig::http();
    let path = rig.path();
    let whole = "206|Cache-Control: max-age=9|Content-Range: bytes 0-9/10|=0123456789";
    rig.get(&path, whole, &[("Range", "bytes=0-")]);
    let hit = rig.get(&path, "500", &[]);
    assert_eq!(
        (hit.status(), hit.text(), x_cache(&hit), hit.field("content-range")),
        (200, "0123456789", Some("HIT"), None)
    );
    // One whose length does not fit what it says is a part that lies.
    assert!(!rig.stores("206|Cache-Control: max-age=9|Content-Range: bytes 0-99/100|=0123456789"));
}

#[test]
fn s3_5_responses_to_authorized_requests_are_for_others_only_when_they_say_so() {
    let rig = Rig::http();
    let (a, b) = ([("Authorization", "Bearer a")], [("Authorization", "Bearer b")]);
    for (control, shared) in
        [("max-age=9", false), ("public, max-age=9", true), ("s-maxage=9", true), ("max-age=9, must-revalidate", true)]
    {
        let response = format!("200|Cache-Control: {control}");
        assert_eq!(rig.serves(&response, &a, &b), shared, "{control}");
        assert_eq!(rig.serves(&response, &a, &[]), shared, "{control}");
        assert_eq!(rig.serves(&response, &[], &b), shared, "{control}: what was stored for nobody");
    }
}

#[test]
fn s5_2_2_3_must_understand_limits_and_lifts() {
    let rig = Rig::http();
    assert!(rig.stores("200|Cache-Control: must-understand, no-store, max-age=9"));
    assert!(!rig.stores("299|Cache-Control: must-understand, max-age=9"));
}

#[test]
fn s7_3_cookies_are_not_handed_to_others_unasked() {
    let rig = Rig::http();
    assert!(!rig.stores("200|Cache-Control: max-age=9|Set-Cookie: a=b"));
    assert!(!rig.stores("200|Cache-Control: public, max-age=9|Set-Cookie: a=b"));
    assert!(!rig.serves("200|Cache-Control: max-age=9", &[("Cookie", "a=1")], &[("Cookie", "a=2")]));
    assert!(rig.serves("200|Cache-Control: public, max-age=9", &[("Cookie", "a=1")], &[("Cookie", "a=2")]));
}
