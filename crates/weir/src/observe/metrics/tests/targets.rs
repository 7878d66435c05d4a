//! What is shown of upstreams, from real ones.

use std::num::NonZeroU32;
use std::time::Duration;

use super::super::*;
use super::read;
use crate::config::{self, Config, Mode, TargetAddress, UpstreamId};
use crate::upstream::{Clock, FailureKind, Lease, Pick, Request, Upstreams, Views};

pub(crate) fn target(port: u16) -> config::Target {
    config::Target {
        address: TargetAddress::Ip(([127, 0, 0, 1], port).into()),
        authority: None,
        base_path: "".into(),
        weight: NonZeroU32::MIN,
    }
}

pub(crate) fn upstream(name: &str, targets: Vec<config::Target>) -> config::Upstream {
    config::Upstream {
        name: name.into(),
        targets,
        balance: config::Balance::RoundRobin,
        health: None,
        eject: None,
        slow_start: None,
        breaker: None,
        timeouts: config::Timeouts::default(),
        retry: config::Retry { extra_attempts: 1, budget: 0.2, on: config::RetryOn::default() },
        keep_alive: config::UpstreamKeepAlive { idle: Duration::from_secs(60), max_idle: 1 },
        max_in_flight: None,
        queue: None,
    }
}

pub(crate) fn config(upstreams: Vec<config::Upstream>) -> Config {
    Config {
        mode: Mode::File,
        listen: Vec::new(),
        admin: None,
        takeover: None,
        workers: None,
        trusted_proxies: Vec::new(),
        request_id: "X-Request-Id".into(),
        access_log: None,
        server: config::Server {
            max_connections: 1,
            max_connections_per_client: None,
            request_line_bytes: 1,
            head_bytes: 1,
            fields: 1,
            body_bytes: None,
            head_timeout: None,
            body_idle_timeout: None,
            keep_alive: None,
            drain: None,
        },
        redis: None,
        upstreams,
        limits: Vec::new(),
        caches: Vec::new(),
        gateway_limits: Vec::new(),
        routes: Vec::new(),
    }
}

#[test]
fn targets_breakers_and_queues_are_shown() {
    let mut guarded = upstream("guarded", vec![target(1)]);
    guarded.breaker = Some(config::Breaker { failures: 0.5, of_last: 2, open_for: Duration::from_secs(5) });
    guarded.queue = Some(config::Queue { size: 3, timeout: Duration::from_secs(1) });
    let plain = upstream("plain", vec![target(2), target(3), target(3)]);
    let clock = Clock::manual();
    let upstreams = Arc::new(Upstreams::new(&config(vec![guarded, plain]), clock.clone()));
    let views = Views::new(upstreams.clone(), 7);
    let pick = |upstream| -> Lease {
        match views.get(UpstreamId(upstream)).pick(&Request::default(), clock.now()) {
            Pick::Target(lease) => lease,
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..2 {
        pick(0).failure(FailureKind::Reset, clock.now());
    }
    let _held = pick(1);

    let metrics = Metrics::new();
    metrics.add_source(Arc::new(move |out: &mut Exposition<'_>| collect_upstreams(&upstreams.snapshot(), out)));
    let m = read(&metrics);
    let guarded = r#"target="127.0.0.1:1",upstream="guarded""#;
    for (sample, value) in [
        (format!("upstream_target_ready{{{guarded}}}"), 0.0),
        (format!("upstream_target_ejected{{{guarded}}}"), 0.0),
        (format!("upstream_target_attempts_total{{{guarded}}}"), 2.0),
        (format!("upstream_target_failures_total{{kind=\"reset\",{guarded}}}"), 2.0),
        (format!("upstream_target_ejections_total{{{guarded}}}"), 0.0),
        (r#"upstream_breaker_state{state="open",target="127.0.0.1:1",upstream="guarded"}"#.into(), 1.0),
        (r#"upstream_breaker_state{state="closed",target="127.0.0.1:1",upstream="guarded"}"#.into(), 0.0),
        (r#"upstream_breaker_state{state="half_open",target="127.0.0.1:1",upstream="guarded"}"#.into(), 0.0),
        (format!("upstream_breaker_opened_total{{{guarded}}}"), 1.0),
        (r#"upstream_queue_waiting{upstream="guarded"}"#.into(), 0.0),
        (r#"upstream_queue_refused_total{upstream="guarded"}"#.into(), 0.0),
        (r#"upstream_retries_denied_total{upstream="plain"}"#.into(), 0.0),
        (r#"upstream_target_ready{target="127.0.0.1:2",upstream="plain"}"#.into(), 1.0),
    ] {
        assert_eq!(m.get(&sample), Some(value), "{sample}");
    }
    let in_flight: f64 =
        m.samples.iter().filter(|(k, _)| k.starts_with("upstream_target_in_flight")).map(|(_, v)| v).sum();
    assert_eq!(in_flight, 1.0);
    for absent in
        ["upstream_target_healthy{", "upstream_target_ewma_seconds{", r#"upstream_queue_waiting{upstream="plain"}"#]
    {
        assert!(!m.samples.keys().any(|k| k.starts_with(absent)), "{absent}: nothing is known");
    }
}
