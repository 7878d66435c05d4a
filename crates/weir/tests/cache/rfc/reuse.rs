//! RFC 9111 sections 4 to 4.2 and 4.4: what a stored response is used for; RFC 5861.

use testkit::wait;

use super::{Rig, age, cache_status};
use crate::{DEADLINE, x_cache};

#[test]
fn s4_a_hit_has_one_age_and_a_fetched_response_the_one_that_it_came_with() {
    let rig = Rig::http();
    let path = rig.path();
    let response = "200|Cache-Control: max-age=100|Age: 7";
    let fetched = rig.get(&path, response, &[]);
    assert_eq!(fetched.head.all("age").len(), 1);
    assert!(age(&fetched) >= Some(7), "RFC 9111 section 5.1: it is part of the response");
    assert_eq!(age(&rig.get(&rig.path(), "200|Cache-Control: max-age=100", &[])), None);
    let hit = rig.get(&path, response, &[]);
    assert_eq!(hit.head.all("age").len(), 1);
    assert!(age(&hit) >= Some(7));
    wait::until(DEADLINE, "a second to pass", || age(&rig.get(&path, response, &[])) > Some(7));
}

#[test]
fn s4_head_is_served_from_get_and_never_the_other_way() {
    let rig = Rig::http();
    let path = rig.path();
    let response = "200|Cache-Control: max-age=9";
    assert_eq!(x_cache(&rig.send("HEAD", &path, response, &[])), Some("MISS"));
    assert_eq!(x_cache(&rig.get(&path, response, &[])), Some("MISS"));
    let head = rig.send("HEAD", &path, response, &[]);
    assert_eq!((x_cache(&head), head.body.len(), head.field("content-length")), (Some("HIT"), 0, Some("8")));
}

#[test]
fn s4_1_equal_selecting_fields_match_and_absence_matches_absence() {
    let rig = Rig::http();
    let response = "200|Cache-Control: max-age=9|Vary: Accept-Encoding, X-V";
    for (first, second, served) in [
        (&[("Accept-Encoding", "gzip, br")][..], &[("Accept-Encoding", "br,  gzip")][..], true),
        (&[("Accept-Encoding", "gzip")][..], &[("Accept-Encoding", "gzip;q=0")][..], false),
        (&[("X-V", "a")][..], &[("X-V", "b")][..], false),
        (&[("X-V", "a")][..], &[][..], false),
        (&[][..], &[("X-V", "")][..], false),
        (&[("X-V", "a"), ("X-V", "b")][..], &[("X-V", "a, b")][..], true),
    ] {
        assert_eq!(rig.serves(response, first, second), served, "{first:?} {second:?}");
    }
    assert!(!rig.stores("200|Cache-Control: max-age=9|Vary: *"));
    assert!(!rig.stores("200|Cache-Control: max-age=9|Vary: X-V|Vary: *"));
}

#[test]
fn s4_2_1_lifetimes_have_an_order() {
    let rig = Rig::http();
    for (fields, fresh) in [
        ("Cache-Control: s-maxage=9, max-age=0", true),
        ("Cache-Control: s-maxage=0, max-age=9", false),
        ("Cache-Control: max-age=9|Expires: @-100", true),
        ("Cache-Control: max-age=0|Expires: @+100", false),
        ("Date: @-0|Expires: @+100", true),
        ("Expires: 0", false),
        ("Expires: tomorrow", false),
        ("Cache-Control: max-age=9, max-age=0", false),
        ("Cache-Control: max-age=nine", false),
        ("Cache-Control: max-age=99999999999999999999", true),
    ] {
        assert_eq!(rig.stores(&format!("200|{fields}")), fresh, "{fields}");
    }
}

#[test]
fn s4_2_2_guesses_need_leave_and_a_validator() {
    let rig = Rig::new("{mode: http, default_ttl: 100s}");
    assert!(rig.stores("200|ETag: \"a\""));
    assert!(rig.stores("200|Last-Modified: @-1000"));
    assert!(!rig.stores("200"));
    assert!(!rig.stores("200|ETag: \"a\"|Expires: @-1"), "no guess where something is said");
    assert!(!rig.stores("299|ETag: \"a\""), "a status that is not heuristically cacheable");
}

#[test]
fn s4_2_3_age_and_date_make_a_response_older() {
    let rig = Rig::http();
    assert!(!rig.stores("200|Cache-Control: max-age=60|Age: 60"));
    assert!(!rig.stores("200|Cache-Control: max-age=60|Date: @-60"));
    assert!(rig.stores("200|Cache-Control: max-age=60|Date: @-30|Age: 30"));
    assert!(rig.stores("200|Cache-Control: max-age=60|Age: old"), "no number: ignored");
}

#[test]
fn s4_2_4_stale_responses_need_permission_and_can_be_forbidden() {
    let rig = Rig::http();
    let stale = |more: &str| format!("200|Cache-Control: max-age=0{more}|ETag: \"a\"");
    let takes_stale = [("Cache-Control", "max-stale")];
    assert!(!rig.serves(&stale(""), &[], &[]));
    assert!(rig.serves(&stale(""), &[], &takes_stale));
    for forbidden in [", must-revalidate", ", proxy-revalidate", ", s-maxage=0", ", no-cache"] {
        assert!(!rig.serves(&stale(forbidden), &[], &takes_stale), "{forbidden}");
        let both = format!("{forbidden}, stale-while-revalidate=100");
        assert!(!rig.serves(&stale(&both), &[], &[]), "{both}");
    }
}

#[test]
fn s4_4_unsafe_methods_invalidate_their_url_and_what_they_name() {
    let rig = Rig::http();
    let fresh = "200|Cache-Control: max-age=100";
    for method in ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"] {
        let (path, location, content, elsewhere) = (rig.path(), rig.path(), rig.path(), rig.path());
        let paths = [&path, &location, &content, &elsewhere];
        let fill = || paths.map(|path| rig.get(path, fresh, &[]).text().to_owned());
        let before = fill();
        // Nothing follows from an error, and nothing of another origin.
        rig.send(method, &path, &format!("500|Location: {location}"), &[]);
        rig.send("GET", &rig.path(), &format!("200|Location: {location}"), &[]);
        rig.send(method, &rig.path(), &format!("201|Location: http://elsewhere{elsewhere}"), &[]);
        assert_eq!(fill(), before, "{method}");
        rig.send(method, &path, &format!("201|Location: http://test{location}|Content-Location: {content}"), &[]);
        let after = fill();
        for changed in 0..3 {
            assert_ne!(after[changed], before[changed], "{method} {changed}");
        }
        assert_eq!(after[3], before[3], "{method}");
    }
}

#[test]
fn rfc5861_3_stale_while_revalidate_has_a_window() {
    let rig = Rig::http();
    assert!(rig.serves("200|Cache-Control: max-age=0, stale-while-revalidate=100", &[], &[]));
    assert!(!rig.serves("200|Cache-Control: max-age=10, stale-while-revalidate=20|Age: 40", &[], &[]));
    let configured = Rig::new("{mode: http, stale_while_revalidate: 100s}");
    assert!(configured.serves("200|Cache-Control: max-age=0", &[], &[]));
    assert!(!configured.serves("200|Cache-Control: max-age=0, stale-while-revalidate=0|ETag: \"a\"", &[], &[]));
}

#[test]
fn rfc5861_4_stale_if_error_has_a_window_and_four_statuses() {
    let rig = Rig::http();
    for (control, status, saved) in [
        ("max-age=0, stale-if-error=100", 500, true),
        ("max-age=0, stale-if-error=100", 502, true),
        ("max-age=0, stale-if-error=100", 503, true),
        ("max-age=0, stale-if-error=100", 504, true),
        ("max-age=0, stale-if-error=100", 404, false),
        ("max-age=0, stale-if-error=100", 501, false),
        ("max-age=0, stale-if-error=0", 500, false),
        ("max-age=0, stale-if-error=100, must-revalidate", 500, false),
        ("no-cache, stale-if-error=100", 500, false),
        ("max-age=0", 500, false),
    ] {
        let path = rig.path();
        rig.get(&path, &format!("200|Cache-Control: {control}|ETag: \"a\"|=old"), &[]);
        let response = rig.get(&path, &format!("{status}|=failed"), &[]);
        let expected = if saved { (200, "old", Some("HIT")) } else { (status, "failed", x_cache(&response)) };
        assert_eq!((response.status(), response.text(), x_cache(&response)), expected, "{control} {status}");
        if saved {
            let told = format!("weir; fwd=stale; fwd-status={status}; ttl=");
            assert!(cache_status(&response).starts_with(&told), "{}", cache_status(&response));
            assert!(age(&response).is_some());
        }
    }
    let path = rig.path();
    rig.get(&path, "200|Cache-Control: max-age=0|ETag: \"a\"|=old", &[]);
    assert_eq!(
        rig.get(&path, "500", &[("Cache-Control", "stale-if-error=100")]).text(),
        "old",
        "asked for by the client"
    );
}

#[test]
fn s5_2_2_2_must_revalidate_ends_in_an_error_when_disconnected() {
    let rig = Rig::http();
    let (bound, free) = (rig.path(), rig.path());
    rig.get(&bound, "200|Cache-Control: max-age=0, must-revalidate, stale-if-error=100|ETag: \"a\"", &[]);
    rig.get(&free, "200|Cache-Control: max-age=0, stale-if-error=100|ETag: \"a\"", &[]);
    rig.origin.stop();
    assert!(rig.get(&bound, "200", &[]).status() >= 502);
    assert_eq!(rig.get(&free, "200", &[]).status(), 200);
}
