//! Many streams of one connection to a target: how many, and that none takes what the others need.

use super::*;

/// Requests that come together, and more of them than a connection has streams: those that are left make further connections, although no stream becomes free.
#[test]
fn streams_that_do_not_end_are_as_many_as_all_connections_have() {
    const STREAMS: usize = 25;
    let held = std::sync::Mutex::new(Vec::new());
    let target = Target::start_with(10, move |_, send| held.lock().unwrap().push(send));
    let weir = gateway(target.address, "", "");
    let mut client = Client::connect(weir.addr());
    let requests: Vec<u8> = (0..STREAMS as u32)
        .flat_map(|number| frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &block(&request("GET", "/", &[]))))
        .collect();
    client.send(&requests);
    wait::until(DEADLINE, "all at the target", || target.seen().len() == STREAMS);
    assert_eq!(target.connections(), 3);
}

/// Clients that take nothing of their responses do not keep others from their own, although all are streams of one connection to the target: together they hold
/// more than its window.
#[test]
fn clients_that_read_nothing_leave_the_connection_to_the_others() {
    const STALLED: usize = 40;
    let target = Target::start(|seen, send| {
        let length = if seen.head.uri.path() == "/large" { 1_000_000 } else { 3_000_000 };
        respond_with(send, Response::new(()), vec![b'x'; length], None);
    });
    let weir = gateway(target.address, "", "");
    // SETTINGS_INITIAL_WINDOW_SIZE 0.
    let mut stalled = Client::connect_with(weir.addr(), &[(4, 0)]);
    let streams: Vec<u32> = (0..STALLED).map(|_| stalled.get("/large")).collect();
    stalled.until("the heads", |client| {
        streams.iter().all(|stream| client.streams.get(stream).is_some_and(|response| response.status == 200))
    });
    let mut other = weir.connect();
    for _ in 0..3 {
        assert_eq!(other.get("/fast").body.len(), 3_000_000);
    }
    assert_eq!(target.connections(), 1);
    assert!(streams.iter().all(|stream| stalled.streams[stream].body.is_empty()));
    // They get them when they take them.
    stalled.window_update(0, 100_000_000);
    for stream in &streams {
        stalled.window_update(*stream, 1_000_000);
    }
    for stream in streams {
        assert_eq!(stalled.response(stream).body.len(), 1_000_000);
    }
}

/// The same of requests: uploads that a target does not read hold more than half of the window of their client's connection, and the others go on.
#[test]
fn uploads_that_nobody_reads_leave_the_connection_to_the_others() {
    let upstream = testkit::Upstream::connections(|conn| {
        let head = conn.read_head()?;
        if head.head.target() == "/stalled" {
            return conn.stall();
        }
        let mut body = 0;
        while body < 400_000 {
            body += conn.read_raw()?.len();
        }
        conn.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
    });
    let top = "server: {http2: {stream_window: 1MiB, connection_window: 1MiB}}\n";
    let weir = crate::gateway_with(&upstream, top, "");
    let mut client = Client::connect(weir.addr());
    // As much as the sockets and buffers behind the gateway take, and 600 KiB more.
    let stalled = client.open(&request("POST", "/stalled", &[]), false);
    let (mut credit, mut sent) = (65_535_i64, 0);
    let mut quiet = 0;
    while quiet < 5 {
        while credit > 400_000 && client.settings.contains_key(&4) {
            client.data(stalled, &[0; 16_384], false);
            credit -= 16_384;
            sent += 16_384;
        }
        client.read(std::time::Duration::from_millis(100));
        let more: i64 =
            client.window_updates.drain(..).filter(|update| update.0 == 0).map(|update| i64::from(update.1)).sum();
        credit += more;
        quiet = if more > 0 { 0 } else { quiet + 1 };
    }
    assert!(sent > 600_000, "{sent}");
    // What is left of the connection's window is less than half of it, and serves the others again and again.
    for _ in 0..5 {
        let stream = client.open(&request("POST", "/fast", &[("content-length", "400000")]), false);
        let mut left = 400_000_usize;
        while left > 0 {
            let piece = left.min(16_384).min(usize::try_from(credit).unwrap_or(0));
            if piece > 0 {
                client.data(stream, &vec![0; piece], piece == left);
                left -= piece;
                credit -= piece as i64;
                continue;
            }
            let before = client.window_updates.len();
            client.until("credit", |client| client.window_updates.iter().skip(before).any(|update| update.0 == 0));
            credit += client
                .window_updates
                .drain(..)
                .filter(|update| update.0 == 0)
                .map(|update| i64::from(update.1))
                .sum::<i64>();
        }
        assert_eq!(client.response(stream).status, 200);
        credit += client
            .window_updates
            .drain(..)
            .filter(|update| update.0 == 0)
            .map(|update| i64::from(update.1))
            .sum::<i64>();
    }
    assert!(!client.is_over(stalled));
}
