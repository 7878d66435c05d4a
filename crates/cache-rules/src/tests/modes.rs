//! Mode `ttl`, credentials, and POST: rules of this gateway rather than of the RFC.

use super::reuse::Reuse;
use super::*;

#[test]
fn ttl_stores_every_200_for_the_same_time() {
    for control in [
        "",
        "Cache-Control: no-cache\r\n",
        "Cache-Control: max-age=1, must-revalidate\r\n",
        "Expires: 0\r\n",
        "Cache-Control: s-maxage=0\r\n",
        "Cache-Control: max-age=\"\r\n",
        "Age: 1000\r\n",
    ] {
        let response = Response::new(200, &format!("{DATE}{control}"));
        let freshness = response.consider(&ttl(), &get("").wanted(&ttl())).unwrap();
        assert_eq!((freshness.lifetime_ms, freshness.source), (seconds(300), LifetimeSource::Fixed), "{control}");
        let wanted = get("Cache-Control: no-cache, max-age=0, min-fresh=900, only-if-cached\r\n").wanted(&ttl());
        assert_eq!(reuse::assess(&freshness, &wanted, NOW + 299_999), Reuse::Fresh, "{control}");
        assert_eq!(reuse::assess(&freshness, &wanted, NOW + 300_000), Reuse::Validate(Fwd::Stale), "{control}");
    }
}

#[test]
fn ttl_stops_short_of_no_store_private_and_set_cookie() {
    let wanted = get("").wanted(&ttl());
    let consider = |status: u16, fields: &str| Response::new(status, fields).consider(&ttl(), &wanted);
    assert_eq!(consider(200, "Cache-Control: no-store\r\n"), Err(NotStored::NoStore));
    assert_eq!(consider(200, "Cache-Control: must-understand, no-store\r\n"), Err(NotStored::NoStore));
    assert_eq!(consider(200, "Cache-Control: private\r\n"), Err(NotStored::Private));
    assert_eq!(consider(200, "Set-Cookie: a=b\r\n"), Err(NotStored::SetCookie));
    assert_eq!(consider(200, "Set-Cookie: a=b\r\nCache-Control: public, s-maxage=60\r\n"), Err(NotStored::SetCookie));
    assert_eq!(consider(200, "Vary: *\r\n"), Err(NotStored::Vary));
    for status in [201, 204, 206, 301, 304, 404, 500] {
        assert_eq!(consider(status, "Content-Range: bytes 0-9/10\r\n"), Err(NotStored::Status), "{status}");
    }
}

#[test]
fn ttl_takes_allowances_from_the_configuration_only() {
    let mut cache = config(CacheMode::Ttl(Duration::from_secs(300)));
    cache.stale_while_revalidate = Some(Duration::from_secs(10));
    cache.stale_if_error = Some(Duration::from_secs(20));
    let policy = Policy::new(&cache, [], "");
    let wanted = get("").wanted(&policy);
    let fields = "Cache-Control: s-maxage=1, must-revalidate, stale-while-revalidate=900, stale-if-error=900\r\n";
    let freshness = Response::new(200, fields).consider(&policy, &wanted).unwrap();
    assert_eq!((freshness.stale_while_revalidate_ms, freshness.stale_if_error_ms), (seconds(10), seconds(20)));
    assert_eq!(reuse::assess(&freshness, &wanted, NOW + seconds(309)), Reuse::WhileRevalidating);
    assert_eq!(reuse::assess(&freshness, &wanted, NOW + seconds(310)), Reuse::Validate(Fwd::Stale));
    assert!(reuse::may_replace_error(&freshness, &wanted, NOW + seconds(319)));
}

#[test]
fn the_age_of_a_ttl_response_is_its_age_all_the_same() {
    let response = Response::new(200, &format!("{DATE}Age: 1000\r\n"));
    let freshness = response.consider(&ttl(), &get("").wanted(&ttl())).unwrap();
    assert_eq!(freshness.age_ms(NOW + seconds(5)), seconds(1005));
    assert_eq!(freshness.ttl_ms(NOW + seconds(5)), 295_000);
}

#[test]
fn a_ttl_of_less_than_a_second_is_one() {
    let policy = Policy::new(&config(CacheMode::Ttl(Duration::from_millis(300))), [], "");
    let freshness = Response::new(200, "").consider(&policy, &get("").wanted(&policy)).unwrap();
    assert!(freshness.is_fresh(NOW + 299) && !freshness.is_fresh(NOW + 300));
}

#[test]
fn credentials_go_around_a_ttl_cache() {
    for fields in ["Authorization: a\r\n", "Cookie: a=b\r\n", "X-API-Key: a\r\n"] {
        let policy = Policy::new(
            &config(CacheMode::Ttl(Duration::from_secs(300))),
            [&by_field("x-api-key"), &by_field("Authorization")],
            "",
        );
        assert_eq!(get(fields).bypass(&policy), Bypass::Credentials, "{fields}");
    }
    // Nobody counts by it here.
    assert!(matches!(get("X-API-Key: a\r\n").admit(&ttl()), Admission::Use(_)));
}

#[test]
fn a_query_parameter_that_a_limit_counts_by_is_a_credential_where_the_key_leaves_it_out() {
    let mut cache = config(CacheMode::Ttl(Duration::from_secs(300)));
    let by_key = [&LimitKey::Query("api_key".into())];
    let request = |target: &str| Request::of("GET", target, "");
    for query in [CacheQuery::All, CacheQuery::Sorted, CacheQuery::Only(vec!["api_key".into()])] {
        cache.query = query;
        let policy = Policy::new(&cache, by_key, "");
        assert!(matches!(request("/a?api_key=1").admit(&policy), Admission::Use(wanted) if !wanted.is_guarded));
    }
    cache.query = CacheQuery::Only(vec!["page".into()]);
    let policy = Policy::new(&cache, by_key, "");
    for target in ["/a?api_key=1", "/a?page=1&%61pi_key", "/a?api_key=1&api_key=2"] {
        assert_eq!(request(target).bypass(&policy), Bypass::Credentials, "{target}");
    }
    for target in ["/a", "/a?page=1", "/a?api_key2=1"] {
        assert!(matches!(request(target).admit(&policy), Admission::Use(_)), "{target}");
    }
    cache.mode = CacheMode::Http { default_ttl: None };
    assert!(request("/a?api_key=1").wanted(&Policy::new(&cache, by_key, "")).is_guarded);
}

#[test]
fn credentials_that_separate_tenants_do_not() {
    let mut cache = config(CacheMode::Ttl(Duration::from_secs(300)));
    cache.partition_by = vec!["authorization".into(), "cookie".into(), "x-api-key".into()];
    let policy = Policy::new(&cache, [&by_field("x-api-key"), &by_field("x-other")], "");
    assert_eq!(&*policy.guarded, [std::sync::Arc::<str>::from("x-other")]);
    let wanted = get("Authorization: a\r\nCookie: b\r\nX-API-Key: c\r\n").wanted(&policy);
    assert!(!wanted.is_authorized && !wanted.is_guarded);
    assert_eq!(get("X-Other: a\r\n").bypass(&policy), Bypass::Credentials);
}

#[test]
fn cookies_and_keys_share_what_is_expressly_for_all() {
    let policy = Policy::new(&config(CacheMode::Http { default_ttl: None }), [&by_field("x-api-key")], "");
    for fields in ["Cookie: a=b\r\n", "X-API-Key: a\r\n"] {
        let wanted = get(fields).wanted(&policy);
        assert!(wanted.is_guarded && !wanted.is_authorized);
        let consider = |control: &str| {
            Response::new(200, &format!("{DATE}Cache-Control: {control}\r\n")).consider(&policy, &wanted)
        };
        assert_eq!(consider("max-age=60"), Err(NotStored::Guarded));
        // That it must be validated when stale says nothing about whose it is.
        assert_eq!(consider("max-age=60, must-revalidate"), Err(NotStored::Guarded));
        for control in ["public, max-age=60", "s-maxage=60"] {
            assert_eq!(reuse::assess(&consider(control).unwrap(), &wanted, NOW), Reuse::Fresh);
        }
        let anonymous = freshness("Cache-Control: max-age=60\r\n");
        assert_eq!(reuse::assess(&anonymous, &wanted, NOW), Reuse::NotForThisClient);
    }
}

#[test]
fn content_that_the_key_does_not_cover_goes_around() {
    for method in ["GET", "HEAD"] {
        assert_eq!(Request::new(method, "Content-Length: 1\r\n").bypass(&http()), Bypass::Content);
        assert_eq!(Request::new(method, "Transfer-Encoding: chunked\r\n").bypass(&ttl()), Bypass::Content);
        assert!(matches!(Request::new(method, "Content-Length: 0\r\n").admit(&http()), Admission::Use(_)));
    }
    assert_eq!(get("Connection: upgrade\r\nUpgrade: websocket\r\n").bypass(&http()), Bypass::Upgrade);
}

#[test]
fn post_is_for_plain_json_where_configured() {
    let policy = http_with(|cache| cache.post_json = true);
    let post = |fields: &str| Request::new("POST", &format!("Content-Length: 2\r\n{fields}"));
    for content_type in [
        "application/json",
        "Application/JSON ; charset=UTF-8",
        "application/json;",
        "application/json;charset=\"utf-8\"",
    ] {
        assert_eq!(
            post(&format!("Content-Type: {content_type}\r\n")).wanted(&policy).class,
            Class::Post,
            "{content_type}"
        );
    }
    for content_type in [
        "text/json",
        "application/json;charset=latin1",
        "application/x+json",
        "application/jsonx",
        "application/json, text/plain",
        "",
    ] {
        assert_eq!(
            post(&format!("Content-Type: {content_type}\r\n")).bypass(&policy),
            Bypass::NotJson,
            "{content_type}"
        );
    }
    assert_eq!(post("").bypass(&policy), Bypass::NotJson);
    assert_eq!(post("Content-Type: application/json\r\nContent-Encoding: gzip\r\n").bypass(&policy), Bypass::NotJson);
    assert_eq!(
        Request::new("POST", "Content-Type: application/json\r\n").bypass(&policy),
        Bypass::NotJson,
        "no content"
    );
    let conditional = post("Content-Type: application/json\r\nIf-None-Match: *\r\n");
    assert_eq!(conditional.bypass(&policy), Bypass::OriginPrecondition);
    assert_eq!(post("Content-Type: application/json\r\n").bypass(&http()), Bypass::Method);
    // Keyed by its body it is a question, not a change.
    assert!(!invalidate::is_invalidating(&policy, Method::Post));
    assert!(invalidate::is_invalidating(&policy, Method::Put));
    assert!(!post("Content-Type: application/json\r\nRange: bytes=0-1\r\n").wanted(&policy).has_range);
}

#[test]
fn a_bypass_is_told_as_one_or_as_a_matter_of_the_method() {
    assert_eq!(Bypass::Method.fwd(), Fwd::Method);
    let others = [
        Bypass::Content,
        Bypass::Upgrade,
        Bypass::Credentials,
        Bypass::NoStore,
        Bypass::OriginPrecondition,
        Bypass::NotJson,
    ];
    assert!(others.iter().all(|bypass| bypass.fwd() == Fwd::Bypass));
}

/// With `set_cookie: strip` a cookie neither keeps a response from being stored nor is stored, also when a 304 has one.
#[test]
fn cookies_are_stripped_on_request() {
    let fields =
        format!("{DATE}Cache-Control: max-age=60\r\nETag: \"a\"\r\nSet-Cookie: a=b\r\nX-Own: 1\r\nSet-Cookie: c=d\r\n");
    let has = |stored: &[u8]| memchr::memmem::find(stored, b"Set-Cookie").is_some();
    for mode in [CacheMode::Ttl(Duration::from_secs(300)), CacheMode::Http { default_ttl: None }] {
        for strips in [false, true] {
            let policy = Policy::new(&Cache { strips_set_cookie: strips, ..config(mode.clone()) }, [], "");
            let wanted = get("").wanted(&policy);
            let considered = Response::new(200, &fields).consider(&policy, &wanted);
            let lines = StoredLines(fields.as_bytes());
            let mut stored = Vec::new();
            head::store(&policy, lines, &Effective::read(lines), NOW, &mut stored);
            assert_eq!((considered.is_ok(), has(&stored)), (strips, !strips), "{considered:?}");
            let Ok(freshness) = considered else { continue };
            let mut merged = Vec::new();
            let new = StoredLines(b"Set-Cookie: e=f\r\nCache-Control: max-age=60\r\n");
            let fresh = update::freshen(&policy, &wanted, &freshness, &stored, new, TIMES, &mut merged);
            assert!(matches!(fresh, update::Freshened::Stored(_)) && !has(&merged), "{fresh:?}");
            let private = Response::new(200, "Cache-Control: private\r\nSet-Cookie: a=b\r\n");
            assert_eq!(private.consider(&policy, &wanted), Err(NotStored::Private), "the origin's word stands");
        }
    }
}
