//! Verdicts against a plain model; probes against real servers.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::path::Path;

use proptest::prelude::*;
use testkit::responder;

use super::*;
use crate::config::Balance;
use crate::upstream::tests::{Rig, spec as upstream_spec};

fn spec() -> config::Health {
    config::Health {
        protocol: config::UpstreamProtocol::Http1,
        proxy_protocol: None,
        grpc: None,
        path: "/healthz".into(),
        interval: Duration::from_millis(5),
        timeout: testkit::DEADLINE,
        healthy_after: 2,
        unhealthy_after: 3,
        status: (200, 399),
    }
}

#[test]
fn the_first_response_decides_alone() {
    for (heard, verdict) in [(Heard::Good, Health::Healthy), (Heard::Bad, Health::Unhealthy)] {
        assert_eq!(Streak::default().judge(Health::Unknown, heard, &spec()), Some(verdict));
    }
}

#[test]
fn silence_needs_as_many_in_a_row_at_the_start_too() {
    let (mut streak, spec) = (Streak::default(), spec());
    assert_eq!(streak.judge(Health::Unknown, Heard::Nothing, &spec), None);
    assert_eq!(streak.judge(Health::Unknown, Heard::Nothing, &spec), None);
    assert_eq!(streak.judge(Health::Unknown, Heard::Nothing, &spec), Some(Health::Unhealthy));
    let mut streak = Streak::default();
    assert_eq!(streak.judge(Health::Unknown, Heard::Nothing, &spec), None);
    assert_eq!(streak.judge(Health::Unknown, Heard::Good, &spec), Some(Health::Healthy), "the first answer");
}

proptest! {
    #[test]
    fn a_verdict_changes_after_as_many_in_a_row(
        results in prop::collection::vec(any::<bool>(), 1..200),
        healthy_after in 1u32..5,
        unhealthy_after in 1u32..5,
    ) {
        let spec = config::Health { healthy_after, unhealthy_after, ..spec() };
        let (mut streak, mut health) = (Streak::default(), Health::Unknown);
        let mut last: VecDeque<bool> = VecDeque::new();
        let mut expected = None;
        for healthy in results {
            last.push_front(healthy);
            let in_a_row = last.iter().take_while(|result| **result == healthy).count() as u32;
            let needed = if healthy { healthy_after } else { unhealthy_after };
            if expected.is_none() || in_a_row >= needed {
                expected = Some(healthy);
            }
            let heard = if healthy { Heard::Good } else { Heard::Bad };
            if let Some(verdict) = streak.judge(health, heard, &spec) {
                prop_assert_ne!(verdict, health, "a verdict is told once");
                health = verdict;
            }
            prop_assert_eq!(Some(health == Health::Healthy), expected);
        }
    }
}

fn target_at(address: testkit::Address, base_path: &str, authority: Option<&str>) -> Target {
    let mut one = upstream_spec(Balance::RoundRobin, &[]);
    one.targets = vec![config::Target {
        address: match address {
            testkit::Address::Tcp(address) => config::TargetAddress::Ip(address),
            testkit::Address::Unix(path) => config::TargetAddress::Unix(path),
        },
        tls_name: None,
        authority: authority.map(Into::into),
        base_path: base_path.into(),
        weight: NonZeroU32::MIN,
    }];
    Rig::new(one).upstream().published.load().targets[0].clone()
}

async fn probe_of(server: &testkit::Upstream, spec: &config::Health) -> Finding {
    probe_once(&target_at(server.address(), "", None), spec, &TlsConfigs::default()).await
}

#[tokio::test]
async fn a_probe_is_a_polite_get_on_a_connection_of_its_own() {
    let server = testkit::Upstream::start(responder::ok("fine"));
    let target = target_at(server.address(), "/base", Some("model.internal:8001"));
    assert_eq!(probe_once(&target, &spec(), &TlsConfigs::default()).await, Finding::Healthy(200));
    let request = &server.requests()[0];
    assert_eq!((request.head.method(), request.head.target()), ("GET", "/base/healthz"));
    assert_eq!(request.head.all("host"), ["model.internal:8001"]);
    assert_eq!(request.head.all("user-agent"), ["weir-health"]);
    assert_eq!(request.head.all("connection"), ["close"]);
    assert_eq!(request.head.all("content-length").len() + request.head.all("transfer-encoding").len(), 0);
    server.wait_for_open(0);
    assert_eq!(server.errors(), [""; 0]);
}

#[tokio::test]
async fn a_unix_socket_is_probed_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.sock");
    let server = testkit::Upstream::builder().unix(&path).start(responder::ok("fine"));
    assert_eq!(probe_of(&server, &spec()).await, Finding::Healthy(200));
    assert_eq!(server.requests()[0].head.all("host"), ["localhost"]);
    server.stop();
    let Finding::Unhealthy(why) = probe_of(&server, &spec()).await else { panic!("nobody listens") };
    assert!(why.starts_with("cannot connect"), "{why}");
}

#[tokio::test]
async fn the_status_decides_by_the_configured_range() {
    let server = testkit::Upstream::start(responder::status(404));
    assert_eq!(probe_of(&server, &spec()).await, Finding::Unhealthy("status 404".into()));
    let narrow = config::Health { status: (404, 404), ..spec() };
    assert_eq!(probe_of(&server, &narrow).await, Finding::Healthy(404));
    server.set_responder(responder::status(399));
    assert_eq!(probe_of(&server, &spec()).await, Finding::Healthy(399));
    server.set_responder(responder::status(400));
    assert_eq!(probe_of(&server, &spec()).await, Finding::Unhealthy("status 400".into()));
}

#[tokio::test]
async fn a_body_that_never_ends_does_not_matter() {
    let server = testkit::Upstream::start(responder::raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun"));
    assert_eq!(probe_of(&server, &spec()).await, Finding::Healthy(200));
    server.wait_for_open(0);
}

#[tokio::test]
async fn whatever_is_no_response_is_unhealthy_and_says_why() {
    let server = testkit::Upstream::start(responder::close());
    let why = async |server: &testkit::Upstream| match probe_of(server, &spec()).await {
        Finding::Unhealthy(why) => why,
        other => panic!("{other:?}"),
    };
    assert!(!why(&server).await.is_empty());
    server.set_responder(responder::reset());
    assert!(!why(&server).await.is_empty());
    server.set_responder(responder::raw("SSH-2.0-OpenSSH_9.2\r\n\r\n"));
    assert!(!why(&server).await.is_empty());
    server.set_responder(responder::raw_then_close("HTTP/1.1 200 O"));
    assert!(!why(&server).await.is_empty());
    server.stop();
    assert!(why(&server).await.starts_with("cannot connect"));
}

/// Interim responses without end come faster than the timeout is looked at: the bytes end the probe.
#[tokio::test]
async fn interim_responses_without_end_are_unhealthy() {
    let flood = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1 << 16);
    let server = testkit::Upstream::start(responder::raw(flood));
    let queued = config::Health { timeout: Duration::from_secs(60), ..spec() };
    assert!(matches!(probe_of(&server, &queued).await, Finding::Unhealthy(_)));
}

#[tokio::test]
async fn a_server_that_hangs_is_silent_until_the_timeout() {
    let server = testkit::Upstream::start(responder::stall());
    let hasty = config::Health { timeout: Duration::from_millis(50), ..spec() };
    assert_eq!(probe_of(&server, &hasty).await, Finding::Silent("no response within 50ms".into()));
    server.wait_for_open(0);
    // Handshakes are completed by the kernel, nothing else happens.
    server.pause();
    assert_eq!(probe_of(&server, &hasty).await, Finding::Silent("no response within 50ms".into()));
    server.resume();
}

#[tokio::test]
async fn a_timeout_that_this_process_slept_through_says_nothing_about_the_target() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = target_at(silent.local_addr().unwrap().into(), "", None);
    let spec = config::Health { timeout: Duration::from_millis(20), ..spec() };
    // The thread of the probe is busy with something else.
    let busy = tokio::spawn(async { std::thread::sleep(Duration::from_millis(20) + 2 * LATE) });
    assert!(matches!(probe_once(&target, &spec, &TlsConfigs::default()).await, Finding::Unknown(_)));
    busy.await.unwrap();
}

#[test]
fn a_shortage_of_our_own_says_nothing_about_the_target() {
    use rustix::io::Errno;
    for errno in [Errno::NOMEM, Errno::NFILE, Errno::MFILE, Errno::NOBUFS, Errno::ADDRNOTAVAIL] {
        assert!(matches!(connect_trouble(std::io::Error::from(errno).into()), Trouble::Local(_)), "{errno}");
    }
    assert!(matches!(
        connect_trouble(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
        Trouble::Remote(_)
    ));

    let mut checked = upstream_spec(Balance::RoundRobin, &[1]);
    checked.health = Some(spec());
    let rig = Rig::new(checked);
    let target = rig.upstream().published.load().targets[0].clone();
    let mut streak = Streak::default();
    take_in(rig.upstream(), &target, &spec(), &mut streak, Finding::Unknown("no descriptor".into()));
    assert_eq!(target.state.health(), Health::Unknown);
    take_in(rig.upstream(), &target, &spec(), &mut streak, Finding::Unhealthy("status 500".into()));
    assert_eq!(target.state.health(), Health::Unhealthy);
    let probe = rig.upstream().snapshot().targets[0].last_probe.clone().expect("a probe");
    assert_eq!((probe.ok, probe.status, probe.error.as_deref()), (false, None, Some("status 500")));
}

#[test]
fn a_target_that_is_healthy_again_starts_slowly_and_a_first_verdict_does_not() {
    let mut checked = upstream_spec(Balance::RoundRobin, &[1]);
    checked.health = Some(spec());
    checked.slow_start = Some(Duration::from_secs(10));
    let rig = Rig::new(checked);
    rig.advance(Duration::from_secs(100));
    let target = rig.upstream().published.load().targets[0].clone();
    let set = |health| assert!(rig.upstream().take_in_check(&target, &spec(), |_| Some(health)));
    set(Health::Healthy);
    assert_eq!(target.state.back_since(), crate::upstream::Moment::START);
    set(Health::Unhealthy);
    rig.advance(Duration::from_secs(100));
    set(Health::Healthy);
    assert_eq!(target.state.back_since(), rig.now());
    assert!(rig.upstream().published.load().ramping(rig.now()));
}

#[test]
fn the_host_of_a_probe_is_the_authority_of_the_url() {
    let at = |address: testkit::Address, authority| host(&target_at(address, "", authority));
    let tcp = testkit::Address::Tcp(([127, 0, 0, 1], 8001).into());
    assert_eq!(at(tcp.clone(), Some("model:8001")), "model:8001");
    assert_eq!(at(tcp, None), "127.0.0.1:8001");
    let unix = testkit::Address::Unix(Path::new("/run/model.sock").into());
    assert_eq!(at(unix, None), "localhost");
}

#[test]
fn a_probe_that_ends_after_its_check_was_removed_changes_nothing() {
    let checked = config::Upstream { health: Some(spec()), ..upstream_spec(Balance::RoundRobin, &[1]) };
    let other = config::Health { path: "/other".into(), ..spec() };
    for next in [None, Some(other)] {
        let mut rig = Rig::new(checked.clone());
        let target = rig.upstream().published.load().targets[0].clone();
        rig.reload(config::Upstream { health: next, ..checked.clone() });
        let finding = Finding::Unhealthy("no response".to_owned());
        take_in(rig.upstream(), &target, &spec(), &mut Streak::default(), finding);
        assert_eq!(target.state.health(), Health::Unknown);
        assert_eq!(target.state.probe(), None);
    }
}
