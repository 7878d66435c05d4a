//! Ranges (RFC 9110 section 14).

use super::delivery::{Delivery, choose};
use super::range::{Ranged, parse};
use super::*;

#[test]
fn single_ranges_are_cut() {
    let part = |first, last| Ranged::Part { first, last };
    for (value, expected) in [
        ("bytes=0-0", part(0, 0)),
        ("bytes=0-9", part(0, 9)),
        ("bytes=2-5", part(2, 5)),
        ("bytes=5-", part(5, 9)),
        ("bytes=5-99999999999999999999999", part(5, 9)),
        ("bytes=-3", part(7, 9)),
        ("bytes=-10", part(0, 9)),
        ("bytes=-11", part(0, 9)),
        ("BYTES= 1-2 ", part(1, 2)),
        ("bytes=,1-2,", part(1, 2)),
        ("bytes=10-", Ranged::Unsatisfiable),
        ("bytes=10-20", Ranged::Unsatisfiable),
        ("bytes=99999999999999999999999-", Ranged::Unsatisfiable),
        ("bytes=-0", Ranged::Unsatisfiable),
    ] {
        assert_eq!(parse(value.as_bytes(), 10), expected, "{value}");
    }
}

#[test]
fn what_makes_no_sense_is_ignored() {
    for value in [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=5",
        "bytes=a-b",
        "bytes=5-2",
        "bytes=1-2x",
        "bytes=x-2",
        "bytes=--2",
        "bytes=-2-3",
        "chars=0-1",
        "bytes 0-1",
        "bytes=1 - 2",
        "bytes=+1-2",
        "bytes=0x1-2",
    ] {
        assert_eq!(parse(value.as_bytes(), 10), Ranged::Whole, "{value}");
    }
}

#[test]
fn several_ranges_get_the_whole() {
    for value in ["bytes=0-1,4-5", "bytes=0-,0-,0-,0-", "bytes=0-0, -1", "bytes=20-30,40-50"] {
        assert_eq!(parse(value.as_bytes(), 10), Ranged::Whole, "{value}");
    }
}

#[test]
fn of_nothing_there_is_no_part() {
    assert_eq!(parse(b"bytes=0-", 0), Ranged::Unsatisfiable);
    assert_eq!(parse(b"bytes=0-0", 0), Ranged::Unsatisfiable);
    assert_eq!(parse(b"bytes=-1", 0), Ranged::Whole);
    assert_eq!(parse(b"bytes=-0", 0), Ranged::Unsatisfiable);
}

fn delivered(stored: &str, fields: &str) -> Delivery {
    let response = Response::new(200, &format!("{DATE}Cache-Control: max-age=60\r\n{stored}"));
    let (freshness, request) = (response.consider(&http(), &request_with("")).unwrap(), get(fields));
    choose(&request.wanted(&http()), request.lines(), &freshness, response.lines(), 10)
}

#[test]
fn a_range_is_cut_from_the_whole_entry() {
    assert_eq!(delivered("", "Range: bytes=2-5\r\n"), Delivery::Part { first: 2, last: 5 });
    assert_eq!(delivered("", "Range: bytes=10-\r\n"), Delivery::Unsatisfiable);
    assert_eq!(delivered("", "Range: bytes=0-1\r\nRange: bytes=2-3\r\n"), Delivery::Whole);
    assert_eq!(delivered("", "Range: lines=0-1\r\n"), Delivery::Whole);
}

#[test]
fn head_and_post_have_no_ranges() {
    let head = Request::new("HEAD", "Range: bytes=2-5\r\n");
    assert!(!head.wanted(&http()).has_range);
}

/// RFC 9110 section 13.1.5: strong comparison, or exactly the date.
#[test]
fn if_range_is_compared_strongly() {
    let tag = "ETag: \"a\"\r\n";
    let modified = "Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n";
    let part = Delivery::Part { first: 0, last: 1 };
    for (stored, condition, expected) in [
        (tag, "\"a\"", part),
        (tag, "\"b\"", Delivery::Whole),
        (tag, "W/\"a\"", Delivery::Whole),
        ("ETag: W/\"a\"\r\n", "W/\"a\"", Delivery::Whole),
        ("ETag: W/\"a\"\r\n", "\"a\"", Delivery::Whole),
        ("", "\"a\"", Delivery::Whole),
        (tag, "a", Delivery::Whole),
        (tag, "\"a\", \"b\"", Delivery::Whole),
        (modified, "Sun, 06 Nov 1994 08:00:00 GMT", part),
        (modified, "Sun, 06 Nov 1994 08:00:01 GMT", Delivery::Whole),
        (modified, "Sun, 06 Nov 1994 07:59:59 GMT", Delivery::Whole),
        ("", "Sun, 06 Nov 1994 08:00:00 GMT", Delivery::Whole),
        // Made in the second in which it was modified: it may have changed again in that second.
        ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "Sun, 06 Nov 1994 08:49:37 GMT", Delivery::Whole),
    ] {
        let fields = format!("Range: bytes=0-1\r\nIf-Range: {condition}\r\n");
        assert_eq!(delivered(stored, &fields), expected, "{stored} {condition}");
    }
    let twice = "Range: bytes=0-1\r\nIf-Range: \"a\"\r\nIf-Range: \"a\"\r\n";
    assert_eq!(delivered(tag, twice), Delivery::Whole);
    assert_eq!(delivered(tag, "If-Range: \"b\"\r\n"), Delivery::Whole);
}

/// RFC 9110 section 13.2.2: a 304 comes before a part.
#[test]
fn conditions_come_before_ranges() {
    let fields = "Range: bytes=0-1\r\nIf-None-Match: \"a\"\r\n";
    assert_eq!(delivered("ETag: \"a\"\r\n", fields), Delivery::NotModified);
    assert_eq!(delivered("ETag: \"b\"\r\n", fields), Delivery::Part { first: 0, last: 1 });
}
