//! Life of the process: start, reload, drain, take-over, and how connections are distributed to workers.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use testkit::{Gate, Signal, Upstream, Weir, WireError, responder, wait};

const DEADLINE: Duration = Duration::from_secs(20);

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_weir")
}

fn yaml(top: &str, body: &str) -> String {
    format!(
        "listen: [127.0.0.1:0]\n{top}\nroutes:\n  - match: {{path: /*}}\n    respond: {{status: 200, body: {body}}}\n"
    )
}

#[test]
fn a_second_instance_on_the_port_is_refused_with_69() {
    let weir = Weir::builder(program()).config(yaml("", "one")).start();
    let config = yaml("", "two").replace("127.0.0.1:0", &weir.addr().to_string());
    let second = Weir::builder(program()).config(config).run();
    assert_eq!(second.code, Some(69));
    assert!(second.stderr.contains("another process listens there already"), "{}", second.stderr);
    assert_eq!(weir.get("/").text(), "one");
}

#[test]
fn a_wrong_file_is_refused_with_64_and_its_line() {
    let finished = Weir::builder(program()).config("listen: [127.0.0.1:0]\nroutez: []\n").run();
    assert_eq!(finished.code, Some(64));
    assert!(finished.stderr.contains(":2:1") && finished.stderr.contains("routes"), "{}", finished.stderr);
}

#[test]
fn a_changed_file_takes_effect_and_a_wrong_one_does_not() {
    let weir = Weir::builder(program()).config(yaml("admin: 127.0.0.1:0", "one")).start();
    let mut client = weir.connect();
    assert_eq!(client.get("/").text(), "one");
    weir.rewrite_config(&yaml("admin: 127.0.0.1:0", "two"));
    weir.signal(Signal::HUP);
    wait::until(DEADLINE, "the new answer, on the old connection", || client.get("/").text() == "two");
    weir.rewrite_config("listen: nonsense\n");
    weir.wait_for_line("the refusal in the log", |line| line.contains("last good one stays").then_some(()));
    assert_eq!(client.get("/").text(), "two");
    // Without a signal, by being looked at.
    weir.rewrite_config(&yaml("admin: 127.0.0.1:0", "three"));
    wait::until(DEADLINE, "the file to be looked at", || client.get("/").text() == "three");
}

#[test]
fn a_request_under_way_ends_before_the_process_does() {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("late")));
    let config = format!(
        "listen: [127.0.0.1:0]\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        upstream.url()
    );
    let weir = Weir::builder(program()).config(config).start();
    let mut client = weir.connect();
    client.request("GET", "/", &[], "");
    upstream.wait_for_requests(1);
    weir.signal(Signal::TERM);
    wait::until(DEADLINE, "the listener to close", || testkit::RawClient::try_connect(weir.addr(), None).is_err());
    gate.open();
    let response = client.read_response();
    assert_eq!(response.text(), "late");
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
}

#[test]
fn an_idle_connection_does_not_keep_the_process() {
    let weir = Weir::builder(program()).config(yaml("", "one")).start();
    let mut client = weir.connect();
    assert_eq!(client.get("/").text(), "one");
    weir.signal(Signal::TERM);
    client.expect_closed();
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
}

#[test]
fn a_drain_deadline_ends_what_does_not_end() {
    let upstream = Upstream::start(responder::stall());
    let config = format!(
        "listen: [127.0.0.1:0]\nserver: {{drain: 100ms}}\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        upstream.url()
    );
    let weir = Weir::builder(program()).config(config).start();
    let mut client = weir.connect();
    client.request("GET", "/", &[], "");
    upstream.wait_for_requests(1);
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(0));
}

/// A response of HTTP/1.0 that ends with its connection: what the process cuts must not look like all of it.
#[test]
fn a_response_that_ends_with_its_connection_is_reset_when_the_process_ends_first() {
    for (drain, signals) in
        [("100ms", &[Signal::TERM][..]), ("1h", &[Signal::TERM, Signal::TERM]), ("1h", &[Signal::KILL])]
    {
        let upstream = Upstream::start(|conn, request| {
            let rest = if request.head.start.contains("whole") { "0\r\n\r\n" } else { "" };
            conn.write(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n{rest}").as_bytes())
        });
        let config = format!(
            "listen: [127.0.0.1:0]\nserver: {{drain: {drain}}}\nupstreams: {{u: {{targets: [{}]}}}}\ncaches: {{c: {{mode: ttl}}}}\n\
             routes:\n  - {{match: {{path: /*}}, upstream: u}}\n  - {{match: {{path: /cached/*}}, upstream: u, cache: c}}\n",
            upstream.url()
        );
        let weir = Weir::builder(program()).config(config).start();
        let begin = |path: &str| {
            let mut client = weir.connect();
            client.send(format!("GET {path} HTTP/1.0\r\n\r\n"));
            let (head, _) = client.try_read_head("GET").unwrap();
            assert_eq!(
                (head.status(), head.field("content-length"), head.field("transfer-encoding")),
                (200, None, None)
            );
            assert_eq!(client.read_raw(4), b"part");
            client
        };
        for path in ["/whole", "/cached/whole"] {
            assert_eq!(begin(path).try_read_raw(1), Err(WireError::Closed), "a complete one ends in order: {path}");
        }
        let cut = ["/a", "/cached/b"].map(begin);
        for (index, signal) in signals.iter().enumerate() {
            if index > 0 {
                let is_closed = || testkit::RawClient::try_connect(weir.addr(), None).is_err();
                wait::until(DEADLINE, "the listener to close", is_closed);
            }
            weir.signal(*signal);
        }
        for mut client in cut {
            assert_eq!(client.try_read_raw(1), Err(WireError::Reset), "{signals:?}");
        }
        weir.wait_for_exit(DEADLINE);
    }
}

/// Loads a gateway with connections that are opened anew whenever the gateway closes them, until told to stop; counts failures.
fn hammer(address: std::net::SocketAddr, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<(usize, Vec<String>)> {
    std::thread::spawn(move || {
        let (mut good, mut bad) = (0, Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let mut client = match testkit::RawClient::try_connect(address, None) {
                Ok(client) => client,
                Err(error) => {
                    bad.push(format!("connect: {error}"));
                    continue;
                }
            };
            loop {
                client.request("GET", "/", &[], "");
                match client.try_read_response() {
                    Ok(response) if response.status() == 200 => {
                        good += 1;
                        if response.field("connection") == Some("close") || stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    Ok(response) => bad.push(format!("status {}", response.status())),
                    Err(error) => {
                        bad.push(error.to_string());
                        break;
                    }
                }
            }
        }
        (good, bad)
    })
}

#[test]
fn reloads_and_take_overs_under_load_fail_no_request() {
    let upstream = Upstream::start(responder::ok("hello"));
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("takeover.sock");
    let config = |marker: usize| {
        format!(
            "listen: [127.0.0.1:0]\nworkers: 2\ntakeover: {}\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{name: r{marker}, match: {{path: /*}}, upstream: u}}]\n",
            socket.display(),
            upstream.url()
        )
    };
    let mut running = Weir::builder(program()).config(config(0)).start();
    let address = running.addr();
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4).map(|_| hammer(address, stop.clone())).collect();
    for number in 1..=20 {
        running.rewrite_config(&config(number));
        running.signal(Signal::HUP);
        running.wait_for_line("a reload", |line| line.contains(&format!("route r{number} added")).then_some(()));
    }
    for number in 0..3 {
        let next = Weir::builder(program()).config(config(number)).start();
        assert_eq!(next.addr(), address, "the same sockets");
        assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0), "the old process drains and ends");
        running = next;
    }
    stop.store(true, Ordering::Relaxed);
    let results: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    for (good, bad) in &results {
        assert_eq!(*bad, Vec::<String>::new());
        assert!(*good > 10);
    }
}

#[test]
fn eight_long_connections_are_spread_over_four_workers() {
    let weir = Weir::builder(program()).config(yaml("workers: 4\nadmin: 127.0.0.1:0", "one")).start();
    let mut clients: Vec<_> = (0..8).map(|_| weir.connect()).collect();
    for _ in 0..100 {
        for client in &mut clients {
            assert_eq!(client.get("/").status(), 200);
        }
    }
    let metrics = weir.admin_get("/metrics");
    let served: Vec<u64> = metrics
        .text()
        .lines()
        .filter(|line| line.starts_with("weir_worker_requests_total{") || line.starts_with("worker_requests_total{"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64)
        .collect();
    assert_eq!(served.len(), 4, "{}", metrics.text());
    assert_eq!(served.iter().sum::<u64>(), 800);
    assert!(served.iter().all(|&count| count > 0 && count <= 400), "{served:?}");
}

#[test]
fn a_client_address_has_no_more_connections_than_allowed() {
    let weir =
        Weir::builder(program()).config(yaml("workers: 1\nserver: {max_connections_per_client: 2}", "one")).start();
    let mut held: Vec<_> = (0..2).map(|_| weir.connect()).collect();
    for client in &mut held {
        assert_eq!(client.get("/").status(), 200);
    }
    let mut third = weir.connect();
    let _ = third.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(third.try_read_response().is_err());
    drop(held);
    let good = AtomicUsize::new(0);
    wait::until(DEADLINE, "room for another connection", || {
        let mut client = weir.connect();
        let _ = client.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.try_read_response().is_ok() && good.fetch_add(1, Ordering::Relaxed) == 0
    });
}

#[test]
fn a_trusted_proxy_may_have_the_connections_of_all_its_clients() {
    let weir = Weir::builder(program())
        .config(yaml("workers: 1\ntrusted_proxies: [127.0.0.0/8]\nserver: {max_connections_per_client: 2}", "one"))
        .start();
    let mut held: Vec<_> = (0..10).map(|_| weir.connect()).collect();
    for client in &mut held {
        assert_eq!(client.get("/").status(), 200);
    }
}

#[test]
fn trust_follows_the_configuration_on_open_connections_too() {
    let upstream = Upstream::start(responder::ok("hello"));
    let config = |trusted: &str| {
        format!(
            "listen: [127.0.0.1:0]\nworkers: 1\ntrusted_proxies: [{trusted}]\nupstreams: {{u: {{targets: [{}]}}}}\n\
             routes: [{{match: {{path: /*}}, upstream: u}}]\n",
            upstream.url()
        )
    };
    let weir = Weir::builder(program()).config(config("10.0.0.0/8")).start();
    let mut client = weir.connect();
    let mut forwarded_for = || {
        client.request("GET", "/", &[("X-Forwarded-For", "192.0.2.7")], "");
        assert_eq!(client.read_response().status(), 200);
        let last = upstream.requests().pop().unwrap();
        last.head.field("x-forwarded-for").unwrap().to_owned()
    };
    assert_eq!(forwarded_for(), "127.0.0.1");
    for (trusted, seen) in [("127.0.0.0/8", "192.0.2.7, 127.0.0.1"), ("10.0.0.0/8", "127.0.0.1")] {
        weir.rewrite_config(&config(trusted));
        weir.signal(Signal::HUP);
        wait::until(DEADLINE, "the trust of the new file", || forwarded_for() == seen);
    }
}

/// A gateway with a limit on open files.
fn with_descriptors(limit: usize, config: &str) -> Weir {
    let gateway = Weir::builder("/bin/sh");
    let path = gateway.dir().join("weir.yaml");
    std::fs::write(&path, config).unwrap();
    // The soft limit is lower than the hard one, as on most systems.
    let command = format!("ulimit -Sn 60; ulimit -Hn {limit}; exec {} --config {}", program(), path.display());
    gateway.args(["-c", &command]).start()
}

#[test]
fn more_clients_than_descriptors_are_all_served() {
    let upstream = Upstream::start(responder::ok("hello"));
    let config = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 2\nupstreams: {{u: {{targets: [{}], keep_alive: {{max_idle: 1000}}}}}}\n\
         routes: [{{match: {{path: /*}}, upstream: u}}]\n",
        upstream.url()
    );
    let weir = with_descriptors(200, &config);
    weir.wait_for_line("the bound", |line| line.contains("allows fewer client connections").then_some(()));
    let address = weir.addr();
    // Each keeps its connection open after the response, and there are many more than descriptors.
    let clients: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let mut kept = Vec::new();
                for _ in 0..50 {
                    let mut client = testkit::RawClient::connect(address);
                    assert_eq!(client.get("/").status(), 200);
                    kept.push(client);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let metrics = weir.admin_get("/metrics");
    assert!(!metrics.text().contains("reason=\"resources\""), "{}", metrics.text());
    let shortages = weir.stderr().lines().filter(|line| line.contains("no room for")).count();
    assert!((1..=4).contains(&shortages), "{}", weir.tail());
}

#[test]
fn a_port_that_is_taken_by_another_program_is_refused_too() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = yaml("", "x").replace("127.0.0.1:0", &taken.local_addr().unwrap().to_string());
    assert_eq!(Weir::builder(program()).config(config).run().code, Some(69));
}

#[test]
fn a_standard_output_that_cannot_be_written_ends_nothing() {
    let port = testkit::ports::Port::free().hand_over();
    let weir = Weir::builder("/bin/sh");
    let path = weir.dir().join("weir.yaml");
    let text = format!(
        "listen: [127.0.0.1:{port}]\nadmin: 127.0.0.1:0\nroutes: [{{match: {{path: /*}}, respond: {{body: one}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    let command = format!("exec {} --config {} >/dev/full", program(), path.display());
    let running = testkit::Process::builder("/bin/sh").args(["-c", &command]).start();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    testkit::wait::until(DEADLINE, "the listener", || {
        assert_eq!(running.exit_status(), None, "{}", running.stderr());
        testkit::RawClient::try_connect(address, None).is_ok()
    });
    assert_eq!(testkit::RawClient::connect(address).get("/").text(), "one");
    assert_eq!(running.stop(DEADLINE).code(), Some(0), "{}", running.stderr());
}

/// Waits until the process announces a listener after `mark`; returns its address.
fn announced(weir: &Weir, mark: testkit::Mark) -> std::net::SocketAddr {
    weir.wait_for_line_after(mark, "the listener", DEADLINE, |line| {
        line.strip_prefix("listening on http://")?.parse().ok()
    })
}

#[test]
fn a_reload_opens_new_listeners_and_closes_removed_ones() {
    let text = |listen: &str, body: &str| yaml("workers: 2", body).replace("127.0.0.1:0", listen);
    let weir = Weir::builder(program()).config(text("127.0.0.1:0", "one")).start();
    let first = weir.addr();
    let mut old = weir.connect();
    assert_eq!(old.get("/").text(), "one");

    let mark = weir.mark();
    weir.rewrite_config(&text("127.0.0.1:0, 127.0.0.2:0", "two"));
    weir.signal(Signal::HUP);
    let second = announced(&weir, mark);
    for _ in 0..20 {
        assert_eq!(
            testkit::RawClient::connect(second).get("/").text(),
            "two",
            "a new listener has the new configuration"
        );
        assert_eq!(testkit::RawClient::connect(first).get("/").text(), "two");
    }

    // One of two cannot be opened: nothing changes, the routes neither.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mark = weir.mark();
    let wanted = format!("127.0.0.3:0, {}", taken.local_addr().unwrap());
    weir.rewrite_config(&text(&wanted, "three"));
    weir.signal(Signal::HUP);
    weir.wait_for_line_after(mark, "the refusal", DEADLINE, |line| {
        line.contains("another process listens").then_some(())
    });
    assert!(!weir.lines_after(mark).iter().any(|line| line.starts_with("listening on")));
    assert_eq!(testkit::RawClient::connect(first).get("/").text(), "two");

    // Connections that wait in the queues of the removed listener are served, those that are open get one more response.
    let mut idle: Vec<_> = (0..20).map(|_| testkit::RawClient::connect(first)).collect();
    weir.rewrite_config(&text("127.0.0.2:0", "four"));
    weir.signal(Signal::HUP);
    wait::until(DEADLINE, "the listener to close", || testkit::RawClient::try_connect(first, None).is_err());
    for client in idle.iter_mut().chain([&mut old]) {
        let response = client.get("/");
        assert_eq!((response.text(), response.field("connection")), ("four", Some("close")));
    }
    let response = testkit::RawClient::connect(second).get("/");
    assert_eq!((response.text(), response.field("connection")), ("four", None));
}

/// A worker that ends is a defect that nothing outside can cause, so builds with debug assertions offer a way: the file that
/// `WEIR_DEBUG_PANIC` names, with the number of a worker in it.
#[cfg(debug_assertions)]
#[test]
fn a_worker_that_dies_ends_the_process_with_70_and_loses_nothing_in_silence() {
    const CLIENTS: usize = 24;
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("late")));
    let directory = tempfile::tempdir().unwrap();
    let (dies, log) = (directory.path().join("dies"), directory.path().join("access.log"));
    let config = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 3\naccess_log: {{path: {}}}\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: \
         /*}}, upstream: u}}]\n",
        log.display(),
        upstream.url()
    );
    let weir = Weir::builder(program()).config(config).env("WEIR_DEBUG_PANIC", dies.display().to_string()).start();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| weir.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    upstream.wait_for_requests(CLIENTS);
    std::fs::write(&dies, "1").unwrap();
    let told = weir.wait_for_line("the death", |line| line.contains("a worker panicked").then(|| line.to_owned()));
    weir.wait_for_line("the drain", |line| line.contains("the process drains and ends").then_some(()));
    gate.open();

    let responses: Vec<_> = clients.iter_mut().map(|client| client.try_read_response()).collect();
    let served = responses.iter().flatten().filter(|response| response.text() == "late").count();
    let lost = responses.iter().filter(|response| response.is_err()).count();
    assert_eq!(served + lost, CLIENTS, "whole or broken off: {responses:?}");
    assert!(served >= CLIENTS / 3 && lost >= 1, "{served} served, {lost} lost");
    assert!(told.contains(&format!("connections={lost}")) && told.contains("worker=1"), "{told}: {lost} were lost");

    assert_eq!(weir.wait_for_exit(DEADLINE).code(), Some(70));
    assert!(weir.stderr().contains("worker 1 ended unexpectedly"), "{}", weir.stderr());
    assert!(testkit::RawClient::try_connect(weir.addr(), None).is_err());
    // Each request has its line, those of the dead worker too.
    let logged = std::fs::read_to_string(&log).unwrap();
    let lines = |what: &str| logged.lines().filter(|line| line.contains(what)).count();
    assert_eq!((lines("\"status\":200"), lines("\"reason\":\"panic\"")), (served, lost), "{logged}");
    assert_eq!(logged.lines().count(), CLIENTS);
}

#[test]
fn a_worker_that_cannot_start_ends_the_process_with_71() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weir.yaml");
    std::fs::write(&path, yaml("workers: 4", "one")).unwrap();
    let (mut no_worker, mut serves) = (0, 0);
    // So few descriptors that there are none for the workers, and then enough.
    for descriptors in (8..20).chain((20..72).step_by(4)) {
        let command = format!("ulimit -n {descriptors}; exec {} --config {}", program(), path.display());
        let running = testkit::Process::builder("/bin/sh").args(["-c", &command]).start();
        let is_listening = || running.stdout().contains("listening on") || running.stderr().contains("listening on");
        wait::until(DEADLINE, "a start or its end", || running.exit_status().is_some() || is_listening());
        if let Some(status) = running.exit_status() {
            let said = running.stderr();
            assert_eq!(status.code(), Some(71), "{descriptors}: {said}");
            assert!(said.contains("Too many open files"), "{descriptors}: {said}");
            no_worker += usize::from(said.contains("cannot start a worker"));
            assert_eq!(serves, 0, "{descriptors} descriptors are not enough, fewer were");
        } else {
            serves += 1;
        }
    }
    assert!(no_worker > 0 && serves > 0, "{no_worker} starts without a worker, {serves} served");
}
