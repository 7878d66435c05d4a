//! What happens to a request when a target, or a whole upstream, fails, is slow or is full.

use testkit::{BlackHole, DEADLINE, Gate, RawClient, Upstream, Weir, responder, wait};

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_weir")
}

/// A gateway with one upstream `u` of these targets, and a second, `v`, that replaces it if it has targets.
fn gateway(u: &[&Upstream], options: &str, v: &[&Upstream]) -> Weir {
    let targets =
        |list: &[&Upstream]| list.iter().map(|upstream| format!("'{}'", upstream.url())).collect::<Vec<_>>().join(", ");
    let (second, fallback) = match v {
        [] => (String::new(), ""),
        v => (format!("  v: {{targets: [{}]}}\n", targets(v)), ", fallback: [v]"),
    };
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\nupstreams:\n  u:\n    targets: [{}]\n{options}{second}routes:\n  - {{match: {{path: /*}}, upstream: u{fallback}}}\n",
        targets(u)
    );
    Weir::builder(program()).config(config).start()
}

fn statuses(weir: &Weir, count: usize) -> Vec<u16> {
    let mut client = weir.connect();
    (0..count).map(|_| client.get("/").status()).collect()
}

#[test]
fn a_target_that_refuses_costs_no_request_and_is_soon_left_alone() {
    let (dead, live) = (Upstream::start(responder::ok("x")), Upstream::start(responder::ok("live")));
    dead.stop();
    let weir = gateway(&[&dead, &live], "    balance: round_robin\n    eject: {after: 2, for: 60s, max: 50%}\n", &[]);
    assert_eq!(statuses(&weir, 50), [200; 50]);
    let shown = weir.admin_get("/upstreams").text().to_owned();
    assert!(shown.contains("ejected"), "{shown}");
    // A body that was not sent is no obstacle.
    assert_eq!(weir.request("POST", "/", &[], "a body").status(), 200);
}

#[test]
fn a_request_that_may_have_been_acted_on_is_not_sent_again() {
    let (one, two) = (Upstream::start(responder::reset()), Upstream::start(responder::reset()));
    let weir = gateway(&[&one, &two], "    eject: none\n", &[]);
    assert_eq!(weir.request("POST", "/", &[], "order").status(), 502);
    assert_eq!(one.requests().len() + two.requests().len(), 1, "a POST is sent once");
    assert_eq!(weir.get("/").status(), 502);
    assert_eq!(
        one.requests().len() + two.requests().len(),
        3,
        "a GET is sent to the other target too, and no more often"
    );
}

#[test]
fn a_status_is_retried_only_where_the_file_says_so() {
    let (bad, good) = (Upstream::start(responder::status(503)), Upstream::start(responder::ok("x")));
    let options = "    balance: round_robin\n    eject: none\n";
    let plain = gateway(&[&bad, &good], options, &[]);
    assert!(statuses(&plain, 4).contains(&503));
    let retry = "    retry: {extra_attempts: 1, budget: 100%, on: [connect, reset, 503]}\n";
    let retrying = gateway(&[&bad, &good], &format!("{options}{retry}"), &[]);
    assert_eq!(statuses(&retrying, 8), [200; 8]);
    good.set_responder(responder::status(503));
    let response = retrying.get("/");
    assert_eq!((response.status(), response.text()), (503, "status 503"), "the last answer is the client's");
}

#[test]
fn a_try_that_takes_too_long_goes_to_another_target() {
    let (slow, quick) = (Upstream::start(responder::stall()), Upstream::start(responder::ok("x")));
    let options = "    balance: round_robin\n    timeouts: {try: 50ms}\n    retry: {budget: 100%}\n    eject: none\n";
    let weir = gateway(&[&slow, &quick], options, &[]);
    assert_eq!(statuses(&weir, 6), [200; 6]);
    assert!(!slow.requests().is_empty());
}

#[test]
fn a_connect_that_takes_too_long_goes_to_another_target() {
    let (hole, live) = (BlackHole::open(), Upstream::start(responder::ok("x")));
    let config = format!(
        "listen: 127.0.0.1:0\nupstreams:\n  u:\n    targets: ['http://{}', {}]\n    balance: round_robin\n    timeouts: {{connect: 50ms}}\n    retry: {{budget: 100%}}\n    eject: none\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        hole.address(),
        live.url()
    );
    let weir = Weir::builder(program()).config(config).start();
    assert_eq!(statuses(&weir, 4), [200; 4]);
}

#[test]
fn a_target_that_fails_its_health_check_gets_nothing_until_it_passes_again() {
    let (sick, well) = (Upstream::start(responder::ok("sick")), Upstream::start(responder::ok("well")));
    let health = "    balance: round_robin\n    health: {path: /healthz, interval: 20ms, timeout: 2s, healthy_after: 1, unhealthy_after: 1}\n    eject: none\n";
    let weir = gateway(&[&sick, &well], health, &[]);
    let served_by = |name: &str, count: usize| {
        let mut client = weir.connect();
        (0..count).filter(|_| client.get("/").text() == name).count()
    };
    wait::until(DEADLINE, "both serve", || served_by("sick", 4) > 0);
    sick.set_responder(|conn, request| {
        let status = if request.head.target() == "/healthz" { 500 } else { 200 };
        conn.respond(status, &[], "sick")
    });
    wait::until(DEADLINE, "the sick target is left out", || served_by("sick", 8) == 0);
    assert_eq!(served_by("well", 20), 20);
    sick.set_responder(responder::ok("sick"));
    wait::until(DEADLINE, "it is back", || served_by("sick", 4) > 0);
}

#[test]
fn another_upstream_stands_in_and_says_so() {
    let (primary, second) = (Upstream::start(responder::ok("primary")), Upstream::start(responder::ok("second")));
    let weir = gateway(&[&primary], "    eject: none\n", &[&second]);
    let response = weir.get("/");
    assert_eq!((response.text(), response.field("x-fallback")), ("primary", None));
    primary.stop();
    let response = weir.request("POST", "/", &[], "a body");
    assert_eq!((response.text(), response.field("x-fallback")), ("second", Some("v")));
    // What may have been acted on is not given to another upstream either.
    primary.restart();
    primary.set_responder(responder::reset());
    assert_eq!(weir.request("POST", "/", &[], "order").status(), 502);
    assert_eq!(second.requests().len(), 1);
}

#[test]
fn a_full_target_has_a_queue_with_an_end() {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("x")));
    let weir = gateway(&[&upstream], "    max_in_flight: 1\n    queue: {size: 1, timeout: 60s}\n", &[]);
    let send = || {
        let mut client = weir.connect();
        client.request("GET", "/", &[], "");
        client
    };
    let mut first = send();
    wait::until(DEADLINE, "the first is with the upstream", || upstream.requests().len() == 1);
    let mut second = send();
    wait::until(DEADLINE, "the second waits", || metric(&weir, "upstream_queue_waiting{") == Some(1.0));
    let refused = weir.get("/");
    assert_eq!(refused.status(), 503);
    assert!(refused.field("retry-after").is_some());
    assert!(refused.text().contains("queue_full"), "{}", refused.text());
    gate.open();
    assert_eq!((first.read_response().status(), second.read_response().status()), (200, 200));
}

#[test]
fn waiting_ends_with_the_queues_timeout_or_the_exchanges() {
    for (options, status, reason) in [
        ("    queue: {size: 9, timeout: 30ms}\n", 503, "queue_timeout"),
        ("    queue: {size: 9, timeout: 60s}\n    timeouts: {total: 100ms}\n", 504, "total_timeout"),
    ] {
        let gate = Gate::new();
        let upstream = Upstream::start(responder::gated(&gate, responder::ok("x")));
        let weir = gateway(&[&upstream], &format!("    max_in_flight: 1\n{options}"), &[]);
        let mut first = weir.connect();
        first.request("GET", "/", &[], "");
        wait::until(DEADLINE, "the first is with the upstream", || upstream.requests().len() == 1);
        let response = weir.get("/");
        assert_eq!(response.status(), status);
        assert!(response.text().contains(reason), "{}", response.text());
        gate.open();
    }
}

#[test]
fn a_breaker_spares_an_upstream_that_fails() {
    let upstream = Upstream::start(responder::status(503));
    let options = "    eject: none\n    breaker: {failures: 50%, of_last: 10, open_for: 60s}\n";
    let weir = gateway(&[&upstream], options, &[]);
    let seen = statuses(&weir, 40);
    assert_eq!(seen[39], 503, "{seen:?}");
    let requested = upstream.requests().len();
    assert!((5..=11).contains(&requested), "asked {requested} times");
    assert!(weir.get("/").text().contains("unavailable"));
    assert_eq!(upstream.requests().len(), requested);
}

#[test]
fn targets_may_have_ipv6_addresses_and_unix_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let six = Upstream::builder().ipv6().start(responder::ok("six"));
    let unix = Upstream::builder().unix(directory.path().join("service.sock")).start(responder::ok("unix"));
    let weir = gateway(&[&six, &unix], "    balance: round_robin\n", &[]);
    let mut client = weir.connect();
    let mut seen: Vec<String> = (0..4).map(|_| client.get("/").text().to_owned()).collect();
    seen.sort();
    assert_eq!(seen, ["six", "six", "unix", "unix"]);
}

#[test]
fn weights_share_and_a_hash_holds() {
    let (one, three) = (Upstream::start(responder::ok("1")), Upstream::start(responder::ok("3")));
    let config = |balance: &str| {
        format!(
            "listen: 127.0.0.1:0\nworkers: 1\nupstreams:\n  u:\n    targets: [{}, {{url: '{}', weight: 3}}]\n    balance: {balance}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
            one.url(),
            three.url()
        )
    };
    let weir = Weir::builder(program()).config(config("round_robin")).start();
    statuses(&weir, 40);
    assert_eq!((one.requests().len(), three.requests().len()), (10, 30));

    let weir = Weir::builder(program()).config(config("{hash: 'header:X-Session'}")).start();
    let mut client = weir.connect();
    for session in ["a", "b", "c", "d", "e"] {
        let mut get = || client.exchange(session);
        let first = get();
        assert!((0..5).all(|_| get() == first), "session {session} stays where it is");
    }
}

trait Exchange {
    fn exchange(&mut self, session: &str) -> String;
}

impl Exchange for RawClient {
    fn exchange(&mut self, session: &str) -> String {
        self.request("GET", "/", &[("X-Session", session)], "");
        self.read_response().text().to_owned()
    }
}

#[test]
fn slow_heads_and_bodies_are_refused_with_408() {
    let upstream = Upstream::start(responder::ok("x"));
    let config = format!(
        "listen: 127.0.0.1:0\nserver: {{head_timeout: 100ms, body_idle_timeout: 100ms}}\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        upstream.url()
    );
    let weir = Weir::builder(program()).config(config).start();
    for begun in ["GET / HTTP/1.1\r\nHos", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf"] {
        let mut client = weir.connect();
        client.send(begun);
        assert_eq!(client.read_response().status(), 408, "{begun:?}");
        client.expect_closed();
    }
    // A connection that never says anything is closed without a word.
    let mut silent = weir.connect();
    silent.expect_closed();
}

fn metric(weir: &Weir, name: &str) -> Option<f64> {
    let text = weir.admin_get("/metrics").text().to_owned();
    text.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next()?.parse().ok())
}

/// The place of a client that has disconnected goes to others, and its request to no target.
#[test]
fn who_disconnects_in_the_queue_is_not_served() {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("x")));
    let weir = gateway(&[&upstream], "    max_in_flight: 1\n    queue: {size: 10, timeout: 60s}\n", &[]);
    let mut held = weir.connect();
    held.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    upstream.wait_for_requests(1);
    let are_waiting = |count: u32| weir.admin_get("/upstreams").text().contains(&format!("\"waiting\":{count},"));
    for request in ["GET / HTTP/1.1\r\nHost: h\r\n\r\n", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"]
    {
        let mut waiting = weir.connect();
        waiting.send(request);
        wait::until(DEADLINE, "it waits", || are_waiting(1));
        drop(waiting);
        wait::until(DEADLINE, "it has left the queue", || are_waiting(0));
    }
    gate.open();
    assert_eq!(held.read_response().status(), 200);
    assert_eq!(upstream.request_count(), 1);
}
