//! The scripts against the algorithms in memory, which are the model: the same schedule by the same clock gives the same decisions.

mod interleavings;

use std::num::NonZeroU32;
use std::time::Duration;

use testkit::{Redis as Server, RedisCluster};

use super::call::{Call, Question, ScriptResult, definition};
use super::hold;
use crate::config::{self, LimitAlgorithm};
use crate::observe::Metrics;
use crate::policy::limit::{Algorithm, Decision, Limit, Memory, Now};
use crate::redis::{Client, Cmd, Purpose, Redis, Script, Value};

/// The script, told the time by its last two arguments.
fn script(text: &'static str) -> Script {
    let told = text.replace("redis.call('TIME')", "{ table.remove(ARGV), table.remove(ARGV) }");
    assert_ne!(told, text);
    Script::new("test", Box::leak(told.into_boxed_str()))
}

struct Rig {
    _server: Server,
    client: std::rc::Rc<Client>,
    count: Script,
    refund: Script,
}

impl Rig {
    fn new() -> Self {
        let server = Server::start();
        let redis = Redis::new(&config::Redis {
            url: server.url(),
            timeout: Duration::from_secs(5),
            namespace: "weir".to_owned(),
            secret: None,
        })
        .unwrap();
        let client = Client::new(redis, Purpose::Limits, Metrics::new().shard(0).redis(Purpose::Limits.name()));
        let (count, refund) = (script(include_str!("count.lua")), script(include_str!("refund.lua")));
        Rig { _server: server, client, count, refund }
    }

    /// Decisions about requests that come at once.
    async fn check(&self, now_us: u64, requests: &[&[Question]]) -> Vec<ScriptResult> {
        let mut call = Call::default();
        for questions in requests {
            call.add(questions);
        }
        call.send_by(&self.count, &self.client, &|cmd: &mut Cmd| tell_time(cmd, now_us)).await.unwrap().from(0).to_vec()
    }

    async fn refund(&self, now_us: u64, question: &Question, result: &ScriptResult) {
        let [kind, _, b, c, _] = question.definition;
        let write = |cmd: &mut Cmd| {
            for number in [kind, b, c, result.taken as u64, result.mark()] {
                cmd.arg(number);
            }
            tell_time(cmd, now_us);
        };
        let done = self.client.script_with(&self.refund, &[&question.name], write).await;
        assert_eq!(done, Ok(Value::Int(1)));
    }
}

/// Taken from the end: seconds come off last.
fn tell_time(cmd: &mut Cmd, now_us: u64) {
    cmd.arg(now_us % 1_000_000).arg(now_us / 1_000_000);
}

fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build_local(tokio::runtime::LocalOptions::default()).unwrap().block_on(test);
}

/// A generator of pseudo-random numbers (SplitMix64), so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20) % bound
    }
}

fn limit(algorithm: LimitAlgorithm) -> Limit {
    let spec = config::Limit {
        name: "l".into(),
        group: "l".into(),
        is_window: false,
        tiers: config::LimitTiers::All,
        enforce: true,
        algorithm,
        key: vec![config::LimitKey::Global],
        store: config::LimitStore::Redis,
        cost: config::LimitCost::Fixed(1),
        max_keys: 10,
        on_store_failure: config::OnStoreFailure::Local,
        replicas: NonZeroU32::MIN,
        lease: NonZeroU32::MIN,
        missing_key: config::MissingKey::Shared,
        refusal_status: 429,
        refusal_body: None,
        headers: config::LimitHeaders::default(),
    };
    let algorithm = Algorithm::new(algorithm).unwrap().unwrap();
    // Each algorithm has names of its own.
    let identity = u128::from(definition_of(&spec)) << 64;
    let store_prefix = format!("weir:limit:{:016x}:", (identity >> 64) as u64).into();
    Limit { identity, store_prefix, memory: Memory::new(algorithm, 10), algorithm, spec }
}

fn definition_of(spec: &config::Limit) -> u64 {
    std::hash::BuildHasher::hash_one(&foldhash::fast::FixedState::default(), format!("{:?}", spec.algorithm))
}

fn question(limit: &Limit, key: u128, cost: u64, wanted: u64) -> Question {
    let name = super::call::name(limit, crate::policy::limit::Key(key));
    Question { name, definition: definition(limit, 0), cost, wanted }
}

/// A moment since 1970 at which a window of an hour begins.
const START_US: u64 = 1_800_000_000_000_000;
const HOUR: Duration = Duration::from_secs(3600);

/// Long enough that nothing expires by the real clock while a test runs.
fn algorithms() -> Vec<LimitAlgorithm> {
    vec![
        LimitAlgorithm::FixedWindow { quota: 5, window: HOUR, aligned: false },
        LimitAlgorithm::FixedWindow { quota: 5, window: HOUR, aligned: true },
        LimitAlgorithm::SlidingWindow { quota: 7, window: HOUR },
        LimitAlgorithm::SlidingWindow { quota: 1, window: HOUR },
        LimitAlgorithm::TokenBucket { rate_per_second: 0.002, burst: 6 },
        LimitAlgorithm::TokenBucket { rate_per_second: 1.0 / 86_400.0, burst: 100 },
    ]
}

#[test]
fn every_algorithm_decides_as_in_memory() {
    let rig = Rig::new();
    run(async {
        for (round, algorithm) in algorithms().into_iter().enumerate() {
            let limit = limit(algorithm);
            let mut random = Random(round as u64);
            let mut states = [0u128; 3];
            let mut now_us = START_US + 1_000;
            let (mut admitted, mut refused) = (0, 0);
            for step in 0..400 {
                // Whole milliseconds: in memory a window begins with one.
                now_us += random.below(4) * random.below(900_000) * 1_000;
                // Several requests in one call, some for the same key.
                let checks: Vec<(usize, u64)> =
                    (0..=random.below(3)).map(|_| (random.below(3) as usize, 1 + random.below(2))).collect();
                let questions: Vec<[Question; 1]> =
                    checks.iter().map(|&(key, cost)| [question(&limit, key as u128, cost, cost)]).collect();
                let requests: Vec<&[Question]> = questions.iter().map(|q| &q[..]).collect();
                let results = rig.check(now_us, &requests).await;
                for (&(key, cost), result) in checks.iter().zip(&results) {
                    let now = Now { ns: (now_us - START_US) * 1_000, started_unix_ns: START_US * 1_000 };
                    let (next, expected) = limit.algorithm.charge(states[key], cost, now);
                    states[key] = next.unwrap_or(states[key]);
                    let is = result.decision(limit.algorithm.limit(), cost);
                    let context = format!("{algorithm:?}, step {step}: {is:?}, in memory {expected:?}");
                    assert_eq!(
                        (is.allowed, is.limit, is.remaining),
                        (expected.allowed, expected.limit, expected.remaining),
                        "{context}"
                    );
                    let near = |a: u64, b: u64| a.abs_diff(b) <= 2_000;
                    assert!(near(is.reset_ns, expected.reset_ns) && near(is.retry_ns, expected.retry_ns), "{context}");
                    if is.allowed { admitted += 1 } else { refused += 1 }
                }
            }
            assert!(admitted > 50 && refused > 50, "{algorithm:?}: {admitted} and {refused}");
        }
    });
}

#[test]
fn a_request_is_charged_to_all_its_counts_or_to_none() {
    let rig = Rig::new();
    run(async {
        let (wide, narrow) = (limit(algorithms()[0]), limit(algorithms()[2]));
        let now_us = START_US;
        let both = [question(&wide, 1, 1, 1), question(&narrow, 1, 3, 3)];
        // 3 and 3 of 7: the third time there is 1 left, and the wide one keeps its own.
        let results = rig.check(now_us, &[&both, &both, &both, &both[..1]]).await;
        let taken: Vec<i64> = results.iter().map(|result| result.taken).collect();
        assert_eq!(taken, [1, 3, 1, 3, -1, 0, 1]);
        let left: Vec<u64> = results.iter().map(|result| result.left).collect();
        assert_eq!(left, [4, 4, 3, 1, 3, 1, 2]);
        // Looking charges nothing.
        let look = question(&wide, 1, 0, 0);
        for _ in 0..2 {
            let results = rig.check(now_us, &[&[look]]).await;
            assert_eq!((results[0].taken, results[0].left), (-1, 2));
        }
    });
}

#[test]
fn a_lease_takes_what_there_is_and_at_least_the_cost() {
    let rig = Rig::new();
    run(async {
        for algorithm in [algorithms()[0], LimitAlgorithm::TokenBucket { rate_per_second: 0.01, burst: 5 }] {
            let limit = limit(algorithm);
            let now_us = START_US;
            let check = async |cost, wanted| rig.check(now_us, &[&[question(&limit, 1, cost, wanted)]]).await[0];
            let first = check(1, 3).await;
            assert_eq!((first.taken, first.left), (3, 2));
            assert_eq!(first.decision(5, 1).remaining, 4, "what is in hand counts too");
            assert_eq!(check(3, 3).await.taken, 0);
            assert_eq!(check(2, 100).await.taken, 2);
            let none = check(1, 100).await.decision(5, 1);
            assert_eq!(none, Decision { remaining: 0, allowed: false, ..none });
            assert!(none.retry_ns > 0);
        }
    });
}

#[test]
fn a_refund_gives_back_what_was_taken_and_nothing_of_another_window() {
    let rig = Rig::new();
    run(async {
        for algorithm in algorithms() {
            let limit = limit(algorithm);
            let most = limit.algorithm.limit();
            let window_us = limit.algorithm.window_ns().unwrap() / 1_000;
            let now_us = START_US;
            let one = question(&limit, 9, 1, 1);
            let result = rig.check(now_us, &[&[one]]).await[0];
            rig.refund(now_us, &one, &result).await;
            let look = question(&limit, 9, 0, 0);
            assert_eq!(rig.check(now_us, &[&[look]]).await[0].left, most, "{algorithm:?}");

            let result = rig.check(now_us, &[&[one]]).await[0];
            // Two windows on, somebody else spends one: that one stays spent.
            let later_us = now_us + 2 * window_us;
            rig.check(later_us, &[&[one]]).await;
            rig.refund(later_us, &one, &result).await;
            assert_eq!(rig.check(later_us, &[&[look]]).await[0].left, most - 1, "{algorithm:?}");
        }
    });
}

#[test]
fn every_key_expires_with_its_window_and_shows_nobody() {
    let rig = Rig::new();
    run(async {
        for (index, algorithm) in algorithms().into_iter().enumerate() {
            let limit = limit(algorithm);
            let now_us = START_US;
            let one = question(&limit, index as u128, 1, 1);
            rig.check(now_us, &[&[one]]).await;
            let mut pttl = Cmd::new();
            pttl.arg("PTTL").arg(&one.name[..]);
            let Ok(Value::Int(ttl_ms)) = rig.client.command(&one.name, &pttl).await else { panic!("no PTTL") };
            let longest = match algorithm {
                LimitAlgorithm::TokenBucket { .. } => 1.0,
                LimitAlgorithm::SlidingWindow { .. } => 2.0,
                _ => 1.0,
            } * limit.algorithm.window_ns().unwrap() as f64
                / 1e6;
            assert!(ttl_ms > 0 && ttl_ms as f64 <= longest + 1.0, "{algorithm:?}: {ttl_ms} of {longest}");
            let name = std::str::from_utf8(&one.name).unwrap();
            let mut parts = name.strip_prefix("weir:limit:").unwrap().split(':');
            assert!(parts.all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit())), "{name}");
        }
    });
}

#[test]
fn nonsense_in_a_key_is_a_key_that_was_never_used() {
    let rig = Rig::new();
    run(async {
        let limit = limit(algorithms()[0]);
        let one = question(&limit, 1, 1, 1);
        let name = &one.name[..];
        for write in [&[b"SET" as &[u8], name, b"nonsense"][..], &[b"SET", name, b"-5 1e300"], &[b"LPUSH", name, b"x"]]
        {
            rig.client.delete(name).await.unwrap();
            let mut cmd = Cmd::new();
            write.iter().for_each(|word| {
                cmd.arg(*word);
            });
            rig.client.command(name, &cmd).await.unwrap();
            let result = rig.check(START_US, &[&[one]]).await[0];
            assert_eq!((result.taken, result.left), (1, 4));
        }
    });
}

#[test]
fn a_clock_that_is_put_back_lengthens_no_window_and_fills_no_bucket() {
    let rig = Rig::new();
    run(async {
        for algorithm in algorithms() {
            let limit = limit(algorithm);
            let most = limit.algorithm.limit();
            let one = question(&limit, 1, 1, 1);
            let now_us = START_US;
            rig.check(now_us, &[&[question(&limit, 1, most, most)]]).await;
            let back_us = now_us - 10 * limit.algorithm.window_ns().unwrap() / 1_000;
            let result = rig.check(back_us, &[&[one]]).await[0];
            assert!(result.is_refusal(), "{algorithm:?}");
            // The refusal has corrected the count: from then on it lasts as long as on a clock that goes forward.
            let window_ns = limit.algorithm.window_ns().unwrap();
            let windows = match algorithm {
                LimitAlgorithm::FixedWindow { aligned: false, .. } | LimitAlgorithm::TokenBucket { .. } => 1,
                LimitAlgorithm::FixedWindow { .. } => 2,
                _ => 3,
            };
            assert!(result.retry_ns() <= windows * window_ns, "{algorithm:?}");
            for key in 1..=2 {
                // A neighbour that nobody has used is not concerned.
                let later_us = back_us + windows * window_ns / 1_000 + 1_000;
                let all = question(&limit, key, most, most);
                assert_eq!(rig.check(later_us, &[&[all]]).await[0].taken, most as i64, "{algorithm:?}");
            }
        }
    });
}

#[test]
fn a_slow_node_takes_nothing_from_what_other_nodes_said() {
    let nodes = RedisCluster::start(3);
    let timeout = Duration::from_millis(300);
    let (url, namespace) = (nodes.url(), "weir".to_owned());
    let redis = Redis::new(&config::Redis { url, timeout, namespace, secret: None }).unwrap();
    let client = Client::new(redis, Purpose::Limits, Metrics::new().shard(0).redis(Purpose::Limits.name()));
    run(async {
        let remote = super::Remote::new(client.clone());
        let limit = limit(algorithms()[0]);
        let questions: Vec<Question> = (0..30).map(|key| question(&limit, key, 1, 1)).collect();
        let node_of = |question: &Question| nodes.node_of(std::str::from_utf8(&question.name).unwrap()).address();
        let slow = nodes.nodes().iter().find(|node| node.address() == node_of(&questions[0])).unwrap();
        let healthy = *questions.iter().find(|other| node_of(other) != slow.address()).unwrap();
        // The map of slots and all connections are there before the node becomes slow.
        let end = std::time::Instant::now() + testkit::DEADLINE;
        for question in [questions[0], healthy] {
            while remote.call(&[question]).await.is_err() {
                assert!(std::time::Instant::now() < end, "the cluster does not respond");
            }
        }
        slow.pause();
        let deadline = std::time::Instant::now() + timeout;
        let met = remote.call_within(&[healthy, questions[0]], deadline).await;
        slow.resume();
        assert!(matches!(met[0], super::LimitOutcome::Redis(result, _) if result.taken == 1), "{met:?}");
        assert!(matches!(met[1], super::LimitOutcome::Failed), "{met:?}");
    });
}

/// By the clock of Redis alone: what a worker holds ends, that of another stays, and a clock that is set back keeps nothing for longer.
#[test]
fn what_a_worker_holds_ends_without_a_word_of_it() {
    run(async {
        let rig = Rig::new();
        let limit = limit(LimitAlgorithm::Concurrency { quota: 3 });
        let lasts_us = u64::try_from(hold::LASTS.as_micros()).unwrap();
        let checks = |worker: u64, cost: u64, wanted: u64| {
            let name = super::call::name(&limit, crate::policy::limit::Key(1));
            [Question { name, definition: definition(&limit, worker), cost, wanted }]
        };
        let check = async |now_us, worker| rig.check(now_us, &[&checks(worker, 1, 1)]).await[0].taken;
        let left = async |now_us| rig.check(now_us, &[&checks(9, 0, 0)]).await[0].left;
        assert_eq!(check(START_US, 1).await, 1);
        assert_eq!(check(START_US, 1).await, 1);
        assert_eq!(check(START_US + lasts_us / 2, 2).await, 1);
        assert_eq!(check(START_US + lasts_us - 1, 3).await, 0, "all three are taken");
        assert_eq!(left(START_US + lasts_us).await, 2, "those of the first worker have ended");
        assert_eq!(left(START_US + lasts_us / 2 + lasts_us).await, 3);

        let hour_us = u64::try_from(HOUR.as_micros()).unwrap();
        let back_us = START_US - hour_us;
        assert_eq!(check(back_us, 4).await, 0, "all three still count");
        assert_eq!(left(back_us + lasts_us).await, 3, "but for no longer than from now on");
    });
}
