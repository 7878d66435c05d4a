//! RFC 9111 section 4.3: validation; and the preconditions of RFC 9110 section 13.

use super::delivery::{Delivery, choose};
use super::precondition::EntityTag;
use super::update::{Freshened, HeadEffect, confirms, freshen, head_effect, is_replaced, write_conditions};
use super::*;
use h1::Known;

const FRESH: &str = "Cache-Control: max-age=60\r\n";

/// A stored 200: its terms and its lines.
fn entry(fields: &str) -> (Freshness, Vec<u8>) {
    let response = Response::new(200, &format!("{DATE}{FRESH}{fields}"));
    (response.consider(&http(), &request_with("")).unwrap(), response.stored(&http()))
}

fn delivered(stored: &str, method: &str, request: &str) -> Delivery {
    let (freshness, lines) = entry(stored);
    let request = Request::new(method, request);
    choose(&request.wanted(&http()), request.lines(), &freshness, StoredLines(&lines), 10)
}

/// RFC 9111 section 4.3.1. A validation request carries the validators of what is stored, and no conditions or ranges of the client's.
#[test]
fn validation_sends_the_stored_validators() {
    let conditions = |fields: &str| {
        let mut out = Vec::new();
        write_conditions(StoredLines(&entry(fields).1), &mut out);
        String::from_utf8(out).unwrap()
    };
    let modified = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    assert_eq!(conditions("ETag: W/\"a\"\r\n"), "If-None-Match: W/\"a\"\r\n");
    assert_eq!(conditions(modified), modified.replace("Last-Modified", "If-Modified-Since"));
    assert_eq!(conditions(&format!("ETag: \"a\"\r\n{modified}")).matches("\r\n").count(), 2);
    assert_eq!(conditions("ETag: a\r\nLast-Modified: b\r\n"), "", "what is no validator is not sent");
    for known in [Known::IfNoneMatch, Known::IfModifiedSince, Known::Range, Known::IfRange] {
        assert!(is_replaced(known));
    }
    assert!(!is_replaced(Known::IfMatch) && !is_replaced(Known::CacheControl));
}

/// RFC 9111 section 4.3.2. SHOULD evaluate If-None-Match against the selected stored response: 304 for "*" or a tag that matches weakly.
#[test]
fn if_none_match_is_served_from_the_store() {
    for (stored, field, matches) in [
        ("\"a\"", "\"a\"", true),
        ("\"a\"", "W/\"a\"", true),
        ("W/\"a\"", "\"a\"", true),
        ("\"a\"", "\"b\", \"a\"", true),
        ("\"a\"", "\"b\",,W/\"a\" ", true),
        ("\"a,b\"", "\"a,b\"", true),
        ("\"a\"", "*", true),
        ("\"a\"", "\"b\"", false),
        ("\"a\"", "\"A\"", false),
        ("\"a\"", "a", false),
        ("\"a\"", "\"a", false),
        ("\"a\"", "w/\"a\"", false),
        ("\"a\"", "\"b\", *", false),
    ] {
        let expected = if matches { Delivery::NotModified } else { Delivery::Whole };
        let stored = format!("ETag: {stored}\r\n");
        assert_eq!(delivered(&stored, "GET", &format!("If-None-Match: {field}\r\n")), expected, "{stored} {field}");
        assert_eq!(delivered(&stored, "HEAD", &format!("If-None-Match: {field}\r\n")), expected, "{stored} {field}");
    }
    assert_eq!(delivered("", "GET", "If-None-Match: \"a\"\r\n"), Delivery::Whole);
    assert_eq!(delivered("", "GET", "If-None-Match: *\r\n"), Delivery::NotModified);
    let two = "If-None-Match: \"b\"\r\nIf-None-Match: \"a\"\r\n";
    assert_eq!(delivered("ETag: \"a\"\r\n", "GET", two), Delivery::NotModified);
}

/// RFC 9110 section 13.1.3. MUST ignore If-Modified-Since when there is If-None-Match, when it is not a date, and for other methods.
#[test]
fn if_none_match_comes_first() {
    let stored = "ETag: \"a\"\r\nLast-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n";
    let since = "If-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT\r\n";
    assert_eq!(delivered(stored, "GET", &format!("{since}If-None-Match: \"b\"\r\n")), Delivery::Whole);
    assert_eq!(delivered(stored, "GET", since), Delivery::NotModified);
    assert_eq!(delivered(stored, "GET", "If-Modified-Since: today\r\n"), Delivery::Whole);
    assert_eq!(delivered(stored, "GET", &format!("{since}{since}")), Delivery::Whole);
}

/// RFC 9111 section 4.3.2. SHOULD respond to If-Modified-Since by Last-Modified, else by Date, else by when the response was received.
#[test]
fn if_modified_since_is_served_from_the_store() {
    let modified = "Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n";
    let since = |time: &str| format!("If-Modified-Since: Sun, 06 Nov 1994 {time} GMT\r\n");
    assert_eq!(delivered(modified, "GET", &since("08:00:00")), Delivery::NotModified);
    assert_eq!(delivered(modified, "GET", &since("08:00:01")), Delivery::NotModified);
    assert_eq!(delivered(modified, "GET", &since("07:59:59")), Delivery::Whole);
    assert_eq!(delivered("Last-Modified: x\r\n", "GET", &since("09:00:00")), Delivery::Whole);
    // By Date, which is now.
    assert_eq!(delivered("", "GET", &since("08:49:37")), Delivery::NotModified);
    assert_eq!(delivered("", "GET", &since("08:49:36")), Delivery::Whole);
    // By when it came.
    let undated = Response::new(200, FRESH);
    let freshness = undated.consider(&http(), &request_with("")).unwrap();
    let request = get(&since("08:49:37"));
    let delivery = choose(&request.wanted(&http()), request.lines(), &freshness, StoredLines(b"ETag: \"a\"\r\n"), 1);
    assert_eq!(delivery, Delivery::NotModified);
}

/// RFC 9111 section 4.3.2. MUST NOT evaluate conditions that only the origin can: If-Match and If-Unmodified-Since go there.
#[test]
fn conditions_for_the_origin_are_left_to_it() {
    for field in ["If-Match: \"a\"", "If-Match: *", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"] {
        let request = get(&format!("{field}\r\n"));
        assert_eq!(request.bypass(&http()), Bypass::OriginPrecondition);
        assert_eq!(request.bypass(&ttl()), Bypass::OriginPrecondition);
    }
}

/// RFC 9111 section 4.3.2. Conditions are evaluated against stored 200s only.
#[test]
fn conditions_do_not_apply_to_other_statuses() {
    let response = Response::new(404, &format!("{DATE}{FRESH}ETag: \"a\"\r\n"));
    let freshness = response.consider(&http(), &request_with("")).unwrap();
    let request = get("If-None-Match: \"a\"\r\nRange: bytes=0-0\r\n");
    let delivery = choose(&request.wanted(&http()), request.lines(), &freshness, response.lines(), 10);
    assert_eq!((delivery, delivery.status(&freshness)), (Delivery::Whole, 404));
}

/// RFC 9110 section 15.4.5. MUST send in a 304 what a 200 would have had of Content-Location, Date, ETag, Vary, Cache-Control and Expires.
#[test]
fn a_304_guides_the_clients_cache() {
    let guiding = format!(
        "{DATE}{FRESH}Content-Location: /b\r\nETag: \"a\"\r\nVary: Accept\r\nExpires: 0\r\nX-Other: 1\r\nSet-Cookie: a\r\n"
    );
    let described = "Content-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Language: de\r\n\
                     Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n";
    let mut out = Vec::new();
    head::write_fields(format!("{guiding}{described}").as_bytes(), Delivery::NotModified, 10, &mut out);
    assert_eq!(text(&out), guiding);
    // Without a tag the date is what the client's cache goes by.
    let mut out = Vec::new();
    head::write_fields(described.as_bytes(), Delivery::NotModified, 10, &mut out);
    assert_eq!(text(&out), "Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n");
    let (freshness, _) = entry("");
    assert_eq!(Delivery::NotModified.content_length(&freshness, 10), None);
    assert_eq!(Delivery::NotModified.status(&freshness), 304);
}

fn is_confirmed(stored: &str, not_modified: &str) -> bool {
    let (freshness, lines) = entry(stored);
    confirms(&freshness, StoredLines(&lines), Response::new(304, not_modified).lines())
}

/// RFC 9111 section 4.3.4. MUST NOT use a 304 with a strong validator to update a response without the same strong validator.
#[test]
fn a_strong_validator_selects_what_has_it() {
    assert!(is_confirmed("ETag: \"a\"\r\n", "ETag: \"a\"\r\n"));
    assert!(!is_confirmed("ETag: \"a\"\r\n", "ETag: \"b\"\r\n"));
    assert!(!is_confirmed("ETag: W/\"a\"\r\n", "ETag: \"a\"\r\n"));
    assert!(!is_confirmed("", "ETag: \"a\"\r\n"));
    let modified = "Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n";
    assert!(is_confirmed(modified, modified));
    assert!(!is_confirmed(modified, "Last-Modified: Sun, 06 Nov 1994 08:00:01 GMT\r\n"));
}

/// RFC 9111 section 4.3.4. A weak validator updates what corresponds to it.
#[test]
fn a_weak_validator_selects_what_corresponds() {
    assert!(is_confirmed("ETag: W/\"a\"\r\n", "ETag: W/\"a\"\r\n"));
    assert!(is_confirmed("ETag: \"a\"\r\n", "ETag: W/\"a\"\r\n"));
    assert!(!is_confirmed("ETag: W/\"a\"\r\n", "ETag: W/\"b\"\r\n"));
}

/// RFC 9111 section 4.3.4. A 304 without validators updates the one response that the request was about.
#[test]
fn a_bare_304_is_about_the_validator_sent() {
    assert!(is_confirmed("", ""));
    assert!(is_confirmed("ETag: \"a\"\r\n", ""));
    assert!(is_confirmed("Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n", ""));
}

fn freshened(stored: &str, not_modified: &str, later_s: u64) -> (Freshened, String) {
    let (freshness, lines) = entry(stored);
    let times = Times { sent_ms: NOW + seconds(later_s), received_ms: NOW + seconds(later_s) };
    let mut out = Vec::new();
    let new = Response::new(304, not_modified);
    let freshened = freshen(&http(), &request_with(""), &freshness, &lines, new.lines(), times, &mut out);
    (freshened, String::from_utf8(out).unwrap())
}

/// RFC 9111 sections 3.2 and 4.3.4. MUST replace stored fields by those of the 304, and add new ones; freshness starts again.
#[test]
fn a_304_updates_the_stored_fields() {
    let not_modified =
        "Date: Sun, 06 Nov 1994 08:51:17 GMT\r\nCache-Control: max-age=10\r\nX-A: 2\r\nX-A: 3\r\nX-New: 4\r\n";
    let (freshened, lines) = freshened("ETag: \"a\"\r\nX-A: 1\r\nX-B: 1\r\nX-A: 1\r\n", not_modified, 100);
    assert_eq!(lines, format!("ETag: \"a\"\r\nX-B: 1\r\n{not_modified}"));
    let Freshened::Stored(freshness) = freshened else { panic!("{freshened:?}") };
    assert_eq!((freshness.lifetime_ms, freshness.initial_age_ms, freshness.status), (seconds(10), 0, 200));
    assert!(freshness.is_fresh(NOW + seconds(109)) && !freshness.is_fresh(NOW + seconds(110)));
}

/// RFC 9111 section 4.2.3. The age counts from the validation; an Age of the 304 counts too, and one without Date has that of its receipt.
#[test]
fn a_304_makes_the_response_young() {
    let (Freshened::Stored(freshness), lines) = freshened("ETag: \"a\"\r\n", "Age: 7\r\n", 100) else { panic!() };
    assert_eq!(freshness.age_ms(NOW + seconds(100)), seconds(7));
    assert!(lines.contains("Date: Sun, 06 Nov 1994 08:51:17 GMT\r\n") && !lines.contains(DATE), "{lines}");
    assert!(!lines.contains("Age:"));
    assert_eq!(freshness.date_ms, NOW + seconds(100));
}

/// RFC 9111 section 3.2. MUST NOT update Content-Length, nor what describes the stored bytes, nor store what is never stored.
#[test]
fn a_304_does_not_touch_what_belongs_to_the_body() {
    let stored = "Content-Type: text/plain\r\nContent-Encoding: gzip\r\nETag: \"a\"\r\n";
    let not_modified = "Content-Length: 7\r\nContent-Encoding: br\r\nContent-Type: text/html\r\nContent-Range: bytes 0-1/2\r\n\
                        Content-MD5: x\r\nConnection: X-Hop\r\nX-Hop: 1\r\nProxy-Authenticate: Basic\r\n";
    let (_, lines) = freshened(stored, not_modified, 0);
    assert_eq!(lines, format!("{FRESH}{stored}{DATE}"));
}

/// RFC 9111 section 5.2.2. Directives of the 304 hold from now on: what it forbids to store is stored no more.
#[test]
fn a_304_can_end_the_storing() {
    let (freshened, _) = freshened("ETag: \"a\"\r\n", "Cache-Control: no-store\r\n", 0);
    assert!(matches!(freshened, Freshened::NotStored(_, NotStored::NoStore)), "{freshened:?}");
    let (freshened, _) = self::freshened("ETag: \"a\"\r\n", "Set-Cookie: a=b\r\n", 0);
    assert!(matches!(freshened, Freshened::NotStored(_, NotStored::SetCookie)), "{freshened:?}");
    let named = "Cache-Control: max-age=60, private=\"X-A\"\r\n";
    let (freshened, lines) = self::freshened("ETag: \"a\"\r\nX-A: 1\r\n", named, 0);
    assert!(matches!(freshened, Freshened::Stored(_)));
    assert!(!lines.contains("X-A:"), "{lines}");
}

/// RFC 9111 section 4.3.5. SHOULD update a stored GET by a HEAD whose validators and length agree, else consider it stale.
#[test]
fn head_updates_or_invalidates() {
    let modified = "Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n";
    let (freshness, lines) = entry(&format!("ETag: \"a\"\r\n{modified}"));
    let effect = |status: u16, fields: &str| {
        head_effect(&freshness, StoredLines(&lines), 10, status, Response::new(status, fields).lines())
    };
    for fields in ["", "ETag: \"a\"\r\n", modified, "Content-Length: 10\r\n", "X: 1\r\n"] {
        assert_eq!(effect(200, fields), HeadEffect::Freshen, "{fields}");
    }
    for fields in ["ETag: \"b\"\r\n", "Last-Modified: Sun, 06 Nov 1994 08:00:01 GMT\r\n", "Content-Length: 11\r\n"] {
        assert_eq!(effect(200, fields), HeadEffect::Invalidate, "{fields}");
    }
    assert_eq!(effect(404, ""), HeadEffect::None);
}

/// RFC 9110 section 8.8.3. Entity tags: opaque between quotes, case-sensitive, without escapes.
#[test]
fn entity_tags_are_parsed() {
    for tag in ["\"\"", "\"a\"", "W/\"a\"", "\"a\\\"", "\"\u{e4}\"", "\"a,b\""] {
        assert!(EntityTag::parse(tag.as_bytes()).is_some(), "{tag}");
    }
    for tag in ["", "a", "\"", "\"a", "\"a\"b", "w/\"a\"", "W/a", "\"a b\"", "\"a\"\"", "W/ \"a\"", "'a'", "*"] {
        assert!(EntityTag::parse(tag.as_bytes()).is_none(), "{tag}");
    }
}
