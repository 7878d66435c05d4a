//! Purges and credentials in a Redis that gateways share, whatever becomes of it.

use testkit::http::Message;
use testkit::{Gate, RawClient, Redis, RedisSentinel, Upstream, Weir, wait};

use crate::redis::{gateway, gateway_with, hit, keys, text, wait_for_keys};
use crate::{DEADLINE, count, counting};

const BOTH: &str = "{mode: ttl, store: [memory, redis]}";
const REDIS: &str = "{mode: ttl, store: redis}";

fn purge(weir: &Weir, body: &str) -> Message {
    let mut admin = RawClient::connect(weir.admin_addr());
    admin.set_deadline(DEADLINE);
    admin.request("POST", "/cache/purge", &[("Host", &weir.admin_addr().to_string())], body);
    admin.read_response()
}

/// What a gateway that has never served anything gets.
fn fresh(origin: &Upstream, redis: &str) -> String {
    text(&gateway_with(origin, redis, REDIS), "/x").0
}

fn setting(redis: &Redis) -> String {
    format!("url: '{}', timeout: 10s", redis.url())
}

#[test]
fn a_purge_outlives_any_number_of_writes_and_a_trimmed_stream() {
    for (target, soft) in
        [(r#"{"url": "http://test/x"}"#, false), (r#"{"prefix": "http://test/"}"#, false), (r#"{"all": true}"#, true)]
    {
        let redis = Redis::start();
        let origin = Upstream::start(counting(&[]));
        let (a, b) = (gateway(&origin, &redis, BOTH), gateway(&origin, &redis, BOTH));
        assert_eq!(text(&a, "/x").0, "answer 1");
        wait_for_keys(&redis, 1);
        assert_eq!(text(&b, "/x"), hit("answer 1"));
        let target = if soft { target.replace('}', r#", "soft": true}"#) } else { target.to_owned() };
        assert_eq!(purge(&a, &target).status(), 200);
        // What a gateway writes for each change.
        let flood = "for i = 1, 20000 do redis.call('XADD', KEYS[1], 'MAXLEN', '~', 10000, '*', 'e', \
                     '{\"url\":\"http://test/other/' .. i .. '\",\"at_ms\":1}') end";
        redis.cli(["EVAL", flood, "1", "weir:cache:{c}:changes"]);
        redis.cli(["XTRIM", "weir:cache:{c}:changes", "MAXLEN", "0"]);
        // The response is there as before; nobody uses it.
        assert!(keys(&redis).iter().any(|key| key.starts_with("weir:cache:c:")));
        assert_ne!(fresh(&origin, &setting(&redis)), "answer 1", "{target}");
        wait::until(DEADLINE, "the other to hear of it", || text(&b, "/x").0 != "answer 1");
        drop((a, b));
        assert_ne!(fresh(&origin, &setting(&redis)), "answer 1", "{target}");
    }
}

/// A replica that lagged, an eviction, an operator: whoever knows the purge writes it again, with its number, so that what was fetched since stays.
#[test]
fn a_purge_that_redis_lost_is_written_again() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[]));
    let a = gateway(&origin, &redis, BOTH);
    text(&a, "/x");
    wait_for_keys(&redis, 1);
    let old = keys(&redis).remove(0);
    let dump = redis.cli(["EVAL", "return redis.call('COPY', KEYS[1], KEYS[2])", "2", &old, "kept"]);
    assert_eq!(dump.trim(), "1");
    assert_eq!(purge(&a, r#"{"url": "http://test/x"}"#).status(), 200);
    redis.cli(["DEL", "weir:cache:{c}:purges"]);
    wait::until(DEADLINE, "the purge to be there again", || {
        redis.cli(["EXISTS", "weir:cache:{c}:purges"]).trim() == "1"
    });
    assert_ne!(fresh(&origin, &setting(&redis)), "answer 1");
    let current = text(&a, "/x");
    assert_ne!(current.0, "answer 1");
    // The old response comes back from somewhere: it is purged all the same.
    redis.cli(["COPY", "kept", &old, "REPLACE"]);
    assert_ne!(fresh(&origin, &setting(&redis)), "answer 1");
}

/// A Redis that begins anew, empty: numbers go on above what stored responses carry, so that a purge made before the old ones are written
/// again concerns them.
#[test]
fn a_purge_right_after_redis_lost_everything_reaches_all() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[]));
    let (a, b) = (gateway(&origin, &redis, BOTH), gateway(&origin, &redis, BOTH));
    for _ in 0..3 {
        assert_eq!(purge(&a, r#"{"tag": "none"}"#).status(), 200);
        assert_eq!(purge(&a, r#"{"tag": "another"}"#).status(), 200);
    }
    assert_eq!(text(&a, "/x").0, "answer 1");
    wait_for_keys(&redis, 1);
    assert_eq!(text(&b, "/x"), hit("answer 1"));
    redis.cli(["FLUSHALL"]);
    assert_eq!(purge(&a, r#"{"url": "http://test/x"}"#).status(), 200);
    assert_ne!(text(&a, "/x").0, "answer 1");
    wait::until(DEADLINE, "the other to hear of it", || text(&b, "/x").0 != "answer 1");
}

/// Two gateways, both with the response in memory; the replica that takes over has not heard of the last purge.
#[test]
fn a_purge_survives_a_fail_over_to_a_replica() {
    let servers = RedisSentinel::start();
    let origin = Upstream::start(counting(&[]));
    let redis = format!("url: '{}', timeout: 10s", servers.url());
    let (a, b) = (gateway_with(&origin, &redis, BOTH), gateway_with(&origin, &redis, BOTH));
    assert_eq!(text(&a, "/x").0, "answer 1");
    wait::until(DEADLINE, "the response at the replica", || keys(servers.replica()).len() == 1);
    assert_eq!(text(&b, "/x"), hit("answer 1"));
    assert_eq!(purge(&a, r#"{"tag": "none"}"#).status(), 200);
    let version = servers.primary().cli(["HGET", "weir:cache:{c}:purges", ""]);
    assert_eq!(purge(&a, r#"{"url": "http://test/x"}"#).status(), 200);
    // The replica never hears of the last one.
    servers.primary().cli(["HDEL", "weir:cache:{c}:purges", r#"{"which":{"url":"http://test/x"},"soft":false}"#]);
    servers.primary().cli(["HSET", "weir:cache:{c}:purges", "", version.trim()]);
    servers.fail_over();
    wait::until(DEADLINE, "the purge at the new primary", || {
        servers.primary().cli(["HGETALL", "weir:cache:{c}:purges"]).contains("http://test/x")
    });
    assert_ne!(fresh(&origin, &redis), "answer 1");
    assert_ne!(text(&a, "/x").0, "answer 1");
    wait::until(DEADLINE, "the other to hear of it", || text(&b, "/x").0 != "answer 1");
}

/// How often Redis was sent a command.
fn calls(redis: &Redis, command: &str) -> u64 {
    let stats = redis.cli(["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// The purges are read when they changed, once for the whole process, and not each second or for each request.
#[test]
fn purges_are_read_once_for_each_change() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, &redis, REDIS);
    for round in 1..=3 {
        assert_eq!(purge(&weir, r#"{"tag": "none"}"#).status(), 200);
        let mut clients: Vec<RawClient> = (0..50).map(|_| weir.connect()).collect();
        text(&weir, "/x");
        wait_for_keys(&redis, 2);
        for client in &mut clients {
            client.set_deadline(DEADLINE);
            client.request("GET", "/x", &[], "");
        }
        clients.iter_mut().for_each(|client| assert_eq!(client.read_response().text(), "answer 1"));
        // Seconds in which nothing changed: the version was looked at, and nothing more.
        let look = |count| {
            let looked = calls(&redis, "hget");
            wait::until(DEADLINE, "further looks", || calls(&redis, "hget") >= looked + count);
        };
        look(1);
        let read = calls(&redis, "hgetall");
        look(2);
        assert_eq!(calls(&redis, "hgetall"), read, "round {round}");
        // A look that falls between a purge and its number reads once more.
        assert!(read <= 2 * round, "round {round}: {read}");
    }
}

/// A change that Redis did not take is made up for, and another gateway validates what it has.
#[test]
fn a_change_that_redis_did_not_take_reaches_the_others_later() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[("Cache-Control", "max-age=1000")]));
    let cache = "{mode: http, store: [memory, redis]}";
    let (a, b) = (gateway(&origin, &redis, cache), gateway(&origin, &redis, cache));
    let first = text(&a, "/x").0;
    wait_for_keys(&redis, 1);
    assert_eq!(text(&b, "/x"), hit(&first));
    redis.cli(["SHUTDOWN", "NOSAVE"]);
    assert_eq!(a.request("DELETE", "/x", &[], "").status(), 200);
    assert_eq!(text(&b, "/x"), hit(&first), "it cannot know");
    wait::until(DEADLINE, "the failure in the log", || a.stderr().contains("a change did not reach Redis"));
    redis.restart();
    wait::until(DEADLINE, "the other to hear of the change", || text(&b, "/x").0 != first);
    wait::until(DEADLINE, "the recovery in the log", || a.stderr().contains("changes reach Redis again"));
}

/// What cannot be stored is not looked for in Redis by each request.
#[test]
fn a_response_that_cannot_be_stored_is_not_looked_for_in_redis() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[("Cache-Control", "no-store")]));
    let weir = gateway(&origin, &redis, BOTH);
    text(&weir, "/x");
    let before = calls(&redis, "get");
    (0..50).for_each(|_| drop(text(&weir, "/x")));
    assert_eq!(calls(&redis, "get"), before);
    assert_eq!(origin.request_count(), 51);
}

/// A Redis that takes no writes does not make the gateway hold all responses for it.
#[test]
fn writes_to_a_slow_redis_are_bounded_and_what_is_dropped_is_counted() {
    const MANY: u64 = 40;
    let redis = Redis::start();
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Upstream::start(move |conn, _| {
            conn.pass(&gate)?;
            conn.respond(200, &[], vec![b'x'; 900_000])
        })
    };
    let weir = gateway(&origin, &redis, REDIS);
    let mut clients: Vec<RawClient> = (0..MANY)
        .map(|number| {
            let mut client = weir.connect();
            client.set_deadline(DEADLINE);
            client.request("GET", &format!("/{number}"), &[], "");
            client
        })
        .collect();
    origin.wait_for_requests(MANY as usize);
    redis.cli(["CLIENT", "PAUSE", "600000", "WRITE"]);
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.read_response().status(), 200));
    let metrics = weir.admin_get("/metrics");
    let line = metrics.text().lines().find_map(|line| line.strip_prefix("cache_writes_dropped_total{cache=\"c\"} "));
    let dropped: u64 = line.expect("the metric").parse().unwrap();
    // Two workers with 8 MiB each.
    assert!(dropped >= MANY - 2 * 9, "{dropped}");
    redis.cli(["CLIENT", "UNPAUSE"]);
    wait::until(DEADLINE, "a response to be written again", || text(&weir, "/again").1.as_deref() == Some("HIT"));
}

#[test]
fn a_purge_that_redis_does_not_take_is_reported_and_made_up_for() {
    let redis = Redis::builder().set("appendonly", "yes").set("appendfsync", "always").start();
    let origin = Upstream::start(counting(&[]));
    let a = gateway_with(&origin, &setting(&redis), BOTH);
    assert_eq!(text(&a, "/x").0, "answer 1");
    wait_for_keys(&redis, 1);
    redis.cli(["SHUTDOWN", "NOSAVE"]);
    let failed = purge(&a, r#"{"url": "http://test/x"}"#);
    assert_eq!(failed.status(), 503, "{failed:?}");
    assert!(failed.text().contains("1 responses were purged in this process, but Redis did not take"), "{failed:?}");
    redis.restart();
    assert_eq!(keys(&redis).len(), 1, "the response is there again");
    wait::until(DEADLINE, "the purge in Redis", || keys(&redis).iter().any(|key| key.ends_with(":purges")));
    assert_ne!(fresh(&origin, &setting(&redis)), "answer 1");
    assert_eq!(purge(&a, r#"{"url": "http://test/x"}"#).status(), 200);
}

/// A purge of one URL leaves the fetch of another alone.
#[test]
fn a_purge_discards_only_the_fetches_that_it_concerns() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Upstream::start(move |conn, _| {
            conn.pass(&gate)?;
            conn.respond(200, &[], "body")
        })
    };
    let redis = Redis::start();
    let weir = gateway(&origin, &redis, BOTH);
    let mut clients: Vec<RawClient> = ["/x", "/y"]
        .map(|target| {
            let mut client = weir.connect();
            client.request("GET", target, &[], "");
            client
        })
        .into();
    origin.wait_for_requests(2);
    assert_eq!(purge(&weir, r#"{"url": "http://test/x"}"#).status(), 200);
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.read_response().text(), "body"));
    assert_eq!(text(&weir, "/y"), hit("body"));
    assert_eq!(text(&weir, "/x").1.as_deref(), Some("MISS"));
    assert_eq!(count(&weir, "store_errors"), 0);
}

#[test]
fn a_slow_older_fetch_does_not_replace_a_newer_response() {
    let gate = Gate::new();
    let origin = {
        let gate = gate.clone();
        Upstream::start(move |conn, request| {
            if request.head.field("x-slow").is_some() {
                conn.pass(&gate)?;
                return conn.respond(200, &[("Cache-Control", "max-age=1000")], "old");
            }
            conn.respond(200, &[("Cache-Control", "max-age=1000")], "new")
        })
    };
    let redis = Redis::start();
    let cache = "{mode: http, store: [memory, redis]}";
    let (a, b) = (gateway(&origin, &redis, cache), gateway(&origin, &redis, cache));
    let mut slow = a.connect();
    slow.set_deadline(DEADLINE);
    slow.request("GET", "/x", &[("X-Slow", "1")], "");
    origin.wait_for_requests(1);
    // A newer one in this gateway's memory, and by another gateway in Redis.
    assert_eq!(a.request("GET", "/x", &[("Cache-Control", "no-cache")], "").text(), "new");
    assert_eq!(b.request("GET", "/x", &[("Cache-Control", "no-cache")], "").text(), "new");
    wait_for_keys(&redis, 1);
    gate.open();
    assert_eq!(slow.read_response().text(), "old");
    // One more write behind it: when it is there, the old one is no longer on its way.
    text(&a, "/y");
    wait_for_keys(&redis, 2);
    assert_eq!(text(&a, "/x"), hit("new"));
    assert_eq!(text(&gateway(&origin, &redis, cache), "/x"), hit("new"));
}

#[test]
fn credentials_are_in_no_key_and_no_value() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[("Vary", "Accept-Language")]));
    let cache = "{mode: ttl, store: redis, partition_by: ['header:Authorization', 'header:X-API-Key']}";
    let with = |secret: &str| {
        let redis = format!("url: '{}', timeout: 10s, secret: '{secret}'", redis.url());
        gateway_with(&origin, &redis, cache)
    };
    let get = |weir: &Weir| {
        let fields = [("Authorization", "Bearer t0ken"), ("X-API-Key", "k3y"), ("Accept-Language", "de")];
        let response = weir.request("GET", "/", &fields, "");
        (response.text().to_owned(), response.field("x-cache").map(str::to_owned))
    };
    let weir = with("0123456789abcdef");
    get(&weir);
    wait_for_keys(&redis, 2);
    for name in keys(&redis) {
        let value = redis.cli(["EVAL", "return redis.sha1hex(redis.call('GET', KEYS[1])) .. tostring(string.find(redis.call('GET', KEYS[1]), 't0ken', 1, true)) .. tostring(string.find(redis.call('GET', KEYS[1]), 'k3y', 1, true))", "1", &name]);
        assert!(value.trim().ends_with("nilnil"), "{value}");
        assert!(!name.contains("t0ken") && !name.contains("k3y"), "{name}");
    }
    assert_eq!(get(&with("0123456789abcdef")), hit("answer 1"));
    assert_eq!(get(&with("fedcba9876543210")).0, "answer 2", "another secret, other keys");
}
