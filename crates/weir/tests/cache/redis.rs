//! The level in Redis: shared, there after a restart, and never a reason to fail.

use testkit::{RawClient, Redis, Upstream, Weir, responder, wait};

use crate::{DEADLINE, count, counting, x_cache};

pub(crate) fn gateway(origin: &Upstream, redis: &Redis, cache: &str) -> Weir {
    // No machine is too slow for this timeout: a slow moment must not look like a failure.
    gateway_with(origin, &format!("url: '{}', timeout: 10s", redis.url()), cache)
}

pub(crate) fn gateway_with(origin: &Upstream, redis: &str, cache: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 2\nredis: {{{redis}}}\n\
         upstreams: {{u: {{targets: [{}], retry: {{extra_attempts: 0}}}}}}\ncaches:\n  c: {cache}\n\
         routes:\n  - match: {{path: /*}}\n    upstream: u\n    cache: c\n",
        origin.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

pub(crate) fn keys(redis: &Redis) -> Vec<String> {
    redis.cli(["--raw", "KEYS", "*"]).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Waits until a response was written, which happens behind the client's back.
pub(crate) fn wait_for_keys(redis: &Redis, many: usize) {
    wait::until(DEADLINE, "the answer in Redis", || keys(redis).len() >= many);
}

pub(crate) fn text(weir: &Weir, target: &str) -> (String, Option<String>) {
    let response = weir.get(target);
    (response.text().to_owned(), x_cache(&response).map(str::to_owned))
}

pub(crate) fn hit(body: &str) -> (String, Option<String>) {
    (body.to_owned(), Some("HIT".to_owned()))
}

#[test]
fn responses_survive_a_restart_and_are_shared_by_gateways() {
    for store in ["redis", "[memory, redis]"] {
        let redis = Redis::start();
        let origin = Upstream::start(counting(&[("X-Own", "kept")]));
        let cache = format!("{{mode: ttl, store: {store}}}");
        let first = gateway(&origin, &redis, &cache);
        assert_eq!(text(&first, "/a").0, "answer 1");
        wait_for_keys(&redis, 1);
        let name = keys(&redis).remove(0);
        assert!(name.starts_with("weir:cache:c:"), "{name}");
        let ttl: i64 = redis.cli(["TTL", &name]).trim().parse().unwrap();
        assert!((1..=300).contains(&ttl), "{ttl}");
        assert_eq!(text(&first, "/a"), hit("answer 1"));
        drop(first);
        let (second, third) = (gateway(&origin, &redis, &cache), gateway(&origin, &redis, &cache));
        for weir in [&second, &third, &second] {
            assert_eq!(text(weir, "/a"), hit("answer 1"));
            assert_eq!(weir.get("/a").field("x-own"), Some("kept"));
        }
        assert_eq!(origin.request_count(), 1);
        assert!(second.admin_get("/cachez").text().contains(r#""backend":"redis""#));
    }
}

#[test]
fn variants_are_found_by_a_gateway_that_never_saw_one() {
    let redis = Redis::start();
    let origin = Upstream::start(|conn, request| {
        let language = request.head.field("accept-language").unwrap_or("-").to_owned();
        conn.respond(200, &[("Vary", "Accept-Language")], language)
    });
    let get = |weir: &Weir, language| {
        let response = weir.request("GET", "/", &[("Accept-Language", language)], "");
        (response.text().to_owned(), x_cache(&response).map(str::to_owned))
    };
    let first = gateway(&origin, &redis, "{mode: ttl, store: redis}");
    get(&first, "de");
    get(&first, "en");
    wait_for_keys(&redis, 3);
    let second = gateway(&origin, &redis, "{mode: ttl, store: [memory, redis]}");
    for _ in 0..2 {
        assert_eq!(get(&second, "en"), hit("en"));
        assert_eq!(get(&second, "de"), hit("de"));
    }
    assert_eq!(origin.request_count(), 2);
    assert_eq!(get(&second, "fr").0, "fr");
}

#[test]
fn a_redis_that_is_away_is_no_reason_to_fail() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, &redis, "{mode: ttl, store: redis}");
    text(&weir, "/a");
    wait_for_keys(&redis, 1);
    redis.cli(["SHUTDOWN", "NOSAVE"]);
    for _ in 0..20 {
        assert_eq!(weir.get("/a").status(), 200);
    }
    assert!(count(&weir, "store_errors") > 0);
    redis.restart();
    wait::until(DEADLINE, "hits again", || text(&weir, "/a").1.as_deref() == Some("HIT"));
}

#[test]
fn a_redis_that_does_not_respond_is_no_reason_to_wait_or_fail() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[]));
    // The timeout is the one that is there when nothing is configured.
    let weir = gateway_with(&origin, &format!("url: '{}'", redis.url()), "{mode: ttl, store: redis}");
    wait::until(DEADLINE, "a hit", || text(&weir, "/a").1.as_deref() == Some("HIT"));
    let errors = count(&weir, "store_errors");
    redis.cli(["CLIENT", "PAUSE", "600000", "ALL"]);
    for _ in 0..50 {
        let response = weir.get("/a");
        assert_eq!((response.status(), x_cache(&response)), (200, Some("MISS")));
    }
    assert!(count(&weir, "store_errors") > errors);
    // Gone and back, with nothing in it.
    redis.restart();
    wait::until(DEADLINE, "hits again", || text(&weir, "/a").1.as_deref() == Some("HIT"));
}

#[test]
fn memory_goes_on_serving_when_redis_is_away() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, &redis, "{mode: ttl, store: [memory, redis]}");
    text(&weir, "/a");
    redis.cli(["SHUTDOWN", "NOSAVE"]);
    assert_eq!(text(&weir, "/a"), hit("answer 1"));
    assert_eq!(text(&weir, "/b").0, "answer 2");
    assert_eq!(text(&weir, "/b"), hit("answer 2"));
}

#[test]
fn a_confirmed_response_is_confirmed_for_every_gateway() {
    let redis = Redis::start();
    let origin = Upstream::start(|conn, request| {
        let fields = [("Cache-Control", "max-age=100"), ("ETag", "\"a\"")];
        match request.head.field("if-none-match") {
            Some("\"a\"") => conn.respond(304, &fields, ""),
            _ => conn.respond(200, &[fields[0], fields[1], ("Age", "200")], "body"),
        }
    });
    let (first, second) = (
        gateway(&origin, &redis, "{mode: http, store: redis}"),
        gateway(&origin, &redis, "{mode: http, store: redis}"),
    );
    // Stale when it comes.
    assert_eq!(text(&first, "/").0, "body");
    wait_for_keys(&redis, 1);
    let confirmed = second.get("/");
    assert!(confirmed.field("cache-status").unwrap().contains("fwd-status=304"), "{confirmed:?}");
    assert_eq!(confirmed.text(), "body");
    wait::until(DEADLINE, "the other to find it fresh", || text(&first, "/") == hit("body"));
    assert_eq!(origin.requests().iter().filter(|request| request.head.field("if-none-match").is_none()).count(), 1);
}

#[test]
fn garbage_in_redis_is_nothing() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, &redis, "{mode: ttl, store: redis}");
    text(&weir, "/a");
    wait_for_keys(&redis, 1);
    let name = keys(&redis).remove(0);
    for garbage in ["", "x", "\u{2}A", "\u{2}Vxxxxxxxxxxxxxxxxxxxx", "\u{3}A0000000000000000000000000000000"] {
        redis.cli(["SET", &name, garbage]);
        let response = weir.get("/a");
        assert_eq!((response.status(), x_cache(&response)), (200, Some("MISS")), "{garbage:?}");
        wait::until(DEADLINE, "the answer to be written again", || {
            redis.cli(["STRLEN", &name]).trim() != garbage.len().to_string()
        });
    }
}

#[test]
fn purges_and_changes_reach_every_gateway() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[("Cache-Control", "max-age=1000")]));
    let cache = "{mode: http, store: [memory, redis]}";
    let (a, b) = (gateway(&origin, &redis, cache), gateway(&origin, &redis, cache));
    let first = text(&a, "/x").0;
    wait_for_keys(&redis, 1);
    assert_eq!(text(&b, "/x"), hit(&first));

    let mut admin = RawClient::connect(a.admin_addr());
    admin.request("POST", "/cache/purge", &[("Host", &a.admin_addr().to_string())], r#"{"url": "http://test/x"}"#);
    assert_eq!(admin.read_response().text(), r#"{"purged":1}"#);
    let second = text(&a, "/x").0;
    assert_ne!(second, first, "what was purged does not come back from Redis");
    wait::until(DEADLINE, "the other to hear of it", || text(&b, "/x").0 != first);

    let current = text(&a, "/x").0;
    a.request("DELETE", "/x", &[], "");
    assert_ne!(text(&a, "/x").0, current);
    wait::until(DEADLINE, "the other to hear of the change", || text(&b, "/x").0 != current);
}

/// Clocks of gateways differ: what counts is that the response was fetched before the change was heard of.
#[test]
fn a_change_by_a_gateway_whose_clock_is_behind_or_ahead_is_heard_of_once() {
    for at_ms in [1, u64::MAX / 2] {
        let redis = Redis::start();
        let origin = Upstream::start(counting(&[("Cache-Control", "max-age=1000")]));
        let weir = gateway(&origin, &redis, "{mode: http, store: [memory, redis]}");
        assert_eq!(text(&weir, "/x").0, "answer 1");
        assert_eq!(text(&weir, "/x"), hit("answer 1"));
        let change = format!(r#"{{"url":"http://test/x","at_ms":{at_ms}}}"#);
        redis.cli(["XADD", "weir:cache:{c}:changes", "*", "e", &change]);
        wait::until(DEADLINE, "the change", || text(&weir, "/x").0 == "answer 2");
        wait::until(DEADLINE, "hits again", || text(&weir, "/x").1.as_deref() == Some("HIT"));
        let before = origin.request_count();
        assert_eq!(text(&weir, "/x").1.as_deref(), Some("HIT"), "validated once, not each time");
        assert_eq!(origin.request_count(), before);
    }
}

/// What a process changed itself counts from when it did: reading its own item a second later invalidates nothing newer.
#[test]
fn a_change_of_this_process_is_not_heard_of_again() {
    let redis = Redis::start();
    let origin = Upstream::start(counting(&[("Cache-Control", "max-age=1000")]));
    let weir = gateway(&origin, &redis, "{mode: http, store: [memory, redis]}");
    text(&weir, "/x");
    weir.request("DELETE", "/x", &[], "");
    // A response that was requested in the millisecond of the change may be older than the change.
    wait::until(DEADLINE, "a hit", || text(&weir, "/x").1.as_deref() == Some("HIT"));
    let fetched = text(&weir, "/x").0;
    // Until a change after it was read, its own was too.
    text(&weir, "/y");
    redis.cli(["XADD", "weir:cache:{c}:changes", "*", "e", r#"{"url":"http://test/y","at_ms":1}"#]);
    let y = text(&weir, "/y").0;
    wait::until(DEADLINE, "the later change", || text(&weir, "/y").0 != y);
    assert_eq!(text(&weir, "/x"), hit(&fetched));
}

#[test]
fn misses_of_many_are_one_fetch_and_one_question_to_redis() {
    let redis = Redis::start();
    let gate = testkit::Gate::new();
    let origin = Upstream::start(responder::gated(&gate, responder::ok("same")));
    let weir = gateway(&origin, &redis, "{mode: ttl, store: redis}");
    let mut clients: Vec<RawClient> = (0..50)
        .map(|_| {
            let mut client = weir.connect();
            client.request("GET", "/", &[], "");
            client
        })
        .collect();
    origin.wait_for_requests(1);
    // One fetches, all others wait for it; a request that is read later than that is another miss.
    crate::coalescing::wait_for_followers(&weir, 49);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "same");
    }
    assert_eq!(origin.request_count(), 1);
}
