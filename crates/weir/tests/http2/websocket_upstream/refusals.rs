//! What opens no tunnel, and what is sent again.

use super::*;

#[test]
fn a_target_that_does_not_offer_it_gets_nothing_and_the_client_501_rule_18() {
    let target = Target::start_with(&[Do::Respond(200, b"page")], |_| ());
    let weir = gateway_with(target.address, "", "    retry: {extra_attempts: 2}\n", "");
    // On a new connection, whose SETTINGS have to come first, and on one that is there.
    for _ in 0..2 {
        for (status, body) in refusals(&weir) {
            assert_eq!(status, 501, "{body}");
            assert!(body.contains("no_tunnel") && body.contains("RFC 8441"), "{body}");
        }
    }
    assert_eq!(target.seen().len(), 0);
    let mut client = weir.connect();
    assert_eq!(client.get("/page").text(), "page");
    // What is no WebSocket is an ordinary request, as it is everywhere in HTTP/2.
    client.send("GET /irc HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: irc\r\n\r\n");
    assert_eq!(client.read_response().text(), "page");
    assert_eq!((target.seen().len(), target.connections()), (2, 1));
    assert_eq!(target.last().head.method.as_str(), "GET");
    assert_eq!(metric(&weir, "upstream_errors_total"), 0, "not the target's fault");
}

#[test]
fn the_settings_of_the_target_are_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for offers in [true, false] {
        let weir = gateway_with(listener.local_addr().unwrap(), "", "", "");
        let mut client = weir.connect();
        client.send(handshake("/ws", ""));
        let mut target = Raw::accept_without_settings(&listener);
        target.until(SETTINGS);
        // It is the gateway's turn, and it has nothing to say before it knows.
        let setting = [&CONNECT_PROTOCOL.to_be_bytes()[..], &u32::from(offers).to_be_bytes()].concat();
        target.send(&frame(SETTINGS, 0, 0, &setting));
        if !offers {
            assert_eq!(client.read_response().status(), 501);
            continue;
        }
        let (flags, stream, _) = target.until(HEADERS);
        assert_eq!((flags & END_STREAM, stream), (0, 1));
        target.send(&frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "200")])));
        assert_eq!(client.read_head().status(), 101);
    }
    // A target that never says what it offers.
    let upstream = "    retry: none\n    timeouts: {first_byte: 300ms}\n";
    let weir = gateway_with(listener.local_addr().unwrap(), "", upstream, "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = Raw::accept_without_settings(&listener);
    assert_eq!(client.read_response().status(), 504);
    drop(client);
    drop(weir);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut target.socket, &mut rest).unwrap();
    let mut kinds = Vec::new();
    while rest.len() >= 9 {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        kinds.push(rest[3]);
        rest.drain(..9 + length);
    }
    assert!(!kinds.contains(&HEADERS), "{kinds:?}");
}

#[test]
fn refusals_pass_and_open_nothing_rule_18() {
    let target = Target::start(&[Do::Respond(403, b"not you")]);
    let weir = gateway(&target);
    assert_eq!(refusals(&weir), [(403, "not you".to_owned()), (403, "not you".to_owned())]);
    // This side of a refused tunnel ends in order.
    wait::until(DEADLINE, "the ends", || target.seen().iter().all(|seen| *seen.end.lock().unwrap() == Some(Ok(()))));
    target.then(Do::Respond(302, b""));
    assert_eq!(refusals(&weir).map(|refusal| refusal.0), [302, 302]);
    target.then(Do::Reset(Reason::INTERNAL_ERROR));
    for (status, body) in refusals(&weir) {
        assert!(status == 502 && body.contains("upstream_reset"), "{status} {body}");
    }
    // Every success opens the tunnel, also one whose direction has ended at once.
    target.then(Do::SayAndLeave(0));
    let mut client = open1(&weir, "/ws");
    client.expect_closed();
    assert_eq!(target.connections(), 1);
}

#[test]
fn what_is_no_handshake_reaches_no_target() {
    let target = Target::start(&[Do::Echo]);
    let weir = gateway(&target);
    let upgrade = "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    for head in [
        format!("GET / HTTP/1.1\r\n{upgrade}\r\n"),
        format!("GET / HTTP/1.1\r\n{upgrade}Sec-WebSocket-Key: x\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{upgrade}Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"),
        format!("PUT / HTTP/1.1\r\n{upgrade}Sec-WebSocket-Key: {KEY}\r\n\r\n"),
    ] {
        let mut client = weir.connect();
        client.send(&head);
        let response = client.read_response();
        assert_eq!(response.status(), 400, "{head}");
        assert!(response.text().contains("bad_request"), "{}", response.text());
    }
    // Without `Connection: upgrade` it is an ordinary request.
    target.then(Do::Respond(200, b"page"));
    assert_eq!(weir.get("/").text(), "page");
    assert_eq!(target.seen().len(), 1);
}

#[test]
fn only_what_was_not_processed_is_sent_again_and_nothing_after_bytes() {
    let target = Target::start(&[Do::Reset(Reason::REFUSED_STREAM), Do::Echo]);
    let weir = gateway_with(target.address, "", "    retry: {extra_attempts: 2}\n", "");
    let mut client = open1(&weir, "/ws");
    client.send("x");
    assert_eq!(client.read_raw(1), b"x");
    assert_eq!(target.seen().len(), 2);
    client.reset();
    wait::until(DEADLINE, "a reset", || *target.last().end.lock().unwrap() == Some(Err(Reason::CANCEL)));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway_with(listener.local_addr().unwrap(), "", "    retry: {extra_attempts: 2}\n", "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = raw(&listener);
    let (_, stream, _) = target.until(HEADERS);
    target.send(&frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "200")])));
    assert_eq!(client.read_head().status(), 101);
    target.send(&frame(DATA, 0, stream, b"half"));
    assert_eq!(client.read_raw(4), b"half");
    target.send(&frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes()));
    assert_eq!(client.try_read_raw(1).unwrap_or_default(), b"", "the tunnel is over");
    // The next request is the first one behind it.
    let mut client = weir.connect();
    client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, next, _) = target.until(HEADERS);
    assert_eq!(next, stream + 2);
}
