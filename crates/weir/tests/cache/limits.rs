//! The store's bounds hold, whatever comes.

use std::thread;

use testkit::{Upstream, wait};

use crate::{DEADLINE, count, gateway};

#[test]
fn bodies_of_a_mebibyte_past_the_cap_many_times_never_block_or_exceed_it() {
    let origin = Upstream::start(|conn, _| {
        conn.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 1 << 20))?;
        conn.write_pattern(1 << 20)
    });
    let weir = gateway(&origin, "{mode: ttl, max_bytes: 16MiB, max_body: 1MiB}");
    let before = weir.usage().peak_resident_bytes;
    let clients = (0..4).map(|client| {
        let addr = weir.addr();
        thread::spawn(move || {
            let mut raw = testkit::RawClient::connect(addr);
            for number in 0..60 {
                raw.request("GET", &format!("/{client}/{number}"), &[], "");
                assert_eq!(raw.read_head().status(), 200);
                let checker = raw.try_read_pattern().unwrap();
                assert_eq!((checker.bytes, checker.wrong_at), (1 << 20, None));
            }
        })
    });
    clients.collect::<Vec<_>>().into_iter().for_each(|client| client.join().unwrap());
    assert!(count(&weir, "bytes") <= 16 << 20);
    assert!(count(&weir, "evictions") > 200);
    let peak = weir.usage().peak_resident_bytes - before;
    assert!(peak < (16 << 20) * 2 + (32 << 20), "{peak} bytes");
}

#[test]
fn the_cap_of_entries_reached_many_times_over_holds_and_blocks_nobody() {
    let origin = Upstream::start(testkit::responder::ok("small"));
    let weir = gateway(&origin, "{mode: ttl, max_entries: 200}");
    let clients = (0..4).map(|client| {
        let addr = weir.addr();
        thread::spawn(move || {
            let mut raw = testkit::RawClient::connect(addr);
            for number in 0..1000 {
                assert_eq!(raw.get(&format!("/{client}/{number}")).text(), "small");
            }
        })
    });
    clients.collect::<Vec<_>>().into_iter().for_each(|client| client.join().unwrap());
    assert!(count(&weir, "entries") <= 200);
    assert!(count(&weir, "entries") > 100, "the store is used");
    assert_eq!(origin.request_count(), 4000);
}

#[test]
fn what_is_requested_again_and_again_survives_a_scan() {
    let origin = Upstream::start(testkit::responder::ok("small"));
    let weir = gateway(&origin, "{mode: ttl, max_entries: 400}");
    let mut client = weir.connect();
    for _ in 0..3 {
        for number in 0..20 {
            client.get(&format!("/hot/{number}"));
        }
    }
    for number in 0..2000 {
        client.get(&format!("/scan/{number}"));
    }
    let before = origin.request_count();
    for number in 0..20 {
        client.get(&format!("/hot/{number}"));
    }
    assert!(origin.request_count() - before <= 2, "the scan washed out what is in use");
}

#[test]
fn fetches_that_are_under_way_are_bounded_too() {
    let gate = testkit::Gate::new();
    let origin = {
        let gate = gate.clone();
        Upstream::start(move |conn, _| {
            conn.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 1 << 20))?;
            conn.write_pattern(900_000)?;
            conn.pass(&gate)?;
            conn.stall()
        })
    };
    let weir = gateway(&origin, "{mode: ttl, max_bytes: 16MiB, max_body: 1MiB}");
    let before = weir.usage().peak_resident_bytes;
    let mut clients = Vec::new();
    for number in 0..64 {
        let mut client = weir.connect();
        client.request("GET", &format!("/{number}"), &[], "");
        assert_eq!(client.read_head().status(), 200);
        clients.push(client);
    }
    wait::until(DEADLINE, "all to be asked for", || origin.request_count() == 64);
    // Sixty-four unfinished bodies would be 60 MB; what is over the budget only passes through.
    let peak = weir.usage().peak_resident_bytes - before;
    assert!(peak < 48 << 20, "{peak} bytes");
    gate.open();
}
