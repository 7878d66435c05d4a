//! RFC 9211: Cache-Status.

use super::status::{Outcome, write};
use super::*;

fn cache_status(outcome: Outcome, later_s: u64) -> String {
    let freshness = freshness("Cache-Control: max-age=60\r\n");
    let headers = CacheHeaders { cache_status: true, ..CacheHeaders::default() };
    let mut out = Vec::new();
    write(headers, outcome, Some(&freshness), NOW + seconds(later_s), b"weir", &mut out);
    String::from_utf8(out).unwrap()
}

fn forwarded(why: Fwd) -> Outcome {
    Outcome::Forwarded { why, status: None, stored: false, collapsed: None }
}

/// RFC 9211 section 2.1. hit: satisfied by the cache; with ttl, negative when stale (section 2.4).
#[test]
fn a_hit_says_so() {
    assert_eq!(cache_status(Outcome::Hit, 10), "Cache-Status: weir; hit; ttl=50\r\n");
    assert_eq!(cache_status(Outcome::Hit, 60), "Cache-Status: weir; hit; ttl=0\r\n");
    // Stale for half a second is stale.
    let mut out = Vec::new();
    let headers = CacheHeaders { cache_status: true, ..CacheHeaders::default() };
    write(headers, Outcome::Hit, Some(&freshness("Cache-Control: max-age=60\r\n")), NOW + 60_500, b"weir", &mut out);
    assert_eq!(text(&out), "Cache-Status: weir; hit; ttl=-1\r\n");
    assert_eq!(cache_status(Outcome::Hit, 472), "Cache-Status: weir; hit; ttl=-412\r\n");
}

/// RFC 9211 section 2.2. fwd: why the request went forward; never together with hit.
#[test]
fn a_forwarded_request_says_why() {
    for (why, token) in [
        (Fwd::Bypass, "bypass"),
        (Fwd::Method, "method"),
        (Fwd::UriMiss, "uri-miss"),
        (Fwd::VaryMiss, "vary-miss"),
        (Fwd::Miss, "miss"),
        (Fwd::Request, "request"),
        (Fwd::Stale, "stale"),
        (Fwd::Partial, "partial"),
    ] {
        assert_eq!(cache_status(forwarded(why), 0), format!("Cache-Status: weir; fwd={token}; ttl=60\r\n"));
    }
}

/// RFC 9211 section 2.3. fwd-status: what the next hop responded, where that is not what is sent.
#[test]
fn the_upstreams_status_is_told() {
    let validated = Outcome::Forwarded { why: Fwd::Stale, status: Some(304), stored: true, collapsed: None };
    assert_eq!(cache_status(validated, 0), "Cache-Status: weir; fwd=stale; fwd-status=304; stored; ttl=60\r\n");
    let stale_on_error = Outcome::StaleOnError { status: Some(503) };
    assert_eq!(cache_status(stale_on_error, 70), "Cache-Status: weir; fwd=stale; fwd-status=503; ttl=-10\r\n");
    assert_eq!(cache_status(Outcome::StaleOnError { status: None }, 70), "Cache-Status: weir; fwd=stale; ttl=-10\r\n");
}

/// RFC 9211 sections 2.5 and 2.6. stored and collapsed.
#[test]
fn storing_and_collapsing_are_told() {
    let miss = |stored, collapsed| Outcome::Forwarded { why: Fwd::UriMiss, status: None, stored, collapsed };
    assert_eq!(cache_status(miss(true, None), 0), "Cache-Status: weir; fwd=uri-miss; stored; ttl=60\r\n");
    assert_eq!(cache_status(miss(false, Some(true)), 0), "Cache-Status: weir; fwd=uri-miss; collapsed; ttl=60\r\n");
    assert_eq!(cache_status(miss(false, Some(false)), 0), "Cache-Status: weir; fwd=uri-miss; collapsed=?0; ttl=60\r\n");
}

/// RFC 9211 section 2. SHOULD preserve the members of caches nearer to the origin; the key is not told.
#[test]
fn earlier_members_are_preserved() {
    let fields = format!("{DATE}Cache-Status: OriginCache; hit; ttl=1100\r\nCache-Control: max-age=60\r\n");
    assert_eq!(text(&Response::new(200, &fields).stored(&http())), fields);
    assert!(!cache_status(Outcome::Hit, 0).contains("key"));
}

#[test]
fn only_what_is_configured_is_written() {
    let freshness = freshness("Cache-Control: max-age=60\r\n");
    let written = |headers: CacheHeaders, outcome| {
        let mut out = Vec::new();
        write(headers, outcome, Some(&freshness), NOW, b"weir", &mut out);
        String::from_utf8(out).unwrap()
    };
    let none = CacheHeaders::default();
    assert_eq!(written(none, Outcome::Hit), "");
    assert_eq!(written(CacheHeaders { age: true, ..none }, Outcome::Hit), "Age: 0\r\n");
    let x_cache = CacheHeaders { x_cache: true, ..none };
    assert_eq!(written(x_cache, Outcome::Hit), "X-Cache: HIT\r\n");
    assert_eq!(written(x_cache, Outcome::StaleOnError { status: None }), "X-Cache: HIT\r\n");
    assert_eq!(written(x_cache, forwarded(Fwd::UriMiss)), "X-Cache: MISS\r\n");
    assert_eq!(written(x_cache, forwarded(Fwd::Stale)), "X-Cache: MISS\r\n");
    assert_eq!(written(x_cache, forwarded(Fwd::Bypass)), "", "the cache had no part in it");
    assert_eq!(written(x_cache, forwarded(Fwd::Method)), "");
}
