//! The registry: what survives a reload, and helpers for the tests of all parts.

use std::num::NonZeroU32;
use std::time::Duration;

use super::target::TargetState;
use super::*;
use crate::config::{
    AccessLog, Balance, Breaker as BreakerSpec, Eject, Health as HealthSpec, Mode, Retry, RetryOn, Server, Timeouts,
    UpstreamKeepAlive,
};
use crate::config::{ConnectionUse, DemoService, Http2, TargetAddress, TcpOptions};

pub(super) fn ip(number: u8) -> TargetAddress {
    TargetAddress::Ip(socket(number))
}

pub(super) fn name(host: &str) -> TargetAddress {
    TargetAddress::Name { host: host.into(), port: 80 }
}

pub(super) fn target(address: TargetAddress, weight: u32) -> config::Target {
    config::Target {
        address,
        tls_name: None,
        authority: None,
        base_path: "".into(),
        weight: NonZeroU32::new(weight).unwrap(),
    }
}

/// An upstream "u" at 10.0.0.1, 10.0.0.2, ... with these weights and nothing else switched on.
pub(super) fn spec(balance: Balance, weights: &[u32]) -> config::Upstream {
    let targets = (1u8..).zip(weights).map(|(number, &weight)| target(ip(number), weight));
    config::Upstream {
        tls: None,
        protocol: config::UpstreamProtocol::default(),
        http2: config::UpstreamHttp2::default(),
        name: "u".into(),
        targets: targets.collect(),
        targets_file: None,
        balance,
        health: None,
        eject: None,
        slow_start: None,
        breaker: None,
        timeouts: Timeouts::default(),
        retry: Retry { extra_attempts: 1, budget: 0.2, on: RetryOn::default() },
        keep_alive: UpstreamKeepAlive {
            idle: Duration::from_secs(60),
            max_idle: 1024,
            used_for: ConnectionUse::default(),
        },
        proxy_protocol: None,
        tcp: TcpOptions::default(),
        max_in_flight: None,
        queue: None,
    }
}

/// `balance: inference` as a file leaves it.
pub(super) fn inference() -> config::Inference {
    config::Inference {
        engine: llm::balance::Engine::Vllm,
        path: "/metrics".into(),
        names: config::EngineNames::default(),
        scrape: Duration::from_secs(1),
        isolate: false,
        settings: llm::balance::Settings::default(),
    }
}

pub(super) fn config(upstreams: Vec<config::Upstream>) -> Config {
    Config {
        providers: Vec::new(),
        models: Vec::new(),
        ai: crate::config::Ai { held_bytes: 256 << 20, reserve_output: 1024 },
        budgets: Vec::new(),
        currency: None,
        auth: Vec::new(),
        gateway_auth: crate::config::RouteAuth::default(),
        mode: Mode::File,
        listen: Vec::new(),
        tls_files: Vec::new(),
        admin: None,
        console: config::Console::default(),
        takeover: None,
        workers: None,
        trusted_proxies: crate::config::TrustedProxies::default(),
        untrusted_headers: config::UntrustedHeaders { strip: true, keep: Vec::new() },
        request_id: "X-Request-Id".into(),
        server_timing: crate::config::ServerTiming::None,
        access_log: None::<AccessLog>,
        telemetry: config::Telemetry::default(),
        redaction: config::redact::Redaction::default(),
        server: Server {
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
            drain_delay: Duration::ZERO,
            connection: ConnectionUse::default(),
            raises_files: true,
            http2: Http2::default(),
            path: crate::route::path::Policy::default(),
            is_content_length_strict: false,
            returns_request_id: true,
            coalesce: false,
            auth_failures: None,
        },
        redis: None,
        upstreams,
        limits: Vec::new(),
        caches: Vec::new(),
        gateway_limits: Vec::new(),
        apis: Vec::new(),
        gateway_errors: None,
        routes: Vec::new(),
    }
}

/// One upstream on a manual clock, and a worker's view of it.
pub(super) struct Rig {
    pub(super) clock: Clock,
    pub(super) upstreams: Arc<Upstreams>,
    pub(super) views: Views,
}

impl Rig {
    pub(super) fn new(spec: config::Upstream) -> Rig {
        let clock = Clock::manual();
        let upstreams = Arc::new(Upstreams::new(&config(vec![spec]), clock.clone()));
        let views = Views::new(upstreams.clone(), 7);
        Rig { clock, upstreams, views }
    }

    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        self.upstreams.get(UpstreamId(0))
    }

    pub(super) fn view(&self) -> &View {
        self.views.get(UpstreamId(0))
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    pub(super) fn advance(&self, span: Duration) {
        self.clock.set(self.clock.now().after(span));
    }

    pub(super) fn reload(&mut self, spec: config::Upstream) {
        self.upstreams = Arc::new(Upstreams::reload(&config(vec![spec]), &self.upstreams));
        self.views = self.views.reload(self.upstreams.clone(), 8);
    }

    pub(super) fn pick(&self) -> Pick {
        self.view().pick(&Request::default(), self.now())
    }

    /// A pick that must give a target.
    pub(super) fn lease(&self) -> Lease {
        match self.pick() {
            Pick::Target(lease) => lease,
            other => panic!("no target: {other:?}"),
        }
    }

    /// One request that ends with this outcome at whatever target; returns the target's number.
    pub(super) fn request(&self, outcome: Option<FailureKind>) -> u8 {
        let mut lease = self.lease();
        match outcome {
            None => lease.success(self.now()),
            Some(kind) => lease.failure(kind, self.now()),
        }
        number(&lease)
    }

    /// The host "model" has these addresses.
    pub(super) fn resolve(&self, numbers: &[u8]) {
        let addresses = numbers.iter().map(|number| socket(*number).ip());
        self.upstreams.set_addresses(&"model".into(), Ok(addresses.collect()));
    }

    /// State of the target of a number.
    pub(super) fn state(&self, number: u8) -> Arc<TargetState> {
        let set = self.upstream().published.load();
        let found = set.targets.iter().find(|target| target.address == Address::Tcp(socket(number)));
        found.expect("no target of this number").state.clone()
    }
}

pub(super) fn socket(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 80))
}

/// Last byte of the target's address.
pub(super) fn number(lease: &Lease) -> u8 {
    number_of(lease.target())
}

fn number_of(target: &Target) -> u8 {
    match target.address() {
        Address::Tcp(SocketAddr::V4(address)) => address.ip().octets()[3],
        other => panic!("{other} has no number"),
    }
}

fn numbers(rig: &Rig) -> Vec<u8> {
    rig.upstream().published.load().targets.iter().map(number_of).collect()
}

#[test]
fn a_lease_counts_while_it_lives_and_may_go_to_another_thread() {
    let rig = Rig::new(spec(Balance::LeastRequest, &[1]));
    let lease = rig.lease();
    assert_eq!(rig.state(1).in_flight(), 1);
    std::thread::spawn(move || drop(lease)).join().unwrap();
    assert_eq!(rig.state(1).in_flight(), 0);
    assert_eq!(rig.state(1).requests(), 1);
}

#[test]
fn a_reload_keeps_the_state_of_targets_that_stay() {
    let mut rig = Rig::new(spec(Balance::RoundRobin, &[1, 1]));
    let leases = [rig.lease(), rig.lease()];
    let ids = [rig.state(1).id, rig.state(2).id];

    let mut next = spec(Balance::LeastRequest, &[1, 1]);
    next.targets = vec![target(ip(2), 5), target(ip(3), 1)];
    next.max_in_flight = NonZeroU32::new(1);
    rig.reload(next);

    assert_eq!(numbers(&rig), [2, 3]);
    assert_eq!(rig.state(2).id, ids[1]);
    assert_eq!(rig.state(2).in_flight(), 1);
    assert!(!ids.contains(&rig.state(3).id));
    // The new bound counts what was in flight before.
    let lease = rig.lease();
    assert_eq!(number(&lease), 3);
    assert!(matches!(rig.pick(), Pick::Busy));
    drop(leases);
    assert_eq!(number(&rig.lease()), 2);
}

#[test]
fn a_worker_with_the_old_configuration_sees_the_new_targets() {
    let rig = Rig::new(spec(Balance::RoundRobin, &[1]));
    let mut next = spec(Balance::RoundRobin, &[1]);
    next.targets = vec![target(ip(9), 1)];
    let _new = Upstreams::reload(&config(vec![next]), &rig.upstreams);
    assert_eq!(number(&rig.lease()), 9);
}

/// With thousands of upstreams a reload is about one of them.
#[test]
fn a_reload_makes_no_new_set_of_an_upstream_that_is_the_same() {
    let (rig, other) = (Rig::new(spec(Balance::RoundRobin, &[1, 1])), spec(Balance::LeastRequest, &[1, 1]));
    let generation = || rig.upstream().published.load().generation;
    let before = generation();
    let same = Upstreams::reload(&config(vec![spec(Balance::RoundRobin, &[1, 1])]), &rig.upstreams);
    assert_eq!(generation(), before);
    let _changed = Upstreams::reload(&config(vec![other]), &same);
    assert_eq!(generation(), before + 1);
}

#[test]
fn an_upstream_of_another_name_is_another_one() {
    let mut rig = Rig::new(spec(Balance::RoundRobin, &[1]));
    let before = rig.state(1).id;
    let mut other = spec(Balance::RoundRobin, &[1]);
    other.name = "v".into();
    rig.reload(other);
    assert_ne!(rig.state(1).id, before);
}

#[test]
fn two_targets_with_one_address_have_their_own_states_and_keep_them() {
    let mut twice = spec(Balance::RoundRobin, &[1]);
    twice.targets = vec![target(ip(1), 1), target(ip(1), 2)];
    let mut rig = Rig::new(twice.clone());
    let ids = |rig: &Rig| -> Vec<TargetId> { rig.upstream().published.load().targets.iter().map(Target::id).collect() };
    let before = ids(&rig);
    assert_ne!(before[0], before[1]);
    rig.reload(twice);
    assert_eq!(ids(&rig), before);
}

#[test]
fn a_name_is_unavailable_until_it_is_resolved_and_follows_its_responses() {
    let mut named = spec(Balance::RoundRobin, &[1]);
    named.targets = vec![target(name("model"), 3)];
    let mut rig = Rig::new(named.clone());
    assert!(matches!(rig.pick(), Pick::Unavailable));

    rig.resolve(&[2, 1, 2]);
    assert_eq!(numbers(&rig), [1, 2]);
    let (kept, generation) = (rig.state(2).id, rig.upstream().published.load().generation);
    rig.resolve(&[1, 2]);
    rig.upstreams.set_addresses(&"other".into(), Ok(vec![socket(9).ip()]));
    assert_eq!(rig.upstream().published.load().generation, generation, "nothing changed for this upstream");

    rig.resolve(&[2, 3]);
    assert_eq!(numbers(&rig), [2, 3]);
    assert_eq!(rig.state(2).id, kept);

    // A failure keeps what is known, and is shown.
    rig.upstreams.set_addresses(&"model".into(), Err("no such name".into()));
    assert_eq!(numbers(&rig), [2, 3]);
    let shown = &rig.upstream().snapshot().names[0];
    assert_eq!((shown.addresses.len(), shown.error.as_deref()), (2, Some("no such name")));

    // A reload does not forget what is resolved, also when the target moves within the list.
    named.targets.insert(0, target(ip(7), 1));
    rig.reload(named);
    assert_eq!(numbers(&rig), [7, 2, 3]);
    assert_eq!(rig.state(2).id, kept);
}

#[test]
fn an_address_that_comes_back_while_requests_to_it_are_under_way_has_their_count() {
    let mut named = spec(Balance::RoundRobin, &[1]);
    named.targets = vec![target(name("model"), 1)];
    named.max_in_flight = NonZeroU32::new(1);
    let rig = Rig::new(named);
    rig.resolve(&[1]);
    let lease = rig.lease();
    rig.resolve(&[2]);
    let other = rig.lease();
    rig.resolve(&[1]);
    assert!(matches!(rig.pick(), Pick::Busy));
    drop(lease);
    assert_eq!(number(&rig.lease()), 1);
    drop(other);
    // Once no request is in flight and every worker has looked, nothing is kept of a target that has been removed.
    let id = rig.state(1).id;
    rig.resolve(&[2]);
    drop(rig.lease());
    rig.resolve(&[1]);
    assert_ne!(rig.state(1).id, id);
}

#[test]
fn the_demo_has_an_address_once_it_listens_and_after_reloads() {
    let mut demo = spec(Balance::RoundRobin, &[1]);
    demo.targets = vec![target(TargetAddress::Demo(DemoService::Plain), 1)];
    let mut rig = Rig::new(demo.clone());
    assert!(matches!(rig.pick(), Pick::Unavailable));
    rig.upstreams.set_demo_address(DemoService::Plain, socket(4));
    assert_eq!(number(&rig.lease()), 4);
    demo.name = "v".into();
    rig.reload(demo);
    assert_eq!(number(&rig.lease()), 4);
}

#[test]
fn a_breaker_starts_anew_when_its_numbers_change_and_only_then() {
    let breaker = BreakerSpec { failures: 0.5, of_last: 2, open_for: Duration::from_secs(5) };
    let mut with = spec(Balance::RoundRobin, &[1]);
    with.breaker = Some(breaker.clone());
    let mut rig = Rig::new(with.clone());
    rig.request(Some(FailureKind::Reset));
    rig.request(Some(FailureKind::Reset));
    assert!(matches!(rig.pick(), Pick::Unavailable));
    rig.reload(with.clone());
    assert!(matches!(rig.pick(), Pick::Unavailable));
    with.breaker = Some(BreakerSpec { of_last: 3, ..breaker });
    rig.reload(with);
    assert!(matches!(rig.pick(), Pick::Target(_)));
}

#[test]
fn without_checks_nothing_stays_unhealthy_after_a_reload() {
    let mut checked = spec(Balance::RoundRobin, &[1]);
    checked.health = Some(HealthSpec {
        protocol: config::UpstreamProtocol::Http1,
        proxy_protocol: None,
        grpc: None,
        path: "/".into(),
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        healthy_after: 1,
        unhealthy_after: 1,
        status: (200, 399),
    });
    let mut rig = Rig::new(checked.clone());
    rig.state(1).set_health(Health::Unhealthy);
    rig.reload(checked.clone());
    assert!(matches!(rig.pick(), Pick::Unavailable));
    checked.health = None;
    rig.reload(checked);
    assert!(matches!(rig.pick(), Pick::Target(_)));
}

#[test]
fn a_snapshot_says_what_is_wrong_with_a_target() {
    let mut all = spec(Balance::Ewma, &[1, 1, 1, 1]);
    all.eject = Some(Eject { after: 1, period: Duration::from_secs(10), max_share: 1.0 });
    all.breaker = Some(BreakerSpec { failures: 1.0, of_last: 1, open_for: Duration::from_secs(5) });
    all.max_in_flight = NonZeroU32::new(1);
    let rig = Rig::new(all);
    // One request to each: one in progress, one failed, one responded, and one target is found dead.
    let mut leases: Vec<Lease> = (0..4).map(|_| rig.lease()).collect();
    leases.sort_by_key(number);
    leases[1].failure(FailureKind::Status503, rig.now());
    leases[2].first_byte(Duration::from_micros(2500), rig.now());
    leases[2].success(rig.now());
    leases.truncate(1);
    rig.state(4).set_health(Health::Unhealthy);
    rig.advance(Duration::from_millis(500));

    let snapshot = rig.upstream().snapshot();
    let states: Vec<TargetCondition> = snapshot.targets.iter().map(|t| t.state).collect();
    use TargetCondition::{BreakerOpen, Full, Ready, Unhealthy};
    assert_eq!(states, [Full, BreakerOpen, Ready, Unhealthy]);
    let failed = &snapshot.targets[1];
    assert_eq!(failed.failures.of(FailureKind::Status503), 1);
    assert_eq!(failed.failures.total(), 1);
    assert_eq!(failed.ejected_for_ms, Some(9500));
    assert_eq!(failed.breaker, Some(BreakerState::Open));
    assert_eq!((failed.ejections, failed.breaker_opened), (1, 1));
    assert_eq!(snapshot.targets[2].ewma_ms, Some(2.5));
    assert_eq!(snapshot.targets[0].ewma_ms, None);

    rig.advance(Duration::from_secs(5));
    let later = rig.upstream().snapshot();
    assert_eq!(later.targets[1].state, TargetCondition::Ejected);
    assert_eq!(later.targets[1].breaker, Some(BreakerState::HalfOpen));
}
