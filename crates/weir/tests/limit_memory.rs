//! A million keys of one limit take 128 MiB at most, and give them back when they are idle. The allocator counts.
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir::config::LimitAlgorithm;
use weir::policy::limit::{Algorithm, Key, KeyBytes, KeySecret, Memory, Now};

struct Counting;
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KEYS: u32 = 1_000_000;
const MIB: usize = 1 << 20;

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_million_keys_fit_in_128_mib_and_are_given_back() {
    let algorithm = LimitAlgorithm::TokenBucket { rate_per_second: 20.0, burst: 40 };
    let memory = Memory::new(Algorithm::new(algorithm).unwrap().unwrap(), KEYS as usize);
    let secret = KeySecret::random();
    let mut bytes = KeyBytes::default();
    let mut key = |number: u32| -> Key {
        bytes.clear();
        bytes.address(std::net::IpAddr::from(number.to_be_bytes()).into());
        Key::local(&bytes, &secret)
    };
    let (live_before, resident_before) = (LIVE.load(Relaxed), resident());
    let start = Now { ns: 1_000_000_000, started_unix_ns: 0 };
    let clock = Instant::now();
    for number in 0..KEYS {
        assert!(memory.charge(key(number), 1, start).0.allowed);
    }
    let filled = clock.elapsed();
    assert_eq!((memory.keys(), memory.overflowed()), (KEYS as usize, 0));
    let (peak, resident_full) = (PEAK.load(Relaxed) - live_before, resident() - resident_before);
    let again = Instant::now();
    for number in 0..KEYS {
        assert_eq!(memory.charge(key(number), 1, start).0.remaining, 38);
    }
    let again = again.elapsed();
    let idle = Now { ns: start.ns + Duration::from_secs(3).as_nanos() as u64, ..start };
    let swept = Instant::now();
    memory.sweep(idle);
    let swept = swept.elapsed();
    let left = LIVE.load(Relaxed) - live_before;
    let resident_left = resident().saturating_sub(resident_before);
    eprintln!(
        "{KEYS} keys: peak {:.1} MiB allocated, {:.1} MiB resident; after cleaning {left} bytes allocated, {:.1} MiB resident; \
         new key {:.0} ns, known key {:.0} ns, cleaning {:.1} ms",
        peak as f64 / MIB as f64,
        resident_full as f64 / MIB as f64,
        resident_left as f64 / MIB as f64,
        filled.as_nanos() as f64 / f64::from(KEYS),
        again.as_nanos() as f64 / f64::from(KEYS),
        swept.as_secs_f64() * 1e3,
    );
    assert_eq!(memory.keys(), 0);
    assert!(peak <= 128 * MIB, "{peak}");
    assert!(resident_full <= 128 * MIB, "{resident_full}");
    assert!(left <= MIB, "{left}");
    assert!(resident_left <= 32 * MIB, "{resident_left} bytes are still resident");
}
