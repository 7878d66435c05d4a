use super::*;

fn limit(text: &str) -> Limit {
    good(&file(&format!("redis: {{url: redis://127.0.0.1}}\nlimits: {{l: {{{text}}}}}\n{ROUTE}"))).limits.remove(0)
}

fn cache(text: &str) -> Cache {
    good(&file(&format!("redis: {{url: redis://127.0.0.1}}\ncaches: {{c: {{{text}}}}}\n{ROUTE}"))).caches.remove(0)
}

fn wrong_limit(text: &str) -> Vec<String> {
    wrong(&file(&format!("limits: {{l: {{{text}}}}}\n{ROUTE}")))
}

fn wrong_cache(text: &str) -> Vec<String> {
    wrong(&file(&format!("caches: {{c: {{{text}}}}}\n{ROUTE}")))
}

#[test]
fn a_limit_has_every_default_of_the_documentation() {
    let expected = Limit {
        name: "l".into(),
        group: "l".into(),
        is_window: false,
        tiers: LimitTiers::All,
        enforce: true,
        algorithm: LimitAlgorithm::TokenBucket { rate_per_second: 20.0, burst: 40 },
        key: vec![LimitKey::ClientIp],
        store: LimitStore::Memory,
        cost: LimitCost::Fixed(1),
        max_keys: 1_000_000,
        on_store_failure: OnStoreFailure::Local,
        replicas: NonZeroU32::MIN,
        lease: NonZeroU32::MIN,
        missing_key: MissingKey::Shared,
        refusal_status: 429,
        refusal_body: None,
        headers: LimitHeaders { ietf: true, legacy: false, scope: false },
    };
    assert_eq!(limit(""), expected);
}

#[test]
fn each_algorithm_takes_its_own_keys() {
    let minute = Duration::from_secs(60);
    for (text, expected) in [
        ("rate: 300/min, burst: 1", LimitAlgorithm::TokenBucket { rate_per_second: 5.0, burst: 1 }),
        (
            "algorithm: fixed_window, quota: 3, window: 1m",
            LimitAlgorithm::FixedWindow { quota: 3, window: minute, aligned: false },
        ),
        (
            "algorithm: fixed_window, quota: 0, window: 1m, aligned: true",
            LimitAlgorithm::FixedWindow { quota: 0, window: minute, aligned: true },
        ),
        ("algorithm: sliding_window, quota: 3, window: 1m", LimitAlgorithm::SlidingWindow { quota: 3, window: minute }),
        ("algorithm: concurrency, quota: 4", LimitAlgorithm::Concurrency { quota: 4 }),
    ] {
        assert_eq!(limit(text).algorithm, expected, "{text}");
    }
    assert_eq!(
        wrong_limit("algorithm: fixed_window, rate: 20/s"),
        [
            "`rate` has no effect with this algorithm; expected `quota`, `window`, `aligned`",
            "the limit `l` needs `quota`",
            "the limit `l` needs `window`",
        ]
    );
    assert_eq!(wrong_limit("quota: 3"), ["`quota` has no effect with this algorithm; expected `rate`, `burst`"]);
    assert_eq!(wrong_limit("algorithm: concurrency"), ["the limit `l` needs `quota`"]);
}

#[test]
fn everything_a_limit_may_say_is_understood() {
    let limit = limit(
        "key: [header:X-API-KEY, query:Plan, route], store: redis, cost: {header: X-Cost}, max_keys: 5, on_store_failure: closed, replicas: 3, \
         lease: 10, missing_key: {status: 401, body: no key}, on_limit: {status: 503, body: slow down}, headers: [legacy, scope]",
    );
    assert_eq!(limit.key, [LimitKey::Header("x-api-key".into()), LimitKey::Query("Plan".into()), LimitKey::Route]);
    assert_eq!((limit.store, limit.on_store_failure), (LimitStore::Redis, OnStoreFailure::Closed));
    assert_eq!((limit.cost, limit.max_keys), (LimitCost::Header("x-cost".into()), 5));
    assert_eq!((limit.replicas.get(), limit.lease.get()), (3, 10));
    assert_eq!(limit.missing_key, MissingKey::Refuse { status: 401, body: Some("no key".into()) });
    assert_eq!((limit.refusal_status, limit.refusal_body.as_deref()), (503, Some("slow down")));
    assert_eq!(limit.headers, LimitHeaders { ietf: false, legacy: true, scope: true });
}

#[test]
fn what_a_limit_cannot_mean_is_refused() {
    assert_eq!(wrong_limit("store: redis"), ["`store: redis` needs a `redis` section"]);
    let shared = wrong_limit("algorithm: concurrency, quota: 1, store: redis");
    assert_eq!(shared, ["`store: redis` needs a `redis` section"], "requests in flight may be counted in Redis");
    assert_eq!(wrong_limit("key: []"), ["the limit `l` needs a `key`"]);
    assert!(wrong_limit("key: [global, client_ip]")[0].contains("cannot be combined"));
    assert_eq!(wrong_limit("key: [header:A, header:a]"), ["the key `header:a` is named twice"]);
    assert_eq!(wrong_limit("on_limit: {status: 200}"), ["a refusal has a status from 400 to 599"]);
    assert_eq!(wrong_limit("missing_key: {status: 302}"), ["a refusal has a status from 400 to 599"]);
}

#[test]
fn a_cache_has_every_default_of_the_documentation() {
    let expected = Cache {
        name: "c".into(),
        mode: CacheMode::Ttl(Duration::from_secs(300)),
        stores: vec![CacheStore::Memory],
        max_bytes: 256 << 20,
        max_entries: 10_000,
        max_body_bytes: 1 << 20,
        query: CacheQuery::All,
        partition_by: vec![],
        by_consumer: false,
        post_json: false,
        strips_set_cookie: false,
        stale_if_error: None,
        stale_while_revalidate: None,
        tags: vec!["cache-tag".into(), "surrogate-key".into()],
        headers: CacheHeaders { age: true, x_cache: true, cache_status: true },
    };
    assert_eq!(cache("mode: ttl"), expected);
    assert_eq!(cache("mode: http"), Cache { mode: CacheMode::Http { default_ttl: None }, ..expected });
}

#[test]
fn everything_a_cache_may_say_is_understood() {
    let cache = cache(
        "mode: http, default_ttl: 5s, store: [memory, redis], max_bytes: 1GiB, max_entries: 7, max_body: 2MiB, query: [page, size], \
         partition_by: [header:Authorization], post: json, set_cookie: strip, stale_if_error: 1h, stale_while_revalidate: 30s, tags: [X-Tag], headers: []",
    );
    assert_eq!(cache.mode, CacheMode::Http { default_ttl: seconds(5) });
    assert_eq!(cache.stores, [CacheStore::Memory, CacheStore::Redis]);
    assert_eq!((cache.max_bytes, cache.max_entries, cache.max_body_bytes), (1 << 30, 7, 2 << 20));
    assert_eq!(cache.query, CacheQuery::Only(vec!["page".into(), "size".into()]));
    assert_eq!((&*cache.partition_by, cache.post_json), (&["authorization".into()][..], true));
    assert!(cache.strips_set_cookie);
    assert_eq!((cache.stale_if_error, cache.stale_while_revalidate), (seconds(3600), seconds(30)));
    assert_eq!((&*cache.tags, cache.headers), (&["x-tag".into()][..], CacheHeaders::default()));
}

#[test]
fn a_cache_of_calls_has_keys_of_its_own() {
    let of = |text: &str| match cache(text).mode {
        CacheMode::Llm(calls) => calls,
        other => panic!("{other:?}"),
    };
    let defaults =
        CallCache { ttl: Duration::from_secs(300), any_temperature: false, is_paced: false, identities: vec![] };
    assert_eq!(of("mode: llm, shared: true"), defaults);
    assert_eq!(of("mode: llm, shared: true, replay: fast, any_temperature: false"), defaults);
    let all = "mode: llm, ttl: 1h, any_temperature: true, replay: paced, \
               partition_by: [team, virtual_key, consumer, header:X-A, tier, claim:org.id, meta:plan]";
    let identities = vec![
        LimitKey::Team,
        LimitKey::VirtualKey,
        LimitKey::Tier,
        LimitKey::Claim("org.id".into()),
        LimitKey::Meta("plan".into()),
    ];
    let expected = CallCache { ttl: Duration::from_secs(3600), any_temperature: true, is_paced: true, identities };
    assert_eq!(of(all), expected);
    let cache = cache(all);
    assert_eq!((&*cache.partition_by, cache.by_consumer), (&["x-a".into()][..], true));
}

#[test]
fn what_a_cache_cannot_mean_is_refused() {
    assert!(wrong_cache("mode: ttl, default_ttl: 5s")[0].contains("needs `mode: http`"));
    assert!(wrong_cache("mode: http, ttl: 5s")[0].contains("needs `mode: ttl`"));
    assert_eq!(wrong_cache("mode: ttl, store: redis"), ["`store: redis` needs a `redis` section"]);
    for store in ["[]", "[redis, memory]", "[memory, memory]"] {
        assert_eq!(
            wrong_cache(&format!("mode: ttl, store: {store}")),
            ["`store` is `memory`, `redis` or `[memory, redis]`"]
        );
    }
    assert!(wrong_cache("mode: ttl, max_bytes: 1KiB")[0].contains("such a body could not be stored"));
}

#[test]
fn a_redis_url_is_checked_and_never_shown() {
    for url in ["http://s3cr3t", "redis://", "s3cr3t", "redis://a b"] {
        let problems = wrong(&file(&format!("redis: {{url: '{url}'}}\n{ROUTE}")));
        assert!(problems[0].contains("redis://") && !problems[0].contains("s3cr3t"), "{problems:?}");
    }
    for url in ["redis://a", "rediss://:p@a:6379/1", "redis+cluster://a,b,c", "redis+sentinel://host/service"] {
        let config = good(&file(&format!("redis: {{url: '{url}'}}\n{ROUTE}")));
        assert_eq!(config.redis.as_ref().unwrap().url, url);
        assert!(!format!("{config:?}").contains(url), "debug output shows the URL");
    }
}

#[test]
fn fields_that_carry_credentials_are_named() {
    let config = good(&file(
        "auth:\n  service: {forward: {upstream: other, path: /check, copy: [X-Session]}}\nproviders:\n  p: {api: openai, upstream: other, headers: {X-Org: o}}\nroutes: [{match: {path: /}, upstream: app, headers: {request: {set: {X-Upstream-Token: t, X-Region: north, X-Sign-Key: \"{client_ip}\"}}}}]\n",
    ));
    let names = config.credential_fields();
    assert_eq!(
        names.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["X-Org", "X-Session", "X-Sign-Key", "X-Upstream-Token"]
    );
}
