//! Many tunnels, beside each other and beside limits, identity, timeouts, drains and faults.

use super::*;

#[test]
fn a_connection_carries_as_many_tunnels_as_it_has_streams_and_a_drain_ends_them() {
    let target = Target::start_with(&[Do::Echo], |builder| {
        builder.max_concurrent_streams(8).enable_connect_protocol();
    });
    let weir = gateway_with(
        target.address,
        "server: {drain: 300ms}\n",
        "    http2: {max_connections: 3}\n    timeouts: {connect: 300ms}\n",
        "",
    );
    let mut clients: Vec<_> = (0..24).map(|_| open1(&weir, "/ws")).collect();
    assert_eq!(target.connections(), 3);
    let mut beyond = weir.connect();
    beyond.send(handshake("/ws", ""));
    assert_eq!(beyond.read_response().status(), 503, "no stream is left");
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("{number:02}"));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read_raw(2), format!("{number:02}").as_bytes());
    }
    // One that ends makes room for another.
    let last = clients.pop().unwrap();
    last.reset();
    wait::until(DEADLINE, "a free stream", || {
        let mut client = weir.connect();
        client.send(handshake("/ws", ""));
        client.try_read_head("GET").is_ok_and(|(head, _)| head.status() == 101)
    });
    weir.signal(testkit::Signal::TERM);
    clients[0].send("still");
    assert_eq!(clients[0].read_raw(5), b"still");
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
    assert!(clients.iter_mut().all(|client| client.try_read_raw(1).unwrap_or_default().is_empty()));
    wait::until(DEADLINE, "all ends", || target.seen().iter().all(|seen| seen.end.lock().unwrap().is_some()));
}

#[test]
fn limits_identity_and_timeouts_hold_for_tunnels() {
    let target = Target::start(&[Do::Echo]);
    let top = "limits: {few: {algorithm: concurrency, quota: 1}}\n";
    let upstream = "    timeouts: {tunnel_idle: 500ms, first_byte: 300ms}\n    retry: {extra_attempts: 0}\n";
    let route = "    limits: [few]\n    headers: {request: {set: {X-By: weir}}, response: {set: {X-Via: weir}}}\n";
    let weir = gateway_with(target.address, top, upstream, route);
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    assert_eq!(client.read_head().status(), 101);
    assert_eq!(target.last().head.headers["x-by"], "weir");
    assert_eq!(refusals(&weir).map(|refusal| refusal.0), [429, 429], "the tunnel holds its place");
    assert_eq!(target.seen().len(), 1);
    // Nothing moves: it ends, on both sides, and its place is free.
    client.expect_closed();
    wait::until(DEADLINE, "an end", || target.last().end.lock().unwrap().is_some());
    wait::until(DEADLINE, "a place", || {
        let mut client = weir.connect();
        client.send(handshake("/ws", ""));
        client.read_head().status() == 101
    });
    // A target that does not respond.
    target.then(Do::Nothing);
    wait::until(DEADLINE, "504", || {
        let mut client = weir.connect();
        client.send(handshake("/ws", ""));
        client.read_response().status() == 504
    });
    wait::until(DEADLINE, "a reset", || *target.last().end.lock().unwrap() == Some(Err(Reason::CANCEL)));
}

#[test]
fn a_target_that_goes_away_keeps_its_tunnels() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway_with(listener.local_addr().unwrap(), "", "", "");
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let mut target = raw(&listener);
    let (_, stream, _) = target.until(HEADERS);
    target.send(&frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "200")])));
    assert_eq!(client.read_head().status(), 101);
    let mut second = weir.connect();
    second.send(handshake("/ws", ""));
    let (_, beyond, _) = target.until(HEADERS);
    target.send(&frame(GOAWAY, 0, 0, &[stream.to_be_bytes(), NO_ERROR.to_be_bytes()].concat()));
    // The second one was not processed: it goes elsewhere.
    let mut other = raw(&listener);
    let (_, again, _) = other.until(HEADERS);
    assert_eq!((beyond, again), (stream + 2, 1));
    other.send(&frame(HEADERS, END_HEADERS, again, &block(&[(":status", "200")])));
    assert_eq!(second.read_head().status(), 101);
    client.send("still");
    assert_eq!(target.until(DATA).2, b"still");
    target.send(&frame(DATA, END_STREAM, stream, b"here"));
    assert_eq!(client.read_raw(4), b"here");
    client.half_close();
    client.expect_closed();
    target.until(GOAWAY);
}

/// Clients of both kinds that come, speak and leave at random, with a target that resets, refuses and serves: each gets its own bytes, or the end.
#[test]
fn many_at_once_with_faults_at_every_step() {
    let what: Vec<Do> = (0..600)
        .map(|number| match number % 7 {
            0 => Do::Respond(403, b"no"),
            1 => Do::Reset(Reason::INTERNAL_ERROR),
            2 => Do::SayAndLeave(70_000),
            _ => Do::Echo,
        })
        .chain([Do::Echo])
        .collect();
    let target = Target::start(&what);
    let weir = gateway_with(
        target.address,
        "",
        "    retry: {extra_attempts: 0}\n    http2: {max_concurrent_streams: 5, max_connections: 2}\n    timeouts: {connect: 10s}\n",
        "",
    );
    let (tunnels, refused, lost) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..12usize {
            let (weir, tunnels, refused, lost) = (&weir, &tunnels, &refused, &lost);
            scope.spawn(move || {
                for round in 0..40usize {
                    let said = format!("{thread:02}-{round:02}-").repeat(1 + (thread * 7 + round * 13) % 900);
                    let status = if thread % 2 == 0 {
                        one_of_http1(weir, said.as_bytes(), round % 5 == 4)
                    } else {
                        one_of_http2(weir, said.as_bytes(), round % 5 == 4)
                    };
                    let count = match status {
                        101 => tunnels,
                        403 => refused,
                        502 => lost,
                        other => panic!("{other}"),
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let counts = [&tunnels, &refused, &lost].map(|count| count.load(Ordering::Relaxed));
    assert_eq!((counts.iter().sum::<usize>(), target.seen().len()), (480, 480), "each request once");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    wait::until(DEADLINE, "nothing in flight", || metric(&weir, "upstream_target_in_flight") == 0);
    assert!(target.connections() <= 2, "{}", target.connections());
}

/// One tunnel; its status, 101 where it is one.
fn one_of_http1(weir: &Weir, said: &[u8], leaves: bool) -> u16 {
    let mut client = weir.connect();
    client.send(handshake("/ws", ""));
    let (head, _) = client.try_read_head("GET").unwrap();
    if head.status() != 101 {
        return head.status();
    }
    let _ = client.try_send(said);
    if leaves {
        client.reset();
        return 101;
    }
    client.half_close();
    check(said, &client.read_to_close());
    101
}

fn one_of_http2(weir: &Weir, said: &[u8], leaves: bool) -> u16 {
    let mut client = Client::connect(weir.addr());
    let stream = open2(&mut client, "/ws");
    let status = client.streams[&stream].status;
    if status != 200 {
        return status;
    }
    client.data(stream, said, true);
    if leaves {
        client.reset(stream, CANCEL);
        client.read(Duration::from_millis(1));
        return 101;
    }
    let response = client.response(stream);
    assert!(response.has_ended, "{:?} {}", response.reset, response.body.len());
    check(said, &response.body);
    101
}

/// Either an echo, or what a target says by itself.
fn check(said: &[u8], got: &[u8]) {
    let is_pattern = got.len() == 70_000 && got.iter().enumerate().all(|(index, byte)| *byte == index as u8);
    assert!(got == said || is_pattern, "{} of {} bytes", got.len(), said.len());
}
