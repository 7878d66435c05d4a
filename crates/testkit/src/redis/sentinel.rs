//! Redis with a Sentinel that replaces a primary that died.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::{Redis, server};
use crate::ports::Port;
use crate::{DEADLINE, Process, dirs, wait};

/// Two Redis, one a replica of the other, and one Sentinel that needs no one's agreement.
#[derive(Debug)]
pub struct RedisSentinel {
    pair: [Redis; 2],
    primary: AtomicUsize,
    sentinel: Process,
    port: Port,
    _dir: TempDir,
}

/// The name under which the Sentinel knows the pair.
const SERVICE: &str = "weir";

impl RedisSentinel {
    /// Starts all three and waits until the replica is in step and known to the Sentinel.
    #[track_caller]
    pub fn start() -> Self {
        // The copy is made at once instead of after 5 s in which further replicas might come.
        let primary = Redis::builder().set("repl-diskless-sync-delay", "0").start();
        let primary_port = primary.address().port().to_string();
        let replica = Redis::builder().set("replicaof", format!("127.0.0.1 {primary_port}")).start();
        // Before the Sentinel looks: it reads the primary's list of replicas at once, and then every 10 s.
        wait::until(DEADLINE, "a replica in step", || {
            replica.cli(["INFO", "replication"]).contains("master_link_status:up")
        });
        let (port, dir) = (Port::free(), dirs::temporary("sentinel"));
        let file = dir.path().join("sentinel.conf");
        // Sentinel writes what it learns into its file.
        let config = format!(
            "port {}\nbind 127.0.0.1\ndir {}\n\
             sentinel monitor {SERVICE} 127.0.0.1 {primary_port} 1\n\
             sentinel down-after-milliseconds {SERVICE} 300\n\
             sentinel failover-timeout {SERVICE} 2000\n",
            port.number(),
            dir.path().display()
        );
        fs::write(&file, config).expect("a file in the temporary directory");
        let sentinel = server().arg(&file).arg("--sentinel").start();
        sentinel.wait_for_line("the replica", |line| line.contains("+slave ").then_some(()));
        Self { pair: [primary, replica], primary: AtomicUsize::new(0), sentinel, port, _dir: dir }
    }

    /// `redis+sentinel://127.0.0.1:PORT/weir`: the Sentinel and the name of the service.
    pub fn url(&self) -> String {
        format!("redis+sentinel://{}/{SERVICE}", self.port.address())
    }

    /// The Redis that takes writes now.
    pub fn primary(&self) -> &Redis {
        &self.pair[self.primary.load(Ordering::SeqCst)]
    }

    /// The other one.
    pub fn replica(&self) -> &Redis {
        &self.pair[1 - self.primary.load(Ordering::SeqCst)]
    }

    /// Kills the primary and waits until the Sentinel has put the other one in its place. The killed one can be restarted:
    /// after some ten seconds Sentinel makes it a replica.
    #[track_caller]
    pub fn fail_over(&self) {
        let mark = self.sentinel.mark();
        let heir = self.replica();
        self.primary().kill();
        self.sentinel.wait_for_line_after(mark, "+switch-master", DEADLINE, |line| {
            line.contains("+switch-master").then_some(())
        });
        wait::until(DEADLINE, "a new primary", || heir.cli(["ROLE"]).starts_with("master"));
        self.primary.fetch_xor(1, Ordering::SeqCst);
    }
}
