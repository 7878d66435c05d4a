//! Leases: what they may not do, and when there are none.

use super::*;
use crate::config::LimitAlgorithm;
use crate::policy::limit::Algorithm;

const MS: u64 = 1_000_000;

fn bucket(rate: f64, burst: u64) -> (TokenBucket, Memory) {
    let algorithm = Algorithm::new(LimitAlgorithm::TokenBucket { rate_per_second: rate, burst }).unwrap().unwrap();
    let Algorithm::TokenBucket(bucket) = algorithm else { unreachable!() };
    (bucket, Memory::new(algorithm, 10))
}

fn at(ns: u64) -> Now {
    Now { ns, started_unix_ns: 0 }
}

#[test]
fn slow_buckets_and_single_workers_have_none() {
    let size = |rate, burst, workers| Lease::of(&bucket(rate, burst).0, workers).map(|lease| lease.size);
    assert_eq!(size(200.0, 100, 2), None);
    assert_eq!(size(3_900.0, 100_000, 2), None);
    assert_eq!(size(4_000.0, 100_000, 2), Some(2));
    assert_eq!(size(1e6, 100_000, 1), None);
    assert_eq!(size(1e6, 100_000, 4), Some(64));
    assert_eq!(size(1e6, 63, 4), None, "a small burst is not dealt out");
}

#[test]
fn leases_admit_no_more_than_the_bound_and_waste_nothing() {
    const WORKERS: usize = 4;
    let (rate, burst) = (20_000.0, 1_000);
    let (bucket, memory) = bucket(rate, burst);
    let leases: Vec<Lease> = (0..WORKERS).map(|_| Lease::of(&bucket, WORKERS).unwrap()).collect();
    assert_eq!(leases[0].size, 5);
    let mut admitted = Vec::new();
    // Every replica requests tokens all the time, for half a second; then a pause; then again.
    for start in [0, 5_000 * MS] {
        for step in 0..50_000u64 {
            let now = at(start + step * 10_000);
            let lease = &leases[(step % WORKERS as u64) as usize];
            let passed = lease.spend(&memory, Key(7), now).is_some() || memory.charge(Key(7), 1, now).0.allowed;
            if passed {
                admitted.push(now.ns);
            }
        }
    }
    for (first, from) in admitted.iter().enumerate().step_by(97) {
        for (last, to) in admitted.iter().enumerate().skip(first).step_by(13) {
            let most = burst as f64 + rate * (to - from + MS) as f64 / 1e9;
            assert!((last - first + 1) as f64 <= most, "{} in {} ns", last - first + 1, to - from);
        }
    }
    // Twice a full bucket and what comes back in half a second, less what may lie in the hands of others at the end.
    let all = 2.0 * (burst as f64 + rate / 2.0);
    assert!(admitted.len() as f64 >= all - 2.0 * (WORKERS * 5) as f64 - 2.0, "{} of {all}", admitted.len());
}

#[test]
fn a_token_that_was_not_needed_is_spent_by_the_next() {
    let (bucket, memory) = bucket(100_000.0, 1_000);
    let lease = Lease::of(&bucket, 2).unwrap();
    let first = lease.spend(&memory, Key(7), at(0)).unwrap();
    assert_eq!(lease.peek(at(0)).map(|decision| decision.remaining), Some(first.0.remaining - 1));
    lease.put_back(first.1, &memory, Key(7), at(0));
    assert_eq!(lease.spend(&memory, Key(7), at(0)), Some(first));
    assert_eq!(lease.peek(at(2 * MS)), None, "a lease does not last");
}

#[test]
fn tokens_that_come_back_after_their_lease_has_ended_stay_within_the_bound() {
    let (rate, burst) = (20_000.0, 1_000);
    let (bucket, memory) = bucket(rate, burst);
    let lease = Lease::of(&bucket, 2).unwrap();
    // As many requests as there are tokens wait for another store, for long.
    let spent: Vec<Token> = (0..burst).filter_map(|n| Some(lease.spend(&memory, Key(7), at(n * 1_000))?.1)).collect();
    assert!(spent.len() > 900, "{}", spent.len());
    let now = at(30_000 * MS);
    let mut admitted = u64::from(lease.spend(&memory, Key(7), now).is_some());
    // All of them are refused there while a new lease has begun.
    spent.into_iter().for_each(|token| lease.put_back(token, &memory, Key(7), now));
    while lease.spend(&memory, Key(7), now).is_some() || memory.charge(Key(7), 1, now).0.allowed {
        admitted += 1;
    }
    assert!(admitted <= burst + (rate / 1e3) as u64, "{admitted} at once");
    assert!(admitted >= burst - 64, "{admitted}: tokens were lost");
}

#[test]
fn a_token_of_an_ended_lease_goes_back_to_the_bucket() {
    let (bucket, memory) = bucket(20_000.0, 1_000);
    let lease = Lease::of(&bucket, 2).unwrap();
    let (_, token) = lease.spend(&memory, Key(7), at(0)).unwrap();
    let full = memory.peek(Key(7), 1, at(0)).remaining;
    lease.put_back(token, &memory, Key(7), at(MS));
    // What leaked in the millisecond may come on top, but no more than that.
    let after = memory.peek(Key(7), 1, at(MS)).remaining;
    assert!(after >= full, "{after} < {full}");
}
