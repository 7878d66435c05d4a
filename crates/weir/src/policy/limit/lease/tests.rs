//! Leases: what they may not do, and when there are none.

use proptest::prelude::*;

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

/// What happens to one of several workers, which all have leases of one bucket.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A request begins there.
    Begin(usize),
    /// One of those that have begun is refused by another limit, wherever it is.
    Refuse(usize),
    /// One of those that have begun passes for good.
    Pass(usize),
    /// Time goes by.
    Wait(u64),
}

/// How a request was charged.
enum Grant {
    OfLease(Token),
    OfBucket(Receipt),
}

const WORKERS: usize = 3;

/// Workers with their leases, and requests that have begun.
struct World {
    memory: Memory,
    leases: Vec<Lease>,
    begun: Vec<(usize, u64, Grant)>,
    /// When they began, of those that were not refused elsewhere.
    passed: Vec<u64>,
    now_ns: u64,
}

impl World {
    fn new(rate: f64, burst: u64) -> Self {
        let (bucket, memory) = bucket(rate, burst);
        let leases = (0..WORKERS).map(|_| Lease::of(&bucket, WORKERS).expect("a lease")).collect();
        World { memory, leases, begun: Vec::new(), passed: Vec::new(), now_ns: MS }
    }

    /// As `WorkerLimit::charge` does it.
    fn take(&self, worker: usize) -> Option<Grant> {
        let now = at(self.now_ns);
        if let Some((_, token)) = self.leases[worker].spend_by(&self.memory, Key(7), now, || self.now_ns) {
            return Some(Grant::OfLease(token));
        }
        let (decision, receipt) = self.memory.charge(Key(7), 1, now);
        decision.allowed.then_some(Grant::OfBucket(receipt))
    }

    fn in_bucket(&self) -> u64 {
        self.memory.peek(Key(7), 0, at(self.now_ns)).remaining
    }

    fn in_hand(&self) -> u64 {
        self.leases.iter().map(|lease| lease.left.get()).sum()
    }

    fn follow(&mut self, step: Step) {
        match step {
            Step::Begin(worker) => match self.take(worker) {
                Some(taken) => self.begun.push((worker, self.now_ns, taken)),
                None => {
                    // Nobody is refused for what lies about here.
                    assert_eq!((self.leases[worker].left.get(), self.in_bucket()), (0, 0), "stranded");
                }
            },
            Step::Refuse(_) | Step::Pass(_) if self.begun.is_empty() => {}
            Step::Refuse(index) => {
                let (worker, _, taken) = self.begun.swap_remove(index % self.begun.len());
                let now = at(self.now_ns);
                match taken {
                    Grant::OfLease(token) => self.leases[worker].put_back(token, &self.memory, Key(7), now),
                    Grant::OfBucket(receipt) => self.memory.refund(Key(7), 1, receipt, now),
                }
            }
            Step::Pass(index) => {
                let (_, began_ns, _) = self.begun.swap_remove(index % self.begun.len());
                self.passed.push(began_ns);
            }
            Step::Wait(ns) => self.now_ns += ns,
        }
    }

    /// All that one worker can still take at this moment.
    fn drain(&self, worker: usize) -> u64 {
        std::iter::from_fn(|| self.take(worker)).count() as u64
    }
}

fn steps(waits: bool) -> impl Strategy<Value = Vec<Step>> {
    let wait = if waits { 2 } else { 0 };
    let step = prop_oneof![
        12 => (0..WORKERS).prop_map(Step::Begin),
        4 => (0..1000_usize).prop_map(Step::Refuse),
        4 => (0..1000_usize).prop_map(Step::Pass),
        // Shorter than a token takes to come back, longer than a lease lasts, and until the bucket is full.
        wait => prop_oneof![0..40_000_u64, 0..3 * MS, 0..20 * MS].prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..1_500)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// While no time passes: what was spent, what lies in the workers' hands and what is left is what there was.
    #[test]
    fn no_token_is_lost_or_made_in_any_order_of_requests(steps in steps(false)) {
        let burst = 240;
        let mut world = World::new(200_000.0, burst);
        for step in steps {
            world.follow(step);
            let out = (world.begun.len() + world.passed.len()) as u64;
            prop_assert_eq!(out + world.in_hand() + world.in_bucket(), burst, "after {:?}", step);
        }
        // Each worker finds all but what the others hold.
        let out = (world.begun.len() + world.passed.len()) as u64;
        let drained: u64 = (0..WORKERS).map(|worker| world.drain(worker)).sum();
        prop_assert_eq!(out + drained, burst);
    }

    /// As time passes: in any time `t` no more than `burst + rate * (t + 1 ms)`, and after a pause everything is there again.
    #[test]
    fn no_order_of_requests_breaks_the_bound_or_strands_a_token(steps in steps(true)) {
        let (rate, burst) = (200_000.0, 240);
        let mut world = World::new(rate, burst);
        steps.into_iter().for_each(|step| world.follow(step));
        let mut passed = std::mem::take(&mut world.passed);
        passed.extend(world.begun.drain(..).map(|(_, began_ns, _)| began_ns));
        passed.sort_unstable();
        for (first, from) in passed.iter().enumerate() {
            for (last, to) in passed.iter().enumerate().skip(first) {
                let most = burst as f64 + rate * (to - from + MS) as f64 / 1e9;
                prop_assert!((last - first + 1) as f64 <= most, "{} in {} ns", last - first + 1, to - from);
            }
        }
        // Full again, whatever lay in hand when its lease ended.
        world.now_ns += burst * 5_000 + 2 * MS;
        prop_assert_eq!(world.drain(0), burst);
    }
}
