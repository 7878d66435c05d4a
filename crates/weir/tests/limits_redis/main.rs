//! Limits in Redis, end to end: the program, real servers, and clients that count what they get.

mod leases;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{
    DEADLINE, Message, RawClient, Redis, RedisCluster, RedisSentinel, Signal, Upstream, Weir, WeirBuilder, responder,
    wait,
};

/// A timeout that no machine is too slow for: where counts must be exact, a slow moment must not look like a failure.
const LONG_TIMEOUT: &str = "10s";

fn builder() -> WeirBuilder {
    Weir::builder(env!("CARGO_BIN_EXE_weir"))
}

fn example() -> WeirBuilder {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weir/rate-limiter.yaml");
    builder().config_file(path).env("PORT", "0").env("REDIS_TIMEOUT", LONG_TIMEOUT)
}

/// The limiter of the example in front of `app`.
fn limiter(app: &Upstream, redis: &Redis, variables: &[(&str, &str)]) -> Weir {
    let builder = example().env("APP_ENDPOINT", app.address().to_string());
    let builder = builder.env("REDIS_ENDPOINT", redis.address().to_string());
    variables.iter().fold(builder, |builder, (name, value)| builder.env(*name, *value)).start()
}

/// A gateway of its own responds on /a with these limits in this Redis.
fn yaml(redis: &str, timeout: &str, limits: &str, names: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\nredis: {{url: '{redis}', timeout: {timeout}}}\nlimits:\n{limits}\n\
         routes:\n  - match: {{path: /a}}\n    limits: [{names}]\n    respond: {{status: 200, body: a}}\n"
    )
}

fn get(client: &mut RawClient, path: &str, fields: &[(&str, &str)]) -> Message {
    client.request("GET", path, fields, "");
    client.read_response()
}

fn statuses(client: &mut RawClient, count: usize, key: &str) -> Vec<u16> {
    (0..count).map(|_| get(client, "/a", &[("X-API-KEY", key)]).status()).collect()
}

/// How many responses of each status clients get that send requests as fast as they can, for alternating keys, until `until`.
fn storm(gateways: &[&Weir], keys: usize, until: &(dyn Fn() -> bool + Sync)) -> BTreeMap<u16, u64> {
    let total = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for number in 0..8 {
            let total = &total;
            scope.spawn(move || {
                let mut client = gateways[number % gateways.len()].connect();
                let mut counts = BTreeMap::new();
                for round in 0.. {
                    if until() {
                        break;
                    }
                    let key = format!("key-{}", (round + number) % keys);
                    *counts.entry(get(&mut client, "/a", &[("X-API-KEY", &key)]).status()).or_insert(0) += 1;
                }
                let mut total = total.lock().unwrap();
                counts.into_iter().for_each(|(status, count)| *total.entry(status).or_insert(0) += count);
            });
        }
    });
    total.into_inner().unwrap()
}

/// Commands that Redis has executed, those of scripts included, except for connecting and what this function sends.
fn commands(redis: &Redis) -> u64 {
    let stats = redis.cli(["INFO", "commandstats"]);
    let calls = |line: &str| -> Option<u64> {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let own = ["evalsha", "eval", "time", "mget", "get", "set", "del", "pttl"].contains(&name);
        own.then(|| rest.split(',').next().unwrap().parse().unwrap())
    };
    stats.lines().filter_map(calls).sum()
}

/// The published scenario: 3 requests in 5 s for each of 20 keys, for 15 s as fast as it goes: 20 x 3 x 3 pass.
fn scenario(replicas: usize) {
    let (app, redis) = (Upstream::start(responder::ok("4")), Redis::start());
    let gateways: Vec<Weir> = (0..replicas).map(|_| limiter(&app, &redis, &[])).collect();
    let gateways: Vec<&Weir> = gateways.iter().collect();
    // The fourth window of a key begins 15 s after its first request.
    let end = Instant::now() + Duration::from_millis(14_800);
    let counts = storm(&gateways, 20, &|| Instant::now() >= end);
    assert_eq!(counts.get(&200), Some(&180), "{counts:?}");
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [200, 429]);
    // 20 keys, 3 windows: what passes causes a call, and what was in progress when the first refusal came, of 8 clients; 4 commands for a call.
    let requested = commands(&redis);
    assert!(requested <= 20 * 3 * (3 + 8) * 4, "{requested} commands for {counts:?}");
}

#[test]
fn exactly_the_quota_passes_in_each_window_through_one_gateway() {
    scenario(1);
}

#[test]
fn exactly_the_quota_passes_in_each_window_through_two_gateways() {
    scenario(2);
}

#[test]
fn statuses_and_bodies_of_the_limiter() {
    let (app, redis) = (Upstream::start(responder::ok("4")), Redis::start());
    let weir = limiter(&app, &redis, &[("WINDOW", "600s")]);
    let mut client = weir.connect();
    for key in ["first", "s3cr3t"] {
        for left in ["2", "1", "0"] {
            let response = get(&mut client, "/api/div?lhs=8&rhs=2", &[("x-api-key", key)]);
            assert_eq!((response.status(), response.text()), (200, "4"));
            let field = response.field("ratelimit").unwrap();
            assert!(field.starts_with(&format!("\"per_key\";r={left};t=")), "{field}");
        }
        for _ in 0..3 {
            let response = get(&mut client, "/api/div?lhs=8&rhs=2", &[("X-API-KEY", key)]);
            assert_eq!((response.status(), response.text()), (429, "rate limit exceeded"));
            let seconds: u64 = response.field("retry-after").unwrap().parse().unwrap();
            assert!((1..=600).contains(&seconds), "{seconds}");
        }
    }
    let response = get(&mut client, "/api/add?lhs=1&rhs=2", &[]);
    assert_eq!((response.status(), response.text()), (400, "missing api key (X-API-KEY)"));
    assert_eq!(app.requests().len(), 6, "nothing else reached the application");
    let keys = redis.cli(["KEYS", "*"]);
    assert_eq!(keys.lines().count(), 2, "{keys}");
    assert!(keys.lines().all(|key| key.starts_with("weir:limit:") && !key.contains("s3cr3t")), "{keys}");
    for key in keys.lines() {
        assert!(redis.cli(["PTTL", key]).parse::<i64>().unwrap() > 0, "{key} expires");
    }

    let off = limiter(&app, &redis, &[("LIMIT", "0")]);
    let mut client = off.connect();
    for _ in 0..10 {
        assert_eq!(get(&mut client, "/api/add?lhs=1&rhs=2", &[]).status(), 200);
    }
}

#[test]
fn a_window_begins_with_a_keys_first_request_and_refusals_do_not_lengthen_it() {
    let (app, redis) = (Upstream::start(responder::ok("4")), Redis::start());
    let weir = limiter(&app, &redis, &[("WINDOW", "1s"), ("LIMIT", "2")]);
    let mut client = weir.connect();
    let began = Instant::now();
    assert_eq!(statuses(&mut client, 3, "k"), [200, 200, 429]);
    wait::until(DEADLINE, "a second window", || statuses(&mut client, 1, "k") == [200]);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(statuses(&mut client, 2, "k"), [200, 429]);
}

/// What happens while Redis comes and goes under load. Returns statuses.
fn trouble(
    policy: &str,
    quota: &str,
    timeout: &str,
    act: impl Fn(&Redis, &Weir) + Sync,
) -> (BTreeMap<u16, u64>, String) {
    let (app, redis) = (Upstream::start(responder::ok("4")), Redis::start());
    let variables = [("ON_STORE_FAILURE", policy), ("LIMIT", quota), ("WINDOW", "600s"), ("REDIS_TIMEOUT", timeout)];
    let weir = limiter(&app, &redis, &variables);
    let done = AtomicBool::new(false);
    let counts = thread::scope(|scope| {
        let load = scope.spawn(|| storm(&[&weir], 10, &|| done.load(Ordering::Relaxed)));
        wait::until(DEADLINE, "keys in Redis", || redis.cli(["DBSIZE"]) == "10");
        act(&redis, &weir);
        // Redis is called again: a key that is not known here is checked there.
        let mut client = weir.connect();
        let mut number = 0;
        wait::until(RECOVERY, "a new key in Redis", || {
            number += 1;
            client_sees_redis(&mut client, &redis, number)
        });
        done.store(true, Ordering::Relaxed);
        load.join().unwrap()
    });
    (counts, weir.stderr())
}

/// Whether a request for a key of its own adds a key in Redis.
fn client_sees_redis(client: &mut RawClient, redis: &Redis, number: u32) -> bool {
    let size = || redis.cli(["DBSIZE"]).parse::<u64>().unwrap();
    let before = size();
    get(client, "/a", &[("X-API-KEY", &format!("seen-{number}"))]);
    size() > before
}

/// Promised are 2 s on a machine that has nothing else to do.
const RECOVERY: Duration = Duration::from_secs(5);

fn killed(redis: &Redis, weir: &Weir) {
    redis.kill();
    wait_until_noticed(weir);
    redis.restart();
}

fn stopped(redis: &Redis, weir: &Weir) {
    redis.pause();
    wait_until_noticed(weir);
    redis.resume();
}

/// Sends requests for new keys until the gateway says that Redis does not serve: keys that are known to be over are not looked up there.
fn wait_until_noticed(weir: &Weir) {
    let mut client = weir.connect();
    let mut number = 0;
    wait::until(DEADLINE, "the outage to be noticed", || {
        number += 1;
        get(&mut client, "/a", &[("X-API-KEY", &format!("outage-{number}"))]);
        weir.stderr().contains("Redis is unavailable")
    });
}

#[test]
fn without_redis_each_gateway_counts_by_itself() {
    for act in [killed, stopped] {
        let (counts, log) = trouble("local", "5", "5ms", act);
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [200, 429], "{counts:?}");
        // 10 keys: 5 from Redis, 5 by itself, and 5 more where the restart lost the counts.
        assert!((50..=150).contains(&counts[&200]), "{counts:?}");
        assert_eq!(log.matches("Redis is unavailable").count(), 1, "{log}");
    }
}

#[test]
fn without_redis_closed_is_503_and_open_lets_pass() {
    for act in [killed, stopped] {
        let (counts, _) = trouble("closed", "1000000", "5ms", act);
        assert!(counts[&200] > 0 && counts[&503] > 0 && counts.len() == 2, "{counts:?}");
        let (counts, _) = trouble("open", "1000000", "5ms", act);
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [200], "{counts:?}");
    }
}

#[test]
fn a_redis_that_was_never_there_degrades_and_shows_it() {
    let redis = Redis::start();
    redis.kill();
    let limits = "  few: {algorithm: fixed_window, quota: 2, window: 600s, key: 'header:X-API-KEY', store: redis}\n  \
                  shut: {algorithm: fixed_window, quota: 2, window: 600s, key: global, store: redis, on_store_failure: closed}";
    let text = yaml(&redis.url(), "5ms", limits, "few");
    let weir = builder().config(text.clone()).start();
    let mut client = weir.connect();
    assert_eq!(statuses(&mut client, 3, "k"), [200, 200, 429]);
    let health = weir.admin_get("/healthz");
    assert_eq!(health.status(), 200);
    assert!(
        health.text().contains(r#""redis":{"cache":"unused","keys":"unused","limits":"degraded"}"#),
        "{}",
        health.text()
    );
    let metrics = weir.admin_get("/metrics").text().to_owned();
    assert!(metrics.contains(r#"rate_limit_store_failures_total{limit="few"} 3"#), "{metrics}");
    assert!(metrics.contains(r#"redis_failures_total{use="limits",reason="#), "{metrics}");
    // Both or none: the one that is closed refuses, and the other has nothing charged.
    weir.rewrite_config(&text.replace("limits: [few]", "limits: [few, shut]"));
    weir.signal(Signal::HUP);
    wait::until(DEADLINE, "the new configuration", || statuses(&mut client, 1, "probe") == [503]);
    let refused = get(&mut client, "/a", &[("X-API-KEY", "other")]);
    assert!(
        refused.text().contains("limit_store") || refused.text().contains("cannot be checked"),
        "{}",
        refused.text()
    );
    weir.rewrite_config(&text);
    weir.signal(Signal::HUP);
    wait::until(DEADLINE, "the old configuration", || statuses(&mut client, 1, "third") == [200]);
    assert_eq!(statuses(&mut client, 3, "other"), [200, 200, 429]);

    redis.restart();
    wait::until(DEADLINE, "health", || weir.admin_get("/healthz").text().contains(r#""limits":"up""#));
    assert_eq!(statuses(&mut client, 3, "k"), [200, 200, 429], "what was counted here is not known there");
    wait::until(DEADLINE, "a line in the log", || weir.stderr().contains("Redis serves again"));
}

/// Waits until `/a` responds with this body. Each time with a key of its own, which no limit refuses.
fn wait_for_configuration(client: &mut RawClient, body: &str) {
    let mut polls = 0;
    wait::until(DEADLINE, "the other configuration", || {
        polls += 1;
        get(client, "/a", &[("X-API-KEY", &format!("{body}-{polls}"))]).text() == body
    });
}

#[test]
fn counts_and_connection_survive_a_reload() {
    let redis = Redis::start();
    let limits = "  few: {algorithm: sliding_window, quota: 3, window: 600s, key: 'header:X-API-KEY', store: redis}";
    let text = yaml(&redis.url(), LONG_TIMEOUT, limits, "few");
    let weir = builder().config(&text).start();
    let mut client = weir.connect();
    assert_eq!(statuses(&mut client, 2, "k"), [200, 200]);
    let connections = || redis.cli(["CLIENT", "LIST"]).matches("name=weir-limits").count();
    let before = connections();
    weir.rewrite_config(&text.replace("body: a", "body: b"));
    weir.signal(Signal::HUP);
    wait_for_configuration(&mut client, "b");
    assert_eq!(statuses(&mut client, 2, "k"), [200, 429]);
    assert_eq!((before, connections()), (2, 2), "one of each worker");
}

/// A worker refuses by itself what Redis refused before. A larger quota than the one that was spent ends that.
#[test]
fn a_refused_key_has_the_rest_of_a_larger_quota() {
    let redis = Redis::start();
    let limits = |quota: u32| {
        format!("  each: {{key: 'header:X-API-KEY', store: redis, windows: [{{quota: {quota}, window: 600s}}]}}")
    };
    let text = yaml(&redis.url(), LONG_TIMEOUT, &limits(3), "each");
    let weir = builder().config(&text).start();
    let mut client = weir.connect();
    assert_eq!(statuses(&mut client, 5, "k"), [200, 200, 200, 429, 429]);
    weir.rewrite_config(&text.replace("quota: 3", "quota: 5").replace("body: a", "body: b"));
    weir.signal(Signal::HUP);
    wait_for_configuration(&mut client, "b");
    assert_eq!(statuses(&mut client, 4, "k"), [200, 200, 429, 429]);
    // And back: more than five are over three, too.
    weir.rewrite_config(&text);
    weir.signal(Signal::HUP);
    wait_for_configuration(&mut client, "a");
    assert_eq!(statuses(&mut client, 2, "k"), [429, 429]);
}

#[test]
fn several_limits_are_charged_together_or_not_at_all() {
    let redis = Redis::start();
    let limits = "  wide: {algorithm: token_bucket, rate: 1/h, burst: 10, key: global, store: redis}\n  \
                  narrow: {algorithm: fixed_window, quota: 2, window: 600s, key: 'header:X-API-KEY', store: redis}\n  \
                  own: {algorithm: fixed_window, quota: 7, window: 600s, key: global}";
    let weir = builder().config(yaml(&redis.url(), LONG_TIMEOUT, limits, "wide, narrow, own")).start();
    let mut client = weir.connect();
    assert_eq!(statuses(&mut client, 5, "a"), [200, 200, 429, 429, 429]);
    let response = get(&mut client, "/a", &[("X-API-KEY", "b")]);
    let field = response.field("ratelimit").unwrap();
    for part in ["\"own\";r=4", "\"wide\";r=7", "\"narrow\";r=1"] {
        assert!(field.contains(part), "{part} of {field}");
    }
    assert_eq!(statuses(&mut client, 2, "b"), [200, 429]);
    // The one in memory refuses: those in Redis are not called.
    assert_eq!(statuses(&mut client, 2, "c"), [200, 200]);
    assert_eq!(statuses(&mut client, 2, "d"), [200, 429]);
    let before = commands(&redis);
    assert_eq!(statuses(&mut client, 2, "e"), [429, 429]);
    assert_eq!(commands(&redis), before);
}

#[test]
fn a_redis_that_refuses_writes_degrades_visibly_and_serves_again() {
    let redis = Redis::start();
    let limits = "  few: {algorithm: fixed_window, quota: 2, window: 600s, key: 'header:X-API-KEY', store: redis}";
    let weir = builder().config(yaml(&redis.url(), LONG_TIMEOUT, limits, "few")).start();
    let mut clients: Vec<RawClient> = (0..4).map(|_| weir.connect()).collect();
    assert_eq!(statuses(&mut clients[0], 3, "before"), [200, 200, 429]);
    let health = |state: &str| weir.admin_get("/healthz").text().contains(&format!(r#""limits":"{state}""#));
    assert!(health("up"));
    let faults: [(&str, &[&str], &[&str]); 3] = [
        ("OOM", &["CONFIG", "SET", "maxmemory", "1"], &["CONFIG", "SET", "maxmemory", "0"]),
        ("READONLY", &["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"]),
        (
            "NOPERM",
            &["ACL", "SETUSER", "default", "-evalsha", "-eval"],
            &["ACL", "SETUSER", "default", "+evalsha", "+eval"],
        ),
    ];
    for (code, fault, cure) in faults {
        redis.cli(fault);
        for round in 0..4 {
            for (number, client) in clients.iter_mut().enumerate() {
                let key = format!("{code}-{round}-{number}");
                assert_eq!(statuses(client, 3, &key), [200, 200, 429], "{key}: the gateway counts by itself");
            }
        }
        assert!(health("degraded"), "{code}");
        let metrics = weir.admin_get("/metrics").text().to_owned();
        let open = metrics.lines().find_map(|line| line.strip_prefix("redis_breakers_open{use=\"limits\"} "));
        assert!(open.is_some_and(|open| open.parse::<f64>().unwrap() > 0.0), "{code}: {metrics}");
        // Lines come once a minute at most: the first fault has one.
        assert!(weir.stderr().contains("OOM"), "{}", weir.stderr());
        redis.cli(cure);
        let mut number = 0;
        wait::until(DEADLINE, "Redis counts again", || {
            number += 1;
            clients.iter_mut().for_each(|client| drop(statuses(client, 1, &format!("{code}-after-{number}"))));
            health("up")
        });
        assert!(client_sees_redis(&mut clients[0], &redis, 1_000 + code.len() as u32));
    }
}

#[test]
fn a_cluster_counts_each_limit_where_it_lies_and_gives_back_what_a_refused_request_took() {
    let nodes = RedisCluster::start(3);
    let limits = "  wide: {algorithm: fixed_window, quota: 20, window: 600s, key: global, store: redis}\n  \
                  narrow: {algorithm: fixed_window, quota: 2, window: 600s, key: 'header:X-API-KEY', store: redis}";
    let text = yaml(&nodes.url(), LONG_TIMEOUT, limits, "wide, narrow").replace("workers: 2", "workers: 1");
    let weir = builder().config(text).start();
    let mut client = weir.connect();
    for key in 0..5 {
        // The second refusal is known here.
        assert_eq!(statuses(&mut client, 4, &format!("key-{key}")), [200, 200, 429, 429], "{key}");
    }
    // 10 were taken for good; refunds are not waited for.
    wait::until(DEADLINE, "refunds", || {
        let keys: Vec<String> = nodes
            .nodes()
            .iter()
            .flat_map(|node| {
                let keys = node.cli(["KEYS", "*"]);
                let get = |key: &str| node.cli(["GET", key]).split(' ').nth(1).unwrap().to_owned();
                keys.lines().filter(|key| !key.is_empty()).map(get).collect::<Vec<_>>()
            })
            .collect();
        keys.len() == 6 && keys.iter().filter(|count| *count == "10").count() == 1
    });
    for key in 5..10 {
        assert_eq!(statuses(&mut client, 2, &format!("key-{key}")), [200, 200], "{key}");
    }
    assert_eq!(statuses(&mut client, 1, "key-10"), [429], "the wide one is used up");
}

#[test]
fn a_dead_node_of_a_cluster_concerns_its_own_keys() {
    let nodes = RedisCluster::start(3);
    let limits = "  few: {algorithm: fixed_window, quota: 1, window: 600s, key: 'header:X-API-KEY', store: redis}";
    let text = yaml(&nodes.url(), "500ms", limits, "few").replace("workers: 2", "workers: 1");
    let weir = builder().config(text).start();
    let mut client = weir.connect();
    for key in 0..30 {
        assert_eq!(statuses(&mut client, 1, &format!("key-{key}")), [200]);
    }
    nodes.nodes()[0].kill();
    for key in 0..30 {
        // Known to be over at some of them, requested the first time at others: each responds with 200 or 429.
        let status = statuses(&mut client, 1, &format!("key-{key}"))[0];
        assert!(matches!(status, 200 | 429), "{status}");
    }
    let counts =
        (30..60).map(|key| statuses(&mut client, 2, &format!("key-{key}"))).filter(|s| *s == [200, 429]).count();
    assert_eq!(counts, 30, "keys of the dead node are counted here");
}

#[test]
fn a_failover_by_sentinel_is_followed() {
    let servers = RedisSentinel::start();
    let limits = "  few: {algorithm: fixed_window, quota: 2, window: 600s, key: 'header:X-API-KEY', store: redis}";
    let weir = builder().config(yaml(&servers.url(), "500ms", limits, "few")).start();
    let mut client = weir.connect();
    assert_eq!(statuses(&mut client, 3, "a"), [200, 200, 429]);
    servers.fail_over();
    let mut number = 0;
    wait::until(DEADLINE, "a key in the new primary", || {
        number += 1;
        let statuses = statuses(&mut client, 3, &format!("new-{number}"));
        assert_eq!(statuses[..2], [200, 200]);
        // A key whose first request was counted here, and the next ones in the new primary, gets one more.
        statuses[2] == 429 && servers.primary().cli(["DBSIZE"]).parse::<u64>().unwrap() > 1
    });
}

#[test]
fn redis_over_tls_with_a_password() {
    let redis = Redis::builder().password("p@ss").tls().start();
    let limits = "  few: {algorithm: fixed_window, quota: 2, window: 600s, key: 'header:X-API-KEY', store: redis, on_store_failure: closed}";
    let url = redis.url().replace("p@ss", "p%40ss");
    let text = yaml(&url, LONG_TIMEOUT, limits, "few");
    let authority = redis.authority().unwrap();
    let weir = builder().config(&text).env("SSL_CERT_FILE", authority.to_str().unwrap()).start();
    assert_eq!(statuses(&mut weir.connect(), 3, "a"), [200, 200, 429]);
    assert_eq!(redis.cli(["DBSIZE"]), "1");
    // Without the authority nobody is trusted.
    let weir = builder().config(&text).start();
    assert_eq!(statuses(&mut weir.connect(), 1, "a"), [503]);
    wait::until(DEADLINE, "the reason in the log", || weir.stderr().contains("certificate"));
    assert!(!weir.stderr().contains("p@ss") && !weir.stderr().contains("p%40ss"), "{}", weir.stderr());
    assert!(!weir.admin_get("/config").text().contains("p%40ss"));
}

#[test]
fn an_operator_sees_what_redis_knows_of_a_key_and_resets_it() {
    let redis = Redis::start();
    let limits = "  few: {algorithm: fixed_window, quota: 3, window: 600s, key: 'header:X-API-KEY', store: redis}";
    let weir = builder().config(yaml(&redis.url(), LONG_TIMEOUT, limits, "few")).start();
    let state = |key: &str| {
        let got = weir.admin_get(&format!("/limits?key={key}&limit=few"));
        let got: serde_json::Value = serde_json::from_str(got.text()).unwrap();
        got["limits"][0]["state"].clone()
    };
    let mut clients: Vec<RawClient> = (0..8).map(|_| weir.connect()).collect();
    assert_eq!(statuses(&mut clients[0], 2, "k"), [200, 200]);
    let two = state("k");
    assert_eq!((&two["remaining"], &two["allowed"], &two["in_use"]), (&1.into(), &true.into(), &true.into()));
    assert_eq!(state("k"), two, "looking charges nothing");
    assert_eq!(state("another")["in_use"], false);
    // Every worker knows that it is over.
    assert_eq!(statuses(&mut clients[0], 1, "k"), [200]);
    for client in &mut clients {
        assert_eq!(statuses(client, 1, "k"), [429]);
    }
    let over = state("k");
    assert!(over["allowed"] == false && over["retry_seconds"].as_f64().unwrap() > 500.0, "{over}");
    let mut admin = RawClient::connect(weir.admin_addr());
    admin.request("DELETE", "/limits?key=k", &[("Host", "localhost")], "");
    let response = admin.read_response();
    assert_eq!((response.status(), response.text()), (200, r#"{"reset":["few"]}"#));
    wait::until(DEADLINE, "a fresh count", || statuses(&mut clients[3], 1, "k") == [200]);
    let passed: usize =
        clients.iter_mut().map(|client| statuses(client, 1, "k")).filter(|status| *status == [200]).count();
    assert_eq!(passed, 2);
    redis.kill();
    wait::until(DEADLINE, "a note", || weir.admin_get("/limits?key=k&limit=few").text().contains("\"note\""));
    admin.request("DELETE", "/limits?key=k", &[("Host", "localhost")], "");
    assert_eq!(admin.read_response().status(), 422);
}
