//! Caches on routes with authentication: what one consumer gets, no other does.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use testkit::{DEADLINE, Redis, Upstream, Weir, wait};

fn create(file: &str, consumer: &str) -> String {
    let made = Weir::builder(env!("CARGO_BIN_EXE_weir")).args(["keys", "create", consumer, "--file", file]).command();
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    made.stdout.trim().to_owned()
}

struct Rig {
    weir: Weir,
    upstream: Upstream,
    keys: Vec<String>,
}

/// An upstream that says for whom it responds, and how many requests it got.
fn rig(cache: &str, redis: Option<&Redis>) -> Rig {
    let count = AtomicUsize::new(0);
    let upstream = Upstream::start(move |conn, request| {
        let who = request.field("x-consumer").unwrap_or("nobody").to_owned();
        let number = count.fetch_add(1, Ordering::Relaxed);
        conn.respond(200, &[("Content-Type", "text/plain")], format!("{who} {number}"))
    });
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let file = builder.dir().join("keys.yaml").display().to_string();
    let keys = ["ali", "bo"].map(|consumer| create(&file, consumer)).to_vec();
    let redis = redis.map_or(String::new(), |redis| format!("redis: {{url: '{}', timeout: 10s}}\n", redis.url()));
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\n{redis}upstreams: {{u: {{targets: ['{}']}}}}\n\
         auth: {{keys: {{api_key: {{store: {{file: {file}}}, headers: {{X-Consumer: consumer}}}}}}}}\n\
         limits: {{each: {{key: consumer, rate: 100000/s, burst: 100000}}}}\n\
         caches: {{c: {{{cache}}}}}\nroutes:\n  - match: {{path: /a/*}}\n    auth: keys\n    limits: [each]\n    cache: c\n    upstream: u\n  \
         - match: {{path: /open/*}}\n    cache: c\n    upstream: u\n",
        upstream.url()
    );
    Rig { weir: builder.config(yaml).start(), upstream, keys }
}

impl Rig {
    fn get(&self, path: &str, who: usize) -> String {
        let response = self.weir.request("GET", path, &[("X-API-Key", &self.keys[who])], "");
        assert_eq!(response.status(), 200);
        response.text().to_owned()
    }
}

fn partitions(redis: Option<&Redis>) {
    let store = if redis.is_some() { "[memory, redis]" } else { "memory" };
    let rig = rig(&format!("mode: ttl, ttl: 600s, partition_by: [consumer], store: {store}"), redis);
    let (ali, bo) = (rig.get("/a/x", 0), rig.get("/a/x", 1));
    assert!(ali.starts_with("ali ") && bo.starts_with("bo "), "{ali}, {bo}");
    // Many clients at once, of both, on a new URL: each gets its own.
    let all: BTreeSet<(usize, String)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..40)
            .map(|number| {
                let rig = &rig;
                scope.spawn(move || (number % 2, rig.get("/a/y", number % 2)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|(who, body)| body.starts_with(["ali ", "bo "][*who])), "{all:?}");
    assert_eq!(all.len(), 2, "one response for each: {all:?}");
    assert_eq!((rig.get("/a/x", 0), rig.get("/a/x", 1)), (ali, bo), "both are stored");
    assert_eq!(rig.upstream.request_count(), 4);
    // Refused before the cache is looked at.
    assert_eq!(rig.weir.get("/a/x").status(), 401);
    // An open route with the same cache has a place of its own.
    assert!(rig.weir.get("/open/x").text().starts_with("nobody "));
}

#[test]
fn each_consumer_has_responses_of_its_own() {
    partitions(None);
}

#[test]
fn each_consumer_has_responses_of_its_own_in_redis() {
    partitions(Some(&Redis::start()));
}

#[test]
fn a_refresh_in_the_background_is_for_the_same_consumer() {
    let rig = rig("mode: ttl, ttl: 1s, stale_while_revalidate: 600s, partition_by: [consumer]", None);
    let first = rig.get("/a/x", 0);
    let mut seen = BTreeSet::new();
    wait::until(DEADLINE, "a refreshed response", || {
        let now = rig.get("/a/x", 0);
        assert!(now.starts_with("ali "), "{now}");
        seen.insert(now.clone());
        now != first && seen.len() > 2
    });
}

#[test]
fn a_shared_cache_serves_everyone_who_may() {
    let rig = rig("mode: ttl, ttl: 600s, shared: true", None);
    assert_eq!(rig.get("/a/x", 0), rig.get("/a/x", 1));
    assert_eq!(rig.upstream.request_count(), 1);
    assert_eq!(rig.weir.get("/a/x").status(), 401);
}

#[test]
fn a_response_that_varies_by_its_sender_is_served_to_no_other() {
    let upstream = Upstream::start(|conn, request| {
        let who = request.field("x-consumer").unwrap_or("nobody").to_owned();
        conn.respond(200, &[("Cache-Control", "public, max-age=600"), ("Vary", "Accept, x_consumer")], who)
    });
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let file = builder.dir().join("keys.yaml").display().to_string();
    let keys = ["ali", "bo"].map(|consumer| create(&file, consumer));
    let yaml = format!(
        "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: ['{}']}}}}\n\
         auth: {{keys: {{api_key: {{store: {{file: {file}}}, headers: {{X-Consumer: consumer}}}}}}}}\n\
         caches: {{c: {{mode: http, shared: true}}}}\nroutes: [{{match: {{path: /*}}, auth: keys, cache: c, upstream: u}}]\n",
        upstream.url()
    );
    let weir = builder.config(yaml).start();
    let get = |who: usize, claimed: &str| {
        let fields = [("X-API-Key", &*keys[who]), ("X-Consumer", claimed)];
        weir.request("GET", "/a", &fields[..if claimed.is_empty() { 1 } else { 2 }], "").text().to_owned()
    };
    for _ in 0..2 {
        assert_eq!([get(0, ""), get(1, ""), get(1, "ali"), get(0, "bo")], ["ali", "bo", "bo", "ali"]);
    }
}
