use std::num::NonZeroU32;

use super::*;
use crate::model::*;
use crate::yaml;
use llm::balance::{Engine, Settings};

mod key_store;
mod policy;
mod registry;
mod route;

/// Resolves a file; those that it names do not exist.
fn config(text: &str) -> Result<Config, Vec<Problem>> {
    let file: raw::File = yaml::parse(text, &|_| None).unwrap_or_else(|problems| panic!("{problems:#?}"));
    resolve(&file, Mode::File, std::path::Path::new(""), &|_| Err(std::io::ErrorKind::NotFound.into()), &|_| None)
}

fn good(text: &str) -> Config {
    config(text).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// What is wrong, without places.
fn wrong(text: &str) -> Vec<String> {
    config(text).unwrap_err().into_iter().map(|problem| problem.message).collect()
}

/// A file with one upstream, `app`, and what else is given.
fn file(more: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nupstreams:\n  app: {{targets: [http://127.0.0.1:8001]}}\n  other: {{targets: [http://127.0.0.1:8002]}}\n{more}"
    )
}

/// The same with routes, given as flow mappings without their braces.
fn routes(routes: &[&str]) -> String {
    let routes: String = routes.iter().map(|route| format!("  - {{{route}}}\n")).collect();
    file(&format!("routes:\n{routes}"))
}

const ROUTE: &str = "routes: [{match: {path: /}, upstream: app}]\n";

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

#[test]
fn the_smallest_file_has_every_default_of_the_documentation() {
    let config = good(
        "listen: 127.0.0.1:8080\nupstreams: {app: {targets: [http://127.0.0.1:8001]}}\nroutes: [{match: {path: /*}, upstream: app}]\n",
    );
    let expected = Config {
        providers: Vec::new(),
        models: Vec::new(),
        ai: crate::Ai { held_bytes: 256 << 20, reserve_output: 1024 },
        mode: Mode::File,
        listen: vec!["127.0.0.1:8080".parse::<std::net::SocketAddr>().unwrap().into()],
        tls_files: vec![],
        admin: None,
        console: crate::Console::default(),
        takeover: None,
        workers: None,
        trusted_proxies: crate::TrustedProxies::default(),
        untrusted_headers: UntrustedHeaders { strip: true, keep: Vec::new() },
        request_id: "X-Request-Id".into(),
        server_timing: crate::ServerTiming::None,
        access_log: None,
        telemetry: Telemetry {
            resource: vec![
                ("service.name".to_owned(), "weir".to_owned()),
                ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ],
            traces: None,
            metrics: None,
        },
        redaction: crate::redact::Redaction::default(),
        server: Server {
            max_connections: 50_000,
            max_connections_per_client: None,
            request_line_bytes: 8 << 10,
            head_bytes: 64 << 10,
            fields: 100,
            body_bytes: None,
            head_timeout: seconds(10),
            body_idle_timeout: seconds(30),
            keep_alive: seconds(75),
            drain: seconds(30),
            drain_delay: Duration::ZERO,
            connection: ConnectionUse::default(),
            raises_files: true,
            http2: Http2::default(),
            path: message::path::Policy::default(),
            is_content_length_strict: false,
            returns_request_id: true,
            coalesce: true,
            auth_failures: None,
        },
        redis: None,
        upstreams: vec![Upstream {
            tls: None,
            protocol: UpstreamProtocol::Http1,
            http2: UpstreamHttp2::default(),
            name: "app".into(),
            targets: vec![Target {
                tls_name: None,
                address: TargetAddress::Ip("127.0.0.1:8001".parse().unwrap()),
                authority: Some("127.0.0.1:8001".into()),
                base_path: "".into(),
                weight: NonZeroU32::MIN,
            }],
            targets_file: None,
            balance: Balance::LeastRequest,
            health: None,
            eject: Some(Eject { after: 5, period: Duration::from_secs(10), max_share: 0.5 }),
            slow_start: None,
            breaker: None,
            timeouts: Timeouts {
                connect: seconds(2),
                per_try: None,
                first_byte: seconds(60),
                idle: seconds(60),
                total: None,
                tunnel_idle: seconds(600),
            },
            retry: Retry {
                extra_attempts: 1,
                budget: 0.2,
                on: RetryOn { connect: true, reset: true, try_timeout: true, ..RetryOn::default() },
            },
            keep_alive: UpstreamKeepAlive {
                idle: Duration::from_secs(60),
                max_idle: 1024,
                used_for: ConnectionUse::default(),
            },
            proxy_protocol: None,
            tcp: TcpOptions::default(),
            max_in_flight: None,
            queue: None,
        }],
        limits: vec![],
        budgets: vec![],
        currency: None,
        caches: vec![],
        gateway_limits: vec![],
        auth: Vec::new(),
        gateway_auth: RouteAuth::default(),
        apis: Vec::new(),
        gateway_errors: None,
        routes: vec![Route {
            auth: RouteAuth::default(),
            allow: RouteAllow::default(),
            name: "/*".into(),
            matcher: Matcher {
                listener: None,
                host: HostPattern::Any,
                path: PathPattern::Prefix("/".into()),
                methods: vec![],
                headers: vec![],
                query: vec![],
            },
            action: Action::Proxy(Proxy {
                upstream: UpstreamId(0),
                split: None,
                fallback: vec![],
                rewrite: Rewrite::None,
                host: None,
                timeouts: TimeoutOverrides::default(),
                upgrade: vec![],
                forwards_trailers: false,
            }),
            limits: vec![],
            budgets: vec![],
            cache: None,
            compress: None,
            errors: None,
            mirror: None,
            fault: None,
            body_bytes: None,
            headers: HeaderEdits::default(),
            cors: None,
            api: None,
            contract: None,
        }],
    };
    assert_eq!(config, expected);
}

#[test]
fn none_switches_everything_off_that_can_be_off() {
    let config = good(
        "listen: 127.0.0.1:0\nadmin: none\ntakeover: none\naccess_log: none\n\
         server: {max_connections_per_client: none, body: none, head_timeout: none, body_idle_timeout: none, keep_alive: none, drain: none, coalesce: false}\n\
         upstreams: {app: {targets: [http://127.0.0.1:1], health: none, eject: none, slow_start: none, breaker: none, retry: none, keep_alive: none, \
         max_in_flight: none, queue: none, timeouts: {connect: none, try: none, first_byte: none, idle: none, total: none, tunnel_idle: none}}}\n\
         defaults: {cache: none}\n\
         routes: [{match: {path: /}, upstream: app, cache: none, body: none, cors: none, timeouts: {idle: none}}]\n",
    );
    let server = &config.server;
    assert_eq!(
        (server.head_timeout, server.body_idle_timeout, server.keep_alive, server.drain, server.coalesce),
        (None, None, None, None, false)
    );
    let app = &config.upstreams[0];
    assert_eq!(app.timeouts, Timeouts::default());
    assert_eq!((&app.eject, app.retry.extra_attempts, app.keep_alive.max_idle), (&None, 0, 0));
    let Action::Proxy(proxy) = &config.routes[0].action else { panic!() };
    assert_eq!(proxy.timeouts, TimeoutOverrides { idle: Some(None), ..TimeoutOverrides::default() });
}

#[test]
fn sections_that_are_off_have_defaults_when_they_are_switched_on() {
    let config = good(&format!(
        "listen: 127.0.0.1:0\naccess_log: {{path: stdout}}\nupstreams: {{app: {{targets: [http://127.0.0.1:1], health: {{}}, breaker: {{}}, max_in_flight: 4, queue: {{}}}}}}\n{ROUTE}"
    ));
    assert_eq!(
        config.access_log,
        Some(AccessLog {
            to: AccessLogTarget::Stdout,
            format: LogFormat::Json,
            fields: LogFields::default(),
            only: None,
            sample: 1.0
        })
    );
    let app = &config.upstreams[0];
    let health = app.health.clone().unwrap();
    assert_eq!(
        (&*health.path, health.interval, health.timeout),
        ("/healthz", Duration::from_secs(2), Duration::from_secs(1))
    );
    assert_eq!((health.healthy_after, health.unhealthy_after, health.status), (2, 3, (200, 399)));
    assert_eq!(app.breaker, Some(Breaker { failures: 0.5, of_last: 20, open_for: Duration::from_secs(5) }));
    assert_eq!(app.queue, Some(Queue { size: 100, timeout: Duration::from_secs(1), fair: None }));
    assert_eq!(app.max_in_flight.map(NonZeroU32::get), Some(4));
}

#[test]
fn a_smaller_head_bounds_the_request_line_that_nobody_chose() {
    let config = good(&file(&format!("server: {{head: 4KiB}}\n{ROUTE}")));
    assert_eq!(config.server.request_line_bytes, 4096);
    assert!(
        wrong(&file(&format!("server: {{head: 4KiB, request_line: 8KiB}}\n{ROUTE}")))[0].contains("larger than `head`")
    );
}

#[test]
fn names_become_indices_in_the_order_of_the_file() {
    let config = good(&routes(&["match: {path: /a}, upstream: other, fallback: [app]"]));
    assert_eq!(&*config.upstreams[1].name, "other");
    let Action::Proxy(proxy) = &config.routes[0].action else { panic!() };
    assert_eq!((proxy.upstream, &*proxy.fallback), (UpstreamId(1), &[UpstreamId(0)][..]));
}

fn inference() -> Inference {
    Inference {
        engine: Engine::Vllm,
        path: "/metrics".into(),
        names: EngineNames::default(),
        scrape: Duration::from_secs(1),
        isolate: false,
        settings: Settings::default(),
    }
}

#[test]
fn balance_takes_a_word_or_a_mapping() {
    for (text, expected) in [
        ("round_robin", Balance::RoundRobin),
        ("least_request", Balance::LeastRequest),
        ("ewma", Balance::Ewma),
        ("{hash: client_ip}", Balance::Hash(HashKey::ClientIp)),
        ("{hash: path}", Balance::Hash(HashKey::Path)),
        ("{hash: header:X-User}", Balance::Hash(HashKey::Header("x-user".into()))),
        ("inference", Balance::Inference(inference().into())),
        ("{inference: {}}", Balance::Inference(inference().into())),
        (
            "{inference: {engine: trtllm, scrape: 500ms, kv: 80%, max_imbalance: 8, isolate: true, metrics: {kv: used}}}",
            Balance::Inference(
                Inference {
                    engine: Engine::TrtLlm,
                    path: "/prometheus/metrics".into(),
                    names: EngineNames { kv: Some("used".into()), ..EngineNames::default() },
                    scrape: Duration::from_millis(500),
                    isolate: true,
                    settings: Settings { kv: 0.8, uneven_by: 8.0, ..Settings::default() },
                }
                .into(),
            ),
        ),
    ] {
        let config = good(&format!(
            "listen: 127.0.0.1:0\nupstreams: {{app: {{targets: [http://127.0.0.1:1], balance: {text}}}}}\n{ROUTE}"
        ));
        assert_eq!(config.upstreams[0].balance, expected, "{text}");
    }
}

#[test]
fn retries_are_what_the_list_says() {
    let config = good(&format!(
        "listen: 127.0.0.1:0\nupstreams: {{app: {{targets: [http://127.0.0.1:1], retry: {{extra_attempts: 2, budget: 5%, on: [reset, 502, 503, 504]}}}}}}\n{ROUTE}"
    ));
    let on = RetryOn { reset: true, status_502: true, status_503: true, status_504: true, ..RetryOn::default() };
    assert_eq!(config.upstreams[0].retry, Retry { extra_attempts: 2, budget: 0.05, on });
}

#[test]
fn any_number_of_free_ports_may_be_requested() {
    assert_eq!(
        good(&format!("listen: ['127.0.0.1:0', '127.0.0.1:0']\nupstreams: {{app: {{targets: [http://a]}}}}\n{ROUTE}"))
            .listen
            .len(),
        2
    );
}

#[test]
fn certificates_of_a_service_are_for_its_configured_domain() {
    let name = |tls: &str| {
        let config = good(&format!(
            "listen: 127.0.0.1:0\nupstreams: {{app: {{targets: [srv+https://_api._tcp.example.com/v1], tls: {{verify: false, insecure: true{tls}}}}}}}\n{ROUTE}"
        ));
        let target = &config.upstreams[0].targets[0];
        assert_eq!((target.authority.as_deref(), &*target.base_path), (Some("example.com"), "/v1"));
        target.tls_name.as_deref().map(str::to_owned)
    };
    assert_eq!(name("").as_deref(), Some("example.com"));
    assert_eq!(name(", server_name: api.internal").as_deref(), Some("api.internal"));
}
