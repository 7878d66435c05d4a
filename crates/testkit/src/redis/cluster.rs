//! Redis Cluster.

use super::Redis;
use crate::command::{install, run};
use crate::ports::Port;
use crate::{DEADLINE, Process, wait};

/// Masters that share the 16384 slots, without replicas. A master that does not respond for half a second has failed; slots of
/// others are still served (`cluster-require-full-coverage no`).
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
    /// The ports on which the nodes connect to each other, kept while a node is down.
    _bus: Vec<Port>,
}

impl RedisCluster {
    /// Starts `masters` nodes (at least 3) and waits until each of them sees the whole cluster.
    #[track_caller]
    pub fn start(masters: usize) -> Self {
        let bus: Vec<Port> = (0..masters).map(|_| Port::free()).collect();
        let node = |bus: &Port| {
            let builder = Redis::builder().set("cluster-enabled", "yes").set("cluster-node-timeout", "500");
            let builder = builder.set("cluster-require-full-coverage", "no");
            builder.set("cluster-port", bus.number().to_string()).start()
        };
        let cluster = Self { nodes: bus.iter().map(node).collect(), _bus: bus };
        let addresses = cluster.nodes.iter().map(|node| node.address().to_string());
        let create = Process::builder("redis-cli").args(["--cluster", "create"]).args(addresses);
        run(create.args(["--cluster-replicas", "0", "--cluster-yes"]).hint(install("redis-server")));
        for node in &cluster.nodes {
            wait::until(DEADLINE, "a whole cluster", || {
                let info = node.cli(["CLUSTER", "INFO"]);
                let known = format!("cluster_known_nodes:{masters}");
                let has = |line: &str| info.lines().any(|have| have == line);
                has("cluster_state:ok") && has("cluster_slots_ok:16384") && has(&known)
            });
        }
        cluster
    }

    /// Its nodes; each can be killed, paused and restarted.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// `redis+cluster://127.0.0.1:A,127.0.0.1:B,127.0.0.1:C`.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(|node| node.address().to_string()).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The node that holds `key`.
    #[track_caller]
    pub fn node_of(&self, key: &str) -> &Redis {
        let slot: u16 = self.nodes[0].cli(["CLUSTER", "KEYSLOT", key]).parse().expect("a slot");
        let holds = |node: &&Redis| {
            let nodes = node.cli(["CLUSTER", "NODES"]);
            let me = nodes.lines().find(|line| line.contains("myself")).unwrap_or_default().to_owned();
            let mut ranges = me.split(' ').skip(8).filter_map(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                Some(first.parse().ok()?..=last.parse().ok()?)
            });
            ranges.any(|range| range.contains(&slot))
        };
        self.nodes.iter().find(holds).unwrap_or_else(|| panic!("no running node holds slot {slot} of {key}"))
    }
}
