//! Redis that fails, gateways that die, configurations that change, while calls are on their way.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use testkit::{DEADLINE, Redis, wait};

use super::{Setup, accounts, call, calls, chat, used, wait_for_calls};
use crate::rig::Provider;

const HOURLY: &str = "unit: tokens, algorithm: fixed_window, quota: 1000, window: 1h, key: global, store: redis";

/// Begins a stream and reads its first bytes.
fn begin(address: std::net::SocketAddr, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    assert!(stream.read(&mut [0; 16]).unwrap() > 0);
    stream
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A model with 40 tokens, 50 ms apart: long enough to do something meanwhile.
fn slow(yaml: &str) -> String {
    yaml.replace("sim-tokens40-gap5", "sim-tokens40-gap50")
}

#[test]
fn a_settlement_waits_for_a_redis_that_comes_back() {
    let provider = Provider::start();
    let redis = Redis::builder().set("appendonly", "yes").set("appendfsync", "always").start();
    let limits = format!("  hourly: {{{HOURLY}, on_store_failure: closed}}");
    let setup = Setup { redis: Some(&redis), timeout: "500ms", ..Setup::new(&provider, &limits, "hourly") };
    let weir = setup.start_with(&slow(&setup.yaml()));
    let stream = begin(weir.addr(), &chat("slow", true, 200));
    let reserved = accounts(&redis);
    assert_eq!((reserved[0].3, reserved[0].1 > 200), (1, true), "{reserved:?}");
    redis.kill();
    assert!(rest(stream).ends_with("0\r\n\r\n"), "the stream is not affected");
    wait::until(DEADLINE, "the call is refused while Redis is away", || {
        call(&weir, "/v1/chat/completions", &chat("chat", false, 8), &[]).status == 503
    });
    redis.restart();
    wait::until(DEADLINE, "it is settled", || accounts(&redis).iter().all(|account| account.3 == 0));
    let slow = || calls(&weir).into_iter().find(|line| line["ai"]["model"] == "slow");
    let line = wait::some(DEADLINE, "the line of the stream", slow);
    assert_eq!(used(&redis), line["ai"]["tokens_in"].as_u64().unwrap() + 40);
}

#[test]
fn each_limit_says_what_holds_without_redis() {
    let provider = Provider::start();
    let redis = Redis::start();
    let limits = format!(
        "  open: {{{HOURLY}, on_store_failure: open}}\n  local: {{{}, replicas: 10}}",
        HOURLY.replace("unit: tokens", "unit: output_tokens")
    );
    let weir = |names| Setup { redis: Some(&redis), timeout: "500ms", ..Setup::new(&provider, &limits, names) }.start();
    let (open, local) = (weir("open"), weir("local"));
    redis.kill();
    let status = |weir, tokens| call(weir, "/v1/chat/completions", &chat("chat", false, tokens), &[]).status;
    assert_eq!([status(&open, 900), status(&open, 900)], [200, 200]);
    // A tenth of 1000 for this gateway: what was reserved and not used comes back.
    assert_eq!([status(&local, 90), status(&local, 90), status(&local, 101)], [200, 200, 429]);
    let response: Value = serde_json::from_str(local.admin_get("/limits?limit=local").text()).unwrap();
    assert!(response["limits"][0]["note"].as_str().unwrap().contains("Redis"), "{response}");
}

#[test]
fn what_a_dead_gateway_has_reserved_stands_as_used() {
    let (provider, redis) = (Provider::start(), Redis::start());
    let bucket = "  bucket: {unit: tokens, algorithm: token_bucket, rate: 1/h, burst: 1000, key: global, store: redis}";
    let setup = Setup { redis: Some(&redis), ..Setup::new(&provider, bucket, "bucket") };
    let yaml = slow(&setup.yaml());
    let dead = setup.start_with(&yaml);
    let _stream = begin(dead.addr(), &chat("slow", true, 500));
    dead.kill();
    let reserved = accounts(&redis);
    assert!(reserved[0].2 > 500 && reserved[0].3 == 1, "{reserved:?}");
    let other = setup.start_with(&yaml);
    assert_eq!(call(&other, "/v1/chat/completions", &chat("chat", false, 500), &[]).status, 429);
    // It has an end; as if that had come:
    let name = redis.cli(["KEYS", "*:budget:*"]);
    let (name, fields) = (name.trim(), redis.cli(["HKEYS", name.trim()]));
    let id = fields.lines().find(|field| *field != "s").unwrap();
    let entry = redis.cli(["HGET", name, id]);
    let numbers: Vec<u64> = entry.split(' ').map(|number| number.parse().unwrap()).collect();
    let now: u64 = redis.cli(["TIME"]).lines().next().unwrap().parse().unwrap();
    let lasts = numbers[1] / 1_000_000 - now;
    assert!((600..=660).contains(&lasts), "until the deadline of the call and a minute: {lasts}");
    redis.cli(["HSET", name, id, &format!("{} 1 {}", numbers[0], numbers[2])]);
    let (mark, used, held, _) = reserved[0];
    redis.cli(["HSET", name, "s", &format!("{mark} {used} {held} 1")]);
    assert_eq!(call(&other, "/v1/chat/completions", &chat("chat", false, 8), &[]).status, 200);
    wait::until(DEADLINE, "nothing is reserved", || accounts(&redis)[0].2 == 0 && accounts(&redis)[0].3 == 0);
    assert_eq!(call(&other, "/v1/chat/completions", &chat("chat", false, 500), &[]).status, 429, "it is used");
}

#[test]
fn a_reload_in_a_call_changes_quotas_and_keeps_counts() {
    let provider = Provider::start();
    let limits = "  monthly: {unit: tokens, algorithm: fixed_window, quota: 1000, window: month, key: global}";
    let setup = Setup::new(&provider, limits, "monthly");
    let yaml = slow(&setup.yaml());
    let weir = setup.start_with(&yaml);
    let left = || -> u64 {
        let response: Value = serde_json::from_str(weir.admin_get("/limits?limit=monthly").text()).unwrap();
        response["limits"][0]["state"]["remaining"].as_u64().unwrap()
    };
    let stream = begin(weir.addr(), &chat("slow", true, 500));
    assert!(left() < 500);
    weir.rewrite_config(&yaml.replace("quota: 1000", "quota: 2000"));
    wait::until(DEADLINE, "the new quota holds", || {
        let response: Value = serde_json::from_str(weir.admin_get("/limits?limit=monthly").text()).unwrap();
        response["limits"][0]["limit"] == 2000
    });
    assert!(left() < 1500, "what is reserved stays reserved");
    rest(stream);
    let line = wait_for_calls(&weir, 1).remove(0);
    let tokens = line["ai"]["tokens_in"].as_u64().unwrap() + line["ai"]["tokens_out"].as_u64().unwrap();
    assert_eq!((2000 - left(), line["ai"]["tokens_out"].as_u64()), (tokens, Some(40)));
}

/// The provider works on the prompt already: its input is charged, as estimated. A call that never reached one costs nothing.
#[test]
fn a_client_that_disconnects_before_content_pays_for_its_input() {
    let (provider, redis) = (Provider::start(), Redis::start());
    let limits = format!("  hourly: {{{HOURLY}}}");
    let setup = Setup { redis: Some(&redis), ..Setup::new(&provider, &limits, "hourly") };
    let weir = setup.start_with(&setup.yaml().replace("sim-tokens40-gap5", "sim-first60000"));
    let body = chat("slow", true, 200);
    let mut stream = TcpStream::connect(weir.addr()).unwrap();
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    wait::until(DEADLINE, "the provider has the call", || provider.calls("sim-first60000") == 1);
    drop(stream);
    let ai = wait_for_calls(&weir, 1).remove(0)["ai"].clone();
    assert_eq!(
        (&ai["end"], &ai["estimated"], &ai["tokens_out"]),
        (&"client_disconnected".into(), &true.into(), &0.into())
    );
    wait::until(DEADLINE, "it is settled", || accounts(&redis)[0].3 == 0);
    let input = ai["tokens_in"].as_u64().unwrap();
    assert_eq!((used(&redis), input > 0), (input, true));
}
