//! One fetch for all who miss the same key.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Gate, RawClient, Upstream, responder, wait};

use crate::{DEADLINE, count, gateway, gateway_with, x_cache};

const TTL: &str = "{mode: ttl, ttl: 300s}";

/// Clients that have sent the same request and wait.
fn requesting(weir: &testkit::Weir, many: usize, target: &str, fields: &[(&str, &str)]) -> Vec<RawClient> {
    let get = |_| {
        let mut client = weir.connect();
        client.set_deadline(DEADLINE);
        client.request("GET", target, fields, "");
        client
    };
    (0..many).map(get).collect()
}

#[test]
fn a_thousand_misses_are_one_fetch_and_all_responses_are_equal() {
    let gate = Gate::new();
    let body: Arc<Vec<u8>> = Arc::new((0..100_000u32).flat_map(u32::to_be_bytes).collect());
    let origin = Upstream::start(responder::gated(&gate, responder::ok((*body).clone())));
    let weir = gateway(&origin, TTL);
    let clients = requesting(&weir, 1000, "/same", &[]);
    origin.wait_for_requests(1);
    gate.open();
    let readers = clients.into_iter().map(|mut client| {
        let body = body.clone();
        thread::spawn(move || {
            let response = client.read_response();
            assert_eq!(response.status(), 200);
            assert!(response.body == *body, "{} bytes", response.body.len());
        })
    });
    readers.collect::<Vec<_>>().into_iter().for_each(|reader| reader.join().unwrap());
    assert_eq!(origin.request_count(), 1);
    assert_eq!(count(&weir, "hits") + count(&weir, "misses"), 1000);
}

#[test]
fn those_who_wait_get_each_piece_as_it_comes() {
    let gate = Gate::new();
    let origin = Upstream::start(responder::sse(["one", "two", "three"], &gate));
    let weir = gateway(&origin, TTL);
    let mut clients = requesting(&weir, 1, "/events", &[]);
    gate.release();
    origin.wait_for_requests(1);
    assert_eq!(clients[0].read_head().status(), 200);
    clients.extend(requesting(&weir, 3, "/events", &[]));
    for (index, expected) in ["one", "two", "three"].into_iter().enumerate() {
        if index > 0 {
            gate.release();
        }
        for (number, client) in clients.iter_mut().enumerate() {
            if index == 0 && number > 0 {
                let head = client.read_head();
                assert_eq!(head.field("x-cache"), Some("MISS"));
                assert!(head.field("cache-status").is_some_and(|status| status.contains("collapsed")));
            }
            let piece = client.read_piece().expect("a piece before the next is released");
            assert!(String::from_utf8_lossy(&piece.data).contains(expected), "{number}");
        }
    }
    gate.open();
    assert_eq!(origin.request_count(), 1);
    assert_eq!(count(&weir, "coalesced"), 3);
}

#[test]
fn an_origin_killed_half_way_lets_no_truncated_response_pass_for_whole() {
    let gate = Gate::new();
    let half = {
        let gate = gate.clone();
        move |chunked: bool| -> responder::Responder {
            let gate = gate.clone();
            Box::new(move |conn, _| {
                if chunked {
                    conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")?;
                } else {
                    conn.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")?;
                }
                conn.pass(&gate)?;
                conn.reset()
            })
        }
    };
    for chunked in [false, true] {
        let origin = Upstream::start(responder::in_order([half(chunked), responder::ok("whole")]));
        let weir = gateway(&origin, TTL);
        let mut clients = requesting(&weir, 8, "/", &[]);
        for client in &mut clients {
            assert_eq!(client.read_head().status(), 200);
        }
        gate.release();
        for mut client in clients {
            // The first piece came; the end must not.
            while let Ok(piece) = client.try_read_piece() {
                assert!(piece.is_some(), "a truncated answer passed for whole");
            }
        }
        assert_eq!(origin.request_count(), 1);
        assert_eq!(weir.get("/").text(), "whole", "nothing of it was stored");
    }
}

#[test]
fn a_leader_that_fails_before_its_head_hands_over() {
    let gate = Gate::new();
    let origin =
        Upstream::start(responder::in_order([responder::gated(&gate, responder::close()), responder::ok("whole")]));
    let weir = gateway(&origin, TTL);
    let mut leader = requesting(&weir, 1, "/", &[]).remove(0);
    origin.wait_for_requests(1);
    let followers = requesting(&weir, 8, "/", &[]);
    wait_for_followers(&weir, 8);
    gate.open();
    // Its connection was fresh, so that nobody knows whether the origin has acted on it.
    assert_eq!(leader.read_response().status(), 502);
    for mut client in followers {
        assert_eq!(client.read_response().text(), "whole");
    }
    assert_eq!(origin.request_count(), 2, "one of those who waited asked again, for all");
}

#[test]
fn a_fetch_goes_on_for_others_when_its_client_goes_away() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Upstream::start(move |conn, _| {
            conn.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")?;
            conn.pass(&gate)?;
            conn.write("half")
        })
    };
    let weir = gateway(&origin, TTL);
    let mut leader = requesting(&weir, 1, "/", &[]).remove(0);
    assert_eq!(leader.read_head().status(), 200);
    let mut followers = requesting(&weir, 4, "/", &[]);
    for client in &mut followers {
        assert_eq!(client.read_head().status(), 200);
    }
    leader.reset();
    gate.release();
    for mut client in followers {
        assert_eq!(client.read_body(), b"halfhalf");
    }
    assert_eq!(origin.request_count(), 1);
    assert_eq!(x_cache(&weir.get("/")), Some("HIT"));
}

#[test]
fn a_client_that_goes_away_before_the_head_leaves_the_fetch_to_another() {
    let gate = Gate::new();
    let origin = Upstream::start(responder::gated(&gate, responder::ok("whole")));
    let weir = gateway(&origin, TTL);
    let leader = requesting(&weir, 1, "/", &[]).remove(0);
    origin.wait_for_requests(1);
    let followers = requesting(&weir, 4, "/", &[]);
    wait_for_followers(&weir, 4);
    leader.reset();
    gate.open();
    for mut client in followers {
        assert_eq!(client.read_response().text(), "whole");
    }
    assert!(origin.request_count() <= 2);
}

#[test]
fn a_fetch_that_nobody_waits_for_ends_with_its_client() {
    let origin = Upstream::start(|conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")?;
        conn.stall()
    });
    let weir = gateway(&origin, TTL);
    let mut client = requesting(&weir, 1, "/", &[]).remove(0);
    assert_eq!(client.read_head().status(), 200);
    client.reset();
    wait::until(DEADLINE, "the upstream connection to close", || origin.open() == 0);
}

#[test]
fn what_cannot_be_shared_is_fetched_by_each_and_then_nobody_waits() {
    let gate = Gate::new();
    let private: responder::Responder = Box::new(|conn, _| conn.respond(200, &[("Cache-Control", "private")], "mine"));
    let origin = Upstream::start(responder::gated(&gate, private));
    let weir = gateway(&origin, TTL);
    let mut clients = requesting(&weir, 1, "/", &[]);
    origin.wait_for_requests(1);
    clients.extend(requesting(&weir, 5, "/", &[]));
    wait_for_followers(&weir, 5);
    assert_eq!(origin.request_count(), 1);
    gate.release();
    // The head of the first response makes the others fetch for themselves, and they do not wait for one another.
    origin.wait_for_requests(6);
    gate.open();
    for mut client in clients {
        assert_eq!(client.read_response().text(), "mine");
    }
    assert_eq!((count(&weir, "hits"), count(&weir, "entries")), (0, 1));
}

/// What refuses one client's request says nothing of the next one: the key is fetched once for all others, as before.
#[test]
fn a_refusal_of_one_client_ends_no_sharing() {
    let gate = Gate::new();
    let gated = gate.clone();
    let origin = Upstream::start(move |conn, request| match request.head.field("x-want") {
        Some(status) => conn.respond(status.parse().unwrap(), &[("Cache-Control", "no-store")], "refused"),
        None => {
            gated.pass(DEADLINE);
            conn.respond(200, &[], "for all")
        }
    });
    let weir = gateway(&origin, TTL);
    for (index, status) in ["400", "403", "405", "406", "416", "429", "431"].into_iter().enumerate() {
        let path = format!("/{index}");
        let refused = weir.request("GET", &path, &[("X-Want", status)], "");
        assert_eq!(refused.status().to_string(), status);
        let before = origin.request_count();
        let mut clients = requesting(&weir, 1, &path, &[]);
        origin.wait_for_requests(before + 1);
        clients.extend(requesting(&weir, 5, &path, &[]));
        wait_for_followers(&weir, 5);
        gate.release();
        for mut client in clients {
            assert_eq!(client.read_response().text(), "for all");
        }
        assert_eq!(origin.request_count(), before + 1, "after {status}");
    }
}

#[test]
fn requests_after_a_change_do_not_wait_for_a_fetch_that_began_before_it() {
    let gate = Gate::new();
    let old = responder::gated(&gate, responder::ok("old"));
    let origin = Upstream::start(responder::in_order([old, responder::ok("changed"), responder::ok("new")]));
    let weir = gateway(&origin, TTL);
    let mut early = requesting(&weir, 1, "/", &[]).remove(0);
    origin.wait_for_requests(1);
    assert_eq!(weir.request("PUT", "/", &[], "new").text(), "changed");
    assert_eq!(weir.get("/").text(), "new");
    gate.open();
    assert_eq!(early.read_response().text(), "old");
    assert_eq!(weir.get("/").text(), "new", "the old answer is not used when it is here");
}

#[test]
fn partitions_never_share_a_fetch() {
    let gate = Gate::new();
    let echo: responder::Responder = Box::new(|conn, request| {
        let tenant = request.head.field("authorization").unwrap_or("nobody").to_owned();
        conn.respond(200, &[], tenant)
    });
    let origin = Upstream::start(responder::gated(&gate, echo));
    let weir = gateway_with(&origin, "{mode: ttl, partition_by: ['header:Authorization']}", "", "");
    let tenants: Vec<String> = (0..10).map(|tenant| format!("Bearer {tenant}")).collect();
    let mut clients: Vec<(String, RawClient)> = Vec::new();
    for tenant in tenants.iter().chain(&tenants) {
        let client = requesting(&weir, 1, "/", &[("Authorization", tenant)]).remove(0);
        clients.push((tenant.clone(), client));
    }
    origin.wait_for_requests(10);
    gate.open();
    for (tenant, mut client) in clients {
        assert_eq!(client.read_response().text(), tenant);
    }
    assert_eq!(origin.request_count(), 10);
}

#[test]
fn a_slow_client_holds_up_nobody() {
    let body = vec![b'x'; 900_000];
    let origin = Upstream::start(responder::ok(body.clone()));
    let weir = gateway(&origin, TTL);
    // Sends a request, and reads nothing: more than the sockets hold waits for it.
    let slow = requesting(&weir, 1, "/", &[]).remove(0);
    origin.wait_for_requests(1);
    for _ in 0..3 {
        assert!(weir.get("/").body == body);
    }
    assert_eq!(origin.request_count(), 1);
    drop(slow);
}

#[test]
fn a_response_too_large_to_keep_still_reaches_all_who_waited_for_it_whole() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Upstream::start(move |conn, _| {
            conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nstart\r\n")?;
            conn.pass(&gate)?;
            for _ in 0..200 {
                conn.write_chunk([b'x'; 10_000])?;
            }
            conn.write("0\r\n\r\n")
        })
    };
    let weir = gateway(&origin, "{mode: ttl, max_body: 64KiB}");
    let mut clients = requesting(&weir, 1, "/", &[]);
    assert_eq!(clients[0].read_head().status(), 200);
    let mut others = requesting(&weir, 5, "/", &[]);
    for client in &mut others {
        assert_eq!(client.read_head().status(), 200);
    }
    clients.extend(others);
    gate.open();
    let readers = clients.into_iter().map(|mut client| thread::spawn(move || client.read_body().len()));
    for reader in readers.collect::<Vec<_>>() {
        assert_eq!(reader.join().unwrap(), 2_000_005);
    }
    assert_eq!(origin.request_count(), 1);
    assert_eq!(count(&weir, "hits"), 0);
}

/// A client that reads nothing of a body that is only passed on costs the others a bounded time, and its own response is cut off: what it has
/// must not pass for whole. Whether it leads or follows.
#[test]
fn a_client_that_does_not_read_a_body_too_large_to_store_does_not_stop_the_others() {
    const PIECES: usize = 800;
    for slow_leads in [true, false] {
        let gate = Gate::new();
        let origin = {
            let gate = gate.clone();
            Upstream::start(move |conn, _| {
                conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nstart\r\n")?;
                conn.pass(&gate)?;
                for _ in 0..PIECES {
                    conn.write_chunk([b'x'; 50_000])?;
                }
                conn.write("0\r\n\r\n")
            })
        };
        let weir = gateway(&origin, "{mode: ttl, max_body: 64KiB}");
        let mut leader = requesting(&weir, 1, "/", &[]).remove(0);
        assert_eq!(leader.read_head().status(), 200);
        let mut follower = requesting(&weir, 1, "/", &[]).remove(0);
        assert_eq!(follower.read_head().status(), 200);
        let (mut slow, mut fast) = if slow_leads { (leader, follower) } else { (follower, leader) };
        gate.open();
        assert_eq!(fast.read_body().len(), 5 + PIECES * 50_000);
        while let Ok(piece) = slow.try_read_piece() {
            assert!(piece.is_some(), "a response that was cut off passed for whole");
        }
        assert_eq!(origin.request_count(), 1);
    }
}

/// An upstream that sends single bytes.
#[test]
fn a_body_in_single_bytes_reaches_all_and_is_stored() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Upstream::start(move |conn, _| {
            conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")?;
            conn.pass(&gate)?;
            for number in 1..5_000_usize {
                conn.write_chunk([b'a' + (number % 26) as u8])?;
            }
            conn.write("0\r\n\r\n")
        })
    };
    let expected: Vec<u8> = (0..5_000_usize).map(|number| b'a' + (number % 26) as u8).collect();
    let weir = gateway(&origin, TTL);
    let mut clients = requesting(&weir, 1, "/", &[]);
    assert_eq!(clients[0].read_head().status(), 200);
    clients.extend(requesting(&weir, 3, "/", &[]));
    for client in &mut clients[1..] {
        assert_eq!(client.read_head().status(), 200);
    }
    gate.open();
    for client in &mut clients {
        assert!(client.read_body() == expected);
    }
    assert!(weir.get("/").body == expected);
    assert_eq!(origin.request_count(), 1);
}

/// An origin that fails does not get all who wait at once, nor those who come later; one that is back serves them with the second fetch.
#[test]
fn an_error_of_the_origin_is_not_fetched_by_each_who_waits() {
    for (recovers, status) in [(false, 500), (false, 503), (true, 502), (true, 504)] {
        let gate = Gate::new();
        let number = std::sync::atomic::AtomicUsize::new(0);
        let origin = {
            let gate = gate.clone();
            Upstream::start(move |conn, _| {
                let is_first = number.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
                conn.pass(&gate)?;
                let status = if recovers && !is_first { 200 } else { status };
                conn.respond(status, &[], "body")
            })
        };
        // One worker: all who waited for the first fetch have joined the second before that can end.
        let weir = one_worker(&origin, "none");
        for wave in 1..=2 {
            let before = origin.request_count();
            let mut leader = requesting(&weir, 1, "/", &[]).remove(0);
            if recovers && wave == 2 {
                assert_eq!(leader.read_response().status(), 200);
                continue;
            }
            origin.wait_for_requests(before + 1);
            let followers = requesting(&weir, 100, "/", &[]);
            wait_for_followers(&weir, 100);
            gate.release();
            assert_eq!(leader.read_response().status(), status);
            origin.wait_for_requests(before + 2);
            wait_for_followers(&weir, 99);
            gate.release();
            let mut statuses: Vec<u16> =
                followers.into_iter().map(|mut client| client.read_response().status()).collect();
            statuses.sort_unstable();
            if recovers {
                assert_eq!(statuses, [200; 100]);
            } else {
                // One of them led the second fetch, and has the origin's own response.
                assert_eq!(
                    statuses.iter().filter(|other| **other == 503).count(),
                    if status == 503 { 100 } else { 99 }
                );
                assert!(statuses.contains(&status));
            }
            assert_eq!(origin.request_count(), before + 2, "wave {wave}");
        }
    }
}

/// A gateway with one worker, so that those who wait get their turn in the order in which they came. Its upstream has a timeout.
fn one_worker(origin: &Upstream, total: &str) -> testkit::Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout, sample: 100%}}\nupstreams:\n  u:\n    \
         targets: [{}]\n    retry: {{extra_attempts: 0}}\n    timeouts: {{total: {total}}}\ncaches:\n  c: {TTL}\n\
         routes:\n  - match: {{path: /*}}\n    upstream: u\n    cache: c\n",
        origin.url()
    );
    testkit::Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

#[test]
fn a_waiter_of_several_failed_fetches_fetches_itself() {
    let gate = Gate::new();
    let origin = Upstream::start(responder::gated(&gate, responder::ok("whole")));
    let weir = one_worker(&origin, "none");
    let mut clients = requesting(&weir, 1, "/", &[]);
    origin.wait_for_requests(1);
    for number in 1..=5 {
        clients.extend(requesting(&weir, 1, "/", &[]));
        wait_for_followers(&weir, number);
    }
    for round in 1..=3 {
        clients.remove(0).reset();
        // The next of them leads.
        origin.wait_for_requests(round + 1);
        wait_for_followers(&weir, if round < 3 { 5 - round } else { 0 });
    }
    origin.wait_for_requests(6);
    gate.open();
    for mut client in clients {
        assert_eq!(client.read_response().text(), "whole");
    }
    assert_eq!(origin.request_count(), 6);
}

#[test]
fn a_waiter_has_the_timeout_of_a_request() {
    let origin = Upstream::start(responder::stall());
    let weir = one_worker(&origin, "1s");
    let get = |name: &str| requesting(&weir, 1, "/", &[("User-Agent", name)]).remove(0);
    let first = get("first");
    origin.wait_for_requests(1);
    // This one keeps a place in front for the one that comes late.
    let place = get("place");
    wait_for_followers(&weir, 1);
    let mut waiting = get("waiting");
    wait_for_followers(&weir, 2);
    place.reset();
    wait_for_followers(&weir, 1);
    let since = Instant::now();
    wait::until(DEADLINE, "time that deadlines can tell apart", || since.elapsed() > Duration::from_millis(100));
    let mut late = get("late");
    wait_for_followers(&weir, 2);
    first.reset();
    origin.wait_for_requests(2);
    assert_eq!((waiting.read_response().status(), late.read_response().status()), (504, 504));
    let log = wait::some(DEADLINE, "the log", || Some(weir.stdout()).filter(|log| log.contains("late")));
    let place_of =
        |name: &str| log.find(&format!("\"user_agent\":\"{name}\"")).unwrap_or_else(|| panic!("no {name} in {log}"));
    assert!(place_of("waiting") < place_of("late"), "{log}");
}

/// Waits until so many requests wait for the fetch of another.
pub(crate) fn wait_for_followers(weir: &testkit::Weir, many: usize) {
    wait::until(DEADLINE, "followers", || {
        let metrics = weir.admin_get("/metrics");
        metrics.text().lines().any(|line| line == format!("cache_waiting{{cache=\"c\"}} {many}"))
    });
}
