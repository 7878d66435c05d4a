use std::sync::Arc; use std::time::Duration;
use weir::config::*; use weir::server::*; 
fn main() {
    let up: std::net::SocketAddr = std::env::args().nth(1).unwrap().parse().unwrap();
    let s = |s: u64| Some(Duration::from_secs(s));
    let timeouts = Timeouts { connect: s(2), per_try: None, first_byte: s(60), idle: s(60), total: None, tunnel_idle: s(600) };
    let config = Config { mode: Mode::File, listen: vec!["127.0.0.1:18080".parse().unwrap()], admin: None, takeover: None, workers: None, trusted_proxies: vec![],
        request_id: "X-Request-Id".into(), access_log: None,
        server: Server { max_connections: 50000, max_connections_per_client: None, request_line_bytes: 8192, head_bytes: 65536, fields: 100, body_bytes: None, head_timeout: s(10), body_idle_timeout: s(30), keep_alive: s(75), drain: s(30) },
        redis: None,
        upstreams: vec![Upstream { name: "u".into(), targets: vec![Target { address: TargetAddress::Ip(up), authority: None, base_path: "".into(), weight: 1.try_into().unwrap() }],
            balance: Balance::LeastRequest, health: None, eject: Some(Eject { after: 5, period: Duration::from_secs(10), max_share: 0.5 }), slow_start: None, breaker: None, timeouts, retry: Retry { extra_attempts: 1, budget: 0.2, on: RetryOn { connect: true, reset: true, try_timeout: true, ..Default::default() } },
            keep_alive: UpstreamKeepAlive { idle: Duration::from_secs(60), max_idle: 256 }, max_in_flight: None, queue: None }],
        limits: vec![], caches: vec![], gateway_limits: vec![],
        routes: vec![
          Route { name: "gates".into(), matcher: Matcher { host: HostPattern::Any, path: PathPattern::Exact("/gates".into()), methods: vec![], headers: vec![] },
            action: Action::Respond(Respond { status: 200, content_type: Some("application/json".into()), body: b"{\"ok\":true,\"service\":\"weir\"}"[..].into() }), limits: vec![], cache: None, body_bytes: None, headers: Default::default(), cors: None },
          Route { name: "all".into(), matcher: Matcher { host: HostPattern::Any, path: PathPattern::Prefix("/".into()), methods: vec![], headers: vec![] },
            action: Action::Proxy(Proxy { upstream: UpstreamId(0), fallback: vec![], rewrite: Rewrite::None, host: None, timeouts: Default::default(), upgrade: vec!["websocket".into()] }), limits: vec![], cache: None, body_bytes: None, headers: Default::default(), cors: None }],
    };
    let group = listen::bind(config.listen[0], 1).unwrap();
    let clock = weir::upstream::Clock::since(clock::process_start());
    let upstreams = Arc::new(weir::upstream::Upstreams::new(&config, clock));
    let table = weir::route::Table::new(&config);
    let generation = Arc::new(snapshot::Generation { config: Arc::new(config), table, upstreams });
    let (tx, rx) = tokio::sync::mpsc::unbounded_channel();
    let shared = shared::Shared::new(generation, vec![tx], weir::observe::Metrics::new(), None);
    println!("listening on http://{}", group.address);
    run::run(0, group.sockets, shared, rx, 42).unwrap();
}
