//! Back-pressure through the windows, in both directions, and who is cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use testkit::{DEADLINE, Upstream, responder, wait};

use crate::client::*;
use crate::{gateway, gateway_with};

#[test]
fn a_stalled_stream_holds_little_and_delays_no_other() {
    let written = Arc::new(AtomicU64::new(0));
    let counts = written.clone();
    let upstream = Upstream::start(move |conn, request| {
        if request.head.target() != "/large" {
            return conn.respond(200, &[], vec![b'y'; 20_000]);
        }
        conn.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
        let count = conn.write_until_blocked(1_000_000_000, Duration::from_millis(300))?;
        counts.store(count, Ordering::Relaxed);
        conn.stall()
    });
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    client.gives_credit = false;
    let stalled = client.get("/large");
    wait::until(DEADLINE, "the upstream to be blocked", || written.load(Ordering::Relaxed) > 0);
    // The sockets' own buffers hold some; the gateway no more than a buffer and a window.
    assert!(written.load(Ordering::Relaxed) < 16_000_000, "{}", written.load(Ordering::Relaxed));
    client.window_update(0, 100_000_000);
    for _ in 0..20 {
        let stream = client.get("/small");
        assert_eq!(client.response(stream).body.len(), 20_000);
    }
    assert_eq!(client.streams[&stalled].body.len(), 65_535, "no more than the window");
    assert!(!client.is_over(stalled));
    client.reset(stalled, CANCEL);
    upstream.wait_for_open(1);
}

#[test]
fn a_client_that_opens_its_window_byte_by_byte_is_cut_off() {
    let upstream = Upstream::start(responder::large(1_000_000));
    let weir = gateway_with(&upstream, "server: {body_idle_timeout: 500ms}\n", "");
    // SETTINGS_INITIAL_WINDOW_SIZE 0, then one byte at a time.
    let mut client = Client::connect_with(weir.addr(), &[(4, 0)]);
    client.gives_credit = false;
    let stream = client.get("/");
    let start = Instant::now();
    while !client.is_over(stream) && !client.is_closed {
        assert!(start.elapsed() < DEADLINE, "the stream is held without limit");
        client.window_update(stream, 1);
        client.read(Duration::from_millis(50));
    }
    let response = &client.streams[&stream];
    assert_eq!((response.status, response.reset), (200, Some(CANCEL)));
    upstream.wait_for_open(0);
}

/// The kernel announces space only when much of its buffer is free, which such a reader may take longer for than it may take nothing.
#[test]
fn a_client_that_reads_slowly_is_not_cut_off() {
    let upstream = Upstream::start(responder::large(200_000_000));
    let weir = gateway_with(&upstream, "server: {body_idle_timeout: 500ms}\n", "");
    let mut client = Client::connect_with(weir.addr(), &[(4, 0x7fff_ffff)]);
    client.gives_credit = false;
    client.window_update(0, 0x7fff_0000);
    let stream = client.get("/");
    client.until("the first piece", |client| {
        client.streams.get(&stream).is_some_and(|response| !response.body.is_empty())
    });
    // Six times as long as a client may take nothing.
    let (mut next, mut pieces) = (Instant::now(), 0);
    wait::until(DEADLINE, "three seconds of slow reading", || {
        if next <= Instant::now() {
            next += Duration::from_millis(100);
            // Enough for the kernel to say so to the gateway several times in half a second.
            client.read_at_most(32_768, Duration::from_millis(50));
            pieces += 1;
        }
        // What ends the stream lies behind what the sockets hold: the target sees it first.
        assert_eq!(upstream.open(), 1, "cut off after {pieces} pieces: {:?}", client.goaways);
        assert!(!client.is_closed);
        pieces == 30
    });
}

#[test]
fn a_client_with_windows_of_zero_gets_its_response_when_it_opens_them() {
    let upstream = Upstream::start(responder::ok(vec![b'x'; 100_000]));
    let weir = gateway(&upstream);
    let mut client = Client::connect_with(weir.addr(), &[(4, 0)]);
    client.gives_credit = false;
    let stream = client.get("/");
    client.until("the head", |client| client.streams.get(&stream).is_some_and(|response| response.status == 200));
    assert_eq!(client.streams[&stream].body.len(), 0);
    client.window_update(0, 1_000_000);
    client.window_update(stream, 10);
    client.until("ten bytes", |client| client.streams[&stream].body.len() == 10);
    client.window_update(stream, 1_000_000);
    let response = client.response(stream);
    assert_eq!((response.body.len(), response.has_ended), (100_000, true));
}

#[test]
fn an_upload_gets_no_more_credit_than_the_upstream_takes() {
    // Reads the head of a request and no byte of its body.
    let upstream = Upstream::connections(|conn| {
        conn.read_head()?;
        conn.stall()
    });
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("POST", "/", &[]), false);
    let (mut sent, mut credit) = (0_u64, 65_535_u64);
    let mut quiet = Instant::now();
    let mut seen = 0;
    // Until no credit has come for half a second.
    while quiet.elapsed() < Duration::from_millis(500) {
        while credit >= 16_384 {
            client.data(stream, &[0; 16_384], false);
            sent += 16_384;
            credit -= 16_384;
        }
        client.read(Duration::from_millis(20));
        let updates: u64 = client.window_updates[seen..]
            .iter()
            .filter(|update| update.0 == stream)
            .map(|update| u64::from(update.1))
            .sum();
        seen = client.window_updates.len();
        if updates > 0 {
            credit += updates;
            quiet = Instant::now();
        }
        assert!(sent < 50_000_000, "no bound");
    }
    // Beyond what the window allows: the gateway says so.
    let beyond = client.open(&request("POST", "/", &[]), false);
    for _ in 0..5 {
        client.data(beyond, &[0; 16_384], false);
    }
    assert!(!client.is_over(stream), "the first stream waits");
    client.reset(stream, CANCEL);
    let code = client.response(beyond).reset;
    assert!(code.is_some() || client.streams[&beyond].status > 0, "{code:?}");
}

#[test]
fn an_upload_that_stops_is_a_408() {
    let upstream = Upstream::start(responder::echo());
    let weir = gateway_with(&upstream, "server: {body_idle_timeout: 200ms}\n", "");
    let mut client = Client::connect(weir.addr());
    let stream = client.open(&request("POST", "/", &[("content-length", "10")]), false);
    client.data(stream, b"abc", false);
    assert_eq!(client.response(stream).status, 408);
    assert_eq!(client.fetch("/").status, 200);
    assert!(upstream.requests().iter().filter(|request| !request.body.is_empty()).all(|request| !request.complete));
}

/// A client that takes nothing of one response gets the other ninety-nine whole, each larger than its window.
#[test]
fn one_stalled_stream_beside_ninety_nine_fast_ones() {
    const SIZE: usize = 300_000;
    let upstream = Upstream::start(responder::large(SIZE as u64));
    let weir = gateway(&upstream);
    let mut client = Client::connect(weir.addr());
    let stalled = client.get("/");
    client.stalled = Some(stalled);
    let fast: Vec<u32> = (0..99).map(|_| client.get("/")).collect();
    for stream in fast {
        let response = client.response(stream);
        assert_eq!((response.status, response.body.len(), response.reset), (200, SIZE, None));
    }
    assert_eq!(client.streams[&stalled].body.len(), 65_535, "no more than the window");
    assert!(!client.is_over(stalled));
    // It goes on when its client does.
    client.stalled = None;
    client.window_update(stalled, SIZE as u32);
    assert_eq!(client.response(stalled).body.len(), SIZE);
}

/// Clients that take nothing: what the gateway holds of each response is a buffer, whatever its size, and requests beside them are served.
#[test]
fn many_slow_readers_hold_bounded_memory_each() {
    const CONNECTIONS: usize = 4;
    const STREAMS: usize = 90;
    const EACH: u64 = 96 * 1024;
    let blocked = Arc::new(AtomicU64::new(0));
    let counts = blocked.clone();
    let upstream = Upstream::start(move |conn, request| {
        if request.head.target() != "/large" {
            return conn.respond(200, &[], "x");
        }
        conn.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
        conn.write_until_blocked(1_000_000_000, Duration::from_millis(300))?;
        counts.fetch_add(1, Ordering::Relaxed);
        conn.stall()
    });
    let weir = gateway(&upstream);
    let mut other = Client::connect(weir.addr());
    assert_eq!(other.fetch("/").status, 200);
    let before = weir.usage().resident_bytes;
    let mut slow: Vec<Client> = (0..CONNECTIONS)
        .map(|_| {
            // SETTINGS_INITIAL_WINDOW_SIZE 0.
            let mut client = Client::connect_with(weir.addr(), &[(4, 0)]);
            let streams: Vec<u32> = (0..STREAMS).map(|_| client.get("/large")).collect();
            client.until("the heads", |client| {
                streams.iter().all(|stream| client.streams.get(stream).is_some_and(|response| response.status == 200))
            });
            client
        })
        .collect();
    wait::until(DEADLINE, "every upstream to be blocked", || {
        blocked.load(Ordering::Relaxed) == (CONNECTIONS * STREAMS) as u64
    });
    for _ in 0..10 {
        assert_eq!(other.fetch("/").status, 200);
    }
    let grown = weir.usage().resident_bytes.saturating_sub(before);
    let most = (CONNECTIONS * STREAMS) as u64 * EACH;
    assert!(grown <= most, "{grown} bytes for {} streams", CONNECTIONS * STREAMS);
    // Nobody got a byte that the window did not allow, and nobody is cut off.
    for client in &mut slow {
        client.read(Duration::from_millis(10));
        assert!(client.streams.values().all(|response| response.body.is_empty() && response.reset.is_none()));
    }
}
