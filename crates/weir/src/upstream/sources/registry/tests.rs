use std::num::NonZeroU32;

use super::*;
use crate::config::{self, Balance, EndpointPort, KubernetesService, TargetAddress, UpstreamId};
use crate::upstream::control::tests::at;
use crate::upstream::tests::{config as config_of, spec};
use crate::upstream::{Clock, Pick, Request, UpstreamSnapshot, Views};

fn registry() -> Arc<Registry> {
    let port = EndpointPort::Name("http".into());
    Arc::new(Registry::Kubernetes(KubernetesService { namespace: "shop".into(), name: "orders".into(), port }))
}

fn upstreams() -> Arc<Upstreams> {
    let mut target = at(TargetAddress::Registry(registry()));
    target.authority = Some("orders.shop.svc".into());
    let upstream = config::Upstream { targets: vec![target], ..spec(Balance::RoundRobin, &[]) };
    Arc::new(Upstreams::new(&config_of(vec![upstream]), Clock::start()))
}

fn endpoint(host: &str, weight: u32) -> Endpoint {
    let host = host.parse().map_or_else(|_| Host::Name(host.into()), Host::Ip);
    Endpoint { host, port: 80, weight: NonZeroU32::new(weight).unwrap() }
}

fn snapshot(upstreams: &Upstreams) -> UpstreamSnapshot {
    upstreams.get(UpstreamId(0)).snapshot()
}

fn addresses(upstreams: &Upstreams) -> Vec<String> {
    snapshot(upstreams).targets.into_iter().map(|target| target.address).collect()
}

#[test]
fn what_stays_keeps_its_state_and_a_failure_changes_nothing() {
    let upstreams = upstreams();
    let views = Views::new(upstreams.clone(), 1);
    let pick = || views.get(UpstreamId(0)).pick(&Request::default(), upstreams.clock().now());
    assert!(matches!(pick(), Pick::Unavailable), "before the first response");
    upstreams.set_registry(&registry(), Ok(vec![endpoint("10.0.0.1", 2), endpoint("10.0.0.2", 1)]));
    let before = snapshot(&upstreams);
    for target in &before.targets {
        let expected = (Some("kubernetes:shop/orders:http"), Some("orders.shop.svc"));
        assert_eq!((target.source.as_deref(), target.authority.as_deref()), expected);
    }
    assert_eq!(before.targets.iter().map(|target| target.weight).collect::<Vec<_>>(), [2, 1]);
    let Pick::Target(busy) = pick() else { panic!("a target") };
    let stays = busy.target().address().socket().unwrap().ip().to_string();

    upstreams.set_registry(&registry(), Err("away".into()));
    let source = snapshot(&upstreams).sources.remove(0);
    assert_eq!((source.targets, source.successes, source.failures, source.error.as_deref()), (2, 1, 1, Some("away")));
    assert_eq!(addresses(&upstreams), ["10.0.0.1:80", "10.0.0.2:80"]);

    upstreams.set_registry(&registry(), Ok(vec![endpoint("10.0.0.0", 1), endpoint(&stays, 1)]));
    let after = snapshot(&upstreams);
    assert_eq!(addresses(&upstreams), ["10.0.0.0:80".to_owned(), format!("{stays}:80")]);
    assert_eq!((after.targets[1].id, after.targets[1].in_flight), (busy.target().id(), 1));
    assert_eq!(after.sources[0].error, None);

    // An empty list is meant.
    upstreams.set_registry(&registry(), Ok(Vec::new()));
    assert!(matches!(pick(), Pick::Unavailable));
    upstreams.set_registry(&registry(), Ok(vec![endpoint(&stays, 1)]));
    assert_eq!(snapshot(&upstreams).targets[0].id, busy.target().id());
}

#[test]
fn a_response_concerns_the_upstreams_that_name_the_service() {
    let of = |name: &str| {
        let port = EndpointPort::Name("http".into());
        Arc::new(Registry::Kubernetes(KubernetesService { namespace: "shop".into(), name: name.into(), port }))
    };
    let upstream = |name: &str, service: &str| config::Upstream {
        name: name.into(),
        targets: vec![at(TargetAddress::Registry(of(service)))],
        ..spec(Balance::RoundRobin, &[])
    };
    let config = config_of(vec![upstream("a", "orders"), upstream("b", "users"), upstream("c", "orders")]);
    let upstreams = Upstreams::new(&config, Clock::start());
    let targets = || [0, 1, 2].map(|id| upstreams.get(UpstreamId(id)).snapshot().targets.len());
    // It is known but not taken in: whoever looks would see it.
    upstreams.note_registry(&of("users"), Ok(vec![endpoint("10.0.0.9", 1)]));
    upstreams.set_registry(&of("orders"), Ok(vec![endpoint("10.0.0.1", 1), endpoint("10.0.0.2", 1)]));
    assert_eq!(targets(), [2, 0, 2]);
    upstreams.set_registry(&of("users"), Ok(Vec::new()));
    upstreams.set_registry(&of("users"), Ok(vec![endpoint("10.0.0.9", 1)]));
    assert_eq!(targets(), [2, 1, 2]);
}

#[test]
fn a_reload_keeps_what_is_known() {
    let upstreams = upstreams();
    upstreams.set_registry(&registry(), Ok(vec![endpoint("10.0.0.1", 1)]));
    let id = snapshot(&upstreams).targets[0].id;
    let mut changed =
        config::Upstream { targets: vec![at(TargetAddress::Registry(registry()))], ..spec(Balance::LeastRequest, &[]) };
    let next = Upstreams::reload(&config_of(vec![changed.clone()]), &upstreams);
    assert_eq!((addresses(&next), snapshot(&next).targets[0].id), (vec!["10.0.0.1:80".to_owned()], id));
    assert!(next.unknown_registries(&config_of(vec![changed.clone()])).is_empty());
    // Another service, of which nothing is known yet: the targets of before stay.
    let other = Arc::new(Registry::Consul(config::ConsulService {
        name: "orders".into(),
        address: "http://127.0.0.1:8500".into(),
        tag: None,
        datacenter: None,
        token: None,
    }));
    changed.targets = vec![at(TargetAddress::Registry(other.clone()))];
    let config = config_of(vec![changed]);
    assert_eq!(next.unknown_registries(&config), std::slice::from_ref(&other));
    let next = Upstreams::reload(&config, &next);
    assert_eq!(addresses(&next), ["10.0.0.1:80"]);
    next.set_registry(&other, Ok(vec![endpoint("10.0.0.2", 1), endpoint("10.0.0.1", 1)]));
    assert_eq!(snapshot(&next).targets[1].id, id);
}

#[test]
fn hosts_of_endpoints_are_resolved_as_other_names() {
    let upstreams = upstreams();
    upstreams.set_registry(&registry(), Ok(vec![endpoint("10.0.0.1", 1), endpoint("node.test", 3)]));
    assert_eq!(addresses(&upstreams), ["10.0.0.1:80"]);
    assert!(upstreams.hosts().contains("node.test"));
    upstreams.set_addresses(&"node.test".into(), Ok(vec!["10.0.0.3".parse().unwrap(), "10.0.0.2".parse().unwrap()]));
    assert_eq!(addresses(&upstreams), ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]);
    assert_eq!(snapshot(&upstreams).targets[2].weight, 3);
}

#[test]
fn pauses_after_failures_grow_and_differ() {
    let (mut one, mut other) = (Backoff::new(), Backoff::new());
    let pace = Pace::default();
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        let whole = Duration::from_secs(seconds);
        let pauses = [one.fail(&pace), other.fail(&pace)];
        assert!(pauses.iter().all(|pause| (whole / 2..=whole).contains(pause)), "{pauses:?} of {whole:?}");
        assert_ne!(pauses[0], pauses[1]);
    }
    one.reset();
    assert!(one.fail(&pace) <= Duration::from_secs(1));
}

#[test]
fn what_went_well_for_longer_than_the_pause_ends_it() {
    let (mut backoff, pace) = (Backoff::new(), Pace::default());
    for _ in 0..5 {
        backoff.fail(&pace);
    }
    backoff.held(Duration::from_secs(3), &pace);
    assert!(backoff.fail(&pace) > Duration::from_secs(1));
    backoff.held(Duration::from_secs(60), &pace);
    assert!(backoff.fail(&pace) <= Duration::from_secs(1));
}

#[test]
fn a_reason_is_shown_up_to_a_length() {
    assert_eq!(shortened("short".to_owned()), "short");
    let long = shortened("ä".repeat(1000));
    assert!(long.len() <= MAX_WHY + 4 && long.ends_with("ä…"), "{long}");
}
