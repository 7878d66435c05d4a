use std::time::Duration;

use super::*;

const SECOND: u64 = 1_000_000;

fn bucket(burst: u64, per_second: u64) -> Rule {
    Rule::Bucket { burst, interval_ns: 1_000_000_000 / per_second }
}

fn window(quota: u64, seconds: u64) -> Rule {
    Rule::Window { quota, window: BudgetWindow::Aligned(Duration::from_secs(seconds)) }
}

/// Numbers that look random and are the same in every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn what_is_reserved_is_not_left_and_what_was_not_used_comes_back() {
    for rule in [
        bucket(100, 1),
        window(100, 1000),
        Rule::Window { quota: 100, window: BudgetWindow::First(Duration::from_secs(1000)) },
    ] {
        let mut account = Account::default();
        let (first, mark) = account.reserve(&rule, 60, SECOND);
        assert_eq!((first.allowed, first.remaining), (true, 40), "{rule:?}");
        let (second, _) = account.reserve(&rule, 41, SECOND);
        assert_eq!((second.allowed, second.remaining), (false, 40), "{rule:?}");
        assert!(second.retry_ns > 0);
        account.settle(&rule, 60, 10, mark, SECOND);
        let (third, _) = account.reserve(&rule, 90, SECOND);
        assert_eq!((third.allowed, third.remaining), (true, 0), "{rule:?}");
    }
}

#[test]
fn more_than_was_reserved_is_a_debt() {
    for rule in [bucket(100, 1), window(100, 1000)] {
        let mut account = Account::default();
        let (_, mark) = account.reserve(&rule, 10, SECOND);
        account.settle(&rule, 10, 150, mark, SECOND);
        let (next, _) = account.reserve(&rule, 1, SECOND);
        assert_eq!((next.allowed, next.remaining), (false, 0), "{rule:?}");
    }
    // A bucket pays its debt before anything is left.
    let rule = bucket(100, 1);
    let mut account = Account::default();
    let (_, mark) = account.reserve(&rule, 10, SECOND);
    account.settle(&rule, 10, 150, mark, SECOND);
    assert!(!account.reserve(&rule, 1, 51 * SECOND).0.allowed);
    assert!(account.reserve(&rule, 1, 52 * SECOND).0.allowed);
}

#[test]
fn a_window_that_is_over_is_not_corrected() {
    let rule = window(100, 10);
    let mut account = Account::default();
    let (_, mark) = account.reserve(&rule, 100, 9 * SECOND);
    let (next, _) = account.reserve(&rule, 70, 11 * SECOND);
    assert!(next.allowed, "a new window");
    account.settle(&rule, 100, 1, mark, 12 * SECOND);
    assert_eq!(account.reserve(&rule, 30, 12 * SECOND).0.remaining, 0);
}

#[test]
fn a_reservation_does_not_come_back_with_time() {
    let rule = bucket(100, 10);
    let mut account = Account::default();
    let (_, mark) = account.reserve(&rule, 100, SECOND);
    assert!(!account.reserve(&rule, 1, 100 * SECOND).0.allowed);
    account.settle(&rule, 100, 30, mark, 100 * SECOND);
    assert_eq!(account.reserve(&rule, 70, 100 * SECOND).0.remaining, 0);
}

/// Calls in any order that use less, more or nothing: what a window says is used is the sum of what was settled and what is reserved.
#[test]
fn the_sum_of_a_window_is_what_was_settled_and_what_is_reserved() {
    let rule = window(1_000_000, 1 << 40);
    for seed in 1..200 {
        let mut numbers = Numbers(seed * 0x9e37_79b9);
        let mut account = Account::default();
        let (mut open, mut settled) = (Vec::new(), 0);
        for _ in 0..500 {
            if open.is_empty() || numbers.below(2) == 0 {
                let amount = numbers.below(5000);
                let (decision, mark) = account.reserve(&rule, amount, SECOND);
                if decision.allowed {
                    open.push((amount, mark));
                }
            } else {
                let index = numbers.below(open.len() as u64) as usize;
                let (amount, mark) = open.swap_remove(index);
                let used = match numbers.below(3) {
                    0 => 0,
                    1 => amount + numbers.below(50),
                    _ => numbers.below(amount + 1),
                };
                account.settle(&rule, amount, used, mark, SECOND);
                settled += used;
            }
            let reserved: u64 = open.iter().map(|(amount, _)| amount).sum();
            assert_eq!(account.used, settled + reserved, "seed {seed}");
        }
    }
}

/// What calls that keep to their reservation use is at most the burst and what came back.
#[test]
fn a_bucket_settles_no_more_than_its_burst_and_what_came_back() {
    let rule = bucket(1000, 10);
    for seed in 1..200 {
        let mut numbers = Numbers(seed * 0x9e37_79b9);
        let mut account = Account::default();
        let (mut open, mut settled, mut now) = (Vec::new(), Vec::<(u64, u64)>::new(), SECOND);
        for _ in 0..300 {
            now += numbers.below(2 * SECOND);
            if open.is_empty() || numbers.below(3) > 0 {
                let amount = numbers.below(400);
                if account.reserve(&rule, amount, now).0.allowed {
                    open.push(amount);
                }
            } else {
                let index = numbers.below(open.len() as u64) as usize;
                let amount = open.swap_remove(index);
                let used = numbers.below(amount + 1);
                account.settle(&rule, amount, used, 0, now);
                settled.push((now, used));
            }
            assert_eq!(account.reserved, open.iter().sum::<u64>(), "seed {seed}");
        }
        for from in 0..settled.len() {
            let mut sum = 0;
            for (at, used) in &settled[from..] {
                sum += used;
                let back = (at - settled[from].0) * 10 / SECOND;
                assert!(sum <= 1000 + back + 1, "seed {seed}: {sum} in {} us", at - settled[from].0);
            }
        }
    }
}

#[test]
fn an_account_without_use_is_dead() {
    let rule = bucket(100, 10);
    let mut account = Account::default();
    let (_, mark) = account.reserve(&rule, 10, SECOND);
    assert!(account.is_live(&rule, 1000 * SECOND), "it is reserved");
    account.settle(&rule, 10, 10, mark, SECOND);
    assert!(account.is_live(&rule, SECOND + SECOND / 2));
    assert!(!account.is_live(&rule, 3 * SECOND));
}
