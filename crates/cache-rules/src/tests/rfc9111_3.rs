//! RFC 9111 section 3: storing.

use super::*;

/// RFC 9111 section 3. MUST NOT store a response to a method that the cache does not understand.
#[test]
fn methods_that_are_not_understood_are_not_stored() {
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST", "QUERY", "LINK"] {
        assert_eq!(Request::new(method, "").bypass(&http()), Bypass::Method, "{method}");
    }
}

/// RFC 9111 section 3. MUST NOT store a response whose status is not final.
#[test]
fn interim_responses_are_not_stored() {
    for status in [100, 101, 102, 103, 199] {
        let response = Response::new(status, "Cache-Control: max-age=60\r\n");
        assert_eq!(response.consider(&http(), &request_with("")), Err(NotStored::Status), "{status}");
    }
}

/// RFC 9111 section 3. MUST NOT store a 304 as a response of its own.
#[test]
fn not_modified_is_no_response_to_store() {
    let response = Response::new(304, "Cache-Control: max-age=60\r\nETag: \"a\"\r\n");
    assert_eq!(response.consider(&http(), &request_with("")), Err(NotStored::Status));
}

/// RFC 9111 section 3. MUST NOT store a 206 unless it is understood; here no part is stored (section 3.3 allows, and does not request it).
#[test]
fn parts_are_not_stored() {
    for range in ["bytes 0-3/10", "bytes 6-9/10", "bytes 0-9/*", "chars 0-9/10", "bytes 0-9", "bytes */10"] {
        let response = Response::new(206, &format!("Cache-Control: max-age=60\r\nContent-Range: {range}\r\n"));
        assert_eq!(
            response.consider(&http(), &request_with("Range: bytes=0-9\r\n")),
            Err(NotStored::Partial),
            "{range}"
        );
    }
    let multipart = "Cache-Control: max-age=60\r\nContent-Type: multipart/byteranges; boundary=x\r\n";
    assert_eq!(Response::new(206, multipart).consider(&http(), &request_with("")), Err(NotStored::Partial));
}

/// RFC 9111 section 3.4. A part that is the whole is stored as the 200 that it stands for, without Content-Range.
#[test]
fn a_part_that_is_everything_is_stored_as_the_whole() {
    let fields = "Cache-Control: max-age=60\r\nContent-Range: bytes 0-9/10\r\nContent-Length: 10\r\n";
    let response = Response::new(206, fields);
    let freshness = response.consider(&http(), &request_with("Range: bytes=0-\r\n")).unwrap();
    assert_eq!(freshness.status, 200);
    assert!(!text(&response.stored(&http())).contains("Content-Range"));
}

/// RFC 9111 section 3. MUST NOT store a response with no-store.
#[test]
fn no_store_is_not_stored() {
    for control in ["no-store", "max-age=60, No-Store", "public, no-store", "no-store=\"x\"", "no-store=1, max-age=5"] {
        assert_eq!(store(&format!("Cache-Control: {control}\r\n")), Err(NotStored::NoStore), "{control}");
    }
}

/// RFC 9111 section 3. MUST NOT store, being shared, a response with private.
#[test]
fn private_is_not_stored() {
    for control in
        ["private", "private, max-age=60", "public, private", "private=\"\", max-age=60", "s-maxage=9, private"]
    {
        assert_eq!(store(&format!("Cache-Control: {control}\r\n")), Err(NotStored::Private), "{control}");
    }
}

/// RFC 9111 section 3. MUST NOT store, being shared, the response to a request with Authorization unless it expressly allows that.
#[test]
fn responses_to_authorized_requests_are_not_stored() {
    let wanted = request_with("Authorization: Bearer a\r\n");
    let response = Response::new(200, "Cache-Control: max-age=60\r\nETag: \"a\"\r\n");
    assert_eq!(response.consider(&http(), &wanted), Err(NotStored::Authorized));
}

/// RFC 9111 section 3.5. Responses to requests with Authorization are stored and reused with must-revalidate, public or s-maxage, and not else.
#[test]
fn authorized_requests_share_what_expressly_allows_it() {
    let wanted = request_with("Authorization: Bearer a\r\n");
    for control in ["max-age=60, must-revalidate", "public, max-age=60", "s-maxage=60"] {
        let freshness =
            Response::new(200, &format!("Cache-Control: {control}\r\n")).consider(&http(), &wanted).unwrap();
        assert_eq!(reuse::assess(&freshness, &wanted, NOW), reuse::Reuse::Fresh, "{control}");
    }
    // What an anonymous client got is not for authorized ones either.
    let anonymous = freshness("Cache-Control: max-age=60\r\n");
    assert_eq!(reuse::assess(&anonymous, &wanted, NOW), reuse::Reuse::NotForThisClient);
    assert!(!reuse::may_replace_error(&Freshness { stale_if_error_ms: 1000, ..anonymous }, &wanted, NOW));
}

/// RFC 9111 section 3.5. MUST conform to the directive that allowed it: must-revalidate and s-maxage then forbid stale use.
#[test]
fn what_allows_sharing_is_obeyed() {
    let wanted = request_with("Authorization: Bearer a\r\nCache-Control: max-stale\r\n");
    for control in ["max-age=60, must-revalidate", "s-maxage=60"] {
        let freshness =
            Response::new(200, &format!("Cache-Control: {control}\r\n")).consider(&http(), &wanted).unwrap();
        let later = NOW + seconds(61);
        assert_eq!(reuse::assess(&freshness, &wanted, later), reuse::Reuse::Validate(Fwd::Stale), "{control}");
    }
}

/// RFC 9111 section 3. MUST NOT store a response that has none of public, Expires, max-age, s-maxage or a heuristically cacheable status.
#[test]
fn something_must_make_it_cacheable() {
    let validator = "ETag: \"a\"\r\n";
    for status in [201, 202, 302, 303, 307, 400, 403, 500, 502, 503] {
        let response = Response::new(status, validator);
        assert_eq!(response.consider(&guessing(), &request_with("")), Err(NotStored::NoFreshness), "{status}");
        for field in ["Cache-Control: max-age=60\r\n", "Cache-Control: s-maxage=60\r\n", "Cache-Control: public\r\n"] {
            let response = Response::new(status, &format!("{validator}{field}"));
            assert!(response.consider(&guessing(), &request_with("")).is_ok(), "{status} {field}");
        }
        let expires = format!("{DATE}{validator}Expires: Sun, 06 Nov 1994 08:50:37 GMT\r\n");
        assert!(Response::new(status, &expires).consider(&http(), &request_with("")).is_ok(), "{status}");
    }
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert!(Response::new(status, validator).consider(&guessing(), &request_with("")).is_ok(), "{status}");
    }
}

/// RFC 9111 section 5.2.2.3. MUST NOT store a response with must-understand if the status is not understood; else ignores its no-store.
#[test]
fn must_understand_limits_and_lifts() {
    let fields = "Cache-Control: must-understand, no-store, max-age=60\r\n";
    for status in [200, 404, 501] {
        assert!(Response::new(status, fields).consider(&http(), &request_with("")).is_ok(), "{status}");
    }
    for status in [299, 499, 599] {
        let response = Response::new(status, fields);
        assert_eq!(response.consider(&http(), &request_with("")), Err(NotStored::NotUnderstood), "{status}");
    }
    assert!(Response::new(299, "Cache-Control: max-age=60\r\n").consider(&http(), &request_with("")).is_ok());
}

/// RFC 9111 section 3.1. MUST include all received fields, unrecognised ones too.
#[test]
fn all_fields_are_stored() {
    let fields =
        format!("{DATE}X-New: 1\r\nX-New: 2\r\nCache-Control: max-age=60\r\nContent-Type: text/plain\r\nPragma: a\r\n");
    assert_eq!(text(&Response::new(200, &fields).stored(&http())), fields);
}

/// RFC 9111 section 3.1. Connection, the fields that it names, and other fields of one connection are removed before storing.
#[test]
fn fields_of_one_connection_are_not_stored() {
    let fields = format!(
        "{DATE}Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Connection: close\r\nUpgrade: h2c\r\nTE: trailers\r\n\
         Trailer: X-T\r\nTransfer-Encoding: chunked\r\nX-End: 1\r\n"
    );
    assert_eq!(text(&Response::new(200, &fields).stored(&http())), format!("{DATE}X-End: 1\r\n"));
}

/// RFC 9111 section 3.1. MUST NOT store Proxy-Authenticate, Proxy-Authentication-Info and Proxy-Authorization.
#[test]
fn fields_of_the_clients_proxy_are_not_stored() {
    let fields = format!(
        "{DATE}Proxy-Authenticate: Basic\r\nProxy-Authentication-Info: a\r\nProxy-Authorization: b\r\nX: 1\r\n"
    );
    assert_eq!(text(&Response::new(200, &fields).stored(&http())), format!("{DATE}X: 1\r\n"));
}

/// RFC 9110 section 6.6.1. MUST record when a response without Date was received, and add it when it is cached.
#[test]
fn a_response_without_a_date_gets_one() {
    assert_eq!(text(&Response::new(200, "X: 1\r\n").stored(&http())), format!("X: 1\r\n{DATE}"));
    assert_eq!(text(&Response::new(200, "Date: yesterday\r\nX: 1\r\n").stored(&http())), format!("X: 1\r\n{DATE}"));
    let twice = format!("{DATE}Date: Sun, 06 Nov 1994 00:00:00 GMT\r\n");
    assert_eq!(text(&Response::new(200, &twice).stored(&http())), DATE);
}

/// RFC 6585 and the definitions of statuses. MUST NOT store 428, 429, 431 and 511; nor what depends on fields outside of the key, or on one client.
#[test]
fn statuses_that_are_about_one_request_are_not_stored() {
    for status in [304, 401, 407, 408, 412, 416, 417, 421, 425, 426, 428, 429, 431, 511] {
        let response = Response::new(status, "Cache-Control: public, max-age=60\r\n");
        assert_eq!(response.consider(&http(), &request_with("")), Err(NotStored::Status), "{status}");
    }
}

/// RFC 9111 section 7.3. Set-Cookie does not forbid caching; this cache stores nothing with it all the same.
#[test]
fn cookies_are_not_handed_to_others_unasked() {
    assert_eq!(store("Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n"), Err(NotStored::SetCookie));
    for control in ["public, max-age=60", "s-maxage=60"] {
        let fields = format!("Cache-Control: {control}\r\nSet-Cookie: a=b\r\n");
        assert_eq!(store(&fields), Err(NotStored::SetCookie), "{control}");
    }
    for directive in ["no-cache", "private"] {
        let fields = format!("{DATE}Cache-Control: max-age=60, {directive}=\"Set-Cookie\"\r\nSet-Cookie: a=b\r\n");
        let response = Response::new(200, &fields);
        assert!(response.consider(&http(), &request_with("")).is_ok());
        assert!(!text(&response.stored(&http())).contains("a=b"));
    }
}

/// RFC 9111 section 3. A response with neither lifetime nor validator is of no use, and is not stored.
#[test]
fn what_could_never_be_used_is_not_stored() {
    assert_eq!(store("Cache-Control: max-age=0\r\n"), Err(NotStored::Useless));
    assert_eq!(store("Cache-Control: no-cache, max-age=60\r\n"), Err(NotStored::Useless));
    assert_eq!(store("Cache-Control: max-age=60\r\nAge: 61\r\n"), Err(NotStored::Useless));
    assert_eq!(store("Cache-Control: max-age=0, must-revalidate, stale-if-error=60\r\n"), Err(NotStored::Useless));
    assert!(store("Cache-Control: max-age=0, stale-if-error=60\r\n").is_ok());
    assert!(store("Cache-Control: max-age=0\r\nETag: \"a\"\r\n").is_ok());
    assert!(store("Cache-Control: no-cache\r\nETag: \"a\"\r\n").is_ok());
    assert_eq!(store("ETag: \"a\"\r\n"), Err(NotStored::NoFreshness));
    assert_eq!(store(""), Err(NotStored::NoFreshness));
}
