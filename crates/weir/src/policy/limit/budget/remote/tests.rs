//! The scripts against the accounts in memory, which are the model: the same schedule by the same clock gives the same results.

use std::time::Duration;

use testkit::Redis as Server;

use super::super::account::Account;
use super::*;
use crate::config;
use crate::observe::Metrics;
use crate::redis::{Purpose, Redis};

/// A script that is told the time by its last two arguments.
fn script(text: &'static str) -> Script {
    let told = text.replace("redis.call('TIME')", "{ table.remove(ARGV), table.remove(ARGV) }");
    assert_ne!(told, text);
    Script::new("test", Box::leak(told.into_boxed_str()))
}

struct Rig {
    server: Server,
    client: Rc<Client>,
    reserve: Script,
    settle: Script,
}

impl Rig {
    fn new() -> Self {
        let server = Server::start();
        let config = config::Redis {
            url: server.url(),
            timeout: Duration::from_secs(5),
            namespace: "weir".to_owned(),
            secret: None,
        };
        let redis = Redis::new(&config).unwrap();
        let client = Client::new(redis, Purpose::Limits, Metrics::new().shard(0).redis(Purpose::Limits.name()));
        let (reserve, settle) = (script(include_str!("../reserve.lua")), script(include_str!("../settle.lua")));
        Rig { server, client, reserve, settle }
    }

    async fn reserve(&self, now_us: u64, id: &str, lasts_us: u64, questions: &[Question]) -> Vec<ScriptResult> {
        let names: Vec<&[u8]> = questions.iter().map(|question| &*question.name).collect();
        let write = |cmd: &mut Cmd| {
            cmd.arg(id).arg(lasts_us);
            questions.iter().for_each(|question| write_question(cmd, question, now_us));
            tell_time(cmd, now_us);
        };
        outcomes(&self.client.script_with(&self.reserve, &names, write).await.unwrap()).unwrap()
    }

    async fn settle(&self, now_us: u64, id: &str, used: &[Used]) -> Vec<i64> {
        let names: Vec<&[u8]> = used.iter().map(|one| &*one.name).collect();
        let write = |cmd: &mut Cmd| {
            write_used(cmd, id, used);
            tell_time(cmd, now_us);
        };
        let Value::Array(list) = self.client.script_with(&self.settle, &names, write).await.unwrap() else { panic!() };
        let number = |value: &Value| if let Value::Int(number) = value { *number } else { panic!("{value:?}") };
        list.iter().map(number).collect()
    }
}

fn tell_time(cmd: &mut Cmd, now_us: u64) {
    cmd.arg(now_us % 1_000_000).arg(now_us / 1_000_000);
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

fn question(number: usize, rule: Rule, amount: u64) -> Question {
    Question { name: format!("weir:budget:test:{number}").into_bytes(), rule, enforced: true, amount }
}

const LONG_US: u64 = 1 << 45;

/// A reservation that is not settled: its id, the marks of the counts, and what each was charged.
type Open = (String, [u64; 4], Vec<(usize, u64)>);

#[test]
fn the_scripts_count_as_memory_does() {
    let rules = [
        Rule::Bucket { burst: 1000, interval_ns: 30_000_000 },
        Rule::Window { quota: 1200, window: BudgetWindow::First(Duration::from_secs(20)) },
        Rule::Window { quota: 1500, window: BudgetWindow::Aligned(Duration::from_secs(30)) },
        Rule::Window { quota: 40_000, window: BudgetWindow::Day(90) },
    ];
    tokio_test(async {
        let rig = Rig::new();
        for seed in [3, 5, 8] {
            rig.server.cli(["FLUSHALL"]);
            let mut numbers = Numbers(seed * 0x9e37_79b9);
            let mut accounts = [Account::default(); 4];
            let mut open: Vec<Open> = Vec::new();
            let mut now_us = 1_790_000_000_000_000;
            for step in 0..300 {
                now_us += numbers.below(3_000_000);
                if !open.is_empty() && numbers.below(3) == 0 {
                    let (id, marks, charged) = open.swap_remove(numbers.below(open.len() as u64) as usize);
                    let mut used = Vec::new();
                    for (index, amount) in charged {
                        let own = numbers.below(amount * 5 / 4 + 1);
                        accounts[index].settle(&rules[index], amount, own, marks[index], now_us);
                        used.push(Used {
                            name: question(index, rules[index], 0).name,
                            rule: rules[index],
                            amount: own,
                        });
                    }
                    rig.settle(now_us, &id, &used).await;
                    // Once and not again.
                    assert!(
                        rig.settle(now_us, &id, &used).await.iter().all(|done| *done == 0),
                        "seed {seed} step {step}"
                    );
                    continue;
                }
                let first = numbers.below(4) as usize;
                let input: Vec<usize> = (first..4).collect();
                let amount = numbers.below(300);
                let id = format!("{seed}-{step}");
                let questions: Vec<Question> =
                    input.iter().map(|index| question(*index, rules[*index], amount)).collect();
                let outcomes = rig.reserve(now_us, &id, LONG_US, &questions).await;
                let looked: Vec<_> = input
                    .iter()
                    .map(|index| {
                        let mut account = accounts[*index];
                        let (decision, mark) = account.reserve(&rules[*index], amount, now_us);
                        (account, decision, mark)
                    })
                    .collect();
                let passes = looked.iter().all(|(_, decision, _)| decision.allowed);
                let mut marks = [0; 4];
                for ((index, (account, decision, mark)), outcome) in input.iter().zip(looked).zip(&outcomes) {
                    let expected = if !decision.allowed {
                        0
                    } else if passes {
                        1
                    } else {
                        -1
                    };
                    assert_eq!(outcome.result, expected, "seed {seed} step {step} count {index}");
                    if passes || !decision.allowed {
                        assert_eq!(outcome.left, decision.remaining, "seed {seed} step {step} count {index}");
                        assert_eq!(outcome.reset_us, decision.reset_ns / 1000, "seed {seed} step {step} count {index}");
                    }
                    if !decision.allowed {
                        assert_eq!(outcome.retry_us, decision.retry_ns / 1000, "seed {seed} step {step} count {index}");
                    }
                    if passes {
                        accounts[*index] = account;
                        marks[*index] = mark;
                    }
                }
                if passes {
                    open.push((id, marks, input.into_iter().map(|index| (index, amount)).collect()));
                }
            }
        }
    });
}

#[test]
fn reservations_that_nobody_settles_stand_as_used_when_they_end() {
    tokio_test(async {
        let rig = Rig::new();
        let bucket = Rule::Bucket { burst: 100, interval_ns: 1_000_000_000 };
        let window = Rule::Window { quota: 100, window: BudgetWindow::Aligned(Duration::from_secs(1 << 30)) };
        let both = |amount| [question(1, bucket, amount), question(2, window, amount)];
        let now_us = 1_790_000_000_000_000;
        assert!(rig.reserve(now_us, "lost", 10_000_000, &both(60)).await.iter().all(|outcome| outcome.result == 1));
        // What is reserved does not come back with time; once it counts as used, it does.
        let left = async |after_s: u64| -> Vec<u64> {
            let outcomes = rig.reserve(now_us + after_s * 1_000_000, "look", 1, &both(1000)).await;
            outcomes.iter().map(|outcome| outcome.left).collect()
        };
        assert_eq!(left(9).await, [40, 40]);
        // A refusal is what finds it.
        assert_eq!(left(11).await, [40, 40]);
        assert_eq!(left(11).await, [40, 40]);
        let later = now_us + 11_000_000;
        assert!(rig.reserve(later, "next", 10_000_000, &both(10)).await.iter().all(|outcome| outcome.result == 1));
        assert_eq!(rig.server.cli(["HEXISTS", "weir:budget:test:1", "lost"]).trim(), "0");
        assert_eq!(left(11).await, [30, 30]);
        assert_eq!(left(16).await, [35, 30]);
        let used = both(0).map(|one| Used { name: one.name, rule: one.rule, amount: 0 });
        assert_eq!(rig.settle(later, "lost", &used).await, [0, 0]);
        assert_eq!(rig.settle(later, "next", &used).await, [1, 1]);
        assert_eq!(left(11).await, [40, 40]);
    });
}

#[test]
fn a_limit_that_refuses_nothing_is_charged_only_what_it_has() {
    tokio_test(async {
        let rig = Rig::new();
        let rule = |quota| Rule::Window { quota, window: BudgetWindow::Aligned(Duration::from_secs(1 << 30)) };
        let check = [question(1, rule(100), 60), Question { enforced: false, ..question(2, rule(50), 60) }];
        let results = |outcomes: Vec<ScriptResult>| {
            outcomes.iter().map(|outcome| (outcome.result, outcome.left)).collect::<Vec<_>>()
        };
        assert_eq!(results(rig.reserve(1 << 50, "a", LONG_US, &check).await), [(1, 40), (0, 50)]);
        assert_eq!(results(rig.reserve(1 << 50, "b", LONG_US, &check).await), [(0, 40), (0, 50)]);
    });
}

fn tokio_test(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(test));
}
