//! One configuration with every option in use.

use std::path::Path;

use testkit::{Redis, Signal, Upstream, answer};

use super::load::{Load, Request};
use super::{DEADLINE, File, reload, take_over};

/// How often, unless the environment says otherwise: WEIR_TEST_RELOADS=100 WEIR_TEST_TAKEOVERS=20.
fn count(name: &str, default: usize) -> usize {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// A host name that was not used before: capital letters make no difference to the hosts file, but to what is known already.
fn localhost(number: usize) -> String {
    let capital = |(bit, letter): (usize, char)| {
        if number >> bit & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
    };
    "localhost".chars().enumerate().map(capital).collect()
}

fn config(directory: &Path, redis: &Redis, upstreams: &[Upstream; 2], number: usize) -> String {
    let ports = upstreams.each_ref().map(|upstream| upstream.socket_addr().port());
    let (host, other) = (localhost(2 * number), localhost(2 * number + 1));
    format!(
        "listen: [127.0.0.1:0, 127.0.0.2:0]\n\
         admin: 127.0.0.1:0\n\
         takeover: {directory}/takeover.sock\n\
         workers: {workers}\n\
         trusted_proxies: [10.{network}.0.0/16]\n\
         access_log: {{path: {directory}/access.log}}\n\
         redis: {{url: {redis}}}\n\
         server: {{drain: 60s, max_connections_per_client: 1000}}\n\
         upstreams:\n\
         \x20 same:\n\
         \x20   targets: [http://{host}:{a}, http://127.0.0.1:{b}]\n\
         \x20   health: {{path: /healthz, interval: 50ms}}\n\
         \x20   breaker: {{failures: 50%, of_last: 20, open_for: 1s}}\n\
         \x20   queue: {{size: 100, timeout: 10s}}\n\
         \x20   max_in_flight: 100\n\
         \x20 new-{number}:\n\
         \x20   targets: [http://{other}:{b}]\n\
         \x20   health: {{path: /healthz, interval: 50ms}}\n\
         limits:\n\
         \x20 bucket: {{rate: 1000000/s, burst: 1000000}}\n\
         \x20 window: {{algorithm: fixed_window, key: client_ip, quota: 1000000000, window: 1h, store: redis}}\n\
         caches:\n\
         \x20 pages: {{mode: ttl, ttl: 100ms, store: [memory, redis]}}\n\
         defaults: {{limits: [bucket, window]}}\n\
         routes:\n\
         \x20 - {{name: health, match: {{path: /healthz}}, limits: [], respond: {{builtin: healthz}}}}\n\
         \x20 - {{name: cached, match: {{path: /cached/*}}, upstream: same, cache: pages}}\n\
         \x20 - {{name: new-{number}, match: {{path: /new/*}}, upstream: new-{number}, fallback: [same]}}\n\
         \x20 - {{name: all, match: {{path: /*}}, upstream: same}}\n",
        directory = directory.display(),
        workers = 1 + number % 3,
        network = number % 250,
        redis = redis.url(),
        a = ports[0],
        b = ports[1],
    )
}

#[test]
fn reloads_take_overs_and_a_drain_with_everything_in_use_fail_no_request() {
    let redis = Redis::start();
    let upstreams = [Upstream::start(answer::ok("a")), Upstream::start(answer::ok("b"))];
    let directory = tempfile::tempdir().unwrap();
    let mut number = 0;
    let file = File::new(directory.path(), &config(directory.path(), &redis, &upstreams, number));
    let mut running = file.start();
    let addresses = running.addrs(2);
    let (reloads, take_overs) = (count("WEIR_TEST_RELOADS", 10), count("WEIR_TEST_TAKEOVERS", 3));

    let requests = [
        Request::get("/plain"),
        Request::get("/cached/a"),
        Request::post("/new/thing", "{\"a\": 1}"),
        Request::get("/healthz"),
        Request::get("/new/x"),
        Request::post("/plain", &"x".repeat(100_000)),
    ];
    let load = Load::start(&[addresses[0], addresses[1], addresses[0]], &requests, |status| status == 200);
    let each = reloads.div_ceil(take_overs + 1);
    for round in 0..=take_overs {
        for _ in 0..each {
            number += 1;
            file.write(&config(directory.path(), &redis, &upstreams, number));
            reload(&running, &format!("new-{number} added"));
            assert_eq!(running.admin_get("/metrics").status(), 200);
            load.wait_for(10);
        }
        if round < take_overs {
            running = take_over(&file, running);
            assert_eq!(running.admin_get("/healthz").status(), 200);
            load.wait_for(10);
        }
    }
    let good = load.good();
    load.expect_the_end();
    running.signal(Signal::TERM);
    assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0));
    assert_eq!(load.stop(), Vec::<String>::new());
    let logged = std::fs::read_to_string(directory.path().join("access.log")).unwrap();
    assert!(logged.lines().count() >= good, "{good} responses, {} lines in the log", logged.lines().count());
    let is_good = |line: &str| line.contains("\"status\":200") || line.contains("/healthz");
    assert_eq!(logged.lines().find(|line| !is_good(line)), None);
}
