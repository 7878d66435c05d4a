//! Cost of counts in memory: a key that is known, a new one, one that is over, and one word that every thread wants.
//! `cargo bench -p weir --bench limit`

use std::hint::black_box;

use divan::{Bencher, counter::ItemsCount};
use weir::config::LimitAlgorithm;
use weir::policy::limit::{Algorithm, Key, KeyBytes, KeySecret, Memory, Now};

fn main() {
    divan::main();
}

const SECOND: u64 = 1_000_000_000;

fn memory(rate: f64, burst: u64) -> Memory {
    let algorithm = LimitAlgorithm::TokenBucket { rate_per_second: rate, burst };
    Memory::new(Algorithm::new(algorithm).unwrap().unwrap(), 1 << 24)
}

fn now() -> Now {
    Now { ns: SECOND, started_unix_ns: 0 }
}

/// Keys of clients, hashed as they are on the way of a request.
fn keys(count: u32) -> Vec<Key> {
    let secret = KeySecret::random();
    let mut bytes = KeyBytes::default();
    let key = |number: u32| {
        bytes.clear();
        bytes.address(std::net::IpAddr::from(number.to_be_bytes()).into());
        Key::local(&bytes, &secret)
    };
    (0..count).map(key).collect()
}

/// Parts of the key put together and hashed.
#[divan::bench]
fn hash(bencher: Bencher<'_, '_>) {
    let secret = KeySecret::random();
    let mut bytes = KeyBytes::default();
    bencher.bench_local(|| {
        bytes.clear();
        bytes.address(std::net::IpAddr::from(black_box([192, 0, 2, 1])).into());
        Key::local(&bytes, &secret)
    });
}

/// A request that is allowed, with so many keys in the table.
#[divan::bench(args = [1, 1_000, 1_000_000])]
fn known_key(bencher: Bencher<'_, '_>, count: u32) {
    let (memory, keys) = (memory(1e9, 1 << 40), keys(count));
    keys.iter().for_each(|key| assert!(memory.charge(*key, 1, now()).0.allowed));
    let mut round = (0..keys.len()).cycle();
    bencher.bench_local(|| memory.charge(keys[round.next().unwrap_or(0)], 1, now()));
}

/// A request that is refused: nothing is written.
#[divan::bench]
fn over(bencher: Bencher<'_, '_>) {
    let (memory, keys) = (memory(1.0, 1), keys(1));
    assert!(memory.charge(keys[0], 1, now()).0.allowed);
    bencher.bench_local(|| memory.charge(keys[0], 1, now()));
}

/// A hundred thousand keys that were never seen, each for the first time.
#[divan::bench(sample_count = 20)]
fn new_keys(bencher: Bencher<'_, '_>) {
    let keys = keys(100_000);
    bencher.counter(ItemsCount::new(keys.len())).with_inputs(|| memory(20.0, 40)).bench_local_values(|memory| {
        keys.iter().for_each(|key| assert!(memory.charge(*key, 1, now()).0.allowed));
        memory
    });
}

/// One count that all threads charge.
#[divan::bench(threads = [1, 2, 4])]
fn one_key_for_all(bencher: Bencher<'_, '_>) {
    let (memory, keys) = (memory(1e9, 1 << 40), keys(1));
    bencher.bench(|| memory.charge(keys[0], 1, now()));
}
