use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use testkit::{Redis as Server, RedisBuilder};

use super::{LONG_TIMEOUT, Rig, run, until};
use crate::redis::{Failure, Script, State};

fn incr() -> Script {
    Script::new("test", "return redis.call('INCRBY', KEYS[1], ARGV[1])")
}

async fn reads_and_writes(rig: &Rig) {
    let client = &rig.client;
    assert_eq!(client.get(b"k").await, Ok(None));
    let bytes: Vec<u8> = (0..=255).collect();
    client.set(b"k", &bytes, Duration::from_secs(60)).await.unwrap();
    assert_eq!(client.get(b"k").await, Ok(Some(bytes)));
    assert_eq!((client.delete(b"k").await, client.delete(b"k").await), (Ok(true), Ok(false)));
    client.set(b"brief", b"", Duration::from_nanos(1)).await.unwrap();
    until("it expires", async || client.get(b"brief").await == Ok(None)).await;
    assert_eq!(client.script(&incr(), &[b"n"], &[b"5"]).await, Ok(Value::Int(5)));
    let refused = client.command(b"n", Cmd::new().arg("GETT").arg("n")).await;
    assert!(matches!(&refused, Err(Failure::Refused(text)) if text.contains("unknown command")), "{refused:?}");
}

#[test]
fn values_scripts_and_errors_with_password_user_and_database() {
    let server = Server::builder().password("p@ss:w/rd,%").start();
    server.cli(["ACL", "SETUSER", "gate", "on", ">own#word", "~*", "+@all"]);
    let host = server.address();
    for url in [format!("redis://:p%40ss%3Aw%2Frd%2C%25@{host}"), format!("redis://gate:own%23word@{host}/7")] {
        server.cli(["FLUSHALL"]);
        let rig = Rig::new(&url, LONG_TIMEOUT);
        assert_eq!(rig.state(), State::Unused);
        run(reads_and_writes(&rig));
        assert_eq!(rig.state(), State::Up);
        assert_eq!(server.cli(["-n", if url.ends_with("/7") { "7" } else { "0" }, "GET", "n"]), "5");
        assert_eq!(rig.sample("redis_connections_opened_total", ""), 1.0);
        assert_eq!(rig.sample("redis_failures_total", "reason=\"refused\""), 1.0);
        assert!(rig.sample("redis_call_duration_seconds_count", "") >= 8.0);
    }
}

#[test]
fn tls_trusts_the_authorities_of_the_system_only() {
    let server = RedisBuilder::tls(Server::builder()).start();
    // Reading SSL_CERT_FILE is the certificates' library's work; what is tested on the program is that it does.
    let rig = Rig::new(&server.url(), LONG_TIMEOUT);
    let refused = run(async { rig.client.get(b"k").await });
    assert_eq!(refused, Err(Failure::Unavailable));
    assert_eq!(rig.state(), State::Degraded);
}

#[test]
fn many_calls_at_once_share_one_connection_and_few_packets() {
    let server = Server::start();
    let rig = Rig::new(&server.url(), LONG_TIMEOUT);
    run(async {
        let client = &rig.client;
        let script = incr();
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..500 {
            let client = client.clone();
            let script = Script::new(script.name, "return redis.call('INCRBY', KEYS[1], ARGV[1])");
            calls.spawn_local(async move { client.script(&script, &[b"n"], &[b"1"]).await });
        }
        let mut seen: Vec<i64> = Vec::new();
        while let Some(response) = calls.join_next().await {
            let Ok(Ok(Value::Int(n))) = response else { panic!("{response:?}") };
            seen.push(n);
        }
        seen.sort_unstable();
        assert_eq!(seen, (1..=500).collect::<Vec<_>>());
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SET").arg("a").arg("1").cmd("INCR").arg("a").cmd("GET").arg("a");
        let responses = client.pipeline(b"a", &pipeline).await.unwrap();
        assert_eq!(responses, [Value::Okay, Value::Int(2), Value::BulkString(b"2".to_vec())]);
        assert_eq!(client.pipeline(b"a", &Pipeline::new()).await, Ok(vec![]));
        pipeline.cmd("INCR").arg("a").arg("too many");
        assert!(matches!(client.pipeline(b"a", &pipeline).await, Err(Failure::Refused(_))));
        assert_eq!(client.get(b"a").await, Ok(Some(b"2".to_vec())), "the connection is still in step");
        let clients = server.cli(["CLIENT", "LIST"]);
        assert_eq!(clients.lines().filter(|line| line.contains("name=weir-limits")).count(), 1, "{clients}");
    });
}
