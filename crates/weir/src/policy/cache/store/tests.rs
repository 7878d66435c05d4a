use super::*;
use crate::policy::cache::entry::tests::entry;

fn put(memory: &Memory, key: &str, body: &str) {
    memory.put(Key::from(key.as_bytes()), Slot::Response(entry(body)));
}

fn has(memory: &Memory, key: &str) -> bool {
    memory.get(KeyRef::of(key.as_bytes())).is_some()
}

#[test]
fn both_bounds_hold_at_every_moment() {
    let large = "x".repeat(10_000);
    for (max_bytes, max_entries) in [(1 << 20, 50), (100_000, 10_000), (1 << 20, 1), (1 << 20, 2)] {
        let memory = Memory::new(max_bytes, max_entries, 10_000);
        for number in 0..1000 {
            put(&memory, &format!("{number}"), if number % 3 == 0 { &large } else { "small" });
            assert!(memory.entries() <= max_entries as u64, "{} of {max_entries}", memory.entries());
            assert!(memory.bytes() <= max_bytes);
        }
        assert!(memory.entries() >= 1 && memory.evictions() > 0);
    }
}

#[test]
fn many_small_responses_fill_the_store_to_its_cap_of_entries() {
    let memory = Memory::new(256 << 20, 10_000, 1 << 20);
    for number in 0..9_000 {
        put(&memory, &format!("http://test/{number}"), "small");
    }
    assert!(memory.entries() > 8_800, "{}", memory.entries());
}

#[test]
fn a_soft_purge_keeps_and_a_hard_one_takes_out() {
    let memory = Memory::new(1 << 20, 100, 1000);
    put(&memory, "a", "1");
    put(&memory, "b", "2");
    assert_eq!(memory.purge(5, |key, _| (key == b"a").then_some(Purged::Soft)), 1);
    let Some(Slot::Response(entry)) = memory.get(KeyRef::of(b"a")) else { panic!("it is gone") };
    assert_eq!(entry.freshness().ttl_ms(5), 0);
    assert_eq!(memory.purge(5, |_, _| Some(Purged::Hard)), 2);
    assert!(!has(&memory, "a") && !has(&memory, "b"));
}

#[test]
fn threads_that_fill_and_read_at_once_do_not_block_for_ever() {
    let memory = Arc::new(Memory::new(8 << 20, 10_000, 1 << 20));
    let body = "x".repeat(1 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (memory, body) = (&memory, &body);
            scope.spawn(move || {
                for number in 0..200 {
                    put(memory, &format!("{thread}/{number}"), body);
                    has(memory, &format!("{}/{number}", (thread + 1) % 4));
                    if number % 50 == 0 {
                        memory.purge(5, |key, _| key.ends_with(b"7").then_some(Purged::Hard));
                    }
                }
            });
        }
    });
    assert!(memory.bytes() <= 8 << 20);
}

/// An earlier gateway's store locked up without limit when it first reached its cap.
#[test]
fn the_cap_of_ten_thousand_reached_many_times_over_blocks_nobody() {
    let memory = Memory::new(256 << 20, 10_000, 1 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let memory = &memory;
            scope.spawn(move || {
                for number in 0..30_000 {
                    put(memory, &format!("{thread}/{number}"), "small");
                    if number % 1000 == 0 {
                        assert!(memory.entries() <= 10_000);
                    }
                }
            });
        }
    });
    assert!(memory.entries() <= 10_000 && memory.evictions() >= 100_000, "{} {}", memory.entries(), memory.evictions());
}
