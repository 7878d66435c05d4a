//! RFC 9111 section 5, RFC 9211 and RFC 9213: fields and directives.

use super::{Rig, cache_status};
use crate::x_cache;

#[test]
fn s5_2_1_clients_may_narrow_and_widen() {
    let rig = Rig::http();
    let old = "200|Cache-Control: max-age=100|Age: 50";
    let stale = "200|Cache-Control: max-age=100|Age: 150|ETag: \"a\"";
    for (response, requested, served) in [
        (old, "max-age=60", true),
        (old, "max-age=40", false),
        (old, "min-fresh=40", true),
        (old, "min-fresh=60", false),
        (old, "no-cache", false),
        (old, "no-store", false),
        (old, "unknown, also=known", true),
        (stale, "max-stale", true),
        (stale, "max-stale=60", true),
        (stale, "max-stale=40", false),
        (stale, "max-stale, max-age=60", false),
    ] {
        let path = rig.path();
        rig.get(&path, response, &[]);
        let before = rig.origin.request_count();
        rig.get(&path, response, &[("Cache-Control", requested)]);
        assert_eq!(rig.origin.request_count() == before, served, "{response} asked with {requested}");
    }
}

#[test]
fn s5_2_1_5_a_request_with_no_store_leaves_nothing_behind() {
    let rig = Rig::http();
    assert!(!rig.serves("200|Cache-Control: max-age=9", &[("Cache-Control", "no-store")], &[]));
}

#[test]
fn s5_2_1_7_only_if_cached_does_not_go_forward() {
    let rig = Rig::http();
    let path = rig.path();
    let requested = [("Cache-Control", "only-if-cached")];
    let response = rig.get(&path, "200", &requested);
    assert_eq!((response.status(), rig.origin.request_count()), (504, 0));
    rig.get(&path, "200|Cache-Control: max-age=9", &[]);
    assert_eq!(x_cache(&rig.get(&path, "200", &requested)), Some("HIT"));
}

#[test]
fn s5_2_2_directives_are_read_kindly_and_obeyed() {
    let rig = Rig::http();
    for (control, fresh) in [
        ("MAX-AGE=9", true),
        ("max-age=\"9\"", true),
        ("foo=\"a, no-store\", max-age=9", true),
        ("no-cache, max-age=9", false),
        ("max-age=9, x-unknown=1", true),
        ("public", false),
        ("public, max-age=9", true),
    ] {
        assert_eq!(rig.serves(&format!("200|Cache-Control: {control}|ETag: \"a\""), &[], &[]), fresh, "{control}");
    }
}

#[test]
fn s5_2_2_field_lists_leave_the_fields_out_of_what_is_reused() {
    let rig = Rig::http();
    for directive in ["no-cache", "private"] {
        let path = rig.path();
        let response = format!(
            "200|Cache-Control: max-age=9, {directive}=\"X-Mine, Set-Cookie\"|X-Mine: m|X-Ours: o|Set-Cookie: a=b"
        );
        rig.get(&path, &response, &[]);
        let hit = rig.get(&path, &response, &[]);
        assert_eq!(x_cache(&hit), Some("HIT"), "{directive}");
        assert_eq!((hit.field("x-mine"), hit.field("set-cookie"), hit.field("x-ours")), (None, None, Some("o")));
    }
}

#[test]
fn s5_4_and_5_5_pragma_and_warning_are_removed() {
    let rig = Rig::http();
    assert!(rig.serves("200|Cache-Control: max-age=9|Pragma: no-cache", &[], &[("Pragma", "no-cache")]));
    let path = rig.path();
    rig.get(&path, "200|Cache-Control: max-age=0|ETag: \"a\"", &[]);
    let stale = rig.get(&path, "500", &[("Cache-Control", "max-stale")]);
    assert_eq!((x_cache(&stale), stale.field("warning")), (Some("HIT"), None));
}

#[test]
fn rfc9211_what_became_of_a_request_is_told() {
    let rig = Rig::http();
    let path = rig.path();
    let fresh = "200|Cache-Control: max-age=100|Vary: X-V";
    // Seconds are rounded down: of a hundred, as many as 98 may be left when the response goes out.
    let told = |fields: &[(&str, &str)], response: &str| {
        cache_status(&rig.get(&path, response, fields)).trim_end_matches(|end: char| end.is_ascii_digit()).to_owned()
    };
    assert_eq!(told(&[], fresh), "weir; fwd=uri-miss; stored; ttl=");
    assert!(told(&[], fresh).starts_with("weir; hit; ttl="));
    assert_eq!(told(&[("X-V", "2")], fresh), "weir; fwd=vary-miss; stored; ttl=");
    assert_eq!(told(&[("Cache-Control", "no-cache")], fresh), "weir; fwd=request; stored; ttl=");
    assert_eq!(told(&[("Cache-Control", "no-store")], fresh), "weir; fwd=bypass");
    assert_eq!(cache_status(&rig.send("DELETE", &path, "200", &[])), "weir; fwd=method");
    assert!(told(&[], fresh).starts_with("weir; fwd=stale"), "what a DELETE changed must be confirmed");
    let path = rig.path();
    rig.get(&path, "200|Cache-Control: max-age=10|Age: 15|ETag: \"a\"", &[]);
    let stale = rig.get(&path, "500", &[("Cache-Control", "max-stale")]);
    let ttl: i64 = cache_status(&stale).strip_prefix("weir; hit; ttl=").expect("a hit").parse().unwrap();
    assert!((-60..=-5).contains(&ttl), "{ttl}");
    let unstored = rig.get(&rig.path(), "200|Cache-Control: no-store", &[]);
    assert_eq!((cache_status(&unstored), x_cache(&unstored)), ("weir; fwd=uri-miss", None));
}

#[test]
fn rfc9213_a_targeted_field_replaces_the_others() {
    let rig = Rig::http();
    for (fields, stored) in [
        ("CDN-Cache-Control: max-age=9|Cache-Control: no-store", true),
        ("CDN-Cache-Control: no-store|Cache-Control: max-age=9", false),
        ("CDN-Cache-Control: private|Cache-Control: max-age=9", false),
        ("CDN-Cache-Control: max-age=0|Cache-Control: max-age=9|Expires: @+100", false),
        // Empty, or no dictionary: as if it were not there.
        ("CDN-Cache-Control: |Cache-Control: max-age=9", true),
        ("CDN-Cache-Control: max-age=9 no-store|Cache-Control: no-store", false),
        ("CDN-Cache-Control: max-age=0, max-age=9|Cache-Control: no-store", true),
        ("CDN-Cache-Control: max-age=9;x=y|Cache-Control: no-store", true),
        // Of another cache.
        ("Other-Cache-Control: max-age=9|Cache-Control: no-store", false),
    ] {
        assert_eq!(rig.stores(&format!("200|{fields}")), stored, "{fields}");
    }
    let path = rig.path();
    for _ in 0..2 {
        let response = rig.get(&path, "200|CDN-Cache-Control: max-age=9|Cache-Control: max-age=1", &[]);
        assert_eq!(
            (response.field("cdn-cache-control"), response.field("cache-control")),
            (Some("max-age=9"), Some("max-age=1"))
        );
    }
}
