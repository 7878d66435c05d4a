//! When users begin and end.

use std::time::Duration;

use super::*;
use crate::load::workload::Share;

const SECOND: u64 = 1_000_000_000;

fn closed(users: Span, iterations: Option<u64>) -> Closed {
    Closed { users, iterations, duration: iterations.is_none().then_some(Duration::from_secs(10)), think: None }
}

/// Beginning and end of each user of each of so many generators, in order.
fn plans(closed: &Closed, generators: u32) -> Vec<(u64, u64, u64)> {
    let of = |share: Share| (0..share.users(closed.users.most())).map(move |own| share.user(own));
    let mut users: Vec<u32> = (0..generators).flat_map(|index| of(Share { index, of: generators })).collect();
    users.sort_unstable();
    users.into_iter().map(|user| user_plan(closed, user, SECOND)).collect()
}

#[test]
fn a_ramp_has_its_mean_and_every_user_runs() {
    for (from, to) in [(1, 10), (10, 1), (1, 2), (0, 4), (4, 0), (3, 3), (1, 1000)] {
        let ramp = closed(Span::Ramp { from, to }, None);
        let plans = plans(&ramp, 1);
        assert!(plans.iter().all(|(start, until, _)| start < until), "{from} {to}: {plans:?}");
        let busy: u64 = plans.iter().map(|(start, until, _)| until - start).sum();
        let (mean, seconds) = (f64::from(from + to) / 2.0, busy as f64 / 1e9);
        assert!((seconds - mean * 10.0).abs() < 1e-3, "{from} {to}: {seconds}");
    }
}

#[test]
fn generators_together_have_the_users_of_one() {
    for load in [
        closed(Span::Ramp { from: 1, to: 10 }, None),
        closed(Span::Ramp { from: 7, to: 2 }, None),
        closed(Span::Constant(7), Some(100)),
        closed(Span::Constant(5), Some(12)),
    ] {
        for generators in [2, 3, 5] {
            assert_eq!(plans(&load, generators), plans(&load, 1), "{load:?} {generators}");
            let shares = (0..generators).map(|index| Share { index, of: generators });
            let mean: f64 = shares.map(|share| load.users.mean_of(share)).sum();
            assert!((mean - load.users.mean()).abs() < 1e-9, "{load:?} {generators}: {mean}");
        }
    }
    let sent: u64 = plans(&closed(Span::Constant(7), Some(100)), 3).iter().map(|(_, _, requests)| requests).sum();
    assert_eq!(sent, 100);
}
