//! Each policy against what it promises, on virtual time and with fixed seeds.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::config::{Balance, HashKey};
use crate::runtime::hash::hash_key;
use crate::upstream::lease::Lease;
use crate::upstream::outcome::FailureKind;
use crate::upstream::rng::Rng;
use crate::upstream::tests::{Rig, ip, number, spec, target};

const HASH: Balance = Balance::Hash(HashKey::Path);

const ALL: [Balance; 4] = [Balance::RoundRobin, Balance::LeastRequest, Balance::Ewma, Balance::Hash(HashKey::Path)];

fn set(balance: Balance, weights: &[u32]) -> Arc<TargetSet> {
    Rig::new(spec(balance, weights)).upstream().published.load_full()
}

/// A worker without the view around it.
struct Worker {
    set: Arc<TargetSet>,
    balancer: Balancer,
    rng: Rng,
}

impl Worker {
    fn new(balance: Balance, weights: &[u32], seed: u64) -> Worker {
        Worker::of(set(balance, weights), seed)
    }

    fn of(set: Arc<TargetSet>, seed: u64) -> Worker {
        let mut rng = Rng::new(seed);
        Worker { balancer: Balancer::new(&set, &mut rng), set, rng }
    }

    fn choose(&mut self, hash: Option<u64>, now: Moment, admits: impl Fn(usize) -> bool) -> Option<usize> {
        let ramp = if self.set.ramping(now) { self.set.spec.slow_start } else { None };
        let is_even = self.set.has_even_weights && ramp.is_none();
        let choice = Choice { targets: &self.set.targets, is_even, ramp, hash, prompt: None, now, admits };
        self.balancer.choose(&choice, &mut self.rng)
    }

    fn any(&mut self) -> usize {
        self.choose(None, Moment::START, |_| true).unwrap()
    }

    fn key(&mut self, key: u64) -> usize {
        self.choose(Some(key), Moment::START, |_| true).unwrap()
    }

    fn hold(&self, index: usize) -> Lease {
        self.set.acquire(index, Moment::START).unwrap()
    }

    fn counts(&mut self, picks: usize, admits: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut counts = vec![0; self.set.targets.len()];
        for _ in 0..picks {
            counts[self.choose(None, Moment::START, &admits).unwrap()] += 1;
        }
        counts
    }
}

/// Each count within 5 % of the whole of what the shares say.
fn assert_shares(counts: &[usize], shares: &[f64]) {
    let (whole, parts) = (counts.iter().sum::<usize>() as f64, shares.iter().sum::<f64>());
    for (count, share) in counts.iter().zip(shares) {
        let expected = whole * share / parts;
        assert!((*count as f64 - expected).abs() < whole * 0.05, "{counts:?} for {shares:?}");
    }
}

proptest! {
    #[test]
    fn a_policy_chooses_an_admitted_target_if_there_is_one(
        weights in prop::collection::vec(1u32..20, 1..12),
        mask in any::<u16>(),
        seed in any::<u64>(),
        held in prop::collection::vec(0usize..12, 0..30),
    ) {
        for balance in ALL {
            let mut worker = Worker::new(balance.clone(), &weights, seed);
            let _held: Vec<Lease> = held.iter().map(|i| worker.hold(i % weights.len())).collect();
            let admits = |index: usize| mask & (1 << index) != 0;
            for _ in 0..8 {
                let chosen = worker.choose(Some(seed), Moment::START, admits);
                prop_assert_eq!(chosen.is_some(), (0..weights.len()).any(admits));
                prop_assert!(chosen.is_none_or(admits), "{:?} chose {:?}", balance, chosen);
            }
        }
    }

    #[test]
    fn round_robin_gives_each_its_weight_in_every_round(
        weights in prop::collection::vec(1u32..9, 1..8),
        seed in any::<u64>(),
    ) {
        let mut worker = Worker::new(Balance::RoundRobin, &weights, seed);
        let round = weights.iter().sum::<u32>() as usize;
        for _ in 0..3 {
            let counts = worker.counts(round, |_| true);
            prop_assert!(counts.iter().zip(&weights).all(|(count, weight)| *count == *weight as usize));
        }
    }
}

#[test]
fn round_robin_is_smooth() {
    let mut worker = Worker::new(Balance::RoundRobin, &[5, 1, 1], 0);
    let picks: Vec<usize> = (0..14).map(|_| worker.any()).collect();
    // nginx's order, from wherever this worker begins.
    let order = [0, 0, 1, 0, 2, 0, 0];
    let rotated = |by: usize| (0..14).all(|i| picks[i] == order[(i + by) % 7]);
    assert!((0..7).any(rotated), "{picks:?}");
}

#[test]
fn workers_begin_their_rounds_at_different_targets() {
    let first = |seed| Worker::new(Balance::RoundRobin, &[1, 1, 1, 1], seed).any();
    let mut counts = [0; 4];
    for seed in 0..400 {
        counts[first(seed)] += 1;
    }
    assert_shares(&counts, &[1.0; 4]);
}

#[test]
fn the_share_of_a_target_that_is_out_goes_to_all_others_alike() {
    let others = |index| index != 1;
    let mut worker = Worker::new(Balance::RoundRobin, &[1, 1, 1, 1], 1);
    let counts = worker.counts(300, others);
    assert_eq!(counts[1], 0);
    assert_shares(&counts, &[1.0, 0.0, 1.0, 1.0]);
    let mut worker = Worker::new(Balance::LeastRequest, &[1, 1, 1, 1], 1);
    assert_shares(&worker.counts(30_000, others), &[1.0, 0.0, 1.0, 1.0]);
    let mut worker = Worker::new(HASH, &[1, 1, 1, 1], 1);
    assert_shares(&worker.counts(30_000, others), &[1.0, 0.0, 1.0, 1.0]);
}

#[test]
fn idle_targets_share_by_weight() {
    for balance in ALL {
        let mut worker = Worker::new(balance, &[1, 3, 6], 2);
        assert_shares(&worker.counts(30_000, |_| true), &[1.0, 3.0, 6.0]);
    }
}

#[test]
fn of_two_targets_the_one_with_fewer_requests_per_weight_is_chosen() {
    let mut worker = Worker::new(Balance::LeastRequest, &[1, 1], 3);
    let _held = worker.hold(0);
    assert_eq!(worker.counts(100, |_| true), [0, 100]);

    // 2 in flight at weight 1 is more than 3 at weight 2.
    let mut worker = Worker::new(Balance::LeastRequest, &[1, 2], 3);
    let _held: Vec<Lease> = [0, 0, 1, 1, 1].map(|index| worker.hold(index)).into();
    assert_eq!(worker.counts(100, |_| true), [0, 100]);
}

#[test]
fn any_two_targets_may_be_the_two_that_are_looked_at() {
    // With one idle target among four, it is chosen whenever it is one of the two: half of the time, wherever it stands.
    for idle in 0..4 {
        let mut worker = Worker::new(Balance::LeastRequest, &[1, 1, 1, 1], 8);
        let _held: Vec<Lease> = (0..4).filter(|index| *index != idle).map(|index| worker.hold(index)).collect();
        let mut shares = [1.0; 4];
        shares[idle] = 3.0;
        assert_shares(&worker.counts(30_000, |_| true), &shares);
    }
}

#[test]
fn least_request_levels_what_is_in_flight_by_weight() {
    for (weights, seed) in [(vec![1; 10], 4), (vec![1, 2, 3, 4], 5)] {
        let mut worker = Worker::new(Balance::LeastRequest, &weights, seed);
        let held: Vec<Lease> = (0..1000)
            .map(|_| {
                let index = worker.any();
                worker.hold(index)
            })
            .collect();
        let whole: u32 = weights.iter().sum();
        for (target, weight) in worker.set.targets.iter().zip(&weights) {
            let fair = held.len() as f64 * f64::from(*weight) / f64::from(whole);
            let off = (f64::from(target.state.in_flight()) - fair).abs();
            assert!(off <= 5.0, "{} in flight, fair {fair}", target.state.in_flight());
        }
    }
}

#[test]
fn ewma_prefers_the_faster_target_in_proportion_to_load() {
    let mut worker = Worker::new(Balance::Ewma, &[1, 1], 6);
    let observe = |worker: &Worker, index: usize, ms| {
        let ewma = &worker.set.targets[index].state.load.ewma;
        ewma.observe(Duration::from_millis(ms), Moment::START);
    };
    observe(&worker, 0, 10);
    observe(&worker, 1, 30);
    assert_eq!(worker.counts(50, |_| true), [50, 0]);
    // Three in flight at the fast one cost 40, one at the slow one costs 30.
    let held: Vec<Lease> = [0, 0, 0].map(|index| worker.hold(index)).into();
    assert_eq!(worker.counts(50, |_| true), [0, 50]);
    drop(held);
    // A peak counts at once.
    observe(&worker, 0, 500);
    assert_eq!(worker.counts(50, |_| true), [0, 50]);
    // And is forgotten while the other is measured again and again: the first gets another chance.
    let later = Moment::from_millis(40_000);
    worker.set.targets[1].state.load.ewma.observe(Duration::from_millis(30), later);
    assert_eq!(worker.choose(None, later, |_| true), Some(0));
}

#[test]
fn ewma_gives_an_unknown_target_one_request_and_waits_for_its_response() {
    let mut worker = Worker::new(Balance::Ewma, &[1, 1], 7);
    let ewma = &worker.set.targets[0].state.load.ewma;
    ewma.observe(Duration::from_millis(10), Moment::START);
    assert_eq!(worker.counts(50, |_| true), [0, 50]);
    let _first = worker.hold(1);
    assert_eq!(worker.counts(50, |_| true), [50, 0]);
}

#[test]
fn ewma_is_not_drawn_to_a_target_that_fails_fast() {
    let rig = Rig::new(spec(Balance::Ewma, &[1, 1]));
    let dead = rig.request(Some(FailureKind::Connect));
    let mut to_dead = 0;
    for _ in 0..1000 {
        rig.advance(Duration::from_millis(10));
        let mut lease = rig.lease();
        if number(&lease) == dead {
            to_dead += 1;
            lease.failure(FailureKind::Connect, rig.now());
        } else {
            lease.first_byte(Duration::from_millis(20), rig.now());
            lease.success(rig.now());
        }
    }
    // Never while the penalty, which decays in ten seconds to 0.4 s, is above 20 ms.
    assert_eq!(to_dead, 0);
    // A failure that took longer than the penalty counts as what it took.
    let mut slow = rig.lease();
    rig.advance(Duration::from_secs(60));
    slow.failure(FailureKind::FirstByteTimeout, rig.now());
    let shown = rig.upstream().snapshot();
    assert!(shown.targets.iter().any(|target| target.ewma_ms == Some(60_000.0)), "{shown:?}");
}

#[test]
fn hashes_are_the_same_in_every_release() {
    // Replicas of different releases must agree, or an upgrade moves every key.
    assert_eq!(hash_key(b""), GOLDEN[0]);
    assert_eq!(hash_key(b"a"), GOLDEN[1]);
    assert_eq!(hash_key(b"192.0.2.7"), GOLDEN[2]);
    assert_eq!(hash_key(b"/v1/models/llama-3"), GOLDEN[3]);
    let mut worker = Worker::new(HASH, &[1, 2, 3], 0);
    let picks: Vec<usize> = (0..16).map(|n| worker.key(hash_key(&[n]))).collect();
    assert_eq!(picks, GOLDEN_PICKS);
}

/// Computed by another implementation (Python, from the definition).
const GOLDEN: [u64; 4] = [0xa706_dd2f_4d19_7e6f, 0x4488_e597_ee6b_41f2, 0x497d_7bcb_a2da_44bb, 0xba63_40ea_bab5_8260];
const GOLDEN_PICKS: [usize; 16] = [1, 1, 0, 1, 0, 1, 2, 2, 1, 2, 1, 2, 2, 1, 2, 2];

#[test]
fn hashes_of_similar_keys_differ() {
    let mut seen = HashMap::new();
    for length in 0..40 {
        for byte in 0..=255u8 {
            let key = vec![byte; length];
            if let Some(other) = seen.insert(hash_key(&key), key.clone()) {
                assert_eq!(other, key, "one hash for two keys");
            }
        }
    }
}

#[test]
fn a_key_stays_with_its_target_whatever_the_worker_and_the_order_of_the_file() {
    let mut forward = spec(HASH, &[1, 2, 3]);
    let mut one = Worker::of(Rig::new(forward.clone()).upstream().published.load_full(), 1);
    forward.targets.reverse();
    let mut other = Worker::of(Rig::new(forward).upstream().published.load_full(), 2);
    for key in 0..1000 {
        let (a, b) = (one.key(key), other.key(key));
        assert_eq!(one.set.targets[a].address, other.set.targets[b].address);
    }
}

proptest! {
    #[test]
    fn a_target_that_is_out_moves_its_own_keys_only(
        weights in prop::collection::vec(1u32..5, 2..10),
        out in any::<prop::sample::Index>(),
        keys in prop::collection::vec(any::<u64>(), 200),
    ) {
        let mut worker = Worker::new(HASH, &weights, 0);
        let out = out.index(weights.len());
        for key in keys {
            let before = worker.key(key);
            let after = worker.choose(Some(key), Moment::START, |index| index != out).unwrap();
            prop_assert!(before == after || before == out);
        }
    }

    #[test]
    fn a_heavier_target_only_gains_keys(
        weights in prop::collection::vec(1u32..5, 2..10),
        which in any::<prop::sample::Index>(),
        keys in prop::collection::vec(any::<u64>(), 200),
    ) {
        let which = which.index(weights.len());
        let mut heavier = weights.clone();
        heavier[which] += 1;
        let mut before = Worker::new(HASH, &weights, 0);
        let mut after = Worker::new(HASH, &heavier, 0);
        for key in keys {
            let (before, after) = (before.key(key), after.key(key));
            prop_assert!(before == after || after == which);
        }
    }

    #[test]
    fn no_target_exceeds_its_bound_whatever_the_keys(
        weights in prop::collection::vec(1u32..5, 1..8),
        keys in prop::collection::vec(0u64..3, 1..200),
    ) {
        let mut worker = Worker::new(HASH, &weights, 0);
        let whole: u32 = weights.iter().sum();
        let mut held = Vec::new();
        for key in keys {
            let index = worker.key(key);
            held.push(worker.hold(index));
            let bound = (5 * held.len() as u32 * weights[index]).div_ceil(4 * whole);
            prop_assert!(worker.set.targets[index].state.in_flight() <= bound);
        }
    }
}

#[test]
fn the_short_cut_for_even_weights_ranks_alike() {
    let worker = Worker::new(HASH, &[2, 2, 2, 2, 2], 0);
    let rank = |key, is_even| {
        let targets = &worker.set.targets;
        let admits = |_: usize| true;
        let choice = Choice { targets, is_even, ramp: None, hash: None, prompt: None, now: Moment::START, admits };
        rendezvous::choose(&choice, key)
    };
    for key in 0..1000 {
        assert_eq!(rank(key, true), rank(key, false));
    }
}

#[test]
fn a_key_keeps_its_target_under_the_bound() {
    let mut worker = Worker::new(HASH, &[1, 1, 1, 1], 0);
    let home = worker.key(77);
    // 12 requests in flight, evenly: everybody is well under 125 % of 13 / 4.
    let _held: Vec<Lease> = (0..12).map(|n| worker.hold(n % 4)).collect();
    assert_eq!(worker.key(77), home);
}

#[test]
fn a_target_that_comes_back_starts_with_a_tenth_and_rises_in_a_straight_line() {
    let slow_start = Duration::from_secs(10);
    let at = |since, now| ramped(4000, Moment::from_millis(since), slow_start, Moment::from_millis(now));
    assert_eq!(at(0, 1), 4000, "there from the start of the process");
    assert_eq!(at(1000, 500), 400, "not back yet");
    assert_eq!(at(1000, 1000), 400);
    assert_eq!(at(1000, 2000), 400);
    assert_eq!(at(1000, 6000), 2000);
    assert_eq!(at(1000, 10_999), 3996);
    assert_eq!(at(1000, 11_000), 4000);
    assert_eq!(at(1000, 99_000), 4000);
}

#[test]
fn every_policy_gives_a_target_in_slow_start_its_reduced_share() {
    for balance in ALL {
        let mut slow = spec(balance, &[1, 1, 1]);
        slow.slow_start = Some(Duration::from_secs(10));
        let set = Rig::new(slow).upstream().published.load_full();
        let back = Moment::from_millis(60_000);
        set.targets[1].state.set_back_since(back);
        set.shared.ramp_until(&set, back);
        let mut worker = Worker::of(set, 9);
        let mut counts = |now| {
            let mut counts = [0; 3];
            for _ in 0..30_000 {
                counts[worker.choose(None, Moment::from_millis(now), |_| true).unwrap()] += 1;
            }
            counts
        };
        assert_shares(&counts(65_000), &[1.0, 0.5, 1.0]);
        assert_shares(&counts(70_000), &[1.0, 1.0, 1.0]);
    }
}

#[test]
fn a_new_target_is_in_slow_start_and_those_of_the_start_are_not() {
    let mut slow = spec(Balance::RoundRobin, &[1, 1]);
    slow.slow_start = Some(Duration::from_secs(10));
    let mut rig = Rig::new(slow.clone());
    rig.clock.set(Moment::from_millis(1_000));
    assert!(!rig.upstream().published.load().targets[0].state.back_since().gt(&Moment::START));
    slow.targets.push(target(ip(3), 1));
    rig.reload(slow);
    rig.advance(Duration::from_secs(5));
    let mut counts = HashMap::new();
    for _ in 0..2500 {
        *counts.entry(number(&rig.lease())).or_insert(0) += 1;
    }
    assert_shares(&[counts[&1], counts[&2], counts[&3]], &[1.0, 1.0, 0.5]);
}
