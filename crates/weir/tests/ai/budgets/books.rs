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

const CALLS: usize = 5_000;

/// Two providers, gateways in front of them, and models for each of the faults.
struct Books {
    good: Provider,
    /// Fails in as many ways as it has models.
    _bad: Provider,
    gateways: Vec<Weir>,
}

/// Numbers of rows of the table of faults: before and after content, in whole responses and in streams.
const FAULTS: [usize; 10] = [3, 5, 7, 10, 18, 20, 22, 24, 25, 27];

impl Books {
    /// Two gateways with one Redis, or one without; `change` is made to their configuration.
    fn open(redis: Option<&Redis>, change: impl Fn(String) -> String) -> Self {
        let (good, bad) = (Provider::start(), Provider::start());
        let store = if redis.is_some() { "store: redis, on_store_failure: closed" } else { "store: memory" };
        let limits = format!(
            "  tokens: {{unit: tokens, algorithm: fixed_window, quota: {QUOTA}, window: month, timezone: \"+01:00\", key: global, {store}}}\n  \
             input: {{unit: input_tokens, algorithm: fixed_window, quota: {QUOTA}, window: 30d, key: global, {store}}}\n  \
             requests: {{rate: 1000000/s, burst: 1000000, key: global, {store}}}"
        );
        let setup = Setup { good: &good, bad: &bad, redis, ..Setup::new(&good, &limits, "tokens, input, requests") };
        let mut models = String::new();
        let mut names = ["chat", "slow", "claude", "google"].map(str::to_owned).to_vec();
        for fault in FAULTS {
            for (name, api) in [("o", "bad"), ("c", "bad-claude"), ("g", "bad-google")] {
                models.push_str(&format!(
                    "  {name}{fault}: {{candidates: [{{provider: {api}, model: sim-f{fault}, max_output: 100}}, {{provider: good, model: sim, tier: 2}}]}}\n"
                ));
                names.push(format!("{name}{fault}"));
            }
        }
        let yaml = setup.yaml().replace("limits:\n  tokens", &format!("{models}limits:\n  tokens"));
        let yaml = change(yaml.replace("chat, slow, claude, google", &names.join(", ")));
        let gateways = (0..if redis.is_some() { 2 } else { 1 }).map(|_| setup.start_with(&yaml)).collect();
        Books { good, _bad: bad, gateways }
    }

    /// Calls of OpenAI's and Anthropic's APIs, translated ones too, whole and streamed; one in five meets a fault or a client that disconnects.
    fn trade(&self, count: usize) {
        let next = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed) as usize;
                        if number >= count {
                            break;
                        }
                        self.one(number);
                    }
                });
            }
        });
    }

    fn one(&self, number: usize) {
        let weir = &self.gateways[number % self.gateways.len()];
        let path = if number.is_multiple_of(3) { "/v1/messages" } else { "/v1/chat/completions" };
        let streams = number.is_multiple_of(2);
        let fault = FAULTS[number / 10 % FAULTS.len()];
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

    /// Calls of the slow model that are over, by the metrics.
    fn slow_requests(&self) -> u64 {
        let is_slow = |labels: &str| labels.contains("model=\"slow\"");
        self.gateways.iter().map(|weir| metric(weir, "weir_ai_requests_total", is_slow)).sum()
    }

    /// Calls of the slow model that reached its provider.
    fn slow_sent(&self) -> u64 {
        self.good.ledger()["calls"]["sim-tokens40-gap5"].as_u64().unwrap_or(0)
    }

    /// Output tokens that the good provider reported to clients that waited for them.
    fn reported_output(&self) -> u64 {
        self.good.ledger()["output_tokens"].as_u64().unwrap() - 40 * self.slow_sent()
    }
}

/// More than any run of these tests uses.
const QUOTA: u64 = 1_000_000_000;

/// The sum of a metric over the series whose labels are wanted.
fn metric(weir: &Weir, name: &str, wanted: impl Fn(&str) -> bool) -> u64 {
    let metrics = weir.admin_get("/metrics").text().to_owned();
    let series = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "));
    series.filter(|(labels, _)| wanted(labels)).map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

/// Each call is settled once, with what its provider reported, or the estimate that its log line is marked with.
fn books(redis: Option<&Redis>) {
    let books = Books::open(redis, |yaml| yaml);
    books.trade(CALLS);
    let Books { gateways, .. } = &books;
    // A disconnect before the whole request was read has no line; every other call has one, and everything that a provider was sent.
    let is_slow = |line: &Value| line["ai"]["model"] == "slow";
    wait::until(DEADLINE, "every call has its line", || {
        let lines: Vec<Value> = gateways.iter().flat_map(calls).collect();
        let slow = lines.iter().filter(|line| is_slow(line)).count() as u64;
        lines.len() as u64 - slow == (CALLS - CALLS / 10) as u64
            && slow == books.slow_requests()
            && slow >= books.slow_sent()
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
    let settled_output = sum("tokens_out", &|line| served_well(line) && !is_slow(line));
    assert_eq!(settled_output, books.reported_output(), "settled and reported");
    let totals = (sum("tokens_in", &all) + sum("tokens_out", &all), sum("tokens_in", &all));
    if let Some(redis) = redis {
        let mut used: Vec<u64> = accounts(redis).iter().map(|account| account.1).collect();
        used.sort_unstable();
        assert_eq!(used, [totals.1, totals.0], "in Redis");
    } else {
        for (name, total) in [("tokens", totals.0), ("input", totals.1)] {
            let response: Value = serde_json::from_str(gateways[0].admin_get("/limits?limit=input").text()).unwrap();
            assert_eq!(response["limits"][0]["keys"], 1);
            let used = || {
                let response = gateways[0].admin_get(&format!("/limits?limit={name}"));
                let response: Value = serde_json::from_str(response.text()).unwrap();
                QUOTA - response["limits"][0]["state"]["remaining"].as_u64().unwrap()
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

/// As many calls as `BOOKS_CALLS` says. Nothing is kept of a call: the metrics have the sums.
#[test]
#[ignore = "`make books`: a million calls"]
fn the_books_of_a_million_calls_balance() {
    sums(std::env::var("BOOKS_CALLS").map_or(1_000_000, |text| text.parse().expect("BOOKS_CALLS is a number")));
}

/// The same with few of them, so that it cannot break unnoticed.
#[test]
fn the_sums_of_the_metrics_balance() {
    sums(500);
}

fn sums(calls: usize) {
    let redis = Redis::start();
    let books = Books::open(Some(&redis), |yaml| yaml.replace("access_log: {path: stdout}", "access_log: none"));
    books.trade(calls);
    let is_slow = |labels: &str| labels.contains("model=\"slow\"");
    let all = |name: &str, wanted: &dyn Fn(&str) -> bool| -> u64 {
        books.gateways.iter().map(|weir| metric(weir, name, wanted)).sum()
    };
    wait::until(DEADLINE, "every call is over", || {
        all("weir_ai_requests_total", &|labels| !is_slow(labels)) == (calls - calls / 10) as u64
            && books.slow_requests() >= books.slow_sent()
    });
    wait::until(DEADLINE, "everything is settled", || accounts(&redis).iter().all(|account| account.3 == 0));
    let tokens = |kind: &str, wanted: &dyn Fn(&str) -> bool| {
        let kind = format!("kind=\"{kind}\"");
        all("weir_ai_tokens_total", &|labels| labels.contains(&kind) && wanted(labels))
    };
    let served_well = |labels: &str| {
        ["good", "claude", "google"].iter().any(|name| labels.contains(&format!("provider=\"{name}\"")))
            && labels.contains("estimated=\"false\"")
            && !is_slow(labels)
    };
    let (settled, reported) = (tokens("output", &served_well), books.reported_output());
    let (input, output) = (tokens("input", &|_| true), tokens("output", &|_| true));
    let estimated = tokens("output", &|labels| labels.contains("estimated=\"true\""));
    println!(
        "{calls} calls, {} of them sent to the slow model: output settled {settled}, reported {reported}; input {input}, output {output}, of it estimated {estimated}",
        books.slow_sent()
    );
    assert_eq!(settled, reported, "settled and reported");
    let mut used: Vec<u64> = accounts(&redis).iter().map(|account| account.1).collect();
    used.sort_unstable();
    assert_eq!(used, [input, input + output], "in Redis and in the metrics");
    assert!(estimated > 0, "calls were cut");
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
        let response = gateways[0].admin_get("/limits?limit=wide&key=ai&key=chat");
        let response: Value = serde_json::from_str(response.text()).unwrap();
        response["limits"][0]["state"]["remaining"] == 1000 - 80
    });
}
