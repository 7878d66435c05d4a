//! Requests in flight, counted in Redis for several gateways: who holds what, a gateway that is killed, a Redis that loses its data or
//! is away.

use std::time::Duration;

use testkit::{DEADLINE, Gate, Message, RawClient, Redis, Upstream, Weir, responder, wait};

/// A gateway in front of `upstream` that lets `quota` requests be in flight for all keys together; `more` are further keys of the limit.
fn gateway(redis: &Redis, upstream: &Upstream, quota: u32, more: &str) -> Weir {
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\nredis: {{url: '{}', timeout: 5s}}\n\
         upstreams: {{u: {{targets: ['{}']}}}}\n\
         limits:\n  flight: {{algorithm: concurrency, quota: {quota}, key: global, store: redis{more}}}\n  \
         often: {{algorithm: fixed_window, quota: 1000, window: 1h, key: global, store: redis}}\n\
         routes: [{{match: {{path: /*}}, limits: [flight, often], upstream: u}}]\n",
        redis.url(),
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(config).start()
}

/// Sends a request that the upstream has now.
fn hold(weir: &Weir, upstream: &Upstream) -> RawClient {
    let before = upstream.request_count();
    let mut client = weir.connect();
    client.request("GET", "/a", &[], "");
    upstream.wait_for_requests(before + 1);
    client
}

/// Whether a request reaches the upstream; if not, it was refused.
fn comes(upstream: &Upstream, before: usize) -> bool {
    wait::try_some(Duration::from_millis(300), || (upstream.request_count() > before).then_some(())).is_some()
}

fn get(weir: &Weir) -> Message {
    weir.get("/a")
}

/// What Redis has of requests in flight.
fn in_redis(redis: &Redis) -> String {
    let keys = redis.cli(["KEYS", "*:limit:*"]);
    let values = keys.lines().filter(|key| !key.is_empty()).map(|key| redis.cli(["GET", key]));
    values.filter(|value| value.contains(':')).collect()
}

fn gated() -> (Gate, Upstream) {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("hello")));
    (gate, upstream)
}

#[test]
fn places_are_shared_by_gateways_and_free_when_a_request_is_over() {
    let redis = Redis::start();
    let (gate, upstream) = gated();
    let (a, b) = (gateway(&redis, &upstream, 3, ""), gateway(&redis, &upstream, 3, ""));
    let mut held = vec![hold(&a, &upstream), hold(&b, &upstream), hold(&a, &upstream)];
    for gateway in [&a, &b] {
        assert_eq!(get(gateway).status(), 429);
    }
    // A client that leaves frees its place.
    drop(held.pop());
    let mut later = None;
    wait::until(DEADLINE, "its place is free", || {
        let mut client = b.connect();
        let before = upstream.request_count();
        client.request("GET", "/a", &[], "");
        let admitted = comes(&upstream, before);
        later = admitted.then_some(client);
        admitted
    });
    held.extend(later);
    assert_eq!(get(&a).status(), 429);
    gate.open();
    for mut client in held {
        assert_eq!(client.read_response().status(), 200);
    }
    wait::until(DEADLINE, "all places are free", || in_redis(&redis).trim().is_empty());
    for _ in 0..20 {
        assert_eq!((get(&a).status(), get(&b).status()), (200, 200));
    }
    // 20 of each, the four that were held and one by one, and no refusal: what refuses takes nothing of the other limit.
    wait::until(DEADLINE, "all places are free again", || in_redis(&redis).trim().is_empty());
}

#[test]
fn what_a_killed_gateway_held_ends_and_what_the_others_hold_does_not() {
    let redis = Redis::start();
    let (gate, upstream) = gated();
    let (a, b) = (gateway(&redis, &upstream, 3, ""), gateway(&redis, &upstream, 3, ""));
    let mut held = vec![hold(&a, &upstream), hold(&a, &upstream)];
    let lost = hold(&b, &upstream);
    assert_eq!(get(&a).status(), 429);
    b.kill();
    drop(lost);
    assert_eq!(get(&a).status(), 429, "nobody has said that it is over");
    // Longer than what is held lasts without a word of it.
    let mut third = None;
    wait::until(DEADLINE, "what the killed one held ends", || {
        let before = upstream.request_count();
        let mut client = a.connect();
        client.request("GET", "/a", &[], "");
        let admitted = comes(&upstream, before);
        third = admitted.then_some(client);
        admitted
    });
    assert_eq!(get(&a).status(), 429, "the two that are in flight still count");
    held.extend(third);
    gate.open();
    for mut client in held {
        assert_eq!(client.read_response().status(), 200);
    }
    wait::until(DEADLINE, "all places are free", || in_redis(&redis).trim().is_empty());
}

#[test]
fn a_redis_that_lost_its_data_is_told_again() {
    let redis = Redis::start();
    let (gate, upstream) = gated();
    let a = gateway(&redis, &upstream, 2, "");
    let held = [hold(&a, &upstream), hold(&a, &upstream)];
    redis.cli(["FLUSHALL"]);
    // Each worker says what it holds.
    let known = || {
        let held = in_redis(&redis);
        held.split_whitespace().filter_map(|part| part.rsplit(':').next()?.parse::<u32>().ok()).sum::<u32>()
    };
    wait::until(DEADLINE, "it knows again what is in flight", || known() == 2);
    assert_eq!(get(&a).status(), 429);
    gate.open();
    for mut client in held {
        assert_eq!(client.read_response().status(), 200);
    }
    wait::until(DEADLINE, "all places are free", || in_redis(&redis).trim().is_empty());
}

#[test]
fn without_redis_each_limit_does_what_it_says() {
    for (more, first, second) in [
        (", on_store_failure: closed", 503, 503),
        (", on_store_failure: open", 200, 200),
        (", on_store_failure: local, replicas: 2", 200, 429),
    ] {
        let redis = Redis::start();
        let (gate, upstream) = gated();
        // Of two, each of two replicas has one.
        let a = gateway(&redis, &upstream, 2, more);
        redis.kill();
        if first == 503 {
            assert_eq!((get(&a).status(), upstream.request_count()), (503, 0), "{more}");
            continue;
        }
        let mut held = hold(&a, &upstream);
        if second == 429 {
            assert_eq!(get(&a).status(), 429, "{more}");
        } else {
            drop(hold(&a, &upstream));
        }
        gate.open();
        assert_eq!(held.read_response().status(), first, "{more}");
        wait::until(DEADLINE, "its place is free", || get(&a).status() == 200);
    }
}
