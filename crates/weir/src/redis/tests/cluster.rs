use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use testkit::RedisCluster;

use super::{LONG_TIMEOUT, Rig, run, until};
use crate::redis::{Failure, Script, State, cluster};

#[test]
fn keys_are_found_wherever_they_are_and_go() {
    let nodes = RedisCluster::start(3);
    let rig = Rig::new(&nodes.url(), LONG_TIMEOUT);
    let script = Script::new("test", "return redis.call('INCR', KEYS[1])");
    run(async {
        let client = &rig.client;
        assert!(client.is_cluster());
        for n in 0..60 {
            let key = format!("key-{n}");
            let reported = nodes.nodes()[0].cli(["CLUSTER", "KEYSLOT", &key]);
            assert_eq!(cluster::slot(key.as_bytes()).to_string(), reported);
            assert_eq!(client.script(&script, &[key.as_bytes()], &[]).await, Ok(Value::Int(1)), "{key}");
        }
        assert_eq!(rig.state(), State::Up);
        assert_eq!(rig.sample("redis_connections_opened_total", ""), 3.0);

        // Half way: the slot moves, the key is still here and then there (`ASK`), and at last all know (`MOVED`).
        let key = "key-7";
        let slot = cluster::slot(key.as_bytes()).to_string();
        let from = nodes.node_of(key);
        let to = nodes.nodes().iter().find(|node| node.address() != from.address()).unwrap();
        let id = |node: &testkit::Redis| node.cli(["CLUSTER", "MYID"]);
        to.cli(["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        from.cli(["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
        assert_eq!(client.script(&script, &[key.as_bytes()], &[]).await, Ok(Value::Int(2)), "still here");
        let (host, port) = ("127.0.0.1", to.address().port().to_string());
        from.cli(["MIGRATE", host, &port, key, "0", "5000"]);
        assert_eq!(client.script(&script, &[key.as_bytes()], &[]).await, Ok(Value::Int(3)), "asked for there");
        let mut pipeline = Pipeline::new();
        pipeline.cmd("INCR").arg(key).cmd("GET").arg(key);
        let responses = client.pipeline(key.as_bytes(), &pipeline).await;
        assert_eq!(responses, Ok(vec![Value::Int(4), Value::BulkString(b"4".to_vec())]));
        for node in nodes.nodes() {
            node.cli(["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]);
        }
        assert_eq!(client.script(&script, &[key.as_bytes()], &[]).await, Ok(Value::Int(5)), "moved");
    });
}

#[test]
fn a_dead_node_fails_its_own_keys_only() {
    let nodes = RedisCluster::start(3);
    let rig = Rig::new(&nodes.url(), Duration::from_millis(200));
    run(async {
        let client = &rig.client;
        let dead = nodes.node_of("key-0");
        let (mine, others): (Vec<_>, Vec<_>) =
            (0..30).map(|n| format!("key-{n}")).partition(|key| nodes.node_of(key).address() == dead.address());
        rig.recovers().await;
        dead.kill();
        until("the breaker opens", async || client.get(mine[0].as_bytes()).await == Err(Failure::Unavailable)).await;
        for _ in 0..3 {
            for key in &others {
                assert_eq!(client.get(key.as_bytes()).await, Ok(None), "{key}");
            }
        }
        assert!(!client.may_serve(mine[0].as_bytes()) && client.may_serve(others[0].as_bytes()));
        assert_eq!(rig.state(), State::Degraded);
        dead.restart();
        until("all serve", async || {
            let mut good = true;
            for key in &mine {
                let response = client.command(key.as_bytes(), Cmd::new().arg("GET").arg(key.as_str())).await;
                good &= response.is_ok();
            }
            good
        })
        .await;
    });
}
