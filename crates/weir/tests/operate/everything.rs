//! One configuration with every option in use.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use testkit::tls::TlsRelay;
use testkit::{Certificates, Redis, Signal, Upstream};
use tls::names::Entry;
use tls::server::{Listener, Options, Tickets};
use tls::{Certificate, Names};

use super::load::{Load, Request, Way};
use super::{DEADLINE, File, reload, take_over, trusting};

/// What the gateway stands between.
struct World {
    redis: Redis,
    upstreams: [Upstream; 2],
    certificates: Certificates,
    /// TLS in front of the first upstream.
    tls: TlsRelay,
}

impl World {
    fn start() -> Self {
        // Long enough to be compressed.
        let start = |letter: &'static str| {
            Upstream::start(move |conn, _| conn.respond(200, &[("Content-Type", "text/plain")], letter.repeat(4096)))
        };
        let upstreams = [start("a"), start("b")];
        let certificates = Certificates::localhost();
        let certificate = Certificate::load(&certificates.certificate(), &certificates.key()).unwrap();
        let entry = Entry { certificate, names: Vec::new(), is_default: true, policy: 0 };
        let options = Options::new(Arc::new(Names::new(vec![entry]).unwrap()));
        let listener = Listener::new(&options, &Tickets::default()).unwrap();
        let tls = TlsRelay::terminate(listener, upstreams[0].socket_addr());
        World { redis: Redis::start(), upstreams, certificates, tls }
    }
}

/// A host name that was not used before: capital letters make no difference to the hosts file, but to what is known already.
fn localhost(number: usize) -> String {
    let capital = |(bit, letter): (usize, char)| {
        if number >> bit & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
    };
    "localhost".chars().enumerate().map(capital).collect()
}

fn config(directory: &Path, world: &World, number: usize) -> String {
    let ports = world.upstreams.each_ref().map(|upstream| upstream.socket_addr().port());
    let (host, other) = (localhost(2 * number), localhost(2 * number + 1));
    format!(
        "listen:\n\
         \x20 - 127.0.0.1:0\n\
         \x20 - 127.0.0.2:0\n\
         \x20 - {{bind: 127.0.0.4:0, proxy_protocol: any}}\n\
         \x20 - {{bind: 127.0.0.5:0, tls: {{certificates: [{{cert: {cert}, key: {key}}}]}}}}\n\
         {third}\
         admin: 127.0.0.1:0\n\
         takeover: {directory}/takeover.sock\n\
         workers: {workers}\n\
         trusted_proxies: [127.0.0.0/8, 10.{network}.0.0/16]\n\
         access_log: {{path: {directory}/access.log}}\n\
         redis: {{url: {redis}}}\n\
         server: {{drain: 60s, max_connections_per_client: 1000, faults: true}}\n\
         upstreams:\n\
         \x20 same:\n\
         \x20   targets: [http://{host}:{a}, http://127.0.0.1:{b}]\n\
         \x20   health: {{path: /healthz, interval: 50ms}}\n\
         \x20   breaker: {{failures: 50%, of_last: 20, open_for: 1s}}\n\
         \x20   balance: {{cookie: target}}\n\
         \x20   queue: {{size: 100, timeout: 10s}}\n\
         \x20   max_in_flight: 100\n\
         \x20 new-{number}:\n\
         \x20   targets: [http://{other}:{b}]\n\
         \x20   health: {{path: /healthz, interval: 50ms}}\n\
         \x20 shadow:\n\
         \x20   targets: [http://127.0.0.1:{b}]\n\
         \x20 secure:\n\
         \x20   targets: [{tls}]\n\
         \x20   tls: {{roots: {roots}}}\n\
         \x20   health: {{path: /healthz, interval: 50ms}}\n\
         limits:\n\
         \x20 bucket: {{rate: 1000000/s, burst: 1000000}}\n\
         \x20 window: {{algorithm: fixed_window, key: client_ip, quota: 1000000000, window: 1h, store: redis}}\n\
         caches:\n\
         \x20 pages: {{mode: ttl, ttl: 100ms, store: [memory, redis]}}\n\
         defaults:\n\
         \x20 limits: [bucket, window]\n\
         \x20 compress: [zstd, br, gzip]\n\
         \x20 errors: {{404: {{file: missing.html, of: upstream}}, 5xx: {{upstream: same}}}}\n\
         routes:\n\
         \x20 - {{name: health, match: {{path: /healthz}}, limits: [], respond: {{builtin: healthz}}}}\n\
         \x20 - {{name: cached, match: {{path: /cached/*}}, upstream: same, cache: pages}}\n\
         \x20 - {{name: secure, match: {{path: /secure/*}}, upstream: secure}}\n\
         \x20 - {{name: new-{number}, match: {{path: /new/*}}, upstream: new-{number}, fallback: [same]}}\n\
         \x20 - name: all\n\
         \x20   match: {{path: /*}}\n\
         \x20   upstream: same\n\
         \x20   mirror: {{upstream: shadow, share: 50%, methods: [GET, POST]}}\n\
         \x20   fault: {{delay: 1ms, share: 10%}}\n",
        directory = directory.display(),
        workers = 1 + number % 3,
        network = number % 250,
        redis = world.redis.url(),
        // A listener that comes and goes.
        third = if number % 2 == 1 { "\x20 - 127.0.0.3:0\n" } else { "" },
        cert = world.certificates.certificate().display(),
        key = world.certificates.key().display(),
        tls = world.tls.url(),
        roots = world.certificates.authority().display(),
        a = ports[0],
        b = ports[1],
    )
}

#[test]
fn a_hundred_reloads_twenty_take_overs_and_a_drain_with_everything_in_use_fail_no_request() {
    let (reloads, take_overs) = (100, 20);
    let world = World::start();
    let directory = tempfile::tempdir().unwrap();
    let mut number = 0;
    std::fs::write(directory.path().join("missing.html"), "<p>not here</p>").unwrap();
    let file = File::new(directory.path(), &config(directory.path(), &world, number));
    let mut running = file.start();
    let addresses = running.addrs(4);
    let over_tls = TlsRelay::originate(trusting(&world.certificates), "localhost", addresses[3]);

    let requests = [
        Request::get("/plain"),
        Request { fields: vec![("Accept-Encoding".into(), "gzip".into())], ..Request::get("/compressed") },
        Request { fields: vec![("Accept-Encoding".into(), "br".into())], ..Request::get("/cached/b") },
        Request::get("/cached/a"),
        Request::post("/new/thing", "{\"a\": 1}"),
        Request::get("/healthz"),
        Request::get("/new/x"),
        Request::get("/secure/a"),
        Request::post("/secure/b", &"y".repeat(20_000)),
        Request::post("/plain", &"x".repeat(100_000)),
    ];
    let ways = [
        addresses[0].into(),
        addresses[1].into(),
        addresses[0].into(),
        Way::with_proxy_header(addresses[2]),
        over_tls.address().into(),
    ];
    let load = Load::start(&ways, &requests, |status| status == 200);
    for round in 0..=take_overs {
        // As many in each round, the rest in the first ones.
        for _ in 0..reloads / (take_overs + 1) + usize::from(round < reloads % (take_overs + 1)) {
            number += 1;
            file.write(&config(directory.path(), &world, number));
            let mark = running.mark();
            reload(&running, &format!("new-{number} added"));
            assert_eq!(running.admin_get("/metrics").status(), 200);
            if number % 2 == 1 {
                let find = |line: &str| {
                    let address: SocketAddr = line.strip_prefix("listening on http://")?.parse().ok()?;
                    (address.ip() == Ipv4Addr::new(127, 0, 0, 3)).then_some(address)
                };
                let third = running.wait_for_line_after(mark, "the third listener", DEADLINE, find);
                let mut client = testkit::RawClient::connect(third);
                assert_eq!(client.get("/plain").status(), 200);
            }
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
