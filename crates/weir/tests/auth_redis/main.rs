//! API keys in Redis, end to end: the program, real servers, `weir keys`, and clients that count what they get. Look-ups are counted by
//! Redis itself: one is one `HGETALL`.

mod faults;
mod keys;
mod neighbours;

use std::collections::BTreeMap;
use std::thread;

use auth::api_key::{Key, hex, sha256};
use testkit::{DEADLINE, Finished, Redis, RedisCluster, Upstream, Weir, WeirBuilder, responder, wait};

/// A timeout that no machine is too slow for: a slow moment must not look like a failure.
const LONG_TIMEOUT: &str = "10s";

fn builder() -> WeirBuilder {
    Weir::builder(env!("CARGO_BIN_EXE_weir"))
}

fn weir_keys(arguments: &[&str]) -> Finished {
    builder().args(["keys"]).args(arguments.iter().copied()).command()
}

fn good(finished: &Finished) -> String {
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    finished.stdout.trim().to_owned()
}

/// Makes a key by the command line.
fn create(url: &str, consumer: &str, more: &[&str]) -> String {
    good(&weir_keys(&[&["create", consumer, "--store", url], more].concat()))
}

fn revoke(url: &str, key: &str) {
    good(&weir_keys(&["revoke", id(key), "--store", url]));
}

fn id(key: &str) -> &str {
    &key[3..15]
}

/// The hash of a key in the namespace of the tests.
fn name(key: &str) -> String {
    format!("weir:key:{}", hex(&sha256(key.as_bytes())))
}

/// A key that nobody made, with a checksum that is right.
fn invented() -> String {
    Key::generate().unwrap().reveal().to_owned()
}

/// A gateway with keys in a Redis; `top` are further sections, `routes` further routes.
fn yaml(redis: &str, upstream: &Upstream, top: &str, routes: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\nredis: {{url: '{redis}', timeout: {LONG_TIMEOUT}}}\n\
         upstreams: {{u: {{targets: ['{}']}}}}\n\
         auth: {{keys: {{api_key: {{store: redis, headers: {{X-Consumer: consumer, X-Tier: tier, X-Team: meta.team}}}}}}}}\n{top}routes:\n{routes}  \
         - {{name: a, match: {{path: /a/*}}, auth: keys, upstream: u}}\n  - {{name: open, match: {{path: /open/*}}, upstream: u}}\n",
        upstream.url()
    )
}

struct Rig {
    weir: Weir,
    redis: Redis,
    _upstream: Upstream,
}

fn rig() -> Rig {
    rig_with(Redis::start())
}

fn rig_with(redis: Redis) -> Rig {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = builder().config(yaml(&redis.url(), &upstream, "", "")).start();
    followed(&weir, true);
    Rig { weir, redis, _upstream: upstream }
}

impl Rig {
    fn status(&self, key: &str) -> u16 {
        status(&self.weir, key)
    }
}

fn status(weir: &Weir, key: &str) -> u16 {
    weir.request("GET", "/a/x", &[("X-API-Key", key)], "").status()
}

/// Look-ups that Redis has executed.
fn lookups(redis: &Redis) -> u64 {
    let stats = redis.cli(["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hgetall:calls="));
    calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// The value of a metric of the authenticator, 0 if it is not there.
fn metric(weir: &Weir, name: &str, more: &str) -> u64 {
    let text = weir.admin_get("/metrics").text().to_owned();
    let start = format!("{name}{{auth=\"keys\"{more}}} ");
    text.lines().find_map(|line| line.strip_prefix(&*start)).map_or(0, |value| value.parse::<f64>().unwrap() as u64)
}

/// Waits until the gateway is told of changes, or is not.
fn followed(weir: &Weir, is_followed: bool) {
    wait::until(DEADLINE, "the state of the subscription", || {
        metric(weir, "api_key_changes_followed", "") == u64::from(is_followed)
    });
}

/// Waits until the subscription has been made anew so many times. Its end may be too short to be seen in a metric.
fn followed_again(weir: &Weir, times: usize) {
    wait::until(DEADLINE, "the subscription is made anew", || {
        weir.stderr().matches("changes of API keys are followed again").count() >= times
    });
    followed(weir, true);
}

/// What `count` clients get at once with a key.
fn at_once(weir: &Weir, count: usize, key: impl Fn(usize) -> String + Sync) -> BTreeMap<u16, usize> {
    let statuses: Vec<u16> = thread::scope(|scope| {
        let key = &key;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || status(weir, &key(number)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    statuses.into_iter().fold(BTreeMap::new(), |mut all, status| {
        *all.entry(status).or_insert(0) += 1;
        all
    })
}

/// Made, used, rotated and revoked by `--config`, in two gateways that share a Redis.
fn life_of_a_key(url: &str, variables: &[(&str, &str)], lookups: &dyn Fn() -> u64) {
    let upstream = Upstream::start(responder::ok("hello"));
    let text = yaml(url, &upstream, "", "");
    let start = || variables.iter().fold(builder(), |builder, (name, value)| builder.env(*name, *value));
    let gateways = [start().config(&*text).start(), start().config(&*text).start()];
    gateways.iter().for_each(|weir| followed(weir, true));
    let config = gateways[0].config_path().display().to_string();
    let keys = |arguments: &[&str]| {
        let all = [arguments, &["--config", &*config]].concat();
        good(&start().args(["keys"]).args(all.iter().copied()).command())
    };
    let key = keys(&["create", "shop", "--tier", "gold", "--meta", "team=search engine"]);
    let before = lookups();
    for weir in &gateways {
        for _ in 0..3 {
            assert_eq!(status(weir, &key), 200);
        }
    }
    assert_eq!(lookups() - before, 2, "each gateway looks the key up once");
    let seen = String::from_utf8(upstream.requests().pop().unwrap().head.raw).unwrap();
    for field in ["X-Consumer: shop\r\n", "X-Tier: gold\r\n", "X-Team: search engine\r\n"] {
        assert!(seen.contains(field), "{seen}");
    }
    assert!(!seen.contains(&key), "the upstream sees the key: {seen}");

    let next = keys(&["rotate", id(&key), "--overlap", "1h"]);
    for weir in &gateways {
        assert_eq!((status(weir, &key), status(weir, &next)), (200, 200), "both hold during the overlap");
    }
    keys(&["revoke", id(&key)]);
    for weir in &gateways {
        // Known keys hold for longer than this waits: a message ends them.
        wait::until(DEADLINE, "the revoked key is refused", || status(weir, &key) == 401);
        assert_eq!(status(weir, &next), 200);
        assert_eq!(metric(weir, "auth_requests_total", ",outcome=\"unavailable\""), 0);
        assert!(metric(weir, "auth_requests_total", ",outcome=\"revoked\"") >= 1);
    }
    let listed = keys(&["list"]);
    assert!(listed.contains("revoked") && listed.matches("shop").count() == 2, "{listed}");
    assert!(!listed.contains(&key), "a list shows no key");
}

#[test]
fn a_key_lives_in_two_gateways() {
    let redis = Redis::start();
    life_of_a_key(&redis.url(), &[], &|| lookups(&redis));
    // No key in clear, and nothing else than the namespace's.
    let names = redis.cli(["KEYS", "*"]);
    assert!(names.lines().all(|name| name == "weir:keys" || name.starts_with("weir:key:")), "{names}");
}

#[test]
fn a_key_lives_in_a_redis_with_a_password_and_tls() {
    let redis = Redis::builder().password("p@ss").start();
    let url = format!("redis://:p%40ss@{}", redis.address());
    life_of_a_key(&url, &[], &|| lookups(&redis));
    let redis = Redis::builder().tls().start();
    let authority = redis.authority().unwrap();
    life_of_a_key(&redis.url(), &[("SSL_CERT_FILE", authority.to_str().unwrap())], &|| lookups(&redis));
}

#[test]
fn a_key_lives_in_a_cluster() {
    let cluster = RedisCluster::start(3);
    life_of_a_key(&cluster.url(), &[], &|| cluster.nodes().iter().map(lookups).sum());
}

#[test]
fn many_clients_with_one_key_cause_one_look_up() {
    let rig = rig();
    let known = create(&rig.redis.url(), "shop", &[]);
    for (key, status) in [(invented(), 401), (known, 200)] {
        let before = lookups(&rig.redis);
        // All of them come while the first look-up waits for Redis. Shorter than what ends the subscription.
        rig.redis.cli(["CLIENT", "PAUSE", "500", "ALL"]);
        assert_eq!(at_once(&rig.weir, 40, |_| key.clone()), BTreeMap::from([(status, 40)]));
        assert_eq!(lookups(&rig.redis) - before, 1);
    }
    // Those of both workers, too, that come one after the other.
    let before = lookups(&rig.redis);
    let key = invented();
    for _ in 0..20 {
        assert_eq!(rig.status(&key), 401);
    }
    assert_eq!(lookups(&rig.redis) - before, 1, "an unknown key is remembered");
}

#[test]
fn a_wrong_checksum_costs_no_look_up_and_a_flood_of_keys_one_each() {
    let rig = rig();
    let known = create(&rig.redis.url(), "shop", &[]);
    assert_eq!(rig.status(&known), 200);
    let before = lookups(&rig.redis);
    let wrong = |number: usize| {
        let mut key = known.clone().into_bytes();
        let at = 16 + number % 30;
        key[at] = if key[at] == b'x' { b'y' } else { b'x' };
        String::from_utf8(key).unwrap()
    };
    assert_eq!(at_once(&rig.weir, 60, wrong), BTreeMap::from([(401, 60)]));
    assert_eq!(at_once(&rig.weir, 10, |_| "short".to_owned()), BTreeMap::from([(401, 10)]));
    assert_eq!(lookups(&rig.redis), before, "none of these is in any store");

    let keys: Vec<String> = (0..300).map(|_| invented()).collect();
    let seen = thread::scope(|scope| {
        let flood = scope.spawn(|| at_once(&rig.weir, 300, |number| keys[number].clone()));
        for _ in 0..100 {
            assert_eq!(rig.status(&known), 200, "the flood stands in no one's way");
            assert_eq!(rig.weir.get("/open/x").status(), 200);
        }
        flood.join().unwrap()
    });
    assert_eq!(seen, BTreeMap::from([(401, 300)]));
    assert_eq!(lookups(&rig.redis) - before, 300);
    assert_eq!(metric(&rig.weir, "api_keys_cached", ",kind=\"unknown\""), 300);
    assert_eq!(metric(&rig.weir, "api_keys_cached", ",kind=\"known\""), 1);
    assert_eq!(metric(&rig.weir, "api_key_lookups_total", ",outcome=\"unknown\""), 300);
    assert!(metric(&rig.weir, "auth_cache_total", ",result=\"hit\"") >= 100);
}
