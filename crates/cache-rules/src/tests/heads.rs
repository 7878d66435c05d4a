//! Heads as they are stored, read back and sent.

use super::delivery::Delivery;
use super::lines::Lines;
use super::*;

#[test]
fn stored_lines_read_as_the_live_ones() {
    let response =
        Response::new(200, "ETag:\t\"a\" \r\nX-Empty:\r\nVary: a,b\r\nContent-Type: text/plain; a=\"b: c\"\r\n");
    let stored = response.stored(&http());
    let live: Vec<_> = response.lines().all().map(|line| (line.name, line.value, line.known)).collect();
    let read: Vec<_> = StoredLines(&stored).all().map(|line| (line.name, line.value, line.known)).collect();
    assert_eq!(read[..4], live[..]);
    assert_eq!(read[4].0, b"Date");
}

#[test]
fn bytes_that_are_no_lines_are_skipped() {
    for bytes in [&b""[..], b"\n", b"\r\n\r\n", b"no colon\r\n", b":", b"a:", b"\0\xff"] {
        assert!(StoredLines(bytes).all().count() <= 1, "{bytes:?}");
    }
    let lines: Vec<_> = StoredLines(b"x\r\nA: b\nC:d").all().map(|line| (line.name, line.value)).collect();
    assert_eq!(lines, [(&b"A"[..], &b"b"[..]), (b"C", b"d")]);
}

#[test]
fn a_part_and_a_refusal_have_a_content_range() {
    let stored = b"ETag: \"a\"\r\nContent-Type: text/plain\r\n";
    let (freshness, delivery) = (freshness("Cache-Control: max-age=60\r\n"), Delivery::Part { first: 2, last: 5 });
    let mut out = Vec::new();
    head::write_fields(stored, delivery, 10, &mut out);
    assert_eq!(text(&out), format!("{}Content-Range: bytes 2-5/10\r\n", text(stored)));
    assert_eq!((delivery.status(&freshness), delivery.content_length(&freshness, 10)), (206, Some(4)));
    let mut out = Vec::new();
    head::write_fields(stored, Delivery::Unsatisfiable, 10, &mut out);
    assert_eq!(text(&out), "ETag: \"a\"\r\nContent-Range: bytes */10\r\n");
    let refused = Delivery::Unsatisfiable;
    assert_eq!((refused.status(&freshness), refused.content_length(&freshness, 10)), (416, Some(0)));
    assert_eq!(Delivery::Whole.content_length(&freshness, 10), Some(10));
    assert_eq!(Delivery::Whole.content_length(&Freshness { status: 204, ..freshness }, 0), None);
}

#[test]
fn an_upstreams_x_cache_is_replaced() {
    let response = Response::new(200, &format!("{DATE}X-Cache: HIT\r\n"));
    assert_eq!(text(&response.stored(&http())), DATE);
    let silent = http_with(|cache| cache.headers.x_cache = false);
    assert!(text(&response.stored(&silent)).contains("X-Cache: HIT"));
}
