//! Each algorithm against a direct model of it, the token bucket also against `governor`; what holds for all of them; boundaries.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::FakeRelativeClock;
use governor::{Quota, RateLimiter};
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn at(ns: u64) -> Now {
    Now { ns, started_unix_ns: 0 }
}

fn bucket(rate: f64, burst: u64) -> Algorithm {
    Algorithm::new(LimitAlgorithm::TokenBucket { rate_per_second: rate, burst }).unwrap().unwrap()
}

fn fixed(quota: u64, ms: u64, aligned: bool) -> Algorithm {
    let window = Duration::from_millis(ms);
    Algorithm::new(LimitAlgorithm::FixedWindow { quota, window, aligned }).unwrap().unwrap()
}

fn sliding(quota: u64, ms: u64) -> Algorithm {
    let window = Duration::from_millis(ms);
    Algorithm::new(LimitAlgorithm::SlidingWindow { quota, window }).unwrap().unwrap()
}

fn concurrency(quota: u64) -> Algorithm {
    Algorithm::new(LimitAlgorithm::Concurrency { quota }).unwrap().unwrap()
}

/// One key, and a log of what it was allowed.
struct Account {
    algorithm: Algorithm,
    state: State,
    /// When, and how much.
    admitted: Vec<(u64, u64)>,
}

impl Account {
    fn new(algorithm: Algorithm) -> Self {
        Account { algorithm, state: 0, admitted: Vec::new() }
    }

    fn request(&mut self, ns: u64, cost: u64) -> Decision {
        let (next, decision) = self.algorithm.charge(self.state, cost, at(ns));
        assert_eq!(next.is_some(), decision.allowed);
        if let Some(next) = next {
            assert!(next >> STATE_BITS == 0, "a state must fit");
            self.state = next;
            self.admitted.push((ns, cost));
        }
        decision
    }

    /// Asserts that in any time `t` at most `burst + per_ns * t` was admitted.
    fn assert_bound(&mut self, burst: f64, per_ns: f64) {
        self.admitted.sort_unstable();
        for (first, (from, _)) in self.admitted.iter().enumerate() {
            let mut sum = 0;
            for (to, cost) in &self.admitted[first..] {
                sum += cost;
                let most = burst + per_ns * (to - from) as f64;
                assert!(sum as f64 <= most * (1.0 + 1e-9), "{sum} in {} ns, at most {most}", to - from);
            }
        }
    }
}

/// Steps between requests: bursts, pauses, and what lies close to a window's length.
fn schedule(window_ns: u64) -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![
        3 => Just(0),
        3 => 0..window_ns / 50 + 2,
        2 => 0..window_ns + 2,
        1 => window_ns.saturating_sub(2)..window_ns + 2,
        1 => 0..5 * window_ns + 2,
    ];
    prop::collection::vec((gap, prop_oneof![4 => Just(1u64), 1 => 1..6u64]), 1..200)
}

fn times(steps: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    let mut now = 0;
    steps.iter().map(move |&(gap, cost)| {
        now += gap;
        (now, cost)
    })
}

proptest! {
    #[test]
    fn a_token_bucket_decides_as_governor_does(period in 1..50_000_000u64, burst in 1..20u32, steps in schedule(50_000_000)) {
        let clock = FakeRelativeClock::default();
        let quota = Quota::with_period(Duration::from_nanos(period)).unwrap().allow_burst(NonZeroU32::new(burst).unwrap());
        let oracle = RateLimiter::direct_with_clock(quota, clock.clone());
        let mut account = Account::new(bucket(1e9 / period as f64, u64::from(burst)));
        let mut before = 0;
        for (now, cost) in times(&steps) {
            clock.advance(Duration::from_nanos(now - before));
            before = now;
            let expected = matches!(oracle.check_n(NonZeroU32::new(cost as u32).unwrap()), Ok(Ok(())));
            prop_assert_eq!(account.request(now, cost).allowed, expected, "at {}", now);
        }
    }

    #[test]
    fn a_token_bucket_decides_as_one_that_drips(interval in 1..1_000_000u64, burst in 1..50u64, steps in schedule(10_000_000)) {
        let mut account = Account::new(bucket(1e9 / interval as f64, burst));
        let (mut tokens_ns, mut before) = (burst * interval, 0);
        for (now, cost) in times(&steps) {
            tokens_ns = (tokens_ns + (now - before)).min(burst * interval);
            before = now;
            let decision = account.request(now, cost);
            prop_assert_eq!(decision.allowed, tokens_ns >= cost * interval);
            tokens_ns -= if decision.allowed { cost * interval } else { 0 };
            prop_assert_eq!(decision.remaining, tokens_ns / interval);
        }
    }

    #[test]
    fn a_fixed_window_starts_with_the_first_request(quota in 1..20u64, ms in 1..50u64, steps in schedule(50_000_000)) {
        let mut account = Account::new(fixed(quota, ms, false));
        let (mut end, mut count) = (0, 0);
        for (now, cost) in times(&steps) {
            if now >= end {
                count = 0;
            }
            let decision = account.request(now, cost);
            prop_assert_eq!(decision.allowed, count + cost <= quota);
            if decision.allowed {
                if count == 0 {
                    end = now.div_ceil(1_000_000) * 1_000_000 + ms * 1_000_000;
                }
                count += cost;
            }
            prop_assert_eq!(decision.remaining, quota - count);
        }
    }

    #[test]
    fn an_aligned_window_is_counted_by_its_number(quota in 1..20u64, ms in 1..50u64, steps in schedule(50_000_000)) {
        let started_unix_ns = 1_700_000_000_123_456_789;
        let algorithm = fixed(quota, ms, true);
        let (mut state, mut counts) = (0, HashMap::<u64, u64>::new());
        for (ns, cost) in times(&steps) {
            let now = Now { ns, started_unix_ns };
            let count = counts.entry((started_unix_ns + ns) / 1_000_000 / ms).or_default();
            let (next, decision) = algorithm.charge(state, cost, now);
            prop_assert_eq!(decision.allowed, *count + cost <= quota);
            if let Some(next) = next {
                *count += cost;
                state = next;
            }
            prop_assert_eq!(decision.remaining, quota - *count);
        }
    }

    #[test]
    fn a_sliding_window_weighs_the_window_before(quota in 1..30u64, ms in 1..50u64, steps in schedule(50_000_000)) {
        let mut account = Account::new(sliding(quota, ms));
        let window = ms * 1_000_000;
        let mut counts = HashMap::<u64, u64>::new();
        for (now, cost) in times(&steps) {
            let number = now / window;
            let before = number.checked_sub(1).and_then(|number| counts.get(&number)).copied().unwrap_or(0);
            let current = counts.entry(number).or_default();
            // All multiplied by the window, so that nothing is rounded.
            let weighted = u128::from(before) * u128::from(window - now % window) + u128::from(*current + cost) * u128::from(window);
            let decision = account.request(now, cost);
            prop_assert_eq!(decision.allowed, weighted <= u128::from(quota) * u128::from(window));
            *current += if decision.allowed { cost } else { 0 };
        }
        // The documented bound: like a bucket of one quota that fills in one window.
        account.assert_bound(quota as f64, quota as f64 / window as f64);
    }

    #[test]
    fn moments_out_of_order_admit_no_more(rate in 1..1000u64, burst in 1..20u64, steps in schedule(20_000_000), lags in prop::collection::vec(0..3_000_000u64, 200)) {
        let mut bucket = Account::new(bucket(rate as f64, burst));
        let mut window = Account::new(sliding(burst, 20));
        for ((now, cost), lag) in times(&steps).zip(lags) {
            bucket.request(now.saturating_sub(lag), cost);
            window.request(now.saturating_sub(lag), cost);
        }
        bucket.assert_bound(burst as f64, rate as f64 / 1e9);
        // What a late clock charges may have been charged in the window after: a window's length of lag at most.
        window.assert_bound(2.0 * burst as f64, burst as f64 / 20e6);
    }

    #[test]
    fn retry_and_reset_say_exactly_when(kind in 0..4usize, quota in 1..20u64, steps in schedule(20_000_000)) {
        let algorithm = [bucket(1e9 / 777_777.0, quota), fixed(quota, 7, false), fixed(quota, 7, true), sliding(quota, 13)][kind];
        let mut account = Account::new(algorithm);
        for (now, cost) in times(&steps) {
            let decision = account.request(now, cost);
            let request = |later: u64, cost| algorithm.charge(account.state, cost, at(now + later)).1;
            if !decision.allowed && cost <= quota {
                prop_assert!(request(decision.retry_ns, cost).allowed, "{decision:?}");
                prop_assert!(!request(decision.retry_ns - 1, cost).allowed, "{decision:?}");
            }
            if decision.remaining < quota && decision.reset_ns > 0 {
                prop_assert!(request(decision.reset_ns, 0).remaining > decision.remaining, "{decision:?}");
                prop_assert!(request(decision.reset_ns - 1, 0).remaining <= decision.remaining, "{decision:?}");
            }
        }
    }

    #[test]
    fn what_is_taken_back_admits_nobody_else_twice(kind in 0..3usize, quota in 1..20u64, steps in schedule(20_000_000), doomed in prop::collection::vec(0..4u64, 200)) {
        let algorithm = [bucket(1000.0, quota), fixed(quota, 7, false), sliding(quota, 13)][kind];
        let mut account = Account::new(algorithm);
        // Charges that wait to be taken back, cost, steps to wait.
        let mut pending: Vec<(Charge, u64, u64)> = Vec::new();
        for ((now, cost), wait) in times(&steps).zip(doomed) {
            for (charge, cost, _) in pending.extract_if(.., |(_, _, wait)| { *wait -= 1; *wait == 0 }) {
                account.state = algorithm.refund(account.state, cost, charge, at(now));
            }
            let decision = account.request(now, cost);
            if wait > 0 && decision.allowed {
                account.admitted.pop();
                pending.push((Charge { state: account.state, at_ns: now }, cost, wait));
            }
        }
        match kind {
            0 => account.assert_bound(quota as f64, 1e-6),
            1 => account.assert_bound(2.0 * quota as f64, quota as f64 / 7e6),
            _ => account.assert_bound(quota as f64, quota as f64 / 13e6),
        }
    }

    #[test]
    fn a_charge_that_is_taken_back_at_once_leaves_nothing(kind in 0..4usize, quota in 2..20u64, steps in schedule(20_000_000)) {
        let algorithm = [bucket(1000.0, quota), fixed(quota, 7, false), sliding(quota, 13), concurrency(quota)][kind];
        let mut account = Account::new(algorithm);
        for (now, cost) in times(&steps) {
            account.request(now, cost);
            let before = algorithm.charge(account.state, 0, at(now)).1;
            if let (Some(charged), _) = algorithm.charge(account.state, 2, at(now)) {
                let back = algorithm.refund(charged, 2, Charge { state: charged, at_ns: now }, at(now));
                prop_assert_eq!(algorithm.charge(back, 0, at(now)).1, before);
            }
        }
    }
}

/// Two charges at once; nine tenths of a token come back; one charge is taken back, and its place used; then the other. Only the last two may stay.
#[test]
fn what_came_back_of_a_charge_is_not_given_back_with_it() {
    let algorithm = bucket(1000.0, 2);
    let mut account = Account::new(algorithm);
    let charge = |account: &mut Account, ns| {
        assert!(account.request(ns, 1).allowed);
        Charge { state: account.state, at_ns: ns }
    };
    let (first, second) = (charge(&mut account, 0), charge(&mut account, 0));
    account.state = algorithm.refund(account.state, 1, first, at(0));
    charge(&mut account, 900_000);
    account.state = algorithm.refund(account.state, 1, second, at(900_000));
    charge(&mut account, 900_000);
    assert!(!account.request(1_899_999, 1).allowed);
    assert!(account.request(1_900_000, 1).allowed);
}

#[test]
fn a_bucket_holds_its_burst_and_no_more_after_any_pause() {
    let mut account = Account::new(bucket(20.0, 40));
    let mut burst = |ns| (0..100).filter(|_| account.request(ns, 1).allowed).count();
    assert_eq!(burst(5), 40);
    assert_eq!(burst(5 + SECOND / 20 - 1), 0);
    assert_eq!(burst(5 + SECOND / 20), 1);
    assert_eq!(burst(3600 * SECOND), 40);
}

#[test]
fn the_sliding_window_has_no_double_burst_where_the_fixed_one_has() {
    let edge = 10 * SECOND;
    let burst = |account: &mut Account, ns| (0..100).filter(|_| account.request(ns, 1).allowed).count();
    let mut smooth = Account::new(sliding(10, 1000));
    assert_eq!((burst(&mut smooth, edge - 1), burst(&mut smooth, edge)), (10, 0));
    assert_eq!(burst(&mut smooth, edge + SECOND / 2), 5);
    let mut aligned = Account::new(fixed(10, 1000, true));
    assert_eq!((burst(&mut aligned, edge - 1), burst(&mut aligned, edge)), (10, 10));
    let mut own = Account::new(fixed(10, 1000, false));
    assert_eq!(
        (burst(&mut own, edge), burst(&mut own, edge + SECOND - 1), burst(&mut own, edge + SECOND)),
        (10, 0, 10)
    );
}

#[test]
fn a_cost_above_the_quota_never_passes() {
    for algorithm in [bucket(1.0, 5), fixed(5, 1000, false), fixed(5, 1000, true), sliding(5, 1000), concurrency(5)] {
        for cost in [6, 1 << 40, u64::MAX] {
            let (next, decision) = algorithm.charge(0, cost, at(7 * SECOND));
            assert_eq!((next, decision.allowed, decision.remaining), (None, false, 5), "{algorithm:?}");
            assert!(decision.retry_after() >= 1);
        }
    }
}

#[test]
fn concurrency_counts_what_is_in_flight() {
    let algorithm = concurrency(2);
    let (one, _) = algorithm.charge(0, 1, at(0));
    let (two, decision) = algorithm.charge(one.unwrap(), 1, at(0));
    assert_eq!((decision.allowed, decision.remaining), (true, 0));
    assert!(algorithm.charge(two.unwrap(), 1, at(1 << 50)).0.is_none(), "time gives nothing back");
    let back = algorithm.refund(two.unwrap(), 1, Charge::default(), at(0));
    assert!(algorithm.charge(back, 1, at(0)).0.is_some());
    assert!(!algorithm.is_live(algorithm.refund(back, 1, Charge::default(), at(0)), at(0)));
}

#[test]
fn a_state_dies_when_it_says_nothing_any_more() {
    for (algorithm, alive, dead) in [
        (bucket(1.0, 5), SECOND - 1, SECOND),
        (fixed(5, 1000, false), SECOND - 1, SECOND),
        (fixed(5, 1000, true), SECOND - 1, SECOND),
        (sliding(5, 1000), 2 * SECOND - 1, 2 * SECOND),
    ] {
        let state = algorithm.charge(0, 1, at(0)).0.unwrap();
        assert!(algorithm.is_live(state, at(alive)), "{algorithm:?}");
        assert!(!algorithm.is_live(state, at(dead)), "{algorithm:?}");
        assert_eq!(algorithm.charge(state, 1, at(dead)).1, algorithm.charge(0, 1, at(dead)).1);
    }
}

#[test]
fn numbers_out_of_reach_are_refused_and_those_in_reach_work() {
    let window = Duration::from_secs(1);
    let fill = |rate, burst| Algorithm::new(LimitAlgorithm::TokenBucket { rate_per_second: rate, burst });
    assert!(matches!(fill(1e-9, 1), Err(Unfit::Fill(_))));
    assert!(matches!(fill(f64::NAN, 1), Err(Unfit::Fill(_))));
    assert!(matches!(fill(1.0, u64::MAX), Err(Unfit::Fill(_))));
    assert!(fill(1.0 / 3600.0, 24).is_ok());
    let huge = fill(1e12, u64::MAX >> 3).unwrap().unwrap();
    assert!(huge.charge(0, 1 << 59, at(0)).1.allowed);
    let many = |quota| Algorithm::new(LimitAlgorithm::SlidingWindow { quota, window });
    assert_eq!(many(1 << 26).unwrap_err(), Unfit::Quota((1 << 26) - 1));
    let mut most = Account::new(many((1 << 26) - 1).unwrap().unwrap());
    assert!(
        most.request(0, (1 << 26) - 1).allowed
            && !most.request(0, 1).allowed
            && most.request(3 * SECOND, (1 << 26) - 1).allowed
    );
    let long =
        LimitAlgorithm::FixedWindow { quota: 1, window: Duration::from_secs(100 * 365 * 86_400), aligned: false };
    assert!(matches!(Algorithm::new(long), Err(Unfit::Window(_))));
    assert_eq!(Algorithm::new(LimitAlgorithm::Concurrency { quota: 0 }), Ok(None));
}

#[test]
fn an_aligned_window_survives_late_workers_and_no_clock_that_is_set_back() {
    let origin = 1_800_000_000 * SECOND;
    for ms in [1, 100, 1_000, 3_600_000] {
        let (algorithm, window_ns) = (fixed(3, ms, true), ms * 1_000_000);
        let moment =
            |windows: i64| Now { ns: 0, started_unix_ns: origin.strict_add_signed(windows * window_ns as i64) };
        let full = algorithm.charge(0, 3, moment(0)).0.unwrap();
        let (next, late) = algorithm.charge(full, 1, moment(-1));
        assert!(next.is_none() && late.retry_ns <= 2 * window_ns, "{late:?}");
        // Set back further: a new window, not one that lasts until the clock is where it was.
        let back = -((SECOND / window_ns).max(1) as i64) - 1;
        for back in [back, 10 * back, -(1 << 18)] {
            assert!(algorithm.charge(full, 3, moment(back)).1.allowed, "{back} windows of {ms} ms");
        }
    }
}

#[test]
fn a_window_that_is_not_aligned_does_not_look_at_the_system_clock() {
    let algorithm = fixed(3, 1_000, false);
    let full = algorithm.charge(0, 3, Now { ns: 0, started_unix_ns: 1_800_000_000 * SECOND }).0.unwrap();
    for started_unix_ns in [0, 1_700_000_000 * SECOND, 1_900_000_000 * SECOND] {
        assert!(!algorithm.charge(full, 1, Now { ns: SECOND - 1, started_unix_ns }).1.allowed);
        assert!(algorithm.charge(full, 3, Now { ns: SECOND, started_unix_ns }).1.allowed);
    }
}
