//! With a name server of our own on a real socket, and the control thread as the gateway runs it.

use std::collections::BTreeMap;

use testkit::{DEADLINE, responder, wait};

use super::*;
use crate::config::{Balance, TargetAddress, UpstreamId};
use crate::upstream::control::tests::{Control, at, checked};
use crate::upstream::resolve::tests::{NameServer, ResolverOf as _};
use crate::upstream::tests::{config as config_of, spec};
use crate::upstream::{Clock, Pick, Request, SourceSnapshot, TargetCondition, UpstreamSnapshot, Views};

const NAME: &str = "_api._tcp.test";

/// An upstream `u` of the service.
fn upstream(balance: Balance) -> config::Upstream {
    let mut target = at(TargetAddress::Service(NAME.into()));
    target.authority = Some("test".into());
    config::Upstream { targets: vec![target], ..spec(balance, &[]) }
}

fn start(server: &NameServer) -> Control {
    Control::start(vec![upstream(Balance::RoundRobin)], server.resolver())
}

fn snapshot(control: &Control) -> UpstreamSnapshot {
    control.current().get(UpstreamId(0)).snapshot()
}

fn source(control: &Control) -> SourceSnapshot {
    snapshot(control).sources.remove(0)
}

fn wait_for_error(control: &Control, words: &str) {
    let has_it = || source(control).error.is_some_and(|error| error.contains(words));
    wait::until(DEADLINE, &format!("an error with {words:?}"), has_it);
}

/// How often each target is picked in so many requests one after the other.
fn picks(control: &Control, count: usize) -> BTreeMap<String, usize> {
    let views = Views::new(control.current(), 1);
    let mut picked = BTreeMap::new();
    for _ in 0..count {
        match views.get(UpstreamId(0)).pick(&Request::default(), control.current().clock().now()) {
            Pick::Target(lease) => *picked.entry(lease.target().address().to_string()).or_default() += 1,
            other => panic!("{other:?}"),
        }
    }
    picked
}

fn record(priority: u16, weight: u16, port: u16, host: &str) -> SRV {
    SRV::new(priority, weight, port, Name::from_ascii(host).unwrap())
}

#[test]
fn records_are_ordered_by_priority_and_every_weight_is_above_zero() {
    let response = [
        record(20, 0, 80, "c.test."),
        record(10, 5, 81, "B.test."),
        record(10, 0, 80, "a.test."),
        record(65535, 65535, 80, "d.test."),
        record(30, 9, 81, "b.test."),
        record(10, 1, 0, "e.test."),
        record(10, 1, 80, "."),
        record(10, 1, 80, "10.0.0.1."),
    ];
    let found = records(response.iter()).unwrap();
    let told: Vec<_> = found.iter().map(|r| (r.tier, &*r.host, r.port, r.weight.get())).collect();
    assert_eq!(
        told,
        [(0, "a.test.", 80, 1), (0, "b.test.", 81, 5), (1, "c.test.", 80, 1), (2, "d.test.", 80, 65535)],
        "without port 0, an address and what is named twice"
    );
}

#[test]
fn no_service_is_a_response_and_no_usable_record_is_none() {
    assert_eq!(records([record(0, 0, 0, ".")].iter()), Ok(Vec::new()));
    assert!(records([].iter()).is_err());
    assert!(records([record(0, 0, 0, "a.test.")].iter()).is_err_and(|why| why.contains("port 0")));
    let many: Vec<SRV> = (1..=1001).map(|port| record(0, 0, port, "a.test.")).collect();
    assert_eq!(records(many[1..].iter()).unwrap().len(), 1000);
    assert!(records(many.iter()).is_err_and(|why| why.contains("at most 1000")));
}

#[test]
fn targets_follow_the_records_and_the_addresses_of_their_hosts() {
    let server = NameServer::start();
    server.set("a.test", 0, &["10.0.0.1"]);
    server.set("b.test", 0, &["10.0.0.2", "10.0.0.3"]);
    server.set_service(NAME, 0, &[(0, 2, 8001, "a.test."), (0, 1, 8002, "b.test.")]);
    let control = start(&server);
    control.wait_for_targets(0, &["10.0.0.1:8001", "10.0.0.2:8002", "10.0.0.3:8002"]);
    let before = snapshot(&control);
    assert_eq!(before.targets.iter().map(|target| target.weight).collect::<Vec<_>>(), [2, 1, 1]);
    for target in &before.targets {
        assert_eq!((target.source.as_deref(), target.authority.as_deref()), (Some("srv:_api._tcp.test"), Some("test")));
    }
    // Added and removed; what stays is the same target.
    server.set_service(NAME, 0, &[(0, 2, 8001, "a.test."), (0, 1, 8003, "a.test.")]);
    control.wait_for_targets(0, &["10.0.0.1:8001", "10.0.0.1:8003"]);
    assert_eq!(snapshot(&control).targets[0].id, before.targets[0].id);
    server.set("a.test", 0, &["10.0.0.9"]);
    control.wait_for_targets(0, &["10.0.0.9:8001", "10.0.0.9:8003"]);
    // A host that does not resolve is no target, and takes no other away.
    server.set_service(NAME, 0, &[(0, 2, 8001, "a.test."), (0, 1, 8003, "unknown.test.")]);
    control.wait_for_targets(0, &["10.0.0.9:8001"]);
    let names = snapshot(&control).names;
    assert!(names.iter().any(|name| name.host == "unknown.test." && name.error.is_some()), "{names:?}");
}

#[test]
fn failures_keep_the_last_good_records_and_are_counted() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1"]);
    let records = [(0, 0, 80, "a.test.")];
    server.set_service(NAME, 0, &records);
    let control = start(&server);
    control.wait_for_targets(0, &["10.0.0.1:80"]);
    let breaks: [(&dyn Fn(), &str); 5] = [
        (&|| server.die(true), ""),
        (&|| server.fail(2), ""),
        (&|| server.forget_service(NAME), ""),
        (&|| server.set_service(NAME, 0, &[]), ""),
        (&|| server.set_service(NAME, 0, &[(0, 0, 0, "a.test.")]), "no SRV record of the DNS response can be used"),
    ];
    for (break_it, words) in breaks {
        let failures = source(&control).failures;
        break_it();
        wait_for_error(&control, words);
        wait::until(DEADLINE, "it is tried again", || source(&control).failures >= failures + 3);
        assert_eq!(control.targets(0), ["10.0.0.1:80"]);
        server.die(false);
        server.fail(0);
        server.set_service(NAME, 0, &records);
        wait::until(DEADLINE, "it works again", || source(&control).error.is_none());
    }
    assert!(source(&control).successes >= 6);
}

#[test]
fn repetitions_after_failures_slow_down() {
    let server = NameServer::start();
    let resolver = server.resolver();
    let pauses: Vec<u128> = (1..=5).map(|failures| resolver.pace().after_failures(failures).as_millis()).collect();
    assert_eq!(pauses, [10, 20, 40, 40, 40]);
    let usual = crate::upstream::resolve::Pace::default();
    let pauses: Vec<u64> = (1..=7).map(|failures| usual.after_failures(failures).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
}

#[tokio::test]
async fn a_response_is_believed_as_long_as_it_says_within_bounds() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1"]);
    let resolver = server.resolver();
    let valid_for = async |ttl| {
        server.set_service(NAME, ttl, &[(0, 0, 80, "a.test.")]);
        look_up(NAME, &resolver, |_| true).await.expect("a response").valid_for
    };
    assert_eq!(valid_for(0).await, resolver.pace().min);
    assert_eq!(valid_for(3_000_000).await, resolver.pace().max);
    let between = valid_for(60).await;
    assert!(between > resolver.pace().min && between <= Duration::from_secs(60), "{between:?}");
}

#[test]
fn a_service_with_a_long_ttl_is_left_alone() {
    let server = NameServer::start();
    server.set("a.test", 0, &["10.0.0.1"]);
    server.set_service(NAME, 300, &[(0, 0, 80, "a.test.")]);
    let control = start(&server);
    control.wait_for_targets(0, &["10.0.0.1:80"]);
    // The host, whose TTL is short, is a clock: it is queried again and again.
    let requested = server.requested("a.test");
    wait::until(DEADLINE, "the host is queried", || server.requested("a.test") >= requested + 20);
    assert_eq!(server.requested(NAME), 1);
}

#[test]
fn a_domain_may_say_that_there_is_no_such_service() {
    let server = NameServer::start();
    server.set("a.test", 0, &["10.0.0.1"]);
    server.set_service(NAME, 0, &[(0, 0, 80, "a.test.")]);
    let control = start(&server);
    control.wait_for_targets(0, &["10.0.0.1:80"]);
    server.set_service(NAME, 0, &[(0, 0, 0, ".")]);
    control.wait_for_targets(0, &[]);
    assert_eq!(source(&control).error, None);
    server.set_service(NAME, 0, &[(0, 0, 80, "a.test.")]);
    control.wait_for_targets(0, &["10.0.0.1:80"]);
}

#[test]
fn a_response_that_was_cut_off_is_fetched_whole_or_not_taken() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1"]);
    let all: Vec<(u16, u16, u16, &str)> = (1..=3).map(|port| (0, 0, port, "a.test.")).collect();
    server.set_service(NAME, 0, &all);
    server.cut_off(true, false);
    let control = start(&server);
    control.wait_for_targets(0, &["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"]);
    server.cut_off(true, true);
    wait_for_error(&control, "");
    assert_eq!(control.targets(0).len(), 3);
    // As many as may be, and too many, which fit over TCP alone.
    server.cut_off(false, false);
    let many: Vec<(u16, u16, u16, &str)> = (1..=1001).map(|port| (0, 0, port, "a.test.")).collect();
    server.set_service(NAME, 0, &many[..1000]);
    wait::until(DEADLINE, "a thousand targets", || control.targets(0).len() == 1000);
    server.set_service(NAME, 0, &many);
    wait_for_error(&control, "1001 SRV records; at most 1000");
    assert_eq!(control.targets(0).len(), 1000);
}

#[test]
fn addresses_beyond_the_bound_are_left_out() {
    let server = NameServer::start();
    // Hosts that share their addresses cost the sender of the response little.
    let addresses: Vec<String> = (0..64).map(|n| format!("10.0.0.{n}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    server.set("a.test", 60, &addresses);
    let many: Vec<(u16, u16, u16, &str)> = (1..=1000).map(|port| (0, 0, port, "a.test.")).collect();
    server.set_service(NAME, 60, &many);
    let control = start(&server);
    wait::until(DEADLINE, "as many as are allowed", || control.targets(0).len() == config::MAX_TARGETS);
}

#[test]
fn weights_share_requests() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1"]);
    server.set_service(NAME, 60, &[(0, 0, 1, "a.test."), (0, 30, 2, "a.test."), (0, 69, 3, "a.test.")]);
    for (balance, slack) in [(Balance::RoundRobin, 1), (Balance::LeastRequest, 60)] {
        let control = Control::start(vec![upstream(balance)], server.resolver());
        control.wait_for_targets(0, &["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"]);
        let picked = picks(&control, 1000);
        for (target, share) in [("10.0.0.1:1", 10_usize), ("10.0.0.1:2", 300), ("10.0.0.1:3", 690)] {
            let count = picked.get(target).copied().unwrap_or(0);
            assert!(count.abs_diff(share) <= slack, "{target}: {count} of 1000, not about {share}");
        }
    }
    // Nothing but zeros: all the same.
    server.set_service(NAME, 60, &[(0, 0, 1, "a.test."), (0, 0, 2, "a.test.")]);
    let control = start(&server);
    control.wait_for_targets(0, &["10.0.0.1:1", "10.0.0.1:2"]);
    assert_eq!(picks(&control, 100).into_values().collect::<Vec<_>>(), [50, 50]);
}

#[test]
fn a_later_priority_serves_while_no_target_of_an_earlier_one_can() {
    use TargetCondition::{Ready, Unhealthy};
    let servers = ["a", "b", "c"].map(|body| testkit::Upstream::start(responder::ok(body)));
    let [a, b, c] = servers.each_ref().map(|server| server.socket_addr().port());
    let dns = NameServer::start();
    dns.set("local.test", 60, &["127.0.0.1"]);
    let records = [(1, 1, a, "local.test."), (1, 1, b, "local.test."), (2, 9, c, "local.test.")];
    dns.set_service(NAME, 0, &records);
    let mut one = upstream(Balance::LeastRequest);
    one.health = checked("u", &[]).health;
    let control = Control::start(vec![one], dns.resolver());
    wait::until(DEADLINE, "targets", || control.targets(0).len() == 3);
    let picked = |count| -> Vec<u16> {
        picks(&control, count).into_keys().map(|address| address.rsplit(':').next().unwrap().parse().unwrap()).collect()
    };
    let sorted = |mut ports: Vec<u16>| {
        ports.sort_unstable();
        ports
    };
    let state = |port: u16| {
        let targets = snapshot(&control).targets;
        targets.into_iter().find(|target| target.address.ends_with(&format!(":{port}"))).unwrap().state
    };
    assert_eq!(sorted(picked(100)), sorted(vec![a, b]));
    servers[0].set_responder(responder::status(500));
    wait::until(DEADLINE, "a is unhealthy", || state(a) == Unhealthy);
    assert_eq!(picked(100), [b]);
    servers[1].set_responder(responder::status(500));
    wait::until(DEADLINE, "b is unhealthy", || state(b) == Unhealthy);
    assert_eq!(picked(100), [c]);
    servers[0].set_responder(responder::ok("a"));
    wait::until(DEADLINE, "a is back", || state(a) == Ready);
    assert_eq!(picked(100), [a]);
    // The records change places.
    dns.set_service(NAME, 0, &[(1, 1, c, "local.test."), (2, 1, a, "local.test.")]);
    wait::until(DEADLINE, "c comes first", || picked(20) == [c]);
}

#[test]
fn a_retry_goes_to_a_later_priority_when_the_earlier_one_was_tried_and_a_full_one_is_waited_for() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1"]);
    server.set_service(NAME, 60, &[(0, 0, 1, "a.test."), (5, 0, 2, "a.test.")]);
    let mut one = upstream(Balance::LeastRequest);
    one.max_in_flight = std::num::NonZeroU32::new(1);
    let control = Control::start(vec![one], server.resolver());
    control.wait_for_targets(0, &["10.0.0.1:1", "10.0.0.1:2"]);
    let views = Views::new(control.current(), 1);
    let now = || control.current().clock().now();
    let pick = |request: &Request<'_>| views.get(UpstreamId(0)).pick(request, now());
    let Pick::Target(first) = pick(&Request::default()) else { panic!("a target") };
    assert_eq!(first.target().address().to_string(), "10.0.0.1:1");
    assert!(matches!(pick(&Request::default()), Pick::Busy), "a later priority is for failures, not for load");
    let tried = [first.target().id()];
    drop(first);
    let Pick::Target(second) = pick(&Request { tried: &tried, ..Request::default() }) else { panic!("a target") };
    assert_eq!(second.target().address().to_string(), "10.0.0.1:2");
}

#[test]
fn a_cookie_is_honoured_for_a_target_of_a_later_priority() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1"]);
    server.set_service(NAME, 60, &[(0, 0, 1, "a.test."), (5, 0, 2, "a.test.")]);
    let cookie = config::Affinity { cookie: "c".into(), secret: None };
    let control = Control::start(vec![upstream(Balance::Cookie(cookie))], server.resolver());
    control.wait_for_targets(0, &["10.0.0.1:1", "10.0.0.1:2"]);
    let views = Views::new(control.current(), 1);
    let pick = |request: &Request<'_>| match views.get(UpstreamId(0)).pick(request, control.current().clock().now()) {
        Pick::Target(lease) => lease,
        other => panic!("{other:?}"),
    };
    let first = pick(&Request::default());
    assert_eq!(first.target().address().to_string(), "10.0.0.1:1");
    let tried = [first.target().id()];
    let second = pick(&Request { tried: &tried, ..Request::default() });
    assert_eq!(second.target().address().to_string(), "10.0.0.1:2");
    let again = pick(&Request { wanted: second.target().token().copied(), ..Request::default() });
    assert_eq!(again.target().id(), second.target().id());
}

#[test]
fn hundreds_of_hosts_are_resolved_a_few_at_a_time() {
    let server = NameServer::start();
    let hosts: Vec<String> = (0..300).map(|n| format!("node-{n}.test.")).collect();
    for (n, host) in hosts.iter().enumerate() {
        server.set(host.trim_end_matches('.'), 300, &[&format!("10.0.{}.{}", n / 250, n % 250)]);
    }
    let records: Vec<(u16, u16, u16, &str)> = hosts.iter().map(|host| (0, 0, 80, host.as_str())).collect();
    server.set_service(NAME, 300, &records);
    let control = start(&server);
    wait::until(DEADLINE, "all of them", || control.targets(0).len() == 300);
}

#[test]
fn a_reload_from_a_list_keeps_what_is_in_both() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1", "10.0.0.2"]);
    let listed = spec(Balance::RoundRobin, &[1]); // 10.0.0.1, port 80
    let control = Control::start(vec![listed.clone()], server.resolver());
    let id = snapshot(&control).targets[0].id;
    assert_eq!(snapshot(&control).sources, []);
    // Until there is a response the targets of before stay.
    server.die(true);
    control.reload(vec![upstream(Balance::RoundRobin)]);
    wait_for_error(&control, "");
    assert_eq!(control.targets(0), snapshot(&control).targets.iter().map(|t| t.address.clone()).collect::<Vec<_>>());
    assert_eq!(snapshot(&control).targets[0].id, id);
    let port = snapshot(&control).targets[0].address.rsplit(':').next().unwrap().parse().unwrap();
    server.set_service(NAME, 60, &[(0, 0, port, "a.test.")]);
    server.die(false);
    wait::until(DEADLINE, "both addresses", || control.targets(0).len() == 2);
    assert_eq!(snapshot(&control).targets[0].id, id);
    // And back: the service is not looked up any more.
    control.reload(vec![listed]);
    let is_known = || crate::upstream::lock(&control.current().common.services).contains_key(NAME);
    wait::until(DEADLINE, "the service is forgotten", || !is_known());
    assert_eq!(snapshot(&control).targets[0].id, id);
}

#[test]
fn services_are_looked_up_before_they_are_used() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1"]);
    server.set_service(NAME, 60, &[(0, 0, 80, "a.test.")]);
    let config = config_of(vec![upstream(Balance::RoundRobin)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let upstreams = Upstreams::new(&config, Clock::start());
    let resolved = runtime.block_on(upstreams.resolve_new(&config, &server.resolver(), DEADLINE));
    assert!(resolved.missing.is_empty());
    upstreams.learn(resolved);
    assert_eq!(upstreams.get(UpstreamId(0)).snapshot().targets[0].address, "10.0.0.1:80");
    // A reload does not look up again what is known.
    let requested = server.requested(NAME);
    let resolved = runtime.block_on(upstreams.resolve_new(&config, &server.resolver(), DEADLINE));
    assert_eq!((resolved.missing.len(), server.requested(NAME)), (0, requested));
    server.die(true);
    let upstreams = Upstreams::new(&config, Clock::start());
    let missing =
        runtime.block_on(upstreams.resolve_new(&config, &server.resolver(), Duration::from_millis(5))).missing;
    assert_eq!(missing, [NAME.into()] as [Arc<str>; 1]);
}
