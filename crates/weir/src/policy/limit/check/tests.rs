//! All limits of a request or none, also when many requests come at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::config::{Config, LimitId, load_text};
use crate::observe::Metrics;
use crate::policy::limit::Limits;

fn config(limits: &str) -> Config {
    let yaml =
        format!("listen: 127.0.0.1:0\nlimits:\n{limits}routes: [{{match: {{path: /}}, respond: {{body: x}}}}]\n");
    load_text("test", &yaml, &|_| None).unwrap_or_else(|problems| panic!("{problems}")).config
}

/// The limits of a file, for one of `workers`.
fn worker(shared: &Arc<Limits>, index: usize, workers: usize) -> (WorkerLimits, RouteLimits) {
    let count = shared.iter().map(|(index, _)| index + 1).max().unwrap_or(0);
    let limits = WorkerLimits::new(shared.clone(), count, &Metrics::new().shard(index), workers, None);
    let route = limits.of_route(&(0..count).map(LimitId).collect::<Vec<_>>());
    (limits, route)
}

fn with_request<R>(fields: &str, use_it: impl FnOnce(&LimitInput<'_>) -> R) -> R {
    let buf = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let mut head = RequestHead::default();
    head.parse(buf.as_bytes(), 0, buf.len(), &h1::Limits::default()).unwrap();
    let client = std::net::IpAddr::from([192, 0, 2, 1]).into();
    use_it(&LimitInput {
        head: &head,
        buf: buf.as_bytes(),
        client,
        peer_is_trusted: false,
        route: "r",
        identity: None,
        model: None,
    })
}

#[test]
fn many_workers_charge_every_limit_the_same() {
    const THREADS: usize = 8;
    let config = config(
        "  client: {algorithm: fixed_window, quota: 100000, window: 1h}\n  \
           window: {algorithm: sliding_window, key: header:x, quota: 90000, window: 24h}\n  \
           flight: {algorithm: concurrency, key: global, quota: 5}\n  \
           all: {key: global, rate: 1/h, burst: 5000}\n",
    );
    let shared = Arc::new(Limits::new(&config, None));
    let admitted = AtomicU64::new(0);
    let most = AtomicU64::new(0);
    let flying = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (shared, admitted, most, flying) = (&shared, &admitted, &most, &flying);
            scope.spawn(move || {
                let (limits, route) = worker(shared, thread, 1);
                let mut work = Work::default();
                with_request("X: 1\r\n", |input| {
                    for _ in 0..3000 {
                        if check_local(&mut work, &limits, &route, Stage::All, input) == Verdict::Allowed {
                            admitted.fetch_add(1, Relaxed);
                            most.fetch_max(flying.fetch_add(1, Relaxed) + 1, Relaxed);
                            std::thread::yield_now();
                            flying.fetch_sub(1, Relaxed);
                        }
                        work.release();
                    }
                });
            });
        }
    });
    let (admitted, most) = (admitted.into_inner(), most.into_inner());
    assert!(admitted <= 5000 && admitted > 0 && most <= 5, "{admitted} admitted, {most} at once");
    // What is left of each says what it was charged: what was taken back is back.
    let (limits, route) = worker(&shared, 0, 1);
    let mut work = Work::default();
    let left = with_request("X: 1\r\n", |input| {
        assert_eq!(check_local(&mut work, &limits, &route, Stage::All, input) == Verdict::Allowed, admitted < 5000);
        work.checks
            .iter()
            .map(|check| limits.get(check.limit).unwrap().limit.memory.peek(check.key, 1, shared.now()))
            .collect::<Vec<_>>()
    });
    let one_more = u64::from(admitted < 5000);
    assert_eq!(left[0].remaining + 1, 100_000 - admitted - one_more);
    assert_eq!(left[1].remaining + 1, 90_000 - admitted - one_more);
    work.release();
    assert_eq!(shared.get(2).unwrap().memory.keys(), 1);
}

#[test]
fn a_refusal_names_the_first_limit_that_refuses_and_writes_nothing() {
    let config = config("  wide: {rate: 1/h, burst: 9}\n  narrow: {key: global, rate: 1/h, burst: 1}\n");
    let shared = Arc::new(Limits::new(&config, None));
    let (limits, route) = worker(&shared, 0, 1);
    let mut work = Work::default();
    with_request("", |input| {
        assert_eq!(check_local(&mut work, &limits, &route, Stage::All, input), Verdict::Allowed);
        for _ in 0..3 {
            let verdict = check_local(&mut work, &limits, &route, Stage::All, input);
            assert!(matches!(verdict, Verdict::Refused(LimitCheck { limit: 1, .. })), "{verdict:?}");
        }
    });
    let wide = work.checks[0];
    assert_eq!(shared.get(0).unwrap().memory.peek(wide.key, 8, shared.now()).remaining, 0);
}

#[test]
fn a_limit_that_is_switched_off_is_not_checked() {
    let config =
        config("  off: {algorithm: fixed_window, key: header:x, quota: 0, window: 1s, missing_key: {status: 400}}\n");
    let shared = Arc::new(Limits::new(&config, None));
    let limits = WorkerLimits::new(shared, 1, &Metrics::new().shard(0), 1, None);
    assert!(limits.of_route(&[LimitId(0)]).is_empty());
}

#[test]
fn what_a_client_chooses_is_counted_once() {
    let config = config("  l: {key: [header:x, query:q], rate: 1/h, burst: 1}\n");
    let shared = Arc::new(Limits::new(&config, None));
    let (limits, route) = worker(&shared, 0, 1);
    let mut work = Work::default();
    let mut check = |fields: &str| {
        with_request(fields, |input| check_local(&mut work, &limits, &route, Stage::All, input) == Verdict::Allowed)
    };
    assert!(check("X: 1\r\n") && !check("x:   1  \r\n"), "names and white space do not matter");
    assert!(check("") && !check("X:\r\n") && !check("X: 2\r\nX: 3\r\n"), "nothing, empty and ambiguous are the same");
}
