//! The whole of it on a thread of its own, as the gateway runs it, with real name servers and real targets.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::thread;

use testkit::{DEADLINE, responder, wait};
use tokio::sync::oneshot;

use super::*;
use crate::config::{Balance, TargetAddress, UpstreamId};
use crate::upstream::resolve::tests::{NameServer, ResolverOf as _};
use crate::upstream::tests::{config as config_of, spec};
use crate::upstream::{Clock, FailureKind, Pick, Request, TargetCondition, Views};

/// The control thread.
pub(in crate::upstream) struct Control {
    upstreams: watch::Sender<Arc<Upstreams>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Control {
    pub(in crate::upstream) fn start(upstreams: Vec<config::Upstream>, resolver: Resolver) -> Control {
        let upstreams = Arc::new(Upstreams::new(&config_of(upstreams), Clock::start()));
        let (sender, receiver) = watch::channel(upstreams);
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! { () = supervise(receiver, resolver) => {}, _ = stopped => {} }
            });
        };
        Control { upstreams: sender, stop: Some(stop), thread: Some(thread::spawn(run)) }
    }

    pub(in crate::upstream) fn current(&self) -> Arc<Upstreams> {
        self.upstreams.borrow().clone()
    }

    pub(in crate::upstream) fn reload(&self, upstreams: Vec<config::Upstream>) {
        let next = Upstreams::reload(&config_of(upstreams), &self.current());
        self.upstreams.send_replace(Arc::new(next));
    }

    /// Addresses of the targets of an upstream.
    pub(in crate::upstream) fn targets(&self, index: usize) -> Vec<String> {
        let snapshot = self.current().get(UpstreamId(index)).snapshot();
        snapshot.targets.into_iter().map(|target| target.address).collect()
    }

    pub(in crate::upstream) fn wait_for_targets(&self, index: usize, expected: &[&str]) {
        wait::until(DEADLINE, &format!("targets {expected:?}"), || self.targets(index) == expected);
    }

    pub(in crate::upstream) fn states(&self, index: usize) -> Vec<TargetCondition> {
        let snapshot = self.current().get(UpstreamId(index)).snapshot();
        snapshot.targets.into_iter().map(|target| target.state).collect()
    }

    pub(in crate::upstream) fn wait_for_states(&self, index: usize, expected: &[TargetCondition]) {
        wait::until(DEADLINE, &format!("states {expected:?}"), || self.states(index) == expected);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the control thread panicked");
        }
    }
}

pub(in crate::upstream) fn at(address: TargetAddress) -> config::Target {
    config::Target { address, tls_name: None, authority: None, base_path: "".into(), weight: NonZeroU32::MIN }
}

fn named(name: &str, hosts: &[(&str, u16)]) -> config::Upstream {
    let address = |(host, port): &(&str, u16)| at(TargetAddress::Name { host: (*host).into(), port: *port });
    config::Upstream {
        name: name.into(),
        targets: hosts.iter().map(address).collect(),
        ..spec(Balance::RoundRobin, &[])
    }
}

pub(in crate::upstream) fn checked(name: &str, targets: &[SocketAddr]) -> config::Upstream {
    config::Upstream {
        name: name.into(),
        targets: targets.iter().map(|address| at(TargetAddress::Ip(*address))).collect(),
        health: Some(config::Health {
            protocol: config::UpstreamProtocol::Http1,
            proxy_protocol: None,
            grpc: None,
            path: "/healthz".into(),
            interval: Duration::from_millis(5),
            timeout: DEADLINE,
            healthy_after: 2,
            unhealthy_after: 3,
            status: (200, 399),
        }),
        ..spec(Balance::RoundRobin, &[])
    }
}

#[test]
fn half_a_response_removes_no_address_family() {
    let server = NameServer::start();
    server.set("model.test", 0, &["10.0.0.1", "fd00::1"]);
    let control = Control::start(vec![named("u", &[("model.test", 80)])], server.resolver());
    control.wait_for_targets(0, &["10.0.0.1:80", "[fd00::1]:80"]);
    // AAAA fails, A has a new address: the last good AAAA stays.
    server.break_type(Some(28));
    server.set("model.test", 0, &["10.0.0.2"]);
    control.wait_for_targets(0, &["10.0.0.2:80", "[fd00::1]:80"]);
    // AAAA works again and says that there is no such record: that is a response.
    server.break_type(None);
    control.wait_for_targets(0, &["10.0.0.2:80"]);
    server.set("model.test", 0, &["10.0.0.2", "fd00::2"]);
    control.wait_for_targets(0, &["10.0.0.2:80", "[fd00::2]:80"]);
    server.break_type(Some(1));
    server.set("model.test", 0, &["fd00::3"]);
    control.wait_for_targets(0, &["10.0.0.2:80", "[fd00::3]:80"]);
}

#[test]
fn targets_follow_the_responses_of_a_name_server_and_outlive_it() {
    let server = NameServer::start();
    server.set("model.test", 0, &["10.0.0.1"]);
    let control = Control::start(vec![named("u", &[("model.test", 80), ("model.test", 81)])], server.resolver());
    control.wait_for_targets(0, &["10.0.0.1:80", "10.0.0.1:81"]);
    let views = Views::new(control.current(), 1);
    let kept = control.current().get(UpstreamId(0)).snapshot().targets[0].id;

    server.set("model.test", 0, &["10.0.0.2", "fd00::2", "10.0.0.1"]);
    let six = ["10.0.0.1:80", "10.0.0.2:80", "[fd00::2]:80", "10.0.0.1:81", "10.0.0.2:81", "[fd00::2]:81"];
    control.wait_for_targets(0, &six);
    assert_eq!(control.current().get(UpstreamId(0)).snapshot().targets[0].id, kept);
    // A worker that was there before picks among the new ones.
    let mut seen = BTreeMap::new();
    for _ in 0..60 {
        let Pick::Target(lease) = views.get(UpstreamId(0)).pick(&Request::default(), control.current().clock().now())
        else {
            panic!("no target")
        };
        *seen.entry(lease.target().address().to_string()).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 6);

    // The server dies: the addresses stay, and the page says what is wrong.
    server.die(true);
    let error = || control.current().get(UpstreamId(0)).snapshot().names[0].error.clone();
    wait::until(DEADLINE, "an error", || error().is_some());
    assert_eq!(control.targets(0), six);

    // It comes back with another response.
    server.set("model.test", 0, &["10.0.0.9"]);
    server.die(false);
    control.wait_for_targets(0, &["10.0.0.9:80", "10.0.0.9:81"]);
    assert_eq!(error(), None);

    // The name no longer exists: no reason to drop what may still work.
    server.set("model.test", 0, &[]);
    wait::until(DEADLINE, "an error", || error().is_some());
    assert_eq!(control.targets(0), ["10.0.0.9:80", "10.0.0.9:81"]);
}

#[test]
fn a_reload_starts_and_ends_names() {
    let server = NameServer::start();
    server.set("a.test", 0, &["10.0.0.1"]);
    server.set("b.test", 0, &["10.0.0.2"]);
    let control = Control::start(vec![named("a", &[("a.test", 80)])], server.resolver());
    control.wait_for_targets(0, &["10.0.0.1:80"]);
    // An upstream with a name that is known already has its targets at once.
    control.reload(vec![named("a", &[("a.test", 80)]), named("b", &[("b.test", 80), ("a.test", 90)])]);
    assert!(control.targets(1).contains(&"10.0.0.1:90".to_owned()), "{:?}", control.targets(1));
    control.wait_for_targets(1, &["10.0.0.2:80", "10.0.0.1:90"]);

    control.reload(vec![named("b", &[("b.test", 80)])]);
    let is_known = |host: &str| crate::upstream::lock(&control.current().common.names).contains_key(host);
    wait::until(DEADLINE, "a.test is forgotten", || !is_known("a.test"));
    // The look-up that was in progress may still arrive; then a.test is not queried any more, while b.test is, repeatedly.
    let (a, b) = (server.requested("a.test"), server.requested("b.test"));
    wait::until(DEADLINE, "b.test is asked for", || server.requested("b.test") >= b + 20);
    assert!(server.requested("a.test") <= a + 2);
    assert_eq!(control.targets(0), ["10.0.0.2:80"]);
}

#[test]
fn names_are_resolved_before_they_are_used_and_not_waited_for_for_ever() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1"]);
    server.set("b.test", 60, &["10.0.0.2"]);
    let one = config_of(vec![named("u", &[("a.test", 80)])]);
    let both = config_of(vec![named("u", &[("a.test", 80), ("b.test", 80)]), named("v", &[("b.test", 80)])]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let resolve = |upstreams: &Upstreams, config, within| {
        let resolved = runtime.block_on(upstreams.resolve_new(config, &server.resolver(), within));
        let missing = resolved.missing.clone();
        upstreams.learn(resolved);
        missing
    };

    let upstreams = Upstreams::new(&one, Clock::start());
    assert!(resolve(&upstreams, &one, DEADLINE).is_empty());
    assert_eq!(upstreams.get(UpstreamId(0)).snapshot().targets.len(), 1);
    // What a reload does: a name that is known is not requested again.
    let requested = server.requested("a.test");
    assert!(resolve(&upstreams, &both, DEADLINE).is_empty());
    let upstreams = Upstreams::reload(&both, &upstreams);
    assert_eq!(upstreams.get(UpstreamId(0)).snapshot().targets.len(), 2);
    assert_eq!(upstreams.get(UpstreamId(1)).snapshot().targets.len(), 1);
    assert_eq!(server.requested("a.test"), requested);

    server.die(true);
    let upstreams = Upstreams::new(&both, Clock::start());
    let missing = resolve(&upstreams, &both, Duration::from_millis(5));
    assert_eq!(missing, ["a.test".into(), "b.test".into()] as [Arc<str>; 2]);
}

#[test]
fn targets_stay_until_one_of_those_that_replace_them_has_an_address() {
    let server = NameServer::start();
    server.set("a.test", 60, &["10.0.0.1"]);
    let control = Control::start(vec![named("u", &[("a.test", 80)])], server.resolver());
    control.wait_for_targets(0, &["10.0.0.1:80"]);
    control.reload(vec![named("u", &[("b.test", 80), ("c.test", 80)])]);
    let requested = server.requested("b.test");
    wait::until(DEADLINE, "b.test is asked for in vain", || server.requested("b.test") > requested + 2);
    assert_eq!(control.targets(0), ["10.0.0.1:80"]);
    server.set("c.test", 60, &["10.0.0.3"]);
    control.wait_for_targets(0, &["10.0.0.3:80"]);
}

#[test]
fn a_target_that_fails_its_checks_gets_no_requests_until_it_passes_them() {
    use TargetCondition::{Ready, Unhealthy};
    let servers = [testkit::Upstream::start(responder::ok("a")), testkit::Upstream::start(responder::ok("b"))];
    let addresses = servers.each_ref().map(testkit::Upstream::socket_addr);
    let control = Control::start(vec![checked("u", &addresses)], NameServer::start().resolver());
    let healthy = || {
        let snapshot = control.current().get(UpstreamId(0)).snapshot();
        snapshot.targets.iter().all(|target| target.health == crate::upstream::Health::Healthy)
    };
    wait::until(DEADLINE, "both are found healthy", healthy);

    let views = Views::new(control.current(), 1);
    let pick = || match views.get(UpstreamId(0)).pick(&Request::default(), control.current().clock().now()) {
        Pick::Target(lease) => Some(lease.target().address().to_string()),
        Pick::Busy | Pick::Unavailable => None,
    };
    servers[0].set_responder(responder::status(500));
    control.wait_for_states(0, &[Unhealthy, Ready]);
    for _ in 0..4 {
        assert_eq!(pick(), Some(addresses[1].to_string()));
    }
    servers[1].stop();
    control.wait_for_states(0, &[Unhealthy, Unhealthy]);
    assert_eq!(pick(), None);
    let error = control.current().get(UpstreamId(0)).snapshot().targets[1].last_probe.clone().unwrap().error;
    assert!(error.is_some_and(|error| error.starts_with("cannot connect")));

    servers[0].set_responder(responder::ok("a"));
    servers[1].restart();
    control.wait_for_states(0, &[Ready, Ready]);
    assert!(pick().is_some());
}

#[test]
fn a_target_that_is_down_at_the_start_is_known_to_be_with_the_first_check() {
    let server = testkit::Upstream::start(responder::status(503));
    let mut slow = checked("u", &[server.socket_addr()]);
    slow.health.as_mut().unwrap().interval = Duration::from_secs(3600);
    let control = Control::start(vec![slow], NameServer::start().resolver());
    control.wait_for_states(0, &[TargetCondition::Unhealthy]);
    assert_eq!(server.request_count(), 1);
}

#[test]
fn a_reload_leaves_running_checks_alone_and_ends_those_of_removed_targets() {
    let servers = [testkit::Upstream::start(responder::ok("a")), testkit::Upstream::start(responder::ok("b"))];
    let addresses = servers.each_ref().map(testkit::Upstream::socket_addr);
    let mut rare = checked("u", &addresses);
    rare.health.as_mut().unwrap().interval = Duration::from_secs(3600);
    let control = Control::start(vec![rare.clone()], NameServer::start().resolver());
    servers.iter().for_each(|server| server.wait_for_requests(1));

    // The same checks: nobody is called again. That the reload was seen shows the new upstream.
    let other = testkit::Upstream::start(responder::ok("c"));
    control.reload(vec![rare.clone(), checked("v", &[other.socket_addr()])]);
    other.wait_for_requests(1);
    assert_eq!(servers.each_ref().map(testkit::Upstream::request_count), [1, 1]);

    // Another path is another check; a target less is a check less.
    rare.health.as_mut().unwrap().path = "/ready".into();
    rare.health.as_mut().unwrap().interval = Duration::from_millis(5);
    rare.targets.pop();
    control.reload(vec![rare]);
    servers[0].wait_for_requests(10);
    assert_eq!(servers[1].request_count(), 1);
    assert_eq!(servers[0].requests()[5].head.target(), "/ready");
    let count = other.request_count();
    servers[0].wait_for_requests(30);
    assert!(other.request_count() <= count + 1, "a check that was under way may arrive");
}

#[test]
fn targets_of_a_name_are_checked_as_they_come() {
    let dns = NameServer::start();
    dns.set("model.test", 0, &["127.0.0.1"]);
    let server = testkit::Upstream::start(responder::status(500));
    let mut both = named("u", &[("model.test", server.socket_addr().port())]);
    both.health = checked("u", &[]).health;
    let control = Control::start(vec![both], dns.resolver());
    control.wait_for_states(0, &[TargetCondition::Unhealthy]);
    // Nothing listens at the second address.
    dns.set("model.test", 0, &["127.0.0.1", "127.0.0.2"]);
    server.set_responder(responder::ok("fine"));
    control.wait_for_states(0, &[TargetCondition::Ready, TargetCondition::Unhealthy]);
}

#[test]
fn when_it_is_dropped_every_task_ends() {
    let server = testkit::Upstream::start(responder::ok("a"));
    let upstreams = {
        let control = Control::start(vec![checked("u", &[server.socket_addr()])], NameServer::start().resolver());
        server.wait_for_requests(3);
        control.current()
    };
    server.wait_for_open(0);
    let count = server.request_count();
    assert_eq!(server.request_count(), count);
    // The state is still there and still usable.
    let views = Views::new(upstreams.clone(), 1);
    let Pick::Target(mut lease) = views.get(UpstreamId(0)).pick(&Request::default(), upstreams.clock().now()) else {
        panic!("a target")
    };
    lease.failure(FailureKind::Reset, upstreams.clock().now());
}

#[test]
fn the_last_configuration_goes_on_when_no_other_can_come() {
    let server = NameServer::start();
    server.set("model.test", 0, &["10.0.0.1"]);
    let upstreams = Arc::new(Upstreams::new(&config_of(vec![named("u", &[("model.test", 80)])]), Clock::start()));
    let (sender, receiver) = watch::channel(upstreams.clone());
    drop(sender);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let resolver = server.resolver();
    runtime.block_on(async {
        let addresses = || -> Vec<IpAddr> { upstreams.get(UpstreamId(0)).snapshot().names[0].addresses.clone() };
        let follow = async {
            for address in ["10.0.0.1", "10.0.0.2"] {
                server.set("model.test", 0, &[address]);
                while addresses() != [address.parse::<IpAddr>().unwrap()] {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        };
        tokio::select! {
            () = supervise(receiver, resolver) => panic!("it ended"),
            followed = tokio::time::timeout(DEADLINE, follow) => followed.expect("the answers were followed"),
        }
    });
}
