//! Picks: what may be used, in which order of need, and the exact bounds over all threads.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::{Balance, Breaker, HashKey, Queue, Retry, RetryOn};
use crate::upstream::outcome::FailureKind;
use crate::upstream::target::Health;
use crate::upstream::tests::{Rig, inference, ip, number, spec, target};

fn all() -> [Balance; 5] {
    let hash = Balance::Hash(HashKey::ClientIp);
    [Balance::RoundRobin, Balance::LeastRequest, Balance::Ewma, hash, Balance::Inference(inference().into())]
}

fn again(rig: &Rig, tried: &[TargetId]) -> Pick {
    rig.view().pick(&Request { hash: Some(1), tried, ..Request::default() }, rig.now())
}

#[test]
fn a_retry_goes_elsewhere_while_there_is_an_elsewhere() {
    for balance in all() {
        let rig = Rig::new(spec(balance, &[1, 1, 1]));
        let mut tried = Vec::new();
        for _ in 0..3 {
            let Pick::Target(lease) = again(&rig, &tried) else { panic!("a target is there") };
            assert!(!tried.contains(&lease.target().id()));
            tried.push(lease.target().id());
        }
        // All were tried: better once more than not at all.
        assert!(matches!(again(&rig, &tried), Pick::Target(_)));
    }
}

#[test]
fn a_retry_with_a_queue_waits_for_another_target_than_the_one_that_failed() {
    let mut two = spec(Balance::LeastRequest, &[1, 1]);
    two.max_in_flight = NonZeroU32::new(1);
    let rig = Rig::new(two.clone());
    let (first, second) = (rig.lease(), rig.lease());
    let tried = [first.target().id()];
    drop(first);
    // No queue: the one that failed is all there is now.
    assert!(matches!(again(&rig, &tried), Pick::Target(_)));
    two.queue = Some(Queue { size: 1, timeout: Duration::from_secs(1), fair: None });
    let mut rig = rig;
    rig.reload(two);
    assert!(matches!(again(&rig, &tried), Pick::Busy));
    drop(second);
    let Pick::Target(lease) = again(&rig, &tried) else { panic!("the other target is free") };
    assert_ne!(lease.target().id(), tried[0]);
}

#[test]
fn a_full_target_is_passed_over_and_all_full_is_busy() {
    for balance in all() {
        let mut bounded = spec(balance, &[1, 1]);
        bounded.max_in_flight = NonZeroU32::new(2);
        let rig = Rig::new(bounded);
        let leases: Vec<Lease> = (0..4).map(|_| rig.lease()).collect();
        assert_eq!((rig.state(1).in_flight(), rig.state(2).in_flight()), (2, 2));
        assert!(matches!(rig.pick(), Pick::Busy));
        drop(leases);
        assert!(matches!(rig.pick(), Pick::Target(_)));
    }
}

#[test]
fn without_a_target_nothing_is_available() {
    for balance in all() {
        let rig = Rig::new(spec(balance, &[]));
        assert!(matches!(rig.pick(), Pick::Unavailable));
    }
}

#[test]
fn an_open_breaker_sends_requests_elsewhere_and_one_probe_back() {
    let mut guarded = spec(Balance::LeastRequest, &[1, 1]);
    guarded.breaker = Some(Breaker { failures: 1.0, of_last: 1, open_for: Duration::from_secs(5) });
    let rig = Rig::new(guarded);
    let broken = rig.request(Some(FailureKind::Status503));
    let other = 3 - broken;
    for _ in 0..10 {
        assert_eq!(rig.request(None), other);
    }
    rig.advance(Duration::from_secs(5));
    // The probe's client disconnects: the next request is the probe.
    let leases: Vec<Lease> = (0..20).map(|_| rig.lease()).collect();
    let probes = |leases: &[Lease]| leases.iter().filter(|lease| number(lease) == broken).count();
    assert_eq!(probes(&leases), 1);
    drop(leases);
    let mut leases: Vec<Lease> = (0..20).map(|_| rig.lease()).collect();
    assert_eq!(probes(&leases), 1);
    for lease in &mut leases {
        lease.success(rig.now());
    }
    drop(leases);
    assert!((0..20).any(|_| rig.request(None) == broken));
}

#[test]
fn a_breaker_that_holds_back_the_last_target_makes_the_upstream_unavailable() {
    let mut guarded = spec(Balance::RoundRobin, &[1]);
    guarded.breaker = Some(Breaker { failures: 1.0, of_last: 1, open_for: Duration::from_secs(5) });
    let rig = Rig::new(guarded);
    rig.request(Some(FailureKind::Connect));
    assert!(matches!(rig.pick(), Pick::Unavailable));
    rig.advance(Duration::from_secs(5));
    let _probe = rig.lease();
    assert!(matches!(rig.pick(), Pick::Unavailable));
}

#[test]
fn a_probe_that_finds_its_target_full_is_given_back() {
    let mut guarded = spec(Balance::RoundRobin, &[1]);
    guarded.breaker = Some(Breaker { failures: 1.0, of_last: 1, open_for: Duration::from_secs(5) });
    guarded.max_in_flight = NonZeroU32::new(1);
    let rig = Rig::new(guarded);
    let mut held = rig.lease();
    held.failure(FailureKind::IdleTimeout, rig.now());
    rig.advance(Duration::from_secs(5));
    // A place is not free yet; acquired without the view's own check, as in a race.
    let set = rig.upstream().published.load_full();
    assert!(set.acquire(0, rig.now()).is_none());
    drop(held);
    assert!(matches!(rig.pick(), Pick::Target(_)));
}

#[test]
fn a_key_goes_to_one_target_in_every_worker() {
    let rig = Rig::new(spec(Balance::Hash(HashKey::Path), &[1, 1, 1, 1]));
    let other = Views::new(rig.upstreams.clone(), 99);
    for key in 0..200 {
        let request = Request { hash: Some(key), tried: &[], ..Request::default() };
        let at = |view: &View| match view.pick(&request, rig.now()) {
            Pick::Target(lease) => number(&lease),
            pick => panic!("{pick:?}"),
        };
        assert_eq!(at(rig.view()), at(other.get(UpstreamId(0))));
    }
}

#[test]
fn views_of_upstreams_that_stay_are_kept_on_reload() {
    let mut rig = Rig::new(spec(Balance::RoundRobin, &[1, 1]));
    let first = rig.request(None);
    let second = rig.request(None);
    assert_ne!(first, second);
    rig.reload(spec(Balance::RoundRobin, &[1, 1]));
    // A set that was published anew begins a new round, an unchanged upstream elsewhere in the list keeps its place.
    let mut with_other = spec(Balance::RoundRobin, &[1]);
    with_other.name = "v".into();
    with_other.targets = vec![target(ip(9), 1)];
    let config = crate::upstream::tests::config(vec![with_other, spec(Balance::RoundRobin, &[1, 1])]);
    let upstreams = Arc::new(Upstreams::reload(&config, &rig.upstreams));
    rig.views = rig.views.reload(upstreams, 5);
    assert_eq!(number(&rig.lease()), 9);
    assert_eq!(rig.views.get(UpstreamId(1)).upstream().name().as_ref(), "u");
}

#[test]
fn retries_need_configuration_attempts_and_budget() {
    let mut retrying = spec(Balance::RoundRobin, &[1]);
    let on = RetryOn { connect: true, ..RetryOn::default() };
    retrying.retry = Retry { extra_attempts: 2, budget: 0.2, on };
    let rig = Rig::new(retrying);
    let attempt = Attempt {
        cause: FailureKind::Connect.into(),
        idempotent: false,
        sent: false,
        body_replayable: true,
        response_started: false,
    };
    let get = |attempt: &Attempt, attempts| rig.view().may_retry(attempt, attempts, rig.now());
    assert_eq!(get(&Attempt { cause: FailureKind::Reset.into(), ..attempt }, 1), Err(NoRetry::NotConfigured));
    assert_eq!(get(&attempt, 3), Err(NoRetry::AttemptsUsed));
    // 50 requests give ten retries more than the floor; refusals for other reasons took none.
    for _ in 0..50 {
        rig.request(None);
    }
    let allowed = (0..200).filter(|n| get(&attempt, 1 + n % 2).is_ok()).count() as u64;
    assert_eq!(allowed, retry::BUDGET_FLOOR + 10);
    assert_eq!(get(&attempt, 1), Err(NoRetry::OverBudget));
    let snapshot = rig.upstream().snapshot();
    assert_eq!((snapshot.retries, snapshot.retries_in_window), (allowed, allowed));
    assert_eq!(snapshot.retries_over_budget, 200 - allowed + 1);
    rig.advance(Duration::from_secs(11));
    assert_eq!(get(&attempt, 1), Ok(()));
}

#[test]
fn attempts_beyond_the_first_feed_no_budget() {
    let mut retrying = spec(Balance::RoundRobin, &[1]);
    retrying.retry.on.connect = true;
    let rig = Rig::new(retrying);
    let tried = [rig.lease().target().id()];
    for _ in 0..100 {
        let _ = again(&rig, &tried);
    }
    let attempt = Attempt {
        cause: FailureKind::Connect.into(),
        idempotent: true,
        sent: false,
        body_replayable: true,
        response_started: false,
    };
    let allowed = (0..200).filter(|_| rig.view().may_retry(&attempt, 1, rig.now()).is_ok()).count() as u64;
    assert_eq!(allowed, retry::BUDGET_FLOOR);
}

/// What failed a request because it was not reached does not get it again: neither at once nor after a wait.
#[tokio::test(start_paused = true)]
async fn a_target_that_was_not_reached_is_not_tried_again() {
    for balance in all() {
        let rig = Rig::new(spec(balance.clone(), &[1, 1, 1]));
        let pick = |tried: &[TargetId]| {
            rig.view().pick(&Request { hash: Some(1), tried, only_untried: true, ..Request::default() }, rig.now())
        };
        let Pick::Target(first) = pick(&[]) else { panic!("a target is there") };
        let mut tried = vec![first.target().id()];
        // An ejected target is a guess, an unreachable one is not.
        rig.state(1 + u8::from(number(&first) == 1)).eject_until(rig.now().after(Duration::from_secs(5)));
        for _ in 0..2 {
            assert!(rig.view().has_untried(&tried, rig.now()));
            let Pick::Target(lease) = pick(&tried) else { panic!("an untried target is there") };
            assert!(!tried.contains(&lease.target().id()), "{balance:?}");
            tried.push(lease.target().id());
        }
        assert!(!rig.view().has_untried(&tried, rig.now()));
        assert!(matches!(pick(&tried), Pick::Unavailable), "{balance:?}");

        let mut bounded = spec(balance, &[1, 1]);
        bounded.max_in_flight = NonZeroU32::new(1);
        bounded.queue = Some(Queue { size: 2, timeout: Duration::from_secs(1), fair: None });
        let rig = Rig::new(bounded);
        let (first, second) = (rig.lease(), rig.lease());
        let tried = [first.target().id()];
        let wait = rig.view().wait_for_untried(QueueEntry::default(), &tried);
        drop(first);
        tokio::task::yield_now().await;
        let other = second.target().id();
        drop(second);
        assert_eq!(wait.await.expect("a place").target().id(), other);
    }
}

proptest! {
    /// Whatever the states of the targets, a pick does what the order of need says.
    #[test]
    fn a_pick_follows_the_order_of_need(
        // (unhealthy, ejected, full, tried) of each target.
        states in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()), 1..6),
        policy in 0usize..5,
        queued in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut any = spec(all()[policy].clone(), &vec![1; states.len()]);
        any.max_in_flight = NonZeroU32::new(1);
        any.queue = queued.then_some(Queue { size: 1, timeout: Duration::from_secs(1), fair: None });
        let rig = Rig::new(any);
        let set = rig.upstream().published.load_full();
        let mut held = Vec::new();
        let mut tried = Vec::new();
        for (index, (unhealthy, ejected, full, was_tried)) in states.iter().enumerate() {
            let state = &set.targets[index].state;
            if *full {
                held.push(set.acquire(index, rig.now()).expect("free"));
            }
            if *unhealthy {
                state.set_health(Health::Unhealthy);
            }
            if *ejected {
                state.eject_until(Moment::from_millis(5000));
            }
            if *was_tried {
                tried.push(state.id);
            }
        }
        let alive: Vec<_> = states.iter().filter(|s| !s.0).collect();
        let usable: Vec<_> = alive.iter().filter(|s| !s.1).collect();
        let fresh = usable.iter().any(|s| !s.3);
        let expected = if usable.iter().any(|s| !s.3 && !s.2) {
            "fresh"
        } else if fresh && queued {
            "busy"
        } else if usable.iter().any(|s| !s.2) {
            "tried"
        } else if !usable.is_empty() {
            "busy"
        } else if alive.iter().any(|s| !s.2) {
            "ejected"
        } else if !alive.is_empty() {
            "busy"
        } else {
            "unavailable"
        };
        let pick = rig.view().pick(&Request { hash: Some(seed), tried: &tried, ..Request::default() }, rig.now());
        let actual = match &pick {
            Pick::Busy => "busy",
            Pick::Unavailable => "unavailable",
            Pick::Target(lease) => {
                let (unhealthy, ejected, full, was_tried) = states[usize::from(number(lease) - 1)];
                prop_assert!(!unhealthy && !full);
                if ejected { "ejected" } else if was_tried { "tried" } else { "fresh" }
            }
        };
        prop_assert_eq!(actual, expected);
    }
}

#[test]
fn over_all_threads_max_in_flight_is_exact() {
    const LAST: u64 = 20_000;
    for balance in all() {
        let mut bounded = spec(balance, &[1, 1]);
        bounded.max_in_flight = NonZeroU32::new(2);
        let rig = Rig::new(bounded);
        let in_flight = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let (leased, busy) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (upstreams, in_flight, leased, busy) = (rig.upstreams.clone(), &in_flight, &leased, &busy);
                scope.spawn(move || {
                    let views = Views::new(upstreams, worker);
                    let mut held: Vec<Lease> = Vec::new();
                    for n in 0..=LAST {
                        let request = Request { hash: Some(n), tried: &[], ..Request::default() };
                        match views.get(UpstreamId(0)).pick(&request, Moment::START) {
                            Pick::Target(lease) => {
                                let count = &in_flight[usize::from(number(&lease) - 1)];
                                assert!(count.fetch_add(1, Ordering::SeqCst) < 2);
                                leased.fetch_add(1, Ordering::Relaxed);
                                held.push(lease);
                            }
                            Pick::Busy => {
                                busy.fetch_add(1, Ordering::Relaxed);
                            }
                            Pick::Unavailable => panic!("both targets are there"),
                        }
                        if n % 6 == 5 || n == LAST {
                            for lease in held.drain(..) {
                                let index = usize::from(number(&lease) - 1);
                                in_flight[index].fetch_sub(1, Ordering::SeqCst);
                                drop(lease);
                            }
                        }
                    }
                });
            }
        });
        assert!(leased.into_inner() > 0 && busy.into_inner() > 0);
    }
}

#[test]
fn a_worker_joins_the_retry_budget_once_however_often_the_configuration_is_loaded() {
    let mut rig = Rig::new(spec(Balance::RoundRobin, &[1, 1]));
    for _ in 0..100 {
        rig.reload(spec(Balance::RoundRobin, &[1, 1]));
    }
    assert_eq!(rig.upstream().shared.budget.members(), 1);
}
