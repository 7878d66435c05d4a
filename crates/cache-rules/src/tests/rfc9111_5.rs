//! RFC 9111 section 5: fields and directives; and delta-seconds of section 1.2.2.

use super::cache_control::{Argument, RequestControl, ResponseControl, directives};
use super::list::delta_seconds;
use super::reuse::Reuse;
use super::*;

const TAG: &str = "ETag: \"a\"\r\n";

/// RFC 9111 section 1.2.2. MUST take a number that is too large for 2^31.
#[test]
fn seconds_do_not_overflow() {
    assert_eq!(delta_seconds(b"0"), Some(0));
    assert_eq!(delta_seconds(b"0060"), Some(60));
    for huge in ["2147483648", "2147483649", "4294967296", "18446744073709551616", &"9".repeat(400)] {
        assert_eq!(delta_seconds(huge.as_bytes()), Some(1 << 31), "{huge}");
        let freshness = freshness(&format!("Cache-Control: max-age={huge}\r\nAge: {huge}\r\n{TAG}"));
        assert_eq!((freshness.lifetime_ms, freshness.initial_age_ms), (seconds(1 << 31), seconds(1 << 31)));
        assert!(!freshness.is_fresh(NOW) && freshness.age_ms(u64::MAX) > 0);
    }
    for none in ["", "-1", "+1", "1.0", " 1", "1s", "\u{0661}"] {
        assert_eq!(delta_seconds(none.as_bytes()), None, "{none}");
    }
}

/// RFC 9111 section 5.1. SHOULD use the first member of Age and ignore one that is not a number.
#[test]
fn age_is_one_number() {
    for (fields, age_s) in [
        ("Age: 30\r\n", 30),
        ("Age: 30\r\nAge: 90\r\n", 30),
        ("Age: 30, 90\r\n", 30),
        ("Age: x\r\n", 0),
        ("Age: -30\r\n", 0),
        ("Age: 3.5\r\n", 0),
        ("Age: x, 30\r\n", 0),
        ("Age:\r\n", 0),
    ] {
        assert_eq!(
            freshness(&format!("Cache-Control: max-age=60\r\n{fields}")).initial_age_ms,
            seconds(age_s),
            "{fields}"
        );
    }
}

/// RFC 9111 section 5.1. A response that was made or validated for the request carries no Age of this cache.
#[test]
fn age_is_not_written_on_what_was_fetched_for_the_request() {
    use super::status::Outcome;
    let freshness = freshness("Cache-Control: max-age=60\r\n");
    for (status, collapsed) in [(None, None), (Some(304), None), (None, Some(false))] {
        let outcome = Outcome::Forwarded { why: Fwd::Stale, status, stored: true, collapsed };
        let mut out = Vec::new();
        status::write(http().headers, outcome, Some(&freshness), NOW, b"weir", &mut out);
        assert!(!text(&out).contains("Age:"), "{}", text(&out));
    }
}

/// RFC 9111 section 5.1. The Age of a cache between here and the origin is passed on, grown by what the response took since.
#[test]
fn the_age_of_another_cache_is_passed_on() {
    use super::status::Outcome;
    let freshness = freshness("Cache-Control: max-age=60\r\nAge: 7\r\n");
    let outcome = Outcome::Forwarded { why: Fwd::Stale, status: None, stored: true, collapsed: None };
    for (now_ms, age) in [(NOW, "Age: 7\r\n"), (NOW + 2_000, "Age: 9\r\n")] {
        let mut out = Vec::new();
        status::write(http().headers, outcome, Some(&freshness), now_ms, b"weir", &mut out);
        assert!(text(&out).contains(age), "{}", text(&out));
    }
}

/// RFC 9111 section 5.2. MUST pass directives on, also those that this cache has obeyed.
#[test]
fn directives_are_passed_on() {
    let fields = format!("{DATE}Cache-Control: max-age=60, s-maxage=9, x=\"y\"\r\nCDN-Cache-Control: max-age=5\r\n");
    let stored = Response::new(200, &fields).stored(&http());
    assert_eq!(text(&stored), fields);
    let mut out = Vec::new();
    head::write_fields(&stored, delivery::Delivery::Whole, 0, &mut out);
    assert_eq!(text(&out), fields);
}

/// RFC 9111 section 5.2. Names of directives in any case; arguments in both forms.
#[test]
fn directives_are_read_kindly() {
    for control in [
        "max-age=60",
        "MAX-AGE=60",
        "max-age=\"60\"",
        "  ,max-age=60 ,,",
        "a=b,max-age=60",
        "a=\"b,c=\\\"d\", max-age=60",
    ] {
        assert_eq!(freshness(&format!("Cache-Control: {control}\r\n")).lifetime_ms, seconds(60), "{control}");
    }
    let all: Vec<_> = directives(b"a, b=c ,d=\"e, \\\"f\" , g=, =h, i=\"j, k l,\"m\"").collect();
    let expected: Vec<(&[u8], Argument<'_>)> = vec![
        (b"a", Argument::Absent),
        (b"b", Argument::Token(b"c")),
        (b"d", Argument::Quoted(b"e, \\\"f")),
        (b"g", Argument::Malformed),
        (b"i", Argument::Quoted(b"j, k l,")),
    ];
    assert_eq!(all[..4], expected[..4]);
    assert_eq!(all[4].0, b"i");
}

/// RFC 9111 section 5.2.1.1. max-age in a request: not older, and not stale unless max-stale says so.
#[test]
fn requests_may_limit_the_age() {
    let response = "Cache-Control: max-age=60, stale-while-revalidate=60\r\n";
    assert_eq!(reuse(response, "Cache-Control: max-age=30\r\n", 30), Reuse::Fresh);
    assert_eq!(reuse(response, "Cache-Control: max-age=30\r\n", 31), Reuse::Validate(Fwd::Request));
    assert_eq!(reuse(response, "Cache-Control: max-age=0\r\n", 1), Reuse::Validate(Fwd::Request));
    assert_eq!(reuse(response, "Cache-Control: max-age=x\r\n", 1), Reuse::Validate(Fwd::Request));
    assert_eq!(reuse(response, "Cache-Control: max-age=90\r\n", 61), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse(response, "Cache-Control: max-age=90, max-stale\r\n", 61), Reuse::StaleAllowed);
    assert_eq!(reuse(response, "Cache-Control: max-age=90, max-stale\r\n", 91), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse(response, "Cache-Control: max-age=90, max-age=10\r\n", 11), Reuse::Validate(Fwd::Request));
}

/// RFC 9111 section 5.2.1.2. max-stale in a request: a stale response is good, up to the number of seconds if there is one.
#[test]
fn requests_may_take_stale_responses() {
    let response = "Cache-Control: max-age=60\r\n";
    assert_eq!(reuse(response, "Cache-Control: max-stale=10\r\n", 70), Reuse::StaleAllowed);
    assert_eq!(reuse(response, "Cache-Control: max-stale=10\r\n", 71), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse(response, "Cache-Control: max-stale\r\n", 1 << 33), Reuse::StaleAllowed);
    assert_eq!(reuse(response, "Cache-Control: max-stale=x\r\n", 61), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse(response, "Cache-Control: max-stale, max-stale=5\r\n", 66), Reuse::Validate(Fwd::Stale));
}

/// RFC 9111 section 5.2.1.3. min-fresh in a request: fresh for at least so long.
#[test]
fn requests_may_want_freshness_to_come() {
    let response = "Cache-Control: max-age=60, stale-while-revalidate=60\r\n";
    assert_eq!(reuse(response, "Cache-Control: min-fresh=20\r\n", 40), Reuse::Fresh);
    assert_eq!(reuse(response, "Cache-Control: min-fresh=20\r\n", 41), Reuse::Validate(Fwd::Request));
    assert_eq!(reuse(response, "Cache-Control: min-fresh=0\r\n", 60), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse(response, "Cache-Control: min-fresh=x\r\n", 0), Reuse::Validate(Fwd::Request));
}

/// RFC 9111 section 5.2.1.4. no-cache in a request: not without validation.
#[test]
fn requests_may_want_validation() {
    let response = "Cache-Control: max-age=60, stale-while-revalidate=60, stale-if-error=60\r\n";
    assert_eq!(reuse(response, "Cache-Control: no-cache\r\n", 0), Reuse::Validate(Fwd::Request));
    assert_eq!(reuse(response, "Cache-Control: no-cache, max-stale\r\n", 61), Reuse::Validate(Fwd::Stale));
    assert!(!reuse::may_replace_error(&freshness(response), &request_with("Cache-Control: no-cache\r\n"), NOW));
}

/// RFC 9111 section 5.2.1.5. MUST NOT store any part of a request with no-store, nor of its response: it bypasses the cache.
#[test]
fn requests_may_forbid_storing() {
    for policy in [http(), ttl()] {
        assert_eq!(get("Cache-Control: no-store\r\n").bypass(&policy), Bypass::NoStore);
        assert_eq!(get("Cache-Control: max-age=5, NO-STORE=x\r\n").bypass(&policy), Bypass::NoStore);
    }
}

/// RFC 9111 section 5.2.1.7. SHOULD respond to only-if-cached from the store or with 504: the request must not go forward.
#[test]
fn only_if_cached_does_not_go_forward() {
    let wanted = request_with("Cache-Control: only-if-cached\r\n");
    assert!(wanted.must_not_forward());
    let freshness = freshness("Cache-Control: max-age=60\r\n");
    assert_eq!(reuse::assess(&freshness, &wanted, NOW), Reuse::Fresh);
    assert!(!request_with("Cache-Control: max-age=5\r\n").must_not_forward());
}

/// RFC 9111 section 5.2.2.1. max-age in a response: stale when its age exceeds it.
#[test]
fn max_age_is_a_lifetime() {
    assert_eq!(freshness("Cache-Control: max-age=60\r\n").lifetime_ms, seconds(60));
    assert_eq!(reuse("Cache-Control: max-age=60\r\nAge: 50\r\n", "", 9), Reuse::Fresh);
    assert_eq!(reuse("Cache-Control: max-age=60\r\nAge: 50\r\n", "", 10), Reuse::Validate(Fwd::Stale));
}

/// RFC 9111 section 5.2.2.2. MUST NOT reuse a stale response with must-revalidate before validation; MUST generate an error instead when disconnected.
#[test]
fn must_revalidate_is_obeyed_in_all_circumstances() {
    let policy = http_with(|cache| cache.stale_if_error = Some(Duration::from_secs(60)));
    let response =
        Response::new(200, &format!("{DATE}{TAG}Cache-Control: max-age=60, must-revalidate, stale-if-error=60\r\n"));
    let freshness = response.consider(&policy, &request_with("")).unwrap();
    assert_eq!(reuse::assess(&freshness, &request_with(""), NOW + seconds(59)), Reuse::Fresh);
    let stale = NOW + seconds(60);
    assert_eq!(
        reuse::assess(&freshness, &request_with("Cache-Control: max-stale\r\n"), stale),
        Reuse::Validate(Fwd::Stale)
    );
    assert!(!reuse::may_replace_error(&freshness, &request_with("Cache-Control: stale-if-error=60\r\n"), stale));
}

/// RFC 9111 section 5.2.2.4. MUST NOT use an unqualified no-cache response without validation, even where stale ones are served.
#[test]
fn no_cache_holds_against_stale_serving() {
    let response =
        format!("{TAG}Cache-Control: no-cache, max-age=60, stale-while-revalidate=60, stale-if-error=60\r\n");
    assert_eq!(reuse(&response, "", 0), Reuse::Validate(Fwd::Stale));
    assert!(!reuse::may_replace_error(&freshness(&response), &request_with(""), NOW + seconds(61)));
}

/// RFC 9111 section 5.2.2.4. A qualified no-cache: the fields that it names are left out of what is reused.
#[test]
fn qualified_no_cache_leaves_the_fields_out() {
    for control in ["no-cache=\"X-A, x-b\"", "no-cache=x-a, no-cache=\"X-B\"", "No-Cache=\"X-B , ,X-A\""] {
        let fields = format!("{DATE}Cache-Control: max-age=60, {control}\r\nX-A: 1\r\nx-b: 2\r\nX-C: 3\r\n");
        let response = Response::new(200, &fields);
        let freshness = response.consider(&http(), &request_with("")).unwrap();
        assert!(!freshness.always_validate, "{control}");
        let stored = response.stored(&http());
        assert!(text(&stored).ends_with("X-C: 3\r\n") && !text(&stored).contains("X-A:"), "{}", text(&stored));
        assert!(!text(&stored).contains("x-b:"));
    }
}

/// RFC 9111 section 5.2.2.4. A qualified form that makes no sense, or names what the rest cannot do without, counts as unqualified.
#[test]
fn odd_field_lists_count_as_unqualified() {
    for argument in
        ["\"\"", "\"a b\"", "\"\\\"\"", "\"", "", "\"Content-Type\"", "\"x-a, content-encoding\"", "\"Vary\"", "\"x-a"]
    {
        let fields = format!("{TAG}Cache-Control: max-age=60, no-cache={argument}\r\n");
        assert!(freshness(&fields).always_validate, "{argument}");
        assert_eq!(
            store(&format!("Cache-Control: max-age=60, private={argument}\r\n")),
            Err(NotStored::Private),
            "{argument}"
        );
    }
}

/// RFC 9111 section 5.2.2.5. MUST NOT store a response with no-store, nor use it for another request.
#[test]
fn no_store_of_responses_is_obeyed() {
    assert_eq!(store("Cache-Control: max-age=60\r\nCache-Control: no-store\r\n"), Err(NotStored::NoStore));
}

/// RFC 9111 section 5.2.2.7. MUST NOT store, being shared, the fields that a qualified private names; the rest may be.
#[test]
fn qualified_private_leaves_the_fields_out() {
    let fields = format!("{DATE}Cache-Control: max-age=60, private=\"X-A\"\r\nX-A: 1\r\nX-B: 2\r\n");
    let response = Response::new(200, &fields);
    assert!(response.consider(&http(), &request_with("")).is_ok());
    let stored = response.stored(&http());
    assert!(text(&stored).contains("X-B: 2") && !text(&stored).contains("X-A:"));
}

/// RFC 9111 section 5.2.2.8. MUST NOT reuse, being shared, a stale response with proxy-revalidate before validation.
#[test]
fn proxy_revalidate_is_obeyed() {
    let response = "Cache-Control: max-age=60, proxy-revalidate, stale-while-revalidate=60\r\n";
    assert_eq!(reuse(response, "Cache-Control: max-stale\r\n", 59), Reuse::Fresh);
    assert_eq!(reuse(response, "Cache-Control: max-stale\r\n", 60), Reuse::Validate(Fwd::Stale));
    assert_eq!(reuse(response, "", 60), Reuse::Validate(Fwd::Stale));
}

/// RFC 9111 section 5.2.2.9. public marks as cacheable what is not heuristically cacheable; lifts nothing that forbids storing.
#[test]
fn public_marks_as_cacheable() {
    let response = Response::new(302, &format!("{TAG}Cache-Control: public\r\n"));
    assert!(response.consider(&guessing(), &request_with("")).is_ok());
    assert!(freshness("Cache-Control: public, max-age=60\r\n").for_authorized);
    assert!(!freshness("Cache-Control: public=\"x\", max-age=60\r\n").for_authorized, "no argument is defined");
    assert_eq!(store("Cache-Control: public, private, max-age=60\r\n"), Err(NotStored::Private));
}

/// RFC 9111 section 5.2.2.10. s-maxage overrides max-age and Expires, and MUST NOT be reused stale before validation.
#[test]
fn s_maxage_is_the_lifetime_here() {
    let response = "Cache-Control: s-maxage=10, max-age=60\r\nExpires: Sun, 06 Nov 1994 08:59:37 GMT\r\n";
    assert_eq!(reuse(response, "", 9), Reuse::Fresh);
    assert_eq!(reuse(response, "Cache-Control: max-stale\r\n", 10), Reuse::Validate(Fwd::Stale));
    // Also with an allowance beside it: section 4.2.4 names s-maxage among what prohibits.
    let both = "Cache-Control: s-maxage=10, stale-while-revalidate=60\r\n";
    assert_eq!(reuse(both, "", 10), Reuse::Validate(Fwd::Stale));
}

/// RFC 9111 section 5.2.3. MUST ignore directives that it does not know.
#[test]
fn unknown_directives_are_ignored() {
    let known = ResponseControl { max_age: Some(60), ..ResponseControl::default() };
    let mut control = ResponseControl::default();
    control.add(b"max-age=60, community=\"UCI\", x, immutable, no-transform, max-agee=1, xmax-age=2, no-storage");
    assert_eq!(control, known);
    let mut control = RequestControl::default();
    control.add(b"max-age=60, x=\"y, no-store\", no-transform, min-fresher=1");
    assert_eq!(control, RequestControl { max_age: Some(60), ..RequestControl::default() });
}

/// RFC 9111 section 5.3. MUST ignore Expires beside max-age (or, being shared, s-maxage).
#[test]
fn expires_yields_to_max_age() {
    let expires = "Expires: Sun, 06 Nov 1994 09:49:37 GMT\r\n";
    assert_eq!(freshness(&format!("{expires}Cache-Control: max-age=5\r\n")).lifetime_ms, seconds(5));
    assert_eq!(freshness(&format!("{expires}Cache-Control: s-maxage=5\r\n")).lifetime_ms, seconds(5));
    assert_eq!(freshness(&format!("{expires}Cache-Control: must-revalidate\r\n")).lifetime_ms, seconds(3600));
}

/// RFC 9111 section 5.3. MUST interpret what is no date, "0" above all, as a time in the past.
#[test]
fn invalid_expires_is_past() {
    for expires in
        ["0", "-1", "", "now", "Sun, 06 Nov 2094 09:49:37", "Sun, 31 Feb 2094 08:49:37 GMT", "1994-11-06T08:50:37Z"]
    {
        let freshness = freshness(&format!("{TAG}Expires: {expires}\r\n"));
        assert_eq!((freshness.lifetime_ms, freshness.source), (0, LifetimeSource::Expires), "{expires}");
    }
    assert_eq!(freshness(&format!("{TAG}Expires: Sun, 06 Nov 1994 08:49:36 GMT\r\n")).lifetime_ms, 0);
}

/// RFC 9111 section 5.4. Pragma is deprecated: it says nothing, in requests or in responses.
#[test]
fn pragma_says_nothing() {
    assert_eq!(request_with("Pragma: no-cache\r\n"), request_with(""));
    assert_eq!(
        freshness("Pragma: no-cache\r\nCache-Control: max-age=60\r\n"),
        freshness("Cache-Control: max-age=60\r\n")
    );
}

/// RFC 9111 section 5.5. Warning is obsolete: none is generated.
#[test]
fn no_warning_is_generated() {
    use super::status::Outcome;
    let freshness = freshness("Cache-Control: max-age=60\r\n");
    for outcome in [Outcome::Hit, Outcome::StaleOnError { status: None }] {
        let mut out = Vec::new();
        status::write(http().headers, outcome, Some(&freshness), NOW + seconds(600), b"weir", &mut out);
        assert!(!text(&out).contains("Warning"));
    }
}
