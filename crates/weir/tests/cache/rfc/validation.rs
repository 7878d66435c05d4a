//! RFC 9111 section 4.3: validation.

use testkit::Upstream;

use super::{Rig, age, cache_status, http_date};
use crate::{gateway, x_cache};

#[test]
fn s4_3_1_validation_sends_the_stored_validators_and_none_of_the_clients() {
    let rig = Rig::http();
    let (path, modified) = (rig.path(), http_date(-1000));
    rig.get(&path, &format!("200|Cache-Control: no-cache|ETag: W/\"a\"|Last-Modified: {modified}"), &[]);
    let other =
        [("If-None-Match", "\"mine\""), ("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"), ("Range", "bytes=0-1")];
    rig.get(&path, "200|Cache-Control: no-cache", &other);
    let seen = rig.seen();
    assert_eq!(seen.head.all("if-none-match"), ["W/\"a\""]);
    assert_eq!(seen.head.all("if-modified-since"), [&*modified]);
    assert_eq!(seen.head.field("range"), None);
}

#[test]
fn s4_3_2_conditions_are_evaluated_against_the_store() {
    let rig = Rig::http();
    let (path, modified) = (rig.path(), http_date(-1000));
    let response = format!(
        "200|Cache-Control: max-age=100|ETag: \"a\"|Last-Modified: {modified}|Expires: @+100|Vary: X-V|X-Other: o|Content-Type: text/plain"
    );
    rig.get(&path, &response, &[]);
    let earlier = http_date(-2000);
    for (name, value, status) in [
        ("If-None-Match", "*", 304),
        ("If-None-Match", "W/\"a\"", 304),
        ("If-None-Match", "\"b\", \"a\"", 304),
        ("If-None-Match", "\"A\"", 200),
        ("If-Modified-Since", &*modified, 304),
        ("If-Modified-Since", &*earlier, 200),
        ("If-Modified-Since", "no date", 200),
    ] {
        let got = rig.get(&path, "500", &[(name, value)]);
        assert_eq!((got.status(), x_cache(&got)), (status, Some("HIT")), "{name}: {value}");
        if status == 304 {
            assert!(got.body.is_empty());
            // RFC 9110 section 15.4.5.
            for field in ["cache-control", "date", "etag", "expires", "vary"] {
                assert!(got.field(field).is_some(), "{field}");
            }
        }
    }
    // RFC 9110 section 13.1.3: a tag goes before a date.
    let both = [("If-None-Match", "\"b\""), ("If-Modified-Since", &*modified)];
    assert_eq!(rig.get(&path, "500", &both).status(), 200);
    // Conditions that only the origin can evaluate go there.
    let before = rig.origin.request_count();
    for condition in [("If-Match", "\"a\""), ("If-Unmodified-Since", &*modified)] {
        assert_eq!(rig.get(&path, "412", &[condition]).status(), 412);
    }
    assert_eq!(rig.origin.request_count(), before + 2);
}

#[test]
fn s4_3_2_conditions_do_not_apply_to_other_statuses() {
    let rig = Rig::http();
    let path = rig.path();
    rig.get(&path, "404|Cache-Control: max-age=100|ETag: \"a\"", &[]);
    let response = rig.get(&path, "500", &[("If-None-Match", "\"a\"")]);
    assert_eq!((response.status(), x_cache(&response)), (404, Some("HIT")));
}

#[test]
fn s4_3_3_a_full_response_to_a_validation_replaces_what_is_stored_and_a_5xx_goes_through() {
    let rig = Rig::http();
    let path = rig.path();
    rig.get(&path, "200|Cache-Control: max-age=0|ETag: \"a\"|=old", &[]);
    let failed = rig.get(&path, "503|=failed", &[]);
    assert_eq!((failed.status(), failed.text()), (503, "failed"));
    assert_eq!(rig.get(&path, "200|Cache-Control: max-age=100|ETag: \"b\"|=new", &[]).text(), "new");
    let hit = rig.get(&path, "500", &[]);
    assert_eq!((hit.text(), hit.field("etag"), x_cache(&hit)), ("new", Some("\"b\""), Some("HIT")));
}

#[test]
fn s4_3_4_a_304_updates_the_stored_fields_and_makes_the_response_young() {
    let rig = Rig::http();
    let path = rig.path();
    rig.get(&path, "200|Cache-Control: max-age=5|Age: 5|ETag: \"a\"|X-A: 1|X-B: 1|Content-Type: text/plain|=body", &[]);
    let confirmed = rig.get(
        &path,
        "304|Cache-Control: max-age=100|ETag: \"a\"|X-B: 2|X-C: 2|Content-Type: text/html|Content-Encoding: gzip",
        &[],
    );
    assert!(cache_status(&confirmed).contains("fwd=stale; fwd-status=304; stored"));
    let hit = rig.get(&path, "500", &[]);
    for response in [&confirmed, &hit] {
        assert_eq!((response.status(), response.text()), (200, "body"));
        assert_eq!(
            (response.field("x-a"), response.field("x-b"), response.field("x-c")),
            (Some("1"), Some("2"), Some("2"))
        );
        // Section 3.2: what belongs to the stored bytes stays.
        assert_eq!((response.field("content-type"), response.field("content-encoding")), (Some("text/plain"), None));
        assert_eq!(response.field("content-length"), Some("4"));
    }
    assert_eq!((x_cache(&hit), hit.field("cache-control")), (Some("HIT"), Some("max-age=100")));
    assert!(age(&hit) < Some(5), "its age counts from the validation");
}

#[test]
fn s4_3_4_a_304_with_another_strong_validator_is_about_something_else() {
    let rig = Rig::http();
    for (stored, told, confirms) in [
        ("\"a\"", "ETag: \"b\"", false),
        ("W/\"a\"", "ETag: W/\"a\"", true),
        ("\"a\"", "X-None: 0", true),
        ("\"a\"", "ETag: \"a\"", true),
    ] {
        let path = rig.path();
        rig.get(&path, &format!("200|Cache-Control: no-cache|ETag: {stored}|=body"), &[]);
        let before = rig.origin.request_count();
        // The script responds with 304 to every request: where that is about something else the gateway requests the whole, and gets a 304 again.
        let response = rig.get(&path, &format!("304|{told}"), &[]);
        assert_eq!(rig.origin.request_count() - before, if confirms { 1 } else { 2 }, "{stored} {told}");
        assert_eq!(response.status() == 200, confirms, "{stored} {told}");
    }
}

#[test]
fn s4_3_4_a_304_may_end_the_storing() {
    let rig = Rig::http();
    for end in ["no-store", "private"] {
        let path = rig.path();
        rig.get(&path, "200|Cache-Control: max-age=0|ETag: \"a\"|=body", &[]);
        assert_eq!(rig.get(&path, &format!("304|ETag: \"a\"|Cache-Control: {end}"), &[]).text(), "body");
        let requested = rig.get(&path, "200|Cache-Control: max-age=9", &[]);
        assert_eq!((x_cache(&requested), rig.seen().head.field("if-none-match")), (Some("MISS"), None), "{end}");
    }
}

#[test]
fn s4_3_4_a_304_may_change_what_the_response_varies_on() {
    let rig = Rig::http();
    for before in ["", "|Vary: X-Old"] {
        let path = rig.path();
        let send = |response: &str, value| rig.get(&path, response, &[("X-V", value), ("X-Old", "1")]);
        send(&format!("200|Cache-Control: max-age=0|ETag: \"a\"{before}|=one"), "1");
        assert_eq!(send("304|ETag: \"a\"|Vary: X-V|Cache-Control: max-age=100", "1").text(), "one");
        assert_eq!(x_cache(&send("500", "1")), Some("HIT"));
        let other = send("200|Cache-Control: max-age=100|Vary: X-V|=two", "2");
        assert_eq!(
            (other.text(), x_cache(&other)),
            ("two", Some("MISS")),
            "another variant is not answered with the first"
        );
        assert_eq!((send("500", "1").text(), send("500", "2").text()), ("one", "two"));
    }
}

#[test]
fn s4_3_5_a_forwarded_head_freshens_the_stored_get() {
    let rig = Rig::http();
    let path = rig.path();
    rig.get(&path, "200|Cache-Control: max-age=0|ETag: \"a\"|X-A: 1|=0123", &[]);
    // A HEAD that finds a stale response goes to the origin, whose response has the same validator and length.
    let head = rig.send("HEAD", &path, "200|Cache-Control: max-age=100|ETag: \"a\"|X-A: 2|=4567", &[]);
    assert_eq!((head.status(), x_cache(&head)), (200, Some("MISS")));
    let hit = rig.get(&path, "500", &[]);
    assert_eq!((hit.text(), hit.field("x-a"), x_cache(&hit)), ("0123", Some("2"), Some("HIT")));
}

#[test]
fn s4_3_5_a_head_that_disagrees_makes_the_stored_get_unusable_as_it_is() {
    for other in ["ETag: \"b\"|=0123", "ETag: \"a\"|=01234", "ETag: \"a\"|Last-Modified: @-10|=0123"] {
        let rig = Rig::http();
        let path = rig.path();
        rig.get(&path, "200|Cache-Control: max-age=100|ETag: \"a\"|=0123", &[]);
        let requested = [("Cache-Control", "no-cache")];
        rig.send("HEAD", &path, &format!("200|Cache-Control: max-age=100|{other}"), &requested);
        let response = rig.get(&path, "200|Cache-Control: max-age=100|=new", &[]);
        assert_eq!((response.text(), x_cache(&response)), ("new", Some("MISS")), "{other}");
        assert_eq!(rig.get(&path, "500", &[]).text(), "new", "{other}");
    }
}

#[test]
fn s4_3_5_a_head_of_another_status_says_nothing() {
    let rig = Rig::http();
    let path = rig.path();
    rig.get(&path, "200|Cache-Control: max-age=100|ETag: \"a\"|=0123", &[]);
    rig.send("HEAD", &path, "404|ETag: \"b\"", &[("Cache-Control", "no-cache")]);
    assert_eq!(x_cache(&rig.get(&path, "500", &[])), Some("HIT"));
}

#[test]
fn ranges_follow_if_range() {
    let rig = Rig::http();
    let (path, modified) = (rig.path(), http_date(-1000));
    rig.get(&path, &format!("200|Cache-Control: max-age=100|ETag: \"a\"|Last-Modified: {modified}|=0123456789"), &[]);
    for (if_range, status) in
        [("\"a\"", 206), ("\"b\"", 200), ("W/\"a\"", 200), (&*modified, 206), (&*http_date(-900), 200)]
    {
        let response = rig.get(&path, "500", &[("Range", "bytes=2-3"), ("If-Range", if_range)]);
        assert_eq!((response.status(), x_cache(&response)), (status, Some("HIT")), "{if_range}");
        assert_eq!(response.text(), if status == 206 { "23" } else { "0123456789" });
    }
}

#[test]
fn a_condition_of_a_client_that_finds_nothing_is_evaluated_against_the_whole() {
    let origin = Upstream::start(|conn, request| match request.head.field("if-none-match") {
        Some("\"a\"") => conn.respond(304, &[("ETag", "\"a\"")], ""),
        _ => conn.respond(200, &[("ETag", "\"a\""), ("Cache-Control", "max-age=100")], "whole"),
    });
    let weir = gateway(&origin, "{mode: http}");
    assert_eq!(weir.request("GET", "/", &[("If-None-Match", "\"a\"")], "").status(), 304);
    assert_eq!(weir.request("GET", "/", &[("If-None-Match", "\"b\"")], "").text(), "whole");
    assert_eq!(x_cache(&weir.get("/")), Some("HIT"));
    assert_eq!(origin.request_count(), 1, "the first fetch was of the whole, and was stored");
}

#[test]
fn a_304_without_a_validator_of_the_store_confirms_nothing() {
    let rig = Rig::http();
    let path = rig.path();
    // Stale when it comes, without a validator, and of use to those who take stale responses.
    rig.get(&path, "200|Cache-Control: max-age=0, stale-if-error=100|=stored", &[]);
    let other = [("If-None-Match", "\"theirs\"")];
    let response = rig.get(&path, "304|Cache-Control: max-age=100|ETag: \"theirs\"", &other);
    assert_eq!(
        (response.status(), rig.seen().head.field("if-none-match")),
        (304, None),
        "an origin that says 304 all the same"
    );
    let whole = rig.get(&path, "200|Cache-Control: max-age=100|=new", &[]);
    assert_eq!((whole.text(), x_cache(&whole)), ("new", Some("MISS")));
}

#[test]
fn a_post_is_never_conditional() {
    let rig = Rig::new("{mode: http, post: json}");
    let fields = [
        ("Content-Type", "application/json"),
        ("X-Reply", "200|Cache-Control: max-age=0, stale-if-error=9|ETag: \"a\""),
    ];
    for _ in 0..2 {
        assert_eq!(rig.weir.request("POST", "/", &fields, "{}").status(), 200);
        assert_eq!(rig.seen().head.field("if-none-match"), None);
    }
    assert_eq!(rig.origin.request_count(), 2);
}

#[test]
fn a_background_fetch_whose_304_is_for_another_response_fetches_that_whole() {
    let origin = Upstream::start(|conn, request| match request.head.field("if-none-match") {
        Some(_) => conn.respond(304, &[("ETag", "\"b\"")], ""),
        None => {
            conn.respond(200, &[("ETag", "\"a\""), ("Cache-Control", "max-age=0, stale-while-revalidate=100")], "whole")
        }
    });
    let weir = gateway(&origin, "{mode: http}");
    weir.get("/");
    assert_eq!(x_cache(&weir.get("/")), Some("HIT"));
    testkit::wait::until(crate::DEADLINE, "both fetches", || origin.request_count() >= 3);
    assert_eq!(weir.get("/").text(), "whole");
}
