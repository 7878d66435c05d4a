//! RFC 9111 section 4, but 4.3: constructing responses, Vary, freshness, age, stale use, invalidation.

use super::invalidate::{each_url, is_invalidating};
use super::key::Url;
use super::reuse::Reuse;
use super::status::Outcome;
use super::*;

/// RFC 9111 section 4. MUST NOT reuse a response whose target URI differs.
#[test]
fn the_key_holds_the_whole_target_uri() {
    let key = |scheme: &str, host: &str, path: &str, query: Option<&str>| {
        let url = Url {
            scheme: scheme.as_bytes(),
            authority: host.as_bytes(),
            path: path.as_bytes(),
            query: query.map(str::as_bytes),
        };
        let mut key = Vec::new();
        http().write_key(Class::Get, &url, false, get("").lines(), None, &mut key);
        key
    };
    let one = key("http", "a.example", "/a", None);
    assert_eq!(one, key("HTTP", "a.example", "/a", None));
    for other in [
        // The same URL, but an origin sees the difference.
        key("http", "A.example", "/a", None),
        key("http", "a.example:80", "/a", None),
        key("http", "a.example:", "/a", None),
        key("https", "a.example", "/a", None),
        key("http", "b.example", "/a", None),
        key("http", "a.example:81", "/a", None),
        key("http", "a.example", "/A", None),
        key("http", "a.example", "/a", Some("")),
        key("http", "a.example", "/a", Some("a")),
    ] {
        assert_ne!(one, other);
    }
}

/// RFC 9111 section 4. MUST NOT reuse a response whose method does not allow it: GET also serves HEAD, HEAD only HEAD.
#[test]
fn methods_are_in_the_key() {
    let url = Url { scheme: b"http", authority: b"a", path: b"/", query: None };
    let key = |class| {
        let mut key = Vec::new();
        http().write_key(class, &url, false, get("").lines(), None, &mut key);
        key
    };
    assert_ne!(key(Class::Get), key(Class::Head));
    assert_ne!(key(Class::Get), key(Class::Post));
    let mut head = key(Class::Head);
    key::set_class(&mut head, Class::Get);
    assert_eq!(head, key(Class::Get));
    assert_eq!(Request::new("HEAD", "").wanted(&http()).class, Class::Head);
}

/// RFC 9111 section 4. MUST NOT reuse a response whose selecting fields differ from those presented.
#[test]
fn selecting_fields_must_match() {
    let response = Response::new(200, "Vary: Accept-Language, X-A\r\n");
    let mut names = Vec::new();
    vary::write_names(response.lines(), &mut names).unwrap();
    assert_eq!(text(&names), "accept-language,x-a");
    let secondary = |fields: &str| {
        let mut out = Vec::new();
        vary::write_secondary(&names, get(fields).lines(), &mut out);
        out
    };
    let stored = secondary("Accept-Language: de\r\nX-A: 1\r\n");
    let matches = |fields: &str| secondary(fields) == stored;
    assert!(matches("X-A: 1\r\nAccept-Language: de\r\nX-B: 2\r\n"));
    assert!(!matches("Accept-Language: en\r\nX-A: 1\r\n"));
    assert!(!matches("Accept-Language: de\r\nX-A: 2\r\n"));
    assert!(!matches("Accept-Language: de\r\n"));
    // An upstream that reads `_` as `-` responded to these too.
    assert!(!matches("Accept-Language: de\r\nX-A: 1\r\nX_A: 2\r\n"));
    assert_ne!(secondary("x_a: 1\r\n"), secondary(""));
    assert_ne!(secondary("x_a: 1\r\n"), secondary("x_a: 2\r\n"));
    assert_eq!(secondary("x_b: 1\r\n"), secondary(""));
}

/// RFC 9111 section 4. MUST NOT reuse a response with no-cache without successful validation.
#[test]
fn no_cache_is_validated_every_time() {
    let response = "Cache-Control: no-cache, max-age=60\r\nETag: \"a\"\r\n";
    assert_eq!(reuse(response, "", 0), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse(response, "Cache-Control: max-stale\r\n", 0), Reuse::Validate(Fwd::Stale));
}

/// RFC 9111 section 4. MUST NOT reuse a response that is neither fresh, nor allowed stale, nor validated.
#[test]
fn stale_is_not_reused() {
    assert_eq!(reuse("Cache-Control: max-age=60\r\n", "", 59), Reuse::Fresh);
    assert_eq!(reuse("Cache-Control: max-age=60\r\n", "", 60), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse("Cache-Control: max-age=60\r\n", "", 1 << 40), Reuse::Validate(Fwd::Stale));
}

/// RFC 9111 section 4. MUST generate Age, replacing any present, when a stored response is used without validation.
#[test]
fn a_hit_has_one_age_of_its_own() {
    let response = Response::new(200, &format!("{DATE}Age: 7\r\nCache-Control: max-age=60\r\n"));
    let freshness = response.consider(&http(), &request_with("")).unwrap();
    assert!(!text(&response.stored(&http())).contains("Age"));
    let mut out = Vec::new();
    status::write(http().headers, Outcome::Hit, Some(&freshness), NOW + seconds(3), b"weir", &mut out);
    assert!(text(&out).starts_with("Age: 10\r\n"), "{}", text(&out));
    for outcome in [
        Outcome::StaleOnError { status: Some(503) },
        Outcome::Forwarded { why: Fwd::UriMiss, status: None, stored: true, collapsed: Some(true) },
    ] {
        let mut out = Vec::new();
        status::write(http().headers, outcome, Some(&freshness), NOW + seconds(3), b"weir", &mut out);
        assert!(text(&out).starts_with("Age: 10\r\n"), "{outcome:?}");
    }
}

/// RFC 9111 section 4. MUST write through requests with unsafe methods.
#[test]
fn unsafe_methods_are_written_through() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "MOVE"] {
        let bypass = Request::new(method, "").bypass(&http());
        assert_eq!(bypass.fwd(), Fwd::Method, "{method}");
    }
}

/// RFC 9111 section 4. MUST use the most recent of several suitable responses, by Date.
#[test]
fn terms_tell_the_most_recent() {
    let older = freshness("Cache-Control: max-age=60\r\n");
    let response = Response::new(200, "Date: Sun, 06 Nov 1994 08:49:38 GMT\r\nCache-Control: max-age=60\r\n");
    let newer = response.consider(&http(), &request_with("")).unwrap();
    assert_eq!((older.date_ms, newer.date_ms), (NOW, NOW + seconds(1)));
    let undated = Response::new(200, "Cache-Control: max-age=60\r\n").consider(&http(), &request_with("")).unwrap();
    assert_eq!(undated.date_ms, NOW);
}

/// RFC 9111 section 4. Requests collapse onto one fetch only if each may reuse what came.
#[test]
fn only_who_may_reuse_it_shares_a_fetch() {
    use super::coalesce::{may_lead, may_share, may_wait};
    // What a condition or credentials mean is known when the response is there.
    for fields in ["", "If-None-Match: \"a\"\r\n", "Authorization: a\r\n", "Cookie: a=b\r\n"] {
        assert!(may_lead(&request_with(fields)) && may_wait(&request_with(fields)), "{fields}");
    }
    for fields in ["Range: bytes=0-1\r\n", "Cache-Control: only-if-cached\r\n"] {
        assert!(!may_lead(&request_with(fields)) && !may_wait(&request_with(fields)), "{fields}");
    }
    // Who wants validation wants a response that is made after the question.
    for fields in ["Cache-Control: no-cache\r\n", "Cache-Control: max-age=0\r\n"] {
        assert!(may_lead(&request_with(fields)) && !may_wait(&request_with(fields)), "{fields}");
    }
    let freshness = freshness("Cache-Control: max-age=60\r\n");
    assert!(may_share(&freshness, &request_with(""), true, NOW));
    assert!(!may_share(&freshness, &request_with(""), false, NOW), "another variant");
    assert!(!may_share(&freshness, &request_with("Cache-Control: min-fresh=61\r\n"), true, NOW));
    for credentials in ["Cookie: a=b\r\n", "Authorization: a\r\n"] {
        for (control, is_shared) in [
            ("max-age=60", false),
            ("public, max-age=60", true),
            ("s-maxage=60", true),
            ("must-revalidate, max-age=60", credentials.starts_with('A')),
        ] {
            let freshness = self::freshness(&format!("Cache-Control: {control}\r\n"));
            assert_eq!(
                may_share(&freshness, &request_with(credentials), true, NOW),
                is_shared,
                "{control} {credentials}"
            );
        }
    }
}

/// RFC 9111 section 4.3.3. Only a response that speaks of the resource, and not of one client, shows that what is stored is out of date.
#[test]
fn what_concerns_one_client_supersedes_nothing() {
    use super::storable::supersedes;
    for status in [200, 204, 301, 404, 410] {
        assert!(supersedes(&request_with(""), status), "{status}");
        for credentials in ["Cookie: a=b\r\n", "Authorization: a\r\n"] {
            assert!(!supersedes(&request_with(credentials), status), "{status} {credentials}");
        }
    }
    for status in [206, 304, 400, 401, 403, 406, 412, 416, 421, 429, 431, 500, 503] {
        assert!(!supersedes(&request_with(""), status), "{status}");
    }
}

/// RFC 9111 section 4.1. White space, joined lines and what a field's definition makes equal do not matter.
#[test]
fn equal_selecting_fields_match() {
    for (name, one, other) in [
        ("Accept-Encoding", "Accept-Encoding: gzip, br\r\n", "Accept-Encoding: br\r\nAccept-Encoding: GZIP\r\n"),
        ("Accept-Encoding", "Accept-Encoding: gzip;q=1.0,br ; q=0.50\r\n", "Accept-Encoding: br;q=0.5, x-gzip\r\n"),
        ("Accept-Language", "Accept-Language: en-GB,en;q=0.8\r\n", "Accept-Language: EN-gb , en ; Q=0.8,\r\n"),
        ("Accept", "Accept: text/HTML , */*;q=0.1\r\n", "Accept: text/html\r\nAccept: */* ;q=0.1\r\n"),
        ("X-List", "X-List: a, b\r\n", "X-List: a\r\nX-List: b\r\n"),
    ] {
        let secondary = |fields: &str| {
            let mut out = Vec::new();
            vary::write_secondary(name.to_ascii_lowercase().as_bytes(), get(fields).lines(), &mut out);
            out
        };
        assert_eq!(secondary(one), secondary(other), "{one} {other}");
    }
}

/// RFC 9111 section 4.1. A field that is absent matches only where it is absent.
#[test]
fn absence_matches_absence_only() {
    let secondary = |fields: &str| {
        let mut out = Vec::new();
        vary::write_secondary(b"x-a", get(fields).lines(), &mut out);
        out
    };
    assert_ne!(secondary(""), secondary("X-A:\r\n"));
    assert_eq!(secondary(""), secondary("X-B: 1\r\n"));
}

/// RFC 9111 section 4.1. A Vary with a member "*" always fails to match: such a response is not stored.
#[test]
fn vary_star_is_not_stored() {
    for vary in ["*", "Accept, *", "*, Accept"] {
        assert_eq!(store(&format!("Cache-Control: max-age=60\r\nVary: {vary}\r\n")), Err(NotStored::Vary), "{vary}");
    }
    assert_eq!(store("Cache-Control: max-age=60\r\nVary: a\r\nVary: *\r\n"), Err(NotStored::Vary));
    assert!(store("Cache-Control: max-age=60\r\nVary: Accept\r\nVary:\r\n").is_ok());
}

/// RFC 9111 section 4.2. Fresh while freshness_lifetime > current_age.
#[test]
fn fresh_is_what_is_younger_than_its_lifetime() {
    let freshness = freshness("Cache-Control: max-age=10\r\n");
    assert!(freshness.is_fresh(NOW + 9_999));
    assert!(!freshness.is_fresh(NOW + 10_000));
}

/// RFC 9111 section 4.2. SHOULD match dates in any case; MUST NOT use local time zones; SHOULD take other zones than GMT as invalid.
#[test]
fn dates_are_read_for_freshness_as_configured() {
    let lifetime = |expires: &str| {
        let response = Response::new(200, &format!("{DATE}ETag: \"a\"\r\nExpires: {expires}\r\n"));
        response.consider(&http(), &request_with("")).unwrap().lifetime_ms
    };
    assert_eq!(lifetime("Sun, 06 Nov 1994 08:50:37 GMT"), seconds(60));
    assert_eq!(lifetime("sun, 06 nov 1994 08:50:37 gmt"), seconds(60));
    assert_eq!(lifetime("SUNDAY, 06-NOV-94 08:50:37 GMT"), seconds(60));
    assert_eq!(lifetime("Sun Nov  6 08:50:37 1994"), seconds(60));
    for zone in ["UTC", "PST", "+0000", "Z", ""] {
        assert_eq!(lifetime(&format!("Sun, 06 Nov 1994 08:50:37 {zone}")), 0, "{zone}");
    }
}

/// RFC 9111 section 4.2.1. The lifetime is that of s-maxage, else of max-age, else Expires minus Date.
#[test]
fn lifetimes_have_an_order() {
    let expires = "Expires: Sun, 06 Nov 1994 08:49:47 GMT\r\n";
    for (fields, lifetime_s, source) in [
        ("Cache-Control: max-age=20, s-maxage=30\r\n", 30, LifetimeSource::SharedMaxAge),
        ("Cache-Control: max-age=20\r\n", 20, LifetimeSource::MaxAge),
        ("", 10, LifetimeSource::Expires),
        ("Cache-Control: s-maxage=5, max-age=20\r\n", 5, LifetimeSource::SharedMaxAge),
    ] {
        let freshness = freshness(&format!("{expires}{fields}"));
        assert_eq!((freshness.lifetime_ms, freshness.source), (seconds(lifetime_s), source), "{fields}");
    }
}

/// RFC 9111 section 4.2.1. Of a directive with two values the response is stale; of conflicting directives the most restrictive holds.
#[test]
fn conflicts_are_settled_for_the_stricter() {
    let tag = "ETag: \"a\"\r\n";
    assert_eq!(freshness(&format!("{tag}Cache-Control: max-age=60, max-age=60\r\n")).lifetime_ms, seconds(60));
    assert_eq!(freshness(&format!("{tag}Cache-Control: max-age=60\r\nCache-Control: max-age=50\r\n")).lifetime_ms, 0);
    assert_eq!(freshness(&format!("{tag}Cache-Control: s-maxage=1, s-maxage=2, max-age=60\r\n")).lifetime_ms, 0);
    let two = "Expires: Sun, 06 Nov 1994 08:50:37 GMT\r\nExpires: Sun, 06 Nov 1994 08:51:37 GMT\r\n";
    assert_eq!(freshness(&format!("{tag}{two}")).lifetime_ms, 0);
    assert!(freshness(&format!("{tag}Cache-Control: max-age=60, no-cache\r\n")).always_validate);
    assert_eq!(store("Cache-Control: public, max-age=60, no-store\r\n"), Err(NotStored::NoStore));
}

/// RFC 9111 section 4.2.1. Invalid freshness information makes the response stale.
#[test]
fn invalid_lifetimes_are_stale() {
    for value in [
        "max-age=a",
        "max-age=-1",
        "max-age=1.5",
        "max-age",
        "max-age=",
        "max-age=\"",
        "max-age=6 0",
        "max-age =60",
        "max-age= 60",
        "max-age=60;",
        "max-age='60'",
        "max-age=0x3c",
        "max-age:\"60\"",
        "max-age\"60\"",
        "s-maxage=x, max-age=60",
        "x=\"a, max-age=60",
    ] {
        let fields = format!("ETag: \"a\"\r\nCache-Control: {value}\r\nExpires: Sun, 06 Nov 1994 08:50:37 GMT\r\n");
        assert_eq!(freshness(&fields).lifetime_ms, 0, "{value}");
    }
}

/// RFC 9111 section 4.2.2. MUST NOT use heuristics when an explicit expiration time is present.
#[test]
fn no_guess_where_something_is_said() {
    for said in [
        "Cache-Control: max-age=5\r\n",
        "Cache-Control: max-age=x\r\n",
        "Expires: 0\r\n",
        "Cache-Control: s-maxage=5\r\n",
    ] {
        let response = Response::new(200, &format!("{DATE}ETag: \"a\"\r\n{said}"));
        let freshness = response.consider(&guessing(), &request_with("")).unwrap();
        assert_ne!(freshness.source, LifetimeSource::Heuristic, "{said}");
        assert!(freshness.lifetime_ms <= seconds(5), "{said}");
    }
}

/// RFC 9111 section 4.2.2. Heuristics apply only where the status is heuristically cacheable or public says so; here also only with a validator
/// and where configured.
#[test]
fn guesses_need_leave() {
    let lifetime = |policy: &Policy, status: u16, fields: &str| {
        Response::new(status, fields)
            .consider(policy, &request_with(""))
            .map(|freshness| (freshness.lifetime_ms, freshness.source))
    };
    let guess = Ok((seconds(100), LifetimeSource::Heuristic));
    let nothing = Err(NotStored::NoFreshness);
    assert_eq!(lifetime(&guessing(), 200, "ETag: \"a\"\r\n"), guess);
    assert_eq!(lifetime(&guessing(), 200, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), guess);
    assert_eq!(lifetime(&guessing(), 200, ""), nothing);
    assert_eq!(lifetime(&guessing(), 200, "ETag: a\r\n"), nothing);
    assert_eq!(lifetime(&http(), 200, "ETag: \"a\"\r\n"), nothing);
    assert_eq!(lifetime(&guessing(), 302, "ETag: \"a\"\r\n"), nothing);
    assert_eq!(lifetime(&guessing(), 302, "ETag: \"a\"\r\nCache-Control: public\r\n"), guess);
}

/// RFC 9111 section 4.2.3. The initial age is the larger of apparent_age and corrected_age_value.
#[test]
fn ages_are_corrected() {
    let age = |fields: &str, sent_ms: u64, received_ms: u64| {
        freshness::initial_age_ms(Response::new(200, fields).lines(), Times { sent_ms, received_ms })
    };
    assert_eq!(age(DATE, NOW, NOW), 0);
    assert_eq!(age(DATE, NOW + seconds(20), NOW + seconds(20)), seconds(20), "apparent");
    assert_eq!(age(&format!("{DATE}Age: 30\r\n"), NOW + seconds(20), NOW + seconds(20)), seconds(30));
    assert_eq!(age(&format!("{DATE}Age: 10\r\n"), NOW + seconds(20), NOW + seconds(20)), seconds(20));
    assert_eq!(age(DATE, NOW + seconds(60), NOW), 0, "a clock that was set back");
    assert_eq!(age("Date: Sun, 06 Nov 1994 09:49:37 GMT\r\n", NOW, NOW), 0, "a Date of the future");
    assert_eq!(age(DATE, NOW + 900, NOW + 900), 0, "Date has whole seconds");
}

/// RFC 9111 section 4.2.3. MUST interpret Age relative to when the request was initiated.
#[test]
fn age_counts_from_the_request() {
    let times = Times { sent_ms: NOW, received_ms: NOW + seconds(4) };
    let response = Response::new(200, &format!("{DATE}Age: 30\r\n"));
    assert_eq!(freshness::initial_age_ms(response.lines(), times), seconds(34));
}

/// RFC 9111 section 4.2.3. current_age is the initial age plus the time since the response was received.
#[test]
fn ages_grow_in_the_store() {
    let freshness = freshness("Cache-Control: max-age=60\r\nAge: 30\r\n");
    assert_eq!(freshness.age_ms(NOW + seconds(12)), seconds(42));
    assert_eq!(freshness.age_ms(NOW - seconds(12)), seconds(30), "a clock that was set back");
    assert!(freshness.is_fresh(NOW + seconds(29)) && !freshness.is_fresh(NOW + seconds(30)));
}

/// RFC 9111 section 4.2.4. MUST NOT generate a stale response that a directive prohibits, whoever else allows it.
#[test]
fn stale_use_can_be_forbidden() {
    let policy = http_with(|cache| {
        cache.stale_if_error = Some(Duration::from_secs(600));
        cache.stale_while_revalidate = Some(Duration::from_secs(600));
    });
    let wanted = request_with("Cache-Control: max-stale, stale-if-error=600\r\n");
    for control in [
        "max-age=60, must-revalidate",
        "max-age=60, proxy-revalidate",
        "s-maxage=60",
        "no-cache, max-age=60",
        "s-maxage=60, stale-while-revalidate=60, stale-if-error=60",
    ] {
        let response = Response::new(200, &format!("{DATE}ETag: \"a\"\r\nCache-Control: {control}\r\n"));
        let freshness = response.consider(&policy, &wanted).unwrap();
        let later = NOW + seconds(61);
        assert_eq!(reuse::assess(&freshness, &wanted, later), Reuse::Validate(Fwd::Stale), "{control}");
        assert!(!reuse::may_replace_error(&freshness, &wanted, later), "{control}");
    }
}

/// RFC 9111 section 4.2.4. MUST NOT generate a stale response unless disconnected, or by leave of client, origin or configuration.
#[test]
fn stale_use_needs_leave() {
    let plain = freshness("Cache-Control: max-age=60\r\n");
    assert_eq!(reuse::assess(&plain, &request_with(""), NOW + seconds(61)), Reuse::Validate(Fwd::Stale));
    assert!(!reuse::may_replace_error(&plain, &request_with(""), NOW + seconds(61)));
}

fn invalidated(target: &Url<'_>, status: u16, fields: &str) -> Vec<String> {
    let response = Response::new(status, fields);
    let mut urls = Vec::new();
    each_url(&http(), target, status, response.lines(), |url| urls.push(text(url).to_owned()));
    urls
}

const TARGET: Url<'static> = Url { scheme: b"http", authority: b"a.example", path: b"/b/c", query: Some(b"d=1") };

/// RFC 9111 section 4.4. MUST invalidate the target URI after a non-error response to an unsafe method, or one of unknown safety.
#[test]
fn unsafe_methods_invalidate_the_target() {
    for method in [Method::Post, Method::Put, Method::Delete, Method::Patch, Method::Other] {
        assert!(is_invalidating(&http(), method));
    }
    for method in [Method::Get, Method::Head, Method::Options, Method::Trace] {
        assert!(!is_invalidating(&http(), method));
    }
    for status in [200, 201, 204, 299, 301, 303, 399] {
        assert_eq!(invalidated(&TARGET, status, ""), ["http://a.example/b/c?d=1"], "{status}");
    }
}

/// RFC 9111 section 4.4. Nothing is invalidated by an error.
#[test]
fn errors_invalidate_nothing() {
    for status in [100, 199, 400, 404, 500, 503] {
        assert!(invalidated(&TARGET, status, "Location: /x\r\n").is_empty(), "{status}");
    }
}

/// RFC 9111 section 4.4. Location and Content-Location of the same origin are invalidated too.
#[test]
fn locations_are_invalidated() {
    for (fields, url) in [
        ("Location: /x\r\n", "http://a.example/x"),
        ("Content-Location: http://A.example:80/x?y\r\n", "http://a.example/x?y"),
        ("Location: //a.example\r\n", "http://a.example/"),
        ("Location: e#f\r\n", "http://a.example/b/e"),
        ("Location: ../e/./f\r\n", "http://a.example/e/f"),
        ("Location: ?z\r\n", "http://a.example/b/c?z"),
        ("content-location: HTTP://a.example/%7ex\r\n", "http://a.example/~x"),
    ] {
        assert_eq!(invalidated(&TARGET, 200, fields), ["http://a.example/b/c?d=1", url], "{fields}");
    }
    assert_eq!(invalidated(&TARGET, 200, "Location: /x\r\nContent-Location: /y\r\n").len(), 3);
    assert_eq!(invalidated(&TARGET, 200, "Location:\r\nContent-Location: /b/c?d=1\r\n").len(), 1);
}

/// RFC 9111 section 4.4. MUST NOT invalidate a URI of another origin.
#[test]
fn other_origins_are_left_alone() {
    for location in [
        "http://b.example/x",
        "https://a.example/x",
        "http://a.example:81/x",
        "//b.example/x",
        "http://a.example@b.example/x",
        "mailto:a@a.example",
        "http:/x",
        "http://a.example/../..",
        "/a//b",
        "http://",
    ] {
        assert_eq!(invalidated(&TARGET, 200, &format!("Location: {location}\r\n")).len(), 1, "{location}");
    }
}
