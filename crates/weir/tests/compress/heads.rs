//! Which responses are compressed, and what their heads say.

use testkit::{Upstream, Weir, responder};

use super::{coding, decode, gateway, gateway_with, get, text};

/// An upstream whose responses have these fields and this body.
fn upstream(status: u16, fields: &'static [(&'static str, &'static str)], length: usize) -> Upstream {
    Upstream::start(move |conn, _| conn.respond(status, fields, text(length)))
}

const TEXT: (&str, &str) = ("Content-Type", "text/plain; charset=utf-8");

#[test]
fn the_coding_that_the_client_likes_most_is_used() {
    let upstream = upstream(200, &[TEXT], 4096);
    let weir = gateway(&upstream);
    for (accepts, expected) in [
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip, br", Some("br")),
        ("gzip;q=1.0, br;q=0.5", Some("gzip")),
        ("*", Some("zstd")),
        ("zstd;q=0, br;q=0, *", Some("gzip")),
        ("gzip, identity;q=0", Some("gzip")),
        ("gzip;q=0.5, identity", None),
        ("gzip;q=0", None),
        ("identity", None),
        ("deflate", None),
    ] {
        let response = get(&weir, &[("Accept-Encoding", accepts)]);
        assert_eq!(coding(&response), expected, "{accepts}");
        assert_eq!(decode(expected, &response.body), text(4096), "{accepts}");
        assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{accepts}");
        assert_eq!(response.field("content-length").is_some(), expected.is_none(), "{accepts}");
    }
    let response = get(&weir, &[]);
    assert_eq!((coding(&response), response.field("vary")), (None, Some("Accept-Encoding")));
    let mark = upstream.requests();
    assert_eq!(
        mark[0].head.field("accept-encoding"),
        Some("gzip, deflate, br, zstd"),
        "the upstream may code by itself"
    );
}

#[test]
fn what_must_stay_as_it_is_stays_so() {
    for (why, status, fields, length) in [
        ("short", 200, &[TEXT][..], 1023),
        ("empty", 200, &[TEXT], 0),
        ("no type", 200, &[], 4096),
        ("a type that is not listed", 200, &[("Content-Type", "image/png")], 4096),
        ("a stream of events", 200, &[("Content-Type", "text/event-stream")], 4096),
        ("coded already", 200, &[TEXT, ("Content-Encoding", "gzip")], 4096),
        ("no-transform", 200, &[TEXT, ("Cache-Control", "max-age=60, No-Transform")], 4096),
        ("a part", 206, &[TEXT, ("Content-Range", "bytes 0-4095/9000")], 4096),
        ("a cookie", 200, &[TEXT, ("Set-Cookie", "a=b")], 4096),
    ] {
        let upstream = upstream(status, fields, length);
        let weir = gateway(&upstream);
        let response = get(&weir, &[("Accept-Encoding", "gzip")]);
        assert_eq!((response.status(), response.body.len()), (status, length), "{why}");
        assert!(coding(&response).is_none() || why == "coded already", "{why}");
        assert_eq!(response.field("vary"), None, "{why}");
    }
}

#[test]
fn requests_for_parts_and_without_transformation_get_the_body_as_it_is() {
    let upstream = upstream(200, &[TEXT, ("ETag", "\"a\"")], 4096);
    let weir = gateway(&upstream);
    for field in [("Range", "bytes=0-"), ("Cache-Control", "no-transform")] {
        let response = get(&weir, &[("Accept-Encoding", "gzip"), field]);
        assert_eq!((coding(&response), response.field("etag")), (None, Some("\"a\"")), "{field:?}");
        assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{field:?}");
    }
}

#[test]
fn a_client_that_takes_nothing_else_gets_a_short_body_coded_too() {
    let upstream = upstream(200, &[TEXT], 100);
    let weir = gateway(&upstream);
    let response = get(&weir, &[("Accept-Encoding", "gzip, identity;q=0")]);
    assert_eq!((coding(&response), decode(Some("gzip"), &response.body)), (Some("gzip"), text(100)));
    assert_eq!(coding(&get(&weir, &[("Accept-Encoding", "identity;q=0")])), None, "better than no response");
}

#[test]
fn fields_about_the_bytes_are_dropped_and_the_tag_is_weak() {
    let fields = &[
        TEXT,
        ("ETag", "\"a\""),
        ("Accept-Ranges", "bytes"),
        ("Content-MD5", "x"),
        ("Repr-Digest", "x"),
        ("Vary", "Origin"),
        ("X-Other", "1"),
    ];
    let upstream = upstream(200, fields, 4096);
    let weir = gateway(&upstream);
    let response = get(&weir, &[("Accept-Encoding", "br")]);
    assert_eq!(response.field("etag"), Some("W/\"a\""));
    for name in ["accept-ranges", "content-md5", "repr-digest", "content-length"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    assert_eq!(response.head.all("vary"), ["Origin", "Accept-Encoding"]);
    assert_eq!(response.field("x-other"), Some("1"));
    let response = get(&weir, &[]);
    assert_eq!((response.field("etag"), response.field("accept-ranges")), (Some("\"a\""), Some("bytes")));
}

#[test]
fn a_vary_that_says_it_already_is_left_alone() {
    for vary in ["*", "origin, Accept-encoding"] {
        let upstream = Upstream::start(move |conn, _| conn.respond(200, &[TEXT, ("Vary", vary)], text(4096)));
        let weir = gateway(&upstream);
        let response = get(&weir, &[("Accept-Encoding", "br")]);
        assert_eq!((coding(&response), response.head.all("vary")), (Some("br"), vec![vary]));
    }
}

#[test]
fn a_304_has_the_tag_of_the_response_that_it_stands_for() {
    let upstream = upstream(304, &[("ETag", "\"a\"")], 0);
    let weir = gateway(&upstream);
    let condition = ("If-None-Match", "W/\"a\"");
    let response = get(&weir, &[("Accept-Encoding", "gzip"), condition]);
    assert_eq!(
        (response.status(), response.field("etag"), response.field("vary")),
        (304, Some("W/\"a\""), Some("Accept-Encoding"))
    );
    assert_eq!(coding(&response), None);
    assert_eq!(get(&weir, &[condition]).field("etag"), Some("\"a\""));
    assert_eq!(upstream.requests()[0].head.field("if-none-match"), Some("W/\"a\""));
}

#[test]
fn head_says_what_get_would_and_has_no_body() {
    let upstream = upstream(200, &[TEXT, ("ETag", "\"a\"")], 4096);
    let weir = gateway(&upstream);
    let mut client = weir.connect();
    for _ in 0..2 {
        client.send("HEAD /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        let response = client.read_response_to("HEAD");
        assert_eq!((coding(&response), response.field("etag")), (Some("gzip"), Some("W/\"a\"")));
        assert_eq!((response.field("content-length"), response.body.len()), (None, 0));
    }
}

#[test]
fn errors_with_a_body_are_compressed_too() {
    let upstream = upstream(404, &[TEXT], 4096);
    let weir = gateway(&upstream);
    let response = get(&weir, &[("Accept-Encoding", "gzip")]);
    assert_eq!((response.status(), coding(&response)), (404, Some("gzip")));
}

#[test]
fn codings_types_and_lengths_are_configured() {
    let upstream = upstream(200, &[("Content-Type", "application/vnd.acme+json")], 100);
    let lines = "    compress: {codings: [gzip], min: 10B, types: [application/*+json], levels: {gzip: 9}}\n";
    let weir = gateway_with(&upstream, "", lines);
    let response = get(&weir, &[("Accept-Encoding", "zstd, br, gzip;q=0.1")]);
    assert_eq!((coding(&response), decode(Some("gzip"), &response.body)), (Some("gzip"), text(100)));
    upstream.set_responder(responder::ok(text(4096)));
    assert_eq!(coding(&get(&weir, &[("Accept-Encoding", "gzip")])), None, "text is not listed here");
}

#[test]
fn nonsense_is_refused_with_its_place() {
    let upstream = upstream(200, &[TEXT], 1);
    let auth = "auth: {users: {jwt: {issuer: i, audience: a, secret: \"0123456789abcdef0123456789abcdef\"}}}\n";
    for (top, route, message) in [
        ("", "    compress: []\n", "`codings` is empty"),
        ("", "    compress: [deflate]\n", "deflate"),
        ("", "    compress: [gzip, gzip]\n", "`gzip` is named twice"),
        ("", "    compress: {levels: {br: 11}}\n", "a level of `br` is from 0 to 6"),
        ("", "    compress: {types: [text]}\n", "`text` is not a media type"),
        ("", "    compress: {types: []}\n", "`types` is empty"),
        ("", "    compress: yes\n", "a list of codings"),
        (auth, "    compress: [gzip]\n    auth: users\n", "also: [auth]"),
        ("", "    compress: [gzip]\n    headers: {response: {set: {Content-Encoding: x}}}\n", "remove one of the two"),
    ] {
        let finished = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(super::config(&upstream, top, route)).run();
        assert_ne!(finished.code, Some(0), "{route}");
        assert!(finished.stderr.contains(message), "{route}: {}", finished.stderr);
    }
    let route = "  - {match: {path: /r}, respond: {body: x}, compress: [gzip]}\n";
    let finished = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(super::config(&upstream, "", route)).run();
    assert!(finished.stderr.contains("only routes with an `upstream`"), "{}", finished.stderr);
}
