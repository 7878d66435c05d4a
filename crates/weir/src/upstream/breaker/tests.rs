//! The breaker against a plain model, and with real threads.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::*;

fn spec(failures: f64, of_last: u32) -> config::Breaker {
    config::Breaker { failures, of_last, open_for: Duration::from_secs(5) }
}

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

/// One request that ends at once.
fn request(breaker: &Breaker, success: bool, now: Moment) -> Option<Change> {
    breaker.acquire(now).map(|entry| breaker.record(entry, success, now))
}

#[test]
fn it_opens_at_the_share_of_a_full_window() {
    let breaker = Breaker::new(&spec(0.5, 4));
    for success in [false, false, true] {
        assert_eq!(request(&breaker, success, at(0)), Some(Change::None), "window not full");
    }
    assert_eq!(request(&breaker, true, at(0)), Some(Change::Opened));
    assert_eq!(breaker.state(at(0)), BreakerState::Open);
    assert!(!breaker.admits(at(4999)));
    assert_eq!(breaker.acquire(at(4999)), None);
}

#[test]
fn one_probe_decides() {
    let breaker = Breaker::new(&spec(1.0, 1));
    request(&breaker, false, at(0));
    assert_eq!(breaker.state(at(5000)), BreakerState::HalfOpen);
    let probe = breaker.acquire(at(5000)).expect("a probe");
    assert!(matches!(probe, Entry::Probe(_)));
    assert!(!breaker.admits(at(5000)));
    assert_eq!(breaker.acquire(at(9000)), None, "one at a time, however long it takes");
    assert_eq!(breaker.record(probe, false, at(9000)), Change::Opened);
    assert_eq!(breaker.acquire(at(13_999)), None);
    let probe = breaker.acquire(at(14_000)).expect("a probe");
    assert_eq!(breaker.record(probe, true, at(14_001)), Change::Closed);
    assert_eq!(breaker.state(at(14_001)), BreakerState::Closed);
}

#[test]
fn a_probe_without_an_outcome_frees_its_place() {
    let breaker = Breaker::new(&spec(1.0, 1));
    request(&breaker, false, at(0));
    let probe = breaker.acquire(at(5000)).expect("a probe");
    breaker.abandon(probe);
    assert!(matches!(breaker.acquire(at(5000)), Some(Entry::Probe(_))));
}

#[test]
fn what_was_sent_before_it_opened_counts_no_more() {
    let breaker = Breaker::new(&spec(0.5, 2));
    let late: Vec<Entry> = (0..6).filter_map(|_| breaker.acquire(at(0))).collect();
    assert_eq!(late.len(), 6);
    request(&breaker, false, at(0));
    request(&breaker, false, at(0));
    assert_eq!(breaker.record(late[0], true, at(1)), Change::None);
    assert_eq!(breaker.state(at(1)), BreakerState::Open);
    let probe = breaker.acquire(at(6000)).expect("a probe");
    assert_eq!(breaker.record(late[1], false, at(6000)), Change::None, "a probe is under way");
    breaker.record(probe, true, at(6000));
    for entry in &late[2..] {
        assert_eq!(breaker.record(*entry, false, at(6001)), Change::None);
    }
    assert_eq!(breaker.state(at(6001)), BreakerState::Closed);
    // The window began anew.
    assert_eq!(request(&breaker, false, at(6002)), Some(Change::None));
    assert_eq!(request(&breaker, true, at(6002)), Some(Change::Opened));
}

#[test]
fn the_threshold_is_not_a_victim_of_binary_fractions() {
    // 0.3 * 10 is a little above 3 in binary.
    let breaker = Breaker::new(&spec(0.3, 10));
    let changes: Vec<_> = (0..10).map(|n| request(&breaker, n >= 3, at(0))).collect();
    assert_eq!(changes[9], Some(Change::Opened));
}

/// The obvious breaker.
struct Model {
    window: VecDeque<bool>,
    spec: config::Breaker,
    open_until: Option<u64>,
}

impl Model {
    /// Whether a request passes; it ends at once with `success`.
    fn request(&mut self, success: bool, now_ms: u64) -> bool {
        match self.open_until {
            Some(until) if now_ms < until => return false,
            Some(_) if success => {
                self.open_until = None;
                self.window.clear();
            }
            Some(_) => self.open_until = Some(now_ms + 5000),
            None => {
                self.window.push_back(success);
                let size = self.spec.of_last as usize;
                if self.window.len() > size {
                    self.window.pop_front();
                }
                let failures = self.window.iter().filter(|success| !**success).count();
                if self.window.len() == size && failures > 0 && failures as f64 >= self.spec.failures * size as f64 {
                    self.open_until = Some(now_ms + 5000);
                }
            }
        }
        true
    }
}

proptest! {
    #[test]
    fn it_does_what_the_obvious_breaker_does(
        // Quarters, so that the model needs no epsilon; windows beyond one word of bits.
        quarters in 1u32..=4,
        of_last in 1u32..100,
        requests in prop::collection::vec((0.0f64..1.0, 0u64..400), 1..600),
        health in 0.3f64..1.0,
    ) {
        let spec = spec(f64::from(quarters) / 4.0, of_last);
        let breaker = Breaker::new(&spec);
        let mut model = Model { window: VecDeque::new(), spec, open_until: None };
        let mut now = 0;
        for (luck, pause) in requests {
            now += pause;
            let success = luck < health;
            let passed = request(&breaker, success, at(now)).is_some();
            prop_assert_eq!(passed, model.request(success, now));
        }
    }
}

#[test]
fn over_all_threads_there_is_one_probe_at_a_time() {
    for _ in 0..50 {
        let breaker = Breaker::new(&spec(1.0, 1));
        request(&breaker, false, at(0));
        let (probing, probes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if let Some(entry) = breaker.acquire(at(6000)) {
                            assert_eq!(probing.fetch_add(1, Ordering::SeqCst), 0);
                            probes.fetch_add(1, Ordering::SeqCst);
                            std::hint::spin_loop();
                            probing.fetch_sub(1, Ordering::SeqCst);
                            breaker.abandon(entry);
                        }
                    }
                });
            }
        });
        assert!(probes.into_inner() > 0);
        assert!(breaker.admits(at(6000)), "the last probe freed its place");
    }
}

#[test]
fn threads_lose_no_outcome_of_the_window() {
    // 4 x 200 outcomes of which 4 x 99 are failures, in a window of 800 that opens at half: it must not open. One more failure must do it.
    for _ in 0..20 {
        let breaker = Breaker::new(&spec(0.5, 800));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..200 {
                        assert_eq!(request(&breaker, n >= 99, at(0)), Some(Change::None));
                    }
                });
            }
        });
        assert_eq!(breaker.window.failures.load(Ordering::SeqCst), 396);
        let ones: u32 = breaker.window.bits.iter().map(|b| b.load(Ordering::SeqCst).count_ones()).sum();
        assert_eq!(ones, 396);
    }
}

/// An outcome between the two steps of a reset must not open the breaker again with failures of before.
#[test]
fn a_reset_is_never_followed_by_old_failures() {
    const LAST: u32 = 2000;
    const RESETS: usize = 200;
    let breaker = Breaker::new(&spec(1.0, LAST));
    let opened = AtomicUsize::new(0);
    let is_open = || breaker.state(at(0)) == BreakerState::Open;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut failures = 0;
            while opened.load(Ordering::Relaxed) < RESETS {
                let Some(change) = request(&breaker, false, at(0)) else { continue };
                failures += 1;
                if change == Change::Opened {
                    // Counted before the assertion, so that a failure of this test ends.
                    opened.fetch_add(RESETS * usize::from(failures < LAST) + 1, Ordering::Relaxed);
                    assert!(failures >= LAST, "opened after {failures} failures");
                    failures = 0;
                }
            }
        });
        while opened.load(Ordering::Relaxed) < RESETS {
            if is_open() {
                breaker.reset();
            }
        }
    });
}
