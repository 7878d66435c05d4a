//! A Redis that is away, slow or holds nonsense.

use std::collections::BTreeMap;
use std::thread;

use testkit::{DEADLINE, Redis, RedisCluster, RedisSentinel, Upstream, responder, wait};

use super::{
    builder, create, followed, followed_again, good, id, invented, lookups, metric, name, revoke, rig, rig_with,
    status, weir_keys, yaml,
};

#[test]
fn without_redis_known_keys_hold_and_others_get_503() {
    let rig = rig_with(Redis::builder().set("appendonly", "yes").set("appendfsync", "always").start());
    let (used, unused) = (create(&rig.redis.url(), "shop", &[]), create(&rig.redis.url(), "bank", &[]));
    assert_eq!(rig.status(&used), 200);
    // Everything has to be looked up once more when changes are followed again; then Redis goes before that happens.
    rig.redis.restart();
    followed_again(&rig.weir, 1);
    let known = || metric(&rig.weir, "api_key_lookups_total", ",outcome=\"known\"");
    let before = known();
    // The connection of a worker may be made anew later than the subscription.
    wait::until(DEADLINE, "it is looked up once more", || {
        assert_eq!(rig.status(&used), 200);
        known() > before
    });
    assert_eq!((rig.status(&used), known() - before), (200, 1), "once, for both workers");
    rig.redis.restart();
    followed_again(&rig.weir, 2);
    rig.redis.kill();
    followed(&rig.weir, false);

    let failed = metric(&rig.weir, "api_key_lookups_total", ",outcome=\"failed\"");
    for _ in 0..3 {
        assert_eq!(rig.status(&used), 200, "a key that was known holds");
    }
    assert!(metric(&rig.weir, "api_key_lookups_total", ",outcome=\"failed\"") >= failed + 3, "and was looked up");
    for key in [&*unused, &*invented(), "sk-an-imported-key-of-somebody"] {
        let response = rig.weir.request("GET", "/a/x", &[("X-API-Key", key)], "");
        assert_eq!(response.status(), 503, "never 401: the client would throw a good key away");
        assert!(response.field("retry-after").is_some() && response.field("www-authenticate").is_none());
        assert!(response.text().contains("the key store does not respond"), "{}", response.text());
    }
    // What needs no store is refused as ever.
    assert_eq!(rig.status("wk_nonsense"), 401);
    assert_eq!(rig.weir.get("/a/x").status(), 401);
    assert_eq!(rig.weir.get("/open/x").status(), 200);
    assert!(rig.weir.admin_get("/healthz").text().contains(r#""keys":"degraded""#));
    wait::until(DEADLINE, "lines of the log", || {
        rig.weir.stdout().matches(r#""reason":"auth_unavailable""#).count() == 3
    });

    rig.redis.restart();
    followed(&rig.weir, true);
    wait::until(DEADLINE, "the unused key opens", || rig.status(&unused) == 200);
    // Each worker has a connection of its own, which is made when it is made.
    wait::until(DEADLINE, "unknown keys are unknown", || {
        assert_eq!(rig.status(&used), 200);
        (0..8).all(|_| rig.status(&invented()) == 401)
    });
    revoke(&rig.redis.url(), &used);
    wait::until(DEADLINE, "the revoked key is refused", || rig.status(&used) == 401);
}

#[test]
fn a_key_that_is_revoked_while_changes_are_not_followed_is_refused_when_they_are_again() {
    let rig = rig();
    let key = create(&rig.redis.url(), "shop", &[]);
    assert_eq!(rig.status(&key), 200);
    // Redis stays, the subscription's connection goes, and nobody is told of the change.
    rig.redis.cli(["HSET", &name(&key), "disabled", "true"]);
    let clients = rig.redis.cli(["CLIENT", "LIST"]);
    let subscription = clients.lines().find(|line| line.contains("name=weir-subscription")).unwrap().to_owned();
    let number = subscription.split_whitespace().find_map(|word| word.strip_prefix("id=")).unwrap().to_owned();
    assert_eq!(rig.status(&key), 200, "nothing says that it changed");
    rig.redis.cli(["CLIENT", "KILL", "ID", &number]);
    wait::until(DEADLINE, "the revoked key is refused", || rig.status(&key) == 401);
    let said = |text: &str| rig.weir.stderr().contains(text);
    wait::until(DEADLINE, "a line of the log", || said("changes of API keys are not followed"));
    wait::until(DEADLINE, "that is over", || said("changes of API keys are followed again"));
}

#[test]
fn a_redis_that_lost_its_data_knows_no_key() {
    let rig = rig();
    let key = create(&rig.redis.url(), "shop", &[]);
    assert_eq!(rig.status(&key), 200);
    rig.redis.restart();
    followed_again(&rig.weir, 1);
    wait::until(DEADLINE, "the key is unknown", || rig.status(&key) == 401);
}

/// A Redis that hangs costs requests with other keys their timeout, and nobody else anything.
#[test]
fn a_slow_redis_stalls_no_other_request() {
    let (redis, upstream) = (Redis::start(), Upstream::start(responder::ok("hello")));
    let weir = builder().config(yaml(&redis.url(), &upstream, "", "").replace("timeout: 10s", "timeout: 1ms")).start();
    followed(&weir, true);
    let known = create(&redis.url(), "shop", &[]);
    wait::until(DEADLINE, "the key opens", || status(&weir, &known) == 200);
    redis.pause();
    let statuses = thread::scope(|scope| {
        let flood: Vec<_> = (0..200).map(|_| scope.spawn(|| status(&weir, &invented()))).collect();
        for _ in 0..50 {
            assert_eq!(status(&weir, &known), 200);
            assert_eq!(weir.get("/open/x").status(), 200);
        }
        flood.into_iter().fold(BTreeMap::new(), |mut all, thread| {
            *all.entry(thread.join().unwrap()).or_insert(0) += 1;
            all
        })
    });
    assert_eq!(statuses, BTreeMap::from([(503, 200)]));
    redis.resume();
    wait::until(DEADLINE, "unknown keys are unknown", || status(&weir, &invented()) == 401);
}

#[test]
fn an_entry_that_is_none_is_503_for_its_key_alone_until_it_is_mended() {
    let rig = rig();
    let url = rig.redis.url();
    let keys: Vec<String> = ["a", "b", "c", "d", "e"].map(|consumer| create(&url, consumer, &[])).into();
    let names: Vec<String> = keys.iter().map(|key| name(key)).collect();
    rig.redis.cli(["DEL", &names[0]]);
    rig.redis.cli(["SET", &names[0], "not a hash"]);
    rig.redis.cli(["HSET", &names[1], "expire", "2020-01-01"]);
    rig.redis.cli(["HDEL", &names[2], "consumer"]);
    rig.redis.cli(["HSET", &names[3], "not_before", "soon"]);
    let invalid = |key: &str| {
        let response = rig.weir.request("GET", "/a/x", &[("X-API-Key", key)], "");
        assert!(response.text().contains("the entry of the key in the store cannot be used"), "{}", response.text());
        response.status()
    };
    for key in &keys[..4] {
        assert_eq!(invalid(key), 503);
    }
    assert_eq!(rig.status(&keys[4]), 200);
    assert_eq!(metric(&rig.weir, "api_key_lookups_total", ",outcome=\"invalid\""), 4);
    // Once a minute, with the start of the name and without any key.
    wait::until(DEADLINE, "a line of the log", || rig.weir.stderr().contains("the entry of an API key in Redis"));
    let log = rig.weir.stderr();
    assert_eq!(log.matches("the entry of an API key in Redis cannot be used").count(), 1, "{log}");
    assert!(log.contains(&names[0][..21]) && !log.contains(&names[0]), "{log}");
    assert!(keys.iter().all(|key| !log.contains(key)));
    // The command line shows what is wrong with which.
    let listed = good(&weir_keys(&["list", "--store", &url]));
    assert!(listed.contains("it is not a hash") && listed.contains("`expire` is not known"), "{listed}");

    rig.redis.cli(["HDEL", &names[1], "expire"]);
    assert_eq!(rig.status(&keys[1]), 200, "what could not be used is not remembered");
    // One that worked goes on while its entry is broken, as with a file.
    rig.redis.cli(["HSET", &names[4], "expire", "2020-01-01"]);
    let before = lookups(&rig.redis);
    rig.redis.cli(["PUBLISH", "weir:keys:changed", "*"]);
    wait::until(DEADLINE, "it is looked up once more", || {
        assert_eq!(rig.status(&keys[4]), 200);
        lookups(&rig.redis) > before
    });
    assert_eq!(rig.status(&keys[4]), 200);
    rig.redis.cli(["PUBLISH", "weir:keys:changed", "nonsense"]);
    wait::until(DEADLINE, "a line of the log", || rig.weir.stderr().contains("neither a digest nor `*`"));
}

#[test]
fn a_gateway_starts_without_redis_and_serves_keys_when_it_is_there() {
    let redis = Redis::builder().set("appendonly", "yes").set("appendfsync", "always").start();
    let key = create(&redis.url(), "shop", &[]);
    redis.kill();
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = builder().config(yaml(&redis.url(), &upstream, "", "")).start();
    wait::until(DEADLINE, "503", || status(&weir, &key) == 503);
    assert_eq!(weir.get("/open/x").status(), 200);
    redis.restart();
    wait::until(DEADLINE, "the key opens", || status(&weir, &key) == 200);
}

/// One node of a cluster as if it were alone serves every connection and refuses most keys: only the log can say why.
#[test]
fn a_redis_that_refuses_look_ups_is_in_the_log() {
    let (cluster, upstream) = (RedisCluster::start(3), Upstream::start(responder::ok("hello")));
    let weir = builder().config(yaml(&cluster.nodes()[0].url(), &upstream, "", "")).start();
    followed(&weir, true);
    // Two keys in three belong to other nodes.
    let statuses: Vec<u16> = (0..20).map(|_| status(&weir, &invented())).collect();
    assert!(statuses.contains(&503), "{statuses:?}");
    wait::until(DEADLINE, "a line of the log", || weir.stderr().contains("Redis refuses look-ups of API keys"));
    let log = weir.stderr();
    assert_eq!((log.matches("Redis refuses look-ups").count(), log.contains("MOVED ")), (1, true), "{log}");
}

/// Redis has executed the revocation, and the replica does not know of it: after a failover the key is a good one again.
#[test]
fn a_revocation_that_a_failover_may_undo_is_reported() {
    let sentinel = RedisSentinel::start();
    let url = sentinel.url();
    let keys = |arguments: &[&str]| {
        let finished = weir_keys(&[arguments, &["--store", &url]].concat());
        (good(&finished), finished.stderr.contains("no replica has confirmed it"))
    };
    let (key, is_reported) = keys(&["create", "shop"]);
    assert!(!is_reported && !keys(&["rotate", id(&key)]).1, "the replica has both");
    sentinel.replica().pause();
    let (_, is_reported) = keys(&["revoke", id(&key)]);
    assert!(is_reported);
    assert_eq!(sentinel.primary().cli(["HGET", &name(&key), "disabled"]), "true");
    sentinel.replica().resume();
    wait::until(DEADLINE, "the replica has it", || !keys(&["revoke", id(&key)]).1);
}
