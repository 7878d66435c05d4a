//! Rule 20 as a table, and the budget against a plain model and with real threads.

use proptest::prelude::*;

use super::*;

fn all_on() -> RetryOn {
    RetryOn {
        connect: true,
        reset: true,
        try_timeout: true,
        status_502: true,
        status_503: true,
        status_504: true,
        grpc: (0..=16).collect(),
    }
}

fn get(failure: FailureKind) -> Attempt {
    Attempt { cause: failure.into(), idempotent: true, sent: true, body_replayable: true, response_started: false }
}

fn post(failure: FailureKind, sent: bool) -> Attempt {
    Attempt { idempotent: false, sent, ..get(failure) }
}

#[test]
fn an_idempotent_request_is_repeated_after_any_failure_before_the_first_byte() {
    for failure in [FailureKind::Connect, FailureKind::Reset, FailureKind::TryTimeout] {
        assert_eq!(may_repeat(&get(failure), all_on()), Ok(()));
        let started = Attempt { response_started: true, ..get(failure) };
        assert_eq!(may_repeat(&started, all_on()), Err(NoRetry::ResponseStarted));
    }
}

#[test]
fn a_post_is_repeated_only_when_nothing_of_it_was_sent() {
    assert_eq!(may_repeat(&post(FailureKind::Connect, false), all_on()), Ok(()));
    // A pooled connection that was closed before the first byte could be written.
    assert_eq!(may_repeat(&post(FailureKind::Reset, false), all_on()), Ok(()));
    for failure in FailureKind::ALL {
        assert!(may_repeat(&post(failure, true), all_on()).is_err(), "{failure:?}");
    }
    let reset = may_repeat(&post(FailureKind::Reset, true), all_on());
    assert_eq!(reset, Err(NoRetry::NotIdempotent));
}

#[test]
fn a_status_is_a_response_to_a_request_that_was_sent() {
    for failure in [FailureKind::Status502, FailureKind::Status503, FailureKind::Status504] {
        let read = Attempt { response_started: true, ..get(failure) };
        assert_eq!(may_repeat(&read, all_on()), Ok(()));
        let post = post(failure, false); // whatever the caller believes
        assert_eq!(may_repeat(&post, all_on()), Err(NoRetry::NotIdempotent));
    }
}

#[test]
fn a_call_is_repeated_after_the_statuses_that_are_named() {
    let call = |status| Attempt {
        cause: Cause::GrpcStatus(status),
        idempotent: false,
        sent: true,
        body_replayable: true,
        response_started: true,
    };
    for status in 0..=16 {
        assert_eq!(may_repeat(&call(status), all_on()), Ok(()));
        let only = RetryOn { grpc: [status].into_iter().collect(), ..RetryOn::default() };
        let without = RetryOn { grpc: (0..=16).filter(|other| *other != status).collect(), ..all_on() };
        assert_eq!(may_repeat(&call(status), only), Ok(()));
        assert_eq!(may_repeat(&call(status), without), Err(NoRetry::NotConfigured));
        let gone = Attempt { body_replayable: false, ..call(status) };
        assert_eq!(may_repeat(&gone, only), Err(NoRetry::BodyDropped));
    }
    assert_eq!(may_repeat(&call(14), RetryOn::default()), Err(NoRetry::NotConfigured));
    assert_eq!(may_repeat(&call(255), all_on()), Err(NoRetry::NotConfigured));
}

#[test]
fn only_what_is_configured_is_repeated() {
    type Switch = fn(&mut RetryOn) -> &mut bool;
    let cases: [(FailureKind, Switch); 6] = [
        (FailureKind::Connect, |on| &mut on.connect),
        (FailureKind::Reset, |on| &mut on.reset),
        (FailureKind::TryTimeout, |on| &mut on.try_timeout),
        (FailureKind::Status502, |on| &mut on.status_502),
        (FailureKind::Status503, |on| &mut on.status_503),
        (FailureKind::Status504, |on| &mut on.status_504),
    ];
    for (failure, flag) in cases {
        let mut on = all_on();
        *flag(&mut on) = false;
        assert_eq!(may_repeat(&get(failure), on), Err(NoRetry::NotConfigured));
        let mut on = RetryOn::default();
        *flag(&mut on) = true;
        assert_eq!(may_repeat(&get(failure), on), Ok(()));
    }
}

#[test]
fn some_failures_are_never_repeated() {
    for failure in [
        FailureKind::FirstByteTimeout,
        FailureKind::IdleTimeout,
        FailureKind::TotalTimeout,
        FailureKind::InvalidResponse,
        FailureKind::IncompleteResponse,
        FailureKind::GrpcUnavailable,
    ] {
        assert_eq!(may_repeat(&get(failure), all_on()), Err(NoRetry::NotConfigured));
    }
}

#[test]
fn a_body_that_was_dropped_cannot_be_sent_again() {
    let gone = Attempt { body_replayable: false, ..get(FailureKind::Connect) };
    assert_eq!(may_repeat(&gone, all_on()), Err(NoRetry::BodyDropped));
}

#[test]
fn idempotent_methods_are_those_of_rfc_9110() {
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
        assert!(is_idempotent(method.as_bytes()));
    }
    for method in ["POST", "PATCH", "CONNECT", "get", "PROPFIND", ""] {
        assert!(!is_idempotent(method.as_bytes()), "{method}");
    }
}

fn at(seconds: u64) -> Moment {
    Moment::from_millis(seconds * 1000)
}

#[test]
fn a_quiet_gateway_has_the_floor_and_it_comes_back() {
    let budget = Budget::default();
    let taken = (0..BUDGET_FLOOR * 2).filter(|_| budget.withdraw(0.2, at(3))).count();
    assert_eq!(taken as u64, BUDGET_FLOOR);
    assert_eq!((budget.taken(), budget.refused()), (BUDGET_FLOOR, BUDGET_FLOOR));
    assert!(!budget.withdraw(0.2, at(12)));
    assert!(budget.withdraw(0.2, at(13)));
    assert_eq!(budget.retries(at(13)), 1);
}

#[test]
fn a_share_of_nothing_switches_retries_off() {
    let budget = Budget::default();
    budget.join().count(at(0));
    assert!(!budget.withdraw(0.0, at(0)));
}

proptest! {
    #[test]
    fn it_allows_what_a_list_of_events_allows(
        events in prop::collection::vec((0u64..700, 0.0f64..1.0), 1..1500),
        share in 0.01f64..1.0,
        failing in 0.0f64..1.0,
    ) {
        let budget = Budget::default();
        let workers = [budget.join(), budget.join()];
        let (mut requests, mut retries): (Vec<u64>, Vec<u64>) = Default::default();
        let mut now_ms = 0;
        for (pause, luck) in events {
            now_ms += pause / 100; // about 3 ms: hundreds of events within a window
            let (now, second) = (Moment::from_millis(now_ms), now_ms / 1000);
            workers[requests.len() % 2].count(now);
            requests.push(second);
            if luck < failing {
                let recent = |list: &[u64]| list.iter().filter(|s| **s + WINDOW_SECONDS > second).count();
                let allowed = BUDGET_FLOOR as f64 + recent(&requests) as f64 * share;
                let expected = (recent(&retries) + 1) as f64 <= allowed.floor();
                prop_assert_eq!(budget.withdraw(share, now), expected);
                if expected {
                    retries.push(second);
                }
            }
        }
    }
}

#[test]
fn threads_together_get_no_more_than_the_budget() {
    for _ in 0..20 {
        let budget = Budget::default();
        let taken = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let own = budget.join();
                    for _ in 0..500 {
                        own.count(at(1));
                    }
                });
            }
        });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if budget.withdraw(0.2, at(1)) {
                            taken.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!(taken.into_inner() as u64, BUDGET_FLOOR + 2000 / 5);
    }
}

#[test]
fn requests_of_an_ended_worker_count_until_they_are_old() {
    let budget = Budget::default();
    let worker = budget.join();
    (0..50).for_each(|_| worker.count(at(1)));
    drop(worker);
    let taken = (0..300).filter(|_| budget.withdraw(0.2, at(5))).count() as u64;
    assert_eq!(taken, BUDGET_FLOOR + 10);
    assert!(budget.withdraw(0.2, at(20)));
    assert!(crate::upstream::lock(&budget.deposits).is_empty());
}
