//! Leases, refunds and several limits at once: quotas and bounds under concurrency.

use super::*;

#[test]
fn a_lease_sends_fewer_requests_and_keeps_its_bound() {
    let redis = Redis::start();
    let limits =
        "  few: {algorithm: fixed_window, quota: 100, window: 600s, key: 'header:X-API-KEY', store: redis, lease: 10}";
    let text = yaml(&redis.url(), LONG_TIMEOUT, limits, "few").replace("workers: 2", "workers: 1");
    let weir = builder().config(text).start();
    let mut client = weir.connect();
    let passed = statuses(&mut client, 150, "k").iter().filter(|status| **status == 200).count();
    assert_eq!(passed, 100, "within a window nothing is lost and nothing more is had");
    let calls = redis.cli(["INFO", "commandstats"]);
    let evals: u64 = calls
        .lines()
        .filter_map(|line| {
            line.strip_prefix("cmdstat_eval")?.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()
        })
        .sum();
    assert!(evals <= 12, "{evals} calls for 150 requests");
}

/// How many of `each` requests pass that 64 clients send at once for one key, through two gateways.
fn passed_by_concurrent_clients(gateways: &[Weir], key: &str, each: usize) -> usize {
    let start = std::sync::Barrier::new(64);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..64)
            .map(|number| {
                let (weir, start) = (&gateways[number % gateways.len()], &start);
                scope.spawn(move || {
                    let mut client = weir.connect();
                    start.wait();
                    let statuses = statuses(&mut client, each, key);
                    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
                    statuses.iter().filter(|status| **status == 200).count()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    })
}

#[test]
fn leases_of_two_gateways_use_the_whole_quota_and_keep_their_bound_under_concurrency() {
    const LEASE: usize = 10;
    let redis = Redis::start();
    let lease = format!("key: 'header:X-API-KEY', store: redis, lease: {LEASE}, on_store_failure: closed");
    let limits = format!(
        "  window: {{algorithm: fixed_window, quota: 400, window: 1h, {lease}}}\n  \
           aligned: {{algorithm: fixed_window, quota: 400, window: 8760h, aligned: true, {lease}}}\n  \
           sliding: {{algorithm: sliding_window, quota: 400, window: 240h, {lease}}}\n  \
           bucket: {{algorithm: token_bucket, rate: 1/h, burst: 400, {lease}}}"
    );
    for name in ["window", "aligned", "sliding", "bucket"] {
        let text = yaml(&redis.url(), LONG_TIMEOUT, &limits, name);
        let gateways: Vec<Weir> = (0..2).map(|_| builder().config(&text).start()).collect();
        for key in ["one", "two"] {
            // 64 x 20 requests; a few more, because the last tokens may lie in a worker whose clients have finished.
            let mut passed = passed_by_concurrent_clients(&gateways, key, 20);
            passed += passed_by_concurrent_clients(&gateways, key, 5);
            // A fixed window admits its quota exactly. From the others tokens may be spent up to a window later, so in any one window
            // (lease - 1) x workers x replicas more may pass; here nothing was prefetched in an earlier window.
            assert_eq!(passed, 400, "{name}, key {key}");
        }
    }
}

/// When requests that passed were sent and their responses received.
type Passed = Vec<(Instant, Instant)>;

/// 64 clients of one key, through all gateways, as fast as they can, until `until`. Requests that fail for want of Redis count as refused.
fn passed_until(gateways: &[Weir], until: &(dyn Fn() -> bool + Sync)) -> Passed {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..64)
            .map(|number| {
                let weir = &gateways[number % gateways.len()];
                scope.spawn(move || {
                    let mut client = weir.connect();
                    let mut passed = Vec::new();
                    while !until() {
                        let sent = Instant::now();
                        let status = get(&mut client, "/a", &[("X-API-KEY", "one")]).status();
                        assert!(matches!(status, 200 | 429 | 503), "{status}");
                        if status == 200 {
                            passed.push((sent, Instant::now()));
                        }
                    }
                    passed
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

/// Most requests that were certainly admitted within any one span of this length.
fn most_within(passed: &Passed, span: Duration) -> usize {
    let within = |from: Instant| passed.iter().filter(|(sent, got)| *sent >= from && *got <= from + span).count();
    passed.iter().map(|(sent, _)| within(*sent)).max().unwrap_or(0)
}

#[test]
fn leases_keep_their_bound_at_the_boundaries_of_windows_and_through_the_loss_of_redis() {
    const LEASE: usize = 10;
    const QUOTA: usize = 200;
    const WINDOW: Duration = Duration::from_secs(1);
    // (lease - 1) x workers x replicas.
    const AHEAD: usize = (LEASE - 1) * 2 * 2;
    let lease = format!("key: 'header:X-API-KEY', store: redis, lease: {LEASE}, on_store_failure: closed");
    let limits = format!(
        "  window: {{algorithm: fixed_window, quota: {QUOTA}, window: 1s, {lease}}}\n  \
           aligned: {{algorithm: fixed_window, quota: {QUOTA}, window: 1s, aligned: true, {lease}}}\n  \
           sliding: {{algorithm: sliding_window, quota: {QUOTA}, window: 1s, {lease}}}\n  \
           bucket: {{algorithm: token_bucket, rate: {QUOTA}/s, burst: {QUOTA}, {lease}}}"
    );
    for name in ["window", "aligned", "sliding", "bucket"] {
        for is_killed in [false, true] {
            let redis = Redis::start();
            let text = yaml(&redis.url(), "2s", &limits, name);
            let gateways: Vec<Weir> = (0..2).map(|_| builder().config(&text).start()).collect();
            let done = AtomicBool::new(false);
            let passed = thread::scope(|scope| {
                let load = scope.spawn(|| passed_until(&gateways, &|| done.load(Ordering::Relaxed)));
                let begun = Instant::now();
                if is_killed {
                    wait::until(DEADLINE, "a key in Redis", || redis.cli(["DBSIZE"]) == "1");
                    killed(&redis, &gateways[0]);
                    wait::until(DEADLINE, "a key in the new Redis", || redis.cli(["DBSIZE"]) != "0");
                }
                wait::until(DEADLINE, "three windows and more", || begun.elapsed() > WINDOW * 7 / 2);
                done.store(true, Ordering::Relaxed);
                load.join().unwrap()
            });
            for parts in [4, 2, 1] {
                // As documented: two windows of a fixed window may meet in any span, the others give more by and by.
                let bound = match name {
                    "window" | "aligned" => 2 * QUOTA,
                    _ => QUOTA + QUOTA / parts + AHEAD,
                };
                // Redis has no copy of its counts: what was spent before it was lost may be spent again.
                let bound = if is_killed { bound + QUOTA } else { bound };
                let most = most_within(&passed, WINDOW / parts as u32);
                assert!(most <= bound, "{name}, killed: {is_killed}: {most} in 1/{parts} of a window, {bound} allowed");
            }
            if !is_killed {
                // At least two whole windows, or as much as a bucket or a sliding window gives in that time.
                assert!(passed.len() >= 2 * QUOTA, "{name}: {} passed", passed.len());
            }
        }
    }
}

#[test]
fn limits_with_and_without_lease_are_charged_together_under_concurrency() {
    let redis = Redis::start();
    let limits = "  wide: {algorithm: fixed_window, quota: 300, window: 1h, key: global, store: redis, lease: 10, on_store_failure: closed}\n  \
                  narrow: {algorithm: fixed_window, quota: 100, window: 1h, key: 'header:X-API-KEY', store: redis, on_store_failure: closed}";
    let text = yaml(&redis.url(), LONG_TIMEOUT, limits, "wide, narrow");
    let gateways: Vec<Weir> = (0..2).map(|_| builder().config(&text).start()).collect();
    // What `narrow` refuses is given back to `wide`.
    for key in ["one", "two", "three"] {
        assert_eq!(passed_by_concurrent_clients(&gateways, key, 10), 100, "{key}");
    }
    assert_eq!(passed_by_concurrent_clients(&gateways, "four", 2), 0);
}

#[test]
fn refunds_on_a_cluster_leave_the_whole_quota_to_concurrent_clients() {
    let nodes = RedisCluster::start(3);
    let limits = "  wide: {algorithm: fixed_window, quota: 60, window: 1h, key: global, store: redis, on_store_failure: closed}\n  \
                  narrow: {algorithm: fixed_window, quota: 20, window: 1h, key: 'header:X-API-KEY', store: redis, on_store_failure: closed}";
    let text = yaml(&nodes.url(), "2s", limits, "wide, narrow");
    let gateways: Vec<Weir> = (0..2).map(|_| builder().config(&text).start()).collect();
    let passed: Vec<usize> =
        ["one", "two"].iter().map(|key| passed_by_concurrent_clients(&gateways, key, 10)).collect();
    assert!(passed.iter().all(|passed| *passed <= 20), "{passed:?}");
    // A refusal that was seen between a charge and its refund does not last: the rest passes soon.
    let mut total: usize = passed.iter().sum();
    let mut client = gateways[0].connect();
    let mut number = 0;
    wait::until(DEADLINE, "the rest of the quota", || {
        number += 1;
        total += statuses(&mut client, 1, &format!("rest-{number}")).iter().filter(|status| **status == 200).count();
        total == 60
    });
    assert_eq!(statuses(&mut client, 5, "over"), [429; 5]);
}
