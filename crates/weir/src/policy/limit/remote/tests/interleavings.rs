//! Prefetched tokens in random orders of steps: requests of several workers begin, wait for one call together, are given up by their client, or are
//! refused by another limit when they have their tokens. What was spent, what lies in the workers' hands and what is left in Redis is always
//! what there was.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use testkit::Redis as Server;
use tokio::task::{JoinHandle, spawn_local, yield_now};

use super::super::Remote;
use super::super::call::{Question, definition, name};
use super::{Random, run};
use crate::config;
use crate::observe::Metrics;
use crate::policy::limit::{Decision, Key, LimitCheck, Limits, WorkerLimits};
use crate::redis::{Client, Purpose, Redis};

const WORKERS: usize = 3;
const QUOTA: u64 = 120;
/// Of the limit that refuses what the other one has admitted.
const NARROW: u64 = 9;
const LEASE: u64 = 10;

struct Worker {
    limits: WorkerLimits,
    remote: Rc<Remote>,
}

/// What became of the requests.
#[derive(Debug, Default)]
struct Ends {
    /// Tokens of those that passed.
    spent: u64,
    passed_both: u64,
    refused: usize,
    /// Tokens of those that were given up: they may be charged.
    given_up: u64,
}

fn workers(server: &Server) -> Vec<Rc<Worker>> {
    let yaml = format!(
        "listen: 127.0.0.1:0\nredis: {{url: '{}', timeout: 20s}}\nlimits:\n  \
         wide: {{algorithm: fixed_window, quota: {QUOTA}, window: 24h, key: client_ip, store: redis, lease: {LEASE}, on_store_failure: closed}}\n  \
         narrow: {{algorithm: fixed_window, quota: {NARROW}, window: 24h, key: client_ip, store: redis, on_store_failure: closed}}\n\
         routes: [{{match: {{path: /*}}, limits: [wide, narrow], respond: {{body: one}}}}]\n",
        server.url()
    );
    let config = config::load_text("test", &yaml, &|_: &str| None).unwrap().config;
    let shared = Arc::new(Limits::new(&config, None));
    let shard = Metrics::new().shard(0);
    let redis = Redis::new(config.redis.as_ref().unwrap()).unwrap();
    let worker = |_| {
        let client = Client::new(redis.clone(), Purpose::Limits, shard.redis(Purpose::Limits.name()));
        let remote = Remote::new(client);
        let limits = WorkerLimits::new(shared.clone(), shared.iter().count(), &shard, WORKERS, Some(remote.clone()));
        Rc::new(Worker { limits, remote })
    };
    (0..WORKERS).map(worker).collect()
}

impl Worker {
    fn index(&self, wanted: &str) -> usize {
        self.limits.shared.iter().find(|(_, limit)| &*limit.spec.name == wanted).unwrap().0
    }

    /// Whether a request passes all of these limits.
    async fn passes(&self, limits: &[&str], key: Key, cost: u64) -> bool {
        let check = |name: &&str| {
            let cost = if *name == "wide" { cost } else { 1 };
            LimitCheck { limit: self.index(name), key, cost, decision: Decision::default() }
        };
        let mut checks: Vec<LimitCheck> = limits.iter().map(check).collect();
        self.remote.check(&self.limits, &mut checks, &mut Vec::new()).await.unwrap();
        checks.iter().all(|check| check.decision.allowed)
    }

    fn question(&self, limit: &str, key: Key) -> Question {
        let limit = &self.limits.get(self.index(limit)).unwrap().limit;
        Question { name: name(limit, key), definition: definition(limit, 0), cost: 0, wanted: 0 }
    }

    fn in_hand(&self, key: Key) -> u64 {
        self.remote.leases.tokens(&self.question("wide", key).name, crate::runtime::clock::now_ns())
    }

    async fn left(&self, limit: &str, key: Key) -> u64 {
        self.remote.call(&[self.question(limit, key)]).await.unwrap()[0].0.left
    }
}

/// A request that begins some turns from now, and is given up some turns later if `gives_up` says so.
fn request(
    worker: &Rc<Worker>,
    ends: &Rc<RefCell<Ends>>,
    key: Key,
    random: &mut Random,
    gives_up: bool,
) -> JoinHandle<()> {
    let (worker, ends) = (worker.clone(), ends.clone());
    let (cost, rounds, waits) = (1 + random.below(3), random.below(40), random.below(12));
    let limits: &[&str] = if random.below(3) == 0 { &["wide", "narrow"] } else { &["wide"] };
    spawn_local(async move {
        for _ in 0..rounds {
            yield_now().await;
        }
        let passes = async { Some(worker.passes(limits, key, cost).await) };
        let client = async {
            for _ in 0..waits {
                yield_now().await;
            }
            if !gives_up {
                std::future::pending::<()>().await;
            }
            None
        };
        let outcome = tokio::select! { biased; passes = passes => passes, gone = client => gone };
        let mut ends = ends.borrow_mut();
        match outcome {
            Some(true) => {
                ends.spent += cost;
                ends.passed_both += u64::from(limits.len() == 2);
            }
            Some(false) => ends.refused += 1,
            None => ends.given_up += cost,
        }
    })
}

async fn wave(workers: &[Rc<Worker>], key: Key, random: &mut Random, count: usize, gives_up: bool) -> Ends {
    let ends = Rc::new(RefCell::new(Ends::default()));
    let requests: Vec<_> = (0..count)
        .map(|_| {
            let worker = &workers[random.below(WORKERS as u64) as usize];
            let gives_up = gives_up && random.below(6) == 0;
            request(worker, &ends, key, random, gives_up)
        })
        .collect();
    for request in requests {
        tokio::time::timeout(Duration::from_secs(30), request).await.expect("nobody waits without end").unwrap();
    }
    ends.take()
}

/// Everything that can still be had.
async fn drain(workers: &[Rc<Worker>], key: Key) -> u64 {
    let mut drained = 0;
    for worker in workers {
        while worker.passes(&["wide"], key, 1).await {
            drained += 1;
        }
        assert_eq!(worker.in_hand(key), 0, "stranded beside a refusal");
    }
    drained
}

#[test]
fn no_order_of_steps_loses_makes_or_strands_a_token() {
    let server = Server::start();
    let (mut refused, mut put_back) = (0, 0);
    run(async {
        let workers = workers(&server);
        for seed in 1..=60 {
            let (key, mut random) = (Key(u128::from(seed)), Random(seed));
            let (mut spent, mut passed_both) = (0, 0);
            for _ in 0..1 + random.below(5) {
                let count = 1 + random.below(40) as usize;
                let ends = wave(&workers, key, &mut random, count, false).await;
                assert_eq!(ends.given_up, 0);
                spent += ends.spent;
                passed_both += ends.passed_both;
                refused += ends.refused;
                let in_hand: u64 = workers.iter().map(|worker| worker.in_hand(key)).sum();
                let left = workers[0].left("wide", key).await;
                assert_eq!(spent + in_hand + left, QUOTA, "seed {seed}: {spent} spent, {in_hand} in hand, {left} left");
                assert_eq!(passed_both + workers[0].left("narrow", key).await, NARROW, "seed {seed}");
                put_back += usize::from(passed_both == NARROW);
            }
            assert_eq!(spent + drain(&workers, key).await, QUOTA, "seed {seed}: the whole quota, and no more");
        }
    });
    assert!(
        refused > 500 && put_back > 20,
        "{refused} refusals, {put_back} waves with a limit that refuses what another admitted"
    );
}

/// Whoever gives up may have been charged: so much may be missing, and never is anything too many.
#[test]
fn requests_that_are_given_up_cost_their_own_tokens_at_most() {
    let server = Server::start();
    let mut given_up = 0;
    run(async {
        let workers = workers(&server);
        for seed in 1..=60 {
            let (key, mut random) = (Key(u128::from(seed) << 32), Random(seed));
            let (mut spent, mut lost) = (0, 0);
            for _ in 0..3 {
                let ends = wave(&workers, key, &mut random, 30, true).await;
                spent += ends.spent;
                lost += ends.given_up;
            }
            let all = spent + drain(&workers, key).await;
            assert!(all <= QUOTA && all + lost >= QUOTA, "seed {seed}: {all} of {QUOTA}, {lost} given up");
            given_up += lost;
        }
    });
    assert!(given_up > 100, "{given_up}");
}
