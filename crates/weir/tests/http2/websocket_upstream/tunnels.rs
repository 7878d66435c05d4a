//! What a tunnel carries, and how it ends.

use super::*;

#[test]
fn a_tunnel_of_http1_carries_bytes_both_ways_and_both_ends_rule_18() {
    let target = Target::start(&[Do::Echo]);
    let weir = gateway(&target);
    let mut client = weir.connect();
    client.send(handshake(
        "/ws?room=1",
        "Origin: http://a.example\r\nSec-WebSocket-Protocol: chat\r\nX-Forwarded-For: 9.9.9.9\r\n",
    ));
    let head = client.read_head();
    assert_eq!((head.status(), head.field("sec-websocket-accept")), (101, Some(ACCEPT)));
    assert_eq!((head.field("upgrade"), head.field("sec-websocket-protocol")), (Some("websocket"), Some("chat")));
    assert_eq!((head.field("content-length"), head.field("transfer-encoding")), (None, None));
    let seen = target.last();
    let (method, uri, fields) = (&seen.head.method, &seen.head.uri, &seen.head.headers);
    assert_eq!((method.as_str(), uri.path_and_query().unwrap().as_str()), ("CONNECT", "/ws?room=1"));
    assert_eq!((uri.scheme_str(), uri.host()), (Some("http"), Some("a.example")));
    assert_eq!(seen.head.extensions.get::<Protocol>().map(Protocol::as_str), Some("websocket"));
    for (name, value) in [
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
        ("origin", "http://a.example"),
        ("x-forwarded-for", "127.0.0.1"),
    ] {
        assert_eq!(fields[name], value);
    }
    for name in ["sec-websocket-key", "connection", "upgrade", "host", "content-length", "transfer-encoding"] {
        assert!(!fields.contains_key(name), "{name}");
    }
    // What looks like a request is not one.
    let text = "GET /other HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(text);
    assert_eq!(client.read_raw(text.len()), text.as_bytes());
    // Ordinary requests and other tunnels go beside it, on the same connection.
    let mut beside = open1(&weir, "/beside");
    beside.send("beside");
    assert_eq!(beside.read_raw(6), b"beside");
    assert_eq!((target.seen().len(), target.connections()), (2, 1));
    client.send("last");
    client.half_close();
    assert_eq!(client.read_to_close(), b"last");
    wait::until(DEADLINE, "the end at the target", || *seen.end.lock().unwrap() == Some(Ok(())));
    beside.half_close();
    beside.expect_closed();
    wait::until(DEADLINE, "two lines", || {
        log(&weir).iter().filter(|line| line.contains("\"status\":101")).count() == 2
    });
    assert_eq!(metric(&weir, "http2_upstream_streams_total"), 2);
    assert_eq!(metric(&weir, "http2_upstream_streams_lost_total"), 0);
}

#[test]
fn a_tunnel_of_http2_is_one_of_http2_rule_18() {
    let target = Target::start(&[Do::Echo]);
    let weir = gateway(&target);
    let mut client = Client::connect(weir.addr());
    let stream = open2(&mut client, "/ws");
    let response = &client.streams[&stream];
    assert_eq!((response.status, response.field("sec-websocket-protocol")), (200, Some("chat")));
    for name in ["connection", "upgrade", "sec-websocket-accept", "content-length", "transfer-encoding"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    let seen = target.last();
    assert_eq!(seen.head.extensions.get::<Protocol>().map(Protocol::as_str), Some("websocket"));
    assert!(!seen.head.headers.contains_key("sec-websocket-key"));
    client.data(stream, b"one", false);
    client.until("an echo", |client| client.streams[&stream].body == b"one");
    client.data(stream, b", two", true);
    let response = client.response(stream);
    assert_eq!((response.text(), response.has_ended), ("one, two".to_owned(), true));
    assert!(matches!(response.reset, None | Some(NO_ERROR)), "{response:?}");
    assert_eq!(*seen.end.lock().unwrap(), Some(Ok(())));
    wait::until(DEADLINE, "a line", || log(&weir).iter().any(|line| line.contains("\"status\":101")));
    assert!(log(&weir)[0].contains("HTTP/2"));
}

#[test]
fn megabytes_pass_whatever_the_windows() {
    let target = Target::start_with(&[Do::Echo], |builder| {
        builder.initial_window_size(10_000).initial_connection_window_size(70_000).enable_connect_protocol();
    });
    let weir = gateway_with(target.address, "", "    http2: {stream_window: 64KiB, connection_window: 128KiB}\n", "");
    let sent: Vec<u8> = (0..4_194_304u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    // Several at once, which share the windows of the connection.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = open1(&weir, "/ws");
            let sent = &sent;
            scope.spawn(move || {
                // Never more on the way than all buffers hold: nobody reads what this thread does not.
                let mut got = Vec::new();
                for piece in sent.chunks(32_768) {
                    client.send(piece);
                    got.extend(client.read_raw(piece.len()));
                }
                assert!(got == *sent, "byte by byte");
                client.half_close();
                client.expect_closed();
            });
        }
    });
    assert_eq!(target.connections(), 1);
    let ends: Vec<_> =
        target.seen().iter().map(|seen| (seen.body.lock().unwrap().len(), *seen.end.lock().unwrap())).collect();
    assert_eq!(ends, [(sent.len(), Some(Ok(()))); 4]);
}

#[test]
fn what_a_target_said_before_it_left_arrives() {
    let target = Target::start(&[Do::SayAndLeave(3_000_000)]);
    let weir = gateway(&target);
    for _ in 0..4 {
        let mut client = open1(&weir, "/ws");
        // Written while the target refuses what comes.
        let _ = client.try_send("more");
        let got = client.read_raw(3_000_000);
        assert!(got.iter().enumerate().all(|(index, byte)| *byte == index as u8));
        let _ = client.try_send("and more");
        client.half_close();
        client.expect_closed();
    }
}

#[test]
fn what_a_client_said_before_it_left_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway_with(listener.local_addr().unwrap(), "", "", "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = Raw::accept_without_settings(&listener);
    // A window of 10 bytes, and the target's direction ends first.
    let settings = [(CONNECT_PROTOCOL, 1u32), (4, 10)];
    let settings: Vec<u8> =
        settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    target.send(&[frame(SETTINGS, 0, 0, &settings), frame(SETTINGS, 1, 0, &[])].concat());
    let (_, stream, _) = target.until(HEADERS);
    let head = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[(":status", "200")]));
    target.send(&head);
    assert_eq!(client.read_head().status(), 101);
    client.send("0123456789abcdef");
    client.half_close();
    let (flags, _, data) = target.until(DATA);
    assert_eq!((flags & END_STREAM, &*data), (0, &b"0123456789"[..]));
    client.expect_closed();
    // The gateway still owes six bytes and the end.
    target.send(&frame(WINDOW_UPDATE, 0, stream, &100u32.to_be_bytes()));
    let (flags, _, data) = target.until(DATA);
    assert_eq!(&*data, b"abcdef");
    let flags = if flags & END_STREAM == 0 { target.until(DATA).0 } else { flags };
    assert_eq!(flags & END_STREAM, END_STREAM);
}

#[test]
fn frames_that_have_no_place_in_a_tunnel_end_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway_with(listener.local_addr().unwrap(), "", "", "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = raw(&listener);
    let (_, stream, _) = target.until(HEADERS);
    // A length means nothing here (RFC 9110 section 9.3.6), and what HTTP/1.1 needs is made by the gateway.
    let head = [(":status", "200"), ("content-length", "2"), ("sec-websocket-accept", "forged")];
    target.send(&frame(HEADERS, END_HEADERS, stream, &block(&head)));
    let head = client.read_head();
    assert_eq!((head.status(), head.all("sec-websocket-accept")), (101, vec![ACCEPT]));
    target.send(&frame(DATA, 0, stream, b"longer"));
    assert_eq!(client.read_raw(6), b"longer");
    // RFC 9113 section 8.5: no trailers.
    target.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[("x", "1")])));
    let (_, reset, code) = target.until(RST_STREAM);
    assert_eq!((reset, &*code), (stream, &PROTOCOL_ERROR.to_be_bytes()[..]));
    assert_eq!(client.try_read_raw(1).unwrap_or_default(), b"");

    // The same from a client.
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("CONNECT", "/ws", &[(":protocol", "websocket")]), false);
    let (_, up, _) = target.until(HEADERS);
    target.send(&frame(HEADERS, END_HEADERS, up, &block(&[(":status", "200")])));
    client.until("a head", |client| client.streams.get(&stream).is_some_and(|response| response.status == 200));
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[("x", "1")])));
    assert_eq!(client.response(stream).reset, Some(PROTOCOL_ERROR));
    assert_eq!(&*target.until(RST_STREAM).2, &CANCEL.to_be_bytes()[..]);
}

#[test]
fn a_reset_on_either_side_is_one_on_the_other() {
    let target = Target::start(&[Do::Echo]);
    let weir = gateway(&target);
    let mut two = Client::connect(weir.addr());
    let stream = open2(&mut two, "/ws");
    two.data(stream, b"x", false);
    two.until("an echo", |client| client.streams[&stream].body == b"x");
    let seen = target.last();
    two.reset(stream, CANCEL);
    wait::until(DEADLINE, "a reset", || *seen.end.lock().unwrap() == Some(Err(Reason::CANCEL)));
    // The end of a client's connection is the end of its tunnels, and of no other.
    let mut other = open1(&weir, "/other");
    let stream = open2(&mut two, "/ws");
    let seen = target.last();
    two.data(stream, b"x", false);
    two.until("an echo", |client| client.streams[&stream].body == b"x");
    drop(two);
    wait::until(DEADLINE, "a reset", || *seen.end.lock().unwrap() == Some(Err(Reason::CANCEL)));
    other.send("y");
    assert_eq!(other.read_raw(1), b"y");
    // The end of the target's connection is the end of all.
    let mut two = Client::connect(weir.addr());
    let stream = open2(&mut two, "/ws");
    drop(target);
    assert_eq!(two.response(stream).reset, Some(CANCEL));
    assert_eq!(other.try_read_raw(1).unwrap_or_default(), b"");
}
