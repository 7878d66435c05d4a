//! With limits, caches, scopes and further authenticators; and what a reload changes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use testkit::{DEADLINE, Redis, Signal, Upstream, Weir, responder, wait};

use super::{builder, create, followed, invented, lookups, metric, revoke, status, yaml};

const LIMIT: &str = "limits: {each: {key: consumer, algorithm: fixed_window, quota: 5, window: 1h, store: redis}}\n";

#[test]
fn consumers_have_one_count_in_two_gateways_and_responses_of_their_own() {
    let redis = Redis::start();
    let count = AtomicUsize::new(0);
    let upstream = Upstream::start(move |conn, request| {
        let who = request.field("x-consumer").unwrap_or("nobody").to_owned();
        conn.respond(200, &[], format!("{who} {}", count.fetch_add(1, Ordering::Relaxed)))
    });
    let top = format!("{LIMIT}caches: {{c: {{mode: ttl, ttl: 600s, partition_by: [consumer]}}}}\n");
    let routes = "  - {match: {path: /limited/*}, auth: keys, limits: [each], upstream: u}\n  \
                  - {match: {path: /cached/*}, auth: keys, cache: c, upstream: u}\n  \
                  - {match: {path: /scoped/*}, auth: keys, allow: {scopes: [\"orders:write\"], tiers: [gold]}, upstream: u}\n";
    let text = yaml(&redis.url(), &upstream, &top, routes);
    let gateways = [builder().config(&*text).start(), builder().config(&*text).start()];
    let url = redis.url();
    // Two keys of one consumer, one of another.
    let shop = [create(&url, "shop", &["--tier", "gold", "--scope", "orders:write"]), create(&url, "shop", &[])];
    let bank = create(&url, "bank", &["--tier", "gold", "--route", "a"]);
    let get = |weir: &Weir, path: &str, key: &str| weir.request("GET", path, &[("X-API-Key", key)], "");

    let statuses: Vec<u16> = thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|number| {
                let (weir, key) = (&gateways[number % 2], &shop[number / 2 % 2]);
                scope.spawn(move || get(weir, "/limited/x", key).status())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let of = |wanted| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((of(200), of(429)), (5, 15), "{statuses:?}");

    for weir in &gateways {
        let bodies: BTreeSet<String> = shop.iter().map(|key| get(weir, "/cached/x", key).text().to_owned()).collect();
        assert_eq!(bodies.len(), 1, "one consumer, one response: {bodies:?}");
        assert!(bodies.iter().all(|body| body.starts_with("shop ")), "{bodies:?}");
    }
    assert_eq!(get(&gateways[0], "/cached/x", &bank).status(), 403, "its key opens another route");
    assert_eq!(get(&gateways[0], "/a/x", &bank).status(), 200);
    assert_eq!(get(&gateways[0], "/scoped/x", &shop[0]).status(), 200);
    assert_eq!(get(&gateways[0], "/scoped/x", &shop[1]).status(), 403);
    // A hit of the cache needs a key that holds.
    revoke(&url, &shop[0]);
    wait::until(DEADLINE, "the revoked key is refused", || get(&gateways[1], "/cached/x", &shop[0]).status() == 401);
    assert_eq!(get(&gateways[1], "/cached/x", &shop[1]).status(), 200);
}

#[test]
fn a_reload_keeps_what_is_known_unless_the_store_is_another() {
    let redis = Redis::start();
    let upstream = Upstream::start(responder::ok("hello"));
    let text = yaml(&redis.url(), &upstream, "", "");
    let weir = builder().env("MORE_KEYS", listed("other", "sk-key-of-the-environment")).config(&*text).start();
    followed(&weir, true);
    let key = create(&redis.url(), "shop", &[]);
    assert_eq!(status(&weir, &key), 200);
    let before = lookups(&redis);
    let mut reloads = 0;
    let mut reload = |text: &str| {
        reloads += 1;
        weir.rewrite_config(text);
        weir.signal(Signal::HUP);
        wait::until(DEADLINE, "a reload", || weir.stderr().matches("configuration reloaded").count() >= reloads);
    };
    reload(&text.replace("X-Tier: tier, ", "").replace("path: /open/*", "path: /public/*"));
    assert_eq!(weir.get("/public/x").status(), 200, "the new routes are in force");
    for _ in 0..5 {
        assert_eq!(status(&weir, &key), 200);
    }
    assert_eq!(lookups(&redis), before, "nothing is looked up again");
    // Another namespace has other keys.
    reload(&text.replace("timeout: 10s", "timeout: 10s, namespace: shop"));
    assert_eq!(status(&weir, &key), 401);
    let of_shop = create(&redis.url(), "shop", &["--namespace", "shop"]);
    wait::until(DEADLINE, "a key of the namespace opens", || status(&weir, &of_shop) == 200);
    followed(&weir, true);
    let number = |name: &str| redis.cli(["PUBSUB", "NUMSUB", name]).lines().last().unwrap().to_owned();
    wait::until(DEADLINE, "the other channel is left", || number("weir:keys:changed") == "0");
    assert_eq!(number("shop:keys:changed"), "1", "one connection of the process");
    // An environment variable, and back.
    reload(&text.replace("store: redis", "store: {env: MORE_KEYS}"));
    assert_eq!((status(&weir, &key), status(&weir, "sk-key-of-the-environment")), (401, 200));
    wait::until(DEADLINE, "no subscription is left", || number("shop:keys:changed") == "0");
    reload(&text);
    assert_eq!((status(&weir, &key), status(&weir, &invented())), (200, 401));
    assert_eq!(metric(&weir, "auth_requests_total", ",outcome=\"unavailable\""), 0);
}

/// A line of a key file.
fn listed(consumer: &str, key: &str) -> String {
    let digest = auth::api_key::hex(&auth::api_key::sha256(key.as_bytes()));
    format!("- {{\"id\":\"{consumer}\",\"sha256\":\"{digest}\",\"consumer\":\"{consumer}\"}}\n")
}

#[test]
fn keys_from_the_environment_need_no_file() {
    let upstream = Upstream::start(responder::ok("hello"));
    let text = format!(
        "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: ['{}']}}}}\nauth: {{keys: {{api_key: {{store: {{env: GATEWAY_KEYS}}}}}}}}\n\
         routes: [{{match: {{path: /a/*}}, auth: keys, upstream: u}}]\n",
        upstream.url()
    );
    let (one, two) = ("sk-first-key-of-the-list", "sk-second-key-of-the-list");
    let weir = builder().env("GATEWAY_KEYS", listed("one", one) + &listed("two", two)).config(&*text).start();
    assert_eq!([one, two, "sk-a-key-that-nobody-has"].map(|key| status(&weir, key)), [200, 200, 401]);
    for (keys, message) in
        [(None, "`GATEWAY_KEYS` is not set or is empty"), (Some("- {\"id\": 1}"), "$GATEWAY_KEYS: line 1")]
    {
        let started = keys.iter().fold(builder(), |builder, keys| builder.env("GATEWAY_KEYS", *keys));
        let failed = started.config(&*text).run();
        assert_eq!(failed.code, Some(64));
        assert!(failed.stderr.contains(message), "{}", failed.stderr);
    }
    let changed = builder().env("GATEWAY_KEYS", listed("one", one));
    let refused = changed.args(["keys", "list", "--config", weir.config_path().to_str().unwrap()]).command();
    assert_eq!(refused.code, Some(64));
    assert!(refused.stderr.contains("in the environment variable GATEWAY_KEYS"), "{}", refused.stderr);
}
