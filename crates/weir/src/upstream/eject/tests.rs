//! Ejection and its ceiling, on virtual time.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::Balance;
use crate::upstream::outcome::FailureKind;
use crate::upstream::tests::{Rig, spec};
use crate::upstream::view::Pick;

const NOBODY: [u8; 0] = [];

fn ejecting(targets: usize, after: u32, max_share: f64) -> Rig {
    Rig::new(config::Upstream {
        eject: Some(config::Eject { after, period: Duration::from_secs(10), max_share }),
        ..spec(Balance::RoundRobin, &vec![1; targets])
    })
}

/// `count` failures in a row of the target on `number`.
fn fail(rig: &Rig, number: u8, count: u32) {
    let set = rig.upstream().published.load_full();
    let index = usize::from(number - 1);
    for _ in 0..count {
        let mut lease = set.acquire(index, rig.now()).expect("no bound");
        lease.failure(FailureKind::Reset, rig.now());
    }
}

fn succeed(rig: &Rig, number: u8) {
    let set = rig.upstream().published.load_full();
    set.acquire(usize::from(number - 1), rig.now()).expect("no bound").success(rig.now());
}

fn out(rig: &Rig) -> Vec<u8> {
    (1..)
        .zip(&rig.upstream().published.load().targets)
        .filter(|(_, target)| target.state.ejected(rig.now()))
        .map(|(number, _)| number)
        .collect()
}

#[test]
fn failures_in_a_row_eject_and_a_success_between_them_does_not() {
    let rig = ejecting(2, 5, 0.5);
    fail(&rig, 1, 4);
    succeed(&rig, 1);
    fail(&rig, 1, 4);
    assert_eq!(out(&rig), NOBODY);
    fail(&rig, 1, 1);
    assert_eq!(out(&rig), [1]);
    for _ in 0..4 {
        assert_eq!(rig.request(None), 2);
    }
}

#[test]
fn a_lease_without_an_outcome_counts_for_nothing() {
    let rig = ejecting(2, 2, 0.5);
    fail(&rig, 1, 1);
    let set = rig.upstream().published.load_full();
    drop(set.acquire(0, rig.now()));
    assert_eq!(rig.state(1).consecutive_failures(), 1);
    fail(&rig, 1, 1);
    assert_eq!(out(&rig), [1]);
}

#[test]
fn only_the_first_outcome_of_a_lease_counts() {
    let rig = ejecting(2, 2, 0.5);
    let mut lease = rig.lease();
    lease.failure(FailureKind::Reset, rig.now());
    lease.failure(FailureKind::Reset, rig.now());
    lease.success(rig.now());
    assert_eq!(lease.target().state.consecutive_failures(), 1);
    assert_eq!(lease.target().state.failures(FailureKind::Reset), 1);
}

#[test]
fn it_ends_by_itself_and_the_next_failure_begins_it_again() {
    let rig = ejecting(2, 3, 0.5);
    fail(&rig, 1, 3);
    rig.advance(Duration::from_millis(9_999));
    assert_eq!(out(&rig), [1]);
    fail(&rig, 1, 1); // a late one of the time before does not prolong it
    rig.advance(Duration::from_millis(1));
    assert_eq!(out(&rig), NOBODY);
    fail(&rig, 1, 1);
    assert_eq!(out(&rig), [1]);
    rig.advance(Duration::from_secs(10));
    succeed(&rig, 1);
    fail(&rig, 1, 2);
    assert_eq!(out(&rig), NOBODY);
    assert_eq!(rig.state(1).ejections(), 2);
}

#[test]
fn no_more_than_the_share_are_out_at_once() {
    let rig = ejecting(4, 1, 0.5);
    for number in 1..=4 {
        fail(&rig, number, 3);
    }
    assert_eq!(out(&rig), [1, 2]);
    rig.advance(Duration::from_secs(10));
    fail(&rig, 4, 1);
    fail(&rig, 3, 1);
    fail(&rig, 2, 1);
    assert_eq!(out(&rig), [3, 4]);
}

#[test]
fn a_sole_target_is_not_ejected() {
    let rig = ejecting(1, 1, 0.5);
    fail(&rig, 1, 10);
    assert_eq!(out(&rig), NOBODY);
}

#[test]
fn what_active_checks_took_out_counts_for_the_ceiling() {
    let rig = ejecting(4, 1, 0.5);
    rig.state(1).set_health(Health::Unhealthy);
    fail(&rig, 2, 1);
    fail(&rig, 3, 1);
    assert_eq!(out(&rig), [2]);
}

#[test]
fn an_unhealthy_target_counts_once_for_its_own_ceiling() {
    let rig = ejecting(2, 1, 0.5);
    rig.state(1).set_health(Health::Unhealthy);
    fail(&rig, 1, 1); // a request that was in progress
    assert_eq!(out(&rig), [1]);
}

#[test]
fn ejected_targets_serve_when_no_other_is_left_and_unhealthy_ones_do_not() {
    let rig = ejecting(2, 1, 1.0);
    fail(&rig, 1, 1);
    fail(&rig, 2, 1);
    assert_eq!(out(&rig), [1, 2]);
    assert!(matches!(rig.pick(), Pick::Target(_)));
    rig.state(1).set_health(Health::Unhealthy);
    for _ in 0..4 {
        assert_eq!(rig.request(None), 2);
    }
    rig.state(2).set_health(Health::Unhealthy);
    assert!(matches!(rig.pick(), Pick::Unavailable));
}

#[test]
fn shares_round_down_and_are_no_victims_of_binary_fractions() {
    assert_eq!(ceiling(3, 0.5), 1);
    assert_eq!(ceiling(100, 0.29), 29);
    assert_eq!(ceiling(1, 1.0), 1);
    assert_eq!(ceiling(5, 0.0), 0);
}

proptest! {
    #[test]
    fn whatever_fails_the_ceiling_holds(
        events in prop::collection::vec((0u8..6, any::<bool>(), 0u64..3000), 1..300),
        percent in 0u32..=100,
    ) {
        let rig = ejecting(6, 2, f64::from(percent) / 100.0);
        for (target, success, pause_ms) in events {
            rig.advance(Duration::from_millis(pause_ms));
            if success { succeed(&rig, target + 1) } else { fail(&rig, target + 1, 1) }
            prop_assert!(out(&rig).len() <= (6 * percent / 100) as usize);
        }
    }
}

#[test]
fn over_all_threads_the_ceiling_is_exact() {
    for _ in 0..50 {
        let rig = ejecting(8, 1, 0.5);
        let set = rig.upstream().published.load_full();
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let set = &set;
                scope.spawn(move || {
                    for index in [2 * worker, 2 * worker + 1] {
                        let mut lease = set.acquire(index, Moment::START).expect("no bound");
                        lease.failure(FailureKind::Connect, Moment::START);
                    }
                });
            }
        });
        assert_eq!(out(&rig).len(), 4);
    }
}
