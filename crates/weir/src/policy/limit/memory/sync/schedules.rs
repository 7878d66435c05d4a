//! The table under a scheduler that chooses who runs at each word, counter and lock: no count is lost, none counts twice, whatever rebuilds, sweeps,
//! refunds and new keys come between.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

use super::super::{Memory, STATE_BITS, STATE_MASK};
use crate::config::LimitAlgorithm;
use crate::policy::limit::{Algorithm, Key, Now};

/// Schedules of each test: random ones, and as many by PCT, which finds bugs of up to three changes of thread with a known probability.
const SCHEDULES: usize = 1_000;
const SECOND: u64 = 1_000_000_000;

fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    assert_eq!(Runner::new(RandomScheduler::new(SCHEDULES), Config::new()).run(test), SCHEDULES);
    assert_eq!(Runner::new(PctScheduler::new(3, SCHEDULES), Config::new()).run(test), SCHEDULES);
}

/// Windows of ten seconds.
fn memory(quota: u64, max_keys: usize) -> Memory {
    let algorithm = LimitAlgorithm::FixedWindow { quota, window: Duration::from_secs(10), aligned: false };
    Memory::new(Algorithm::new(algorithm).unwrap().unwrap(), max_keys)
}

fn at(seconds: u64) -> Now {
    Now { ns: seconds * SECOND, started_unix_ns: 0 }
}

/// All of one shard, side by side in its array.
fn key(number: u64) -> Key {
    Key(u128::from(number + 2))
}

/// How many of so many charges are admitted.
fn admitted(memory: &Memory, number: u64, charges: usize, now: Now) -> usize {
    (0..charges).filter(|_| memory.charge(key(number), 1, now).0.allowed).count()
}

/// Words that are not empty.
fn occupied(memory: &Memory) -> usize {
    let words =
        |shard: &super::super::Shard| shard.slots.load().words().iter().filter(|word| word.load(Relaxed) != 0).count();
    memory.table.shards.iter().map(words).sum()
}

/// Each key has its quota and no more, the table knows how many it holds, and no key is there twice.
fn expect_exact(memory: &Memory) {
    assert_eq!(memory.keys(), occupied(memory));
    for shard in &memory.table.shards {
        let slots = shard.slots.load();
        let mut tags: Vec<u128> =
            slots.words().iter().map(|word| word.load(Relaxed)).filter(|word| *word != 0).collect();
        tags.iter_mut().for_each(|word| *word >>= STATE_BITS);
        let count = tags.len();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), count, "a key has two words");
    }
}

#[test]
fn schedules_of_charges_while_the_array_grows() {
    explore(|| {
        let memory = memory(3, 100);
        assert_eq!(admitted(&memory, 0, 1, at(1)), 1);
        // The array has room for six.
        let grows = {
            let memory = memory.clone();
            thread::spawn(move || (1..8).map(|number| admitted(&memory, number, 1, at(1))).sum::<usize>())
        };
        let charges = {
            let memory = memory.clone();
            thread::spawn(move || admitted(&memory, 0, 2, at(1)))
        };
        let mine = admitted(&memory, 0, 2, at(1));
        assert_eq!(mine + charges.join().unwrap(), 2, "three of five in all");
        assert_eq!(grows.join().unwrap(), 7);
        assert_eq!(memory.keys(), 8);
        for number in 0..8 {
            let left = if number == 0 { 0 } else { 2 };
            assert_eq!(memory.peek(key(number), 1, at(1)).allowed, left > 0, "{number}");
            assert_eq!(admitted(&memory, number, 4, at(1)), left, "{number}");
        }
        expect_exact(&memory);
    });
}

#[test]
fn schedules_of_a_key_that_comes_in_twice_at_once() {
    explore(|| {
        let memory = memory(1, 100);
        let other = {
            let memory = memory.clone();
            thread::spawn(move || admitted(&memory, 0, 1, at(1)))
        };
        assert_eq!(admitted(&memory, 0, 1, at(1)) + other.join().unwrap(), 1);
        assert_eq!(memory.keys(), 1);
        expect_exact(&memory);
    });
}

#[test]
fn schedules_of_sweeps_beside_keys_that_come_back_to_life() {
    explore(|| {
        let memory = memory(2, 100);
        (0..3).for_each(|number| assert_eq!(admitted(&memory, number, 2, at(1)), 2));
        // Their windows are over.
        let sweeps = {
            let memory = memory.clone();
            thread::spawn(move || memory.sweep(at(20)))
        };
        let charges = {
            let memory = memory.clone();
            thread::spawn(move || admitted(&memory, 0, 2, at(20)) + admitted(&memory, 7, 1, at(20)))
        };
        let mine = admitted(&memory, 0, 2, at(20));
        assert_eq!(mine + charges.join().unwrap(), 3, "two of four, and one of another");
        sweeps.join().unwrap();
        assert_eq!((admitted(&memory, 0, 1, at(20)), admitted(&memory, 7, 2, at(20))), (0, 1));
        expect_exact(&memory);
    });
}

#[test]
fn schedules_of_new_keys_that_want_the_word_of_a_dead_one() {
    explore(|| {
        let memory = memory(1, 2);
        (0..2).for_each(|number| assert_eq!(admitted(&memory, number, 1, at(1)), 1));
        // There may be two keys: one of three finds no word and shares one.
        let charge = |number: u64| {
            let memory = memory.clone();
            thread::spawn(move || admitted(&memory, number, 1, at(20)))
        };
        let others = [charge(5), charge(6)];
        let mine = admitted(&memory, 0, 1, at(20));
        let all = mine + others.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
        assert_eq!((all, memory.overflowed(), memory.keys()), (3, 1, 2));
        // Neither those that have a word have a second go, nor the one that shares one.
        assert_eq!([0, 5, 6].map(|number| admitted(&memory, number, 1, at(20))), [0; 3]);
        expect_exact(&memory);
    });
}

#[test]
fn schedules_of_refunds_while_the_array_grows() {
    explore(|| {
        let memory = memory(2, 100);
        let (decision, receipt) = memory.charge(key(0), 1, at(1));
        assert!(decision.allowed);
        let grows = {
            let memory = memory.clone();
            thread::spawn(move || (1..8).for_each(|number| assert_eq!(admitted(&memory, number, 1, at(1)), 1)))
        };
        let refunds = {
            let memory = memory.clone();
            thread::spawn(move || memory.refund(key(0), 1, receipt, at(1)))
        };
        let mine = admitted(&memory, 0, 1, at(1));
        refunds.join().unwrap();
        grows.join().unwrap();
        assert_eq!(mine, 1);
        assert_eq!(admitted(&memory, 0, 2, at(1)), 1, "what was refunded, once");
        expect_exact(&memory);
    });
}

#[test]
fn schedules_of_more_keys_than_there_may_be() {
    explore(|| {
        let memory = memory(1, 3);
        let comes = |from: u64| {
            let memory = memory.clone();
            thread::spawn(move || (from..from + 3).map(|number| admitted(&memory, number, 1, at(1))).sum::<usize>())
        };
        let (first, second) = (comes(0), comes(10));
        let all = first.join().unwrap() + second.join().unwrap();
        assert_eq!((memory.keys(), memory.overflowed()), (3, 3));
        assert_eq!(all, 4, "three with a word, and one of those that share one");
        assert!(memory.table.overflow.load(Relaxed) & STATE_MASK != 0);
        expect_exact(&memory);
    });
}
