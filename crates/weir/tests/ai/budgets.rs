//! Limits of tokens and money: what is reserved before calls and settled after them, in memory and in a real Redis, with faults, disconnects,
//! reloads, and ordinary limits and authentication beside them.

mod books;
mod failures;
mod responses;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{DEADLINE, Redis, Weir, wait};

use crate::client::{Received, send};
use crate::rig::Provider;

/// A timeout of Redis that no machine is too slow for: a slow moment must not look like a failure.
const LONG_TIMEOUT: &str = "10s";

/// Prices that make costs easy to add up: an input token costs one millionth, an output token two, a request ten.
const PRICES: &str = "currency: USD\nper: 1M\nmodels:\n  good/sim: {input: 1, output: 2, request: 0.00001}\n  good/sim-tokens40-gap5: {input: 1, output: 2, request: 0.00001}\n  \
                      claude/sim: {input: 1, output: 2, request: 0.00001}\n  google/sim: {input: 1, output: 2, request: 0.00001}\n";

/// A gateway with the limits of `limits` on its route. `good` and `claude` are at one simulator, `bad` is at another one.
struct Setup<'a> {
    good: &'a Provider,
    bad: &'a Provider,
    redis: Option<&'a Redis>,
    timeout: &'a str,
    limits: &'a str,
    names: &'a str,
    more: &'a str,
}

impl<'a> Setup<'a> {
    fn new(provider: &'a Provider, limits: &'a str, names: &'a str) -> Self {
        Setup { good: provider, bad: provider, redis: None, timeout: LONG_TIMEOUT, limits, names, more: "" }
    }

    fn yaml(&self) -> String {
        let redis = self.redis.map_or_else(String::new, |redis| {
            format!("redis: {{url: '{}', timeout: {}}}\n", redis.url(), self.timeout)
        });
        let Setup { limits, names, more, .. } = self;
        format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\nprices: prices.yaml\n{redis}\
             upstreams:\n  good: {{targets: [\"http://{}\"]}}\n  bad: {{targets: [\"http://{}\"], eject: none, retry: {{budget: 100%}}}}\n\
             providers:\n  good: {{api: openai, upstream: good}}\n  claude: {{api: anthropic, upstream: good}}\n  \
             bad: {{api: openai, upstream: bad}}\n  bad-claude: {{api: anthropic, upstream: bad}}\n  \
             google: {{api: gemini, upstream: good}}\n  bad-google: {{api: gemini, upstream: bad}}\n\
             models:\n  chat: {{candidates: [{{provider: good, model: sim}}]}}\n  slow: {{candidates: [{{provider: good, model: sim-tokens40-gap5}}]}}\n  \
             claude: {{candidates: [{{provider: claude, model: sim, max_output: 1000}}]}}\n  \
             google: {{candidates: [{{provider: google, model: sim}}]}}\n\
             limits:\n{limits}\n{more}\
             routes:\n  - {{name: ai, match: {{path: /v1/*}}, ai: {{models: [MODELS]}}, limits: [{names}]AUTH}}\n",
            self.good.address(),
            self.bad.address()
        )
        .replace("MODELS", "chat, slow, claude, google")
        .replace("AUTH", "")
    }

    fn start(&self) -> Weir {
        self.start_with(&self.yaml())
    }

    fn start_with(&self, yaml: &str) -> Weir {
        let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        std::fs::write(builder.dir().join("prices.yaml"), PRICES).unwrap();
        builder.config(yaml).start()
    }
}

fn chat(model: &str, streams: bool, max_tokens: u64) -> String {
    json!({"model": model, "stream": streams, "max_tokens": max_tokens, "messages": [{"role": "user", "content": "hello there"}]})
        .to_string()
}

fn call(weir: &Weir, path: &str, body: &str, fields: &[(&str, &str)]) -> Received {
    send(weir.addr(), "POST", path, fields, body)
}

/// Sends a call and disconnects when something of the response has come, or at once.
fn disconnect(address: SocketAddr, path: &str, body: &str, at_once: bool) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    if !at_once {
        let _ = stream.read(&mut [0; 64]);
    }
}

/// Lines of the access log about calls of models.
fn calls(weir: &Weir) -> Vec<Value> {
    let lines = weir.stdout();
    let all = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|line| line["ai"].is_object()).collect()
}

/// Those lines, once there are so many.
fn wait_for_calls(weir: &Weir, count: usize) -> Vec<Value> {
    wait::until(DEADLINE, "the lines of the access log are there", || calls(weir).len() >= count);
    calls(weir)
}

/// The counts in Redis: of each its mark, what is used, what buckets have reserved, and how many reservations there are.
fn accounts(redis: &Redis) -> Vec<(u64, u64, u64, usize)> {
    let names = redis.cli(["KEYS", "*:budget:*"]);
    names
        .lines()
        .filter(|name| !name.is_empty())
        .map(|name| {
            let state = redis.cli(["HGET", name, "s"]);
            let numbers: Vec<u64> = state.split(' ').map(|number| number.parse().unwrap()).collect();
            let fields: usize = redis.cli(["HLEN", name]).parse().unwrap();
            (numbers[0], numbers[1], numbers[2], fields - 1)
        })
        .collect()
}

/// What is used, of the only count in Redis.
fn used(redis: &Redis) -> u64 {
    let accounts = accounts(redis);
    assert_eq!(accounts.len(), 1, "{accounts:?}");
    accounts[0].1
}
