//! The books: no more passes than the limits say, and what is settled is what was reported.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::Value;
use testkit::{DEADLINE, Redis, RedisCluster, Weir, wait};

use super::{Setup, accounts, call, calls, chat, disconnect};
use crate::rig::Provider;

/// Two gateways, one Redis, 200 calls at once: the budget is for 50, both in money and in tokens.
#[test]
fn two_gateways_pass_exactly_what_the_budget_is_for() {
    let (provider, redis) = (Provider::start(), Redis::start());
    for (limit, what) in [
        // 8 output tokens are reserved and used.
        ("unit: output_tokens, algorithm: fixed_window, quota: 400, window: 1h", 400),
        ("unit: output_tokens, algorithm: token_bucket, rate: 1/h, burst: 400", 0),
        ("unit: output_tokens, algorithm: fixed_window, quota: 400, window: month", 400),
    ] {
        redis.cli(["FLUSHALL"]);
        let limits = format!(
            "  budget: {{{limit}, key: global, store: redis, on_store_failure: closed}}\n  \
             wide: {{unit: money, algorithm: fixed_window, quota: 1000, window: day, key: [global], store: redis}}"
        );
        let setup = Setup { redis: Some(&redis), ..Setup::new(&provider, &limits, "budget, wide") };
        let gateways = [setup.start(), setup.start()];
        let (passed, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for thread in 0..100 {
                let (gateways, passed, refused) = (&gateways, &passed, &refused);
                scope.spawn(move || {
                    for number in 0..2 {
                        let body = chat("chat", number == 0, 8);
                        let received = call(&gateways[(thread + number) % 2], "/v1/chat/completions", &body, &[]);
                        match received.status {
                            200 => passed.fetch_add(1, Ordering::Relaxed),
                            429 => refused.fetch_add(1, Ordering::Relaxed),
                            _ => panic!("{received:?}"),
                        };
                    }
                });
            }
        });
        let counts = (passed.into_inner(), refused.into_inner());
        assert_eq!(counts, (50, 150), "{limit}");
        wait::until(DEADLINE, "everything is settled", || accounts(&redis).iter().all(|account| account.3 == 0));
        let accounts = accounts(&redis);
        // What was refused by one limit was not charged to the other: the log has what was settled.
        let lines = || gateways.iter().flat_map(calls).collect::<Vec<Value>>();
        wait::until(DEADLINE, "every call has its line", || lines().len() == 200);
        let cost: u64 = lines().iter().map(cost).sum();
        assert!(accounts.iter().any(|account| account.1 == cost), "{cost} in {accounts:?}");
        if what > 0 {
            assert!(accounts.iter().any(|account| account.1 == what), "{accounts:?}");
        }
    }
}

/// Millionths.
fn cost(line: &Value) -> u64 {
    let text = line["ai"]["cost"].to_string();
    if text == "null" { 0 } else { (text.parse::<f64>().unwrap() * 1e6).round() as u64 }
}

/// Calls of the slow model that are over, by the metrics.
fn slow_requests(weir: &Weir) -> u64 {
    let metrics = weir.admin_get("/metrics").text().to_owned();
    let lines =
        metrics.lines().filter(|line| line.starts_with("weir_ai_requests_total{") && line.contains("model=\"slow\""));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

const CALLS: usize = 5_000;

/// Calls of OpenAI's and Anthropic's APIs, translated ones too, whole and streamed; one in five meets a fault or a client that disconnects. Each is settled once,
/// with what its provider reported, or the estimate that its log line is marked with.
fn books(redis: Option<&Redis>) {
    let (good, bad) = (Provider::start(), Provider::start());
    let store = if redis.is_some() { "store: redis, on_store_failure: closed" } else { "store: memory" };
    let limits = format!(
        "  tokens: {{unit: tokens, algorithm: fixed_window, quota: 1000000000, window: month, timezone: \"+01:00\", key: global, {store}}}\n  \
         input: {{unit: input_tokens, algorithm: fixed_window, quota: 1000000000, window: 30d, key: global, {store}}}\n  \
         requests: {{rate: 1000000/s, burst: 1000000, key: global, {store}}}"
    );
    let setup = Setup { good: &good, bad: &bad, redis, ..Setup::new(&good, &limits, "tokens, input, requests") };
    let faults = [3, 5, 7, 10, 18, 20, 22, 24, 25, 27];
    let mut models = String::new();
    let mut names = ["chat", "slow", "claude", "google"].map(str::to_owned).to_vec();
    for fault in faults {
        for (name, api) in [("o", "bad"), ("c", "bad-claude"), ("g", "bad-google")] {
            models.push_str(&format!(
                "  {name}{fault}: {{candidates: [{{provider: {api}, model: sim-f{fault}, max_output: 100}}, {{provider: good, model: sim, tier: 2}}]}}\n"
            ));
            names.push(format!("{name}{fault}"));
        }
    }
    let yaml = setup.yaml().replace("limits:\n  tokens", &format!("{models}limits:\n  tokens"));
    let yaml = yaml.replace("chat, slow, claude, google", &names.join(", "));
    let gateways: Vec<Weir> = (0..if redis.is_some() { 2 } else { 1 }).map(|_| setup.start_with(&yaml)).collect();
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            let (gateways, next) = (&gateways, &next);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) as usize;
                    if number >= CALLS {
                        break;
                    }
                    let weir = &gateways[number % gateways.len()];
                    let path = if number.is_multiple_of(3) { "/v1/messages" } else { "/v1/chat/completions" };
                    let streams = number.is_multiple_of(2);
                    let fault = faults[number / 10 % faults.len()];
                    match number % 10 {
                        3 => disconnect(weir.addr(), path, &chat("slow", true, 64), number % 4 == 3),
                        7 => {
                            let api = ["o", "c", "g"][number / 100 % 3];
                            call(weir, path, &chat(&format!("{api}{fault}"), streams, 64), &[]);
                        }
                        0 | 5 => {
                            let model = if number % 20 < 10 { "claude" } else { "google" };
                            let received = call(weir, path, &chat(model, streams, 64), &[]);
                            assert_eq!(received.status, 200, "{received:?}");
                        }
                        _ => {
                            let received = call(weir, path, &chat("chat", streams, 64), &[]);
                            assert_eq!(received.status, 200, "{received:?}");
                        }
                    }
                }
            });
        }
    });
    // A disconnect before the whole request was read has no line; every other call has one, and everything that a provider was sent.
    let is_slow = |line: &Value| line["ai"]["model"] == "slow";
    wait::until(DEADLINE, "every call has its line", || {
        let lines: Vec<Value> = gateways.iter().flat_map(calls).collect();
        let slow = lines.iter().filter(|line| is_slow(line)).count() as u64;
        let counted: u64 = gateways.iter().map(slow_requests).sum();
        let sent = good.ledger()["calls"]["sim-tokens40-gap5"].as_u64().unwrap_or(0);
        lines.len() as u64 - slow == (CALLS - CALLS / 10) as u64 && slow == counted && slow >= sent
    });
    if let Some(redis) = redis {
        wait::until(DEADLINE, "everything is settled", || accounts(redis).iter().all(|account| account.3 == 0));
    }
    let lines: Vec<Value> = gateways.iter().flat_map(calls).collect();
    let sum = |member: &str, of: &dyn Fn(&Value) -> bool| -> u64 {
        lines.iter().filter(|line| of(line)).map(|line| line["ai"][member].as_u64().unwrap_or(0)).sum()
    };
    let all = |_: &Value| true;
    // What the well provider reported is what complete calls were settled with: those that were cut are marked as estimated.
    let served_well = |line: &Value| {
        matches!(line["ai"]["provider"].as_str(), Some("good" | "claude" | "google"))
            && line["ai"]["estimated"] == false
    };
    let cut: Vec<&Value> =
        lines.iter().filter(|line| line["ai"]["provider"] == "good" && line["ai"]["estimated"] != false).collect();
    assert!(cut.iter().all(|line| line["ai"]["model"] == "slow"), "only disconnected calls are estimated");
    let is_free =
        |line: &&&Value| line["ai"]["tokens_in"].as_u64().unwrap_or(0) == 0 && line["ai"]["ttft_ms"].is_number();
    assert_eq!(cut.iter().find(is_free), None, "a call whose response has begun costs its input at least");
    let ledger = good.ledger();
    let slow_calls = ledger["calls"]["sim-tokens40-gap5"].as_u64().unwrap();
    let reported_output = ledger["output_tokens"].as_u64().unwrap() - 40 * slow_calls;
    let settled_output = sum("tokens_out", &|line| served_well(line) && !is_slow(line));
    assert_eq!(settled_output, reported_output, "settled and reported");
    let totals = (sum("tokens_in", &all) + sum("tokens_out", &all), sum("tokens_in", &all));
    if let Some(redis) = redis {
        let mut used: Vec<u64> = accounts(redis).iter().map(|account| account.1).collect();
        used.sort_unstable();
        assert_eq!(used, [totals.1, totals.0], "in Redis");
    } else {
        for (name, total) in [("tokens", totals.0), ("input", totals.1)] {
            let answer: Value = serde_json::from_str(gateways[0].admin_get("/limits?limit=input").text()).unwrap();
            assert_eq!(answer["limits"][0]["keys"], 1);
            let used = || {
                let answer = gateways[0].admin_get(&format!("/limits?limit={name}"));
                let answer: Value = serde_json::from_str(answer.text()).unwrap();
                1_000_000_000 - answer["limits"][0]["state"]["remaining"].as_u64().unwrap()
            };
            // A line may be written before its call is settled.
            let _ = wait::try_some(DEADLINE, || (used() == total).then_some(()));
            assert_eq!(used(), total, "{name}");
        }
    }
    let estimated = lines.iter().filter(|line| line["ai"]["estimated"] == true).count();
    assert!(estimated > CALLS / 50, "{estimated} calls were cut");
}

#[test]
fn the_books_balance_in_redis() {
    books(Some(&Redis::start()));
}

#[test]
fn the_books_balance_in_memory() {
    books(None);
}

/// On a cluster the counts of a call lie on different nodes: what one of them refuses goes back to the other.
#[test]
fn on_a_cluster_a_refusal_by_one_count_is_charged_to_none() {
    let (provider, cluster) = (Provider::start(), RedisCluster::start(3));
    let limits = "  narrow: {unit: output_tokens, algorithm: fixed_window, quota: 80, window: day, key: global, store: redis, on_store_failure: closed}\n  \
                  wide: {unit: output_tokens, algorithm: token_bucket, rate: 1/h, burst: 1000, key: [route, model], store: redis, on_store_failure: closed}";
    let setup = Setup::new(&provider, limits, "wide, narrow");
    let redis = format!("prices: prices.yaml\nredis: {{url: '{}', timeout: 10s}}\n", cluster.url());
    let yaml = setup.yaml().replace("prices: prices.yaml\n", &redis);
    let gateways = [setup.start_with(&yaml), setup.start_with(&yaml)];
    let passed = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (gateways, passed) = (&gateways, &passed);
            scope.spawn(move || {
                for _ in 0..5 {
                    let received = call(&gateways[thread % 2], "/v1/chat/completions", &chat("chat", false, 8), &[]);
                    assert!([200, 429].contains(&received.status), "{received:?}");
                    passed.fetch_add(u64::from(received.status == 200), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), 10);
    wait::until(DEADLINE, "what was refused is given back", || {
        let answer = gateways[0].admin_get("/limits?limit=wide&key=ai&key=chat");
        let answer: Value = serde_json::from_str(answer.text()).unwrap();
        answer["limits"][0]["state"]["remaining"] == 1000 - 80
    });
}
