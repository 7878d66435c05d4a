use std::num::NonZeroU32;
use std::sync::Arc;

use super::super::tests::{Rig, name as host, number, spec, target as target_of};
use super::super::{BreakerState, FailureKind, Pick, QueueEntry, TargetCondition, WaitError};
use super::*;
use crate::config::{self, Balance, Breaker as BreakerSpec, Eject, Queue};

fn address(number: u8) -> String {
    format!("10.0.0.{number}:80")
}

fn act(rig: &Rig, number: u8, action: TargetAction) {
    rig.upstreams.act("u", &address(number), action).expect("there is such a target");
}

fn states(rig: &Rig) -> Vec<TargetCondition> {
    rig.upstream().snapshot().targets.iter().map(|target| target.state).collect()
}

#[test]
fn a_drained_target_keeps_its_requests_and_gets_no_new_ones() {
    for balance in [Balance::RoundRobin, Balance::LeastRequest, Balance::Ewma] {
        let rig = Rig::new(spec(balance, &[1, 1, 1]));
        let leases: Vec<_> = (0..3).map(|_| rig.lease()).collect();
        act(&rig, 2, TargetAction::Drain);
        assert_eq!(rig.state(2).in_flight(), 1, "what is in flight goes on");
        for _ in 0..50 {
            assert_ne!(number(&rig.lease()), 2);
        }
        drop(leases);
        assert_eq!(rig.state(2).in_flight(), 0);
        assert_eq!(states(&rig)[1], TargetCondition::Drained);
        act(&rig, 2, TargetAction::Undrain);
        assert!((0..50).any(|_| number(&rig.lease()) == 2), "it is back");
    }
}

#[test]
fn need_does_not_overrule_an_operator() {
    let mut all = spec(Balance::RoundRobin, &[1, 1]);
    all.eject = Some(Eject { after: 1, period: Duration::from_secs(10), max_share: 1.0 });
    let rig = Rig::new(all);
    act(&rig, 1, TargetAction::Drain);
    act(&rig, 2, TargetAction::Eject(Duration::from_secs(60)));
    assert_eq!(number(&rig.lease()), 2, "an ejected target is better than none");
    act(&rig, 2, TargetAction::Drain);
    assert!(matches!(rig.pick(), Pick::Unavailable));
}

#[test]
fn a_drain_outlives_reloads_as_long_as_the_target_is_named() {
    let mut rig = Rig::new(spec(Balance::RoundRobin, &[1, 1]));
    rig.advance(Duration::from_secs(1));
    act(&rig, 1, TargetAction::Drain);
    rig.reload(spec(Balance::Ewma, &[1, 1, 1]));
    assert_eq!(states(&rig)[0], TargetCondition::Drained);
    rig.advance(Duration::from_secs(5));
    act(&rig, 1, TargetAction::Drain);
    assert_eq!(rig.upstream().snapshot().targets[0].drained_ms, Some(5000), "the first drain counts");
}

/// `spec` with a target at 10.0.0.1 over TLS, as often as there are base paths.
fn over_tls(digest: u8, paths: &[&str]) -> config::Upstream {
    let mut all = spec(Balance::RoundRobin, &[1, 1]);
    let options = tls::client::Options::default();
    all.tls = Some(Arc::new(config::TlsPolicy { server_name: Some("a".into()), options, digest: [digest; 32] }));
    let first = all.targets.remove(0);
    for path in paths {
        all.targets.push(config::Target { tls_name: Some("a".into()), base_path: (*path).into(), ..first.clone() });
    }
    all
}

#[test]
fn a_drain_is_of_an_address_whatever_its_certificate_and_path() {
    let mut rig = Rig::new(over_tls(1, &[""]));
    act(&rig, 1, TargetAction::Drain);
    let expected = |count: usize| [vec![TargetCondition::Ready], vec![TargetCondition::Drained; count]].concat();
    assert_eq!(states(&rig), expected(1));
    // A certificate is renewed, then the address is a target twice.
    rig.reload(over_tls(2, &[""]));
    assert_eq!(states(&rig), expected(1));
    rig.reload(over_tls(2, &["", "/v2"]));
    assert_eq!(states(&rig), expected(2));
    assert_eq!(rig.upstreams.drained().len(), 1, "it is one address");
    act(&rig, 1, TargetAction::Undrain);
    assert_eq!(states(&rig), [TargetCondition::Ready; 3]);
}

/// Also when requests to it are still in flight, by which its count is kept.
#[test]
fn a_drain_ends_when_its_address_is_no_target_any_more() {
    for in_flight in [false, true] {
        let mut rig = Rig::new(spec(Balance::RoundRobin, &[1, 1]));
        let leases: Vec<_> = (0..2).filter(|_| in_flight).map(|_| rig.lease()).collect();
        act(&rig, 2, TargetAction::Drain);
        rig.reload(spec(Balance::RoundRobin, &[1]));
        assert!(rig.upstreams.drained().is_empty());
        rig.reload(spec(Balance::RoundRobin, &[1, 1]));
        assert_eq!(states(&rig), [TargetCondition::Ready; 2]);
        assert_eq!(rig.state(2).in_flight(), u32::from(in_flight));
        drop(leases);
    }
}

#[test]
fn a_drained_target_is_out_for_the_ceiling_of_ejections() {
    let mut all = spec(Balance::RoundRobin, &[1, 1, 1, 1]);
    all.eject = Some(Eject { after: 1, period: Duration::from_secs(10), max_share: 0.5 });
    let rig = Rig::new(all);
    act(&rig, 1, TargetAction::Drain);
    act(&rig, 2, TargetAction::Drain);
    let failed = rig.request(Some(FailureKind::Status503));
    assert!(!rig.state(failed).ejected(rig.now()), "half of the targets are out already");
}

#[test]
fn an_ejection_by_hand_ends_by_itself_or_by_hand() {
    let rig = Rig::new(spec(Balance::RoundRobin, &[1, 1]));
    act(&rig, 1, TargetAction::Eject(Duration::from_secs(30)));
    assert_eq!(states(&rig), [TargetCondition::Ejected, TargetCondition::Ready]);
    rig.advance(Duration::from_secs(31));
    assert_eq!(states(&rig)[0], TargetCondition::Ready);
    act(&rig, 1, TargetAction::Eject(Duration::from_secs(30)));
    act(&rig, 1, TargetAction::Readmit);
    assert_eq!(states(&rig)[0], TargetCondition::Ready);
}

#[test]
fn a_breaker_that_is_reset_lets_requests_through_and_forgets_failures() {
    let mut all = spec(Balance::RoundRobin, &[1]);
    all.breaker = Some(BreakerSpec { failures: 1.0, of_last: 2, open_for: Duration::from_secs(60) });
    let rig = Rig::new(all);
    let mut late = rig.lease();
    for _ in 0..2 {
        rig.request(Some(FailureKind::Status503));
    }
    assert!(matches!(rig.pick(), Pick::Unavailable));
    act(&rig, 1, TargetAction::ResetBreaker);
    assert_eq!(rig.upstream().snapshot().targets[0].breaker, Some(BreakerState::Closed));
    // A failure of before and one of now are not two of now.
    late.failure(FailureKind::Status503, rig.now());
    drop(late);
    rig.request(Some(FailureKind::Status503));
    assert!(matches!(rig.pick(), Pick::Target(_)));
}

#[test]
fn who_waits_is_refused_at_once_when_the_last_target_is_drained_and_served_when_one_is_back() {
    let mut all = spec(Balance::RoundRobin, &[1, 1]);
    all.max_in_flight = NonZeroU32::new(1);
    all.queue = Some(Queue { size: 4, timeout: Duration::from_secs(60), fair: None });
    let rig = Rig::new(all);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = (rig.lease(), rig.lease());
    act(&rig, 1, TargetAction::Drain);
    let waits = rig.view().wait(QueueEntry::default());
    act(&rig, 2, TargetAction::Drain);
    assert!(matches!(runtime.block_on(waits), Err(WaitError::Unavailable)), "there is nothing to wait for");
    act(&rig, 2, TargetAction::Undrain);
    let waits = rig.view().wait(QueueEntry::default());
    drop(held);
    assert_eq!(number(&runtime.block_on(waits).expect("a place")), 2);
    let held = rig.lease();
    assert_eq!(number(&held), 2);
    let waits = rig.view().wait(QueueEntry::default());
    act(&rig, 1, TargetAction::Undrain);
    assert_eq!(number(&runtime.block_on(waits).expect("a place at the target that is back")), 1);
}

#[test]
fn what_is_not_there_is_named() {
    let mut all = spec(Balance::RoundRobin, &[1]);
    all.targets.push(target_of(host("unresolved.example"), 1));
    let rig = Rig::new(all);
    let act = |upstream: &str, target: &str, action| rig.upstreams.act(upstream, target, action);
    assert_eq!(act("v", &address(1), TargetAction::Drain), Err(ActError::NoUpstream("v".into())));
    for unknown in ["10.0.0.9:80", "10.0.0.1", "", "unresolved.example:80"] {
        assert!(matches!(act("u", unknown, TargetAction::Drain), Err(ActError::NoTarget { .. })), "{unknown}");
    }
    assert_eq!(act("u", &address(1), TargetAction::ResetBreaker), Err(ActError::NoBreaker("u".into())));
    assert_eq!(states(&rig), [TargetCondition::Ready]);
}
