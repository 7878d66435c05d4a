//! The safety rules of docs/HTTP2-SAFETY.md through the listener: for whatever frames, the upstream sees no byte, or one request that every
//! parser reads alike. The names end with the number of the rule.

use testkit::{Conn, DEADLINE, Gate, Message, Recorded, Upstream, WireError, responder, wait};

use crate::client::*;
use crate::{gateway, gateway_with};

/// Fields that make a request malformed: it gets 400, or only reset, and the upstream sees nothing of it.
fn refused(cases: &[&[(&str, &str)]]) {
    let upstream = Upstream::start(returns_body());
    let weir = gateway(&upstream);
    for fields in cases {
        let mut client = Client::connect(weir.addr());
        let stream = client.open(fields, true);
        let response = client.response(stream);
        assert!(response.status == 400 || response.reset.is_some(), "{fields:?}: {response:?}");
        assert_eq!(upstream.request_count(), 0, "{fields:?}");
        // The connection goes on.
        assert_eq!(client.fetch("/fine").status, 200, "{fields:?}");
        assert_eq!(upstream.request_count(), 1, "{fields:?}");
        upstream.forget();
    }
    assert_eq!(upstream.errors(), Vec::<String>::new());
}

/// Responds with the body of the request.
fn returns_body() -> impl Fn(&mut Conn, &Message) -> Result<(), WireError> + Send + Sync + 'static {
    |conn, request| conn.respond(200, &[], &request.body)
}

fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    request("GET", "/", more)
}

#[test]
fn field_names_and_values_cannot_split_a_message_rules_1_2() {
    refused(&[
        &with(&[("X-Upper", "1")]),
        &with(&[("x y", "1")]),
        &with(&[("x:y", "1")]),
        &with(&[("", "1")]),
        &with(&[("x\r\nhost", "1")]),
        &with(&[("x", "1\r\nhost: evil")]),
        &with(&[("x", "1\nhost: evil")]),
        &with(&[("x", "1\0")]),
        &with(&[("x", " 1")]),
        &with(&[("x", "1\t")]),
        &with(&[("cookie", "a\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n")]),
    ]);
}

#[test]
fn pseudo_fields_method_path_and_scheme_are_checked_rules_3_4_5_6() {
    let of = |method, scheme, path, authority| {
        vec![(":method", method), (":scheme", scheme), (":path", path), (":authority", authority)]
    };
    refused(&[
        &[(":method", "GET"), (":scheme", "http"), (":path", "/")],
        &[(":scheme", "http"), (":path", "/"), (":authority", "a")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":path", "/"), (":authority", "a")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("x", "1"), (":authority", "a")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), (":status", "200")],
        &of("GET / HTTP/1.1\r\nX:", "http", "/", "a"),
        &of("get", "http", "/", "a"),
        &of("GET", "http\r\n", "/", "a"),
        &of("GET", "ftp", "/", "a"),
        &of("GET", "http", "", "a"),
        &of("GET", "http", "evil", "a"),
        &of("GET", "http", "*", "a"),
        &of("GET", "http", "/a b", "a"),
        &of("GET", "http", "/a HTTP/1.1\r\nX: y", "a"),
        &of("GET", "http", "/a#b", "a"),
        &of("GET", "http", "/\u{e9}", "a"),
        &of("GET", "http", "http://evil/", "a"),
        // The one normaliser (rule 23 of HTTP/1.1).
        &of("GET", "http", "/a//b", "a"),
        &of("GET", "http", "/a%2fb", "a"),
        &of("GET", "http", "/../..", "a\r\n"),
    ]);
}

#[test]
fn connect_is_not_offered_rules_4_18() {
    let upstream = Upstream::start(returns_body());
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    for fields in [
        &[(":method", "CONNECT"), (":authority", "a:80")][..],
        &[(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
    ] {
        let stream = client.open(fields, false);
        let response = client.response(stream);
        assert!(response.status == 501 || response.reset == Some(PROTOCOL_ERROR), "{response:?}");
    }
    assert_eq!(client.settings.get(&8), None, "extended CONNECT is not announced");
    assert_eq!(upstream.request_count(), 0);
}

#[test]
fn the_path_is_normalised_once_for_both_protocols_rule_5() {
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    assert_eq!(client.fetch("/a/../b/./%63?x=%2F").status, 200);
    assert_eq!(upstream.requests()[0].head.target(), "/b/c?x=%2F");
}

#[test]
fn scheme_and_host_come_from_the_connection_rules_6_7() {
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/"),
        (":authority", "a.example"),
        ("host", "A.example:443"),
    ];
    let stream = client.open(&fields, true);
    assert_eq!(client.response(stream).status, 200);
    let seen = &upstream.requests()[0].head;
    assert_eq!(seen.all("host"), ["a.example"]);
    assert_eq!(seen.all("x-forwarded-host"), ["a.example"]);
    assert_eq!(seen.all("x-forwarded-proto"), ["http"]);
    refused(&[
        &with(&[("host", "b.example")]),
        &with(&[("host", "a.example"), ("host", "a.example")]),
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "user@a.example")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a.example/x")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a, b")],
    ]);
}

#[test]
fn fields_of_a_connection_are_refused_rule_8() {
    refused(&[
        &with(&[("connection", "close")]),
        &with(&[("proxy-connection", "keep-alive")]),
        &with(&[("keep-alive", "timeout=5")]),
        &with(&[("transfer-encoding", "chunked")]),
        &with(&[("transfer-encoding", "identity")]),
        &with(&[("upgrade", "websocket")]),
        &with(&[("te", "gzip")]),
    ]);
}

/// Sends a request with a body; returns what the upstream recorded, if anything, and the response.
fn post(fields: &[(&str, &str)], data: &[(&[u8], bool)]) -> (Vec<Recorded>, Response, Vec<String>) {
    let upstream = Upstream::start(returns_body());
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("POST", "/", fields), data.is_empty());
    for (data, end) in data {
        client.data(stream, data, *end);
    }
    let response = client.response(stream);
    upstream.wait_for_open(usize::from(response.status == 200));
    (upstream.requests(), response, upstream.errors())
}

#[test]
fn content_length_holds_or_nothing_is_complete_rule_9() {
    for (length, data) in [("3", &b"abcd"[..]), ("5", b"abc"), ("0", b"x")] {
        let (requests, response, _) = post(&[("content-length", length)], &[(data, true)]);
        assert!(response.reset.is_some() || response.status == 400, "{length}: {response:?}");
        assert!(requests.iter().all(|request| !request.complete || request.body.is_empty()), "{length}: {requests:?}");
        assert!(requests.iter().all(|request| request.body.len() <= 3), "no excess is forwarded");
    }
    refused(&[
        &with(&[("content-length", "0"), ("content-length", "0")]),
        &with(&[("content-length", "0, 0")]),
        &with(&[("content-length", "+0")]),
        &with(&[("content-length", "1")]),
        &with(&[("content-length", "18446744073709551616")]),
    ]);
}

#[test]
fn a_body_that_breaks_its_length_is_recorded_as_what_its_client_is_told_rule_9() {
    let upstream = Upstream::start(responder::stall());
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let log = || std::fs::read_to_string(weir.dir().join("access.log")).unwrap_or_default();
    // All at once, before an exchange begins; and in the middle of one.
    for (lines, is_under_way) in [(1, false), (2, true)] {
        let stream = client.open(&request("POST", "/", &[("content-length", "5")]), false);
        if is_under_way {
            upstream.wait_for_open(1);
        }
        client.data(stream, b"abc", true);
        assert_eq!(client.response(stream).status, 400);
        wait::until(DEADLINE, "the line of the log", || log().lines().count() == lines);
        let log = log();
        let line = log.lines().last().unwrap();
        assert!(line.contains("\"status\":400") && line.contains("\"bad_request\""), "{line}");
    }
    assert!(!log().contains("\"status\":499"), "{}", log());
}

#[test]
fn framing_is_made_from_facts_rules_10_23() {
    let framing = |request: &Recorded| {
        let head = &request.head;
        (head.field("content-length").map(str::to_owned), head.field("transfer-encoding").map(str::to_owned))
    };
    let length = |length: &str| (Some(length.to_owned()), None);
    // What looks like a request within a body stays a body.
    let smuggled = b"0\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil\r\n\r\n";
    let (requests, response, errors) = post(&[], &[(smuggled, true)]);
    assert_eq!((requests.len(), response.status, errors.len()), (1, 200, 0));
    assert_eq!(framing(&requests[0]), (None, Some("chunked".to_owned())));
    assert_eq!(requests[0].body, smuggled);
    let (requests, ..) = post(&[("content-length", "39")], &[(smuggled, true)]);
    assert_eq!(framing(&requests[0]), length("39"));
    assert_eq!(requests[0].body, smuggled);
    // END_STREAM on HEADERS: no body.
    let (requests, ..) = post(&[], &[]);
    assert_eq!(framing(&requests[0]), length("0"));
    let (requests, ..) = post(&[], &[(b"", true)]);
    assert_eq!(framing(&requests[0]), (None, Some("chunked".to_owned())));
    assert_eq!((requests[0].complete, requests[0].body.len()), (true, 0));
    // Padding is no body.
    let upstream = Upstream::start(returns_body());
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("POST", "/", &[("content-length", "3")]), false);
    client.send(&frame(DATA, 0x8 | END_STREAM, stream, b"\x05abc\0\0\0\0\0"));
    assert_eq!(client.response(stream).text(), "abc");
}

#[test]
fn a_request_that_breaks_off_closes_its_upstream_connection_rule_11() {
    for how in ["reset", "close"] {
        for fields in [&[("content-length", "100")][..], &[]] {
            let upstream = Upstream::start(returns_body());
            let weir = gateway(&upstream);
            let mut client = Client::connect(weir.addr());
            let stream = client.open(&request("POST", "/", fields), false);
            client.data(stream, b"half of it", false);
            upstream.wait_for_requests(1);
            match how {
                "reset" => client.reset(stream, CANCEL),
                _ => client.socket.shutdown(std::net::Shutdown::Both).unwrap(),
            }
            upstream.wait_for_open(0);
            assert!(!upstream.requests()[0].complete, "half a body is no request");
            if how == "reset" {
                assert_eq!(client.fetch("/next").status, 200);
                assert_eq!(upstream.accepted(), 2, "the connection was not used again");
            }
        }
    }
}

#[test]
fn a_response_that_breaks_off_is_reset_rule_11() {
    for broken in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
    ] {
        let upstream = Upstream::start(responder::raw_then_close(broken));
        let weir = gateway(&upstream);
        let mut client = Client::connect(weir.addr());
        let response = client.fetch("/");
        assert!(!response.has_ended, "{broken:?}: {response:?}");
        assert_eq!(response.reset, Some(INTERNAL_ERROR), "{broken:?}");
        upstream.set_responder(responder::ok("fine"));
        assert_eq!(client.fetch("/").text(), "fine", "other streams are served");
    }
}

#[test]
fn cookie_crumbs_are_one_line_rule_12() {
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]), true);
    assert_eq!(client.response(stream).status, 200);
    assert_eq!(upstream.requests()[0].head.all("cookie"), ["a=1; b=2; c=3"]);
}

#[test]
fn trailers_end_the_stream_and_are_no_fields_rule_13() {
    let upstream = Upstream::start(returns_body());
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("POST", "/", &[]), false);
    client.data(stream, b"abc", false);
    let trailers = block(&[("x-trailer", "1"), ("content-length", "99")]);
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers));
    assert_eq!(client.response(stream).text(), "abc");
    let request_seen = &upstream.requests()[0];
    assert_eq!(request_seen.head.field("x-trailer"), None);
    assert!(request_seen.complete);
    // Without END_STREAM, and with a pseudo-field.
    for (flags, fields) in [(END_HEADERS, &[("x", "1")][..]), (END_HEADERS | END_STREAM, &[(":path", "/evil")])] {
        upstream.forget();
        let stream = client.open(&request("POST", "/", &[]), false);
        client.data(stream, b"abc", false);
        upstream.wait_for_requests(1);
        client.send(&frame(HEADERS, flags, stream, &block(fields)));
        let response = client.response(stream);
        assert!(response.status == 400 || response.reset.is_some(), "{response:?}");
        wait::until(DEADLINE, "the broken request", || upstream.requests().iter().all(|request| !request.complete));
    }
}

#[test]
fn interim_responses_do_not_end_the_stream_rules_14_17() {
    let upstream = Upstream::start(|conn, _| {
        conn.write("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nConnection: x\r\nX: 1\r\n\r\n")?;
        conn.write("HTTP/1.1 102 Processing\r\n\r\n")?;
        conn.respond(200, &[], "done")
    });
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let response = client.fetch("/");
    assert_eq!(
        (response.interim.as_slice(), response.status, response.text()),
        (&[103, 102][..], 200, "done".to_owned())
    );
}

#[test]
fn a_switch_of_protocols_never_reaches_a_client_rule_14() {
    let upstream = Upstream::start(responder::raw(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nbytes",
    ));
    let weir = gateway_with(&upstream, "", "    upgrade: [websocket]\n");
    let mut client = Client::connect(weir.addr());
    let response = client.fetch("/");
    assert_eq!((response.status, response.interim.len()), (502, 0));
}

#[test]
fn identity_and_alias_fields_are_removed_rule_16() {
    let upstream = Upstream::start(responder::ok(""));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let forged = [
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x_forwarded_for", "10.0.0.1"),
        ("content_length", "5"),
        ("transfer_encoding", "chunked"),
        ("x-real-ip", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
        ("http2-settings", "AAMAAABk"),
    ];
    let stream = client.open(&with(&forged), true);
    assert_eq!(client.response(stream).status, 200);
    let seen = &upstream.requests()[0].head;
    assert_eq!(seen.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(seen.all("x-forwarded-proto"), ["http"]);
    for name in ["x_forwarded_for", "content_length", "transfer_encoding", "x-real-ip", "forwarded", "http2-settings"] {
        assert_eq!(seen.field(name), None, "{name}");
    }
}

#[test]
fn expect_gets_one_100_and_is_not_forwarded_rule_17() {
    let upstream = Upstream::start(returns_body());
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("POST", "/", &[("expect", "100-continue"), ("content-length", "3")]), false);
    client.until("100", |client| client.streams.get(&stream).is_some_and(|response| response.interim == [100]));
    client.data(stream, b"abc", true);
    let response = client.response(stream);
    assert_eq!((response.text().as_str(), response.interim.as_slice()), ("abc", &[100][..]));
    assert_eq!(upstream.requests()[0].head.field("expect"), None);
    let stream = client.open(&request("POST", "/", &[("expect", "the-unexpected"), ("content-length", "3")]), false);
    assert_eq!(client.response(stream).status, 417);
}

#[test]
fn upgrade_to_h2c_is_neither_followed_nor_forwarded() {
    let upstream = Upstream::start(responder::ok("plain"));
    let weir = gateway(&upstream);
    let mut client = weir.connect();
    client.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    );
    assert_eq!(client.read_response().status(), 200);
    let seen = &upstream.requests()[0].head;
    assert_eq!((seen.field("upgrade"), seen.field("http2-settings")), (None, None));
}

/// Section 8.1: the rest of a request whose response is complete is not wanted, and the response is not lost.
#[test]
fn an_early_response_is_complete_and_the_rest_is_reset_with_no_error() {
    let upstream = Upstream::start(returns_body());
    let weir = gateway_with(&upstream, "server: {body: 10B}\n", "");
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("POST", "/", &[]), false);
    client.data(stream, &[0; 100], false);
    client.until("both", |client| {
        client.streams.get(&stream).is_some_and(|response| response.has_ended && response.reset.is_some())
    });
    let response = &client.streams[&stream];
    assert_eq!((response.status, response.reset), (413, Some(NO_ERROR)));
    // Frames that were on their way mean nothing.
    client.data(stream, &[0; 100], true);
    assert_eq!(client.fetch("/").status, 200);
}

#[test]
fn errors_of_the_gateway_are_responses() {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("late")));
    let weir = gateway_with(&upstream, "server: {request_line: 64B}\n", "    timeouts: {first_byte: 100ms}\n");
    let mut client = Client::connect(weir.addr());
    let response = client.fetch("/");
    assert_eq!((response.status, response.field("content-type")), (504, Some("application/problem+json")));
    assert!(response.text().contains("request_id"), "{}", response.text());
    assert_eq!(client.fetch(&format!("/{}", "x".repeat(100))).status, 414);
    gate.open();
    upstream.stop();
    assert_eq!(client.fetch("/").status, 502);
}
