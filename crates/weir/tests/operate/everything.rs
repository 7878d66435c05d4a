//! One configuration with every option in use.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use testkit::tls::TlsRelay;
use testkit::{Certificates, RawClient, Redis, Signal, Upstream, Weir, responder, wait};
use tls::names::Entry;
use tls::server::{Listener, Options, Tickets};
use tls::{Alpn, Certificate, Names};

use super::load::{Load, Request, Way};
use super::{DEADLINE, File, credentials, rewrite, take_over, trusting};

/// What the admin listener wants to see.
const TOKEN: &str = "console-token-0123456789";

/// What the gateway stands between.
struct World {
    redis: Redis,
    upstreams: [Upstream; 2],
    certificates: Certificates,
    /// TLS in front of the first upstream.
    tls: TlsRelay,
    /// Where traces and metrics go.
    collector: Upstream,
    /// Where the gateway listens, as the file says it.
    binds: [String; 5],
}

impl World {
    fn start() -> Self {
        // Long enough to be compressed.
        let start = |letter: &'static str| {
            Upstream::start(move |conn, request| match request.head.target() {
                "/v1/chat/completions" => conn.respond(200, &[("Content-Type", "application/json")], COMPLETION),
                _ => conn.respond(200, &[("Content-Type", "text/plain")], letter.repeat(4096)),
            })
        };
        let upstreams = [start("a"), start("b")];
        let certificates = Certificates::localhost();
        let certificate = Certificate::load(&certificates.certificate(), &certificates.key()).unwrap();
        let entry = Entry { certificate, names: Vec::new(), is_default: true, policy: 0 };
        let options = Options::new(Arc::new(Names::new(vec![entry]).unwrap()));
        let listener = Listener::new(&options, &Tickets::default()).unwrap();
        let tls = TlsRelay::terminate(listener, upstreams[0].socket_addr());
        let collector = Upstream::builder().record_limit(0).start(responder::ok(""));
        let binds = ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.4:0", "127.0.0.5:0", "127.0.0.6:0"].map(String::from);
        World { redis: Redis::start(), upstreams, certificates, tls, collector, binds }
    }

    /// Waits until the collector has got both kinds of what it is sent, from now on.
    fn wait_for_telemetry(&self) {
        self.collector.forget();
        let has = |target: &str| self.collector.requests().iter().any(|request| request.head.target() == target);
        wait::until(DEADLINE, "traces and metrics", || has("/v1/traces") && has("/v1/metrics"));
    }
}

/// What a provider of models responds.
const COMPLETION: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"large","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;

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
    let [plain, second, proxied, secure, http2] = &world.binds;
    format!(
        "listen:\n\
         \x20 - {plain}\n\
         \x20 - {second}\n\
         \x20 - {{bind: {proxied}, proxy_protocol: any}}\n\
         \x20 - {{bind: {secure}, tls: {{certificates: [{{cert: {cert}, key: {key}}}]}}}}\n\
         \x20 - {{bind: {http2}, http2: prior_knowledge}}\n\
         \x20 - fd:web\n\
         \x20 - unix:{directory}/http.sock\n\
         {third}\
         admin: 127.0.0.1:0\n\
         console: {{token: {TOKEN}}}\n\
         telemetry:\n\
         \x20 traces: {{endpoint: {collector}/v1/traces, sample: 10%, every: 100ms}}\n\
         \x20 metrics: {{endpoint: {collector}/v1/metrics, every: 100ms}}\n\
         auth:\n\
         \x20 keys: {{api_key: {{store: {{file: {directory}/keys.yaml}}}}}}\n\
         \x20 staff: {{jwt: {{issuer: me, audience: api, jwks: {{file: {directory}/jwks.json}}}}}}\n\
         providers:\n\
         \x20 one: {{api: openai, upstream: models, keys: [sk-one-0123456789abcdef]}}\n\
         \x20 two: {{api: openai, upstream: same}}\n\
         models:\n\
         \x20 chat: {{candidates: [{{provider: one, model: large}}, {{provider: two, model: small, tier: 2}}]}}\n\
         takeover: {directory}/takeover.sock\n\
         workers: {workers}\n\
         trusted_proxies: [127.0.0.0/8, 10.{network}.0.0/16]\n\
         access_log: {{path: {directory}/access.log}}\n\
         redis: {{url: {redis}}}\n\
         server: {{drain: 60s, max_connections_per_client: 1000, faults: true, http2: {{abuse_per_client: 6000/min}}}}\n\
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
         \x20 models:\n\
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
         \x20 - {{name: keyed, match: {{path: /keyed/*}}, auth: keys, upstream: same}}\n\
         \x20 - {{name: staff, match: {{path: /staff/*}}, auth: [staff, keys], allow: {{claims: {{sub: [u1]}}}}, upstream: same}}\n\
         \x20 - {{name: split, match: {{path: /split/*}}, split: {{upstreams: {{same: 70, secure: {share}}}}}}}\n\
         \x20 - {{name: ai, match: {{path: /v1/*}}, ai: {{models: [chat]}}}}\n\
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
        collector = world.collector.url(),
        share = number % 40,
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

/// Who has the token sees what the admin listener shows, nobody else.
fn expect_token(running: &Weir) {
    let mut client = RawClient::connect(running.admin_addr());
    for (field, status) in [(String::new(), 401), (format!("Authorization: Bearer {TOKEN}\r\n"), 200)] {
        client.send(format!("GET /upstreams HTTP/1.1\r\nHost: {}\r\n{field}\r\n", running.admin_addr()));
        assert_eq!(client.read_response().status(), status, "{field}");
    }
}

#[test]
fn reloads_take_overs_restarts_and_a_drain_with_everything_in_use_fail_no_request() {
    let (reloads, take_overs, restarts) = (100, 20, 5);
    let mut world = World::start();
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let mut number = 0;
    std::fs::write(directory.join("missing.html"), "<p>not here</p>").unwrap();
    let (key, token) = (credentials::api_key(directory), credentials::token(directory));
    let file = File::new(directory, &config(directory, &world, number));
    // Stays open in this process, as in systemd's.
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut running = file.start_with(&web);
    let addresses = running.addrs(6);
    assert_eq!(addresses[5], web.local_addr().unwrap());
    let over_tls = TlsRelay::originate(trusting(&world.certificates, Alpn::Http11), "localhost", addresses[3]);
    let http2_over_tls = TlsRelay::originate(trusting(&world.certificates, Alpn::Http2), "localhost", addresses[3]);

    let chat = r#"{"model": "chat", "messages": [{"role": "user", "content": "hello"}]}"#;
    let requests = [
        Request::get("/plain"),
        Request::get("/compressed").with("Accept-Encoding", "gzip"),
        Request::get("/cached/b").with("Accept-Encoding", "br"),
        Request::get("/cached/a"),
        Request::post("/new/thing", "{\"a\": 1}"),
        Request::get("/healthz"),
        Request::get("/new/x"),
        Request::get("/secure/a"),
        Request::post("/secure/b", &"y".repeat(20_000)),
        Request::post("/plain", &"x".repeat(100_000)),
        Request::get("/keyed/a").with("X-API-Key", &key),
        Request::get("/staff/a").with("Authorization", &format!("Bearer {token}")),
        Request::get("/split/a"),
        Request::post("/v1/chat/completions", chat),
    ];
    let ways = [
        addresses[0].into(),
        addresses[1].into(),
        Way::with_proxy_header(addresses[2]),
        over_tls.address().into(),
        Way::over_http2(http2_over_tls.address()),
        Way::over_http2(addresses[4]),
        Way::that_outlives(addresses[5]),
        Way::over_unix(&directory.join("http.sock")),
    ];
    let load = Load::start(&ways, &requests, |status| status == 200);
    for round in 0..=take_overs + restarts {
        // As many in each round, the rest in the first ones.
        let rounds = take_overs + restarts + 1;
        for _ in 0..reloads / rounds + usize::from(round < reloads % rounds) {
            number += 1;
            let mark = running.mark();
            rewrite(&file, &config(directory, &world, number), &running, &format!("new-{number} added"));
            assert_eq!(running.admin_get("/metrics").status(), 200);
            if number % 2 == 1 {
                let find = |line: &str| {
                    let address: SocketAddr = line.strip_prefix("listening on http://")?.parse().ok()?;
                    (address.ip() == Ipv4Addr::new(127, 0, 0, 3)).then_some(address)
                };
                let third = running.wait_for_line_after(mark, "the third listener", DEADLINE, find);
                let mut client = RawClient::connect(third);
                assert_eq!(client.get("/plain").status(), 200);
            }
            load.wait_for(10);
        }
        // Every fifth time the process ends before the next one starts.
        if round % 5 == 4 {
            let bind = |index: usize| addresses[index].to_string();
            world.binds = [bind(0), bind(1), bind(2), bind(3), bind(4)];
            number += 1;
            file.write(&config(directory, &world, number));
            running = load.during(|| {
                assert_eq!(running.stop(DEADLINE).code(), Some(0));
                let next = file.start_with(&web);
                assert_eq!(next.addrs(6), addresses);
                next
            });
        } else if round < take_overs + restarts {
            running = take_over(&file, running);
        }
        assert_eq!(running.admin_get("/healthz").status(), 200);
        expect_token(&running);
        load.wait_for(10);
    }
    world.wait_for_telemetry();
    let good = load.good();
    load.expect_the_end();
    running.signal(Signal::TERM);
    assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0));
    // Who waits in the queue of a socket that nobody listens on any more is told so.
    drop(web);
    assert_eq!(load.stop(), Vec::<String>::new());
    let sessions = http2_over_tls.sessions();
    assert!(!sessions.is_empty() && sessions.iter().all(|session| session.alpn == Some(Alpn::Http2)));
    let logged = std::fs::read_to_string(directory.join("access.log")).unwrap();
    assert!(logged.lines().count() >= good, "{good} responses, {} lines in the log", logged.lines().count());
    let is_good = |line: &str| line.contains("\"status\":200") || line.contains("/healthz");
    assert_eq!(logged.lines().find(|line| !is_good(line)), None);
    for request in &requests {
        let path = format!("\"path\":\"{}\"", request.path);
        for protocol in ["HTTP/1.1", "HTTP/2"] {
            let is_it = |line: &&str| line.contains(&path) && line.contains(protocol);
            assert!(logged.lines().any(|line| is_it(&line)), "{path} over {protocol}");
        }
    }
}
