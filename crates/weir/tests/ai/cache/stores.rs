//! Redis behind the memory of gateways.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::{DEADLINE, Redis, Upstream, Weir, wait};

use super::{CHAT, MESSAGES, Setup, body, is_hit, keys, lasting, respond};
use crate::client::{Received, send};

/// Gateways with one Redis, one provider and one file of keys.
struct Pair {
    gateways: Vec<Weir>,
    provider: Upstream,
    keys: [String; 4],
    yaml: String,
    _directory: tempfile::TempDir,
}

impl Pair {
    fn start(redis: &Redis, store: &str) -> Self {
        let count = Arc::new(AtomicUsize::new(0));
        let provider = Upstream::start(move |conn, message| {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            respond(conn, message, number, None)
        });
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys.yaml").display().to_string();
        let keys = keys(&file);
        let cache = format!("partition_by: [team], store: {store}");
        let top = format!("redis: {{url: '{}', timeout: 10s}}\n", redis.url());
        let yaml = Setup { cache: &cache, top: &top, ..Setup::default() }.yaml(&provider, &file);
        let gateways = (0..2).map(|_| start(&yaml)).collect();
        Pair { gateways, provider, keys, yaml, _directory: directory }
    }

    fn call(&self, gateway: usize, key: usize, path: &str, body: &str) -> Received {
        call(&self.gateways[gateway], &self.keys[key], path, body)
    }
}

fn start(yaml: &str) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn call(weir: &Weir, key: &str, path: &str, body: &str) -> Received {
    send(weir.addr(), "POST", path, &[("X-API-Key", key), ("Content-Type", "application/json")], body)
}

fn entries(redis: &Redis) -> Vec<String> {
    let names = redis.cli(["KEYS", "*:cache:answers:*"]);
    names.lines().filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn what_one_gateway_stored_another_one_replays() {
    for store in ["[memory, redis]", "redis"] {
        let redis = Redis::start();
        let pair = Pair::start(&redis, store);
        let cases = [(CHAT, "chat", true), (CHAT, "chat", false), (CHAT, "claude", true), (MESSAGES, "claude", true)];
        for (number, (path, model, streams)) in cases.into_iter().enumerate() {
            let body = body(model, streams, "hello");
            let miss = pair.call(0, 0, path, &body);
            assert!(!is_hit(&miss), "{store} {path} {model} {miss:?}");
            wait::until(DEADLINE, "it is in Redis", || entries(&redis).len() == number + 1);
            let hit = pair.call(1, 1, path, &body);
            assert!(is_hit(&hit), "{store} {path} {model} {hit:?}");
            assert_eq!((hit.text(), lasting(&hit)), (miss.text(), lasting(&miss)), "{store}");
            assert_eq!(pair.provider.request_count(), number + 1);
        }
        // Another tenant has a call of its own, there too.
        let body = body("chat", true, "hello");
        assert!(!is_hit(&pair.call(1, 2, CHAT, &body)));
        // A gateway that starts later finds all of it.
        let late = start(&pair.yaml);
        assert!(is_hit(&call(&late, &pair.keys[0], CHAT, &body)));
        // Neither prompts nor keys are names there.
        assert!(entries(&redis).iter().all(|name| !name.contains("hello") && !name.contains("one")));
    }
}

/// Anybody may have written it; what this version has not written is not there.
#[test]
fn what_cannot_be_read_in_redis_is_a_miss() {
    let redis = Redis::start();
    let pair = Pair::start(&redis, "redis");
    let body = body("chat", true, "hello");
    assert!(!is_hit(&pair.call(0, 0, CHAT, &body)));
    wait::until(DEADLINE, "it is in Redis", || entries(&redis).len() == 1);
    let name = entries(&redis).remove(0);
    // The length of the first piece stands before its text.
    let length_of_piece = "local at = string.find(redis.call('GET', KEYS[1]), 'data: ', 1, true) \
                           return redis.call('SETRANGE', KEYS[1], at - 5, 'zzzz')";
    // Its version, a length in the recording, its last byte, its end.
    let spoil: [&dyn Fn(); 4] = [
        &|| drop(redis.cli(["SETRANGE", &name, "0", "\x01"])),
        &|| drop(redis.cli(["EVAL", length_of_piece, "1", &name])),
        &|| drop(redis.cli(["APPEND", &name, "x"])),
        &|| drop(redis.cli(["SET", &name, "garbage"])),
    ];
    for (number, spoil) in spoil.iter().enumerate() {
        spoil();
        let calls = pair.provider.request_count();
        let again = pair.call(1, 0, CHAT, &body);
        assert!(!is_hit(&again), "{number} {again:?}");
        assert_eq!(pair.provider.request_count(), calls + 1, "{number}");
        assert!(again.text().ends_with("data: [DONE]\n\n"), "{number}");
        // It is written anew.
        let is_back = || is_hit(&pair.call(0, 0, CHAT, &body));
        wait::until(DEADLINE, "it is stored again", is_back);
    }
}

#[test]
fn a_purge_of_one_gateway_is_one_of_all() {
    let redis = Redis::start();
    let pair = Pair::start(&redis, "[memory, redis]");
    let (chat, claude) = (body("chat", true, "hello"), body("claude", true, "hello"));
    for body in [&chat, &claude] {
        pair.call(0, 0, CHAT, body);
    }
    wait::until(DEADLINE, "they are in Redis", || entries(&redis).len() == 2);
    assert!(is_hit(&pair.call(1, 0, CHAT, &chat)) && is_hit(&pair.call(1, 0, CHAT, &claude)));
    let address = pair.gateways[0].admin_addr();
    let mut admin = testkit::RawClient::connect(address);
    admin.request("POST", "/cache/purge", &[("Host", &address.to_string())], r#"{"tag": "chat"}"#);
    assert_eq!(admin.read_response().status(), 200);
    wait::until(DEADLINE, "the other gateway has heard of it", || !is_hit(&pair.call(1, 0, CHAT, &chat)));
    assert!(is_hit(&pair.call(1, 0, CHAT, &claude)), "another model stays");
    assert_eq!(pair.provider.request_count(), 3);
}

/// Redis is never a reason to fail: memory goes on, and so do calls.
#[test]
fn without_redis_memory_goes_on() {
    let redis = Redis::start();
    let pair = Pair::start(&redis, "[memory, redis]");
    let gateway = start(&pair.yaml.replace("timeout: 10s", "timeout: 50ms"));
    let key = &pair.keys[0];
    let one = body("chat", true, "one");
    assert!(!is_hit(&call(&gateway, key, CHAT, &one)));
    redis.cli(["CLIENT", "PAUSE", "600000", "ALL"]);
    assert!(is_hit(&call(&gateway, key, CHAT, &one)), "from memory");
    let two = body("chat", true, "two");
    assert!(!is_hit(&call(&gateway, key, CHAT, &two)), "the call is made");
    assert!(is_hit(&call(&gateway, key, CHAT, &two)), "and its response is in memory");
    let errors = || {
        let counts: serde_json::Value = serde_json::from_str(gateway.admin_get("/cachez").text()).unwrap();
        counts["store_errors"].as_u64().unwrap()
    };
    wait::until(DEADLINE, "failures are counted", || errors() > 0);
}
