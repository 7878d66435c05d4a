//! The real listener on a free port, queried in raw bytes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};
use testkit::{Message, RawClient};
use tokio::sync::oneshot;

use super::*;
use crate::observe::CacheTotals;
use crate::observe::metrics::tests::targets;
use crate::policy::cache::purge::{PurgeError, Which};
use crate::upstream::{Clock, Upstreams};

/// The rest of the process.
struct Process {
    metrics: Metrics,
    upstreams: Upstreams,
    cache: Mutex<Option<Cachez>>,
    purged: Mutex<Option<Purge>>,
    draining: AtomicBool,
    reload: Mutex<Result<Reloaded, ReloadError>>,
    /// A reload waits while somebody holds this.
    hold: tokio::sync::Mutex<()>,
    /// How many have begun.
    reloads: AtomicUsize,
}

impl Control for Process {
    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn upstreams(&self) -> Vec<UpstreamSnapshot> {
        self.upstreams.snapshot()
    }

    fn act_on_target(&self, upstream: &str, target: &str, action: TargetAction) -> Result<TargetCondition, ActError> {
        self.upstreams.act(upstream, target, action)
    }

    fn drained(&self) -> Vec<DrainedTarget> {
        self.upstreams.drained()
    }

    fn routes(&self) -> Value {
        json!([{ "name": "infer" }])
    }

    fn config_yaml(&self) -> String {
        "listen: [127.0.0.1:8080]\n".into()
    }

    fn cachez(&self) -> Option<Cachez> {
        *self.cache.lock().unwrap()
    }

    fn purge(&self, purge: Purge) -> Pin<Box<dyn Future<Output = Result<u64, PurgeError>> + Send + '_>> {
        let known = purge.cache.as_deref().is_none_or(|name| name == "answers");
        let text = format!("{:?}", purge.which);
        *self.purged.lock().unwrap() = Some(purge);
        Box::pin(async move {
            if known { Ok(text.len() as u64) } else { Err(PurgeError::Invalid("there is no such cache".into())) }
        })
    }

    fn limits(&self, question: Question) -> Pin<Box<dyn Future<Output = Result<Value, BadQuestion>> + Send + '_>> {
        Box::pin(async move { Ok(json!({ "limit": question.limit, "key": question.key })) })
    }

    fn reset_limits(
        &self,
        question: Question,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<String>, BadQuestion>> + Send + '_>> {
        Box::pin(async move { Ok(question.key) })
    }

    fn is_ready(&self) -> bool {
        !self.draining.load(Relaxed)
    }

    fn reload(&self) -> Pin<Box<dyn Future<Output = Result<Reloaded, ReloadError>> + Send + '_>> {
        Box::pin(async {
            self.reloads.fetch_add(1, Relaxed);
            drop(self.hold.lock().await);
            self.reload.lock().unwrap().clone()
        })
    }
}

/// A running listener.
struct Admin {
    process: Arc<Process>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    /// Told when `serve` has returned.
    ended: std::sync::mpsc::Receiver<()>,
}

impl Admin {
    fn wait_for_reloads(&self, begun: usize) {
        testkit::wait::until(testkit::DEADLINE, "reloads in flight", || self.process.reloads.load(Relaxed) >= begun);
    }

    fn start() -> Admin {
        Admin::start_on(Ipv4Addr::LOCALHOST.into())
    }

    fn start_on(ip: IpAddr) -> Admin {
        let upstreams = concat!(
            "  python: {targets: [http://127.0.0.1:8001]}\n",
            "  node: {targets: [http://127.0.0.1:8002, unix:/run/node.sock]}\n",
        );
        let process = Arc::new(Process {
            metrics: Metrics::new(),
            upstreams: targets::upstreams(upstreams, Clock::start()),
            cache: Mutex::new(None),
            purged: Mutex::new(None),
            draining: AtomicBool::new(false),
            reload: Mutex::new(Ok(Reloaded::default())),
            hold: tokio::sync::Mutex::default(),
            reloads: AtomicUsize::new(0),
        });
        let listener = std::net::TcpListener::bind((ip, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let control = process.clone();
        let (ending, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                serve(TcpListener::from_std(listener).unwrap(), control, async { drop(stopped.await) }).await;
                ending.send(()).unwrap();
                // The control thread lives on: what `serve` leaves open stays open.
                std::future::pending::<()>().await;
            });
        });
        Admin { process, address, stop: Some(stop), ended }
    }

    fn send(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Message {
        self.send_with(method, target, fields, "")
    }

    fn send_with(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Message {
        let host = self.address.to_string();
        let mut all = vec![("Host", &*host)];
        all.extend(fields.iter().filter(|(name, _)| *name != "Host"));
        if let Some(other) = fields.iter().find(|(name, _)| *name == "Host") {
            all[0] = *other;
        }
        let mut client = RawClient::connect(self.address);
        client.request(method, target, &all, body);
        client.read_response_to(method)
    }

    fn get(&self, target: &str) -> Message {
        self.send("GET", target, &[])
    }

    #[track_caller]
    fn refused(&self, status: u16, method: &str, target: &str, fields: &[(&str, &str)]) -> Value {
        let response = self.send(method, target, fields);
        assert_eq!(response.status(), status, "{method} {target} {fields:?}: {}", response.text());
        assert_eq!(response.field("Content-Type"), Some("application/problem+json"));
        let problem: Value = serde_json::from_str(response.text()).unwrap();
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string() && problem["type"] == "about:blank");
        problem
    }
}

fn parsed(message: &Message) -> Value {
    assert_eq!((message.status(), message.field("Content-Type")), (200, Some("application/json")));
    serde_json::from_str(message.text()).unwrap()
}

#[test]
fn the_index_names_every_page() {
    let admin = Admin::start();
    let index = admin.get("/");
    assert_eq!(index.field("Content-Type"), Some("text/plain; charset=utf-8"));
    let pages =
        index.text().lines().filter_map(|line| line.split_ascii_whitespace().nth(1).filter(|p| p.starts_with('/')));
    let pages: Vec<&str> = pages.collect();
    assert_eq!(pages.len(), 13);
    for page in pages {
        let expected = match page {
            "/reload" | "/upstreams/NAME/targets/ADDRESS/ACTION" => 405,
            "/cachez" => 404,
            "/cache/purge" => 405,
            _ => 200,
        };
        assert_eq!(admin.get(page).status(), expected, "{page}");
    }
}

#[test]
fn metrics_come_in_the_requested_format() {
    let admin = Admin::start();
    admin.process.metrics.shard(0).connection_opened();
    let classic = admin.get("/metrics");
    assert_eq!(classic.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(classic.text().contains("\nclient_connections_accepted_total{worker=\"0\"} 1\n"));
    let accept = [("Accept", "text/plain;q=0.5"), ("Accept", "application/openmetrics-text; version=1.0.0")];
    let open = admin.send("GET", "/metrics", &accept);
    assert_eq!(open.field("Content-Type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(open.text().ends_with("# EOF\n"));
}

#[test]
fn what_is_in_force_is_shown() {
    let admin = Admin::start();
    assert_eq!(parsed(&admin.get("/routes")), json!([{ "name": "infer" }]));
    let upstreams = parsed(&admin.get("/upstreams"));
    assert_eq!(upstreams[1]["name"], "node");
    assert_eq!(upstreams[1]["targets"][0]["address"], "127.0.0.1:8002");
    let config = admin.get("/config");
    assert_eq!((config.field("Content-Type"), config.text()), (Some("application/yaml"), "listen: [127.0.0.1:8080]\n"));
}

#[test]
fn health_is_that_of_the_contract() {
    let admin = Admin::start();
    let mut health = parsed(&admin.get("/healthz"));
    assert!(health["uptime_ms"].take().is_u64());
    let expected = json!({
        "ok": true, "service": "weir", "uptime_ms": null,
        "targets": {
            "python": { "url": "http://127.0.0.1:8001", "healthy": true },
            "node": { "healthy": true, "targets": [
                { "url": "http://127.0.0.1:8002", "healthy": true }, { "url": "unix:/run/node.sock", "healthy": true },
            ]},
        },
    });
    assert_eq!(health, expected);
    assert_eq!((admin.get("/readyz").status(), admin.get("/readyz").text()), (200, r#"{"ready":true}"#));
    admin.process.draining.store(true, Relaxed);
    assert_eq!((admin.get("/readyz").status(), admin.get("/readyz").text()), (503, r#"{"ready":false}"#));
    assert_eq!(admin.get("/livez").status(), 200, "a process that drains is not restarted");
    let health = admin.get("/healthz");
    assert_eq!(health.status(), 503);
    assert!(health.text().starts_with(r#"{"ok":false,"service":"weir","uptime_ms":"#));
}

#[test]
fn the_cache_is_described_when_there_is_one() {
    let admin = Admin::start();
    admin.refused(404, "GET", "/cachez", &[]);
    let with = |hits, misses, ttl| {
        *admin.process.cache.lock().unwrap() = Some(Cachez {
            totals: CacheTotals { hits, misses, coalesced: 4, stale: 5, store_errors: 6 },
            backend: "memory",
            ttl,
            bytes: 1,
            entries: 2,
            evictions: 3,
        });
        admin.get("/cachez").text().to_owned()
    };
    let (seconds, millis) = (Some(Duration::from_secs(300)), Some(Duration::from_millis(1500)));
    assert_eq!(
        with(1, 1, seconds),
        r#"{"hits":1,"misses":1,"hit_ratio":0.5,"backend":"memory","ttl":"300s","bytes":1,"entries":2,"evictions":3,"coalesced":4,"stale":5,"store_errors":6}"#
    );
    assert_eq!(
        with(0, 0, millis),
        r#"{"hits":0,"misses":0,"hit_ratio":0.0,"backend":"memory","ttl":"1500ms","bytes":1,"entries":2,"evictions":3,"coalesced":4,"stale":5,"store_errors":6}"#
    );
    assert_eq!(
        with(3, 0, None),
        r#"{"hits":3,"misses":0,"hit_ratio":1.0,"backend":"memory","ttl":null,"bytes":1,"entries":2,"evictions":3,"coalesced":4,"stale":5,"store_errors":6}"#
    );
}

#[test]
fn a_purge_says_how_many_and_names_exactly_one_choice() {
    let admin = Admin::start();
    let purge = |body: &str| admin.send_with("POST", "/cache/purge", &[], body);
    for (body, which, soft) in [
        (r#"{"url": "http://a/b"}"#, Which::Url("http://a/b".into()), false),
        (r#"{"prefix": "http://a/", "soft": true}"#, Which::Prefix("http://a/".into()), true),
        (r#"{"tag": "t"}"#, Which::Tag("t".into()), false),
        (r#"{"all": true, "cache": "answers"}"#, Which::All, false),
    ] {
        let response = purge(body);
        assert_eq!(response.status(), 200, "{body}: {}", response.text());
        assert!(parsed(&response)["purged"].is_u64());
        let purged = admin.process.purged.lock().unwrap().clone().unwrap();
        assert_eq!((purged.which, purged.soft), (which, soft));
    }
    for body in ["", "{}", r#"{"all": false}"#, r#"{"url": "http://a/", "tag": "t"}"#, r#"{"urls": "x"}"#] {
        assert_eq!(purge(body).status(), 400, "{body}");
    }
    assert_eq!(purge(r#"{"all": true, "cache": "unknown"}"#).status(), 422);
}

#[test]
fn a_reload_says_what_changed_or_what_is_wrong() {
    let admin = Admin::start();
    let outcome = |outcome| *admin.process.reload.lock().unwrap() = outcome;
    outcome(Ok(Reloaded { changes: vec!["route infer: body".into()] }));
    let response = admin.send("POST", "/reload", &[]);
    assert_eq!(parsed(&response), json!({ "reloaded": true, "changes": ["route infer: body"] }));
    outcome(Err(ReloadError::Invalid("weir.yaml:3:5: unknown key".into())));
    assert_eq!(admin.refused(422, "POST", "/reload", &[])["detail"], "weir.yaml:3:5: unknown key");
    outcome(Err(ReloadError::NoFile("no file".into())));
    admin.refused(409, "POST", "/reload", &[]);
    outcome(Err(ReloadError::Failed("address in use".into())));
    admin.refused(500, "POST", "/reload", &[]);
}

#[test]
fn wrong_pages_and_methods_are_problems() {
    let admin = Admin::start();
    admin.refused(404, "GET", "/nothing", &[]);
    admin.refused(405, "POST", "/metrics", &[]);
    assert_eq!(admin.get("/reload").field("Allow"), Some("POST"));
    assert_eq!(admin.send("DELETE", "/routes", &[]).field("Allow"), Some("GET,HEAD"));
    let head = admin.send("HEAD", "/metrics", &[]);
    assert_eq!((head.status(), head.body.len()), (200, 0));
}

#[test]
fn every_response_forbids_caching_sniffing_and_embedding() {
    let admin = Admin::start();
    for target in ["/", "/metrics", "/nothing", "/reload"] {
        let response = admin.get(target);
        assert_eq!(response.field("Cache-Control"), Some("no-store"), "{target}");
        assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{target}");
        assert_eq!(response.field("Cross-Origin-Resource-Policy"), Some("same-origin"), "{target}");
    }
    assert_eq!(admin.send("GET", "/", &[("Host", "evil.example")]).field("Cache-Control"), Some("no-store"));
}

#[test]
fn a_name_that_a_stranger_can_have_is_misdirected() {
    let admin = Admin::start();
    for host in [
        "127.0.0.1",
        "127.0.0.1:1",
        "[::1]:9901",
        "192.0.2.1",
        "localhost",
        "LOCALHOST:80",
        "localhost.",
        "a.localhost",
    ] {
        assert_eq!(admin.send("GET", "/healthz", &[("Host", host)]).status(), 200, "{host}");
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evillocalhost",
        "weir",
        "user@127.0.0.1",
        "",
        "a b",
    ] {
        admin.refused(421, "GET", "/healthz", &[("Host", host)]);
    }
    // An absolute target is a name too.
    admin.refused(421, "GET", "http://evil.example/healthz", &[]);
    assert_eq!(admin.get(&format!("http://{}/healthz", admin.address)).status(), 200);
    // Two are one too many unless both are this listener's; none is none.
    let mut client = RawClient::connect(admin.address);
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n");
    assert_eq!(client.read_response().status(), 421);
    let mut client = RawClient::connect(admin.address);
    client.send("GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(client.read_response().status(), 400);
}

#[test]
fn a_name_without_a_dot_is_served_where_others_can_reach_the_listener() {
    // Any address of this machine that is not of the loopback interface; a machine without one cannot show this.
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let Some(ip) = probe.connect("192.0.2.1:9").ok().and_then(|()| probe.local_addr().ok()).map(|a| a.ip()) else {
        return;
    };
    if ip.is_loopback() || ip.is_unspecified() {
        return;
    }
    let admin = Admin::start_on(ip);
    assert_eq!(admin.send("GET", "/healthz", &[("Host", "weir:9901")]).status(), 200);
    admin.refused(421, "GET", "/healthz", &[("Host", "weir.example:9901")]);
    // Without a token the console is for this machine.
    for target in ["/console/api/session", "/console/api/overview", "/console/api/config"] {
        admin.refused(403, "GET", target, &[]);
    }
    admin.refused(403, "POST", "/console/api/reload", &[]);
    // So are actions.
    for (method, target) in [
        ("POST", "/reload"),
        ("POST", "/cache/purge"),
        ("DELETE", "/limits?key=a"),
        ("POST", "/upstreams/u/targets/127.0.0.1:1/drain"),
    ] {
        admin.refused(403, method, target, &[]);
    }
    for target in ["/metrics", "/upstreams", "/config", "/limits"] {
        assert_eq!(admin.send("GET", target, &[]).status(), 200, "{target}");
    }
}

#[test]
fn a_page_of_another_site_cannot_reload() {
    let admin = Admin::start();
    let own = format!("http://{}", admin.address);
    for fields in [
        &[("Origin", "http://evil.example")][..],
        &[("Origin", "null")],
        &[("Origin", "http://127.0.0.1:1")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Origin", &own), ("Sec-Fetch-Site", "cross-site")],
    ] {
        admin.refused(403, "POST", "/reload", fields);
    }
    for fields in [&[][..], &[("Origin", &*own)], &[("Sec-Fetch-Site", "same-origin")], &[("Sec-Fetch-Site", "none")]] {
        assert_eq!(admin.send("POST", "/reload", fields).status(), 200, "{fields:?}");
    }
    // Reading is harmless: the browser keeps the response from the page.
    assert_eq!(admin.send("GET", "/healthz", &[("Sec-Fetch-Site", "cross-site")]).status(), 200);
}

#[test]
fn an_endless_body_is_not_read() {
    let admin = Admin::start();
    let mut client = RawClient::connect(admin.address);
    client
        .send(format!("POST /reload HTTP/1.1\r\nHost: {}\r\nContent-Length: 1000000000000\r\n\r\nabc", admin.address));
    assert_eq!(client.read_response().status(), 200);
    client.expect_closed();
}

#[test]
fn an_endless_head_is_refused() {
    let admin = Admin::start();
    let mut client = RawClient::connect(admin.address);
    let long = "a".repeat(admin_http::HEAD);
    // It may have heard enough before all is sent.
    let _ = client.try_send(format!("GET / HTTP/1.1\r\nHost: {}\r\nX: {long}\r\n\r\n", admin.address));
    assert_eq!(client.read_response().status(), 431);
}

#[test]
fn a_body_that_stalls_gives_its_place_back() {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let page = axum::routing::post(|body: axum::body::Bytes| async move { body });
            let bounds = admin_http::Bounds { connections: 2, head_or_idle: Duration::from_millis(300) };
            let listener = TcpListener::from_std(listener).unwrap();
            admin_http::serve(listener, axum::Router::new().route("/", page), bounds, std::future::pending()).await;
        });
    });
    let mut stalled = [RawClient::connect(address), RawClient::connect(address)];
    for client in &mut stalled {
        client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
    }
    let mut waiting = RawClient::connect(address);
    waiting.request("POST", "/", &[], "all of it");
    assert_eq!(waiting.read_response().text(), "all of it");
    for mut client in stalled {
        assert_eq!(client.read_response().status(), 400, "half a body is no request");
        client.expect_closed();
    }
}

/// A probe of health does not wait for others that have connected and said nothing, half a head, or all that they had to say.
#[test]
fn a_connection_without_a_request_makes_way() {
    let admin = Admin::start();
    let mut held: Vec<RawClient> = (0..BOUNDS.connections).map(|_| RawClient::connect(admin.address)).collect();
    for (number, client) in held.iter_mut().enumerate() {
        match number % 3 {
            0 => {}
            1 => client.send("GET / HTTP/1.1\r\nHost: local"),
            _ => {
                client.request("GET", "/", &[("Host", "localhost")], "");
                assert_eq!(client.read_response().status(), 200);
            }
        }
    }
    for _ in 0..BOUNDS.connections {
        let mut probe = RawClient::connect(admin.address);
        probe.request("GET", "/", &[("Host", "localhost")], "");
        assert_eq!(probe.read_response().status(), 200);
        // Kept: it is one of those that have been idle for the shortest time.
        held.push(probe);
    }
    let mut last = held.pop().unwrap();
    last.request("GET", "/", &[("Host", "localhost")], "");
    assert_eq!(last.read_response().status(), 200);
}

#[test]
fn connections_beyond_the_bound_wait_while_all_have_requests() {
    let admin = Admin::start();
    let hold = admin.process.hold.blocking_lock();
    let mut held: Vec<RawClient> = (0..BOUNDS.connections).map(|_| RawClient::connect(admin.address)).collect();
    for client in &mut held {
        client.request("POST", "/reload", &[("Host", "localhost")], "");
    }
    // A connection whose request was not read yet would make way.
    admin.wait_for_reloads(BOUNDS.connections);
    let mut waiting = RawClient::connect(admin.address);
    waiting.request("GET", "/", &[("Host", "localhost")], "");
    waiting.expect_silence(Duration::from_millis(200));
    drop(hold);
    assert_eq!(waiting.read_response().status(), 200);
    assert!(held.iter_mut().all(|client| client.read_response().status() == 200));
}

#[test]
fn a_shutdown_closes_what_is_idle_and_finishes_what_is_under_way() {
    let mut admin = Admin::start();
    let mut idle = RawClient::connect(admin.address);
    idle.request("GET", "/", &[("Host", "localhost")], "");
    assert_eq!(idle.read_response().status(), 200);
    let held = admin.process.hold.blocking_lock();
    let mut busy = RawClient::connect(admin.address);
    busy.request("POST", "/reload", &[("Host", "localhost")], "");
    admin.wait_for_reloads(1);
    admin.stop.take().unwrap().send(()).unwrap();
    idle.expect_closed();
    assert!(RawClient::try_connect(admin.address, None).is_err());
    drop(held);
    let response = busy.read_response();
    assert_eq!((response.status(), response.field("Connection")), (200, Some("close")));
    admin.ended.recv_timeout(testkit::DEADLINE).unwrap();
}

#[test]
fn a_shutdown_does_not_wait_for_ever() {
    let mut admin = Admin::start();
    let held = admin.process.hold.blocking_lock();
    let mut busy = RawClient::connect(admin.address);
    busy.request("POST", "/reload", &[("Host", "localhost")], "");
    admin.wait_for_reloads(1);
    admin.stop.take().unwrap().send(()).unwrap();
    admin.ended.recv_timeout(testkit::DEADLINE).unwrap();
    drop(held);
}
