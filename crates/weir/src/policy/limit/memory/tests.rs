//! Counts in memory: what one thread sees, and what several at once must not be able to do.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use super::*;
use crate::config::LimitAlgorithm;

const SECOND: u64 = 1_000_000_000;

fn memory(algorithm: LimitAlgorithm, max_keys: usize) -> Memory {
    Memory::new(Algorithm::new(algorithm).unwrap().unwrap(), max_keys)
}

fn window(quota: u64, seconds: u64) -> LimitAlgorithm {
    LimitAlgorithm::FixedWindow { quota, window: Duration::from_secs(seconds), aligned: false }
}

fn at(ns: u64) -> Now {
    Now { ns, started_unix_ns: 0 }
}

/// Well mixed, like the hashes that keys are.
fn key(number: u64) -> Key {
    let mix = |seed: u64| {
        let x = (number ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    Key(u128::from(mix(1) ^ mix(3) >> 32) << 64 | u128::from(mix(2) ^ mix(4) >> 32))
}

fn words(memory: &Memory) -> usize {
    memory.table.shards.iter().map(|shard| shard.slots.load().len()).sum()
}

#[test]
fn each_key_has_its_own_count() {
    let memory = memory(window(3, 10), 100_000);
    for round in 1..=5 {
        for number in 0..50_000 {
            let (decision, _) = memory.charge(key(number), 1, at(SECOND));
            assert_eq!(decision.allowed, round <= 3);
            assert_eq!(decision.remaining, 3u64.saturating_sub(round));
        }
    }
    assert_eq!((memory.keys(), memory.overflowed()), (50_000, 0));
}

#[test]
fn a_refused_request_of_a_new_key_leaves_no_trace() {
    let memory = memory(window(3, 10), 100);
    assert!(!memory.charge(key(1), 4, at(0)).0.allowed);
    assert_eq!(memory.keys(), 0);
    assert!(memory.peek(key(1), 3, at(0)).allowed);
    assert_eq!(memory.keys(), 0);
}

#[test]
fn when_full_new_keys_share_one_count_and_nobody_loses_his() {
    let memory = memory(window(3, 10), 2);
    assert!(memory.charge(key(1), 3, at(0)).0.allowed);
    assert!(memory.charge(key(2), 1, at(0)).0.allowed);
    for number in 3..6 {
        assert!(memory.charge(key(number), 1, at(0)).0.allowed);
    }
    // The shared count is used up, that of the second key is not, and the first is still known.
    assert!(!memory.charge(key(9), 1, at(0)).0.allowed);
    assert!(!memory.peek(key(9), 1, at(0)).allowed);
    assert!(memory.charge(key(2), 2, at(0)).0.allowed);
    assert!(!memory.charge(key(1), 1, at(0)).0.allowed);
    assert_eq!((memory.keys(), memory.overflowed()), (2, 4));
    // Idle keys make room by themselves.
    assert!(memory.charge(key(9), 1, at(11 * SECOND)).0.allowed);
    assert!(memory.charge(key(10), 1, at(11 * SECOND)).0.allowed);
    assert_eq!((memory.keys(), memory.overflowed()), (2, 4));
}

#[test]
fn what_was_charged_to_the_shared_count_is_given_back_to_it() {
    let memory = memory(LimitAlgorithm::Concurrency { quota: 1 }, 1);
    let (_, own) = memory.charge(key(1), 1, at(0));
    let (decision, shared) = memory.charge(key(2), 1, at(0));
    assert!(decision.allowed && shared.in_overflow && !own.in_overflow);
    assert!(!memory.charge(key(3), 1, at(0)).0.allowed);
    memory.refund(key(2), 1, shared, at(0));
    assert!(memory.charge(key(3), 1, at(0)).0.allowed);
}

#[test]
fn memory_of_idle_keys_is_given_back_and_live_ones_stay() {
    let memory = memory(window(3, 10), 1_000_000);
    (0..100_000).for_each(|number| assert!(memory.charge(key(number), 1, at(0)).0.allowed));
    assert!(words(&memory) >= 100_000 && words(&memory) <= 400_000, "{}", words(&memory));
    (0..10).for_each(|number| assert!(memory.charge(key(number), 2, at(20 * SECOND)).0.allowed));
    memory.sweep(at(21 * SECOND));
    assert_eq!(memory.keys(), 10);
    assert!(words(&memory) <= 10 * 8, "{}", words(&memory));
    (0..10).for_each(|number| assert_eq!(memory.charge(key(number), 1, at(21 * SECOND)).0.remaining, 0));
    memory.sweep(at(40 * SECOND));
    assert_eq!((memory.keys(), words(&memory)), (0, 0));
}

#[test]
fn a_key_can_be_reset() {
    let memory = memory(window(1, 10), 10);
    assert!(!memory.reset(key(1), at(0)));
    memory.charge(key(1), 1, at(0));
    assert!(memory.is_live(key(1), at(0)) && memory.reset(key(1), at(0)));
    assert!(!memory.is_live(key(1), at(0)) && !memory.reset(key(1), at(0)));
    assert!(memory.charge(key(1), 1, at(0)).0.allowed);
}

#[test]
fn many_threads_on_growing_shards_admit_exactly_the_quota() {
    const THREADS: u64 = 8;
    const KEYS: u64 = 20_000;
    let memory = memory(window(5, 1000), 1_000_000);
    let admitted = AtomicU64::new(0);
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (memory, admitted, barrier) = (&memory, &admitted, &barrier);
            scope.spawn(move || {
                barrier.wait();
                // Each in another order, so that they meet everywhere.
                let step = 2 * thread + 1;
                let mine =
                    (0..KEYS).filter(|number| memory.charge(key(number * step % KEYS), 1, at(0)).0.allowed).count();
                admitted.fetch_add(mine as u64, Relaxed);
            });
        }
    });
    // A step that divides the number of keys visits some keys more than once and others not at all.
    let input = |number| (0..THREADS).map(|thread| visits(number, 2 * thread + 1, KEYS)).sum::<u64>();
    let expected: u64 = (0..KEYS).map(|number| input(number).min(5)).sum();
    assert_eq!(admitted.into_inner(), expected);
    assert_eq!(memory.keys(), (0..KEYS).filter(|&number| input(number) > 0).count());
}

/// How often `n * step % keys` is `number`.
fn visits(number: u64, step: u64, keys: u64) -> u64 {
    let (mut a, mut b) = (step, keys);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    if number.is_multiple_of(a) { a } else { 0 }
}

#[test]
fn rebuilding_under_load_neither_loses_nor_makes_up_charges() {
    let memory = memory(LimitAlgorithm::Concurrency { quota: 3 }, 64);
    let stop = AtomicBool::new(false);
    let in_flight: Vec<AtomicU64> = (0..50).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4u64)
            .map(|thread| {
                let (memory, in_flight) = (&memory, &in_flight);
                scope.spawn(move || {
                    for round in 0..30_000u64 {
                        let number = (round * (thread + 7)) % 50;
                        let (decision, receipt) = memory.charge(key(number), 1, at(round));
                        if decision.allowed {
                            let now = in_flight[number as usize].fetch_add(1, Relaxed) + 1;
                            assert!(now <= 3 || receipt.in_overflow, "{now} in flight");
                            in_flight[number as usize].fetch_sub(1, Relaxed);
                            memory.refund(key(number), 1, receipt, at(round));
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                memory.sweep(at(0));
            }
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        stop.store(true, Relaxed);
    });
    memory.sweep(at(0));
    assert_eq!(memory.keys(), 0, "everything was given back");
}

/// Numbers of sliding windows come again after 2^20 windows. A count that was left in the table until then must not revive.
#[test]
fn an_old_count_does_not_revive_when_window_numbers_start_again() {
    let memory = memory(LimitAlgorithm::SlidingWindow { quota: 3, window: Duration::from_secs(1) }, 8);
    // All in one shard.
    let same = |number: u64| Key(1_000 + u128::from(number));
    let round = (1u64 << 20) * SECOND;
    // Neighbours that live on keep the sweep from giving the memory back; one more key shares the overflow count.
    assert!(memory.charge(same(1), 3, at(0)).0.allowed);
    (10..17).for_each(|number| assert!(memory.charge(same(number), 1, at(0)).0.allowed));
    assert!(memory.charge(same(2), 3, at(0)).0.allowed);
    assert_eq!(memory.overflowed(), 1);
    for second in 1..40 {
        for number in 10..17 {
            memory.charge(same(number), 1, at(second * SECOND / 2));
        }
        if second % 10 == 0 {
            memory.sweep(at(second * SECOND / 2));
        }
    }
    for ns in [round, round + SECOND, round - 1000 * SECOND] {
        assert_eq!(memory.peek(same(1), 3, at(ns)).remaining, 0, "nothing is left of an old count at {ns}");
        assert!(memory.peek(same(1), 3, at(ns)).allowed, "at {ns}");
        assert!(memory.peek(same(2), 3, at(ns)).allowed, "at {ns}, in the shared count");
    }
}
