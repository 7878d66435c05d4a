use std::time::{Duration, Instant};

use redis::Value;
use testkit::{BlackHole, Redis as Server, wait};

use super::{LONG_TIMEOUT, Rig, run, until};
use crate::redis::{Failure, Script, State};

/// The default of limits.
const SHORT: Duration = Duration::from_millis(5);
/// Promised are 2 s on a machine that has nothing else to do.
const RECOVERY: Duration = Duration::from_secs(5);

#[test]
fn a_killed_redis_is_noticed_refused_at_once_and_found_again() {
    let server = Server::start();
    let rig = Rig::new(&server.url(), LONG_TIMEOUT);
    run(async {
        assert_eq!(rig.client.get(b"k").await, Ok(None));
        server.kill();
        until("the breaker opens", async || rig.client.get(b"k").await == Err(Failure::Unavailable)).await;
        assert_eq!(rig.state(), State::Degraded);
        assert!(!rig.client.may_serve(b"k"));
        assert_eq!(rig.sample("redis_breakers_open", ""), 1.0);
        let began = Instant::now();
        for _ in 0..100 {
            assert_eq!(rig.client.get(b"k").await, Err(Failure::Unavailable));
        }
        assert!(began.elapsed() < LONG_TIMEOUT, "nothing is waited for");
        server.restart();
        assert!(rig.recovers().await < RECOVERY);
        assert_eq!((rig.state(), rig.sample("redis_breakers_open", "")), (State::Up, 0.0));
    });
}

#[test]
fn a_restart_between_two_calls_fails_none_and_loads_scripts_again() {
    let server = Server::start();
    let rig = Rig::new(&server.url(), LONG_TIMEOUT);
    let script = Script::new("test", "return redis.call('INCR', KEYS[1])");
    run(async {
        assert_eq!(rig.client.script(&script, &[b"n"], &[]).await, Ok(Value::Int(1)));
        assert_eq!(rig.client.script(&script, &[b"n"], &[]).await, Ok(Value::Int(2)));
        server.restart();
        // Its end is noticed before any command is sent.
        until("a second connection", async || rig.sample("redis_connections_opened_total", "") == 2.0).await;
        assert_eq!(rig.client.script(&script, &[b"n"], &[]).await, Ok(Value::Int(1)), "NOSCRIPT is not shown");
        server.cli(["SCRIPT", "FLUSH"]);
        assert_eq!(rig.client.script(&script, &[b"n"], &[]).await, Ok(Value::Int(2)));
    });
    let stats = server.cli(["INFO", "commandstats"]);
    let count = |name: &str| {
        let line =
            stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls="))?.split(',').next());
        line.map_or(0, |n| n.parse().unwrap())
    };
    assert_eq!((count("evalsha"), count("eval")), (2, 2), "{stats}");
}

#[test]
fn a_stopped_redis_costs_a_few_calls_their_timeout_and_is_found_again() {
    let server = Server::start();
    let rig = Rig::new(&server.url(), SHORT);
    run(async {
        rig.recovers().await;
        server.pause();
        let mut timeouts = 0;
        until("the breaker opens", async || match rig.client.get(b"k").await {
            Err(Failure::TimedOut) => {
                timeouts += 1;
                false
            }
            Err(Failure::Unavailable) => true,
            // A response that was on its way.
            other => panic!("{other:?}"),
        })
        .await;
        assert_eq!(timeouts, 3, "three in a row, one after the other");
        assert_eq!(rig.state(), State::Degraded);
        server.resume();
        assert!(rig.recovers().await < RECOVERY);
        assert_eq!(rig.state(), State::Up);
    });
}

#[test]
fn calls_that_wait_at_the_same_time_count_as_one_timeout() {
    let server = Server::start();
    let rig = Rig::new(&server.url(), Duration::from_millis(100));
    run(async {
        rig.recovers().await;
        server.pause();
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let client = rig.client.clone();
            calls.spawn_local(async move { client.get(b"k").await });
        }
        let responses = calls.join_all().await;
        assert!(responses.iter().all(|response| *response == Err(Failure::TimedOut)), "{responses:?}");
        assert_eq!(rig.state(), State::Up, "one slow moment");
        server.resume();
        until("answers", async || rig.client.get(b"k").await.is_ok()).await;
        assert_eq!(rig.sample("redis_connections_opened_total", ""), 1.0, "on the same connection, still in step");
    });
}

#[test]
fn a_wrong_password_serves_nothing_until_it_is_right() {
    let server = Server::builder().password("right").start();
    let rig = Rig::new(&format!("redis://:wrong@{}", server.address()), LONG_TIMEOUT);
    run(async {
        assert_eq!(rig.client.get(b"k").await, Err(Failure::Unavailable));
        server.cli(["CONFIG", "SET", "requirepass", "wrong"]);
        assert!(rig.recovers().await < RECOVERY);
    });
}

#[test]
fn an_address_that_does_not_respond_costs_no_more_than_the_timeout() {
    let hole = BlackHole::open();
    let rig = Rig::new(&format!("redis://{}", hole.address()), SHORT);
    run(async {
        for _ in 0..3 {
            assert_eq!(rig.client.get(b"k").await, Err(Failure::TimedOut));
        }
        assert_eq!(rig.client.get(b"k").await, Err(Failure::Unavailable));
    });
}

#[test]
fn a_busy_redis_does_not_serve() {
    let server = Server::builder().set("busy-reply-threshold", "10").start();
    let rig = Rig::new(&server.url(), Duration::from_millis(100));
    std::thread::scope(|scope| {
        let endless = scope.spawn(|| {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                server.cli(["EVAL", "while true do end", "0"]);
            }));
        });
        run(async {
            until("it is busy", async || rig.client.get(b"k").await == Err(Failure::Unavailable)).await;
            server.cli(["SCRIPT", "KILL"]);
            assert!(rig.recovers().await < RECOVERY);
        });
        endless.join().unwrap();
    });
}

#[test]
fn a_client_that_is_dropped_leaves_no_connection() {
    let server = Server::start();
    run(async {
        let rig = Rig::new(&server.url(), LONG_TIMEOUT);
        rig.recovers().await;
        let Rig { redis, client, .. } = rig;
        drop(client);
        tokio::task::yield_now().await;
        assert_eq!(redis.state(crate::redis::Purpose::Limits), State::Unused);
    });
    wait::until(testkit::DEADLINE, "no connection", || !server.cli(["CLIENT", "LIST"]).contains("weir-limits"));
}
