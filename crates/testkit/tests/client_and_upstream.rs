//! The raw client and the upstream against each other.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use testkit::http::Framing;
use testkit::{DEADLINE, Gate, RawClient, Upstream, WireError, pattern, responder, wait};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// What the strict reader says of these bytes as the response to a GET.
fn read(response: &[u8]) -> Result<testkit::Message, WireError> {
    let upstream = Upstream::start(responder::raw_then_close(response));
    let mut client = RawClient::connect(upstream.address());
    client.send(GET);
    client.try_read_response()
}

#[test]
fn a_request_arrives_byte_for_byte_however_it_is_cut() {
    let upstream = Upstream::start(responder::echo());
    let request = b"POST /a?b HTTP/1.1\r\nhOST:  x \r\nX: 1\r\nX: 2\r\nContent-Length: 5\r\n\r\nhello";
    let mut client = RawClient::connect(upstream.address());
    for way in 0..10 {
        match way {
            0 => client.send(request),
            1 => client.send_bytewise(request),
            seed => client.send_random_splits(request, seed),
        }
        assert_eq!(client.read_response().body, request);
    }
    assert_eq!((upstream.accepted(), upstream.request_count()), (1, 10));
    let seen = &upstream.requests()[1];
    assert_eq!(seen.raw, request);
    assert_eq!((seen.head.method(), seen.head.target(), seen.head.version()), ("POST", "/a?b", "HTTP/1.1"));
    assert_eq!(seen.head.fields[0], ("hOST".to_owned(), "x".to_owned()));
    assert_eq!(seen.head.all("x"), ["1", "2"]);
    assert_eq!((&seen.body[..], seen.body_length, seen.complete, seen.connection), (&b"hello"[..], 5, true, 0));
    assert!(upstream.errors().is_empty());
}

#[test]
fn a_chunked_request_is_decoded_and_recorded_raw() {
    let upstream = Upstream::start(responder::echo());
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = "3\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n";
    let mut client = RawClient::connect(upstream.address());
    client.send([head, body].concat());
    assert_eq!(client.read_response().text(), [head, "abc0123456789"].concat());
    let seen = &upstream.requests()[0];
    assert_eq!(seen.raw, [head, body].concat().as_bytes());
    assert_eq!(seen.trailers, [("T".to_owned(), "1".to_owned())]);
}

#[test]
fn responses_end_where_their_framing_says() {
    let cases: [(&str, &[u8], Framing, &str); 6] = [
        ("length", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", Framing::Length(2), "ab"),
        ("no length", b"HTTP/1.1 200 OK\r\n\r\nabc", Framing::UntilClose, "abc"),
        ("1.0", b"HTTP/1.0 200 OK\r\n\r\nabc", Framing::UntilClose, "abc"),
        ("204", b"HTTP/1.1 204 No Content\r\n\r\nabc", Framing::None, ""),
        ("304", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", Framing::None, ""),
        (
            "chunked",
            b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
            Framing::Chunked,
            "abc",
        ),
    ];
    for (name, bytes, framing, body) in cases {
        let response = read(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((response.framing, response.text()), (framing, body), "{name}");
    }
}

#[test]
fn interim_responses_come_beside_the_final_one() {
    let response = read(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    );
    let response = response.expect("a response");
    assert_eq!(response.status(), 200);
    let interim: Vec<u16> = response.interim.iter().map(|head| head.status()).collect();
    assert_eq!(interim, [100, 103]);
    assert_eq!(response.interim[1].field("link"), Some("a"));
}

#[test]
fn doubtful_responses_are_refused() {
    let cases: [(&str, &[u8]); 17] = [
        ("CR in the status line", b"HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n"),
        ("signed chunk size", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n"),
        ("chunk extension", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\na\r\n0\r\n\r\n"),
        ("bare LF", b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"),
        ("bare CR", b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n"),
        ("NUL", b"HTTP/1.1 200 OK\r\nA: \0\r\n\r\n"),
        ("obs-fold", b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"),
        ("space before the colon", b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n"),
        ("empty name", b"HTTP/1.1 200 OK\r\n: b\r\n\r\n"),
        ("both lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na"),
        ("signed length", b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na"),
        ("unknown coding", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        ("coding in 1.0", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("length with 204", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
        ("chunk size", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n"),
        ("chunk end", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n"),
    ];
    for (name, bytes) in cases {
        let outcome = read(bytes);
        assert!(matches!(outcome, Err(WireError::Malformed(_))), "{name}: {outcome:?}");
    }
}

#[test]
fn a_response_that_breaks_off_is_no_response() {
    let short = |bytes: &[u8]| read(bytes).expect_err("an error");
    assert!(matches!(short(b"HTTP/1.1 200 OK\r\nContent-"), WireError::Truncated(_)));
    assert!(matches!(short(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), WireError::Truncated(_)));
    assert!(matches!(
        short(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"),
        WireError::Truncated(_)
    ));
    assert_eq!(short(b""), WireError::Closed);
}

#[test]
fn a_reset_is_told_from_a_close() {
    let upstream = Upstream::start(responder::in_order([responder::reset(), responder::close()]));
    for expected in [WireError::Reset, WireError::Closed] {
        let mut client = RawClient::connect(upstream.address());
        client.send(GET);
        assert_eq!(client.try_read_response().expect_err("no response"), expected);
    }
    assert!(upstream.errors().is_empty());
}

#[test]
fn a_head_request_gets_no_body_and_keeps_the_connection() {
    let upstream = Upstream::start(responder::ok("hello"));
    let mut client = RawClient::connect(upstream.address());
    client.request("HEAD", "/", &[], "");
    let response = client.read_response_to("HEAD");
    assert_eq!((response.field("content-length"), response.body.len()), (Some("5"), 0));
    assert_eq!(client.get("/").text(), "hello");
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn requests_that_are_not_http_are_recorded_as_errors() {
    let cases: [&[u8]; 9] = [
        b"GET /\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx",
    ];
    for bytes in cases {
        let upstream = Upstream::start(responder::ok(""));
        let mut client = RawClient::connect(upstream.address());
        client.send(bytes);
        client.half_close();
        client.expect_closed();
        assert_eq!(upstream.errors().len(), 1, "{}", bytes.escape_ascii());
    }
}

#[test]
fn pipelined_requests_get_responses_in_order() {
    let upstream = Upstream::start(responder::echo());
    let mut client = RawClient::connect(upstream.address());
    client.send(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(client.read_response().text().starts_with("GET /1 "));
    assert!(client.read_response().text().starts_with("GET /2 "));
    client.expect_closed();
}

#[test]
fn every_event_of_a_stream_arrives_when_its_gate_is_opened() {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::sse(["one", "two"], &gate));
    let mut client = RawClient::connect(upstream.address());
    client.send(GET);
    assert_eq!(client.read_head().field("content-type"), Some("text/event-stream"));
    client.expect_silence(Duration::from_millis(30));
    gate.release();
    assert_eq!(client.read_piece().expect("a piece").data, b"data: one\n\n");
    client.expect_silence(Duration::from_millis(30));
    gate.release();
    client.expect_bytes("data: two\n\n");
    gate.release();
    assert!(client.read_piece().is_none());
    assert_eq!(upstream.open(), 1);
}

#[test]
fn a_handler_that_waits_notices_that_its_peer_disconnected() {
    let gate = Gate::new();
    let held = Upstream::start(responder::gated(&gate, responder::ok("")));
    let stalled = Upstream::start(responder::stall());
    for upstream in [&held, &stalled] {
        for reset in [false, true] {
            let mut client = RawClient::connect(upstream.address());
            client.send(GET);
            upstream.wait_for_requests(1);
            assert_eq!(upstream.open(), 1);
            if reset {
                client.reset();
            } else {
                drop(client);
            }
            upstream.wait_for_open(0);
            upstream.forget();
        }
    }
}

#[test]
fn large_bodies_stream_without_being_kept() {
    let length = 300 << 20;
    let upstream = Upstream::builder().connections(responder::sink);
    let mut client = RawClient::connect(upstream.address());
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"));
    assert_eq!(client.read_head().status(), 100);
    client.try_send_pattern(length).expect("all of it");
    assert_eq!(client.read_response().text(), format!("{length} ok"));
    let seen = &upstream.requests()[0];
    assert_eq!((seen.body_length, seen.body.len(), seen.raw.len()), (length, 1 << 20, 1 << 20));

    let upstream = Upstream::start(responder::large(length));
    let mut client = RawClient::connect(upstream.address());
    client.send(GET);
    client.read_head();
    let body = client.try_read_pattern().expect("all of it");
    assert_eq!((body.bytes, body.wrong_at), (length, None));
}

#[test]
fn a_changed_byte_of_the_pattern_is_noticed() {
    let mut body = pattern::bytes(200_000);
    let mut checker = pattern::Checker::default();
    checker.push(&body);
    assert_eq!((checker.bytes, checker.wrong_at), (200_000, None));
    body[150_000] ^= 1;
    let mut checker = pattern::Checker::default();
    body.chunks(1000).for_each(|piece| checker.push(piece));
    assert_eq!(checker.wrong_at, Some(150_000));
}

#[test]
fn a_peer_that_does_not_read_blocks_the_sender() {
    let upstream = Upstream::connections(|conn| conn.stall());
    let mut client = RawClient::connect(upstream.address());
    let taken = client.send_until_blocked(1 << 30, Duration::from_millis(200)).expect("an open connection");
    assert!((1..1 << 30).contains(&taken), "{taken}");
}

#[test]
fn a_stopped_upstream_refuses_and_comes_back_at_the_same_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let places = [
        Upstream::start(responder::ok("up")),
        Upstream::builder().ipv6().start(responder::ok("up")),
        Upstream::builder().unix(dir.path().join("socket")).start(responder::ok("up")),
    ];
    for upstream in places {
        let mut client = RawClient::connect(upstream.address());
        assert_eq!(client.get("/").text(), "up");
        upstream.stop();
        client.expect_closed();
        assert!(RawClient::try_connect(upstream.address(), None).is_err());
        upstream.wait_for_open(0);
        upstream.restart();
        assert_eq!(RawClient::connect(upstream.address()).get("/").text(), "up", "{}", upstream.url());
    }
}

#[test]
fn a_paused_upstream_takes_connections_and_serves_them_later() {
    let upstream = Upstream::start(responder::ok("late"));
    upstream.pause();
    let mut client = RawClient::connect(upstream.address());
    client.send(GET);
    client.expect_silence(Duration::from_millis(50));
    assert_eq!((upstream.accepted(), upstream.request_count()), (0, 0));
    upstream.resume();
    assert_eq!(client.read_response().text(), "late");
}

#[test]
fn the_response_can_change_while_connections_are_open() {
    let upstream = Upstream::start(responder::ok("a"));
    let mut client = RawClient::connect(upstream.address());
    assert_eq!(client.get("/").text(), "a");
    upstream.set_responder(responder::status(503));
    assert_eq!(client.get("/").status(), 503);
    upstream.set_responder(|conn, request| conn.respond(200, &[("X-Target", request.head.target())], ""));
    assert_eq!(client.get("/x").field("x-target"), Some("/x"));
}

#[test]
fn connections_are_distinguished_after_a_forget() {
    let upstream = Upstream::start(responder::ok(""));
    let mut old = RawClient::connect(upstream.address());
    old.get("/");
    upstream.forget();
    let mut new = RawClient::connect(upstream.address());
    new.get("/");
    assert_eq!((upstream.accepted(), upstream.request_count(), upstream.open()), (1, 1, 2));
    drop(new);
    upstream.wait_for_open(1);
    old.get("/");
    let connections: Vec<usize> = upstream.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [1, 0]);
}

#[test]
#[should_panic(expected = "a handler of the upstream panicked")]
fn a_panic_in_a_handler_fails_the_test() {
    let upstream = Upstream::start(|_, request| {
        assert_eq!(request.head.target(), "/expected");
        Ok(())
    });
    let mut client = RawClient::connect(upstream.address());
    client.send(GET);
    client.expect_closed();
}

#[test]
fn a_half_closed_side_still_reads() {
    let upstream = Upstream::connections(|conn| {
        conn.write("early")?;
        conn.half_close()?;
        while !conn.read_raw()?.is_empty() {}
        Ok(())
    });
    let mut client = RawClient::connect(upstream.address());
    assert_eq!(client.read_to_close(), b"early");
    assert_eq!(upstream.open(), 1);
    client.send("late");
    client.half_close();
    upstream.wait_for_open(0);
}

#[test]
fn open_connections_can_be_closed_or_reset_by_the_test() {
    let upstream = Upstream::start(responder::ok(""));
    let connect = || {
        let mut client = RawClient::connect(upstream.address());
        client.get("/");
        client
    };
    let mut client = connect();
    upstream.close_connections();
    assert_eq!(client.try_read_response().expect_err("closed"), WireError::Closed);
    let mut client = connect();
    upstream.reset_connections();
    assert_eq!(client.try_read_response().expect_err("reset"), WireError::Reset);
}

#[test]
fn a_client_can_come_from_another_address() {
    let upstream = Upstream::start(responder::ok(""));
    let local = IpAddr::from(Ipv4Addr::new(127, 1, 2, 3));
    let mut client = RawClient::connect_from(local, upstream.address());
    assert_eq!(client.local_addr().map(|addr| addr.ip()), Some(local));
    assert_eq!(client.get("/").status(), 200);
}

#[test]
fn many_clients_at_once_are_counted_right() {
    let upstream = Upstream::start(responder::echo());
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut client = RawClient::connect(upstream.address());
                (0..50).for_each(|_| assert_eq!(client.get("/").status(), 200));
            });
        }
    });
    assert_eq!((upstream.accepted(), upstream.request_count()), (20, 1000));
    wait::until(DEADLINE, "no connection is open", || upstream.open() == 0);
}

#[test]
fn an_upgraded_connection_carries_bytes() {
    let upstream = Upstream::connections(|conn| {
        conn.read_head()?;
        conn.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")?;
        loop {
            let bytes = conn.read_raw()?;
            if bytes.is_empty() {
                return Ok(());
            }
            conn.write(bytes)?;
        }
    });
    let mut client = RawClient::connect(upstream.address());
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nearly");
    assert_eq!(client.read_response().status(), 101);
    assert_eq!(client.read_raw(5), b"early");
    client.send("\0\r\n");
    assert_eq!(client.read_raw(3), b"\0\r\n");
    client.half_close();
    client.expect_closed();
}
